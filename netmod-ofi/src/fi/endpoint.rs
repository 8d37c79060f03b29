//! A domain, opened: fabric, domain, completion queue, address vector, endpoint, in the order in which they depend on each other.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::ptr::{self, null_mut};
use std::os::fd::RawFd;

use libfabric_sys::attr::{
    fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_data_entry, fi_cq_err_entry, fi_info, fi_msg,
};
use libfabric_sys::call::*;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric};
use libfabric_sys::{Library, call};

use super::{Refused, check};

/// Longest address of an endpoint.
const ADDRESS: usize = 1024;
/// Bits of an address that number receive contexts.
const RX_CTX_BITS: u32 = 8;

/// What of a provider's attributes matters to who uses the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// `FI_MR_*`, the legacy modes spelled out.
    pub(crate) mr_mode: i32,
    /// Bytes of a key.
    pub(crate) mr_key_size: usize,
    /// Longest injected message.
    pub(crate) inject: usize,
    /// Longest transfer.
    pub(crate) max_msg: usize,
    /// Sends and transfers under way at once.
    pub(crate) tx: usize,
    /// Receives posted at once.
    pub(crate) rx: usize,
    /// Whether a receive buffer takes several messages.
    pub(crate) multi_recv: bool,
    /// Whether there are one-sided transfers.
    pub(crate) rma: bool,
}

/// The contexts of a scalable endpoint that belong together, or a plain endpoint in the place of both.
#[derive(Debug)]
pub(super) struct Contexts {
    pub(super) ep: *mut fid_ep,
    tx: *mut fid_ep,
    rx: *mut fid_ep,
}

/// An opened domain with one endpoint. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    lib: Library,
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    pub(super) domain: *mut fid_domain,
    cq: *mut fid_cq,
    av: *mut fid_av,
    pub(super) contexts: Contexts,
    /// Whether a scalable endpoint is open.
    scalable: bool,
    traits: Traits,
    fd: Option<RawFd>,
}

// SAFETY: the objects may be used by any thread, one at a time (`FI_THREAD_DOMAIN`), which is what owning the value gives.
unsafe impl Send for Endpoint {}

/// What opening asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Room that a buffer for several messages must have to take another one.
    pub(crate) min_multi_recv: usize,
    /// A scalable endpoint with one pair of contexts is wanted.
    pub(crate) scalable: bool,
}

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
    /// Opens the domain that an info describes.
    ///
    /// # Errors
    /// Which call failed and why. What was opened before is closed again.
    ///
    /// # Safety
    /// The info is the library's, and live.
    pub(crate) unsafe fn open(lib: Library, info: *const fi_info, wish: Wish) -> Result<Endpoint, String> {
        // SAFETY: the info is live; the copy is this value's, and freed with it.
        let info = unsafe { (lib.fi_dupinfo)(info) };
        if info.is_null() {
            return Err("fi_dupinfo: out of memory".into());
        }
        // SAFETY: a copy made by the library has all parts.
        let traits = unsafe { Traits::of(info) };
        let none = Contexts { ep: null_mut(), tx: null_mut(), rx: null_mut() };
        let mut this = Endpoint {
            lib,
            info,
            fabric: null_mut(),
            domain: null_mut(),
            cq: null_mut(),
            av: null_mut(),
            contexts: none,
            scalable: wish.scalable,
            traits,
            fd: None,
        };
        match this.open_all(wish) {
            Ok(()) => Ok(this),
            Err(Refused::Again) => Err("the provider is out of resources".into()),
            Err(Refused::Failed(why)) => Err(why),
        }
    }

    fn check(&self, call: &str, rc: c_int) -> Result<(), Refused> {
        check(&self.lib, call, i64::from(rc))
    }

    fn open_all(&mut self, wish: Wish) -> Result<(), Refused> {
        // SAFETY: the info is live and the library's; each object is made here, used while it is live, and closed by `drop`;
        // attributes live during the calls.
        unsafe {
            let rc = (self.lib.fi_fabric)((*self.info).fabric_attr, &raw mut self.fabric, null_mut());
            self.check("fi_fabric", rc)?;
            let rc = fi_domain(self.fabric, self.info, &raw mut self.domain, null_mut());
            self.check("fi_domain", rc)?;
            self.open_queue()?;
            let mut attr = fi_av_attr {
                type_: (*(*self.info).domain_attr).av_type,
                rx_ctx_bits: if wish.scalable { RX_CTX_BITS as c_int } else { 0 },
                count: 0,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let rc = fi_av_open(self.domain, &raw mut attr, &raw mut self.av, null_mut());
            self.check("fi_av_open", rc)?;
            if wish.scalable {
                self.open_contexts()?
            } else {
                self.open_plain()?
            }
            let rx = self.contexts.rx;
            if wish.scalable {
                self.check("fi_enable(transmit context)", fi_enable(self.contexts.tx.cast()))?;
                self.check("fi_enable(receive context)", fi_enable(rx.cast()))?;
            }
            self.check("fi_enable", fi_enable(self.contexts.ep.cast()))?;
            if self.traits.multi_recv {
                // Not before: the provider shm of 1.17 makes what this changes when it is enabled, and crashes.
                let value: *const usize = &raw const wish.min_multi_recv;
                let rc =
                    fi_setopt(rx, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, value.cast(), size_of::<usize>());
                self.check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", rc)?;
            }
            Ok(())
        }
    }

    /// A queue with a descriptor to wait on, or without, where the provider has none.
    unsafe fn open_queue(&mut self) -> Result<(), Refused> {
        let mut attr = fi_cq_attr {
            size: self.traits.tx + self.traits.rx,
            flags: 0,
            format: FI_CQ_FORMAT_DATA,
            wait_obj: FI_WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        // SAFETY: the domain is live, as are the attributes during the calls; the descriptor is an int.
        unsafe {
            if fi_cq_open(self.domain, &raw mut attr, &raw mut self.cq, null_mut()) == 0 {
                let mut fd: c_int = -1;
                let rc = fi_control(self.cq.cast(), FI_GETWAIT, (&raw mut fd).cast());
                self.fd = (rc == 0 && fd >= 0).then_some(fd);
                return Ok(());
            }
            self.cq = null_mut();
            attr.wait_obj = FI_WAIT_NONE;
            let rc = fi_cq_open(self.domain, &raw mut attr, &raw mut self.cq, null_mut());
            self.check("fi_cq_open", rc)
        }
    }

    unsafe fn open_plain(&mut self) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queue are live.
        unsafe {
            let mut ep = null_mut();
            self.check("fi_endpoint", fi_endpoint(self.domain, self.info, &raw mut ep, null_mut()))?;
            self.contexts = Contexts { ep, tx: ep, rx: ep };
            self.check("fi_ep_bind(address vector)", fi_bind(ep.cast(), self.av.cast(), 0))?;
            let rc = fi_bind(ep.cast(), self.cq.cast(), FI_TRANSMIT | FI_RECV);
            self.check("fi_ep_bind(completion queue)", rc)
        }
    }

    unsafe fn open_contexts(&mut self) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queue are live.
        unsafe {
            let (mut ep, mut tx, mut rx) = (null_mut(), null_mut(), null_mut());
            self.check("fi_scalable_ep", fi_scalable_ep(self.domain, self.info, &raw mut ep, null_mut()))?;
            self.contexts.ep = ep;
            self.check("fi_scalable_ep_bind", fi_bind(ep.cast(), self.av.cast(), 0))?;
            let rc = fi_tx_context(ep, 0, (*self.info).tx_attr, &raw mut tx, null_mut());
            self.check("fi_tx_context", rc)?;
            self.contexts.tx = tx;
            self.check("fi_ep_bind(transmit context)", fi_bind(tx.cast(), self.cq.cast(), FI_TRANSMIT))?;
            let rc = fi_rx_context(ep, 0, (*self.info).rx_attr, &raw mut rx, null_mut());
            self.check("fi_rx_context", rc)?;
            self.contexts.rx = rx;
            self.check("fi_ep_bind(receive context)", fi_bind(rx.cast(), self.cq.cast(), FI_RECV))
        }
    }

    /// What matters of the provider's attributes.
    pub(crate) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// The library.
    pub(crate) fn lib(&self) -> &Library {
        &self.lib
    }

    /// The endpoint's own address.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn address(&self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; ADDRESS];
        let mut len = address.len();
        // SAFETY: the endpoint is live, and so many bytes are writable.
        let rc = unsafe { fi_getname(self.contexts.ep, address.as_mut_ptr().cast(), &raw mut len) };
        if rc != 0 || len > address.len() {
            return Err(format!("fi_getname: {}", self.lib.error(i64::from(rc))));
        }
        address.truncate(len);
        Ok(address)
    }

    /// Makes a peer's address known: what to send to.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn insert(&self, address: &[u8]) -> Result<fi_addr_t, String> {
        // A provider that takes the address for a string, or for a longer one than it is, finds zeros behind it.
        let mut padded = vec![0; address.len().max(ADDRESS) + 8];
        padded[..address.len()].copy_from_slice(address);
        let mut to = FI_ADDR_UNSPEC;
        // SAFETY: the vector is live; the provider reads one address, of no more bytes than there are.
        let rc = unsafe { fi_av_insert(self.av, padded.as_ptr().cast(), 1, &raw mut to, 0, null_mut()) };
        match rc {
            1 if to != FI_ADDR_UNSPEC => Ok(if self.scalable { fi_rx_addr(to, 0, RX_CTX_BITS) } else { to }),
            1 | 0 => Err("fi_av_insert: the provider does not take the address".into()),
            rc => Err(format!("fi_av_insert: {}", self.lib.error(i64::from(rc)))),
        }
    }

    /// Forgets a peer's address.
    ///
    /// # Errors
    /// What the provider says.
    pub(crate) fn remove(&self, peer: fi_addr_t) -> Result<(), String> {
        let mut peer = peer;
        // SAFETY: the vector is live, and holds the address.
        let rc = unsafe { fi_av_remove(self.av, &raw mut peer, 1, 0) };
        if rc == 0 { Ok(()) } else { Err(format!("fi_av_remove: {}", self.lib.error(i64::from(rc)))) }
    }

    /// # Errors
    /// If the endpoint was shut.
    #[inline]
    fn is_open(&self) -> Result<(), Refused> {
        if self.contexts.tx.is_null() {
            Err(Refused::Failed("the endpoint is closed".into()))
        } else {
            Ok(())
        }
    }

    /// Sends a short message, which is copied.
    #[inline]
    pub(crate) fn inject(&self, bytes: &[u8], to: fi_addr_t) -> Result<(), Refused> {
        self.is_open()?;
        // SAFETY: the context is live; the bytes are read before the call returns.
        let rc = unsafe { fi_inject(self.contexts.tx, bytes.as_ptr().cast(), bytes.len(), to) };
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
        let rc = unsafe { fi_send(self.contexts.tx, at.cast(), len, desc, to, context) };
        if rc == 0 { Ok(()) } else { check(&self.lib, "fi_send", rc as i64) }
    }

    /// Posts a receive buffer: for several messages, if the provider can do that, else for one.
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
    ) -> Result<(), Refused> {
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
        let flags = if self.traits.multi_recv { FI_MULTI_RECV } else { 0 };
        // SAFETY: by contract; the receive context is live. One piece: the provider keeps no array of them.
        let rc = unsafe { fi_recvmsg(self.contexts.rx, &raw const msg, flags) };
        check(&self.lib, "fi_recvmsg", rc as i64)
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
        let rc = unsafe { fi_read(self.contexts.tx, at.cast(), len, desc, from, remote, key, context) };
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
        let rc =
            unsafe { fi_writemsg(self.contexts.tx, &raw const msg, FI_DELIVERY_COMPLETE | FI_COMPLETION) };
        check(&self.lib, "fi_writemsg", rc as i64)
    }

    /// Asks that an operation be given up; its completion still comes.
    pub(crate) fn cancel(&self, receive: bool, context: *mut c_void) {
        let ep = if receive { self.contexts.rx } else { self.contexts.tx };
        if ep.is_null() {
            return;
        }
        // SAFETY: the context is live. Providers that cannot cancel say so, and the operation goes on.
        let _ = unsafe { fi_cancel(ep, context) };
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
        unsafe { fi_trywait(self.fabric, &raw mut it, 1) == 0 }
    }
}

impl Traits {
    /// # Safety
    /// The info is live and the library's.
    unsafe fn of(info: *const fi_info) -> Traits {
        // SAFETY: an info of the library's has all parts.
        let (domain, tx, rx, ep, caps) = unsafe {
            (&*(*info).domain_attr, &*(*info).tx_attr, &*(*info).rx_attr, &*(*info).ep_attr, (*info).caps)
        };
        let mr_mode = match domain.mr_mode {
            FI_MR_BASIC => FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
            FI_MR_SCALABLE => 0,
            mode => mode,
        };
        Traits {
            mr_mode,
            mr_key_size: domain.mr_key_size,
            inject: tx.inject_size,
            max_msg: ep.max_msg_size,
            tx: tx.size.max(1),
            rx: rx.size.max(1),
            multi_recv: caps & FI_MULTI_RECV != 0,
            rma: caps & FI_RMA != 0,
        }
    }

    /// Whether the provider wants this of who registers memory.
    pub(crate) fn wants(&self, mr_mode: i32) -> bool {
        self.mr_mode & mr_mode != 0
    }
}

impl Endpoint {
    /// Closes the endpoint itself: no operation is under way any more. Closing again does nothing.
    pub(crate) fn shut(&mut self) {
        if self.scalable {
            self.close("transmit context", self.contexts.tx.cast());
            self.close("receive context", self.contexts.rx.cast());
        }
        self.close("endpoint", self.contexts.ep.cast());
        self.contexts = Contexts { ep: null_mut(), tx: null_mut(), rx: null_mut() };
    }

    fn close(&self, what: &str, object: *mut fid) {
        if object.is_null() {
            return;
        }
        // SAFETY: made by `open`, live, and closed once.
        let rc = unsafe { fi_close(object) };
        if rc != 0 {
            let why = self.lib.error(i64::from(rc));
            tracing::warn!(what, why, "libfabric does not close an object");
        }
    }
}

impl Drop for Endpoint {
    /// Closes in the order of dependence. What does not close (the provider says that it is in use) is left to the process's end;
    /// a log says so.
    fn drop(&mut self) {
        self.shut();
        self.close("address vector", self.av.cast());
        self.close("completion queue", self.cq.cast());
        self.close("domain", self.domain.cast());
        self.close("fabric", self.fabric.cast());
        // SAFETY: the copy that `open` made.
        unsafe { (self.lib.fi_freeinfo)(self.info) };
    }
}
