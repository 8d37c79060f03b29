//! An opened domain, with what the engines of a process share of it: fabric, address vector, endpoint, and the contexts of a
//! scalable one.
//!
//! A scalable endpoint is made with all its contexts, and each engine takes a pair of them, with a completion queue. They stay
//! open until the last engine has left: a provider may hold up everybody's messages for one that is for a context that is closed
//! (sockets does). Which pair was taken by whom is never given out again, so nothing that is late comes to somebody else.

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

use super::endpoint::Traits;
use super::{Refused, check};

/// Longest address of an endpoint.
const ADDRESS: usize = 1024;
/// Bits of an address that number receive contexts, in this process's vectors: enough for the contexts of any peer.
const RX_CTX_BITS: u32 = 8;
/// Addresses that a vector of several threads has room for from the start: the sockets provider reads it while it grows.
const ADDRESSES: usize = 4096;

/// Held while an endpoint is opened or closed: providers keep lists of a process's endpoints, some of them without a lock (shm of 1.17).
static ALONE: ReentrantMutex<()> = ReentrantMutex::new(());

/// What opening asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Longest frame, as far as the provider is fit for it: as long as a buffer for several messages has room for such a one, it takes another one.
    pub(crate) frame: usize,
    /// Pairs of contexts of a scalable endpoint; with 1 the endpoint is a plain one.
    pub(crate) contexts: usize,
    /// Completion queues with a descriptor to wait on, where the provider has one that is of use.
    pub(crate) descriptor: bool,
    /// Which process this is, where several are played in one: engines of the same one share an endpoint.
    pub(crate) process: u32,
}

/// What sends and receives: a pair of contexts, or a plain endpoint in the place of both; and the queue of its completions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) tx: *mut fid_ep,
    pub(super) rx: *mut fid_ep,
    pub(super) cq: *mut fid_cq,
    /// What to wait on, if the provider has something.
    pub(super) fd: Option<RawFd>,
}

const NO_LANE: Lane = Lane { tx: null_mut(), rx: null_mut(), cq: null_mut(), fd: None };

/// What changes after opening.
#[derive(Debug, Default)]
struct Control {
    /// Lanes that were taken; the others come after them.
    taken: usize,
    /// Lanes that were closed before the end.
    closed: HashSet<usize>,
    /// Numbers of the addresses in the vector, where each is once, whoever uses it.
    numbers: HashMap<Box<[u8]>, fi_addr_t>,
    /// By number, an address and how many use it.
    addresses: HashMap<fi_addr_t, (Box<[u8]>, usize)>,
    /// Keys of registrations that this process chooses.
    keys: HashSet<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Domain {
    lib: Library,
    info: *mut fi_info,
    pub(super) fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    av: *mut fid_av,
    ep: *mut fid_ep,
    lanes: Vec<Lane>,
    /// Whether the endpoint is a scalable one.
    scalable: bool,
    rx_ctx_bits: u32,
    traits: Traits,
    control: Mutex<Control>,
}

// SAFETY: the pointers are those of the library's objects, which know no threads. Control calls on what is shared are made by
// whoever has locked `control`. A lane's objects are used by its only taker, one thread at a time, which is what
// `FI_THREAD_COMPLETION` asks for, and, where there is one lane, `FI_THREAD_DOMAIN`. The fabric is only looked at.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// A registration's objects, as [`Domain::registering`] gives them.
pub(super) struct Registering<'a> {
    pub(super) domain: *mut fid_domain,
    pub(super) ep: *mut fid_ep,
    _held: MutexGuard<'a, Control>,
}

impl Domain {
    /// Opens the domain that an info describes, for one who takes the only lane, or for several.
    ///
    /// # Errors
    /// Which call failed and why. What was opened before is closed again.
    ///
    /// # Safety
    /// The info is the library's, and live.
    pub(super) unsafe fn open(lib: Library, info: *const fi_info, wish: &Wish) -> Result<Domain, String> {
        let _alone = ALONE.lock();
        // SAFETY: the info is live; the copy is this value's, and freed with it.
        let info = unsafe { (lib.fi_dupinfo)(info) };
        if info.is_null() {
            return Err("fi_dupinfo: out of memory".into());
        }
        // SAFETY: a copy made by the library has all parts.
        let traits = unsafe { Traits::of(info, lib.version()) };
        let scalable = wish.contexts > 1;
        let mut this = Domain {
            lib,
            info,
            fabric: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            ep: null_mut(),
            lanes: Vec::with_capacity(wish.contexts),
            scalable,
            rx_ctx_bits: if traits.names_contexts { RX_CTX_BITS } else { 0 },
            traits,
            control: Mutex::default(),
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

    fn open_all(&mut self, wish: &Wish) -> Result<(), Refused> {
        // SAFETY: the info is live and this value's, and all its parts are there; each object is made here, used while it is live, and
        // closed by `drop`; attributes live during the calls.
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
                self.open_scalable(wish)?;
            } else {
                self.open_plain(wish)?;
            }
            self.check("fi_enable", fi_enable(self.ep.cast()))?;
            if self.traits.multi_recv {
                // Not before: the provider shm of 1.17 makes what this changes when it is enabled, and crashes.
                let least = self.traits.frame(wish.frame);
                let value: *const usize = &raw const least;
                for lane in &self.lanes {
                    let value = value.cast();
                    let rc =
                        fi_setopt(lane.rx, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, value, size_of::<usize>());
                    self.check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", rc)?;
                }
            }
            Ok(())
        }
    }

    /// Adds a lane with a queue: with a descriptor to wait on, or without, where none is wanted or the provider has none that is of use.
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
        let mut lane = NO_LANE;
        // SAFETY: the domain is live, as are the attributes during the calls; the descriptor is an int.
        unsafe {
            let descriptor = descriptor && self.traits.wakes;
            if descriptor && fi_cq_open(self.domain, &raw mut attr, &raw mut lane.cq, null_mut()) == 0 {
                let mut fd: c_int = -1;
                let rc = fi_control(lane.cq.cast(), FI_GETWAIT, (&raw mut fd).cast());
                lane.fd = (rc == 0 && fd >= 0).then_some(fd);
            } else {
                lane.cq = null_mut();
                attr.wait_obj = FI_WAIT_NONE;
                let rc = fi_cq_open(self.domain, &raw mut attr, &raw mut lane.cq, null_mut());
                self.check("fi_cq_open", rc)?;
            }
        }
        self.lanes.push(lane);
        Ok(self.lanes.len() - 1)
    }

    unsafe fn open_plain(&mut self, wish: &Wish) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queue are live.
        unsafe {
            let lane = self.open_queue(wish.descriptor)?;
            let rc = fi_endpoint(self.domain, self.info, &raw mut self.ep, null_mut());
            self.check("fi_endpoint", rc)?;
            let ep = self.ep;
            self.check("fi_ep_bind(address vector)", fi_bind(ep.cast(), self.av.cast(), 0))?;
            let rc = fi_bind(ep.cast(), self.lanes[lane].cq.cast(), FI_TRANSMIT | FI_RECV);
            self.check("fi_ep_bind(completion queue)", rc)?;
            (self.lanes[lane].tx, self.lanes[lane].rx) = (ep, ep);
            Ok(())
        }
    }

    unsafe fn open_scalable(&mut self, wish: &Wish) -> Result<(), Refused> {
        // SAFETY: the domain, the info, the vector and the queues are live; the info is this value's own.
        unsafe {
            let contexts = wish.contexts;
            (*(*self.info).ep_attr).tx_ctx_cnt = contexts;
            (*(*self.info).ep_attr).rx_ctx_cnt = contexts;
            let rc = fi_scalable_ep(self.domain, self.info, &raw mut self.ep, null_mut());
            self.check("fi_scalable_ep", rc)?;
            let ep = self.ep;
            self.check("fi_scalable_ep_bind", fi_bind(ep.cast(), self.av.cast(), 0))?;
            for index in 0..contexts {
                let at = self.open_queue(wish.descriptor)?;
                let (cq, number) = (self.lanes[at].cq, index as c_int);
                let tx = &raw mut self.lanes[at].tx;
                let rc = fi_tx_context(ep, number, (*self.info).tx_attr, tx, null_mut());
                self.check("fi_tx_context", rc)?;
                let rx = &raw mut self.lanes[at].rx;
                let rc = fi_rx_context(ep, number, (*self.info).rx_attr, rx, null_mut());
                self.check("fi_rx_context", rc)?;
                let Lane { tx, rx, .. } = self.lanes[at];
                self.check("fi_ep_bind(transmit context)", fi_bind(tx.cast(), cq.cast(), FI_TRANSMIT))?;
                self.check("fi_ep_bind(receive context)", fi_bind(rx.cast(), cq.cast(), FI_RECV))?;
                self.check("fi_enable(transmit context)", fi_enable(tx.cast()))?;
                self.check("fi_enable(receive context)", fi_enable(rx.cast()))?;
            }
            Ok(())
        }
    }

    /// A lane that nobody has had, and its number, if there is one.
    pub(super) fn take(&self) -> Option<(usize, Lane)> {
        let mut control = self.control.lock();
        let number = control.taken;
        let lane = *self.lanes.get(number)?;
        control.taken += 1;
        Some((number, lane))
    }

    /// Number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn traits(&self) -> &Traits {
        &self.traits
    }

    /// The address of the endpoint, which all its contexts have in common.
    pub(super) fn address(&self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; ADDRESS];
        let mut len = address.len();
        let control = self.control.lock();
        if !self.scalable && !control.closed.is_empty() {
            return Err("fi_getname: the endpoint is closed".into());
        }
        // SAFETY: the endpoint is live, by the check, and so many bytes are writable.
        let rc = unsafe { fi_getname(self.ep, address.as_mut_ptr().cast(), &raw mut len) };
        if rc != 0 || len > address.len() {
            return Err(format!("fi_getname: {}", self.lib.error(i64::from(rc))));
        }
        address.truncate(len);
        Ok(address)
    }

    /// Makes the address of a peer's endpoint known, and says what to send to, for one of its receive contexts.
    pub(super) fn insert(&self, address: &[u8], context: u8) -> Result<fi_addr_t, String> {
        if context > 0 && self.rx_ctx_bits == 0 {
            return Err(format!(
                "it is receive context {context} of its endpoint, and the provider names none here (FI_NAMED_RX_CTX)"
            ));
        }
        let named = |to| fi_rx_addr(to, context.into(), self.rx_ctx_bits);
        let mut control = self.control.lock();
        if let Some(to) = control.numbers.get(address).copied() {
            control.addresses.entry(to).and_modify(|(_, users)| *users += 1);
            return Ok(named(to));
        }
        // A provider that takes the address for a string, or for a longer one than it is, finds zeros behind it.
        let mut padded = vec![0; address.len().max(ADDRESS) + 8];
        padded[..address.len()].copy_from_slice(address);
        let mut to = FI_ADDR_UNSPEC;
        // SAFETY: the vector is live; the provider reads one address, of no more bytes than there are.
        let rc = unsafe { fi_av_insert(self.av, padded.as_ptr().cast(), 1, &raw mut to, 0, null_mut()) };
        match rc {
            1 if to != FI_ADDR_UNSPEC => {
                control.numbers.insert(address.into(), to);
                control.addresses.insert(to, (address.into(), 1));
                Ok(named(to))
            }
            1 | 0 => Err("fi_av_insert: the provider does not take the address".into()),
            rc => Err(format!("fi_av_insert: {}", self.lib.error(i64::from(rc)))),
        }
    }

    /// One who has inserted an address does not need it any more.
    pub(super) fn remove(&self, peer: fi_addr_t) -> Result<(), String> {
        let mut peer = peer & (u64::MAX >> self.rx_ctx_bits);
        let mut control = self.control.lock();
        let Some((_, users)) = control.addresses.get_mut(&peer) else {
            return Err("fi_av_remove: the address is not in the vector".into());
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
        if rc == 0 { Ok(()) } else { Err(format!("fi_av_remove: {}", self.lib.error(i64::from(rc)))) }
    }

    /// Sets the first of these keys aside that no registration of the domain has.
    pub(super) fn take_key(&self, mut keys: impl Iterator<Item = u64>) -> Option<u64> {
        let mut control = self.control.lock();
        let found = keys.find(|key| !control.keys.contains(key))?;
        control.keys.insert(found);
        Some(found)
    }

    /// A key is free again.
    pub(super) fn give_key(&self, key: u64) {
        self.control.lock().keys.remove(&key);
    }

    /// What a registration is made, or closed, with; meanwhile nobody else does.
    pub(super) fn registering(&self) -> Registering<'_> {
        let _held = self.control.lock();
        Registering { domain: self.domain, ep: self.ep, _held }
    }

    /// Closes a lane before the end, since the provider does not give back what it has lent. Closing again does nothing.
    pub(super) fn close_lane(&self, number: usize) {
        let mut control = self.control.lock();
        if !control.closed.insert(number) {
            return;
        }
        let _alone = ALONE.lock();
        if self.scalable {
            self.close_contexts(number);
        } else {
            self.close("endpoint", self.ep.cast());
        }
    }

    fn close_contexts(&self, number: usize) {
        self.close("transmit context", self.lanes[number].tx.cast());
        self.close("receive context", self.lanes[number].rx.cast());
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
    /// Closes in the order of dependence. What does not close (the provider says that it is in use) is left to the process's end;
    /// a log says so.
    fn drop(&mut self) {
        let _alone = ALONE.lock();
        let closed = core::mem::take(&mut self.control.get_mut().closed);
        if self.scalable {
            (0..self.lanes.len()).filter(|at| !closed.contains(at)).for_each(|at| self.close_contexts(at));
        }
        if self.scalable || closed.is_empty() {
            self.close("endpoint", self.ep.cast());
        }
        self.close("address vector", self.av.cast());
        for lane in &self.lanes {
            self.close("completion queue", lane.cq.cast());
        }
        self.close("domain", self.domain.cast());
        self.close("fabric", self.fabric.cast());
        // SAFETY: the copy that `open` made.
        unsafe { (self.lib.fi_freeinfo)(self.info) };
    }
}

/// Which domains of a process are the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Which {
    /// Where the library's code is.
    library: *const c_void,
    names: [Vec<u8>; 3],
    wish: Wish,
}

// SAFETY: the pointer is compared, and never followed.
unsafe impl Send for Which {}

/// The domains that engines share.
static SHARED: Mutex<Vec<(Which, Weak<Domain>)>> = Mutex::new(Vec::new());

/// A lane of a domain that is open already, or of one that is opened now; engines that wish the same share it.
///
/// # Errors
/// As for [`Domain::open`].
///
/// # Safety
/// The info is the library's, and live.
pub(super) unsafe fn join(
    lib: Library,
    info: *const fi_info,
    wish: &Wish,
) -> Result<(Arc<Domain>, usize, Lane), String> {
    // SAFETY: by contract.
    let open = || unsafe { Domain::open(lib, info, wish) };
    let none = || "the endpoint has no context".to_owned();
    if wish.contexts <= 1 {
        let domain = Arc::new(open()?);
        let (number, lane) = domain.take().ok_or_else(none)?;
        return Ok((domain, number, lane));
    }
    let which = Which {
        library: lib.fi_getinfo as *const c_void,
        // SAFETY: an info of the library's has all parts.
        names: unsafe { names(info) },
        wish: wish.clone(),
    };
    // Engines of a process come one after another: none opens what another one is about to share.
    let mut shared = SHARED.lock();
    shared.retain(|(_, domain)| domain.strong_count() > 0);
    let mut same = shared.iter().filter(|(w, _)| *w == which).filter_map(|(_, domain)| domain.upgrade());
    if let Some((domain, (number, lane))) = same.find_map(|d| d.take().map(|lane| (d, lane))) {
        return Ok((domain, number, lane));
    }
    drop(same);
    let domain = Arc::new(open()?);
    let (number, lane) = domain.take().ok_or_else(none)?;
    shared.push((which, Arc::downgrade(&domain)));
    Ok((domain, number, lane))
}

/// Names of provider, fabric and domain.
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
