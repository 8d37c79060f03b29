//! Tests of the symbols' versions.

use std::ffi::CString;

use super::*;

/// A wrong version would go unnoticed otherwise, since the look-up falls back to the bare name.
#[cfg(target_env = "gnu")]
#[test]
fn each_symbol_is_there_in_its_version_which_is_the_newest_of_it() {
    let path = Path::new("libibverbs.so.1");
    // Without a library there is nothing to check; the tests in `tests/load.rs` report that.
    let Ok(shared) = Shared::open(path) else { return };
    let library = Library::fill(shared, path).expect("libibverbs");
    // Libraries from 2020 on have all functions.
    let complete = library._ibv_query_gid_ex.is_some();
    for (name, version) in Library::SYMBOLS {
        let c = |text: &str| CString::new(text).expect("no zero byte");
        let found = shared.versioned(&c(name), &c(version));
        if complete || found.is_some() {
            assert_eq!(found, shared.symbol(&c(name), c""), "{name} {version}");
        }
    }
}
