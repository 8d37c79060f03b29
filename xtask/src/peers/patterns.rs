//! Programs in C for all libraries: the patterns of IMB-MPI1, for those that cannot run that, and
//! derived datatypes, and a counter of the time inside MPI.

use std::path::PathBuf;
use std::process::Command;

use super::cells::Figure;
use super::library::{Libraries, Library};
use crate::command::output;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// Builds a program for a library. Intel's package has no compiler: its library runs MPICH's.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn build(libraries: &Libraries, library: Library, name: &str) -> Result<PathBuf, String> {
    build_with(libraries, library, name, &[])
}

/// Builds what is loaded before a program, as [`build`] does.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn build_shared(libraries: &Libraries, library: Library, name: &str) -> Result<PathBuf, String> {
    build_with(libraries, library, name, &["-shared", "-fPIC"])
}

fn build_with(
    libraries: &Libraries,
    library: Library,
    name: &str,
    options: &[&str],
) -> Result<PathBuf, String> {
    let compiler = if library == Library::Intel { Library::Mpich } else { library };
    let program = libraries.programs().join(format!("{name}-{}", compiler.name().replace(' ', "-")));
    let mpicc = libraries.root_of(compiler).join("bin/mpicc");
    let source = format!("{SOURCES}/{name}.c");
    output(Command::new(mpicc).arg("-O2").args(options).arg("-o").arg(&program).arg(source))?;
    Ok(program)
}

/// Reads what a program prints: "PingPong 8 0.123".
///
/// # Errors
/// If a line is something else.
pub(crate) fn parse(output: &str) -> Result<Vec<Figure>, String> {
    let figure = |line: &str| {
        let mut words = line.split_whitespace();
        let operation = words.next()?.to_owned();
        let figure =
            Figure { operation, bytes: words.next()?.parse().ok()?, value: words.next()?.parse().ok()? };
        words.next().is_none().then_some(figure)
    };
    let lines = output.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| figure(line).ok_or_else(|| format!("a program says {line:?}, not a result"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_understood() {
        let wanted = Figure { operation: "Barrier".into(), bytes: 8, value: 25.5 };
        assert_eq!(parse("Barrier 8 25.5\n\n"), Ok(vec![wanted]));
        for line in ["Barrier 8", "Barrier 8 x", "Barrier 8 1 us", "warning: 8 ranks on 2 cores"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
