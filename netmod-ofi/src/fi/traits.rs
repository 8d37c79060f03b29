//! Properties of a provider.

#![allow(unsafe_code)]

use libfabric_sys::attr::fi_info;
use libfabric_sys::consts::*;

use super::info::text;
use crate::card::MIN_FRAME;
use crate::choose::{easy_max, revokes_puts, shares_lines, wakes, wants_parts, wants_whole_buffers};

/// Maximum length of a transfer in bytes, where splitting pays: see [`wants_parts`]. A part fits
/// into a second-level cache of 1 MiB with other data beside it.
const PART: usize = 768 << 10;
/// File with the kernel's default congestion control (`tcp(7)`).
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Properties of a provider that matter to users of the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// `FI_MR_*` bits, with the legacy modes expanded.
    pub(crate) mr_mode: i32,
    /// Length of a key in bytes.
    pub(crate) mr_key_size: usize,
    /// Maximum length of an injected message.
    pub(crate) inject: usize,
    /// Maximum length of a message that is not fetched from its sender's memory.
    pub(crate) easy: usize,
    /// Maximum length of a transfer: the provider's limit, or the useful one.
    pub(crate) max_msg: usize,
    /// Maximum number of sends and transfers in flight.
    pub(crate) tx: usize,
    /// Maximum number of posted receives.
    pub(crate) rx: usize,
    /// True if the sender writes to the memory that the receiver polls.
    pub(crate) shares_lines: bool,
    /// True if receive buffers take several messages.
    pub(crate) multi_recv: bool,
    /// True if there are one-sided transfers.
    pub(crate) rma: bool,
    /// True if there are atomic operations.
    pub(crate) atomics: bool,
    /// True if closing a registration stops a peer that is in the middle of a put.
    pub(crate) revokes_puts: bool,
    /// True if receive contexts of peers' scalable endpoints can be addressed.
    pub(crate) names_contexts: bool,
    /// True if the queue's descriptor becomes readable for every event, and only then.
    pub(crate) wakes: bool,
}

impl Traits {
    /// Returns the maximum frame length, given an upper bound.
    pub(crate) fn frame(&self, most: usize) -> usize {
        most.min(self.easy.max(MIN_FRAME as usize))
    }

    /// Reads the provider's properties from an info.
    ///
    /// # Safety
    /// The info is live and the library's.
    pub(super) unsafe fn of(info: *const fi_info, library: u32) -> Traits {
        // SAFETY: an info of the library's has all parts.
        let (domain, tx, rx, ep, caps) = unsafe {
            (&*(*info).domain_attr, &*(*info).tx_attr, &*(*info).rx_attr, &*(*info).ep_attr, (*info).caps)
        };
        // SAFETY: as above; a name is a C string, or null.
        let provider = unsafe { text((*(*info).fabric_attr).prov_name) };
        let mr_mode = match domain.mr_mode {
            FI_MR_BASIC => FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
            FI_MR_SCALABLE => 0,
            mode => mode,
        };
        // A system without this file has no TCP.
        let congestion = std::fs::read_to_string(CONGESTION).unwrap_or_default();
        let longest = if wants_parts(&provider, &congestion) { PART } else { usize::MAX };
        Traits {
            mr_mode,
            mr_key_size: domain.mr_key_size,
            inject: tx.inject_size,
            easy: easy_max(&provider, tx.inject_size, |name| std::env::var(name).ok()).min(ep.max_msg_size),
            max_msg: ep.max_msg_size.min(longest),
            tx: tx.size.max(1),
            rx: rx.size.max(1),
            shares_lines: shares_lines(&provider),
            multi_recv: caps & FI_MULTI_RECV != 0 && !wants_whole_buffers(&provider, library),
            rma: caps & FI_RMA != 0,
            atomics: caps & (FI_RMA | FI_ATOMIC) == FI_RMA | FI_ATOMIC,
            revokes_puts: revokes_puts(&provider),
            names_contexts: caps & FI_NAMED_RX_CTX != 0 && domain.max_ep_rx_ctx > 1,
            wakes: wakes(&provider, library, |name| std::env::var(name).ok()),
        }
    }

    /// Returns true if the provider requires this registration mode.
    pub(crate) fn wants(&self, mr_mode: i32) -> bool {
        self.mr_mode & mr_mode != 0
    }
}
