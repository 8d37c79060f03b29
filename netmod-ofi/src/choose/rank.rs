//! How good a provider is, before anything is known of its domains.

use super::names::core_name;
use crate::fi::info::Facts;

/// Providers that are known, by their whole name: the score, and why.
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
/// Those of them whose progress is made by a thread of their own, which polls for some milliseconds before it waits. Others say that they make progress by themselves (`FI_PROGRESS_AUTO`), and do not,
/// or have a thread that does nothing most of the time.
const WITH_THREADS: [&str; 1] = ["sockets"];
/// Those that move data by the kernel's TCP.
const OVER_TCP: [&str; 3] = ["tcp", "net", "sockets"];
/// Of one that is not known: they are written for hardware.
const UNKNOWN: u32 = 700;
/// What an offer without RMA loses.
const NO_RMA: u32 = 50;

/// The score of an offer, and why.
pub fn rank(facts: &Facts) -> (u32, String) {
    let known = KNOWN.iter().find(|(name, ..)| *name == facts.provider);
    let (score, why) =
        known.map_or((UNKNOWN, "not known here, taken for hardware"), |(_, score, why)| (*score, *why));
    if facts.has_rma() { (score, why.to_owned()) } else { (score - NO_RMA, format!("{why}; messages only")) }
}

/// Whether a provider has a thread for each domain that needs a core while anything moves.
pub fn has_thread(provider: &str) -> bool {
    provider.split(';').any(|layer| WITH_THREADS.contains(&layer))
}

/// Whether a provider's transfers are better cut in parts. `congestion`: what `/proc/sys/net/ipv4/tcp_congestion_control` says, which is that of all
/// connections of a provider over TCP.
///
/// Such a provider hands each transfer to the kernel in one call, which fills the socket's buffers. Where TCP sends at a pace of its own, what they hold has left the
/// caches when it goes out; elsewhere it goes out at once. A provider with a thread tells of each part's end by waking somebody, who takes the thread's core:
/// there that costs more than it gains.
pub fn wants_parts(provider: &str, congestion: &str) -> bool {
    let over_tcp = provider.split(';').any(|layer| OVER_TCP.contains(&layer));
    over_tcp && !has_thread(provider) && netmod_nics::is_paced(congestion)
}

/// Whether a provider's sender writes to the very memory in which its receiver looks, so that looks for what has not come yet make it come later: under the
/// lock of a region that both have mapped.
pub fn shares_lines(provider: &str) -> bool {
    provider == "shm"
}

/// Whether receive buffers had better take one message each, though the provider has such as take several.
///
/// Where the two cores do all the work, what a receiver does before it has a message is on the message's way. shm (`smr_ep.c` of 1.17) makes a receive of its own for the
/// part of a larger buffer that a message fills, twice copying what a receive consists of. Posting another buffer takes longer, but can be done when the answer has gone.
pub fn wants_whole_buffers(provider: &str) -> bool {
    shares_lines(provider)
}

/// Returns true if a closed registration keeps out a peer that is in the middle of a put.
///
/// The providers for shared memory write into the peer's process by `process_vm_writev(2)`, which neither knows of
/// registrations nor can be waited for by their owner (`smr_rma_fast` of 1.17).
pub fn revokes_puts(provider: &str) -> bool {
    !matches!(provider, "shm" | "sm2")
}

/// Why a provider is not one for use by itself.
pub fn helper(provider: &str) -> Option<&'static str> {
    let layers = || provider.split(';');
    if layers().any(|l| l.starts_with("ofi_hook_")) {
        return Some("it only watches what another provider does");
    }
    if layers().any(|l| l == "ofi_mrail" || l == "mrail") {
        return Some("it joins other providers' domains, which the netmod does itself");
    }
    if layers().any(|l| l == "lnx" || l == "ofi_lnx") {
        return Some("it joins other providers, which the netmods do themselves");
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
    fn looks_disturb_where_both_sides_use_the_same_memory() {
        for (name, ..) in KNOWN {
            assert_eq!(shares_lines(name), *name == "shm", "{name}");
            assert_eq!(wants_whole_buffers(name), *name == "shm", "{name}");
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
