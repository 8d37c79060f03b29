//! The tests of the suites that `cargo xtask test` runs: fixed lists, chosen by time.

use std::collections::BTreeSet;

use super::report::Outcome;
use crate::command::root;

/// Seconds that the tests of all subsets together may take on two cores.
const BUDGET: f64 = 120.0;

/// A list of names of tests; without one all tests are in.
#[derive(Debug, Default)]
pub(super) struct Subset(Option<BTreeSet<String>>);

impl Subset {
    /// Reads the list of a suite, if it is asked for.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn read(suite: &str, asked: bool) -> Result<Subset, String> {
        if !asked {
            return Ok(Subset::default());
        }
        let file = root().join("xtask/subset").join(format!("{suite}.txt"));
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(Subset::of(&text))
    }

    /// Reads lines of names, and comments.
    fn of(text: &str) -> Subset {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        Subset(Some(lines.map(str::to_owned).collect()))
    }

    /// Returns true if a test is in.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Checks that the suite has all tests of the list.
    ///
    /// # Errors
    /// In words, with those that it does not have.
    pub(super) fn check<'a>(&self, all: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut strange = self.0.clone().unwrap_or_default();
        all.for_each(|name| {
            strange.remove(name);
        });
        if strange.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = strange.into_iter().collect();
        Err(format!("xtask/subset names tests that the suite does not have: {}", names.join("; ")))
    }
}

/// Returns a line on the time of the tests, with the slowest ones if it is more than it may be.
///
/// That is no failure: a machine may be busy with something else.
pub(super) fn told(outcomes: &[Outcome]) -> String {
    let all: f64 = outcomes.iter().map(|o| o.seconds).sum();
    let line = format!("{} tests of suites have passed in {all:.1} s", outcomes.len());
    if all <= BUDGET {
        return line;
    }
    let mut slowest: Vec<&Outcome> = outcomes.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let names: Vec<_> = slowest.iter().take(5).map(|o| format!("{} ({:.1} s)", o.name, o.seconds)).collect();
    format!(
        "{line}, more than {BUDGET} s: if that is so on an idle machine, take slow ones out of xtask/subset, such as {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    #[test]
    fn a_list_names_the_tests_that_run() {
        let subset = Subset::of("# why\na/one 2\n\nb/two 4 -x\n");
        let names = ["a/one 2", "a/one 4", "b/two 4 -x"];
        assert_eq!(names.map(|name| subset.has(name)), [true, false, true]);
        assert_eq!(subset.check(names.into_iter()), Ok(()));
        let why = subset.check(names[..2].iter().copied()).expect_err("a test is missing");
        assert!(why.ends_with(": b/two 4 -x"), "{why}");
        assert!(Subset::default().has("any") && Subset::default().check(std::iter::empty()).is_ok());
    }

    #[test]
    fn a_subset_that_takes_too_long_names_the_slowest() {
        let outcome = |name: &str, seconds| Outcome {
            list: "l".into(),
            name: name.into(),
            ranks: 2,
            verdict: Verdict::Passed,
            seconds,
        };
        let outcomes = [outcome("quick", 1.0), outcome("slow", BUDGET)];
        assert_eq!(told(&outcomes[..1]), "1 tests of suites have passed in 1.0 s");
        let said = told(&outcomes);
        assert!(said.contains("such as slow (120.0 s), quick"), "{said}");
    }

    #[test]
    fn the_lists_are_there_and_not_empty() {
        for suite in ["mpich", "mpi4py"] {
            let subset = Subset::read(suite, true).expect("a list");
            assert!(subset.0.is_some_and(|names| names.len() > 20), "{suite}");
        }
    }
}
