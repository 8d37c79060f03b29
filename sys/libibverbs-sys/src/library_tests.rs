//! The versions of symbols.

use std::ffi::CString;

use super::*;

/// A version that does not exist would not be noticed otherwise, for then the name alone counts.
#[cfg(target_env = "gnu")]
#[test]
fn each_symbol_is_there_in_its_version_which_is_the_newest_of_it() {
    let path = Path::new("libibverbs.so.1");
    // Where there is none, those tests say so that need it.
    let Ok(shared) = Shared::open(path) else { return };
    let library = Library::fill(shared, path).expect("libibverbs");
    // From 2020 on there are all.
    let complete = library._ibv_query_gid_ex.is_some();
    for (name, version) in Library::SYMBOLS {
        let c = |text: &str| CString::new(text).expect("no zero byte");
        let found = shared.versioned(&c(name), &c(version));
        if complete || found.is_some() {
            assert_eq!(found, shared.symbol(&c(name), c""), "{name} {version}");
        }
    }
}
