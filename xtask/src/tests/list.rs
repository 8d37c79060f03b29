//! The list, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use netmod_models::{MUTANTS, STATES};
use serde_json::json;

/// A test of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) package: String,
    /// `lib`, `doc`, `bin NAME` or `test NAME`.
    pub(crate) target: String,
    pub(crate) name: String,
    pub(crate) ignored: bool,
}

/// The tests, with the mutants and states that they explore.
#[derive(Default, Debug)]
pub(crate) struct List {
    pub(crate) tests: Vec<Test>,
    /// Numbers of caught mutants, by module and name.
    mutants: BTreeSet<(String, String, usize)>,
    /// Numbers of visited states, by module and name.
    states: BTreeSet<(String, String, usize)>,
}

impl List {
    /// Adds a line that `netmod-models` has written. A line that is there already adds nothing.
    ///
    /// # Errors
    /// If the line has another form.
    pub(crate) fn add_record(&mut self, line: &str) -> Result<(), String> {
        let strange = || format!("{line:?} is no record of netmod-models");
        let [kind, module, name, count] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(strange());
        };
        let record = (module.to_owned(), name.to_owned(), count.parse().map_err(|_| strange())?);
        match kind {
            MUTANTS => self.mutants.insert(record),
            STATES => self.states.insert(record),
            _ => return Err(strange()),
        };
        Ok(())
    }

    fn sorted(&self) -> Vec<&Test> {
        let mut tests: Vec<_> = self.tests.iter().collect();
        tests.sort();
        tests
    }

    /// One line each, with tabs between the fields; first the sums.
    pub(crate) fn text(&self) -> String {
        let mut packages = BTreeMap::<&str, usize>::new();
        self.tests.iter().for_each(|t| *packages.entry(&t.package).or_default() += 1);
        let ignored = self.tests.iter().filter(|t| t.ignored).count();
        let sum = |of: &BTreeSet<(String, String, usize)>| of.iter().map(|r| r.2).sum::<usize>();
        let mut out = format!("# {} tests, {ignored} of them ignored\n", self.tests.len());
        let _ = writeln!(out, "# {} mutants in {} records", sum(&self.mutants), self.mutants.len());
        let _ = writeln!(out, "# {} states in {} state spaces", sum(&self.states), self.states.len());
        for (package, tests) in packages {
            let _ = writeln!(out, "# {package}: {tests} tests");
        }
        for test in self.sorted() {
            let ignored = if test.ignored { "\tignored" } else { "" };
            let _ = writeln!(out, "test\t{}\t{}\t{}{ignored}", test.package, test.target, test.name);
        }
        for (kind, records) in [(MUTANTS, &self.mutants), (STATES, &self.states)] {
            for (module, name, count) in records {
                let _ = writeln!(out, "{kind}\t{module}\t{name}\t{count}");
            }
        }
        out
    }

    /// One object a line.
    pub(crate) fn json(&self) -> String {
        let tests = self.sorted().into_iter().map(|t| {
            json!({"kind": "test", "package": t.package, "target": t.target, "name": t.name, "ignored": t.ignored})
        });
        let records =
            [(MUTANTS, &self.mutants), (STATES, &self.states)].into_iter().flat_map(|(kind, of)| {
                of.iter().map(move |(module, name, count)| {
                json!({"kind": kind, "module": module, "name": name, "count": count})
            })
            });
        tests.chain(records).fold(String::new(), |mut out, object| {
            let _ = writeln!(out, "{object}");
            out
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> List {
        let test = |name: &str, ignored| Test {
            package: "p".into(),
            target: "lib".into(),
            name: name.into(),
            ignored,
        };
        let mut list = List { tests: vec![test("b", true), test("a", false)], ..List::default() };
        for line in ["states\tm\ttwo words\t7", "mutants\tm\tX\t1", "states\tm\ttwo words\t7"] {
            list.add_record(line).expect("a sound line");
        }
        list
    }

    #[test]
    fn the_text_is_sorted_and_says_each_thing_once() {
        let want = "# 2 tests, 1 of them ignored\n# 1 mutants in 1 records\n# 7 states in 1 state spaces\n\
            # p: 2 tests\ntest\tp\tlib\ta\ntest\tp\tlib\tb\tignored\nmutants\tm\tX\t1\nstates\tm\ttwo words\t7\n";
        assert_eq!(list().text(), want);
    }

    #[test]
    fn each_line_of_json_is_an_object() {
        let text = list().json();
        let objects: Vec<serde_json::Value> =
            text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(objects.len(), 4);
        assert_eq!(objects[1]["name"], "b");
        assert_eq!(objects[3]["count"], 7);
    }

    #[test]
    fn a_strange_record_is_an_error() {
        for line in ["", "states\tm\tn", "states\tm\tn\tx", "moods\tm\tn\t1", "states\tm\tn\t1\t2"] {
            assert!(list().add_record(line).is_err(), "{line:?}");
        }
    }
}
