//! Reports of a suite: failures, one line of JSON a test, and a table.

use std::collections::BTreeMap;

use serde_json::json;

use crate::progress::Progress;

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// With the first lines that tell why.
    Failed(String),
    /// With the reason.
    NotApplicable(String),
}

/// A test with what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The part of the suite that it belongs to.
    pub(crate) list: String,
    pub(crate) name: String,
    pub(crate) ranks: u32,
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
}

impl Outcome {
    /// Returns it as one line of JSON.
    pub(crate) fn json(&self) -> String {
        let (result, why) = match &self.verdict {
            Verdict::Passed => ("passed", None),
            Verdict::Failed(why) => ("failed", Some(why)),
            Verdict::NotApplicable(why) => ("not applicable", Some(why)),
        };
        let seconds = (self.seconds * 1e3).round() / 1e3;
        json!({ "list": self.list, "name": self.name, "ranks": self.ranks,
                "result": result, "why": why, "seconds": seconds })
        .to_string()
    }
}

/// Counts a test on the bar. Without a terminal, one that has failed is named at once.
pub(crate) fn count(progress: &mut Progress, outcome: &Outcome) {
    let Verdict::Failed(why) = &outcome.verdict else { return progress.advance() };
    progress.fail();
    if !progress.is_shown() {
        eprintln!("failed: {}: {}", outcome.name, why.replace('\n', "\n    "));
    }
}

/// Returns the table in Markdown: counts of each list, then those that failed or do not apply.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut lists = BTreeMap::<&str, [usize; 3]>::new();
    for outcome in outcomes {
        let counts = lists.entry(&outcome.list).or_default();
        counts[column(&outcome.verdict)] += 1;
    }
    let mut text =
        String::from("| list | tests | passed | failed | not applicable |\n|---|---|---|---|---|\n");
    let mut line = |name: &str, [passed, failed, not]: [usize; 3]| {
        text += &format!("| {name} | {} | {passed} | {failed} | {not} |\n", passed + failed + not);
    };
    let mut all = [0; 3];
    for (list, counts) in &lists {
        line(list, *counts);
        all = [0, 1, 2].map(|i| all[i] + counts[i]);
    }
    line("all", all);
    for (title, wanted) in [("Failed", 1), ("Not applicable", 2)] {
        let mut found = outcomes.iter().filter(|o| column(&o.verdict) == wanted).peekable();
        if found.peek().is_some() {
            text += &format!("\n| {title} | why |\n|---|---|\n");
        }
        for outcome in found {
            let (Verdict::Failed(why) | Verdict::NotApplicable(why)) = &outcome.verdict else { continue };
            let why = why.replace('|', "\\|").replace('\n', "<br>");
            text += &format!("| `{}` | {why} |\n", outcome.name);
        }
    }
    text
}

fn column(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Passed => 0,
        Verdict::Failed(_) => 1,
        Verdict::NotApplicable(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Vec<Outcome> {
        let outcome = |list: &str, name: &str, verdict| Outcome {
            list: list.into(),
            name: name.into(),
            ranks: 2,
            verdict,
            seconds: 0.12345,
        };
        vec![
            outcome("b", "b/p 1", Verdict::Passed),
            outcome("b", "b/q 2 x", Verdict::Failed("one|two\nthree".into())),
            outcome("a", "a/r 3", Verdict::NotApplicable("a reason".into())),
        ]
    }

    #[test]
    fn the_table_counts_lists_and_tells_why() {
        let table = table(&outcomes());
        for line in [
            "| a | 1 | 0 | 0 | 1 |",
            "| b | 2 | 1 | 1 | 0 |",
            "| all | 3 | 1 | 1 | 1 |",
            "| `b/q 2 x` | one\\|two<br>three |",
            "| `a/r 3` | a reason |",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}: {table}");
        }
    }

    #[test]
    fn each_test_is_one_line_of_json() {
        let lines: Vec<_> = outcomes().iter().map(Outcome::json).collect();
        let read = |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let values: Vec<_> = lines.iter().map(read).collect();
        assert_eq!((&values[0]["result"], &values[0]["why"]), (&json!("passed"), &json!(null)));
        assert_eq!((&values[1]["name"], &values[1]["seconds"]), (&json!("b/q 2 x"), &json!(0.123)));
        assert_eq!((&values[2]["result"], &values[2]["why"]), (&json!("not applicable"), &json!("a reason")));
        assert!(lines.iter().all(|l| !l.contains('\n')));
    }
}
