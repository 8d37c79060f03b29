//! The conformance suite over verbs on this host's devices, in each mode of large messages.
//!
//! There is a device in the virtual machine of `cargo xtask vm-test`; elsewhere these tests are
//! ignored, and say why they skip if they are asked for all the same.

use ch3_shim::Config;
use ch3_shim::netset::{AnyNetmod, NetSet};
use ch3_shim::{Bootstrap, Builder, Device};
use netmod_core::{Diagnose, Module, Pollers};
use netmod_tests::factory::{Capabilities, Lmt, NetmodFactory, bare_name};
use netmod_tests::jobs::launch::skip;
use netmod_verbs::{IbvNetmod, Setup, survey};

/// Devices over verbs.
#[derive(Clone, Debug)]
struct Ibv {
    /// Bytes of receive buffers.
    rx_memory: usize,
}

impl NetmodFactory for Ibv {
    type Job = ();

    fn name(&self) -> String {
        "verbs".into()
    }

    fn is_available(&self, test: &str) -> bool {
        let why = match survey(&Setup::here(&self.config().verbs)) {
            Ok((ports, _)) if ports.iter().any(|port| port.gid.is_ok()) => return true,
            Ok((ports, notes)) => {
                let ports = ports.iter().filter_map(|port| Some(port.gid.as_ref().err()?.to_string()));
                ports.chain(notes).collect::<Vec<_>>().join("; ")
            }
            Err(why) => why.to_string(),
        };
        skip(&format!("SKIPPED: verbs {test}: {why} (cargo xtask vm-test has a device)"));
        false
    }

    fn capabilities(&self) -> Capabilities {
        // A device in software, on an emulated processor.
        Capabilities { max_bytes: 1 << 20, many: 150 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec!["verbs".into()];
        cfg.verbs.rx_memory = self.rx_memory;
        cfg
    }

    fn job(&self, _ranks: u32) {}

    fn device(&self, (): &(), boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        Builder::new(cfg, boot).build()
    }

    fn netmod(&self, (): &(), rank: u32, ranks: u32) -> NetSet {
        let mut verbs = IbvNetmod::new(&Setup::here(&self.config().verbs), bare_name(rank), ranks);
        assert_eq!(verbs.failure(), None, "a netmod of verbs");
        verbs.join_job([9; 32], Pollers::UNKNOWN).expect("a job key is taken");
        NetSet::new(vec![AnyNetmod::Verbs(Box::new(verbs))])
    }
}

fn plain() -> Ibv {
    Ibv { rx_memory: Config::default().verbs.rx_memory }
}

/// Eight receive buffers, so that senders often meet none.
fn tight() -> Ibv {
    Ibv { rx_memory: 64 << 10 }
}

fn lmt(inner: Ibv, mode: &'static str) -> Lmt<Ibv> {
    Lmt { inner, mode }
}

netmod_tests::conformance!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_auto,
    plain()
);
netmod_tests::conformance!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_null,
    lmt(tight(), "null")
);
netmod_tests::conformance!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_put,
    lmt(plain(), "put")
);
netmod_tests::conformance!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_get,
    lmt(plain(), "get")
);
