//! Error numbers of libfabric (`fi_errno(3)`), positive.

pub(crate) use libfabric_sys::consts::{
    FI_EAGAIN, FI_EAVAIL, FI_ECANCELED, FI_ENODATA, FI_ENOSYS, FI_ETRUNC,
};

pub(crate) const FI_EINVAL: i32 = libc::EINVAL;
pub(crate) const FI_EBUSY: i32 = libc::EBUSY;
pub(crate) const FI_EIO: i32 = libc::EIO;
pub(crate) const FI_EACCES: i32 = libc::EACCES;
pub(crate) const FI_EMSGSIZE: i32 = libc::EMSGSIZE;
pub(crate) const FI_ENOENT: i32 = libc::ENOENT;
pub(crate) const FI_ENOMEM: i32 = libc::ENOMEM;
pub(crate) const FI_EOPNOTSUPP: i32 = libc::EOPNOTSUPP;
pub(crate) const FI_ENOPROTOOPT: i32 = libc::ENOPROTOOPT;
pub(crate) const FI_ENOTCONN: i32 = libc::ENOTCONN;
pub(crate) const FI_ETOOSMALL: i32 = 257;
pub(crate) const FI_EOPBADSTATE: i32 = 258;
pub(crate) const FI_EBADFLAGS: i32 = 260;
pub(crate) const FI_EDOMAIN: i32 = 262;
pub(crate) const FI_ENOCQ: i32 = 263;
pub(crate) const FI_ENOKEY: i32 = 266;
pub(crate) const FI_ENOAV: i32 = 267;

/// Returns the meaning of an error number; libfabric's own begin at 256.
pub(crate) fn text(number: i32) -> String {
    let own = match number {
        0 => "Success",
        FI_ETOOSMALL => "Provided buffer is too small",
        FI_EOPBADSTATE => "Operation not permitted in current state",
        FI_EAVAIL => "Error available",
        FI_EBADFLAGS => "Flags not supported",
        FI_EDOMAIN => "Invalid resource domain",
        FI_ENOCQ => "Missing or unavailable completion queue",
        FI_ETRUNC => "Truncation error",
        FI_ENOKEY => "Required key not available",
        FI_ENOAV => "Missing or unavailable address vector",
        256..512 => "Unspecified error",
        _ => return std::io::Error::from_raw_os_error(number).to_string(),
    };
    own.into()
}
