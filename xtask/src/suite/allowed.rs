//! Tests that do not apply, each with its reason.

use super::lines::Test;

/// A line of the list: a test's path or name, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Exception {
    key: String,
    reason: String,
}

impl Exception {
    /// Returns the test and the reason.
    pub(super) fn into_parts(self) -> (String, String) {
        (self.key, self.reason)
    }
}

/// Reads a list: comments, and lines of a key, a tab and a reason.
///
/// # Errors
/// In words, if a line has no reason.
pub(crate) fn read(text: &str) -> Result<Vec<Exception>, String> {
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| match line.split_once('\t') {
            Some((key, reason)) if !reason.trim().is_empty() => {
                Ok(Exception { key: key.into(), reason: reason.trim().into() })
            }
            _ => Err(format!("{line}: a test, a tab and a reason are expected")),
        })
        .collect()
}

/// Returns the reason for which a test does not apply.
pub(crate) fn reason<'a>(exceptions: &'a [Exception], test: &Test) -> Option<&'a str> {
    let (path, name) = (test.path(), test.name());
    exceptions.iter().find(|e| e.key == path || e.key == name).map(|e| e.reason.as_str())
}

/// Checks that each exception is one of a test that there is.
///
/// # Errors
/// In words, with those that are not.
pub(crate) fn check(exceptions: &[Exception], tests: &[Test]) -> Result<(), String> {
    let known = |e: &&Exception| tests.iter().any(|t| e.key == t.path() || e.key == t.name());
    let strange: Vec<_> = exceptions.iter().filter(|e| !known(e)).map(|e| e.key.as_str()).collect();
    if strange.is_empty() {
        return Ok(());
    }
    Err(format!("exceptions for tests that the suite does not have: {}", strange.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn a_test_is_named_by_its_path_or_all_its_words() {
        let tests = lines::read("l", "one 2\none 4\ntwo 2 arg=a").expect("a sound list");
        let exceptions = read("# why\nl/one 4\tfour\nl/two\ttwo\n").expect("a sound list");
        let reasons: Vec<_> = tests.iter().map(|t| reason(&exceptions, t)).collect();
        assert_eq!(reasons, [None, Some("four"), Some("two")]);
        assert_eq!(check(&exceptions, &tests), Ok(()));
    }

    #[test]
    fn exceptions_without_a_reason_or_a_test_are_errors() {
        assert!(read("l/one\n").is_err() && read("l/one\t \n").is_err());
        let exceptions = read("l/gone\twhy\n").expect("a sound list");
        let why = check(&exceptions, &[]).expect_err("no test");
        assert!(why.ends_with("l/gone"), "{why}");
    }
}
