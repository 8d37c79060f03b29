//! Stages of a job, with the time that each takes.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;

/// The stages of a job that have run, in their order.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<Stage>,
    /// Time that all took; stages beside each other count once.
    elapsed: Duration,
}

/// The work of a stage that runs beside others.
pub(crate) type Job<'a> = Box<dyn FnOnce() -> Result<(), String> + Send + 'a>;

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
        let took = start.elapsed();
        self.elapsed += took;
        self.done.push(Stage { name: name.to_owned(), took, passed: result.is_ok() });
        result
    }

    /// Runs rows of stages beside each other, those of a row in turn, and keeps their times. A row
    /// ends with a stage that fails; the others go on.
    ///
    /// # Errors
    /// The first stage that has failed, and the number of the others.
    pub(crate) fn run_rows(&mut self, rows: Vec<Vec<(&'static str, Job<'_>)>>) -> Result<(), String> {
        let begin = Instant::now();
        let (report, reports) = mpsc::channel();
        let row = |stages: Vec<(&'static str, Job<'_>)>, report: mpsc::Sender<_>| {
            for (name, job) in stages {
                eprintln!("xtask: stage {name}");
                let start = Instant::now();
                let result = job();
                let passed = result.is_ok();
                let stage = Stage { name: name.to_owned(), took: start.elapsed(), passed };
                // The receiver outlives the scope.
                let _ = report.send((stage, result));
                if !passed {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for stages in rows {
                let report = report.clone();
                scope.spawn(move || row(stages, report));
            }
        });
        drop(report);
        self.elapsed += begin.elapsed();
        let mut failed = Vec::new();
        for (stage, result) in reports {
            self.done.push(stage);
            failed.extend(result.err());
        }
        match &failed[..] {
            [] => Ok(()),
            [one] => Err(one.clone()),
            [first, others @ ..] => {
                Err(format!("{first}; stages beside it that have failed: {}", others.len()))
            }
        }
    }

    /// Returns a table for readers, whose last line is the time of all.
    pub(crate) fn table(&self) -> String {
        let width = self.done.iter().map(|s| s.name.len()).max().unwrap_or_default().max("all".len());
        let line = |name: &str, took: Duration, passed: bool| {
            let verdict = if passed { "" } else { "  FAILED" };
            format!("{name:width$} {:7.1} s{verdict}\n", took.as_secs_f64())
        };
        let lines: String = self.done.iter().map(|s| line(&s.name, s.took, s.passed)).collect();
        lines + &line("all", self.elapsed, self.done.iter().all(|s| s.passed))
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
        stages.elapsed = Duration::from_millis(61_251);
        let table = "lints       61.2 s\na \"test\"     0.0 s  FAILED\nall         61.3 s  FAILED\n";
        assert_eq!(stages.table(), table);
        let json = stages.json();
        let lines: Vec<serde_json::Value> =
            json.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(lines[1], json!({"stage": "a \"test\"", "seconds": 0.0, "passed": false}));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn rows_of_stages_run_beside_each_other() {
        let meet = std::sync::Barrier::new(2);
        let waits = || -> Job<'_> {
            Box::new(|| {
                meet.wait();
                Ok(())
            })
        };
        let fails = |why: &'static str| -> Job<'_> { Box::new(move || Err(why.to_owned())) };
        let mut stages = Stages::default();
        // In turn, the first one of a row would wait for ever.
        assert_eq!(stages.run_rows(vec![vec![("a", waits())], vec![("b", waits())]]), Ok(()));
        let passed = |stages: &Stages| -> Vec<bool> { stages.done.iter().map(|s| s.passed).collect() };
        assert_eq!(passed(&stages), [true, true]);
        let rows = vec![vec![("c", fails("no")), ("d", fails("never"))], vec![("e", fails("neither"))]];
        let why = stages.run_rows(rows).expect_err("two fail");
        assert!(why.ends_with("have failed: 1") && !why.contains("never"), "{why}");
        assert_eq!(passed(&stages), [true, true, false, false]);
        assert!(stages.elapsed > Duration::ZERO);
    }
}
