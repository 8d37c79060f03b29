//! An endpoint of libfabric with two buffers, driven as directly as possible: the floor for users
//! of libfabric.
//!
//! This object owns all memory that operations use, and frees it only when the endpoint is closed,
//! so its methods are safe. Received data is not read while operations are in flight.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use std::os::fd::RawFd;

use libfabric_sys::Library;
use libfabric_sys::attr::{fi_addr_t, fi_av_attr, fi_context2, fi_cq_attr, fi_cq_err_entry, fi_cq_msg_entry};
use libfabric_sys::call::*;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr};
use netmod_ofi::fi::info::Offer;

use super::PageBuf;
use super::buffers::{Buffers, Remote};

/// Maximum number of operations of each kind in flight.
const DEPTH: usize = 64;
/// Maximum number of completions taken at once.
const BATCH: usize = 16;
/// Maximum duration of one wait for the queue, in milliseconds.
const REST: c_int = 10;
/// Maximum length of an endpoint's address, in bytes.
const ADDRESS: usize = 1024;
/// Keys of the buffers if this side chooses them.
const KEYS: [u64; 2] = [0x51, 0x52];

/// A buffer with its registration, if the provider requires one or peers access it.
#[derive(Debug)]
struct Region {
    buf: PageBuf,
    mr: *mut fid_mr,
}

impl Region {
    fn desc(&self) -> *mut c_void {
        // SAFETY: a registration is live as long as the region says that it has one.
        unsafe { self.mr.as_ref() }.map_or(null_mut(), |mr| mr.mem_desc)
    }

    /// Ends the registration, if there is one.
    fn unregister(&mut self) {
        let mr = core::mem::replace(&mut self.mr, null_mut());
        // SAFETY: the registration is live until here.
        if !unsafe { close(mr.cast()) } {
            // Memory that the provider may still use is leaked.
            core::mem::forget(core::mem::replace(&mut self.buf, PageBuf::new(1)));
        }
    }
}

impl AsMut<[u8]> for Region {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buf
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// A directly driven endpoint with its buffers.
#[derive(Debug)]
pub(crate) struct Fabric {
    lib: Library,
    offer: Offer,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    cq: *mut fid_cq,
    /// Descriptor to wait on for the queue, if requested and available.
    fd: Option<RawFd>,
    av: *mut fid_av,
    ep: *mut fid_ep,
    peer: fi_addr_t,
    buffers: Buffers<Region>,
    /// Storage of operations, lent to the provider: the first half for sends, reads and writes, the
    /// rest for receives.
    contexts: Box<[fi_context2]>,
    depth: usize,
    free: Vec<usize>,
}

fn checked(lib: &Library, call: &str, rc: i64) -> Result<(), String> {
    if rc >= 0 { Ok(()) } else { Err(format!("{call}: {}", lib.error(rc))) }
}

impl Fabric {
    /// Opens an endpoint of an offer. `blocks`: it waits on its queue's descriptor instead of
    /// yielding.
    ///
    /// # Errors
    /// The call that failed, and its cause.
    pub(crate) fn open(lib: Library, offer: Offer, blocks: bool) -> Result<Fabric, String> {
        let depth = DEPTH.min(offer.tx_size).min(offer.rx_size).max(1);
        let mut this = Fabric {
            lib,
            offer,
            fabric: null_mut(),
            domain: null_mut(),
            cq: null_mut(),
            fd: None,
            av: null_mut(),
            ep: null_mut(),
            peer: FI_ADDR_UNSPEC,
            buffers: Buffers::none(),
            contexts: vec![fi_context2::ZERO; 2 * depth].into(),
            depth,
            free: (0..depth).collect(),
        };
        let info = this.offer.info();
        let check = |call, rc: i32| checked(&lib, call, rc.into());
        let mut cq = fi_cq_attr {
            size: 4 * depth,
            flags: 0,
            format: FI_CQ_FORMAT_MSG,
            wait_obj: if blocks { FI_WAIT_FD } else { FI_WAIT_NONE },
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        // SAFETY: the record is live and owns its parts; objects are live when they are used, and
        // are closed by `drop`; attributes live during the calls.
        unsafe {
            let rc = (lib.fi_fabric)((*info).fabric_attr, &raw mut this.fabric, null_mut());
            check("fi_fabric", rc)?;
            check("fi_domain", fi_domain(this.fabric, info, &raw mut this.domain, null_mut()))?;
            check("fi_cq_open", fi_cq_open(this.domain, &raw mut cq, &raw mut this.cq, null_mut()))?;
            if blocks {
                let mut fd: c_int = -1;
                check(
                    "fi_control(FI_GETWAIT)",
                    fi_control(this.cq.cast(), FI_GETWAIT, (&raw mut fd).cast()),
                )?;
                this.fd = Some(fd);
            }
            let mut av = fi_av_attr {
                type_: (*(*info).domain_attr).av_type,
                rx_ctx_bits: 0,
                count: 1,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            check("fi_av_open", fi_av_open(this.domain, &raw mut av, &raw mut this.av, null_mut()))?;
            check("fi_endpoint", fi_endpoint(this.domain, info, &raw mut this.ep, null_mut()))?;
            check("fi_ep_bind", fi_bind(this.ep.cast(), this.av.cast(), 0))?;
            check("fi_ep_bind", fi_bind(this.ep.cast(), this.cq.cast(), FI_TRANSMIT | FI_RECV))?;
            check("fi_enable", fi_enable(this.ep.cast()))?;
        }
        Ok(this)
    }

    /// Returns the offer that the endpoint was opened from.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Returns the endpoint's address.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) fn address(&self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; ADDRESS];
        let mut len = address.len();
        // SAFETY: the endpoint is live, and that many bytes are writable.
        let rc = unsafe { fi_getname(self.ep, address.as_mut_ptr().cast(), &raw mut len) };
        checked(&self.lib, "fi_getname", rc.into())?;
        address.truncate(len);
        Ok(address)
    }

    /// Sets the destination of all operations.
    ///
    /// # Errors
    /// The provider's error.
    pub(crate) fn set_peer(&mut self, address: &[u8]) -> Result<(), String> {
        // Zeros follow the address, whatever length the provider assumes.
        let mut padded = vec![0; address.len().max(ADDRESS) + 8];
        padded[..address.len()].copy_from_slice(address);
        // SAFETY: the vector is live; one address is read, of no more bytes than there are.
        let rc =
            unsafe { fi_av_insert(self.av, padded.as_ptr().cast(), 1, &raw mut self.peer, 0, null_mut()) };
        match rc {
            1 => Ok(()),
            rc => checked(&self.lib, "fi_av_insert", rc.into())
                .and_then(|()| Err("fi_av_insert: the provider refuses the address".into())),
        }
    }

    /// Returns the number of operations of each kind that can be in flight.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the total number of completed receives.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.buffers.received()
    }

    /// Returns true if no send, read or write is in flight.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.free.len() == self.depth
    }

    fn is_quiet(&self) -> bool {
        self.is_sent() && self.buffers.receiving() == 0
    }

    /// Returns the send buffer and the receive buffer.
    ///
    /// # Errors
    /// If an operation is in flight, or there are no buffers yet.
    pub(crate) fn buffers(&mut self) -> Result<(&mut [u8], &mut [u8]), String> {
        let sent = self.is_sent();
        self.buffers.bytes(sent)
    }

    /// Replaces the buffers by new ones of this length.
    ///
    /// # Errors
    /// If an operation is in flight, or they cannot be registered.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), String> {
        let (sent, mr, rma) = (self.is_sent(), self.offer.mr(), self.offer.has_rma());
        let remote = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        let access = FI_SEND | FI_RECV | if rma { remote } else { 0 };
        self.buffers.replace(sent, |which| {
            let mut region = Region { buf: PageBuf::new(bytes), mr: null_mut() };
            if !mr.local && !rma {
                return Ok(region);
            }
            let (at, len) = (region.buf.as_mut_ptr(), region.buf.len());
            let key = if mr.prov_key { 0 } else { KEYS[which] };
            // SAFETY: domain and endpoint are live; the memory outlives its registration.
            unsafe {
                let rc =
                    fi_mr_reg(self.domain, at.cast(), len, access, 0, key, 0, &raw mut region.mr, null_mut());
                checked(&self.lib, "fi_mr_reg", rc.into())?;
                if mr.endpoint {
                    let rc = fi_bind(region.mr.cast(), self.ep.cast(), 0);
                    checked(&self.lib, "fi_mr_bind", rc.into())?;
                    checked(&self.lib, "fi_mr_enable", fi_enable(region.mr.cast()).into())?;
                }
            }
            Ok(region)
        })
    }

    /// Returns the buffers as the peer addresses them.
    pub(crate) fn exposed(&mut self) -> Option<[Remote; 2]> {
        let virt = self.offer.mr().virt_addr;
        let regions = self.buffers.regions()?;
        let [Some(send), Some(recv)] = regions.each_mut().map(|r| {
            // SAFETY: a registration is live as long as the region says that it has one.
            let key = unsafe { r.mr.as_ref() }?.key;
            Some((if virt { r.buf.as_mut_ptr() as u64 } else { 0 }, key))
        }) else {
            return None;
        };
        Some([send, recv])
    }

    /// Posts a receive of up to `len` bytes.
    ///
    /// # Errors
    /// The provider's error, or too many receives in flight, or a message that is too long.
    pub(crate) fn post(&mut self, len: usize) -> Result<(), String> {
        let (under_way, posted) = (self.buffers.receiving() as usize, self.buffers.all_posted());
        let Some([_, region]) = self.buffers.regions() else { return Err("there are no buffers".into()) };
        if len > region.buf.len() || under_way == self.depth {
            return Err("too many receives, or one that is too long".into());
        }
        // Receives complete in order, so the next storage in the ring is free.
        let context = &raw mut self.contexts[self.depth + posted as usize % self.depth];
        let (at, desc) = (region.buf.as_mut_ptr(), region.desc());
        loop {
            // SAFETY: buffer and storage stay until the endpoint is closed, and are not read
            // meanwhile. Several receives into the same memory make its content arbitrary, but are
            // not invalid.
            let rc = unsafe { fi_recv(self.ep, at.cast(), len, desc, FI_ADDR_UNSPEC, context.cast()) };
            if rc != -(FI_EAGAIN as isize) {
                checked(&self.lib, "fi_recv", rc as i64)?;
                self.buffers.posted();
                return Ok(());
            }
            self.poll()?;
        }
    }

    /// Starts an operation with storage; returns false if it cannot start now.
    #[inline]
    fn start(&mut self, call: &str, op: impl FnOnce(&Fabric, *mut c_void) -> isize) -> Result<bool, String> {
        let Some(place) = self.free.pop() else { return Ok(false) };
        let context: *mut fi_context2 = &raw mut self.contexts[place];
        let rc = op(self, context.cast());
        if rc == 0 {
            return Ok(true);
        }
        self.free.push(place);
        if rc == -(FI_EAGAIN as isize) {
            Ok(false)
        } else {
            checked(&self.lib, call, rc as i64).map(|()| false)
        }
    }

    /// Returns the send buffer (0) or receive buffer (1), for an operation on `len` of its bytes.
    #[inline]
    fn memory(&mut self, which: usize, len: usize) -> Result<(*mut c_void, *mut c_void), String> {
        match self.buffers.regions() {
            Some(regions) if len <= regions[which].buf.len() => {
                Ok((regions[which].buf.as_mut_ptr().cast(), regions[which].desc()))
            }
            _ => Err("the buffer is too short".into()),
        }
    }

    /// Sends `len` bytes; returns false if that cannot start now.
    ///
    /// # Errors
    /// The provider's error.
    #[inline]
    pub(crate) fn send(&mut self, len: usize) -> Result<bool, String> {
        let (at, desc) = self.memory(0, len)?;
        if len <= self.offer.inject {
            // SAFETY: the bytes are there; they are copied during the call.
            let rc = unsafe { fi_inject(self.ep, at, len, self.peer) };
            if rc == -(FI_EAGAIN as isize) {
                return Ok(false);
            }
            return checked(&self.lib, "fi_inject", rc as i64).map(|()| true);
        }
        // SAFETY: the bytes are there and stay until the endpoint is closed, and so does the
        // context.
        self.start("fi_send", |f, context| unsafe { fi_send(f.ep, at, len, desc, f.peer, context) })
    }

    /// Reads `len` bytes of the peer's memory into the receive buffer; returns false if that cannot
    /// start now.
    ///
    /// # Errors
    /// The provider's error.
    #[inline]
    pub(crate) fn read(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        let (at, desc) = self.memory(1, len)?;
        // SAFETY: as for `send`.
        self.start("fi_read", |f, context| unsafe {
            fi_read(f.ep, at, len, desc, f.peer, addr, key, context)
        })
    }

    /// Writes `len` bytes of the send buffer into the peer's memory; returns false if that cannot
    /// start now.
    ///
    /// # Errors
    /// The provider's error.
    #[inline]
    pub(crate) fn write(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        let (at, desc) = self.memory(0, len)?;
        // SAFETY: as for `send`.
        self.start("fi_write", |f, context| unsafe {
            fi_write(f.ep, at, len, desc, f.peer, addr, key, context)
        })
    }

    /// Makes progress. Returns true if anything has completed.
    ///
    /// # Errors
    /// If an operation failed.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<bool, String> {
        const EMPTY: fi_cq_msg_entry = fi_cq_msg_entry { op_context: null_mut(), flags: 0, len: 0 };
        let mut entries = [EMPTY; BATCH];
        // SAFETY: the queue is live, and the entries are of its format and as many as is said.
        let n = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), BATCH) };
        if n == -(FI_EAGAIN as isize) {
            return Ok(false);
        }
        let Ok(n) = usize::try_from(n) else { return self.failure(n as i64) };
        let first = self.contexts.as_ptr() as usize;
        for entry in &entries[..n] {
            let place = (entry.op_context as usize).wrapping_sub(first) / size_of::<fi_context2>();
            if place < self.depth {
                self.free.push(place);
            } else if place < 2 * self.depth {
                self.buffers.arrived();
            } else {
                self.buffers.fail();
                return Err("fi_cq_read: a completion without operation".into());
            }
        }
        Ok(n > 0)
    }

    /// Gives up the processor, until the queue has an event if it can be waited for.
    pub(crate) fn rest(&self) {
        let Some(fd) = self.fd else { return std::thread::yield_now() };
        let mut queue: *mut fid = self.cq.cast();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: fabric and queue are live; the entry is a local, and its descriptor is open as
        // long as the queue.
        unsafe {
            if fi_trywait(self.fabric, &raw mut queue, 1) == 0 {
                // The queue is polled next in any case.
                libc::poll(&raw mut poll, 1, REST);
            }
        }
    }

    #[cold]
    fn failure(&mut self, rc: i64) -> Result<bool, String> {
        self.buffers.fail();
        if rc != -i64::from(FI_EAVAIL) {
            return checked(&self.lib, "fi_cq_read", rc).map(|()| false);
        }
        let mut entry = fi_cq_err_entry::ZERO;
        // SAFETY: the queue is live; the entry is ours and zeroed.
        let rc = unsafe { fi_cq_readerr(self.cq, &raw mut entry, 0) };
        checked(&self.lib, "fi_cq_readerr", rc as i64)?;
        Err(format!("an operation failed: {}", self.lib.error(entry.err.into())))
    }

    fn unregister(&mut self) {
        self.buffers.regions().into_iter().flatten().for_each(Region::unregister);
    }
}

/// Closes an object, unless it was never opened. Returns true if the provider has released it.
///
/// # Safety
/// The object is live, and not used afterwards.
unsafe fn close(object: *mut fid) -> bool {
    // SAFETY: by contract.
    object.is_null() || unsafe { fi_close(object) } == 0
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if self.is_quiet() || self.offer.mr().endpoint {
            self.unregister();
        }
        // SAFETY: the endpoint is live until here; after it is closed the provider uses none of its
        // memory.
        let closed = unsafe { close(self.ep.cast()) };
        self.unregister();
        // SAFETY: nothing uses these any more, in this order.
        unsafe {
            close(self.av.cast());
            close(self.cq.cast());
            close(self.domain.cast());
            close(self.fabric.cast());
        }
        if !closed {
            // Memory that the provider may still use is leaked.
            core::mem::forget((self.buffers.take(), core::mem::take(&mut self.contexts)));
        }
    }
}
