//! Tests that do not apply, each with its reason.

use crate::command::root;

/// A line of the list: a test's name or its first words, and the reason.
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

    fn is_of(&self, name: &str) -> bool {
        name.strip_prefix(&self.key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// Reads the list of a suite that has tests with these names. A suite may have no list.
///
/// # Errors
/// In words, if the file cannot be read, or is not a sound list for these tests.
pub(super) fn of_suite(suite: &str, names: &[&str]) -> Result<Vec<Exception>, String> {
    let file = root().join(format!("xtask/allowed/suite-{suite}.tsv"));
    let fault = |why: String| format!("{}: {why}", file.display());
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&file).map_err(|e| fault(e.to_string()))?;
    let exceptions = read(&text).map_err(fault)?;
    check(&exceptions, names).map_err(fault)?;
    Ok(exceptions)
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
pub(crate) fn reason<'a>(exceptions: &'a [Exception], name: &str) -> Option<&'a str> {
    exceptions.iter().find(|e| e.is_of(name)).map(|e| e.reason.as_str())
}

/// Checks that each exception is one of a test that there is.
fn check(exceptions: &[Exception], names: &[&str]) -> Result<(), String> {
    let known = |e: &&Exception| names.iter().any(|name| e.is_of(name));
    let strange: Vec<_> = exceptions.iter().filter(|e| !known(e)).map(|e| e.key.as_str()).collect();
    if strange.is_empty() {
        return Ok(());
    }
    Err(format!("exceptions for tests that the suite does not have: {}", strange.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_by_its_first_words() {
        let names = ["l/one 2", "l/one 4", "l/two 2 arg=a", "l/twofold 2"];
        let exceptions = read("# why\nl/one 4\tfour\nl/two\ttwo\n").expect("a sound list");
        assert_eq!(names.map(|n| reason(&exceptions, n)), [None, Some("four"), Some("two"), None]);
        assert_eq!(check(&exceptions, &names), Ok(()));
    }

    #[test]
    fn exceptions_without_a_reason_or_a_test_are_errors() {
        assert!(read("l/one\n").is_err() && read("l/one\t \n").is_err());
        let exceptions = read("l/gone\twhy\n").expect("a sound list");
        let why = check(&exceptions, &[]).expect_err("no test");
        assert!(why.ends_with("l/gone"), "{why}");
    }
    #[test]
    fn the_lists_are_sound() {
        for suite in ["mpich", "mpich-fortran", "scalapack", "coarrays", "rsmpi"] {
            let file = root().join(format!("xtask/allowed/suite-{suite}.tsv"));
            let text = std::fs::read_to_string(file).expect("a list");
            assert!(read(&text).is_ok_and(|list| !list.is_empty()), "{suite}");
        }
        assert!(of_suite("none", &[]).is_ok_and(|list| list.is_empty()));
        let why = of_suite("scalapack", &["ScaLAPACK xdsyevr 4"]).expect_err("a test is missing");
        assert!(why.ends_with("ScaLAPACK xssyevr"), "{why}");
    }
}
