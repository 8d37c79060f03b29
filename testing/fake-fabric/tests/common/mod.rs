//! The tests' wrappers: the objects of one process in a world, used by libfabric-sys's calls.
//!
//! The tests break rules of the interface on purpose, but only those that the fake provider checks.
//! Lent memory stays in place for as long as the world lives.

#![allow(dead_code, unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::ptr::{null, null_mut};

use libfabric_sys::Library;
use libfabric_sys::attr::{
    fi_av_attr, fi_context2, fi_cq_attr, fi_cq_data_entry, fi_cq_err_entry, fi_info, fi_ioc, fi_msg,
    fi_msg_atomic, fi_msg_rma, fi_rma_ioc, fi_rma_iov,
};
use libfabric_sys::call;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr};
use netmod_fake_fabric::{Control, Settings, World, library_path};

pub const ALL_MR: i32 = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
pub const ALL_MODES: u64 = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV;
pub const ALL_ACCESS: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

pub fn library() -> (Library, Control) {
    Control::load(&library_path())
}

pub fn world(settings: Settings) -> (Library, World) {
    let (library, control) = library();
    let world = World::new(&control, settings);
    (library, world)
}

/// An application's request.
#[derive(Clone, Debug)]
pub struct Requested {
    pub caps: u64,
    pub mode: u64,
    pub mr_mode: i32,
    pub threading: i32,
    pub tx_flags: u64,
    pub av_type: i32,
    pub wait_obj: i32,
    pub selective: bool,
    /// Contexts of a scalable endpoint; 0 for a plain endpoint.
    pub contexts: usize,
    pub min_multi_recv: usize,
}

impl Default for Requested {
    fn default() -> Requested {
        Requested {
            caps: 0,
            mode: ALL_MODES,
            mr_mode: ALL_MR,
            threading: 0,
            tx_flags: 0,
            av_type: 0,
            wait_obj: FI_WAIT_NONE,
            selective: false,
            contexts: 0,
            min_multi_recv: 64,
        }
    }
}

/// Calls `fi_getinfo` with hints filled by `fill`.
pub fn getinfo(library: &Library, fill: impl FnOnce(&mut fi_info)) -> Result<*mut fi_info, i32> {
    // SAFETY: hints are the library's with all their parts, and the list is freed by its owner.
    unsafe {
        let hints = (library.fi_dupinfo)(null());
        fill(&mut *hints);
        let mut list = null_mut();
        let rc = (library.fi_getinfo)(library.api(), null(), null(), 0, hints, &raw mut list);
        (library.fi_freeinfo)(hints);
        if rc == 0 { Ok(list) } else { Err(rc) }
    }
}

/// Makes a C string that the library frees.
pub fn strdup(text: &str) -> *mut core::ffi::c_char {
    let text = std::ffi::CString::new(text).unwrap();
    // SAFETY: a C string.
    unsafe { libc::strdup(text.as_ptr()) }
}

pub fn info(library: &Library, world: &World, requested: &Requested) -> Result<*mut fi_info, i32> {
    getinfo(library, |hints| {
        hints.caps = requested.caps;
        hints.mode = requested.mode;
        // SAFETY: an empty `fi_info` has all its parts.
        unsafe {
            (*hints.domain_attr).name = strdup(world.name());
            (*hints.fabric_attr).prov_name = strdup("fake");
            (*hints.domain_attr).mr_mode = requested.mr_mode;
            (*hints.domain_attr).threading = requested.threading;
            (*hints.domain_attr).av_type = requested.av_type;
            (*hints.tx_attr).op_flags = requested.tx_flags;
            (*hints.ep_attr).type_ = FI_EP_RDM;
            (*hints.ep_attr).tx_ctx_cnt = requested.contexts;
            (*hints.ep_attr).rx_ctx_cnt = requested.contexts;
        }
    })
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub context: usize,
    pub flags: u64,
    pub len: usize,
    pub buf: usize,
    /// 0, or the error from `fi_cq_readerr`.
    pub err: i32,
    pub olen: usize,
}

/// Storage for contexts at fixed addresses.
pub struct Contexts(Box<[UnsafeCell<fi_context2>]>);

impl Contexts {
    pub fn new(count: usize) -> Contexts {
        Contexts((0..count).map(|_| UnsafeCell::new(fi_context2::ZERO)).collect())
    }

    pub fn at(&self, number: usize) -> *mut c_void {
        self.0[number].get().cast()
    }

    pub fn find(&self, context: usize) -> Option<usize> {
        (0..self.0.len()).find(|number| self.at(*number).addr() == context)
    }
}

/// The objects of one process.
pub struct Side {
    pub library: Library,
    pub info: *mut fi_info,
    pub fabric: *mut fid_fabric,
    pub domain: *mut fid_domain,
    pub av: *mut fid_av,
    pub cq: *mut fid_cq,
    pub ep: *mut fid_ep,
    /// Transmit contexts of a scalable endpoint, each with its own queue.
    pub tx: Vec<*mut fid_ep>,
    pub rx: Vec<*mut fid_ep>,
    pub cqs: Vec<*mut fid_cq>,
    pub name: Vec<u8>,
}

// SAFETY: the provider takes calls from all threads; tests that break a promise do so on purpose.
unsafe impl Send for Side {}
// SAFETY: as above.
unsafe impl Sync for Side {}

pub const RX_CTX_BITS: i32 = 4;

impl Side {
    pub fn open(library: &Library, world: &World, requested: &Requested) -> Side {
        let info = info(library, world, requested).expect("the world has what the test wants");
        // SAFETY: objects are live, and pointers lead to this function's variables.
        unsafe {
            let mut fabric = null_mut();
            assert_eq!((library.fi_fabric)((*info).fabric_attr, &raw mut fabric, null_mut()), 0);
            let mut domain = null_mut();
            assert_eq!(call::fi_domain(fabric, info, &raw mut domain, null_mut()), 0);
            let mut av_attr: fi_av_attr = core::mem::zeroed();
            av_attr.type_ = requested.av_type;
            av_attr.rx_ctx_bits = if requested.contexts == 0 { 0 } else { RX_CTX_BITS };
            let mut av = null_mut();
            assert_eq!(call::fi_av_open(domain, &raw mut av_attr, &raw mut av, null_mut()), 0);
            let open_cq = || {
                let mut cq_attr: fi_cq_attr = core::mem::zeroed();
                cq_attr.format = FI_CQ_FORMAT_DATA;
                cq_attr.wait_obj = requested.wait_obj;
                let mut cq = null_mut();
                assert_eq!(call::fi_cq_open(domain, &raw mut cq_attr, &raw mut cq, null_mut()), 0);
                cq
            };
            let cq = open_cq();
            let mut ep = null_mut();
            let (mut tx, mut rx, mut cqs) = (Vec::new(), Vec::new(), Vec::new());
            if requested.contexts == 0 {
                assert_eq!(call::fi_endpoint(domain, info, &raw mut ep, null_mut()), 0);
                let flags = if requested.selective { FI_SELECTIVE_COMPLETION } else { 0 };
                assert_eq!(call::fi_bind(ep.cast(), cq.cast(), FI_TRANSMIT | FI_RECV | flags), 0);
                assert_eq!(call::fi_bind(ep.cast(), av.cast(), 0), 0);
            } else {
                assert_eq!(call::fi_scalable_ep(domain, info, &raw mut ep, null_mut()), 0);
                assert_eq!(call::fi_bind(ep.cast(), av.cast(), 0), 0);
                for index in 0..requested.contexts as i32 {
                    let (mut out, mut into, queue) = (null_mut(), null_mut(), open_cq());
                    assert_eq!(call::fi_tx_context(ep, index, null_mut(), &raw mut out, null_mut()), 0);
                    assert_eq!(call::fi_rx_context(ep, index, null_mut(), &raw mut into, null_mut()), 0);
                    assert_eq!(call::fi_bind(out.cast(), queue.cast(), FI_TRANSMIT), 0);
                    assert_eq!(call::fi_bind(into.cast(), queue.cast(), FI_RECV), 0);
                    assert_eq!(call::fi_enable(out.cast()), 0);
                    assert_eq!(call::fi_enable(into.cast()), 0);
                    tx.push(out);
                    rx.push(into);
                    cqs.push(queue);
                }
            }
            assert_eq!(call::fi_enable(ep.cast()), 0);
            if requested.contexts == 0 {
                let bytes = requested.min_multi_recv;
                let at = (&raw const bytes).cast();
                assert_eq!(
                    call::fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, at, size_of::<usize>()),
                    0
                );
            }
            let mut name = vec![0; 512];
            let mut len = name.len();
            assert_eq!(call::fi_getname(ep, name.as_mut_ptr().cast(), &raw mut len), 0);
            name.truncate(len);
            Side { library: *library, info, fabric, domain, av, cq, ep, tx, rx, cqs, name }
        }
    }

    /// Makes two sides that know each other, with the address by which each calls the other.
    pub fn pair(library: &Library, world: &World, requested: &Requested) -> (Side, u64, Side, u64) {
        let (a, b) = (Side::open(library, world, requested), Side::open(library, world, requested));
        let (to_b, to_a) = (a.insert(&b.name), b.insert(&a.name));
        (a, to_b, b, to_a)
    }

    pub fn insert(&self, address: &[u8]) -> u64 {
        let mut number = 0;
        // SAFETY: an address of this provider.
        let rc = unsafe {
            call::fi_av_insert(self.av, address.as_ptr().cast(), 1, &raw mut number, 0, null_mut())
        };
        assert_eq!(rc, 1);
        number
    }

    pub fn remove(&self, mut number: u64) -> i32 {
        // SAFETY: a number in a variable.
        unsafe { call::fi_av_remove(self.av, &raw mut number, 1, 0) }
    }

    pub fn register(&self, memory: &[u8], access: u64, key: u64) -> Result<*mut fid_mr, i32> {
        let mut region = null_mut();
        // SAFETY: the memory is the test's, which keeps it.
        let rc = unsafe {
            let base = memory.as_ptr().cast();
            call::fi_mr_reg(self.domain, base, memory.len(), access, 0, key, 0, &raw mut region, null_mut())
        };
        if rc == 0 { Ok(region) } else { Err(rc) }
    }

    /// Registers memory as the mode requires: bound and enabled if necessary.
    pub fn register_for(&self, settings: &Settings, memory: &[u8], key: u64) -> *mut fid_mr {
        let region = self.register(memory, ALL_ACCESS, key).unwrap();
        if settings.mr_mode & FI_MR_ENDPOINT != 0 {
            assert_eq!(bind(region.cast(), self.ep.cast(), 0), 0);
            assert_eq!(enable(region.cast()), 0);
        }
        region
    }

    pub fn send(&self, data: &[u8], desc: *mut c_void, to: u64, context: *mut c_void) -> isize {
        // SAFETY: the test keeps the data.
        unsafe { call::fi_send(self.ep, data.as_ptr().cast(), data.len(), desc, to, context) }
    }

    pub fn inject(&self, data: &[u8], to: u64) -> isize {
        // SAFETY: data of this call.
        unsafe { call::fi_inject(self.ep, data.as_ptr().cast(), data.len(), to) }
    }

    pub fn recv(&self, buffer: &mut [u8], desc: *mut c_void, context: *mut c_void) -> isize {
        // SAFETY: the test keeps the buffer.
        unsafe {
            let base = buffer.as_mut_ptr().cast();
            call::fi_recv(self.ep, base, buffer.len(), desc, FI_ADDR_UNSPEC, context)
        }
    }

    pub fn recv_multi(&self, buffer: &mut [u8], desc: *mut c_void, context: *mut c_void) -> isize {
        recv_multi(self.ep, buffer, desc, context)
    }

    pub fn read(
        &self,
        into: &mut [u8],
        desc: *mut c_void,
        from: u64,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the test keeps the buffer.
        unsafe {
            call::fi_read(self.ep, into.as_mut_ptr().cast(), into.len(), desc, from, addr, key, context)
        }
    }

    pub fn write(
        &self,
        data: &[u8],
        desc: *mut c_void,
        to: u64,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the test keeps the data.
        unsafe { call::fi_write(self.ep, data.as_ptr().cast(), data.len(), desc, to, addr, key, context) }
    }

    /// Calls `fi_writemsg` with all its parameters.
    pub fn writemsg(
        &self,
        pieces: &[libc::iovec],
        remote: &[fi_rma_iov],
        to: u64,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let message = fi_msg_rma {
            msg_iov: pieces.as_ptr(),
            desc: null_mut(),
            iov_count: pieces.len(),
            addr: to,
            rma_iov: remote.as_ptr(),
            rma_iov_count: remote.len(),
            context,
            data: 0,
        };
        // SAFETY: arrays of these lengths.
        unsafe { call::fi_writemsg(self.ep, &raw const message, flags) }
    }

    /// Takes all completions in the queue.
    /// Does an operation on a word, `remote` being its address and key.
    pub fn fetch_atomic(
        &self,
        (datatype, op): (i32, i32),
        operand: &u64,
        result: &mut u64,
        to: u64,
        (addr, key): (u64, u64),
        context: *mut c_void,
    ) -> isize {
        let (operand, result): (*const u64, *mut u64) = (operand, result);
        let (operand, result) = (operand.cast(), result.cast());
        let none = null_mut();
        // SAFETY: the test keeps the words.
        unsafe {
            call::fi_fetch_atomic(
                self.ep, operand, 1, none, result, none, to, addr, key, datatype, op, context,
            )
        }
    }

    /// Does an operation on a word that has no result.
    pub fn atomicmsg(
        &self,
        (datatype, op): (i32, i32),
        operand: &mut u64,
        to: u64,
        (addr, key): (u64, u64),
        context: *mut c_void,
    ) -> isize {
        let operand: *mut u64 = operand;
        let local = fi_ioc { addr: operand.cast(), count: 1 };
        let there = fi_rma_ioc { addr, count: 1, key };
        let msg = fi_msg_atomic {
            msg_iov: &raw const local,
            desc: null_mut(),
            iov_count: 1,
            addr: to,
            rma_iov: &raw const there,
            rma_iov_count: 1,
            datatype,
            op,
            context,
            data: 0,
        };
        // SAFETY: the test keeps the word.
        unsafe { call::fi_atomicmsg(self.ep, &raw const msg, FI_DELIVERY_COMPLETE | FI_COMPLETION) }
    }

    /// Returns whether an operation is valid: without a result, with one, and compared.
    pub fn valid(&self, datatype: i32, op: i32) -> [bool; 3] {
        let mut most = 0;
        // SAFETY: a live endpoint; the number is written to.
        unsafe {
            [
                call::fi_atomicvalid(self.ep, datatype, op, &raw mut most),
                call::fi_fetch_atomicvalid(self.ep, datatype, op, &raw mut most),
                call::fi_compare_atomicvalid(self.ep, datatype, op, &raw mut most),
            ]
        }
        .map(|rc| rc == 0)
    }

    pub fn poll(&self) -> Vec<Done> {
        poll(self.cq)
    }

    pub fn close(self) {
        // SAFETY: in the right order, and each once.
        unsafe {
            for ep in self.tx.iter().chain(&self.rx) {
                assert_eq!(call::fi_close(ep.cast()), 0);
            }
            assert_eq!(call::fi_close(self.ep.cast()), 0);
            assert_eq!(call::fi_close(self.av.cast()), 0);
            for cq in self.cqs.iter().chain([&self.cq]) {
                assert_eq!(call::fi_close(cq.cast()), 0);
            }
            assert_eq!(call::fi_close(self.domain.cast()), 0);
            assert_eq!(call::fi_close(self.fabric.cast()), 0);
            (self.library.fi_freeinfo)(self.info);
        }
    }
}

pub fn bind(object: *mut fid, to: *mut fid, flags: u64) -> i32 {
    // SAFETY: objects of the fake provider.
    unsafe { call::fi_bind(object, to, flags) }
}

pub fn enable(object: *mut fid) -> i32 {
    // SAFETY: an object of the fake provider.
    unsafe { call::fi_enable(object) }
}

pub fn close(object: *mut fid) -> i32 {
    // SAFETY: an object of the fake provider.
    unsafe { call::fi_close(object) }
}

pub fn cancel(ep: *mut fid_ep, context: *mut c_void) -> isize {
    // SAFETY: an endpoint of the fake provider.
    unsafe { call::fi_cancel(ep, context) }
}

/// Returns the results of `fi_mr_key` and `fi_mr_desc`.
pub fn key_of(region: *mut fid_mr) -> u64 {
    // SAFETY: a region of the fake provider.
    unsafe { (*region).key }
}

pub fn desc_of(region: *mut fid_mr) -> *mut c_void {
    // SAFETY: a region of the fake provider.
    unsafe { (*region).mem_desc }
}

pub fn recv_multi(ep: *mut fid_ep, buffer: &mut [u8], desc: *mut c_void, context: *mut c_void) -> isize {
    let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut desc = desc;
    let message = fi_msg {
        msg_iov: &raw const piece,
        desc: &raw mut desc,
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context,
        data: 0,
    };
    // SAFETY: the test keeps the buffer.
    unsafe { call::fi_recvmsg(ep, &raw const message, FI_MULTI_RECV) }
}

pub fn sendmsg(ep: *mut fid_ep, pieces: &[libc::iovec], to: u64, context: *mut c_void, flags: u64) -> isize {
    let message = fi_msg {
        msg_iov: pieces.as_ptr(),
        desc: null_mut(),
        iov_count: pieces.len(),
        addr: to,
        context,
        data: 0,
    };
    // SAFETY: the test keeps the data.
    unsafe { call::fi_sendmsg(ep, &raw const message, flags) }
}

pub fn piece(data: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() }
}

pub fn poll(cq: *mut fid_cq) -> Vec<Done> {
    let mut all = Vec::new();
    loop {
        // SAFETY: room for as many entries as are asked for, of the queue's format.
        let (rc, entries) = unsafe {
            let mut entries: [fi_cq_data_entry; 8] = core::mem::zeroed();
            (call::fi_cq_read(cq, entries.as_mut_ptr().cast(), entries.len()), entries)
        };
        if rc == -(FI_EAGAIN as isize) {
            return all;
        }
        if rc == -(FI_EAVAIL as isize) {
            let mut entry = fi_cq_err_entry::ZERO;
            // SAFETY: an entry.
            assert_eq!(unsafe { call::fi_cq_readerr(cq, &raw mut entry, 0) }, 1);
            all.push(Done {
                context: entry.op_context.addr(),
                flags: entry.flags,
                len: entry.len,
                buf: 0,
                err: entry.err,
                olen: entry.olen,
            });
            continue;
        }
        assert!(rc > 0, "fi_cq_read: {rc}");
        all.extend(entries[..rc as usize].iter().map(|entry| Done {
            context: entry.op_context.addr(),
            flags: entry.flags,
            len: entry.len,
            buf: entry.buf.addr(),
            err: 0,
            olen: 0,
        }));
        if (rc as usize) < entries.len() {
            return all;
        }
    }
}

/// Returns the names of the listed domains, and frees the list.
pub fn domains(library: &Library, list: *mut fi_info) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = list;
    // SAFETY: a list of the library's, with names.
    unsafe {
        while !at.is_null() {
            names.push(CStr::from_ptr((*(*at).domain_attr).name).to_string_lossy().into_owned());
            at = (*at).next;
        }
        (library.fi_freeinfo)(list);
    }
    names
}
