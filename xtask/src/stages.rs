//! Stages of a job, with the time that each takes.

use std::time::{Duration, Instant};

use serde_json::json;

/// The stages of a job that have run, in their order.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    name: String,
    took: Duration,
    passed: bool,
}

impl Stages {
    /// Runs a stage and keeps its time.
    ///
    /// # Errors
    /// Those of `run`.
    pub(crate) fn run<T>(
        &mut self,
        name: &str,
        run: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        eprintln!("xtask: stage {name}");
        let start = Instant::now();
        let result = run();
        self.done.push(Stage { name: name.to_owned(), took: start.elapsed(), passed: result.is_ok() });
        result
    }

    /// Returns a table for readers, whose last line is the sum.
    pub(crate) fn table(&self) -> String {
        let width = self.done.iter().map(|s| s.name.len()).max().unwrap_or_default().max("all".len());
        let line = |name: &str, took: Duration, passed: bool| {
            let verdict = if passed { "" } else { "  FAILED" };
            format!("{name:width$} {:7.1} s{verdict}\n", took.as_secs_f64())
        };
        let lines: String = self.done.iter().map(|s| line(&s.name, s.took, s.passed)).collect();
        lines + &line("all", self.done.iter().map(|s| s.took).sum(), self.done.iter().all(|s| s.passed))
    }

    /// Returns one JSON object a line and stage, with its time in seconds.
    pub(crate) fn json(&self) -> String {
        let line = |s: &Stage| {
            let seconds = (s.took.as_secs_f64() * 10.0).round() / 10.0;
            format!("{}\n", json!({"stage": s.name, "seconds": seconds, "passed": s.passed}))
        };
        self.done.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_fails_is_in_the_table_too() {
        let mut stages = Stages::default();
        assert_eq!(stages.run("lints", || Ok(5)), Ok(5));
        assert_eq!(stages.run("a \"test\"", || Err::<(), _>("no".into())), Err("no".into()));
        stages.done[0].took = Duration::from_millis(61_250);
        stages.done[1].took = Duration::from_millis(1);
        let table = "lints       61.2 s\na \"test\"     0.0 s  FAILED\nall         61.3 s  FAILED\n";
        assert_eq!(stages.table(), table);
        let json = stages.json();
        let lines: Vec<serde_json::Value> =
            json.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(lines[1], json!({"stage": "a \"test\"", "seconds": 0.0, "passed": false}));
        assert_eq!(lines.len(), 2);
    }
}
