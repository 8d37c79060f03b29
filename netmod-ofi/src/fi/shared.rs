//! An opened domain with everything that a process's engines share: fabric, address vector,
//! endpoint, and the contexts of a scalable endpoint.
//!
//! A scalable endpoint is made with all its contexts. Each engine takes a pair of them, with a
//! completion queue. Contexts stay open until the last engine has left: for a message to a closed
//! context, a provider may block all others (sockets does). A pair is never reused, so late
//! messages do not reach another engine.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::{self, null_mut};
use std::collections::{HashMap, HashSet};
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

use libfabric_sys::Library;
use libfabric_sys::attr::{fi_addr_t, fi_av_attr, fi_cq_attr, fi_info};
use libfabric_sys::call::*;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric};
use parking_lot::{Mutex, MutexGuard, ReentrantMutex};

use super::check;
use super::traits::Traits;
use crate::error::{FabricError, Refused};

/// Maximum length of an endpoint's address, in bytes.
const ADDRESS: usize = 1024;
/// Address bits that select receive contexts in this process's vectors, enough for the contexts of
/// any peer.
const RX_CTX_BITS: u32 = 8;
/// Initial capacity of an address vector used by several threads: the sockets provider reads it
/// while it grows.
const ADDRESSES: usize = 4096;

/// Held while an endpoint is opened or closed. Providers keep lists of a process's endpoints, some
/// without a lock (shm of 1.17).
static OPEN_CLOSE: ReentrantMutex<()> = ReentrantMutex::new(());

/// Parameters for opening a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainOptions {
    /// Maximum frame length, as far as the provider supports it. A multi-receive buffer stays
    /// posted while it has room for such a frame.
    pub(crate) frame: usize,
    /// Number of context pairs of a scalable endpoint; 1 for a plain endpoint.
    pub(crate) contexts: usize,
    /// True if completion queues shall have a descriptor to wait on, where the provider has a
    /// usable one.
    pub(crate) descriptor: bool,
    /// Identifies the process where tests run several in one; only engines of the same process
    /// share an endpoint.
    pub(crate) process: u32,
}

/// A pair of transmit and receive contexts, or a plain endpoint as both, with their completion
/// queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextPair {
    pub(super) tx: *mut fid_ep,
    pub(super) rx: *mut fid_ep,
    pub(super) cq: *mut fid_cq,
    /// Descriptor to wait on, if there is one.
    pub(super) fd: Option<RawFd>,
}

const NO_PAIR: ContextPair = ContextPair { tx: null_mut(), rx: null_mut(), cq: null_mut(), fd: None };

/// State that changes after opening.
#[derive(Debug, Default)]
struct Control {
    /// Number of context pairs that were taken, in order.
    taken: usize,
    /// Context pairs that were closed early.
    closed: HashSet<usize>,
    /// Addresses in the vector, each inserted once for all users.
    numbers: HashMap<Box<[u8]>, fi_addr_t>,
    /// For each entry of the vector, its address and number of users.
    addresses: HashMap<fi_addr_t, (Box<[u8]>, usize)>,
    /// Keys in use that this process has chosen.
    keys: HashSet<u64>,
}

/// An opened domain.
#[derive(Debug)]
pub(super) struct Domain {
    lib: Library,
    info: *mut fi_info,
    pub(super) fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    ep: *mut fid_ep,
    pairs: Vec<ContextPair>,
    /// True if the endpoint is scalable.
    scalable: bool,
    rx_ctx_bits: u32,
    traits: Traits,
    control: Mutex<Control>,
}

// SAFETY: the pointers are the library's objects, which are not bound to threads. Control calls on
// shared objects are made with `control` locked. The objects of a context pair are used only by its
// owner, one thread at a time, as `FI_THREAD_COMPLETION` requires, and, with a single pair,
// `FI_THREAD_DOMAIN`. The fabric is only read.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// The objects for a registration, exclusive while this is held.
pub(super) struct Registering<'a> {
    pub(super) domain: *mut fid_domain,
    pub(super) ep: *mut fid_ep,
    _held: MutexGuard<'a, Control>,
}

impl Domain {
    /// Opens the domain that an info describes, for a single context pair or for several.
    ///
    /// # Errors
    /// The call that failed, and its cause. Everything opened before is closed again.
    ///
    /// # Safety
    /// The info is the library's, and live.
    pub(super) unsafe fn open(
        lib: Library,
        info: *const fi_info,
        options: &DomainOptions,
    ) -> Result<Domain, FabricError> {
        let _lock = OPEN_CLOSE.lock();
        // SAFETY: the info is live; the copy is this value's, and freed with it.
        let info = unsafe { (lib.fi_dupinfo)(info) };
        if info.is_null() {
            return Err(FabricError::Call { call: "fi_dupinfo", why: "out of memory".into() });
        }
        // SAFETY: a copy made by the library has all parts.
        let traits = unsafe { Traits::of(info, lib.version()) };
        let scalable = options.contexts > 1;
        let mut this = Domain {
            lib,
            info,
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            ep: null_mut(),
            pairs: Vec::with_capacity(options.contexts),
            scalable,
            rx_ctx_bits: if traits.names_contexts { RX_CTX_BITS } else { 0 },
            traits,
            control: Mutex::default(),
        };
        this.open_all(options).map_err(|refused| FabricError::of("opening a domain", refused))?;
        Ok(this)
    }

    fn check(&self, call: &'static str, rc: c_int) -> Result<(), Refused> {
        check(&self.lib, call, i64::from(rc))
    }

    fn failed(&self, call: &'static str, rc: c_int) -> FabricError {
        FabricError::Call { call, why: self.lib.error(i64::from(rc)) }
    }

    fn open_all(&mut self, options: &DomainOptions) -> Result<(), Refused> {
        // SAFETY: the info is live and owned here, with all its parts; each object is made here,
        // used while it is live, and closed by `drop`; attributes live during the calls.
        unsafe {
            let rc = (self.lib.fi_fabric)((*self.info).fabric_attr, &raw mut self.fabric, null_mut());
            self.check("fi_fabric", rc)?;
            let rc = fi_domain(self.fabric, self.info, &raw mut self.domain, null_mut());
            self.check("fi_domain", rc)?;
            let mut attr = fi_av_attr {
                type_: (*(*self.info).domain_attr).av_type,
                rx_ctx_bits: self.rx_ctx_bits as c_int,
                count: if self.scalable { ADDRESSES } else { 0 },
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let rc = fi_av_open(self.domain, &raw mut attr, &raw mut self.av, null_mut());
            self.check("fi_av_open", rc)?;
            if self.scalable {
                self.open_scalable(options)?;
            } else {
                self.open_plain(options)?;
            }
            self.check("fi_enable", fi_enable(self.ep.cast()))?;
            if self.traits.multi_recv {
                // Only after enabling: the provider shm of 1.17 creates the object that this
                // changes when it is enabled, and would crash.
                let least = self.traits.frame(options.frame);
                let value: *const usize = &raw const least;
                for pair in &self.pairs {
                    let value = value.cast();
                    let rc =
                        fi_setopt(pair.rx, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, value, size_of::<usize>());
                    self.check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", rc)?;
                }
            }
            Ok(())
        }
    }

    /// Adds a context pair with a queue. The queue has a descriptor if that is requested and the
    /// provider has a usable one.
    unsafe fn open_queue(&mut self, descriptor: bool) -> Result<usize, Refused> {
        let mut attr = fi_cq_attr {
            size: self.traits.tx + self.traits.rx,
            flags: 0,
            format: FI_CQ_FORMAT_DATA,
            wait_obj: FI_WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        let mut pair = NO_PAIR;
        // SAFETY: the domain is live, as are the attributes during the calls; the descriptor is an
        // int.
        unsafe {
            let descriptor = descriptor && self.traits.wakes;
            if descriptor && fi_cq_open(self.domain, &raw mut attr, &raw mut pair.cq, null_mut()) == 0 {
                let mut fd: c_int = -1;
                let rc = fi_control(pair.cq.cast(), FI_GETWAIT, (&raw mut fd).cast());
                pair.fd = (rc == 0 && fd >= 0).then_some(fd);
            } else {
                pair.cq = null_mut();
                attr.wait_obj = FI_WAIT_NONE;
                let rc = fi_cq_open(self.domain, &raw mut attr, &raw mut pair.cq, null_mut());
                self.check("fi_cq_open", rc)?;
            }
        }
        self.pairs.push(pair);
        Ok(self.pairs.len() - 1)
    }

    unsafe fn open_plain(&mut self, options: &DomainOptions) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queue are live.
        unsafe {
            let pair = self.open_queue(options.descriptor)?;
            let rc = fi_endpoint(self.domain, self.info, &raw mut self.ep, null_mut());
            self.check("fi_endpoint", rc)?;
            let ep = self.ep;
            self.check("fi_ep_bind(address vector)", fi_bind(ep.cast(), self.av.cast(), 0))?;
            let rc = fi_bind(ep.cast(), self.pairs[pair].cq.cast(), FI_TRANSMIT | FI_RECV);
            self.check("fi_ep_bind(completion queue)", rc)?;
            (self.pairs[pair].tx, self.pairs[pair].rx) = (ep, ep);
            Ok(())
        }
    }

    unsafe fn open_scalable(&mut self, options: &DomainOptions) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queues are live; the info is this
        // value's own.
        unsafe {
            let contexts = options.contexts;
            (*(*self.info).ep_attr).tx_ctx_cnt = contexts;
            (*(*self.info).ep_attr).rx_ctx_cnt = contexts;
            let rc = fi_scalable_ep(self.domain, self.info, &raw mut self.ep, null_mut());
            self.check("fi_scalable_ep", rc)?;
            let ep = self.ep;
            self.check("fi_scalable_ep_bind", fi_bind(ep.cast(), self.av.cast(), 0))?;
            for index in 0..contexts {
                let at = self.open_queue(options.descriptor)?;
                let (cq, number) = (self.pairs[at].cq, index as c_int);
                let tx = &raw mut self.pairs[at].tx;
                let rc = fi_tx_context(ep, number, (*self.info).tx_attr, tx, null_mut());
                self.check("fi_tx_context", rc)?;
                let rx = &raw mut self.pairs[at].rx;
                let rc = fi_rx_context(ep, number, (*self.info).rx_attr, rx, null_mut());
                self.check("fi_rx_context", rc)?;
                let ContextPair { tx, rx, .. } = self.pairs[at];
                self.check("fi_ep_bind(transmit context)", fi_bind(tx.cast(), cq.cast(), FI_TRANSMIT))?;
                self.check("fi_ep_bind(receive context)", fi_bind(rx.cast(), cq.cast(), FI_RECV))?;
                self.check("fi_enable(transmit context)", fi_enable(tx.cast()))?;
                self.check("fi_enable(receive context)", fi_enable(rx.cast()))?;
            }
            Ok(())
        }
    }

    /// Takes the next unused context pair and its number, if there is one.
    pub(super) fn take(&self) -> Option<(usize, ContextPair)> {
        let mut control = self.control.lock();
        let number = control.taken;
        let pair = *self.pairs.get(number)?;
        control.taken += 1;
        Some((number, pair))
    }

    /// Returns the number of context pairs.
    pub(super) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Returns the address of the endpoint, shared by all its contexts.
    pub(super) fn address(&self) -> Result<Vec<u8>, FabricError> {
        let mut address = vec![0; ADDRESS];
        let mut len = address.len();
        let control = self.control.lock();
        if !self.scalable && !control.closed.is_empty() {
            return Err(FabricError::EndpointClosed);
        }
        // SAFETY: the endpoint is live, by the check, and that many bytes are writable.
        let rc = unsafe { fi_getname(self.ep, address.as_mut_ptr().cast(), &raw mut len) };
        if rc != 0 || len > address.len() {
            return Err(self.failed("fi_getname", rc));
        }
        address.truncate(len);
        Ok(address)
    }

    /// Inserts the address of a peer's endpoint, and returns the address of one of its receive
    /// contexts for sends.
    pub(super) fn insert(&self, address: &[u8], context: u8) -> Result<fi_addr_t, FabricError> {
        if context > 0 && self.rx_ctx_bits == 0 {
            return Err(FabricError::ContextUnnamed { context });
        }
        let named = |to| fi_rx_addr(to, context.into(), self.rx_ctx_bits);
        let mut control = self.control.lock();
        if let Some(to) = control.numbers.get(address).copied() {
            control.addresses.entry(to).and_modify(|(_, users)| *users += 1);
            return Ok(named(to));
        }
        // Zeros follow the address, for a provider that reads it as a string, or reads too much.
        let mut padded = vec![0; address.len().max(ADDRESS) + 8];
        padded[..address.len()].copy_from_slice(address);
        let mut to = FI_ADDR_UNSPEC;
        // SAFETY: the vector is live; the provider reads one address, of no more bytes than there
        // are.
        let rc = unsafe { fi_av_insert(self.av, padded.as_ptr().cast(), 1, &raw mut to, 0, null_mut()) };
        match rc {
            1 if to != FI_ADDR_UNSPEC => {
                control.numbers.insert(address.into(), to);
                control.addresses.insert(to, (address.into(), 1));
                Ok(named(to))
            }
            1 | 0 => Err(FabricError::AddressRefused),
            rc => Err(self.failed("fi_av_insert", rc)),
        }
    }

    /// Drops one use of an inserted address.
    pub(super) fn remove(&self, peer: fi_addr_t) -> Result<(), FabricError> {
        let mut peer = peer & (u64::MAX >> self.rx_ctx_bits);
        let mut control = self.control.lock();
        let Some((_, users)) = control.addresses.get_mut(&peer) else {
            return Err(FabricError::AddressUnknown);
        };
        *users -= 1;
        if *users > 0 {
            return Ok(());
        }
        if let Some((address, _)) = control.addresses.remove(&peer) {
            control.numbers.remove(&address);
        }
        // SAFETY: the vector is live, and holds the address.
        let rc = unsafe { fi_av_remove(self.av, &raw mut peer, 1, 0) };
        if rc == 0 { Ok(()) } else { Err(self.failed("fi_av_remove", rc)) }
    }

    /// Reserves the first of these keys that no registration of the domain has.
    pub(super) fn take_key(&self, mut keys: impl Iterator<Item = u64>) -> Option<u64> {
        let mut control = self.control.lock();
        let found = keys.find(|key| !control.keys.contains(key))?;
        control.keys.insert(found);
        Some(found)
    }

    /// Releases a key.
    pub(super) fn give_key(&self, key: u64) {
        self.control.lock().keys.remove(&key);
    }

    /// Returns exclusive access to the objects for making or closing a registration.
    pub(super) fn registering(&self) -> Registering<'_> {
        let _held = self.control.lock();
        Registering { domain: self.domain, ep: self.ep, _held }
    }

    /// Closes a context pair early, because the provider does not return lent memory otherwise.
    /// Closing again does nothing.
    pub(super) fn close_pair(&self, number: usize) {
        let mut control = self.control.lock();
        if !control.closed.insert(number) {
            return;
        }
        let _lock = OPEN_CLOSE.lock();
        if self.scalable {
            self.close_contexts(number);
        } else {
            self.close("endpoint", self.ep.cast());
        }
    }

    fn close_contexts(&self, number: usize) {
        self.close("transmit context", self.pairs[number].tx.cast());
        self.close("receive context", self.pairs[number].rx.cast());
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

impl Drop for Domain {
    /// Closes objects in order of dependence. An object that the provider refuses to close is
    /// logged, and stays until the process ends.
    fn drop(&mut self) {
        let _lock = OPEN_CLOSE.lock();
        let closed = core::mem::take(&mut self.control.get_mut().closed);
        if self.scalable {
            (0..self.pairs.len()).filter(|at| !closed.contains(at)).for_each(|at| self.close_contexts(at));
        }
        if self.scalable || closed.is_empty() {
            self.close("endpoint", self.ep.cast());
        }
        self.close("address vector", self.av.cast());
        for pair in &self.pairs {
            self.close("completion queue", pair.cq.cast());
        }
        self.close("domain", self.domain.cast());
        self.close("fabric", self.fabric.cast());
        // SAFETY: the copy that `open` made.
        unsafe { (self.lib.fi_freeinfo)(self.info) };
    }
}

/// Identity of a domain within a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DomainKey {
    /// Address of the library's code.
    library: *const c_void,
    names: [Vec<u8>; 3],
    options: DomainOptions,
}

// SAFETY: the pointer is compared, and never followed.
unsafe impl Send for DomainKey {}

/// Domains shared by engines.
static SHARED: Mutex<Vec<(DomainKey, Weak<Domain>)>> = Mutex::new(Vec::new());

/// Returns a context pair of an open domain, or of a newly opened one. Engines with equal
/// parameters share the domain.
///
/// # Errors
/// As for [`Domain::open`].
///
/// # Safety
/// The info is the library's, and live.
pub(super) unsafe fn join(
    lib: Library,
    info: *const fi_info,
    options: &DomainOptions,
) -> Result<(Arc<Domain>, usize, ContextPair), FabricError> {
    // SAFETY: by contract.
    let open = || unsafe { Domain::open(lib, info, options) };
    if options.contexts <= 1 {
        let domain = Arc::new(open()?);
        let (number, pair) = domain.take().ok_or(FabricError::NoContext)?;
        return Ok((domain, number, pair));
    }
    let key = DomainKey {
        library: lib.fi_getinfo as *const c_void,
        // SAFETY: an info of the library's has all parts.
        names: unsafe { names(info) },
        options: options.clone(),
    };
    // Held throughout: two engines must not open the same domain at the same time.
    let mut shared = SHARED.lock();
    shared.retain(|(_, domain)| domain.strong_count() > 0);
    let mut same = shared.iter().filter(|(w, _)| *w == key).filter_map(|(_, domain)| domain.upgrade());
    if let Some((domain, (number, pair))) = same.find_map(|d| d.take().map(|pair| (d, pair))) {
        return Ok((domain, number, pair));
    }
    drop(same);
    let domain = Arc::new(open()?);
    let (number, pair) = domain.take().ok_or(FabricError::NoContext)?;
    shared.push((key, Arc::downgrade(&domain)));
    Ok((domain, number, pair))
}

/// Returns the names of provider, fabric and domain.
///
/// # Safety
/// The info is the library's, and live.
unsafe fn names(info: *const fi_info) -> [Vec<u8>; 3] {
    // SAFETY: by contract; names are C strings, or null.
    unsafe {
        let (fabric, domain) = (&*(*info).fabric_attr, &*(*info).domain_attr);
        [fabric.prov_name, fabric.name, domain.name].map(|at| {
            if at.is_null() { Vec::new() } else { core::ffi::CStr::from_ptr(at).to_bytes().to_vec() }
        })
    }
}
