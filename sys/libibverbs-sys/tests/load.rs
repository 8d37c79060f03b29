//! Tests with the real library where there is one, and of the error where there is none.

#![allow(unsafe_code)]

#[path = "../../libfabric-sys/tests/common/mod.rs"]
mod common;

use std::path::Path;

use netmod_libibverbs_sys::consts::*;
use netmod_libibverbs_sys::{Library, LoadError};

/// Returns the system's library.
fn library() -> Option<Library> {
    let found = Library::load(None);
    if let Err(e) = &found {
        common::skip(&e.to_string());
    }
    found.ok()
}

#[test]
fn the_library_lists_devices_or_has_none() {
    let Some(library) = library() else { return };
    let mut count = -1;
    // SAFETY: the count has room; the list has that many devices, whose names are C strings, and it
    // is freed once.
    unsafe {
        let list = (library.ibv_get_device_list)(&raw mut count);
        if list.is_null() {
            // A kernel without InfiniBand.
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ENOSYS), "{error}");
            return;
        }
        assert!(count >= 0);
        for i in 0..count as usize {
            let name = (library.ibv_get_device_name)(list.add(i).read());
            assert!(!core::ffi::CStr::from_ptr(name).is_empty());
        }
        assert!(list.add(count as usize).read().is_null());
        (library.ibv_free_device_list)(list);
    }
}

#[test]
fn numbers_have_names() {
    let Some(library) = library() else { return };
    assert_eq!(library.status(IBV_WC_SUCCESS), "success");
    assert!(library.status(IBV_WC_RNR_RETRY_EXC_ERR).contains("RNR"));
    assert!(library.event(IBV_EVENT_SRQ_LIMIT_REACHED).contains("limit"));
    assert!(library.port_state(IBV_PORT_DOWN).to_lowercase().contains("down"));
    // Numbers of future libraries have no name.
    for text in [library.status(4711), library.event(4711), library.port_state(4711)] {
        assert!(!text.is_empty());
    }
}

#[test]
fn what_later_versions_have_is_found() {
    // Every supported distribution has a libibverbs from after 2020.
    if let Some(library) = library() {
        assert!(library.ibv_reg_mr_iova2.is_some() && library._ibv_query_gid_ex.is_some());
    }
}

#[test]
fn a_library_that_is_not_there_is_said_to_be_missing() {
    let error = Library::load(Some(Path::new("/nonexistent/libibverbs.so.1"))).expect_err("it is not there");
    assert!(matches!(error, LoadError::Missing { .. }));
    let text = error.to_string();
    for part in ["/nonexistent/libibverbs.so.1", "apt-get install libibverbs1 ibverbs-providers"] {
        assert!(text.contains(part), "{text}");
    }
    let error = Library::load(Some(Path::new("a\0b"))).expect_err("that is no path");
    assert!(error.to_string().contains("zero byte"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn another_library_is_said_to_be_another() {
    let error = Library::load(Some(Path::new("libc.so.6"))).expect_err("it is the C library");
    assert_eq!(error, LoadError::Symbol { path: "libc.so.6".into(), name: "ibv_get_device_list" });
}
