//! The conformance suite over verbs on this host's devices, in each mode of large messages.
//!
//! There is a device in the virtual machine of `cargo xtask vm-test`; elsewhere these tests are
//! ignored, and say why they skip if they are asked for all the same.

use std::sync::Arc;

use ch3_shim::Config;
use ch3_shim::netset::AnyNetmod;
use netmod_core::Diagnose;
use netmod_tests::factory::{BuiltIn, Capabilities, Job, Lmt, NetmodFactory, bare_name};
use netmod_tests::jobs::launch::skip;
use netmod_verbs::{IbvNetmod, Setup, survey};

/// Devices over verbs.
#[derive(Clone, Debug)]
struct Ibv {
    /// Bytes of receive buffers.
    rx_memory: usize,
}

impl NetmodFactory for Ibv {
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

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        let cfg = self.config().verbs;
        BuiltIn::job(move |rank| {
            let verbs = IbvNetmod::new(&Setup::here(&cfg), bare_name(rank), ranks);
            assert_eq!(verbs.failure(), None, "a netmod of verbs");
            AnyNetmod::Verbs(Box::new(verbs))
        })
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
netmod_tests::conformance_of_large!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_put,
    lmt(plain(), "put")
);
netmod_tests::conformance_of_large!(
    #[ignore = "needs an RDMA device (cargo xtask vm-test)"]
    by_get,
    lmt(plain(), "get")
);
