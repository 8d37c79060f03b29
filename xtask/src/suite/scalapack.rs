//! ScaLAPACK's own tests, as Debian's package has them for MPICH: they solve and check.

use std::path::Path;

use super::Asked;
use super::judge::Ended;
use super::programs::{self, Run, programs_in, wrong_status};
use super::report::Outcome;

const SUITE: &str = "scalapack";
const PACKAGE: &str = "scalapack-mpi-test";
/// The package's folder; what the programs read lies beside them.
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu/scalapack/mpich-tests";
/// Ranks that the grids of the tests need.
const RANKS: u32 = 4;
/// Seconds for a program.
const LIMIT: u64 = 300;

/// Runs the programs that are wanted.
///
/// # Errors
/// If the package is not installed; those of [`programs::run`].
pub(crate) fn run(asked: &Asked) -> Result<Vec<Outcome>, String> {
    let mut runs = Vec::new();
    for (list, part) in
        [("ScaLAPACK", ""), ("BLACS", "BLACS"), ("PBLAS", "PBLAS"), ("timers", "PBLAS/TIMING")]
    {
        let folder = Path::new(FOLDER).join(part);
        for program in programs_in(&folder, PACKAGE)? {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // The folder of all has links to those of BLACS.
            if list == "ScaLAPACK" && name.ends_with("btest") {
                continue;
            }
            runs.push(Run {
                list: list.into(),
                name: format!("{list} {name} {RANKS}"),
                program,
                folder: folder.clone(),
                ranks: RANKS,
                arguments: Vec::new(),
                environment: Vec::new(),
                libraries: Vec::new(),
                fault: if list == "BLACS" { fault_of_blacs } else { fault },
            });
        }
    }
    programs::run(SUITE, asked, runs, LIMIT)
}

/// Returns what is wrong with a program: its status, a check that has failed, or no end.
fn fault(_: &Run, ended: &Ended) -> Option<String> {
    if ended.status != Some(0) {
        return Some(wrong_status(ended));
    }
    if let Some(line) = ended.output.lines().find(|line| has_failed(line)) {
        return Some(line.trim().to_owned());
    }
    // A few programs have no last line.
    let output = ended.output.to_lowercase();
    let is_whole = output.contains("end of tests") || output.trim_end().ends_with(" passed");
    (!is_whole).then(|| "it has not come to its end".to_owned())
}

/// Returns true if a line tells of a failed check: its last word, or a number that is not 0.
fn has_failed(line: &str) -> bool {
    let number = |word: Option<&str>| word.and_then(|w| w.parse::<u64>().ok()).is_some_and(|n| n > 0);
    let mut words = line.split_whitespace();
    if line.contains("failed residual checks") {
        return number(words.next());
    }
    // A row of PBLAS's summary: a bar, the routine, all tests, passed, failed, skipped.
    if words.next() == Some("|") {
        return number(words.nth(3));
    }
    line.trim_end_matches(['*', ' ']).ends_with("FAILED")
}

/// Returns what is wrong with the test of BLACS, whose last part is the end of the job by one of
/// the ranks.
fn fault_of_blacs(_: &Run, ended: &Ended) -> Option<String> {
    const END: &str = "killed other procs, exiting with error #-1";
    let aborted = ended.output.contains(END) && ended.status.is_some_and(|status| status != 0);
    if let Some(line) = ended.output.lines().find(|line| has_failed(line)) {
        return Some(line.trim().to_owned());
    }
    (!aborted).then(|| wrong_status(ended))
}

#[cfg(test)]
mod tests {
    use super::super::programs::tests::{ended, of};
    use super::*;

    #[test]
    fn a_failed_check_is_found_in_each_form() {
        for line in [
            "WALL  4  1  0.45 FAILED",
            "    3 tests completed and failed residual checks.",
            "  |  PDSWAP           16        15        1       0",
            "     ***** Computational check: PDSWAP         FAILED  *****",
        ] {
            assert!(has_failed(line), "{line}");
        }
        for line in [
            "WALL  4  1  0.45 PASSED",
            "    0 tests completed and failed residual checks.",
            "  |  PDSWAP           16        16        0       0",
            "     SUBROUTINE  TOTAL TESTS  PASSED   FAILED  SKIPPED",
            "     ***** Computational check: PDSWAP         PASSED  *****",
        ] {
            assert!(!has_failed(line), "{line}");
        }
    }

    #[test]
    fn a_program_comes_to_its_end() {
        let run = of("a", fault);
        assert_eq!(fault(&run, &ended(0, "END OF TESTS.\n")), None);
        assert_eq!(fault(&run, &ended(2, "END OF TESTS.\n")).as_deref(), Some("ended with status 2"));
        assert_eq!(fault(&run, &ended(0, "")).as_deref(), Some("it has not come to its end"));
        let killed = "pnum=2, killed other procs, exiting with error #-1.\n";
        assert_eq!(fault_of_blacs(&run, &ended(255, killed)), None);
        assert_eq!(fault_of_blacs(&run, &ended(255, "")).as_deref(), Some("ended with status 255"));
    }
}
