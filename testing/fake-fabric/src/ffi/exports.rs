//! The exported functions of a libfabric, and the control function for tests.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use super::{info, resource, worlds};
use crate::errno::{self, FI_EINVAL, FI_ENODATA, FI_ENOSYS};
use crate::model::offer::PROVIDER;
use libfabric_sys::API;
use libfabric_sys::attr::{fi_fabric_attr, fi_info};
use libfabric_sys::fid::fid_fabric;

/// `fi_version(3)`: the environment variable's version, such as "1.8", or that of the layouts.
#[unsafe(no_mangle)]
extern "C" fn fi_version() -> u32 {
    let named = std::env::var(crate::VERSION).ok();
    let parts = named.as_deref().and_then(|text| text.split_once('.'));
    let numbers = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.map_or(API, |(major, minor)| libfabric_sys::version(major, minor))
}

/// `fi_getinfo(3)`: an entry for each world that satisfies the hints.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_getinfo(
    api: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    list: *mut *mut fi_info,
) -> c_int {
    if api > API {
        return -FI_ENOSYS;
    }
    if list.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: hints are null or one of ours (`fi_getinfo(3)`: they come from `fi_allocinfo`).
    let hints = (!hints.is_null()).then(|| unsafe { info::read(hints) });
    let offers: Vec<_> =
        worlds::all().iter().filter_map(|world| world.lock().offer(hints.as_ref())).collect();
    let mut first = core::ptr::null_mut();
    for offer in offers.iter().rev() {
        let made = info::make(offer);
        // SAFETY: it has just been made.
        unsafe { (*made).next = first };
        first = made;
    }
    if first.is_null() {
        return -FI_ENODATA;
    }
    // SAFETY: the caller's place for the result.
    unsafe { *list = first };
    0
}

/// `fi_freeinfo(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_freeinfo(list: *mut fi_info) {
    // SAFETY: null, or a list that the caller got from here and gives back.
    unsafe { info::free(list) }
}

/// `fi_dupinfo(3)`; of null: an empty one (`fi_allocinfo`).
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_dupinfo(from: *const fi_info) -> *mut fi_info {
    if from.is_null() {
        return info::empty();
    }
    // SAFETY: one of ours.
    unsafe { info::duplicate(from) }
}

/// `fi_fabric(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    if attr.is_null() || fabric.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: the attributes of a `fi_info` of ours, with C strings or null.
    let (name, provider) = unsafe { (info::text((*attr).name), info::text((*attr).prov_name)) };
    if provider.is_some_and(|provider| provider != PROVIDER) {
        return -FI_ENODATA;
    }
    let Some(world) = name.and_then(|name| worlds::find(&name)) else { return -FI_ENODATA };
    let made = resource::fabric(&world, context);
    // SAFETY: the caller's place for the result.
    unsafe { *fabric = made };
    0
}

/// `fi_strerror(3)`.
#[unsafe(no_mangle)]
extern "C" fn fi_strerror(number: c_int) -> *const c_char {
    static TEXTS: Mutex<BTreeMap<c_int, CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || CString::new(errno::text(number)).unwrap_or_else(|_| CString::from(c"an error"));
    // Entries are never removed, so the returned pointer stays valid.
    texts.entry(number).or_insert_with(make).as_ptr()
}

/// Callback for a reply, called once with the bytes and the caller's pointer.
pub(crate) type Receiver = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// Name of the control function.
pub(crate) const CONTROL: &CStr = c"fake_fabric_control";
/// Type of the control function.
pub(crate) type ControlFn = unsafe extern "C" fn(*const u8, usize, Receiver, *mut c_void);

/// Handles a test's request; request and reply are JSON.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_fabric_control(
    request: *const u8,
    len: usize,
    receiver: Receiver,
    context: *mut c_void,
) {
    // SAFETY: the caller's bytes, `len` of them and not null.
    let request = unsafe { core::slice::from_raw_parts(request, len) };
    let answer = worlds::answer(request);
    let bytes = serde_json::to_vec(&answer).unwrap_or_default();
    // SAFETY: the caller's function and what belongs to it.
    unsafe { receiver(context, bytes.as_ptr(), bytes.len()) };
}

const _: ControlFn = fake_fabric_control;
