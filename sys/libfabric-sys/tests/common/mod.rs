//! Helpers shared by the tests of this crate.

// Each test program uses only some of them.
#![allow(dead_code, unused_macros)]

pub mod probe;

use std::io::Write;

/// Reports on stderr, and in the log that `cargo xtask test` reads, that a test is skipped.
///
/// # Panics
/// If `NETMOD_TEST_NO_SKIP=1`, as in CI.
pub fn skip(line: &str) {
    assert!(
        std::env::var_os("NETMOD_TEST_NO_SKIP").is_none_or(|v| v != "1"),
        "NETMOD_TEST_NO_SKIP=1, but {line}"
    );
    eprintln!("skipped: {line}");
    if let Some(log) = std::env::var_os("NETMOD_TEST_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| writeln!(f, "{line}")).expect("the list of skipped tests can be written");
    }
}
