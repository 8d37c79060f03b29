//! How long messages may be that a provider takes as easily as short ones.

use crate::card::MIN_FRAME;

/// A provider that injects so many bytes has buffers of its own for what is injected, and lets the receiver fetch longer messages from the sender's
/// memory: over shm by a system call, which takes as long as four messages that are injected.
const LONG_INJECT: usize = 2 << 10;
/// The layer that makes reliable datagrams of connections, and how long its own buffers are (`fi_rxm(7)`): of longer messages it sends word, and lets the receiver fetch
/// them.
const RXM: &str = ";ofi_rxm";
const RXM_BUFFER: &str = "FI_OFI_RXM_BUFFER_SIZE";
const RXM_BUFFER_BYTES: usize = 16 << 10;
/// Frames are no shorter whatever the environment says: shorter ones have no room for what they are for.
const LEAST: usize = MIN_FRAME as usize;

/// Longest message that is not fetched from its sender's memory. `inject`: the longest that is injected; `variable`: what the environment says.
pub fn easy_max(provider: &str, inject: usize, variable: impl FnOnce(&str) -> Option<String>) -> usize {
    if provider.ends_with(RXM) {
        let said = variable(RXM_BUFFER).and_then(|bytes| bytes.parse().ok());
        return said.unwrap_or(RXM_BUFFER_BYTES).max(LEAST);
    }
    if inject < LONG_INJECT { usize::MAX } else { inject }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_provider_copies_itself_is_easy() {
        let unset = |_: &str| None;
        assert_eq!(easy_max("shm", 4096, unset), 4096);
        assert_eq!(["net", "udp;ofi_rxd"].map(|p| easy_max(p, 1256, unset)), [usize::MAX; 2]);
        let set = |to: &'static str| move |name: &str| (name == RXM_BUFFER).then(|| to.to_owned());
        for (said, most) in [("4096", 4096), ("65536", 65536), ("many", 16384), ("0", 256)] {
            assert_eq!(easy_max("tcp;ofi_rxm", 64, set(said)), most);
            assert_eq!(easy_max("shm", 4096, set(said)), 4096);
        }
        assert_eq!(easy_max("verbs;ofi_rxm", 16384, unset), 16384);
    }
}
