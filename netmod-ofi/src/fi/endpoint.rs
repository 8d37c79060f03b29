//! What one engine sends and receives by, and the completions of that: calls of libfabric on the way of data.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use std::os::fd::RawFd;
use std::sync::Arc;

use libfabric_sys::attr::{fi_addr_t, fi_cq_data_entry, fi_cq_err_entry, fi_info, fi_msg};
use libfabric_sys::call::*;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_cq, fid_ep};
use libfabric_sys::{Library, call};

use super::info::text;
use super::shared::{self, Domain, Lane, Wish};
use super::{Refused, check};
use crate::card::MIN_FRAME;
use crate::choose::{easy_max, revokes_puts, shares_lines, wakes, wants_parts, wants_whole_buffers};

/// Most bytes that one transfer moves where such parts are of use: see [`wants_parts`]. A part stays in a second cache of 1 MiB, beside what else is there.
const PART: usize = 768 << 10;
/// Where the kernel says which congestion control connections have (`tcp(7)`).
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// How many messages a posted receive buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The next one.
    One,
    /// As many as there is room for.
    Several,
}

/// What of a provider's attributes matters to who uses the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// `FI_MR_*`, the legacy modes spelled out.
    pub(crate) mr_mode: i32,
    /// Bytes of a key.
    pub(crate) mr_key_size: usize,
    /// Longest injected message.
    pub(crate) inject: usize,
    /// Longest message that can be sent, and is not fetched from its sender's memory.
    pub(crate) easy: usize,
    /// Longest transfer, or the longest that is of use.
    pub(crate) max_msg: usize,
    /// Sends and transfers under way at once.
    pub(crate) tx: usize,
    /// Receives posted at once.
    pub(crate) rx: usize,
    /// Whether who sends writes to the memory in which who receives looks.
    pub(crate) shares_lines: bool,
    /// Whether receive buffers take several messages.
    pub(crate) multi_recv: bool,
    /// Whether there are one-sided transfers.
    pub(crate) rma: bool,
    /// Set if a closed registration keeps out a peer that is in the middle of a put.
    pub(crate) revokes_puts: bool,
    /// Whether receive contexts of peers' scalable endpoints can be addressed.
    pub(crate) names_contexts: bool,
    /// Returns true if the descriptor of its queue tells of everything that comes, and of nothing else.
    pub(crate) wakes: bool,
}

impl Traits {
    /// Longest frame that is sent and taken, where it may have `most` bytes.
    pub(crate) fn frame(&self, most: usize) -> usize {
        most.min(self.easy.max(MIN_FRAME as usize))
    }
}

/// A lane of a domain: what one engine sends and receives by. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    lib: Library,
    /// A transmit context, or a plain endpoint; null when it is shut.
    tx: *mut fid_ep,
    /// A receive context, or the same plain endpoint.
    rx: *mut fid_ep,
    cq: *mut fid_cq,
    fd: Option<RawFd>,
    traits: Traits,
    /// Number of the lane.
    number: usize,
    domain: Arc<Domain>,
}

// SAFETY: the objects may be used by any thread, one at a time (`FI_THREAD_COMPLETION`, `FI_THREAD_DOMAIN`), which is what owning
// the value gives.
unsafe impl Send for Endpoint {}

/// The endpoint says that an entry with an error waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorWaits;

/// An operation that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Its context; null if the provider does not say.
    pub(crate) context: *mut c_void,
    /// Flags of the entry.
    pub(crate) flags: u64,
    /// Whether it was cancelled.
    pub(crate) cancelled: bool,
    /// Whether a message was longer than its buffer.
    pub(crate) truncated: bool,
    /// What the provider says.
    pub(crate) text: String,
}

impl Endpoint {
    /// Opens the domain that an info describes, or joins the engines of this process that have done so and have contexts left.
    ///
    /// # Errors
    /// Which call failed and why. What was opened before is closed again.
    ///
    /// # Safety
    /// The info is the library's, and live.
    pub(crate) unsafe fn open(lib: Library, info: *const fi_info, wish: &Wish) -> Result<Endpoint, String> {
        // SAFETY: by contract.
        let (domain, number, lane) = unsafe { shared::join(lib, info, wish)? };
        let Lane { tx, rx, cq, fd } = lane;
        Ok(Endpoint { lib, tx, rx, cq, fd, traits: domain.traits().clone(), number, domain })
    }

    /// What matters of the provider's attributes.
    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// The library.
    pub(crate) fn lib(&self) -> &Library {
        &self.lib
    }

    /// The domain, for registrations.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Which receive context of its endpoint it is, and how many that has; 0 of 1 of a plain endpoint.
    pub(crate) fn context(&self) -> (u8, u16) {
        let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        (small(self.number), small(self.domain.lanes()).into())
    }

    /// The endpoint's own address.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn address(&self) -> Result<Vec<u8>, String> {
        self.domain.address()
    }

    /// Makes a receive context of a peer's endpoint known: what to send to.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn insert(&self, address: &[u8], context: u8) -> Result<fi_addr_t, String> {
        self.domain.insert(address, context)
    }

    /// Forgets what was inserted.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn remove(&self, peer: fi_addr_t) -> Result<(), String> {
        self.domain.remove(peer)
    }

    /// Sets the first of these keys aside that no registration of the domain has; [`Registration::new`] takes it over.
    ///
    /// [`Registration::new`]: super::region::Registration::new
    pub(crate) fn take_key(&self, keys: impl Iterator<Item = u64>) -> Option<u64> {
        self.domain.take_key(keys)
    }

    /// # Errors
    /// If the endpoint was shut.
    #[inline]
    pub(super) fn is_open(&self) -> Result<(), Refused> {
        if self.tx.is_null() { Err(Refused::Failed("the endpoint is closed".into())) } else { Ok(()) }
    }

    /// Sends a short message, which is copied.
    #[inline]
    pub(crate) fn inject(&self, bytes: &[u8], to: fi_addr_t) -> Result<(), Refused> {
        self.is_open()?;
        // SAFETY: the context is live; the bytes are read before the call returns.
        let rc = unsafe { fi_inject(self.tx, bytes.as_ptr().cast(), bytes.len(), to) };
        if rc == 0 { Ok(()) } else { check(&self.lib, "fi_inject", rc as i64) }
    }

    /// Sends a message.
    ///
    /// # Safety
    /// The memory is readable and unwritten, and the context is lent, until the completion; the descriptor is of a live
    /// registration of the memory, if the provider demands one.
    #[inline]
    pub(crate) unsafe fn send(
        &self,
        at: *const u8,
        len: usize,
        desc: *mut c_void,
        to: fi_addr_t,
        context: *mut c_void,
    ) -> Result<(), Refused> {
        self.is_open()?;
        // SAFETY: by contract; the transmit context is live.
        let rc = unsafe { fi_send(self.tx, at.cast(), len, desc, to, context) };
        if rc == 0 { Ok(()) } else { check(&self.lib, "fi_send", rc as i64) }
    }

    /// Posts a receive buffer: for several messages, if the provider can do that, and has room for one that does, else for one.
    ///
    /// # Safety
    /// The memory is used by nobody else, and the context is lent, until the completion that says that the buffer is free; the
    /// descriptor as for [`Endpoint::send`].
    pub(crate) unsafe fn recv(
        &self,
        at: *mut u8,
        len: usize,
        desc: *mut c_void,
        context: *mut c_void,
    ) -> Result<Takes, Refused> {
        self.is_open()?;
        let iov = libc::iovec { iov_base: at.cast(), iov_len: len };
        let mut desc = desc;
        let msg = fi_msg {
            msg_iov: &raw const iov,
            desc: &raw mut desc,
            iov_count: 1,
            addr: FI_ADDR_UNSPEC,
            context,
            data: 0,
        };
        // SAFETY: by contract; the receive context is live. One piece: the provider keeps no array of them.
        let post = |flags| unsafe { fi_recvmsg(self.rx, &raw const msg, flags) };
        if self.traits.multi_recv {
            let rc = post(FI_MULTI_RECV);
            // Where messages that wait for a buffer have taken all the provider's room for receives, a buffer for the first of them alone needs none.
            if rc as i64 != -i64::from(libc::ENOMEM) {
                return check(&self.lib, "fi_recvmsg", rc as i64).map(|()| Takes::Several);
            }
        }
        check(&self.lib, "fi_recvmsg", post(0) as i64).map(|()| Takes::One)
    }

    /// Starts to read from a peer's memory.
    ///
    /// # Safety
    /// The memory is writable and used by nobody else, and the context is lent, until the completion; the descriptor as for
    /// [`Endpoint::send`].
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn read(
        &self,
        at: *mut u8,
        len: usize,
        desc: *mut c_void,
        from: fi_addr_t,
        remote: u64,
        key: u64,
        context: *mut c_void,
    ) -> Result<(), Refused> {
        self.is_open()?;
        // SAFETY: by contract; the transmit context is live.
        let rc = unsafe { fi_read(self.tx, at.cast(), len, desc, from, remote, key, context) };
        check(&self.lib, "fi_read", rc as i64)
    }

    /// Starts to write to a peer's memory. Completes when the data is there.
    ///
    /// # Safety
    /// As for [`Endpoint::send`].
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn write(
        &self,
        at: *const u8,
        len: usize,
        desc: *mut c_void,
        to: fi_addr_t,
        remote: u64,
        key: u64,
        context: *mut c_void,
    ) -> Result<(), Refused> {
        self.is_open()?;
        let iov = libc::iovec { iov_base: at.cast_mut().cast(), iov_len: len };
        let there = libfabric_sys::attr::fi_rma_iov { addr: remote, len, key };
        let mut desc = desc;
        let msg = libfabric_sys::attr::fi_msg_rma {
            msg_iov: &raw const iov,
            desc: &raw mut desc,
            iov_count: 1,
            addr: to,
            rma_iov: &raw const there,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: by contract; the transmit context is live. One piece: the provider keeps no array of them.
        let rc = unsafe { fi_writemsg(self.tx, &raw const msg, FI_DELIVERY_COMPLETE | FI_COMPLETION) };
        check(&self.lib, "fi_writemsg", rc as i64)
    }

    /// Asks that an operation be given up; its completion still comes.
    pub(crate) fn cancel(&self, receive: bool, context: *mut c_void) {
        let ep = if receive { self.rx } else { self.tx };
        if ep.is_null() {
            return;
        }
        // SAFETY: the context is live. Providers that cannot cancel say so, and the operation goes on.
        let _ = unsafe { fi_cancel(ep, context) };
    }

    /// Makes progress, and takes nothing (`fi_cq_read` of no entries).
    pub(crate) fn progress(&self) {
        // SAFETY: the queue is live; nothing is written. An entry with an error stays where it is.
        let _ = unsafe { call::fi_cq_read(self.cq, null_mut(), 0) };
    }

    /// Takes completions; makes progress.
    ///
    /// # Errors
    /// That the next entry is one with an error: see [`Endpoint::error`].
    #[inline]
    pub(crate) fn poll(&self, entries: &mut [fi_cq_data_entry]) -> Result<usize, ErrorWaits> {
        // SAFETY: the queue is live, its format is that of the entries, and so many are writable.
        let n = unsafe { call::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        match usize::try_from(n) {
            Ok(n) => Ok(n.min(entries.len())),
            Err(_) if n == -(FI_EAVAIL as isize) => Err(ErrorWaits),
            // EAGAIN: nothing. EINTR and the like: nothing yet.
            Err(_) => Ok(0),
        }
    }

    /// Takes an entry with an error, if there is one.
    pub(crate) fn error(&self) -> Option<Failed> {
        let mut entry = fi_cq_err_entry::ZERO;
        // SAFETY: the queue is live; the entry is zeroed, with room for what newer versions write.
        let n = unsafe { fi_cq_readerr(self.cq, &raw mut entry, 0) };
        if n < 1 {
            return None;
        }
        let err = entry.err.unsigned_abs();
        let mut text = self.lib.error(i64::from(err));
        // SAFETY: the queue is live, the entry is its own; the answer is a C string that lives until the next call.
        let detail = unsafe {
            let said = fi_cq_strerror(self.cq, entry.prov_errno, entry.err_data, null_mut(), 0);
            if said.is_null() { String::new() } else { CStr::from_ptr(said).to_string_lossy().into_owned() }
        };
        if !detail.is_empty() && detail != text {
            text = format!("{text} ({detail})");
        }
        Some(Failed {
            context: entry.op_context,
            flags: entry.flags,
            cancelled: err == FI_ECANCELED.unsigned_abs(),
            truncated: err == FI_ETRUNC.unsigned_abs(),
            text,
        })
    }

    /// What to wait on, if the provider has something.
    pub(crate) fn wait_fd(&self) -> Option<RawFd> {
        self.fd
    }

    /// Whether one may block on [`Endpoint::wait_fd`] now. Without a descriptor, nothing speaks against a nap.
    pub(crate) fn may_wait(&self) -> bool {
        if self.fd.is_none() {
            return true;
        }
        let mut it: *mut fid = self.cq.cast();
        // SAFETY: the fabric and the queue are live.
        unsafe { fi_trywait(self.domain.fabric, &raw mut it, 1) == 0 }
    }
}

impl Traits {
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
        // A system without that file has no TCP that would matter.
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
            multi_recv: caps & FI_MULTI_RECV != 0 && !wants_whole_buffers(&provider),
            rma: caps & FI_RMA != 0,
            revokes_puts: revokes_puts(&provider),
            names_contexts: caps & FI_NAMED_RX_CTX != 0 && domain.max_ep_rx_ctx > 1,
            wakes: wakes(&provider, library, |name| std::env::var(name).ok()),
        }
    }

    /// Whether the provider wants this of who registers memory.
    pub(crate) fn wants(&self, mr_mode: i32) -> bool {
        self.mr_mode & mr_mode != 0
    }
}

impl Endpoint {
    /// Closes what it sends and receives by, with all that is under way. Closing again does nothing.
    pub(crate) fn shut(&mut self) {
        self.domain.close_lane(self.number);
        (self.tx, self.rx) = (null_mut(), null_mut());
    }
}
