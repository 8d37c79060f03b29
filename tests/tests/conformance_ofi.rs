//! The conformance suite over libfabric's providers, and over each way of large messages; with a
//! second libfabric over TCP, and with `NETMOD_TEST_LIBRARIES=all` over TCP's ways of large
//! messages, too.

use std::sync::LazyLock;

use libfabric_sys::Library;
use netmod_tests::conformance::closing;
use netmod_tests::factory::{Lmt, NetmodFactory, Ofi};
use netmod_tests::libfabric::{module_again_with, second_or_skip};

/// The libfabric that the environment names; otherwise the system's.
fn library() -> &'static str {
    static NAMED: LazyLock<String> = LazyLock::new(|| std::env::var(Library::VARIABLE).unwrap_or_default());
    NAMED.as_str()
}

/// A provider of that libfabric, with all that the suite has of messages.
fn provider(provider: &'static str) -> Ofi {
    Ofi { provider, library: library(), max_bytes: 64 << 20, many: 2000 }
}

/// The same with fewer messages, and shorter ones: for slow providers, and for ways of large
/// messages.
fn few(name: &'static str) -> Ofi {
    Ofi { max_bytes: 16 << 20, many: 400, ..provider(name) }
}

fn lmt(inner: Ofi, mode: &'static str) -> Lmt<Ofi> {
    Lmt { inner, mode }
}

netmod_tests::conformance!(over_tcp, provider("tcp"));
netmod_tests::conformance!(over_net, provider("net"));
netmod_tests::conformance!(over_shm, provider("shm"));
netmod_tests::conformance!(over_sockets, few("sockets"));
netmod_tests::conformance!(over_udp, Ofi { max_bytes: 4 << 20, many: 300, ..provider("udp") });
netmod_tests::conformance_of_large!(over_tcp_get, lmt(few("tcp"), "get"));
netmod_tests::conformance_of_large!(over_tcp_put, lmt(few("tcp"), "put"));
netmod_tests::conformance_of_large!(over_net_get, lmt(few("net"), "get"));
netmod_tests::conformance_of_large!(over_shm_get, lmt(few("shm"), "get"));
netmod_tests::conformance_of_large!(over_sockets_put, lmt(few("sockets"), "put"));

#[test]
fn an_init_fails() {
    for provider in [provider("tcp"), provider("net"), provider("sockets")] {
        if provider.is_available("an_init_fails") {
            closing::an_init_fails(&provider);
        }
    }
}

/// Over `tcp` alone: the second libfabric has no `net`, `sockets` or `udp;ofi_rxd`, and endpoints
/// of its `shm` within one process do not hear each other (jobs of processes use that).
#[test]
fn the_same_with_a_second_library() {
    let Some(variables) = second_or_skip("the suite with another version of libfabric") else { return };
    module_again_with("over_tcp", &variables);
    if std::env::var_os("NETMOD_TEST_LIBRARIES").is_some_and(|v| v == "all") {
        module_again_with("over_tcp_get", &variables);
        module_again_with("over_tcp_put", &variables);
    }
}
