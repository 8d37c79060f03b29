//! The conformance suite over the fake provider: strict in all that providers demand, odd in all
//! that they may do, and poor in all that they may lack. What a strict provider would not have
//! stood, and what is left open at the end, is a failure.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ch3_shim::Config;
use ch3_shim::netset::NetSet;
use ch3_shim::{Bootstrap, Device};
use libfabric_sys::consts::{
    FI_ASYNC_IOV, FI_CONTEXT, FI_CONTEXT2, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY,
    FI_MR_VIRT_ADDR,
};
use netmod_fake_fabric::{AddressFormat, Again, Control, MrDialect, Progress, Settings, World, library_path};
use netmod_tests::board::run_job_with;
use netmod_tests::conformance::closing;
use netmod_tests::factory::{BuiltIn, Capabilities, Job, Lmt, NetmodFactory};

/// Devices in a world of the fake provider.
#[derive(Clone, Debug)]
struct Fake(Settings);

/// The world of a job.
struct FakeJob {
    world: Option<World>,
    /// The job in that world.
    ofi: Arc<dyn Job>,
}

impl Job for FakeJob {
    fn device(&self, boot: Box<dyn Bootstrap>, mut cfg: Config) -> ch3_shim::Result<Device> {
        cfg.ofi.domain = self.world.as_ref().expect("a world until the job ends").name().to_owned();
        self.ofi.device(boot, cfg)
    }

    fn netmod(&self, rank: u32) -> NetSet {
        self.ofi.netmod(rank)
    }
}

impl Drop for FakeJob {
    fn drop(&mut self) {
        let Some(world) = self.world.take() else { return };
        let (violations, stats) = (world.violations(), world.stats());
        let leaks = world.close();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "{violations:#?} {stats:?}");
            assert!(leaks.is_none(), "{leaks:?} {stats:?}");
        }
    }
}

impl NetmodFactory for Fake {
    fn name(&self) -> String {
        "ofi fake".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 1 << 20, many: 200 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec!["ofi".into()];
        cfg.ofi.provider = "fake".into();
        cfg.ofi.library = library_path().display().to_string();
        cfg.ofi.domains = 1;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        let (_, control) = Control::load(&library_path());
        let world = World::new(&control, self.0.clone());
        let mut cfg = self.config().ofi;
        cfg.domain = world.name().to_owned();
        Arc::new(FakeJob { world: Some(world), ofi: BuiltIn::ofi(cfg, ranks) })
    }
}

/// Everything is demanded, and nothing can be injected.
fn strict() -> Fake {
    let all = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    Fake(Settings::default().mr_mode(all).mode(FI_CONTEXT2 | FI_ASYNC_IOV).mr_key_size(2).inject_size(0))
}

/// Things are late and overtake each other, and calls are refused for no reason.
fn odd() -> Fake {
    let settings = Settings::default().mr_mode(FI_MR_LOCAL | FI_MR_ENDPOINT).mode(FI_CONTEXT);
    let settings = settings.again(Again::all(0.2)).delivery_delay(5).completion_delay(5).reorder(true);
    Fake(settings.short_length(0.3).release_alone(0.5).spurious(0.01).progress(Progress::Manual))
}

/// Queues are short, messages are short, addresses are long, and there is nothing to wait on.
fn poor() -> Fake {
    let settings = Settings::default().tx_size(4).rx_size(8).unexpected_max(8);
    let settings =
        settings.address(AddressFormat::Text(200)).wait_fd(false).max_msg_size(65_536).iov_limit(1);
    Fake(settings.mr_dialect(MrDialect::Basic).progress(Progress::ClaimsAuto).av_types(2).reorder(true))
}

fn lmt(inner: Fake, mode: &'static str) -> Lmt<Fake> {
    Lmt { inner, mode }
}

#[test]
fn an_init_fails() {
    closing::an_init_fails(&strict());
    closing::an_init_fails(&odd());
    closing::an_init_fails(&poor());
}

/// A message that the provider refuses at first leaves without a further call of the sender.
#[test]
fn what_was_refused_leaves_while_its_sender_computes() {
    const LIMIT: Duration = Duration::from_secs(30);
    let again = Again { send: 0.9, inject: 0.9, ..Again::default() };
    for progress in [Progress::Auto, Progress::Manual] {
        let fake = Fake(Settings::default().again(again).progress(progress));
        let (tell, hear) = channel();
        let (tell, hear) = (Mutex::new(tell), Mutex::new(hear));
        run_job_with(
            &fake,
            2,
            |_| {},
            move |dev| {
                let world = dev.world();
                for round in 0..20 {
                    dev.barrier(world).expect("barrier");
                    if dev.rank() == 0 {
                        let sends = [8, 8, 3000, 8]
                            .map(|len| dev.isend(vec![round; len], 1, 1, world).expect("isend"));
                        let heard = hear.lock().expect("no panic").recv_timeout(LIMIT);
                        heard.unwrap_or_else(|e| panic!("round {round}: the messages have not arrived: {e}"));
                        dev.wait_all(sends).expect("the sends");
                    } else {
                        for len in [8, 8, 3000, 8] {
                            let mut data = vec![0; len];
                            dev.recv(&mut data, 0, 1, world).expect("recv");
                            assert_eq!(data, vec![round; len]);
                        }
                        tell.lock().expect("no panic").send(()).expect("rank 0 listens");
                    }
                }
            },
        );
    }
}

netmod_tests::conformance!(over_strict, lmt(strict(), "get"));
netmod_tests::conformance!(over_odd, lmt(odd(), "put"));
netmod_tests::conformance!(over_poor, poor());
