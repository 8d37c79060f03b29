//! OpenCoarrays' tests, as Debian's package has them for MPICH: Fortran's coarrays are windows.

use std::path::Path;

use super::Asked;
use super::judge::Ended;
use super::programs::{self, Run, programs_in, wrong_status};
use super::report::Outcome;

const SUITE: &str = "coarrays";
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu/open-coarrays/mpich/bin/OpenCoarrays-2.10.1-tests";
const PACKAGE: &str = "libcoarrays-mpich-dev";
/// Images of a program.
const IMAGES: u32 = 4;
/// Programs that ask for another number.
const OTHERS: [(&str, u32); 6] = [
    ("issue-493-coindex-slice", 8),
    ("issue-515-mimic-mpi-gatherv", 2),
    ("issue-552-send_by_ref-singleton", 2),
    ("send_array", 2),
    ("sync_team", 8),
    ("team_number", 8),
];
/// Seconds for a program.
const LIMIT: u64 = 120;

/// Runs the programs that are wanted.
///
/// # Errors
/// If the package is not installed; those of [`programs::run`].
pub(crate) fn run(asked: &Asked) -> Result<Vec<Outcome>, String> {
    let folder = Path::new(FOLDER);
    let runs = programs_in(folder, PACKAGE)?.into_iter().map(|program| {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ranks = OTHERS.iter().find(|(other, _)| *other == name).map_or(IMAGES, |(_, ranks)| *ranks);
        Run {
            list: "coarrays".into(),
            name: format!("coarrays {name} {ranks}"),
            program,
            folder: folder.to_owned(),
            ranks,
            arguments: Vec::new(),
            environment: Vec::new(),
            libraries: Vec::new(),
            fault,
        }
    });
    programs::run(SUITE, asked, runs.collect(), LIMIT)
}

/// Returns what is wrong with a program: its status, or that it says so.
fn fault(_: &Run, ended: &Ended) -> Option<String> {
    if ended.status != Some(0) {
        return Some(wrong_status(ended));
    }
    let failed = ended.output.lines().find(|line| line.to_lowercase().contains("test failed"));
    failed.map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::programs::tests::{ended, of};
    use super::*;

    #[test]
    fn a_program_says_whether_it_has_passed() {
        let run = of("a", fault);
        assert_eq!(fault(&run, &ended(0, " Test passed.\n")), None);
        assert_eq!(fault(&run, &ended(0, " Test Failed. \n")).as_deref(), Some("Test Failed."));
        assert_eq!(fault(&run, &ended(1, "")).as_deref(), Some("ended with status 1"));
    }
}
