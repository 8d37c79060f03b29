//! Tests without a launcher: a missing library, and the order of ranks in a lookup.

use super::*;

#[test]
fn a_missing_library_is_named_with_its_package_and_the_variable() {
    let error = PmixClient::connect("libpmix-that-is-not-there.so.2").unwrap_err();
    assert!(matches!(error, PmiError::PmixLibrary { .. }), "{error}");
    for part in ["libpmix-that-is-not-there.so.2", "libpmix2", "NETMOD_PMIX_LIBRARY", "mpiexec.hydra"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_library_that_is_not_libpmix_is_an_error() {
    let error = PmixClient::connect("libc.so.6").unwrap_err();
    assert!(error.to_string().contains("PMIx_Init"), "{error}");
}

#[test]
fn the_likely_owner_of_a_key_is_asked_first_and_each_rank_once() {
    for (key, first) in
        [("card-2", 2), ("card-0", 0), ("card-4", 0), ("key", 0), ("c99999999999999", 0), ("3", 3)]
    {
        let mut asked: Vec<u32> = owners(key, 1, 4).collect();
        assert_eq!(asked[0], first, "{key}");
        asked.sort_unstable();
        assert_eq!(asked, [0, 1, 2, 3], "{key}");
    }
    assert_eq!(owners("x", 0, 1).collect::<Vec<_>>(), [0]);
}

#[test]
fn keys_are_words_that_fit() {
    for key in ["", "a b", "a=b", "a~1", "\u{e9}", &"k".repeat(ffi::MAX_KEY + 1)] {
        let error = PmixClient::key(key).unwrap_err();
        assert!(matches!(error, PmiError::Argument { .. }), "{key}: {error}");
    }
    PmixClient::key(&"k".repeat(ffi::MAX_KEY)).unwrap();
}
