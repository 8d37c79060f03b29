//! The command line.

use crate::options::Options;
use crate::{check, package, peers, prefix, suite, vm};

pub(crate) const HELP: &str = "\
usage: cargo xtask JOB [--no-skip] [--no-install] [--rounds N]
       cargo xtask test [--no-skip] [--no-install] [--json]
       cargo xtask compare REV [--rounds N] [--json]
       cargo xtask peers --programs [--netmod shm|tcp] [--filter TEXT] [--rounds N] [--runs N] [--json] [--write DIR] [--under COMMAND] [--from DIR]
       cargo xtask tests --list [--json]
       cargo xtask check [--shrink] [--accept REASON] [--sample N [--seed N]]
       cargo xtask quick [PACKAGE]
       cargo xtask install --prefix DIR [--from DIR]
       cargo xtask wheel|deb|dist [--to DIR] [--from DIR]
       cargo xtask suite NAME [--list] [--filter TEXT] [--subset] [--forced] [--env NAME=VALUE]... [--limit S] [--json] [--from DIR]
       cargo xtask vm-test [--no-install] [--keep] [--file PATH]... [--run COMMAND...]

jobs
  test       installs what the tests need (apt, if root; a second libfabric, pip), then lint, doc and all tests,
             those of vm-test, some on an emulated aarch64, and fuzz targets for 2 s each; says how long each stage takes
  tests      lists every test, mutant and explored state space; builds all tests and runs those that explore
  lint       cargo fmt --check, clippy without warnings, and check
  check      comments, lengths, fields, equal lines and imports, beside the lists in xtask/allowed
  quick      format, lints, documentation, unit and conformance tests of one package, or of that of this folder
  doc        the documentation, without warnings
  book       the pages in docs as a book, in target/book (mdbook, which cargo installs)
  crates     packages each crate that can be published, and builds it from that; licences and sources of dependencies
             (cargo-deny, which is fetched)
  abi        writes the headers of C and the exported functions that follow from the tables in mpi-abi
  libfabric  fetches the second libfabric of the tests, and prints the variable that names it
  vm-test    tests that need an RDMA device, in a virtual machine (qemu, and a kernel that apt fetches)
  install    builds the MPI library and its launcher, and lays them out in a folder: libmpi.so.12, mpi.h, mpicc, mpiexec
  wheel      the MPI library as a wheel, which pip installs into an environment of Python
  deb        the MPI library as a Debian package, with alternatives for mpi.h, libmpi.so, mpicc and mpiexec
  dist       the MPI library as an archive that works wherever it is unpacked, with checksums and bill of materials
  suite      a test suite of others on the MPI library, fetched and built first: mpich, mpi4py, mpi4py-standard;
             imb, scalapack, coarrays, rsmpi: programs of packages, each for itself;
             kills: 50 jobs of IMB-MPI1 and of mpi4py's tests, of each of which a rank is killed
  peers      netmod-perf beside the MPIs that are installed, in one run (some minutes);
             --programs: Intel's benchmarks and two C programs on this library, Intel MPI, MPICH and Open MPI, fetched from PyPI
  compare    netmod-perf of a revision of git's and of this tree, in turn (some minutes); fails if this tree is slower

options
  --no-skip      what cannot run is a failure (as in CI)
  --no-install   installs nothing; what is missing is skipped and named
  --rounds N     rounds of peers and compare [default: 5]
  --json         tests and compare print one JSON object a line; test does so for its stages
  --shrink       takes out of the lists what is found no more
  --accept WHY   adds to the lists what is found, for this reason
  --sample N     prints N doc comments by chance instead; --seed N prints others
  --prefix DIR   the folder to install to
  --from DIR     installs what is built in this folder, instead of building it
  --to DIR       the folder for the package [default: target/dist]
  --list         names the tests of a suite and runs none
  --filter TEXT  only tests of a suite whose names have this text, or begin with it: ^TEXT; only such operations of peers, or: layouts, collectives, collectives:8 all, windows, messages, applications
  --subset       only the tests of a suite that xtask/subset names, as test runs them
  --forced       a suite once for each algorithm of collective operations, by NETMOD_COLL_*
  --env NAME=VALUE  a variable for the tests of a suite
  --launcher PATH  the launcher of the tests of mpich and mpi4py, such as mpiexec.hydra [default: our mpiexec]
  --limit S      the most seconds for one test of a suite
  --runs N       runs of all rounds of peers --programs; with two a cell fails only by both [default: 1]
  --netmod NAME  one transport of peers --programs: shm or tcp
  --write DIR    writes the table of peers --programs there as a dated page, with a picture
  --under COMMAND  runs the launchers of peers --programs under a command, such as chrt -r 1
  --file PATH    brings a program along into the virtual machine
  --keep         leaves a shell of the virtual machine on this terminal when all is done
  --run COMMAND  runs this there instead of the tests, with all words that follow; its status is that of the job
";

/// Options of the command line.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) job: String,
    /// The revision of `compare`, or the package of `quick`.
    pub(crate) name: Option<String>,
    pub(crate) help: bool,
    pub(crate) json: bool,
    pub(crate) list: bool,
    pub(crate) options: Options,
    pub(crate) package: package::Asked,
    pub(crate) check: check::Asked,
    pub(crate) peers: peers::Asked,
    pub(crate) prefix: prefix::Asked,
    pub(crate) suite: suite::Asked,
    pub(crate) vm: vm::Asked,
}

impl Args {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// In words, if one is not known; empty if there is no job.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
        let mut args = Args::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--rounds" => args.options.rounds = Some(number(&word, words.next())?),
                "--sample" => args.check.sample = Some(number(&word, words.next())?),
                "--seed" => args.check.seed = number(&word, words.next())? as u64,
                "--accept" => args.check.accept = Some(words.next().ok_or("--accept wants a reason")?),
                "--shrink" => args.check.shrink = true,
                "--file" => args.vm.files.push(words.next().ok_or("--file wants a path")?.into()),
                "--prefix" => {
                    args.prefix.prefix = Some(words.next().ok_or("--prefix wants a folder")?.into())
                }
                "--from" => args.prefix.from = Some(words.next().ok_or("--from wants a folder")?.into()),
                "--to" => args.package.to = Some(words.next().ok_or("--to wants a folder")?.into()),
                "--filter" => args.suite.filter = Some(words.next().ok_or("--filter wants a text")?),
                "--programs" => args.peers.programs = true,
                "--runs" => args.peers.runs = Some(number(&word, words.next())?),
                "--netmod" => args.peers.netmod = Some(netmod(words.next())?),
                "--write" => args.peers.write = Some(words.next().ok_or("--write wants a folder")?.into()),
                "--under" => args.peers.under = Some(words.next().ok_or("--under wants a command")?),
                "--env" => args.suite.environment.push(variable(words.next())?),
                "--launcher" => {
                    args.suite.launcher = Some(words.next().ok_or("--launcher wants a program")?.into())
                }
                "--subset" => args.suite.subset = true,
                "--forced" => args.suite.forced = true,
                "--limit" => args.suite.limit = Some(number(&word, words.next())? as u64),
                "--keep" => args.vm.keep = true,
                "--run" => {
                    args.vm.run = words.by_ref().collect();
                    if args.vm.run.is_empty() {
                        return Err("--run wants a command".into());
                    }
                }
                "--json" => args.json = true,
                "--list" => args.list = true,
                "--no-skip" => args.options.no_skip = true,
                "--no-install" => args.options.no_install = true,
                "-h" | "--help" => args.help = true,
                name if args.job.is_empty() && !name.starts_with('-') => args.job = word,
                name if args.takes_name() && !name.starts_with('-') => args.name = Some(word),
                other => return Err(format!("{other} is not known here")),
            }
        }
        args.suite.list = args.list;
        args.suite.json = args.json;
        args.suite.from = args.prefix.from.clone();
        args.package.from = args.prefix.from.clone();
        args.peers.json = args.json;
        args.peers.filter = args.suite.filter.clone();
        args.peers.from = args.prefix.from.clone();
        if args.job.is_empty() && !args.help { Err(String::new()) } else { Ok(args) }
    }

    fn takes_name(&self) -> bool {
        self.name.is_none() && ["compare", "quick", "suite"].contains(&self.job.as_str())
    }
}

fn number(option: &str, word: Option<String>) -> Result<usize, String> {
    let number = word.and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    number.ok_or_else(|| format!("{option} wants a number from 1 on"))
}

fn netmod(word: Option<String>) -> Result<peers::Netmod, String> {
    word.as_deref().and_then(peers::Netmod::parse).ok_or_else(|| "--netmod wants shm or tcp".into())
}

fn variable(word: Option<String>) -> Result<(String, String), String> {
    let pair = word.as_deref().and_then(|w| w.split_once('=')).filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.into(), value.into())).ok_or_else(|| "--env wants NAME=VALUE".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn jobs_names_and_options_are_read() {
        let args = parse("compare HEAD~1 --rounds 3 --json").expect("a sound line");
        assert_eq!((args.job.as_str(), args.name.as_deref()), ("compare", Some("HEAD~1")));
        assert_eq!((args.options.rounds, args.json), (Some(3), true));
        let args = parse("vm-test --file a --run b --keep").expect("a sound line");
        assert_eq!(
            (args.vm.run.as_slice(), args.vm.keep),
            (&["b".to_owned(), "--keep".to_owned()][..], false)
        );
        let args = parse("install --prefix a --from b").expect("a sound line");
        assert_eq!((args.prefix.prefix, args.prefix.from), (Some("a".into()), Some("b".into())));
        let args = parse("wheel --to a --from b").expect("a sound line");
        assert_eq!((args.package.to, args.package.from), (Some("a".into()), Some("b".into())));
        let args = parse("suite mpich --filter coll --limit 9 --list --from b").expect("a sound line");
        assert_eq!((args.name.as_deref(), args.suite.filter.as_deref()), (Some("mpich"), Some("coll")));
        assert_eq!((args.suite.limit, args.suite.list, args.suite.from), (Some(9), true, Some("b".into())));
        let args = parse("suite mpi4py --subset --env A=b --env C=d=e --launcher l").expect("a sound line");
        let variables = [("A".to_owned(), "b".to_owned()), ("C".to_owned(), "d=e".to_owned())];
        assert_eq!((args.suite.subset, args.suite.environment.as_slice()), (true, &variables[..]));
        assert_eq!(args.suite.launcher, Some("l".into()));
        let args = parse("peers --programs --netmod tcp --runs 2 --filter ping --write a --under b")
            .expect("a sound line");
        assert_eq!((args.peers.programs, args.peers.netmod), (true, Some(peers::Netmod::Tcp)));
        assert_eq!((args.peers.filter.as_deref(), args.peers.under.as_deref()), (Some("ping"), Some("b")));
        assert_eq!(args.peers.runs, Some(2));
        assert_eq!(args.peers.write, Some("a".into()));
        let args = parse("check --sample 2 --seed 5").expect("a sound line");
        assert_eq!((args.check.sample, args.check.seed), (Some(2), 5));
    }

    #[test]
    fn strange_lines_are_errors() {
        for line in [
            "",
            "--json",
            "test more",
            "quick a b",
            "peers --rounds 0",
            "check --sample",
            "test --what",
            "suite a b",
            "suite a --env B",
            "suite a --env =b",
            "peers --programs --netmod ofi",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--help").is_ok_and(|a| a.help));
    }
}
