//! The size of a record on the wire, and the limits that bound it.

use crate::record::{Address, Nic, Reach};

/// Most addresses of an interface that are considered.
pub const MAX_ADDRESSES: usize = 64;
/// Most bytes of a record: half a business card.
pub const MAX_LEN: usize = 32 << 10;

/// Length in bytes of the part before the first interface.
pub(crate) const HEAD: usize = 34;

/// Returns the bytes of an interface with its addresses, without their destinations.
pub(crate) fn nic_len(nic: &Nic) -> usize {
    let address = |a: &Address| if a.ip.is_ipv4() { 7 } else { 19 };
    16 + nic.name.len() + nic.addresses.iter().map(address).sum::<usize>()
}

/// Returns the bytes of a destination.
pub(crate) fn reach_len(reach: &Reach) -> usize {
    2 + net_len(reach.prefix)
}

/// Returns the number of bytes that hold a network part.
pub(crate) fn net_len(prefix: u8) -> usize {
    usize::from(prefix).div_ceil(8)
}
