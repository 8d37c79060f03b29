//! Tests that cannot run on a machine.

/// Variable with the file to which a test that cannot run appends a line.
pub(crate) const SKIP_LOG: &str = "NETMOD_TEST_SKIP_LOG";
/// Variable that makes such a test fail if it is 1.
pub(crate) const NO_SKIP: &str = "NETMOD_TEST_NO_SKIP";

/// Reports a test that cannot run here.
#[cfg(test)]
pub(crate) fn skip_test(line: &str) {
    use std::io::Write;
    assert!(std::env::var_os(NO_SKIP).is_none_or(|v| v != "1"), "{NO_SKIP}=1, but {line}");
    eprintln!("skipped: {line}");
    if let Some(log) = std::env::var_os(SKIP_LOG) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| writeln!(f, "{line}")).expect("the list of skipped tests can be written");
    }
}
