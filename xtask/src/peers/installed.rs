//! `cargo xtask peers`: netmod-perf beside the MPIs that are installed, in turn within each round.
//!
//! Each of them runs the same tests, as a small program (`peers/pair.c`) that is built with its
//! compiler. Figures of different days or machines say little: the job prints medians of one run,
//! and medians of the ratios of each round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, output, run};
use crate::figures::{Figures, build_folder, measure, measure_barrier, median, strange, unit};
use crate::install::has;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pair.c");
/// Rounds if none are given.
const ROUNDS: usize = 5;
/// Seconds after which the launchers give up. An MPI that spins may starve the kernel's threads,
/// and so itself.
const LIMIT: &str = "60";
/// Runs of another MPI until one succeeds: on busy cores MPICH over UCX's TCP now and then prints
/// all results and does not end.
const RUNS: u32 = 3;
/// Netmods that are compared: the others' names for them, and the longest message in bytes.
const NETMODS: [(&str, usize); 2] = [("shm", 64 << 20), ("tcp", 4 << 20)];

/// Ranks of the barrier: several for each core, so that it is one of who gives it up.
const CROWD: &str = "8";

/// Name and value.
type Variable = (&'static str, &'static str);

/// Another MPI.
struct Peer {
    name: &'static str,
    compiler: &'static str,
    launcher: &'static str,
    /// Arguments of the launcher: two ranks, each bound to a core.
    args: &'static [&'static str],
    /// Arguments for [`CROWD`] ranks on as many cores as there are.
    crowd: &'static [&'static str],
    /// Arguments, and variables, that leave it only one way.
    only: fn(&str) -> (&'static [&'static str], &'static [Variable]),
}

const PEERS: [Peer; 3] = [
    // In no distribution: an MPICH configured with --with-device=ch3:nemesis:tcp, renamed.
    Peer {
        name: "nemesis",
        compiler: "mpicc.nemesis",
        launcher: "mpiexec.nemesis",
        args: &["-bind-to", "core", "-n", "2"],
        crowd: &["-n", CROWD],
        only: |netmod| match netmod {
            "tcp" => (&[], &[("MPIR_CVAR_NOLOCAL", "1")]),
            _ => (&[], &[]),
        },
    },
    Peer {
        name: "MPICH",
        compiler: "mpicc.mpich",
        launcher: "mpiexec.hydra",
        args: &["-bind-to", "core", "-n", "2"],
        crowd: &["-n", CROWD],
        // Debian's is built for UCX; where it is not, it ignores the variable, and chooses itself.
        only: |netmod| match netmod {
            "tcp" => (&[], &[("UCX_TLS", "tcp,self"), ("MPIR_CVAR_NOLOCAL", "1")]),
            _ => (&[], &[]),
        },
    },
    Peer {
        name: "Open MPI",
        compiler: "mpicc.openmpi",
        launcher: "mpirun.openmpi",
        args: &["--allow-run-as-root", "--bind-to", "core", "-n", "2"],
        crowd: &["--allow-run-as-root", "--oversubscribe", "-n", CROWD],
        only: |netmod| match netmod {
            "tcp" => (&["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"], &[]),
            _ => (&["--mca", "pml", "ob1", "--mca", "btl", "^tcp"], &[]),
        },
    },
];

/// Measures and prints.
pub(crate) fn peers(rounds: Option<usize>) -> Result<(), String> {
    run(cargo().args(["build", "--release", "--quiet", "-p", "netmod-perf"]))?;
    let folder = build_folder()?;
    let perf = folder.join("release").join("netmod-perf");
    let programs = PEERS
        .iter()
        .filter(|p| has(p.compiler) && has(p.launcher))
        .map(|p| Ok((p, p.build(&folder)?)))
        .collect::<Result<Vec<_>, String>>()?;
    if programs.is_empty() {
        let wanted: Vec<&str> = PEERS.iter().map(|p| p.compiler).collect();
        return Err(format!("no other MPI is installed: none of {} is there", wanted.join(", ")));
    }
    let names: Vec<&str> = programs.iter().map(|(p, _)| p.name).collect();
    for (netmod, most) in NETMODS {
        let large = if most > 4 << 20 { "64K,1M,4M,64M" } else { "64K,1M,4M" };
        let tests = [("lat", "8,1K,8K"), ("rate", "8"), ("bw", large)];
        let (mut ours, mut theirs) = (Vec::new(), vec![Vec::new(); programs.len()]);
        for _ in 0..rounds.unwrap_or(ROUNDS) {
            ours.push(measure(&perf, netmod, &tests)?);
            for ((peer, program), all) in programs.iter().zip(&mut theirs) {
                all.push(peer.measure(program, netmod, most)?);
            }
        }
        print!("{}", table(netmod, &names, &ours, &theirs));
    }
    let (mut ours, mut theirs) = (Vec::new(), vec![Vec::new(); programs.len()]);
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        ours.push(measure_barrier(&perf, "shm", CROWD)?);
        for ((peer, program), all) in programs.iter().zip(&mut theirs) {
            all.push(peer.measure_crowd(program)?);
        }
    }
    print!("{}", table("shm, all ranks", &names, &ours, &theirs));
    Ok(())
}

impl Peer {
    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let program = folder.join(format!("pair-{}", self.compiler));
        let built = Command::new(self.compiler).args(["-O2", "-o"]).arg(&program).arg(SOURCE).output();
        let built = built.map_err(|e| format!("cannot start {}: {e}", self.compiler))?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr).trim().to_owned();
            return Err(format!("{} does not build {SOURCE}: {why}", self.compiler));
        }
        Ok(program)
    }

    /// Runs the tests, with messages up to `most` bytes.
    fn measure(&self, program: &Path, netmod: &str, most: usize) -> Result<Figures, String> {
        self.figures(self.args, netmod, program, &most.to_string())
    }

    /// Runs the barrier of more ranks than cores.
    fn measure_crowd(&self, program: &Path) -> Result<Figures, String> {
        self.figures(self.crowd, "shm", program, "barrier")
    }

    fn figures(
        &self,
        ranks: &[&str],
        netmod: &str,
        program: &Path,
        argument: &str,
    ) -> Result<Figures, String> {
        let (args, variables) = (self.only)(netmod);
        let mut command = Command::new(self.launcher);
        command.args(ranks).args(args).envs(variables.iter().copied()).arg(program);
        command.arg(argument).env("MPIEXEC_TIMEOUT", LIMIT);
        let text = first_that_succeeds(|| output(&mut command))?;
        text.lines().map(|l| peer_line(l).ok_or_else(|| strange(self.name, l))).collect()
    }
}

/// Runs up to [`RUNS`] times, until one succeeds, and tells why the others failed.
fn first_that_succeeds<T>(mut run: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for left in (1..RUNS).rev() {
        match run() {
            Ok(done) => return Ok(done),
            Err(why) => eprintln!("{why}; is run again, {left} more times at most"),
        }
    }
    run()
}

/// "lat 8 0.123"
fn peer_line(line: &str) -> Option<((String, usize), f64)> {
    let mut words = line.split_whitespace();
    let key = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    let value = words.next()?.parse().ok()?;
    words.next().is_none().then_some((key, value))
}

/// A line for each test: the medians, and the median of ours by theirs in each round.
fn table(netmod: &str, names: &[&str], ours: &[Figures], theirs: &[Vec<Figures>]) -> String {
    let mut text = format!("\n{netmod}: {} rounds\n{:<20}{:>14}", ours.len(), "", "netmod");
    for name in names {
        text += &format!("{name:>14}{:>8}", "ratio");
    }
    text.push('\n');
    for key in ours.first().into_iter().flat_map(BTreeMap::keys) {
        let unit = unit(&key.0);
        let show = |v: f64| if unit == "us" { format!("{v:.2}") } else { format!("{v:.0}") };
        let of = |all: &[Figures]| all.iter().filter_map(|f| f.get(key).copied()).collect::<Vec<_>>();
        let mine = of(ours);
        text += &format!("{:<20}{:>14}", format!("{} {}, {unit}", key.0, key.1), show(median(mine.clone())));
        for all in theirs {
            let other = of(all);
            let ratios = mine.iter().zip(&other).map(|(o, t)| o / t).collect();
            text += &format!("{:>14}{:>8.2}", show(median(other)), median(ratios));
        }
        text.push('\n');
    }
    text + "ratio: netmod by the other; less is better for lat and barrier, more for bw and rate\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::NEEDS;

    #[test]
    fn results_are_understood() {
        assert_eq!(peer_line("lat 8 0.25"), Some((("lat".into(), 8), 0.25)));
        assert_eq!(peer_line("rate 8 2.5e+07"), Some((("rate".into(), 8), 2.5e7)));
        assert_eq!(peer_line("lat 8 0.25 us"), None);
        assert_eq!(peer_line("warning: slow"), None);
    }

    #[test]
    fn a_run_that_fails_is_repeated_but_not_for_ever() {
        let of = |good: u32| {
            let mut runs = 0;
            let run = || {
                runs += 1;
                if runs == good { Ok(runs) } else { Err(format!("run {runs} failed")) }
            };
            (first_that_succeeds(run), runs)
        };
        assert_eq!(of(1), (Ok(1), 1));
        assert_eq!(of(3), (Ok(3), 3));
        assert_eq!(of(4), (Err("run 3 failed".into()), 3));
    }

    #[test]
    fn the_table_has_medians_of_ratios() {
        let figures = |v: f64| Figures::from([(("lat".to_owned(), 8), v)]);
        let ours = [figures(1.0), figures(2.0), figures(9.0)];
        let theirs = [vec![figures(2.0), figures(2.0), figures(3.0)]];
        let text = table("shm", &["X"], &ours, &theirs);
        let line = text.lines().find(|l| l.starts_with("lat 8, us")).expect("a line");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["lat", "8,", "us", "2.00", "2.00", "1.00"]);
    }

    #[test]
    fn the_other_mpis_run_the_tests() {
        let folder = std::env::temp_dir().join(format!("netmod-peers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // An MPI without a package is a private build: this test tells nothing of it.
        let packaged = |p: &&Peer| NEEDS.iter().any(|n| n.program == p.compiler);
        assert_eq!(PEERS.iter().filter(packaged).count(), 2);
        for peer in PEERS.iter().filter(packaged) {
            if !has(peer.compiler) || !has(peer.launcher) {
                crate::skip::skip_test(&format!(
                    "comparison with {} ({} is missing)",
                    peer.name, peer.compiler
                ));
                continue;
            }
            let program = peer.build(&folder).expect("it builds");
            for (netmod, _) in NETMODS {
                let figures = peer.measure(&program, netmod, 1 << 20).expect("it runs");
                assert_eq!(figures.len(), 6, "{figures:?}");
                assert!(figures.values().all(|v| *v > 0.0), "{figures:?}");
            }
            let barrier = peer.measure_crowd(&program).expect("it runs");
            assert!(barrier.get(&("barrier".into(), 8)).is_some_and(|v| *v > 0.0), "{barrier:?}");
        }
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
