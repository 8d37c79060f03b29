//! Reads the type of a GID from the kernel, for libraries without `ibv_query_gid_ex`.

use std::io;
use std::path::Path;

use crate::consts::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET};

#[cfg(test)]
#[path = "sysfs_tests.rs"]
mod tests;

/// Returns the type (`IBV_GID_TYPE_...`) of an entry of a port's table of GIDs. `device` is the
/// device's folder in sysfs (`ibdev_path`).
///
/// # Errors
/// If the file cannot be read (the kernel reports empty entries as invalid), or its content is
/// unknown.
pub fn gid_type(device: &Path, port: u8, index: u32, link_layer: u8) -> io::Result<u32> {
    let file = device.join(format!("ports/{port}/gid_attrs/types/{index}"));
    let fault = |e: &dyn core::fmt::Display| format!("{}: {e}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|e| io::Error::new(e.kind(), fault(&e)))?;
    match text.trim() {
        // The kernel has one name for both types.
        "IB/RoCE v1" if link_layer == IBV_LINK_LAYER_ETHERNET => Ok(IBV_GID_TYPE_ROCE_V1),
        "IB/RoCE v1" => Ok(IBV_GID_TYPE_IB),
        "RoCE v2" => Ok(IBV_GID_TYPE_ROCE_V2),
        other => {
            Err(io::Error::new(io::ErrorKind::InvalidData, fault(&format!("{other:?} is no type of a GID"))))
        }
    }
}
