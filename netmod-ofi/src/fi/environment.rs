//! What providers take from the environment, and from nowhere else.

#![allow(unsafe_code)]

use std::env::{set_var, var};
use std::fs::read_dir;

/// By what ofi_rxm waits, and the tcp provider below it looks, for sockets where something has come (`fi_info -e`).
const RXM_WAITS_BY: &str = "FI_OFI_RXM_DEF_TCP_WAIT_OBJ";

/// So many processes have so few sockets that poll(2) of all is faster than epoll, which costs calls of its own where each message leaves and
/// arrives.
const FEW: u32 = 16;

/// In a small job, makes ofi_rxm wait by poll, unless the user has said by what. libfabric must not be loaded yet; and the process must have but
/// one thread, since another could read the environment meanwhile.
pub(crate) fn prepare(job: u32) {
    if job <= FEW && var(RXM_WAITS_BY).is_err_and(|e| e == std::env::VarError::NotPresent) && alone() {
        // SAFETY: this is the only thread of the process, and it makes no other before it is done here.
        unsafe { set_var(RXM_WAITS_BY, "pollfd") };
    }
}

/// Whether the process has one thread; where nobody knows, it has more.
fn alone() -> bool {
    read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// By what a provider's queues wait, if that can be said, for people: what is in the environment now is what it found there.
pub(crate) fn waits_by(provider: &str) -> Option<String> {
    if !provider.split(';').any(|part| part == "ofi_rxm") || !provider.starts_with("tcp") {
        return None;
    }
    Some(match var(RXM_WAITS_BY) {
        Ok(by) => format!(" (waits by {by})"),
        Err(_) => format!(" (waits by epoll; {RXM_WAITS_BY}=pollfd is faster in small jobs)"),
    })
}
