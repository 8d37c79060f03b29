//! An engine's endpoint and its completions: libfabric's calls on the data path.

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
use netmod_core::rma::{AtomicArgs, Atomics};

use super::atomic::{Scratch, Valid};
use super::check;
use super::shared::{self, ContextPair, Domain, DomainOptions};
use super::traits::Traits;
use crate::error::{FabricError, Refused};

/// Number of messages that a posted receive buffer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The next one.
    One,
    /// All that fit.
    Several,
}

/// An engine's share of a domain: its contexts or plain endpoint, and its queue. One thread at a
/// time uses it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    lib: Library,
    /// Transmit context, or plain endpoint; null after shutdown.
    tx: *mut fid_ep,
    /// Receive context, or the same plain endpoint.
    rx: *mut fid_ep,
    cq: *mut fid_cq,
    fd: Option<RawFd>,
    traits: Traits,
    atomics: Valid,
    /// Number of the context pair.
    number: usize,
    domain: Arc<Domain>,
}

// SAFETY: the objects may be used by any thread, one at a time (`FI_THREAD_COMPLETION`,
// `FI_THREAD_DOMAIN`), which owning the value ensures.
unsafe impl Send for Endpoint {}

/// Reports that the completion queue has an error entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorWaits;

/// A failed operation.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Its context; null if the provider does not tell.
    pub(crate) context: *mut c_void,
    /// Flags of the entry.
    pub(crate) flags: u64,
    /// True if the operation was cancelled.
    pub(crate) cancelled: bool,
    /// True if a message was longer than its buffer.
    pub(crate) truncated: bool,
    /// The provider's error message.
    pub(crate) text: String,
}

impl Endpoint {
    /// Opens the domain that an info describes, or joins engines of this process that have opened
    /// it and have contexts left.
    ///
    /// # Errors
    /// The call that failed, and its cause. Everything opened before is closed again.
    ///
    /// # Safety
    /// The info is the library's, and live.
    pub(crate) unsafe fn open(
        lib: Library,
        info: *const fi_info,
        options: &DomainOptions,
    ) -> Result<Endpoint, FabricError> {
        // SAFETY: by contract.
        let (domain, number, pair) = unsafe { shared::join(lib, info, options)? };
        let ContextPair { tx, rx, cq, fd } = pair;
        let traits = domain.traits().clone();
        // SAFETY: the context is live and enabled.
        let atomics = if traits.atomics { unsafe { Valid::of(tx) } } else { Valid::NONE };
        Ok(Endpoint { lib, tx, rx, cq, fd, traits, atomics, number, domain })
    }

    /// Returns the provider's properties.
    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Returns the library.
    pub(crate) fn lib(&self) -> &Library {
        &self.lib
    }

    /// Returns the domain, for registrations.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns index and number of the endpoint's receive contexts; 0 of 1 for a plain endpoint.
    pub(crate) fn context(&self) -> (u8, u16) {
        let small = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        (small(self.number), small(self.domain.pairs()).into())
    }

    /// Returns the endpoint's address.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) fn address(&self) -> Result<Vec<u8>, FabricError> {
        self.domain.address()
    }

    /// Inserts a receive context of a peer's endpoint into the address vector, and returns its
    /// address for sends.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) fn insert(&self, address: &[u8], context: u8) -> Result<fi_addr_t, FabricError> {
        self.domain.insert(address, context)
    }

    /// Removes an inserted address.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) fn remove(&self, peer: fi_addr_t) -> Result<(), FabricError> {
        self.domain.remove(peer)
    }

    /// Reserves the first of these keys that no registration of the domain has;
    /// [`Registration::new`] takes it over.
    ///
    /// [`Registration::new`]: super::region::Registration::new
    pub(crate) fn take_key(&self, keys: impl Iterator<Item = u64>) -> Option<u64> {
        self.domain.take_key(keys)
    }

    /// Checks that the endpoint is open.
    ///
    /// # Errors
    /// If the endpoint was shut down.
    #[inline]
    pub(super) fn is_open(&self) -> Result<(), Refused> {
        if self.tx.is_null() { Err(Refused::Failed(FabricError::EndpointClosed)) } else { Ok(()) }
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
    /// Until the completion, the memory is readable and unmodified, and the context is lent. The
    /// descriptor is of a live registration of the memory, if the provider requires one.
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

    /// Posts a receive buffer: for several messages if the provider supports that and has room for
    /// it, else for one.
    ///
    /// # Safety
    /// Until the completion that releases the buffer, nobody else uses the memory, and the context
    /// is lent. The descriptor is as for [`Endpoint::send`].
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
        // SAFETY: by contract; the receive context is live. The provider does not keep the
        // one-element array.
        let post = |flags| unsafe { fi_recvmsg(self.rx, &raw const msg, flags) };
        if self.traits.multi_recv {
            let rc = post(FI_MULTI_RECV);
            // If messages that wait for a buffer use all the provider's room for receives, a
            // single-message buffer for the first of them still succeeds.
            if rc as i64 != -i64::from(libc::ENOMEM) {
                return check(&self.lib, "fi_recvmsg", rc as i64).map(|()| Takes::Several);
            }
        }
        check(&self.lib, "fi_recvmsg", post(0) as i64).map(|()| Takes::One)
    }

    /// Starts a read of a peer's memory.
    ///
    /// # Safety
    /// Until the completion, the memory is writable and used by nobody else, and the context is
    /// lent. The descriptor is as for [`Endpoint::send`].
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

    /// Starts a write to a peer's memory. Completes when the data has arrived.
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
        // SAFETY: by contract; the transmit context is live. The provider does not keep the
        // one-element array.
        let rc = unsafe { fi_writemsg(self.tx, &raw const msg, FI_DELIVERY_COMPLETE | FI_COMPLETION) };
        check(&self.lib, "fi_writemsg", rc as i64)
    }

    /// Returns the provider's atomic operations.
    pub(crate) fn atomics(&self) -> Atomics {
        self.atomics.fetching
    }

    /// Starts an atomic operation on a word of a peer's, given its address and key. Completes when
    /// the word has changed.
    ///
    /// # Safety
    /// Until the completion, the scratch is writable and used by nobody else, and the context is
    /// lent. The descriptor is as for [`Endpoint::send`].
    pub(crate) unsafe fn atomic(
        &self,
        scratch: Scratch,
        desc: *mut c_void,
        to: fi_addr_t,
        remote: (u64, u64),
        args: &AtomicArgs,
        context: *mut c_void,
    ) -> Result<(), Refused> {
        self.is_open()?;
        // SAFETY: by contract; the transmit context is live.
        let (call, rc) = unsafe { self.atomics.post(self.tx, scratch, desc, to, remote, args, context) };
        check(&self.lib, call, rc as i64)
    }

    /// Requests the cancellation of an operation. Its completion still comes.
    pub(crate) fn cancel(&self, receive: bool, context: *mut c_void) {
        let ep = if receive { self.rx } else { self.tx };
        if ep.is_null() {
            return;
        }
        // SAFETY: the context is live. Providers that cannot cancel say so, and the operation goes
        // on.
        let _ = unsafe { fi_cancel(ep, context) };
    }

    /// Makes progress without taking completions (`fi_cq_read` of no entries).
    pub(crate) fn progress(&self) {
        // SAFETY: the queue is live; nothing is written. An entry with an error stays where it is.
        let _ = unsafe { call::fi_cq_read(self.cq, null_mut(), 0) };
    }

    /// Makes progress and takes completions.
    ///
    /// # Errors
    /// If the next entry is an error: see [`Endpoint::error`].
    #[inline]
    pub(crate) fn poll(&self, entries: &mut [fi_cq_data_entry]) -> Result<usize, ErrorWaits> {
        // SAFETY: the queue is live, its format is that of the entries, and that many are writable.
        let n = unsafe { call::fi_cq_read(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        match usize::try_from(n) {
            Ok(n) => Ok(n.min(entries.len())),
            Err(_) if n == -(FI_EAVAIL as isize) => Err(ErrorWaits),
            // EAGAIN: nothing. EINTR and the like: nothing yet.
            Err(_) => Ok(0),
        }
    }

    /// Takes an error entry, if there is one.
    pub(crate) fn error(&self) -> Option<Failed> {
        let mut entry = fi_cq_err_entry::ZERO;
        // SAFETY: the queue is live; the entry is zeroed, with room for what newer versions write.
        let n = unsafe { fi_cq_readerr(self.cq, &raw mut entry, 0) };
        if n < 1 {
            return None;
        }
        let err = entry.err.unsigned_abs();
        let mut text = self.lib.error(i64::from(err));
        // SAFETY: the queue is live, the entry is its own; the answer is a C string that lives
        // until the next call.
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

    /// Returns the descriptor to wait on, if there is one.
    pub(crate) fn wait_fd(&self) -> Option<RawFd> {
        self.fd
    }

    /// Returns true if the caller may block on [`Endpoint::wait_fd`] now. Without a descriptor, it
    /// may always sleep.
    pub(crate) fn may_wait(&self) -> bool {
        if self.fd.is_none() {
            return true;
        }
        let mut it: *mut fid = self.cq.cast();
        // SAFETY: the fabric and the queue are live.
        unsafe { fi_trywait(self.domain.fabric, &raw mut it, 1) == 0 }
    }
}

impl Endpoint {
    /// Closes the contexts or plain endpoint, with everything in flight. Closing again does
    /// nothing.
    pub(crate) fn shut(&mut self) {
        self.domain.close_pair(self.number);
        (self.tx, self.rx) = (null_mut(), null_mut());
    }
}
