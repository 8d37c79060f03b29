//! XRC domains.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use hca::{Errno, Error, XrcdOpen, errno};
use libibverbs_sys::attr::ibv_xrcd_init_attr;
use libibverbs_sys::call;
use libibverbs_sys::consts::{IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS};
use libibverbs_sys::object::ibv_xrcd;

use crate::device::Device;
use crate::error::closed;

/// An XRC domain; closed when its last object is closed.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) xrcd: *mut ibv_xrcd,
    pub(crate) device: Arc<Device>,
}

// SAFETY: the library's calls may come from any thread, and it locks for itself.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

/// An XRC domain.
#[derive(Debug)]
pub struct IbvXrcd(pub(crate) Arc<Domain>);

impl IbvXrcd {
    pub(crate) fn new(device: &Arc<Device>, how: XrcdOpen<'_>) -> Result<IbvXrcd, Error> {
        let (fd, oflags) = fd_and_flags(how);
        let comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        let mut attr = ibv_xrcd_init_attr { comp_mask, fd, oflags };
        // SAFETY: the context is live, and the record has room.
        let opened = unsafe { call::ibv_open_xrcd(device.context.raw(), &raw mut attr) };
        let xrcd =
            opened.map_err(|why| Error::new("ibv_open_xrcd", device.name(), unsupported(Errno(why))))?;
        Ok(IbvXrcd(Arc::new(Domain { xrcd, device: device.clone() })))
    }
}

/// Returns the descriptor and the flags for opening a domain. A private domain has no file and is
/// always created.
fn fd_and_flags(how: XrcdOpen<'_>) -> (c_int, c_int) {
    match how {
        XrcdOpen::Shared(file) => (file.as_raw_fd(), libc::O_CREAT),
        XrcdOpen::Existing(file) => (file.as_raw_fd(), 0),
        XrcdOpen::Private => (-1, libc::O_CREAT),
    }
}

/// Maps the error number by which old kernels report a missing feature to `EOPNOTSUPP`.
pub(crate) fn unsupported(why: Errno) -> Errno {
    if why.0 == libc::ENOSYS { errno::EOPNOTSUPP } else { why }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it is live, and all objects of it have kept it.
        closed(unsafe { call::ibv_close_xrcd(self.xrcd) }, "ibv_close_xrcd", self.device.name());
    }
}

#[cfg(test)]
#[path = "xrc_tests.rs"]
mod tests;
