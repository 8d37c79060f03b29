//! Properties and scores of providers, independent of their domains.

use libfabric_sys::version;

use super::names::core_name;
use crate::fi::info::Facts;

/// Known providers by full name: score and reason.
const KNOWN: &[(&str, u32, &str)] = &[
    ("cxi", 900, "Slingshot adapters"),
    ("efa", 890, "adapters of EC2"),
    ("opx", 880, "Omni-Path adapters"),
    ("psm2", 870, "Omni-Path adapters"),
    ("verbs;ofi_rxm", 860, "InfiniBand and RoCE adapters"),
    ("psm3", 850, "Ethernet and InfiniBand adapters"),
    ("ucx", 840, "InfiniBand and RoCE adapters"),
    ("psm", 830, "TrueScale adapters"),
    ("verbs", 820, "InfiniBand and RoCE adapters"),
    ("tcp", 500, "TCP"),
    ("net", 490, "TCP"),
    ("tcp;ofi_rxm", 400, "TCP, by connected endpoints"),
    ("net;ofi_rxm", 390, "TCP, by connected endpoints"),
    ("sockets", 300, "TCP with a thread, superseded by tcp"),
    ("udp;ofi_rxd", 200, "UDP"),
    ("sm2", 110, "this host only, where the netmod shm is better"),
    ("shm", 100, "this host only, where the netmod shm is better"),
];
/// Known providers whose own thread makes progress; it polls for some milliseconds before it waits.
/// Others claim `FI_PROGRESS_AUTO` without having it, or their thread is idle most of the time.
const WITH_THREADS: [&str; 1] = ["sockets"];
/// Providers that move data by the kernel's TCP.
const OVER_TCP: [&str; 3] = ["tcp", "net", "sockets"];
/// Score of an unknown provider, which is assumed to be written for hardware.
const UNKNOWN: u32 = 700;
/// Score deducted from an offer without RMA.
const NO_RMA: u32 = 50;

/// Returns the score of an offer, and its reason.
pub fn rank(facts: &Facts) -> (u32, String) {
    let known = KNOWN.iter().find(|(name, ..)| *name == facts.provider);
    let (score, why) =
        known.map_or((UNKNOWN, "unknown, assumed to be for hardware"), |(_, score, why)| (*score, *why));
    if facts.has_rma() { (score, why.to_owned()) } else { (score - NO_RMA, format!("{why}; messages only")) }
}

/// Returns true if a provider has a thread per domain that needs a core while data moves.
pub fn has_thread(provider: &str) -> bool {
    provider.split(';').any(|layer| WITH_THREADS.contains(&layer))
}

/// Returns true if a provider's transfers shall be split into parts. `congestion`: content of
/// `/proc/sys/net/ipv4/tcp_congestion_control`, which applies to all connections of a provider over
/// TCP.
///
/// Such a provider passes each transfer to the kernel in one call, which fills the socket's
/// buffers. If TCP paces its sends, the data has left the caches before it is sent; otherwise it is
/// sent immediately. A provider with a thread signals the end of each part, which wakes a thread
/// that then takes the provider's core. There, splitting costs more than it gains.
pub fn wants_parts(provider: &str, congestion: &str) -> bool {
    let over_tcp = provider.split(';').any(|layer| OVER_TCP.contains(&layer));
    over_tcp && !has_thread(provider) && netmod_nics::is_paced(congestion)
}

/// Returns true if a provider's sender writes to the memory that its receiver polls: the cores of
/// the two do all the work.
pub fn shares_lines(provider: &str) -> bool {
    provider == "shm"
}

/// Returns true if receive buffers shall take one message each, although the provider supports
/// multi-receive buffers.
///
/// Where the two cores do all the work, the receiver's work before a message arrives adds to its
/// latency. shm (`smr_ep.c` of 1.17) makes a receive for the part of a multi-receive buffer that a
/// message fills, copying the receive's record twice. Posting another buffer takes longer, but can
/// wait until the answer has been sent.
///
/// Over TCP messages got their place when the header arrived, until 1.20 (`dyn_rbuf` in `rxm_cq.c`,
/// `xnet_progress.c`): see the defects. sockets gives a buffer to one connection at a time, and
/// copies the messages of the others once more.
pub fn wants_whole_buffers(provider: &str, library: u32) -> bool {
    match core_name(provider) {
        "tcp" | "net" => library < version(1, 20),
        "sockets" => true,
        _ => shares_lines(provider),
    }
}

/// Returns true if closing a registration stops a peer that is in the middle of a put.
///
/// The providers for shared memory write into the peer's process by `process_vm_writev(2)`. It
/// ignores registrations, and the memory's owner cannot wait for it (`smr_rma_fast` of 1.17).
pub fn revokes_puts(provider: &str) -> bool {
    !matches!(provider, "shm" | "sm2")
}

/// Returns the reason if a provider is not for direct use.
pub fn helper(provider: &str) -> Option<&'static str> {
    let layers = || provider.split(';');
    if layers().any(|l| l.starts_with("ofi_hook_")) {
        return Some("it only observes another provider");
    }
    if layers().any(|l| l == "ofi_mrail" || l == "mrail") {
        return Some("it combines domains of other providers, which the netmod does itself");
    }
    if layers().any(|l| l == "lnx" || l == "ofi_lnx") {
        return Some("it combines other providers, which the netmods do themselves");
    }
    core_name(provider).starts_with("ofi_").then_some("it is a layer over other providers only")
}

#[cfg(test)]
mod tests {
    use super::*;
    use libfabric_sys::consts::FI_RMA;

    fn score(provider: &str, caps: u64) -> u32 {
        rank(&Facts { provider: provider.into(), caps, ..Facts::default() }).0
    }

    #[test]
    fn hardware_comes_before_sockets_and_those_before_memory() {
        let order =
            ["cxi", "verbs;ofi_rxm", "unheard_of", "tcp", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd", "shm"];
        assert!(order.is_sorted_by(|a, b| score(a, FI_RMA) > score(b, FI_RMA)));
        assert!(KNOWN.is_sorted_by(|a, b| a.1 > b.1));
        for (name, ..) in KNOWN {
            assert!(score(name, 0) < score(name, FI_RMA), "{name}");
        }
    }

    #[test]
    fn puts_that_cannot_be_revoked_are_those_of_another_process() {
        for (name, ..) in KNOWN {
            assert_eq!(revokes_puts(name), !["shm", "sm2"].contains(name), "{name}");
        }
    }

    #[test]
    fn buffers_take_one_message_where_both_sides_use_the_same_memory() {
        for (name, ..) in KNOWN {
            assert_eq!(shares_lines(name), *name == "shm", "{name}");
            let always = ["shm", "sockets"].contains(name);
            let early = always || ["tcp", "net"].contains(&core_name(name));
            assert_eq!(wants_whole_buffers(name, version(1, 17)), early, "{name}");
            assert_eq!(wants_whole_buffers(name, version(1, 20)), always, "{name}");
        }
    }

    #[test]
    fn layers_alone_are_not_for_use() {
        for name in ["ofi_rxm", "ofi_hook_perf;tcp", "tcp;ofi_hook_noop", "ofi_mrail", "lnx"] {
            assert!(helper(name).is_some(), "{name}");
        }
        for name in ["tcp;ofi_rxm", "verbs", "udp;ofi_rxd"] {
            assert_eq!(helper(name), None);
        }
    }
}
