//! The verdict on a test that has ended.

use super::lines::Expects;
use super::report::Verdict;

/// Lines and columns of output that a report shows.
const LINES: usize = 4;
const COLUMNS: usize = 160;

/// A job that has ended: its status, and what it has printed.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Status of the launcher; none if a signal has ended it.
    pub(crate) status: Option<i32>,
    /// True if the launcher ended the job for its time.
    pub(crate) late: bool,
    /// True if the launcher itself had to be ended.
    pub(crate) stuck: bool,
    pub(crate) output: String,
}

/// Judges a test that `allowed` seconds were given. With `limit_counts` the end by the launcher is
/// a failure that the test may expect.
pub(crate) fn judge(expects: Expects, limit_counts: bool, allowed: u64, ended: &Ended) -> Verdict {
    let strange = strange_lines(&ended.output);
    let told = ended.output.lines().any(says_no_errors);
    let failed = |why: String| {
        let mut lines = vec![why];
        lines.extend(strange.iter().take(LINES).map(|l| l.chars().take(COLUMNS).collect()));
        Verdict::Failed(lines.join("\n"))
    };
    if ended.stuck {
        return failed(format!("the launcher did not end after {allowed} s"));
    }
    if ended.late && !limit_counts {
        return failed(format!("no end within {allowed} s"));
    }
    let status = ended.status.map_or("a signal".into(), |s| format!("status {s}"));
    let (zero, silent) = match expects {
        Expects::NoErrors => (true, false),
        Expects::Failure => (false, true),
        Expects::FailureNoErrors => (false, false),
    };
    if (ended.status == Some(0)) != zero {
        let wanted = if zero { "0" } else { "a failure" };
        return failed(format!("ended with {status}, expected {wanted}"));
    }
    if !silent && !told {
        return failed("does not say \"No Errors\"".into());
    }
    if !silent && !strange.is_empty() {
        return failed("prints more than \"No Errors\"".into());
    }
    Verdict::Passed
}

/// Returns the lines that a test that has passed does not print. Each of its jobs may say that
/// there were no errors.
fn strange_lines(output: &str) -> Vec<&str> {
    let expected = |line: &&str| says_no_errors(line) || line.trim() == "Test Passed";
    output.lines().filter(|line| !expected(line)).collect()
}

fn says_no_errors(line: &str) -> bool {
    matches!(line.trim(), "No Errors" | "No errors")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: i32, output: &str) -> Ended {
        Ended { status: Some(status), late: false, stuck: false, output: output.into() }
    }

    fn why(expects: Expects, ended: &Ended) -> String {
        match judge(expects, false, 60, ended) {
            Verdict::Failed(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_test_passes_that_says_so_and_nothing_else() {
        for output in [" No Errors\n", "No errors\n", "Test Passed\n No Errors\n", " No Errors\n No Errors\n"]
        {
            assert_eq!(judge(Expects::NoErrors, false, 60, &ended(0, output)), Verdict::Passed, "{output}");
        }
        let noisy = ended(0, "strange\n No Errors\n");
        assert_eq!(why(Expects::NoErrors, &noisy), "prints more than \"No Errors\"\nstrange");
        assert_eq!(why(Expects::NoErrors, &ended(0, "")), "does not say \"No Errors\"");
        let status = ended(3, " No Errors\n");
        assert_eq!(why(Expects::NoErrors, &status), "ended with status 3, expected 0");
        let killed = Ended { status: None, ..ended(0, "one\ntwo\n") };
        assert_eq!(why(Expects::NoErrors, &killed), "ended with a signal, expected 0\none\ntwo");
    }

    #[test]
    fn a_test_that_must_fail_passes_by_any_failure() {
        assert_eq!(judge(Expects::Failure, false, 60, &ended(1, "what it likes")), Verdict::Passed);
        assert_eq!(why(Expects::Failure, &ended(0, "")), "ended with status 0, expected a failure");
        assert_eq!(judge(Expects::FailureNoErrors, false, 60, &ended(1, "No Errors")), Verdict::Passed);
        assert!(why(Expects::FailureNoErrors, &ended(1, "")).starts_with("does not say"));
    }

    #[test]
    fn the_end_by_the_launcher_is_a_failure_unless_the_list_sets_the_limit() {
        let late = Ended { late: true, ..ended(124, "") };
        assert_eq!(why(Expects::Failure, &late), "no end within 60 s");
        assert_eq!(judge(Expects::Failure, true, 10, &late), Verdict::Passed);
        assert!(matches!(judge(Expects::NoErrors, true, 10, &late), Verdict::Failed(_)));
        let stuck = Ended { stuck: true, ..late };
        assert_eq!(judge(Expects::Failure, true, 10, &stuck), judge(Expects::NoErrors, false, 10, &stuck));
    }

    #[test]
    fn a_report_shows_the_first_lines_and_cuts_long_ones() {
        let output = format!("{}\n2\n3\n4\n5\n", "x".repeat(500));
        let why = why(Expects::NoErrors, &ended(1, &output));
        assert_eq!(why.lines().count(), 1 + LINES);
        assert!(why.lines().all(|l| l.len() <= COLUMNS), "{why}");
    }
}
