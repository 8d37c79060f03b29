//! `cargo xtask compare REV`: netmod-perf of another revision and of this tree, in turn.
//!
//! Only ratios count: machines differ, and so do minutes. A cell (netmod, test, size) counts as
//! slower only if it is slower in two separate runs; see [`Cell::slower`].

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, output, root, run};
use crate::figures::{Figures, build_folder, measure, median, unit};

/// Rounds if none are given.
const ROUNDS: usize = 5;
/// Cost by that of before from which on a cell counts as slower.
const LIMIT: f64 = 1.10;
/// Measurements: netmod, test, message sizes.
const TESTS: [(&str, &str, &str); 6] = [
    ("shm", "lat", "8,1K,8K,64K"),
    ("shm", "rate", "8"),
    ("shm", "bw", "64K,1M,4M"),
    ("tcp", "lat", "8,1K,8K,64K"),
    ("tcp", "rate", "8"),
    ("tcp", "bw", "64K,1M,4M"),
];

/// Options of `compare`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// A revision as git names it.
    pub(crate) rev: &'a str,
    pub(crate) rounds: Option<usize>,
    /// One JSON object a line instead of the table.
    pub(crate) json: bool,
}

/// Netmod, test and message size in bytes.
type Key = (&'static str, &'static str, usize);

/// The figures of a cell, a value a round.
#[derive(Clone, Debug, Default)]
struct Cell {
    before: Vec<f64>,
    now: Vec<f64>,
}

impl Cell {
    /// Returns medians of before and now. Bandwidths have two modes: medians of the better halves.
    fn medians(&self, test: &str) -> (f64, f64) {
        let better = |values: &[f64]| {
            let mut values = values.to_vec();
            if test == "bw" {
                values.sort_by(|a, b| b.total_cmp(a));
                values.truncate(values.len().div_ceil(2));
            }
            median(values)
        };
        (better(&self.before), better(&self.now))
    }

    /// Returns the cost now by the cost before: above 1 is slower, whatever the test counts.
    fn ratio(&self, test: &str) -> f64 {
        let (before, now) = self.medians(test);
        if test == "lat" { now / before } else { before / now }
    }

    /// Returns true if the cell is slower than [`LIMIT`] permits; so is one without figures.
    fn slower(&self, test: &str) -> bool {
        // A ratio that is not a number is no success.
        self.ratio(test).partial_cmp(&LIMIT).is_none_or(std::cmp::Ordering::is_gt)
    }
}

/// Cells by their keys.
type Cells = BTreeMap<Key, Cell>;

/// Measures, prints, and fails if a cell is slower in two runs.
///
/// # Errors
/// If the revision cannot be had or built, if a program fails, or if a cell is slower twice.
pub(crate) fn compare(asked: &Asked<'_>) -> Result<(), String> {
    let before = build(asked.rev)?;
    run(cargo().args(["build", "--release", "--quiet", "-p", "netmod-perf"]))?;
    let programs = [before, build_folder()?.join("release").join("netmod-perf")];
    let rounds = asked.rounds.unwrap_or(ROUNDS);
    let first = cells(&programs, &TESTS, rounds)?;
    let again: Vec<_> = TESTS
        .iter()
        .copied()
        .filter(|t| first.iter().any(|(k, c)| (k.0, k.1) == (t.0, t.1) && c.slower(t.1)))
        .collect();
    let second = cells(&programs, &again, rounds)?;
    print!("{}", if asked.json { json(&first, &second) } else { table(&first, &second, rounds) });
    let slower = slower_twice(&first, &second);
    if slower.is_empty() {
        return Ok(());
    }
    Err(format!("slower than {} by more than {LIMIT} in two runs: {}", asked.rev, slower.join(", ")))
}

/// Builds netmod-perf of a revision in a worktree of its own, which stays for the next time.
fn build(rev: &str) -> Result<PathBuf, String> {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(root());
        git
    };
    let commit = format!("{rev}^{{commit}}");
    let hash = output(git().args(["rev-parse", "--verify", "--short=12", &commit]))
        .map_err(|e| format!("git knows no revision {rev:?}: {e}"))?;
    let tree = build_folder()?.join("compare").join(hash.trim());
    if !tree.join("Cargo.toml").is_file() {
        // Makes git forget a worktree whose folder was removed.
        output(git().args(["worktree", "prune"]))?;
        output(git().args(["worktree", "add", "--quiet", "--detach"]).arg(&tree).arg(hash.trim()))?;
    }
    let mut build = cargo();
    build.current_dir(&tree).args(["build", "--release", "--quiet", "-p", "netmod-perf"]);
    run(build.env("CARGO_TARGET_DIR", tree.join("target")))?;
    Ok(tree.join("target").join("release").join("netmod-perf"))
}

/// Runs both programs in turn, so many rounds of each test.
fn cells(
    programs: &[PathBuf; 2],
    tests: &[(&'static str, &'static str, &str)],
    rounds: usize,
) -> Result<Cells, String> {
    let mut all = Cells::new();
    let bar = std::io::stderr().is_terminal();
    for round in 0..rounds {
        for (i, (netmod, test, bytes)) in tests.iter().enumerate() {
            if bar {
                let done = round * tests.len() + i;
                eprint!("\rxtask: {netmod} {test}, {done} of {} tests   ", rounds * tests.len());
                // A bar that cannot be shown is no reason to fail.
                let _ = std::io::stderr().flush();
            }
            let one = |program: &Path| measure(program, netmod, &[(test, bytes)]);
            // The order changes from round to round.
            let (before, now) = if round % 2 == 0 {
                let before = one(&programs[0])?;
                (before, one(&programs[1])?)
            } else {
                let now = one(&programs[1])?;
                (one(&programs[0])?, now)
            };
            add(&mut all, netmod, test, &before, &now);
        }
    }
    if bar && !tests.is_empty() {
        eprintln!("\r{:60}\r", "");
    }
    Ok(all)
}

/// Adds a round of a test; a size that only one of the two has measured is left out.
fn add(all: &mut Cells, netmod: &'static str, test: &'static str, before: &Figures, now: &Figures) {
    for ((name, bytes), value) in before {
        if let Some(new) = now.get(&(name.clone(), *bytes)) {
            let cell = all.entry((netmod, test, *bytes)).or_default();
            cell.before.push(*value);
            cell.now.push(*new);
        }
    }
}

/// Names the cells that are slower in both runs.
fn slower_twice(first: &Cells, second: &Cells) -> Vec<String> {
    let twice = first.iter().filter_map(|(key, cell)| {
        let again = second.get(key)?;
        let slower = cell.slower(key.1) && again.slower(key.1);
        slower.then(|| {
            format!("{} {} {} ({:.2}, {:.2})", key.0, key.1, key.2, cell.ratio(key.1), again.ratio(key.1))
        })
    });
    twice.collect()
}

/// A line for each cell.
fn table(first: &Cells, second: &Cells, rounds: usize) -> String {
    let mut text = format!(
        "{rounds} rounds in turn, medians\n{:<24}{:>12}{:>12}{:>8}{:>8}\n",
        "", "before", "now", "ratio", "again"
    );
    for (key, cell) in first {
        let unit = unit(key.1);
        let show = |v: f64| if unit == "us" { format!("{v:.3}") } else { format!("{v:.0}") };
        let (before, now) = cell.medians(key.1);
        let name = format!("{} {} {}, {unit}", key.0, key.1, key.2);
        let again = second.get(key).map_or(String::new(), |c| format!("{:.2}", c.ratio(key.1)));
        text +=
            &format!("{name:<24}{:>12}{:>12}{:>8.2}{again:>8}\n", show(before), show(now), cell.ratio(key.1));
    }
    text + &format!(
        "ratio: cost now by cost before, less is better; above {LIMIT:.2} a test is run again, and a cell has \
         become slower if it is above that twice\n"
    )
}

/// An object a line for each cell; `again` is null where the test was not repeated.
fn json(first: &Cells, second: &Cells) -> String {
    let mut text = String::new();
    for (key, cell) in first {
        let (before, now) = cell.medians(key.1);
        let again = second.get(key).map_or("null".into(), |c| format!("{:.4}", c.ratio(key.1)));
        text += &format!(
            "{{\"netmod\":\"{}\",\"test\":\"{}\",\"bytes\":{},\"unit\":\"{}\",\"before\":{before},\"now\":{now},\
             \"ratio\":{:.4},\"again\":{again}}}\n",
            key.0,
            key.1,
            key.2,
            unit(key.1),
            cell.ratio(key.1)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(before: &[f64], now: &[f64]) -> Cell {
        Cell { before: before.to_vec(), now: now.to_vec() }
    }

    #[test]
    fn ratios_are_costs() {
        let c = cell(&[2.0, 1.0, 9.0], &[1.0, 1.0, 1.0]);
        assert_eq!(c.ratio("lat"), 0.5);
        assert_eq!(c.ratio("rate"), 2.0);
        // The better half of before: 9 and 2.
        assert_eq!(c.ratio("bw"), 9.0);
    }

    #[test]
    fn a_cell_fails_only_if_it_is_slower_twice() {
        let slow = || Cells::from([(("shm", "lat", 8), cell(&[1.0], &[1.2]))]);
        let fast = || Cells::from([(("shm", "lat", 8), cell(&[1.0], &[1.05]))]);
        assert_eq!(slower_twice(&slow(), &slow()), ["shm lat 8 (1.20, 1.20)"]);
        assert!(slower_twice(&slow(), &fast()).is_empty());
        assert!(slower_twice(&fast(), &Cells::new()).is_empty());
        assert!(cell(&[], &[]).slower("lat"), "no figures are no success");
    }

    #[test]
    fn rounds_are_added_by_size() {
        let mut all = Cells::new();
        let figures = |v: f64| Figures::from([(("lat".to_owned(), 8), v)]);
        add(&mut all, "shm", "lat", &figures(1.0), &figures(2.0));
        add(&mut all, "shm", "lat", &figures(3.0), &Figures::new());
        let c = &all[&("shm", "lat", 8)];
        assert_eq!((&c.before[..], &c.now[..]), (&[1.0][..], &[2.0][..]));
    }

    #[test]
    fn both_forms_of_output_have_every_cell() {
        let cells = Cells::from([
            (("shm", "lat", 8), cell(&[0.1], &[0.2])),
            (("tcp", "bw", 65536), cell(&[100.0], &[50.0])),
        ]);
        let text = table(&cells, &cells, 1);
        let line = text.lines().find(|l| l.starts_with("shm lat 8, us")).expect("a line");
        assert!(line.ends_with("0.100       0.200    2.00    2.00"), "{line}");
        let text = json(&cells, &Cells::new());
        assert_eq!(text.lines().count(), 2);
        let line = "{\"netmod\":\"tcp\",\"test\":\"bw\",\"bytes\":65536,\"unit\":\"MB/s\",\"before\":100,\"now\":50,\
                    \"ratio\":2.0000,\"again\":null}";
        assert!(text.lines().any(|l| l == line), "{text}");
    }

    #[test]
    fn an_unknown_revision_is_named() {
        let why = build("no-such-revision").expect_err("there is none");
        assert!(why.contains("no revision \"no-such-revision\""), "{why}");
    }
}
