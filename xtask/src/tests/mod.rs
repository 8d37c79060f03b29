//! `cargo xtask tests --list`: every test, every mutant that is caught and every state space that
//! is explored.
//!
//! Tests are what the built programs list, ignored ones too. Mutants and state spaces are what the
//! exploring tests record with `netmod-models`; so these tests are run. The list is sorted and
//! holds no times and no machine's paths, so that two revisions can be compared with `diff`.

mod doc;
mod explored;
mod list;
pub(crate) mod programs;
pub(crate) mod run;

use list::List;

/// Prints the list.
///
/// # Errors
/// If a test does not build, or one that explores fails.
pub(crate) fn print(json: bool) -> Result<(), String> {
    let packages = programs::packages()?;
    let programs = programs::build(&packages)?.tests;
    let mut list = List::default();
    for program in &programs {
        list.tests.extend(program.tests()?);
    }
    list.tests.extend(doc::tests(&packages)?);
    for line in explored::run(&packages, &programs, &list.tests)?.lines() {
        list.add_record(line)?;
    }
    print!("{}", if json { list.json() } else { list.text() });
    Ok(())
}
