//! Registrations of memory.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use std::sync::Arc;

use hca::{Access, Errno, Error, Mr, errno};
use libibverbs_sys::object::ibv_mr;

use crate::convert;
use crate::device::Device;
use crate::error::{self, check, closed};

/// A registration of memory.
#[derive(Debug)]
pub struct IbvMr {
    /// The library's registration; null after it has ended.
    mr: *mut ibv_mr,
    lkey: u32,
    rkey: u32,
    addr: u64,
    len: usize,
    device: Arc<Device>,
}

// SAFETY: the library's calls may come from any thread, and the memory is not accessed here.
unsafe impl Send for IbvMr {}

impl IbvMr {
    /// Registers memory.
    ///
    /// # Safety
    /// See [`hca::Hca::register`].
    pub(crate) unsafe fn new(
        device: &Arc<Device>,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<IbvMr, Error> {
        // SAFETY: the protection domain is live, and the caller lends the memory.
        let mr = unsafe { device.library().reg_mr(device.pd, base.cast(), len, convert::access(access)) };
        if mr.is_null() {
            let why = error::last();
            return Err(Error::new("ibv_reg_mr", refused(device.name(), len, why, lockable()), why));
        }
        // SAFETY: the registration was just made.
        let (lkey, rkey) = unsafe { ((*mr).lkey, (*mr).rkey) };
        let addr = base.expose_provenance() as u64;
        Ok(IbvMr { mr, lkey, rkey, addr, len, device: device.clone() })
    }
}

/// Describes a refused registration, with the limit of locked memory in KiB if one applies.
#[cold]
fn refused(device: &str, len: usize, why: Errno, limit: Option<u64>) -> String {
    match limit {
        Some(limit) if [errno::ENOMEM, errno::EAGAIN, errno::EPERM].contains(&why) => {
            format!("{device}, {len} bytes, with a limit of locked memory of {} KiB", limit >> 10)
        }
        _ => format!("{device}, {len} bytes"),
    }
}

/// Returns this process's limit of locked memory in bytes, if there is one.
#[cold]
fn lockable() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the record has room, and zeros are valid in it.
    let limit = unsafe {
        let asked = libc::getrlimit(libc::RLIMIT_MEMLOCK, limit.as_mut_ptr());
        (asked == 0).then(|| limit.assume_init().rlim_cur)
    };
    limit.filter(|n| *n != libc::RLIM_INFINITY)
}

impl Mr for IbvMr {
    #[inline]
    fn lkey(&self) -> u32 {
        self.lkey
    }

    #[inline]
    fn rkey(&self) -> u32 {
        self.rkey
    }

    #[inline]
    fn addr(&self) -> u64 {
        self.addr
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn deregister(mut self) -> Result<(), (Self, Error)> {
        // SAFETY: the registration is live, and this is its last use unless the device refuses.
        let done = unsafe { (self.device.library().ibv_dereg_mr)(self.mr) };
        match check(done, "ibv_dereg_mr", || format!("{}, {} bytes", self.device.name(), self.len)) {
            Ok(()) => {
                self.mr = core::ptr::null_mut();
                Ok(())
            }
            Err(why) => Err((self, why)),
        }
    }
}

impl Drop for IbvMr {
    fn drop(&mut self) {
        if !self.mr.is_null() {
            // SAFETY: the registration is live and ends once.
            let done = unsafe { (self.device.library().ibv_dereg_mr)(self.mr) };
            closed(done, "ibv_dereg_mr", self.device.name());
        }
    }
}

#[cfg(test)]
#[path = "mr_tests.rs"]
mod tests;
