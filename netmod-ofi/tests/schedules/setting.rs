//! Derives the parameters of a schedule from its seed: the provider, the netmods' settings,
//! possible failures.

use std::time::Duration;

use libfabric_sys::consts::{
    FI_CONTEXT, FI_CONTEXT2, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR,
};

use netmod_fake_fabric::{AddressFormat, Again, Failure, MrDialect, Progress, Settings, ToTheDead};
use netmod_ofi::OfiConfig;

use netmod_harness::Rng;
use netmod_harness::schedules::Plan;
use netmod_harness::schedules::data::seeded;

const BITS: [i32; 5] = [FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT];

/// Returns the `n`-th of the 32 sets of modes of registration.
pub fn mr_mode(n: u64) -> i32 {
    BITS.iter().enumerate().filter(|(i, _)| n >> i & 1 == 1).map(|(_, bit)| bit).sum()
}

/// Parameters of a schedule.
#[derive(Clone, Debug)]
pub struct Setting {
    pub world: Settings,
    pub cfg: OfiConfig,
    pub plan: Plan,
}

/// Derives the parameters from a seed.
pub fn of_seed(seed: u64) -> Setting {
    let mut rng = seeded(seed);
    let frame = rng.pick(&[1 << 10, 1 << 10, 1500, 4 << 10, 16 << 10]);
    let cfg = OfiConfig {
        frame,
        window: rng.pick(&[4 << 10, 8 << 10, 20_000, 64 << 10, 256 << 10]),
        rx_memory: Some(rng.pick(&[64 << 10, 64 << 10, 256 << 10])),
        register_max: rng.pick(&[0, 0, 0, 16 << 10]),
        connect_timeout: Duration::from_secs(20),
        detect: Duration::from_secs(1),
        ..OfiConfig::default()
    };
    let early = rng.one_in(3);
    let mut plan = Plan {
        ranks: 2 + rng.below(3) as usize,
        steps: 40 + rng.below(300) as usize,
        longest: rng.pick(&[200, 3000, 20_000]),
        terminates: rng.one_in(3),
        aborts: rng.one_in(4),
        kills: rng.one_in(8),
        fails: rng.one_in(8),
        transfers: !rng.one_in(4),
        early,
    };
    let quiet = rng.one_in(4);
    let rate = |rng: &mut Rng| if quiet { 0.0 } else { rng.pick(&[0.0, 0.0, 0.05, 0.3]) };
    let failing = |rng: &mut Rng| if plan.fails { rng.pick(&[0.0, 0.01, 0.05]) } else { 0.0 };
    let mut world = Settings {
        seed,
        mr_mode: mr_mode(seed),
        mr_dialect: rng.pick(&[
            MrDialect::Bits,
            MrDialect::Bits,
            MrDialect::Bits,
            MrDialect::Bits,
            MrDialect::Basic,
            MrDialect::Scalable,
        ]),
        mr_key_size: rng.pick(&[1, 2, 4, 8]),
        mr_count: rng.pick(&[8, 64, 65_536]),
        mode: rng.pick(&[0, FI_CONTEXT, FI_CONTEXT2, FI_CONTEXT | FI_CONTEXT2]),
        multi_recv: !rng.one_in(3),
        multi_recv_align: rng.pick(&[1, 8, 64]),
        inject_size: rng.pick(&[0, 16, 64, 200, 512, 4096]),
        tx_size: rng.pick(&[2, 8, 64, 256]),
        rx_size: rng.pick(&[2, 8, 64, 256]),
        unexpected_max: rng.pick(&[4, 64, 4096]),
        unexpected_full: [0, 1, 8][(seed % 3) as usize],
        max_msg_size: rng.pick(&[16 << 10, 20_000, 1 << 30]),
        iov_limit: rng.pick(&[1, 2, 4]),
        address: rng.pick(&[
            AddressFormat::Inet,
            AddressFormat::Text(40),
            AddressFormat::Text(100),
            AddressFormat::Text(300),
        ]),
        av_types: rng.pick(&[1, 2, 3]),
        progress: rng.pick(&[Progress::Auto, Progress::Manual, Progress::ClaimsAuto]),
        wait_fd: !rng.one_in(3),
        again: Again {
            send: rate(&mut rng),
            inject: rate(&mut rng),
            recv: rate(&mut rng),
            read: rate(&mut rng),
            write: rate(&mut rng),
        },
        delivery_delay: rng.pick(&[0, 0, 3, 20]),
        completion_delay: rng.pick(&[0, 0, 3, 20]),
        reorder: rng.one_in(2),
        complete_early: !rng.one_in(3),
        failure: Failure {
            send: failing(&mut rng),
            recv: failing(&mut rng),
            read: failing(&mut rng),
            write: failing(&mut rng),
        },
        negative_errors: rng.one_in(2),
        anonymous_errors: plan.fails && rng.one_in(4),
        short_length: if rng.one_in(3) { 0.2 } else { 0.0 },
        release_alone: if rng.one_in(3) { 0.5 } else { 0.0 },
        spurious: if rng.one_in(4) { 0.05 } else { 0.0 },
        close_loses: rng.one_in(4),
        to_the_dead: rng.pick(&[ToTheDead::Silence, ToTheDead::Again, ToTheDead::Error]),
        ..Settings::default()
    };
    if plan.kills && world.to_the_dead != ToTheDead::Error || world.anonymous_errors {
        // Operations that never end keep their memory until the endpoint is closed, which another
        // test covers.
        plan.transfers = false;
    }
    // The provider must be able to send a whole frame.
    world.max_msg_size = world.max_msg_size.max(frame);
    Setting { world, cfg, plan }
}
