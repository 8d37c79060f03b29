//! `cargo xtask peers --programs`: MPI programs on this library and on other MPIs of today.

use std::path::{Path, PathBuf};

use super::applications::{self, Applications};
use super::cells::{Program, Rounds, add_earlier, cells};
use super::collectives::{self, Collectives};
use super::comparison::Comparison;
use super::layouts::{self, Layouts};
use super::library::{Libraries, Library, Netmod};
use super::messages::{self, Messages};
use super::rounds::{Programs, names, turns};
use super::summary::{Measured, Used, cores, sums};
use super::windows::{self, Windows};
use super::{page, table, transport};
use crate::options::Options;
use crate::progress::Progress;

/// Words that choose comparisons of their own, in the order of these.
const NAMES: [&str; 5] =
    [layouts::NAME, collectives::NAME, windows::NAME, messages::NAME, applications::NAME];
/// Rounds if none are given.
const ROUNDS: usize = 5;

/// Options of the job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// True for programs; otherwise the job compares netmod-perf.
    pub(crate) programs: bool,
    /// The transport; without one both.
    pub(crate) netmod: Option<Netmod>,
    /// Runs of all rounds: a cell fails only if it does so in two, if there are two.
    pub(crate) runs: Option<usize>,
    /// Text in the names of the operations.
    pub(crate) filter: Option<String>,
    /// The folder for the page and its pictures.
    pub(crate) write: Option<PathBuf>,
    /// Command under which launchers run.
    pub(crate) under: Option<String>,
    /// Folder with what was built.
    pub(crate) from: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Measures, prints, and writes.
///
/// # Errors
/// If a library cannot be installed, uses another transport, or fails.
pub(crate) fn programs(asked: &Asked, options: Options) -> Result<(), String> {
    let filter = asked.filter.as_deref().unwrap_or_default();
    let netmods = asked.netmod.map_or_else(|| vec![Netmod::Shm, Netmod::Tcp], |netmod| vec![netmod]);
    let comparisons = if netmods.contains(&Netmod::Shm) { comparisons(filter) } else { Vec::new() };
    let netmods: Vec<_> = netmods.into_iter().filter(|netmod| !turns(*netmod, filter).is_empty()).collect();
    if netmods.is_empty() && comparisons.is_empty() {
        let names = [names(), NAMES.to_vec()].concat().join(", ");
        return Err(format!("no operation has {filter:?} in its name; there are {names}"));
    }
    let mut libraries = Libraries::prepare(options, asked.from.clone())?;
    let under = asked.under.as_deref().unwrap_or_default();
    libraries.under = under.split_whitespace().map(str::to_owned).collect();
    let programs = Programs::prepare(libraries, options)?;
    let (rounds, runs) = (options.rounds.unwrap_or(ROUNDS), asked.runs.unwrap_or(1));
    let turns = netmods.iter().map(|n| turns(*n, filter).len()).sum::<usize>();
    let turns = turns + comparisons.iter().map(|comparison| comparison.parts()).sum::<usize>();
    let mut progress = Progress::new(turns * rounds * runs);
    let run = page::Run::now(runs, rounds, asked.from.as_deref())?;
    let mut all: Vec<Measured> = Vec::new();
    for _ in 0..runs {
        let mut now = Vec::new();
        for netmod in &netmods {
            now.push(measure(&programs, *netmod, filter, rounds, &mut progress)?);
        }
        for (now, before) in now.iter_mut().zip(&all) {
            add_earlier(&mut now.cells, &before.cells);
        }
        all = now;
    }
    for mut comparison in comparisons {
        for _ in 0..runs {
            comparison.measure(&programs, rounds, &mut progress)?;
        }
        let used = used(&programs, Netmod::Shm, &progress)?;
        print_comparison(&used, &*comparison, &run, asked.json);
        told(asked, |folder| page::write_comparison(folder, &run, &used, &*comparison))?;
    }
    if all.is_empty() {
        return Ok(());
    }
    all.iter().for_each(|measured| print(measured, &run, asked.json));
    told(asked, |folder| page::write(folder, &run, &all))
}

/// Returns the comparisons that a filter chooses: all without one.
fn comparisons(filter: &str) -> Vec<Box<dyn Comparison>> {
    let mut all: Vec<Box<dyn Comparison>> = vec![
        Box::new(Layouts::of(filter)),
        Box::new(Collectives::of(filter)),
        Box::new(Windows::of(filter)),
        Box::new(Messages::of(filter)),
        Box::new(Applications::of(filter)),
    ];
    all.retain(|comparison| comparison.parts() > 0);
    all
}

/// Writes a page if that is asked for, and says where it is.
fn told(asked: &Asked, write: impl FnOnce(&Path) -> Result<String, String>) -> Result<(), String> {
    if let Some(folder) = &asked.write {
        eprintln!("xtask: written to {}", folder.join(write(folder)?).display());
    }
    Ok(())
}

fn measure(
    programs: &Programs,
    netmod: Netmod,
    filter: &str,
    rounds: usize,
    progress: &mut Progress,
) -> Result<Measured, String> {
    let used = used(programs, netmod, progress)?;
    let (mut figures, mut distances) = (Rounds::new(), Vec::new());
    for _ in 0..rounds {
        for turn in turns(netmod, filter) {
            distances.push(turn.run(programs, &mut figures, &|what| progress.start(what))?);
            progress.advance();
        }
    }
    Ok(Measured { netmod, used, distances, cells: cells(netmod, &figures) })
}

fn used(programs: &Programs, netmod: Netmod, progress: &Progress) -> Result<Vec<Used>, String> {
    let ask = |library: Library| {
        progress.start(&format!("{}, {}: its transport", netmod.name(), library.name()));
        ask(programs, library, netmod).map(|(version, transport)| (library, version, transport))
    };
    Library::ALL.into_iter().map(ask).collect()
}

/// Asks a library for its version and for its transport.
fn ask(programs: &Programs, library: Library, netmod: Netmod) -> Result<(String, String), String> {
    let program = programs.of(Program::Patterns, library);
    let mut command = programs.libraries.ask(library, netmod, program);
    let done = command.arg("library").output();
    let done = done.map_err(|e| format!("cannot start {command:?}: {e}"))?;
    let text = [done.stdout, done.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if !done.status.success() {
        return Err(format!("{command:?}: {}: {}", done.status, text.trim()));
    }
    let version = text.lines().find_map(|line| line.strip_prefix("library "));
    let version = version.filter(|version| version.contains(library.version()));
    let Some(version) = version else {
        let name = library.name();
        return Err(format!(
            "the program for {name} runs another library than {}: {text}",
            library.version()
        ));
    };
    Ok((version.trim().to_owned(), transport::used(library, netmod, &text)?))
}

fn print_comparison(used: &[Used], comparison: &dyn Comparison, run: &page::Run, json: bool) {
    if json {
        comparison.json().iter().for_each(|row| println!("{row}"));
        return;
    }
    println!("\n{}: {}", comparison.name(), run.count());
    print_used(used);
    let (distances, what) = comparison.distances();
    println!("{}", cores(distances, what));
    print!("\n{}\n{}\n", comparison.markdown(), comparison.note());
    comparison.sums().iter().for_each(|sum| println!("{sum}"));
}

fn print_used(used: &[Used]) {
    for (library, version, transport) in used {
        println!("{}: {version}, over {transport}", library.name());
    }
}

fn print(measured: &Measured, run: &page::Run, json: bool) {
    if json {
        measured.cells.iter().for_each(|cell| println!("{}", table::json(cell)));
        return;
    }
    println!("\n{}: {}", measured.netmod.name(), run.count());
    print_used(&measured.used);
    println!("{}", measured.cores());
    print!("\n{}\n{}\n", table::text(&measured.cells), table::NOTE);
    for (title, sum) in sums(&measured.cells) {
        println!("{title}: {}", sum.words());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_chooses_its_comparison() {
        assert_eq!(comparisons("").iter().map(|c| c.name()).collect::<Vec<_>>(), NAMES);
        for name in NAMES {
            let names: Vec<_> = comparisons(name).iter().map(|c| c.name()).collect();
            assert_eq!(names, [name]);
            assert!(comparisons(&format!("{name}:no such")).is_empty(), "{name}");
        }
        assert!(comparisons("PingPong").is_empty());
    }
}
