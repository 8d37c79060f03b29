//! Address handles.

#![allow(unsafe_code)]

use std::sync::Arc;

use hca::{AhAttr, Error, errno};
use libibverbs_sys::object::ibv_ah;

use crate::convert;
use crate::device::Device;
use crate::error::{closed, made};

/// An address handle.
#[derive(Debug)]
pub struct IbvAh {
    ah: *mut ibv_ah,
    device: Arc<Device>,
}

// SAFETY: the library's calls may come from any thread.
unsafe impl Send for IbvAh {}

impl IbvAh {
    pub(crate) fn new(device: &Arc<Device>, attr: &AhAttr) -> Result<IbvAh, Error> {
        let on = || format!("{}, port {}", device.name(), attr.port);
        if !device.has_port(attr.port) {
            return Err(Error::new("ibv_create_ah", on(), errno::EINVAL));
        }
        let mut attr = convert::ah_attr(attr);
        // SAFETY: the protection domain is live, and the record is readable.
        let ah = unsafe { (device.library().ibv_create_ah)(device.pd, &raw mut attr) };
        Ok(IbvAh { ah: made(ah, "ibv_create_ah", on)?, device: device.clone() })
    }

    /// Returns the handle if it belongs to this device. A driver would read another device's handle
    /// as its own.
    #[inline]
    pub(crate) fn of(&self, device: &Arc<Device>) -> Option<*mut ibv_ah> {
        Arc::ptr_eq(&self.device, device).then_some(self.ah)
    }
}

impl Drop for IbvAh {
    fn drop(&mut self) {
        // SAFETY: the handle is live and destroyed once; posted requests hold a copy of its
        // contents.
        let done = unsafe { (self.device.library().ibv_destroy_ah)(self.ah) };
        closed(done, "ibv_destroy_ah", self.device.name());
    }
}
