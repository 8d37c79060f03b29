//! An opened device with its protection domain, kept alive by all its objects.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::fmt;
use core::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use hca::{AsyncEvent, DeviceAttr, Errno, Error, errno};
use libibverbs_sys::Library;
use libibverbs_sys::attr::ibv_device_attr_ex;
use libibverbs_sys::object::{ibv_context, ibv_pd};

use crate::error::{self, check, closed, made};
use crate::{convert, event};

/// A device's context, closed when it is dropped.
pub(crate) struct Context {
    pub(crate) library: Library,
    raw: *mut ibv_context,
    pub(crate) name: String,
}

// SAFETY: the library's calls may come from any thread, and the library does its own locking.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Takes ownership of an opened device.
    ///
    /// # Safety
    /// The device was opened by this library, and nobody else closes it.
    pub(crate) unsafe fn new(library: Library, raw: *mut ibv_context, name: String) -> Context {
        Context { library, raw, name }
    }

    /// Returns the pointer for the library's calls.
    pub(crate) fn raw(&self) -> *mut ibv_context {
        self.raw
    }

    /// Returns the descriptor of asynchronous events.
    pub(crate) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is live, and with it its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.raw).async_fd) }
    }

    /// Returns the device's folder in sysfs.
    pub(crate) fn folder(&self) -> PathBuf {
        // SAFETY: the context is live and keeps its device; the path is a C string within the
        // device.
        let path = unsafe { CStr::from_ptr((&raw const (*(*self.raw).device).ibdev_path).cast()) };
        PathBuf::from(path.to_string_lossy().into_owned())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: every object of the context keeps it alive, so none is left; it is closed once.
        closed(unsafe { (self.library.ibv_close_device)(self.raw) }, "ibv_close_device", &self.name);
    }
}

/// A device opened by [`crate::Devices::open`], with one protection domain.
#[derive(Debug)]
pub struct IbvHca(pub(crate) Arc<Device>);

/// A device with its protection domain.
pub(crate) struct Device {
    pub(crate) context: Context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) attr: DeviceAttr,
}

// SAFETY: as for the context.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context.name)
    }
}

impl Device {
    pub(crate) fn new(context: Context) -> Result<Device, Error> {
        let name = || context.name.clone();
        nonblocking(context.async_fd()).map_err(|e| Error::new("fcntl", name(), e))?;
        let mut attr = MaybeUninit::<ibv_device_attr_ex>::zeroed();
        // SAFETY: the context is live, and the record has room.
        let asked = unsafe { context.library.query_device_ex(context.raw, attr.as_mut_ptr()) };
        check(asked, "ibv_query_device_ex", name)?;
        // SAFETY: zeros are valid in it, and the library has written the rest.
        let attr = convert::device(unsafe { &attr.assume_init_ref().orig_attr });
        // SAFETY: the context is live.
        let pd = made(unsafe { (context.library.ibv_alloc_pd)(context.raw) }, "ibv_alloc_pd", name)?;
        Ok(Device { context, pd, attr })
    }

    pub(crate) fn name(&self) -> &str {
        &self.context.name
    }

    pub(crate) fn library(&self) -> &Library {
        &self.context.library
    }

    /// Returns true if the device has a port of this number. Drivers do not always check.
    pub(crate) fn has_port(&self, port: u8) -> bool {
        (1..=self.attr.ports).contains(&port)
    }

    /// Returns the next asynchronous event.
    pub(crate) fn event(&self) -> Result<Option<AsyncEvent>, Error> {
        let mut event = MaybeUninit::uninit();
        // SAFETY: the context is live, and the event has room.
        let got = unsafe { (self.library().ibv_get_async_event)(self.context.raw, event.as_mut_ptr()) };
        if got != 0 {
            return match error::last() {
                // No event, or a signal interrupted the call; pending events stay.
                Errno(libc::EAGAIN | libc::EINTR) => Ok(None),
                why => Err(Error::new("ibv_get_async_event", self.name(), why)),
            };
        }
        // SAFETY: the library has written the event. Closing the object that it names waits until
        // the event is acknowledged.
        unsafe {
            let converted = event::convert(event.assume_init_ref());
            (self.library().ibv_ack_async_event)(event.as_mut_ptr());
            Ok(Some(converted))
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: every object of the domain keeps it alive, so none is left; it is freed once.
        closed(unsafe { (self.library().ibv_dealloc_pd)(self.pd) }, "ibv_dealloc_pd", self.name());
    }
}

/// Makes a descriptor non-blocking.
pub(crate) fn nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    use std::os::fd::AsRawFd as _;
    let fd = fd.as_raw_fd();
    // SAFETY: the descriptor is open, and the flags are its own.
    let done: c_int = unsafe {
        match libc::fcntl(fd, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK),
        }
    };
    if done == -1 { Err(error::last()) } else { Ok(()) }
}

/// Returns a token as a pointer, which the library hands back.
pub(crate) fn pointer_of(token: u64) -> Result<*mut core::ffi::c_void, Errno> {
    let address = usize::try_from(token).map_err(|_| errno::EINVAL)?;
    Ok(core::ptr::without_provenance_mut(address))
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
