//! Registered memory.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::null_mut;

use crate::error::Refused;
use libfabric_sys::call::{fi_bind, fi_close, fi_enable, fi_mr_reg};
use libfabric_sys::consts::{FI_MR_ENDPOINT, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_WRITE};
use libfabric_sys::fid::fid_mr;
use netmod_core::RmaBuf;

use super::check;
use super::endpoint::Endpoint;

/// A registration. It must be closed before its endpoint, see [`Registration::close`].
#[derive(Debug)]
pub struct Registration {
    mr: *mut fid_mr,
    /// Address or offset by which peers name the first byte.
    pub(crate) base: u64,
    /// Key for peers.
    pub(crate) key: u64,
    /// The key, if this process has chosen it.
    own: Option<u64>,
}

// SAFETY: used by one thread at a time, with its endpoint.
unsafe impl Send for Registration {}

impl Registration {
    /// Registers memory with `FI_*` access rights. If the provider does not choose keys itself,
    /// `key` was reserved by [`Endpoint::take_key`]. It is released when the registration is closed
    /// or fails.
    ///
    /// # Errors
    /// The provider's error.
    ///
    /// # Safety
    /// The memory stays allocated until the registration is closed.
    pub(crate) unsafe fn new(
        endpoint: &Endpoint,
        at: *mut u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<Registration, Refused> {
        let traits = endpoint.traits();
        let own = (!traits.wants(FI_MR_PROV_KEY)).then_some(key);
        let mut this = Registration { mr: null_mut(), base: 0, key: 0, own };
        if let Err(refused) = this.make(endpoint, at, len, access) {
            if let Err(why) = this.close(endpoint) {
                tracing::warn!(?why, "libfabric does not close a registration");
            }
            return Err(refused);
        }
        this.base = if traits.wants(FI_MR_VIRT_ADDR) { at as u64 } else { 0 };
        // SAFETY: the registration is live.
        this.key = unsafe { (*this.mr).key };
        Ok(this)
    }

    /// Makes libfabric's registration.
    fn make(&mut self, endpoint: &Endpoint, at: *mut u8, len: usize, access: u64) -> Result<(), Refused> {
        endpoint.is_open()?;
        let with = endpoint.domain().registering();
        // SAFETY: the domain is live; the memory by the contract of `new`.
        let rc = unsafe {
            fi_mr_reg(
                with.domain,
                at.cast::<c_void>(),
                len,
                access,
                0,
                self.own.unwrap_or(0),
                0,
                &raw mut self.mr,
                null_mut(),
            )
        };
        if rc != 0 {
            self.mr = null_mut();
        }
        check(endpoint.lib(), "fi_mr_reg", i64::from(rc))?;
        if endpoint.traits().wants(FI_MR_ENDPOINT) {
            // All contexts of a scalable endpoint inherit what is bound to it.
            // SAFETY: registration and endpoint are live.
            let rc = unsafe {
                match fi_bind(self.mr.cast(), with.ep.cast(), 0) {
                    0 => fi_enable(self.mr.cast()),
                    rc => rc,
                }
            };
            check(endpoint.lib(), "fi_mr_bind", i64::from(rc))?;
        }
        Ok(())
    }

    /// Returns the descriptor for local operations on this registration's memory.
    pub(crate) fn desc(&self) -> *mut c_void {
        if self.mr.is_null() {
            return null_mut();
        }
        // SAFETY: the registration is live until it is closed, which makes the pointer null.
        unsafe { (*self.mr).mem_desc }
    }

    /// Ends the registration. Closing again does nothing.
    ///
    /// # Errors
    /// The provider's error; the registration is then unchanged.
    pub(crate) fn close(&mut self, endpoint: &Endpoint) -> Result<(), Refused> {
        if !self.mr.is_null() {
            let _held = endpoint.domain().registering();
            // SAFETY: live, by the check; afterwards nobody has the pointer.
            let rc = unsafe { fi_close(self.mr.cast()) };
            check(endpoint.lib(), "fi_close(memory region)", i64::from(rc))?;
            self.mr = null_mut();
        }
        if let Some(key) = self.own.take() {
            endpoint.domain().give_key(key);
        }
        Ok(())
    }
}

/// Access rights for local use.
pub(crate) const LOCAL: u64 = FI_READ | FI_WRITE;

/// Registers memory that is lent until the registration is closed. The key is as for
/// [`Registration::new`].
///
/// # Errors
/// The provider's error.
pub(crate) fn register(
    endpoint: &Endpoint,
    mem: &RmaBuf,
    rights: u64,
    key: u64,
) -> Result<Registration, Refused> {
    // SAFETY: by the contract of `RmaBuf::new`, the memory stays lent until the netmod's
    // registration ends, which closes this one first.
    unsafe { Registration::new(endpoint, mem.as_ptr(), mem.len(), rights, key) }
}
