//! Addresses that mean something where a graph's weights are expected.

use core::ffi::c_int;

/// Its address means that the graph has no weights.
pub static UNWEIGHTED: c_int = 0;
/// Its address means that there are no edges to weigh.
pub static WEIGHTS_EMPTY: c_int = 0;

/// Returns true for the address that means no weights.
pub fn is_unweighted(at: *const c_int) -> bool {
    core::ptr::eq(at, &raw const UNWEIGHTED)
}
