//! Communication in partitions.

use core::ffi::{c_int, c_void};

use netmod_mpi::handle::{Comm, Info, Request};
use netmod_mpi::{Mpi, Result};

use crate::convert::{buffer, put, slice};

/// Writes the maker of one side.
macro_rules! side {
    ($name:ident, $buf:ty) => {
        pub unsafe fn $name(
            mpi: &Mpi,
            buf: $buf,
            partitions: c_int,
            count: i64,
            datatype: c_int,
            peer: c_int,
            tag: c_int,
            comm: c_int,
            info: c_int,
            request: *mut c_int,
        ) -> Result<()> {
            // SAFETY: the caller's buffer, of so many elements for each partition, and its memory.
            unsafe {
                let buf = buffer(buf, count, datatype);
                let made = mpi.$name(buf, partitions, peer, tag, Comm(comm as u32), Info(info as u32))?;
                put(request, made.0 as c_int)
            }
        }
    };
}

side!(psend_init, *const c_void);
side!(precv_init, *mut c_void);

pub unsafe fn pready_list(mpi: &Mpi, length: c_int, partitions: *const c_int, request: c_int) -> Result<()> {
    // SAFETY: the caller's array.
    let partitions = unsafe { slice(partitions, length.max(0) as usize) };
    mpi.pready_list(partitions, Request(request as u32))
}

/// The counts of both forms have the same type.
pub use self::{precv_init as precv_init_c, psend_init as psend_init_c};
