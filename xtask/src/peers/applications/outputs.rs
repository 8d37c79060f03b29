//! Readers of the programs' outputs and of the counter's files.

use std::path::Path;

/// Result of one run of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Figures by their names.
    pub(super) figures: Vec<(String, f64)>,
    /// The computed numbers, which do not depend on the library.
    pub(super) answer: String,
}

impl Outcome {
    fn of(figures: impl IntoIterator<Item = (&'static str, f64)>, answer: String) -> Outcome {
        let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Outcome { figures, answer }
    }
}

/// Reads LAMMPS: the seconds of its loop, and the rows of numbers of its steps.
pub(super) fn lammps(text: &str) -> Result<Outcome, String> {
    let seconds = text.lines().find_map(|line| {
        let (seconds, _) = line.strip_prefix("Loop time of ")?.split_once(" on ")?;
        seconds.parse().ok()
    });
    let rows = text.lines().skip_while(|line| line.split_whitespace().next() != Some("Step"));
    let rows: Vec<_> = rows.take_while(|line| !line.starts_with("Loop time")).map(words).collect();
    match seconds {
        Some(seconds) if rows.len() > 2 => Ok(Outcome::of([("loop", seconds)], rows.join("\n"))),
        _ => Err("LAMMPS has not printed its steps and the time of its loop".to_owned()),
    }
}

/// Reads a timer of PBLAS: the milliseconds of all routines of all tests, which are `wanted` lines.
///
/// A line has the routine, wall seconds, and a rate.
pub(super) fn pblas(text: &str, wanted: usize) -> Result<Outcome, String> {
    let seconds = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word == "|");
        let routine = words.next()?;
        let seconds: f64 = words.next()?.parse().ok()?;
        let _rate: f64 = words.next()?.parse().ok()?;
        routine.starts_with("PD").then_some(seconds)
    };
    let all: Vec<f64> = text.lines().filter_map(seconds).collect();
    if all.len() != wanted {
        return Err(format!("{} of {wanted} results of PBLAS", all.len()));
    }
    Ok(Outcome::of([("timers", all.iter().sum::<f64>() * 1e3)], String::new()))
}

/// Reads NWChem: the energy.
pub(super) fn nwchem(text: &str) -> Result<Outcome, String> {
    let energy =
        text.lines().find_map(|line| line.split_once("Total SCF energy =")).map(|(_, energy)| energy.trim());
    let energy = energy.ok_or("NWChem has not printed an energy")?;
    Ok(Outcome::of([], energy.to_owned()))
}

/// Reads mpi4py's ring: microseconds of one time around.
pub(super) fn ring(text: &str) -> Result<Outcome, String> {
    let us = text.lines().find_map(|line| {
        let (loops, rest) = line.strip_prefix("time for ")?.split_once(" loops = ")?;
        let seconds: f64 = rest.split_once(" seconds")?.0.parse().ok()?;
        Some(seconds * 1e6 / loops.parse::<f64>().ok()?)
    });
    us.map(|us| Outcome::of([("round", us)], String::new()))
        .ok_or_else(|| "mpi4py has printed no time".to_owned())
}

/// Reads mpi4py's ping-pong: microseconds of half a round trip, for each size.
pub(super) fn ping_pong(text: &str, sizes: &[usize]) -> Result<Outcome, String> {
    let figure = |line: &str| {
        let (left, right) = line.split_once('|')?;
        let bytes: usize = left.split_whitespace().next()?.parse().ok()?;
        Some((bytes, right.split_whitespace().next()?.parse::<f64>().ok()? * 1e6))
    };
    let all: Vec<(usize, f64)> = text.lines().filter_map(figure).collect();
    let of = |bytes: &usize| all.iter().find(|figure| figure.0 == *bytes);
    let figures: Vec<_> = sizes.iter().filter_map(of).collect();
    if figures.len() != sizes.len() {
        return Err(format!("{} of {} sizes of mpi4py's ping-pong", figures.len(), sizes.len()));
    }
    let figures = figures.iter().map(|(bytes, us)| (super::super::table::size(*bytes), *us)).collect();
    Ok(Outcome { figures, answer: String::new() })
}

/// Reads the files that the counter writes beside `path`: the mean of the ranks' seconds in MPI,
/// and what the library says of itself.
pub(super) fn counted(path: &Path, ranks: u32) -> Result<(f64, String), String> {
    let mut sum = 0.0;
    let mut versions = Vec::new();
    for rank in 0..ranks {
        let file = format!("{}.{rank}", path.display());
        let text = std::fs::read_to_string(&file).map_err(|e| format!("the counter of rank {rank}: {e}"))?;
        // A later run must not find it.
        std::fs::remove_file(&file).map_err(|e| format!("{file}: {e}"))?;
        let (seconds, version) = count(&text).ok_or_else(|| format!("the counter says {text:?}"))?;
        sum += seconds;
        versions.push(version);
    }
    versions.dedup();
    match versions.as_slice() {
        [version] => Ok((sum / f64::from(ranks), version.clone())),
        _ => Err(format!("the ranks have several libraries: {}", versions.join(", "))),
    }
}

fn count(text: &str) -> Option<(f64, String)> {
    let mut lines = text.lines();
    let seconds = lines.next()?.strip_prefix("inside ")?.split_whitespace().next()?.parse().ok()?;
    Some((seconds, lines.next()?.strip_prefix("library ")?.trim().to_owned()))
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lammps_has_steps_and_a_loop() {
        let text = "Setting up\n   Step  Temp \n  0   3.5\n 100   1.25 \nLoop time of 2.5 on 2 procs for 100 steps\nTotal\n";
        let outcome = lammps(text).expect("a result");
        assert_eq!(outcome, Outcome::of([("loop", 2.5)], "Step Temp\n0 3.5\n100 1.25".into()));
        assert!(lammps("Step Temp\n0 3\n100 1\n").is_err());
        assert!(lammps("Loop time of 2.5 on 2 procs").is_err());
    }

    #[test]
    fn lines_of_the_timers_are_summed() {
        let text = "      WALL time (s)  WALL Mflops\n    | PDGEMM   0.010  20.0  0.5  3.0 |\n PDSYMM 0.005 7.5\nEnd";
        assert_eq!(pblas(text, 2).map(|outcome| outcome.figures), Ok(vec![("timers".into(), 15.0)]));
        assert_eq!(pblas(text, 3), Err("2 of 3 results of PBLAS".into()));
    }

    #[test]
    fn energies_are_kept_with_all_digits() {
        let outcome = nwchem("  Total SCF energy =    -76.010504991033\n").expect("an energy");
        assert_eq!(outcome.answer, "-76.010504991033");
        assert!(nwchem("scf did not converge").is_err());
    }

    #[test]
    fn times_of_python_are_microseconds() {
        let text = "time for 200 loops = 0.004 seconds (2 processes, 1024 bytes)\n";
        assert_eq!(ring(text).map(|outcome| outcome.figures), Ok(vec![("round".into(), 20.0)]));
        assert!(ring("time for nothing").is_err());
        let text = "# Size | Time\n     8    1.5 | 5.0e-07 \u{b1} 1e-7  10000\n    16    1.5 | 6e-07 \u{b1} 1e-7 10000\n";
        let figures = ping_pong(text, &[8]).expect("a result").figures;
        assert_eq!((figures[0].0.as_str(), figures.len()), ("8", 1));
        assert!((figures[0].1 - 0.5).abs() < 1e-9);
        assert!(ping_pong(text, &[8, 1024]).is_err());
    }

    #[test]
    fn counters_of_all_ranks_are_read_once_and_are_of_one_library() {
        let folder = std::env::temp_dir().join(format!("netmod-counted-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a");
        let write =
            |rank: u32, text: &str| std::fs::write(folder.join(format!("a.{rank}")), text).expect("a file");
        write(0, "inside 1.5 10\nlibrary X 1\n");
        write(1, "inside 2.5 10\nlibrary X 1\n");
        assert_eq!(counted(&path, 2), Ok((2.0, "X 1".into())));
        assert!(counted(&path, 2).expect_err("they are gone").contains("rank 0"));
        write(0, "inside 1.5 10\nlibrary X 1\n");
        write(1, "inside 2.5 10\nlibrary Y\n");
        assert!(counted(&path, 2).expect_err("two libraries").contains("X 1, Y"));
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }
}
