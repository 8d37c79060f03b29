//! Makes, copies, reads and frees `fi_info`. All its memory is malloc's, since applications store
//! their own strings in it.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

use crate::model::offer::{ContextAttr, Info};
use libfabric_sys::attr::{
    fi_device_attr, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_link_attr, fi_rx_attr,
    fi_tx_attr, fid_nic,
};
use libfabric_sys::consts::{FI_CLASS_NIC, FI_LINK_UP, FI_RM_ENABLED};
use libfabric_sys::{API, version};

/// Allocates zeroed memory for a C structure; aborts if there is none.
fn zeroed<T>() -> *mut T {
    // SAFETY: calloc may be called with any numbers.
    let memory = unsafe { libc::calloc(1, size_of::<T>()) };
    assert!(!memory.is_null(), "netmod-fake-fabric: no memory for {} bytes", size_of::<T>());
    memory.cast()
}

/// Copies bytes; returns null for none.
fn bytes(from: &[u8]) -> *mut c_void {
    if from.is_empty() {
        return null_mut();
    }
    // SAFETY: calloc may be called with any numbers, and the copy has its size.
    unsafe {
        let memory = libc::calloc(1, from.len());
        assert!(!memory.is_null(), "netmod-fake-fabric: no memory for {} bytes", from.len());
        core::ptr::copy_nonoverlapping(from.as_ptr(), memory.cast(), from.len());
        memory
    }
}

fn string(from: &str) -> *mut c_char {
    bytes(&[from.as_bytes(), &[0]].concat()).cast()
}

/// Reads a C string.
///
/// # Safety
/// Null, or a C string.
pub(super) unsafe fn text(from: *const c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}

/// Reads bytes.
///
/// # Safety
/// Null, or points to `len` bytes.
unsafe fn slice(from: *const c_void, len: usize) -> Vec<u8> {
    if from.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(from.cast::<u8>(), len) }.to_vec()
}

/// Makes an empty record with all its parts, for hints.
pub(super) fn empty() -> *mut fi_info {
    let info = zeroed::<fi_info>();
    // SAFETY: the memory is new; all-zero bytes are a value of each of these types.
    unsafe {
        (*info).tx_attr = zeroed::<fi_tx_attr>();
        (*info).rx_attr = zeroed::<fi_rx_attr>();
        (*info).ep_attr = zeroed::<fi_ep_attr>();
        (*info).domain_attr = zeroed::<fi_domain_attr>();
        (*info).fabric_attr = zeroed::<fi_fabric_attr>();
    }
    info
}

/// Converts an offer.
pub(super) fn make(from: &Info) -> *mut fi_info {
    let info = empty();
    // SAFETY: `empty` made all the parts.
    unsafe {
        (*info).caps = from.caps;
        (*info).mode = from.mode;
        (*info).addr_format = from.addr_format;
        (*info).src_addr = bytes(&from.src_addr);
        (*info).src_addrlen = from.src_addr.len();

        let tx = &mut *(*info).tx_attr;
        tx.caps = from.tx.caps;
        tx.mode = from.tx.mode;
        tx.op_flags = from.tx.op_flags;
        tx.msg_order = from.tx.msg_order;
        tx.inject_size = from.tx.inject_size;
        tx.size = from.tx.size;
        tx.iov_limit = from.tx.iov_limit;
        tx.rma_iov_limit = from.tx.rma_iov_limit;

        let rx = &mut *(*info).rx_attr;
        rx.caps = from.rx.caps;
        rx.mode = from.rx.mode;
        rx.op_flags = from.rx.op_flags;
        rx.msg_order = from.rx.msg_order;
        rx.size = from.rx.size;
        rx.iov_limit = from.rx.iov_limit;

        let ep = &mut *(*info).ep_attr;
        ep.type_ = from.ep_type;
        ep.protocol_version = 1;
        ep.max_msg_size = from.max_msg_size;
        ep.tx_ctx_cnt = from.tx_ctx_cnt;
        ep.rx_ctx_cnt = from.rx_ctx_cnt;

        let domain = &mut *(*info).domain_attr;
        domain.name = from.domain.as_deref().map_or(null_mut(), string);
        domain.threading = from.threading;
        domain.control_progress = from.control_progress;
        domain.data_progress = from.data_progress;
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.av_type = from.av_type;
        domain.mr_mode = from.mr_mode;
        domain.mr_key_size = from.mr_key_size;
        domain.mr_cnt = from.mr_cnt;
        domain.mr_iov_limit = 1;
        domain.cq_cnt = 256;
        domain.ep_cnt = 256;
        domain.tx_ctx_cnt = 256;
        domain.rx_ctx_cnt = 256;
        domain.max_ep_tx_ctx = from.max_ep_tx_ctx;
        domain.max_ep_rx_ctx = from.max_ep_rx_ctx;

        let fabric = &mut *(*info).fabric_attr;
        fabric.name = from.fabric.as_deref().map_or(null_mut(), string);
        fabric.prov_name = from.provider.as_deref().map_or(null_mut(), string);
        fabric.prov_version = version(1, 0);
        fabric.api_version = API;

        if let Some((speed, up)) = from.link {
            (*info).nic = card(from.domain.as_deref().unwrap_or("fake"), speed, up);
        }
    }
    info
}

fn card(name: &str, speed: usize, up: bool) -> *mut fid_nic {
    let (nic, device, link) = (zeroed::<fid_nic>(), zeroed::<fi_device_attr>(), zeroed::<fi_link_attr>());
    // SAFETY: the memory is new; all-zero bytes are a value of each of these types.
    unsafe {
        (*device).name = string(name);
        (*link).mtu = 4096;
        (*link).speed = speed;
        (*link).state = if up { FI_LINK_UP } else { 1 };
        (*nic).fid.fclass = FI_CLASS_NIC;
        (*nic).device_attr = device;
        (*nic).link_attr = link;
    }
    nic
}

/// Reads a request.
///
/// # Safety
/// A `fi_info` of this library's, whose strings are C strings or null.
pub(super) unsafe fn read(info: *const fi_info) -> Info {
    // SAFETY: the caller's promise; parts may be missing.
    unsafe {
        let mut to = Info {
            caps: (*info).caps,
            mode: (*info).mode,
            addr_format: (*info).addr_format,
            src_addr: slice((*info).src_addr, (*info).src_addrlen),
            ..Info::default()
        };
        if let Some(tx) = (*info).tx_attr.as_ref() {
            to.tx = ContextAttr {
                caps: tx.caps,
                mode: tx.mode,
                op_flags: tx.op_flags,
                msg_order: tx.msg_order,
                inject_size: tx.inject_size,
                size: tx.size,
                iov_limit: tx.iov_limit,
                rma_iov_limit: tx.rma_iov_limit,
            };
        }
        if let Some(rx) = (*info).rx_attr.as_ref() {
            to.rx = ContextAttr {
                caps: rx.caps,
                mode: rx.mode,
                op_flags: rx.op_flags,
                msg_order: rx.msg_order,
                size: rx.size,
                iov_limit: rx.iov_limit,
                ..ContextAttr::default()
            };
        }
        if let Some(ep) = (*info).ep_attr.as_ref() {
            to.ep_type = ep.type_;
            to.max_msg_size = ep.max_msg_size;
            to.tx_ctx_cnt = ep.tx_ctx_cnt;
            to.rx_ctx_cnt = ep.rx_ctx_cnt;
        }
        if let Some(domain) = (*info).domain_attr.as_ref() {
            to.domain = text(domain.name);
            to.threading = domain.threading;
            to.control_progress = domain.control_progress;
            to.data_progress = domain.data_progress;
            to.av_type = domain.av_type;
            to.mr_mode = domain.mr_mode;
            to.mr_key_size = domain.mr_key_size;
            to.mr_cnt = domain.mr_cnt;
            to.max_ep_tx_ctx = domain.max_ep_tx_ctx;
            to.max_ep_rx_ctx = domain.max_ep_rx_ctx;
        }
        if let Some(fabric) = (*info).fabric_attr.as_ref() {
            to.fabric = text(fabric.name);
            to.provider = text(fabric.prov_name);
        }
        if let Some(link) = (*info).nic.as_ref().and_then(|nic| nic.link_attr.as_ref()) {
            to.link = Some((link.speed, link.state == FI_LINK_UP));
        }
        to
    }
}

/// Copies a record, without its successors in a list.
///
/// # Safety
/// As of [`read`]; addresses have the lengths given beside them.
pub(super) unsafe fn duplicate(from: *const fi_info) -> *mut fi_info {
    // SAFETY: the caller's promise.
    let (read, mut dest, handle) =
        unsafe { (read(from), slice((*from).dest_addr, (*from).dest_addrlen), (*from).handle) };
    let info = make(&read);
    // SAFETY: `make` made all the parts; those of `from` are looked at, each if it is there.
    unsafe {
        (*info).dest_addrlen = dest.len();
        (*info).dest_addr = bytes(&std::mem::take(&mut dest));
        (*info).handle = handle;
        // The application may have set these in its copy.
        if let Some(domain) = (*from).domain_attr.as_ref() {
            (*(*info).domain_attr).domain = domain.domain;
            (*(*info).domain_attr).caps = domain.caps;
            (*(*info).domain_attr).mode = domain.mode;
            (*(*info).domain_attr).resource_mgmt = domain.resource_mgmt;
        }
        if let Some(fabric) = (*from).fabric_attr.as_ref() {
            (*(*info).fabric_attr).fabric = fabric.fabric;
        }
    }
    info
}

/// Frees a list.
///
/// # Safety
/// The list is this library's, nobody uses it any more, and memory stored in it is malloc's.
pub(super) unsafe fn free(mut info: *mut fi_info) {
    // SAFETY: the caller's promise; free takes null.
    unsafe {
        while !info.is_null() {
            let next = (*info).next;
            if let Some(domain) = (*info).domain_attr.as_ref() {
                libc::free(domain.name.cast());
                libc::free(domain.auth_key.cast());
            }
            if let Some(fabric) = (*info).fabric_attr.as_ref() {
                libc::free(fabric.name.cast());
                libc::free(fabric.prov_name.cast());
            }
            if let Some(ep) = (*info).ep_attr.as_ref() {
                libc::free(ep.auth_key.cast());
            }
            if let Some(nic) = (*info).nic.as_ref() {
                if let Some(device) = nic.device_attr.as_ref() {
                    libc::free(device.name.cast());
                }
                libc::free(nic.device_attr.cast());
                libc::free(nic.link_attr.cast());
            }
            libc::free((*info).nic.cast());
            libc::free((*info).src_addr);
            libc::free((*info).dest_addr);
            libc::free((*info).tx_attr.cast());
            libc::free((*info).rx_attr.cast());
            libc::free((*info).ep_attr.cast());
            libc::free((*info).domain_attr.cast());
            libc::free((*info).fabric_attr.cast());
            libc::free(info.cast());
            info = next;
        }
    }
}
