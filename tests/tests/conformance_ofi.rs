//! The conformance suite over libfabric's providers, and over each way of large messages.

use netmod_tests::factory::{Lmt, Ofi};

/// A provider of the system's libfabric.
fn provider(provider: &'static str) -> Ofi {
    Ofi { provider, library: "", max_bytes: 64 << 20, many: 2000 }
}

fn lmt(inner: Ofi, mode: &'static str) -> Lmt<Ofi> {
    Lmt { inner, mode }
}

netmod_tests::conformance!(over_tcp, provider("tcp"));
netmod_tests::conformance!(over_net, provider("net"));
netmod_tests::conformance!(over_shm, provider("shm"));
netmod_tests::conformance!(over_sockets, provider("sockets"));
netmod_tests::conformance!(over_udp, Ofi { max_bytes: 4 << 20, many: 300, ..provider("udp") });
netmod_tests::conformance!(over_tcp_get, lmt(provider("tcp"), "get"));
netmod_tests::conformance!(over_tcp_put, lmt(provider("tcp"), "put"));
netmod_tests::conformance!(over_net_get, lmt(provider("net"), "get"));
netmod_tests::conformance!(over_shm_get, lmt(provider("shm"), "get"));
netmod_tests::conformance!(over_sockets_put, lmt(provider("sockets"), "put"));
