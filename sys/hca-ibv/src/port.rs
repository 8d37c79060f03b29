//! Queries ports, their GIDs and partition keys.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::path::Path;

use hca::{Errno, Error, Gid, GidEntry, GidKind, errno};
use libibverbs_sys::attr::{ibv_gid, ibv_gid_entry, ibv_port_attr};
use libibverbs_sys::consts::*;
use libibverbs_sys::sysfs;

use crate::device::Device;
use crate::error::{check, number};

/// Maximum number of entries of a table of GIDs that [`GidEntry::index`] can name.
const TABLE: u32 = 256;

impl Device {
    pub(crate) fn port_attr(&self, port: u8) -> Result<ibv_port_attr, Error> {
        let on = || format!("{}, port {port}", self.name());
        if !self.has_port(port) {
            return Err(Error::new("ibv_query_port", on(), errno::EINVAL));
        }
        let mut attr = ibv_port_attr::default();
        // SAFETY: the context is live, and the record has room.
        let asked = unsafe { self.library().query_port(self.context.raw(), port, &raw mut attr) };
        check(asked, "ibv_query_port", on)?;
        Ok(attr)
    }

    pub(crate) fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error> {
        let attr = self.port_attr(port)?;
        let count = u32::try_from(attr.gid_tbl_len).unwrap_or(0).min(TABLE);
        let mut all = Vec::new();
        for index in 0..count {
            let mut entry = ibv_gid_entry::default();
            // SAFETY: the context is live, and the record has room.
            let asked =
                unsafe { self.library().query_gid_ex(self.context.raw(), port, index, &raw mut entry) };
            match asked {
                0 => all.extend(used(&entry)),
                _ => match number(asked) {
                    // An empty entry.
                    Errno(libc::ENODATA) => {}
                    errno::EOPNOTSUPP => all.extend(used(&self.old_gid(port, index, attr.link_layer)?)),
                    why => {
                        let on = format!("{}, port {port}, GID {index}", self.name());
                        return Err(Error::new("ibv_query_gid_ex", on, why));
                    }
                },
            }
        }
        Ok(all)
    }

    /// Reads an entry without `ibv_query_gid_ex`: the GID from the library, its type and interface
    /// from sysfs. Returns zeros for an empty entry.
    fn old_gid(&self, port: u8, index: u32, link_layer: u8) -> Result<ibv_gid_entry, Error> {
        let on = || format!("{}, port {port}, GID {index}", self.name());
        let mut gid = ibv_gid::default();
        // SAFETY: the context is live, and the record has room.
        let asked =
            unsafe { (self.library().ibv_query_gid)(self.context.raw(), port, index as c_int, &raw mut gid) };
        check(asked, "ibv_query_gid", on)?;
        let mut entry = ibv_gid_entry { gid, gid_index: index, port_num: port.into(), ..Default::default() };
        if gid.raw != [0; 16] {
            let folder = self.context.folder();
            entry.gid_type = sysfs::gid_type(&folder, port, index, link_layer).map_err(|e| {
                let why = e.raw_os_error().map_or(errno::EIO, Errno);
                Error::new("ibv_query_gid", format!("{} ({e})", on()), why)
            })?;
            entry.ndev_ifindex = interface(&folder, Path::new("/sys/class/net"), port, index);
        }
        Ok(entry)
    }

    pub(crate) fn pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        let on = || format!("{}, port {port}, partition key {index}", self.name());
        if !self.has_port(port) {
            return Err(Error::new("ibv_query_pkey", on(), errno::EINVAL));
        }
        let mut key = 0;
        // SAFETY: the context is live, and the number has room.
        let asked =
            unsafe { (self.library().ibv_query_pkey)(self.context.raw(), port, index.into(), &raw mut key) };
        check(asked, "ibv_query_pkey", on)?;
        Ok(u16::from_be(key))
    }
}

/// Converts an entry. Returns `None` if it is empty or of an unknown type.
fn used(entry: &ibv_gid_entry) -> Option<GidEntry> {
    let kind = match entry.gid_type {
        IBV_GID_TYPE_IB => GidKind::Ib,
        IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
        IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
        _ => return None,
    };
    let gid = Gid(entry.gid.raw);
    let index = u8::try_from(entry.gid_index).ok()?;
    (!gid.is_zero()).then_some(GidEntry { gid, index, kind, ifindex: entry.ndev_ifindex })
}

/// Returns the index of an entry's network interface, from sysfs; 0 if there is none (InfiniBand).
fn interface(device: &Path, interfaces: &Path, port: u8, index: u32) -> u32 {
    let name = std::fs::read_to_string(device.join(format!("ports/{port}/gid_attrs/ndevs/{index}")));
    let number = name.and_then(|name| std::fs::read_to_string(interfaces.join(name.trim()).join("ifindex")));
    number.ok().and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
