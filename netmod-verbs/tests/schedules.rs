//! Random schedules of netmods over simulated devices: two to four processes in one thread,
//! simulated time, and everything that devices and networks may lack, delay or lose; over reliable
//! connections, and over XRC with several processes per node. `NETMOD_TEST_SEEDS` is the number of
//! seeds, or their range (`5000..10000`); `NETMOD_TEST_SEED` selects one.

use std::time::Duration;

use hca::{LinkLayer, Mtu};
use netmod_core::{PeerName, Time};
use netmod_harness::schedules::data::seeded;
use netmod_harness::schedules::{Plan, Run, Seen, World, asked, each};
use netmod_sim_hca::{DeviceId, DeviceSettings, Fabric, Faults, Leaks, Settings, SimHca, TgtLife};
use netmod_sim_verbs::{Only, Opened, SimVerbs};
use netmod_verbs::Verbs;
use netmod_verbs::VerbsConfig;

/// Default seeds: the first ones, and some that have found errors.
const SEEDS: u64 = 300;
const FOUND: [u64; 2] = [29_777, 49_477];
const FOUND_OVER_XRC: [u64; 2] = [46_522, 54_562];

#[derive(Clone, Debug)]
struct Setting {
    fabric: Settings,
    device: DeviceSettings,
    cfg: VerbsConfig,
    plan: Plan,
    /// Node of each rank.
    nodes: Vec<usize>,
    /// Ranks that request XRC.
    wants: Vec<bool>,
    /// A node whose device has no XRC.
    without: Option<usize>,
}

/// Derives the parameters from a seed.
fn of_seed(seed: u64) -> Setting {
    let mut rng = seeded(seed ^ 0x5EED);
    let cfg = VerbsConfig {
        frame: rng.pick(&[1 << 10, 1500, 4 << 10, 8 << 10]),
        window: rng.pick(&[4 << 10, 8 << 10, 20_000, 64 << 10, 256 << 10]),
        rx_memory: rng.pick(&[64 << 10, 64 << 10, 256 << 10]),
        register_max: rng.pick(&[0, 0, 0, 16 << 10]),
        connect_timeout: Duration::from_secs(20),
        detect: Duration::from_secs(1),
        ..VerbsConfig::default()
    };
    let kills = rng.one_in(8);
    let plan = Plan {
        ranks: 2 + rng.below(3) as usize,
        steps: 40 + rng.below(300) as usize,
        longest: rng.pick(&[200, 3000, 20_000]),
        terminates: rng.one_in(3),
        aborts: rng.one_in(4),
        kills,
        fails: false,
        transfers: !rng.one_in(4),
        early: rng.one_in(3),
    };
    let fabric = Settings {
        seed,
        delay_min: Duration::ZERO,
        delay_max: Duration::from_micros(rng.pick(&[0, 2, 50, 1000])),
        faults: Faults {
            loss: rng.pick(&[0.0, 0.0, 0.001, 0.02]),
            rnr: rng.pick(&[0.0, 0.0, 0.05]),
            ..Faults::default()
        },
        ..Settings::default()
    };
    let mut device = DeviceSettings::new("sim0");
    device.mtu = rng.pick(&[Mtu::B1024, Mtu::B4096]);
    device.max_inline = rng.pick(&[0, 60, 220]);
    device.link_layer = rng.pick(&[LinkLayer::InfiniBand, LinkLayer::Ethernet]);
    device.max_msg_size = rng.pick(&[16 << 10, 20_000, 1 << 30]);
    device.attr.max_qp_wr = rng.pick(&[4, 16, 256]);
    device.attr.max_srq_wr = rng.pick(&[8, 32_767]);
    (device.attr.max_qp_rd_atom, device.attr.max_qp_init_rd_atom) = rng.pick(&[(1, 1), (16, 16)]);
    device.srq_limit_at_once = rng.one_in(2);
    let (nodes, wants) = (vec![0; plan.ranks], vec![false; plan.ranks]);
    Setting { fabric, device, cfg, plan, nodes, wants, without: None }
}

/// Derives the parameters for XRC from a seed.
fn of_seed_with_xrc(seed: u64) -> Setting {
    let mut s = of_seed(seed);
    let mut rng = seeded(seed ^ 0x3C3C);
    s.fabric.tgt_life = rng.pick(&[TgtLife::Handles, TgtLife::Domain]);
    s.plan.ranks = 2 + rng.below(4) as usize;
    let nodes = 1 + rng.below(3);
    s.nodes = (0..s.plan.ranks).map(|_| rng.below(nodes) as usize).collect();
    s.wants = (0..s.plan.ranks).map(|_| !rng.one_in(8)).collect();
    s.without = rng.one_in(8).then(|| rng.below(nodes) as usize);
    // If a refusal is lost, the sender gets no answer, and all endpoints of its shared QP fail.
    let refuses = s.plan.kills || s.plan.early || s.plan.aborts;
    if refuses {
        s.fabric.faults.loss = 0.0;
    }
    s
}

struct Sim {
    fabric: Fabric,
    devices: Vec<DeviceId>,
    setting: Setting,
    /// Contexts opened by each process.
    opened: Vec<Opened>,
}

impl World for Sim {
    type Device = Verbs<SimHca>;
    const EARLY_HURTS: bool = true;

    fn netmod(&mut self, rank: usize, me: PeerName, ranks: u32) -> SimVerbs {
        let opened = Opened::default();
        self.opened.push(opened.clone());
        let device = self.devices[self.setting.nodes[rank]];
        let source = Only { fabric: self.fabric.clone(), device, opened };
        let cfg = VerbsConfig { xrc: self.setting.wants[rank], ..self.setting.cfg.clone() };
        netmod_sim_verbs::netmod(cfg, source, me, ranks)
    }

    fn kill(&mut self, rank: usize) {
        for (_, context) in self.opened[rank].lock().expect("nobody panics with it").drain(..) {
            self.fabric.kill(context);
        }
    }

    fn advance(&mut self, now: Time) {
        self.fabric.advance(now);
    }

    /// A device uses memory until it has its answer, or the connection is closed.
    fn gives_back_alone(&self) -> bool {
        false
    }

    fn violations(&self, _early: usize) -> Vec<String> {
        self.fabric.violations()
    }

    fn close(self) -> Option<String> {
        let leaks = self.fabric.leaks();
        (leaks != Leaks::default()).then(|| format!("{leaks:?}"))
    }
}

fn run(setting: &Setting) -> Seen {
    let fabric = Fabric::new(setting.fabric.clone());
    let nodes = setting.nodes.iter().max().map_or(1, |most| most + 1);
    let devices = (0..nodes)
        .map(|node| {
            let xrc = setting.without != Some(node);
            fabric.device(DeviceSettings { xrc, ..setting.device.clone() })
        })
        .collect();
    let world = Sim { fabric, devices, setting: setting.clone(), opened: Vec::new() };
    Run::of(world, setting.plan, setting.fabric.seed)
}

/// With any devices and any failure: data is correct, in order and delivered once, every request
/// ends, no rule is broken, and nothing is left.
#[test]
fn random_schedules() {
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..SEEDS).chain(FOUND).collect());
    let all = each(&seeds, of_seed, run);
    // The schedules are useless if they do not exercise their subjects.
    if seeds.len() as u64 >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}

/// The same with processes of a node sharing receiving QPs: a death affects no other process, and
/// processes without XRC are reached without.
#[test]
fn random_schedules_over_xrc() {
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..SEEDS).chain(FOUND_OVER_XRC).collect());
    let all = each(&seeds, of_seed_with_xrc, run);
    if seeds.len() as u64 >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}
