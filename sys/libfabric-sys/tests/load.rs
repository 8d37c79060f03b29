//! Tests with the real library where there is one, and of the error where there is none.

#![allow(unsafe_code)]

mod common;

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_libfabric_sys::attr::fi_info;
use netmod_libfabric_sys::{API, Library, LoadError, OLDEST};

/// Returns the library under test: the one that `NETMOD_OFI_LIBRARY` names, or else the system's.
fn library() -> Option<Library> {
    if let Some(path) = std::env::var_os(Library::VARIABLE) {
        return Some(Library::load(Some(Path::new(&path))).expect("NETMOD_OFI_LIBRARY"));
    }
    let found = Library::load(None);
    if let Err(e) = &found {
        common::skip(&e.to_string());
    }
    found.ok()
}

/// Repeats the tests that use [`library`] with a second libfabric. It runs in a process of its own,
/// because two libraries and their providers conflict within one process.
#[test]
fn the_same_with_a_second_library() {
    if std::env::var_os(Library::VARIABLE).is_some() {
        return;
    }
    let Some(path) = std::env::var_os("NETMOD_TEST_OFI_LIBRARY").map(PathBuf::from) else {
        return common::skip(
            "libfabric 2 (`cargo xtask test` fetches one, and names it in NETMOD_TEST_OFI_LIBRARY)",
        );
    };
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    command.arg("--nocapture").env(Library::VARIABLE, &path);
    if let Some(folder) = path.parent() {
        command.env("FI_PROVIDER_PATH", folder);
    }
    let out = command.output().expect("this program starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}:\n{text}{}", path.display(), String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("test the_library_lists_its_providers ... ok"), "{text}");
}

/// Returns the names of a library's providers, in its order.
fn providers(library: &Library) -> Vec<String> {
    let mut list: *mut fi_info = core::ptr::null_mut();
    // SAFETY: no hints are given, and the list is written on success.
    let done = unsafe {
        (library.fi_getinfo)(
            library.api(),
            core::ptr::null(),
            core::ptr::null(),
            0,
            core::ptr::null(),
            &raw mut list,
        )
    };
    assert_eq!(done, 0, "{}", library.error(done.into()));
    let mut names = Vec::new();
    let mut at = list.cast_const();
    // SAFETY: the list is live until it is freed below; each record has a fabric, whose provider
    // name is a C string.
    unsafe {
        while let Some(info) = at.as_ref() {
            let name = (*info.fabric_attr).prov_name;
            let name = CStr::from_ptr(name).to_str().expect("a name of ASCII").to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
            at = info.next;
        }
        (library.fi_freeinfo)(list);
    }
    names
}

#[test]
fn the_library_lists_its_providers() {
    if let Some(library) = library() {
        assert!(library.version() >= OLDEST && library.api() <= API);
        let names = providers(&library);
        assert!(names.iter().any(|n| n == "tcp" || n.starts_with("tcp;")), "{names:?}");
    }
}

/// Debian's libfabric 1.17 depends on a library that would end the process with status 1 on
/// SIGTERM.
#[test]
fn signal_actions_are_preserved() {
    const FRESH: &str = "NETMOD_TEST_FRESH_PROCESS";
    if std::env::var_os(FRESH).is_none() {
        // No other test loads a library in that process.
        let this = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(this);
        command.args(["--exact", "signal_actions_are_preserved", "--nocapture"]).env(FRESH, "1");
        let out = command.output().expect("this program starts");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&out.stderr)
        );
        return;
    }
    let actions = || {
        [libc::SIGINT, libc::SIGTERM, libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT].map(|signal| {
            // SAFETY: an action of zeros is a valid one; no action is set, and the result has room.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                assert_eq!(libc::sigaction(signal, core::ptr::null(), &raw mut action), 0);
                action.sa_sigaction
            }
        })
    };
    let before = actions();
    if library().is_some() {
        assert_eq!(actions(), before);
    }
}

#[test]
fn errors_are_named_whatever_their_sign() {
    if let Some(library) = library() {
        assert_eq!(library.error(-61), library.error(61));
        assert!(library.error(61).to_lowercase().contains("no data"), "{}", library.error(61));
    }
}

#[test]
fn a_library_that_is_not_there_is_said_to_be_missing() {
    let error = Library::load(Some(Path::new("/nonexistent/libfabric.so.1"))).expect_err("it is not there");
    assert!(matches!(error, LoadError::Missing { .. }));
    let text = error.to_string();
    for part in ["/nonexistent/libfabric.so.1", "apt-get install libfabric1", Library::VARIABLE] {
        assert!(text.contains(part), "{text}");
    }
    let error = Library::load(Some(Path::new("a\0b"))).expect_err("that is no path");
    assert!(error.to_string().contains("zero byte"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn another_library_is_said_to_be_another() {
    let error = Library::load(Some(Path::new("libc.so.6"))).expect_err("it is the C library");
    assert_eq!(error, LoadError::Symbol { path: "libc.so.6".into(), name: "fi_version" });
}
