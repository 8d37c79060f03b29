//! Maximum length of messages that a provider sends as efficiently as short ones.

use crate::card::MIN_FRAME;

/// Inject size from which a provider is assumed to have its own buffers for injected messages, and
/// to let the receiver fetch longer messages from the sender's memory. Over shm, that is a system
/// call, which takes as long as four injected messages.
const LONG_INJECT: usize = 2 << 10;
/// Layer that implements reliable datagrams over connections, with its buffer size (`fi_rxm(7)`).
/// Messages beyond that size are announced, and the receiver fetches them.
const RXM: &str = ";ofi_rxm";
const RXM_BUFFER: &str = "FI_OFI_RXM_BUFFER_SIZE";
const RXM_BUFFER_BYTES: usize = 16 << 10;
/// Minimum frame length, whatever the environment says.
const LEAST: usize = MIN_FRAME as usize;

/// Returns the maximum length of a message that is not fetched from its sender's memory. `inject`:
/// the provider's inject size; `variable`: reads an environment variable.
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
