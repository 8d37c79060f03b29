//! The libfabrics to test with: the system's, and a second one, of another version.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::jobs::launch::skip;

/// Names the file of the second one; `cargo xtask test` sets it.
pub const SECOND: &str = "NETMOD_TEST_OFI_LIBRARY";

/// Returns the system's libfabric, or the one that `NETMOD_OFI_LIBRARY` names. If there is none,
/// a line says that the test is skipped.
///
/// # Panics
/// If there is none and `NETMOD_TEST_NO_SKIP=1`.
#[track_caller]
pub fn first_or_skip(test: &str) -> Option<libfabric_sys::Library> {
    let path =
        std::env::var_os(libfabric_sys::Library::VARIABLE).filter(|p| !p.is_empty()).map(PathBuf::from);
    match libfabric_sys::Library::load(path.as_deref()) {
        Ok(library) => Some(library),
        Err(e) => {
            skip(&format!("SKIPPED: {test}: {e}"));
            None
        }
    }
}

/// The variables with which a process uses the second libfabric, and the providers that came with
/// it; if there is none, it was said that the test is skipped. Two of them in one process do not
/// get on with each other.
///
/// # Panics
/// If there is none and `NETMOD_TEST_NO_SKIP=1`.
#[track_caller]
pub fn second_or_skip(test: &str) -> Option<[(&'static str, PathBuf); 2]> {
    let Some(path) = std::env::var_os(SECOND).filter(|p| !p.is_empty()).map(PathBuf::from) else {
        skip(&format!(
            "SKIPPED: {test}: no second libfabric (`cargo xtask test` fetches one and names it in {SECOND})"
        ));
        return None;
    };
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    Some([(libfabric_sys::Library::VARIABLE, path), ("FI_PROVIDER_PATH", folder)])
}

/// Runs one test of the calling test program again, in a process with these variables.
///
/// # Panics
/// If it fails, or there is no such test.
#[track_caller]
pub fn again_with<V: AsRef<OsStr>>(test: &str, variables: &[(&str, V)]) {
    let text = again(&["--exact", test, "--nocapture"], variables);
    assert!(text.contains("1 passed"), "{test}:\n{text}");
}

/// Runs the tests of a module again; see [`again_with`].
///
/// # Panics
/// If one fails, or there are none.
#[track_caller]
pub fn module_again_with<V: AsRef<OsStr>>(module: &str, variables: &[(&str, V)]) {
    let text = again(&[&format!("{module}::")], variables);
    assert!(!text.contains(" 0 passed"), "{module}:\n{text}");
}

#[track_caller]
fn again<V: AsRef<OsStr>>(args: &[&str], variables: &[(&str, V)]) -> String {
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    command.args(args);
    for (name, value) in variables {
        command.env(name, value);
    }
    let out = command.output().expect("this program starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {}\n{text}{errors}", out.status);
    text
}
