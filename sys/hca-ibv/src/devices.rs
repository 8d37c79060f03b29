//! The loaded library and its list of devices.

#![allow(unsafe_code)]

use core::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use hca::Errno;
use libibverbs_sys::object::ibv_device;
use libibverbs_sys::{Library, LoadError};

use crate::device::{Context, Device, IbvHca};
use crate::error;

/// The reason why the library cannot be used, or a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DevicesError {
    /// No usable library was found.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// The library cannot protect registered memory from a fork.
    #[error("{}", fork_refused(*.0))]
    Fork(Errno),
    /// The library cannot list the devices.
    #[error("{}", no_list(*.0))]
    List(Errno),
    /// There is no device of this name.
    #[error("{}", not_there(name, present))]
    Missing {
        /// The name.
        name: String,
        /// Names of the present devices.
        present: Vec<String>,
    },
    /// The library does not open the device.
    #[error("{}", not_opened(name, *errno))]
    Open {
        /// Name of the device.
        name: String,
        /// The cause.
        errno: Errno,
    },
    /// A call on the opened device has failed.
    #[error(transparent)]
    Device(#[from] hca::Error),
}

/// The loaded libibverbs.
#[derive(Clone, Copy, Debug)]
pub struct Devices {
    library: Library,
}

impl Devices {
    /// Loads libibverbs from this file, or the system's. Succeeds without any device.
    ///
    /// # Errors
    /// If no usable library is found (the message names the packages), or the library cannot
    /// protect registered memory from a fork.
    pub fn load(path: Option<&Path>) -> Result<Devices, DevicesError> {
        let library = Library::load(path)?;
        // After a fork, parent and child share all pages until one of them writes. If the parent
        // writes first, it continues with a copy of the page while the device keeps writing to the
        // old one. Programs may fork at any time (`system(3)` does), so memory must be protected
        // before the first registration. The cost (ibv_fork_init(3)): a system call and a record
        // for each registration, and the child lacks these pages. Where the kernel copies pinned
        // pages when it forks, the library does nothing.
        // SAFETY: the function takes no arguments and may be called at any time.
        match unsafe { (library.ibv_fork_init)() } {
            0 => Ok(Devices { library }),
            refused => Err(DevicesError::Fork(error::number(refused))),
        }
    }

    /// Returns the names of the present devices.
    ///
    /// # Errors
    /// If the library cannot list them.
    pub fn names(&self) -> Result<Vec<String>, DevicesError> {
        let list = List::new(&self.library)?;
        Ok(list.all().iter().map(|device| list.name(*device)).collect())
    }

    /// Opens the device of this name.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be opened.
    pub fn open(&self, name: &str) -> Result<IbvHca, DevicesError> {
        let list = List::new(&self.library)?;
        let found = list.all().iter().find(|device| list.name(**device) == name);
        let Some(&device) = found else {
            let present = list.all().iter().map(|device| list.name(*device)).collect();
            return Err(DevicesError::Missing { name: name.to_owned(), present });
        };
        // SAFETY: the device is one of the list, which lives.
        let context = unsafe { (self.library.ibv_open_device)(device) };
        if context.is_null() {
            return Err(DevicesError::Open { name: name.to_owned(), errno: error::last() });
        }
        // SAFETY: this library has just opened the context, and nobody else owns it.
        let context = unsafe { Context::new(self.library, context, name.to_owned()) };
        Ok(IbvHca(Arc::new(Device::new(context)?)))
    }
}

/// The library's list of devices.
struct List<'a> {
    library: &'a Library,
    list: *mut *mut ibv_device,
    count: usize,
}

impl List<'_> {
    fn new(library: &Library) -> Result<List<'_>, DevicesError> {
        let mut count = 0;
        // SAFETY: the count has room.
        let list = unsafe { (library.ibv_get_device_list)(&raw mut count) };
        if list.is_null() {
            return Err(DevicesError::List(error::last()));
        }
        Ok(List { library, list, count: usize::try_from(count).unwrap_or(0) })
    }

    fn all(&self) -> &[*mut ibv_device] {
        // SAFETY: the list has that many entries and lives until `self` is dropped.
        unsafe { core::slice::from_raw_parts(self.list, self.count) }
    }

    fn name(&self, device: *mut ibv_device) -> String {
        // SAFETY: the device is one of the list; its name is a C string within it.
        unsafe { CStr::from_ptr((self.library.ibv_get_device_name)(device)) }.to_string_lossy().into_owned()
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: the list is freed once. Opened devices stay valid.
        unsafe { (self.library.ibv_free_device_list)(self.list) }
    }
}

fn no_list(why: Errno) -> String {
    if why.0 == libc::ENOSYS {
        return "no RDMA devices: the kernel has no verbs for users (modprobe ib_uverbs)".into();
    }
    format!("ibv_get_device_list: {why}; are /sys/class/infiniband and /dev/infiniband readable?")
}

fn not_there(name: &str, there: &[String]) -> String {
    match there {
        [] => format!("no RDMA device {name}: there is none at all; is its driver loaded (ibv_devinfo)?"),
        _ => format!("no RDMA device {name}; there are: {}", there.join(", ")),
    }
}

fn not_opened(name: &str, why: Errno) -> String {
    let way_out = match why.0 {
        libc::EACCES | libc::EPERM => "; may this user open /dev/infiniband/uverbs*?",
        libc::EMFILE => "; is the limit of open files large enough (ulimit -n)?",
        libc::ENODEV | libc::ENXIO | libc::EIO => "; was it removed?",
        _ => "",
    };
    format!("ibv_open_device on {name}: {why}{way_out}")
}

fn fork_refused(why: Errno) -> String {
    let way_out = match why.0 {
        // The variable makes the library call `ibv_fork_init` itself when it is first used, by any
        // user.
        libc::EINVAL => "; something else has registered memory already: set RDMAV_FORK_SAFE=1",
        libc::ENOSYS => "; the kernel is too old (before 2.6.17)",
        _ => "",
    };
    format!("ibv_fork_init cannot protect memory from a fork: {why}{way_out}")
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
