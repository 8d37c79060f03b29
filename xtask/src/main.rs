//! The project's jobs, as `cargo xtask JOB`.

mod compare;
mod figures;
mod install;
mod jobs;
mod libfabric;
mod peers;
mod vm;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask JOB [--no-skip] [--no-install] [--rounds N]
       cargo xtask compare REV [--rounds N] [--json]
       cargo xtask vm-test [--no-install] [--keep] [--file PATH]... [--run COMMAND...]

jobs
  test       installs what the tests need (apt, if root; a second libfabric, pip), then lint, doc and all tests,
             those of vm-test too
  lint       cargo fmt --check and clippy without warnings
  doc        the documentation, without warnings
  libfabric  fetches the second libfabric of the tests, and prints the variable that names it
  vm-test    tests that need an RDMA device, in a virtual machine (qemu, and a kernel that apt fetches)
  peers      netmod-perf beside the MPIs that are installed, in one run (some minutes)
  compare    netmod-perf of a revision of git's and of this tree, in turn (some minutes); fails if this tree is slower

options
  --no-skip      what cannot run is a failure (as in CI)
  --no-install   installs nothing; what is missing is skipped and named
  --rounds N     rounds of peers and compare [default: 5]
  --json         compare prints one JSON object a line
  --file PATH    brings a program along into the virtual machine
  --keep         leaves a shell of the virtual machine on this terminal when all is done
  --run COMMAND  runs this there instead of the tests, with all words that follow; its status is that of the job
";

/// What the command line asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) no_skip: bool,
    pub(crate) no_install: bool,
    pub(crate) rounds: Option<usize>,
}

fn main() -> ExitCode {
    let mut job: Option<String> = None;
    let (mut rev, mut json) = (None, false);
    let mut options = Options::default();
    let mut asked = vm::Asked::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => match args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0) {
                Some(n) => options.rounds = Some(n),
                None => {
                    eprintln!("xtask: --rounds wants a number");
                    return ExitCode::from(2);
                }
            },
            "--file" => match args.next() {
                Some(path) => asked.files.push(path.into()),
                None => {
                    eprintln!("xtask: --file wants a path");
                    return ExitCode::from(2);
                }
            },
            "--keep" => asked.keep = true,
            "--run" => {
                asked.run = args.by_ref().collect();
                if asked.run.is_empty() {
                    eprintln!("xtask: --run wants a command");
                    return ExitCode::from(2);
                }
            }
            "--json" => json = true,
            "--no-skip" => options.no_skip = true,
            "--no-install" => options.no_install = true,
            "-h" | "--help" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            name if job.is_none() && !name.starts_with('-') => job = Some(name.to_owned()),
            name if job.as_deref() == Some("compare") && rev.is_none() && !name.starts_with('-') => {
                rev = Some(name.to_owned());
            }
            other => {
                eprint!("xtask: {other} is not known here\n\n{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    let done = match job.as_deref() {
        Some("test") => jobs::test(options),
        Some("lint") => jobs::lint(options, &mut Vec::new()),
        Some("doc") => jobs::doc(),
        Some("libfabric") => {
            libfabric::second(options).map(|path| println!("{}={}", libfabric::VARIABLE, path.display()))
        }
        Some("vm-test") => match vm::job(options, &asked) {
            Ok(status) => return ExitCode::from(status),
            Err(why) => Err(why),
        },
        Some("compare") => match &rev {
            Some(rev) => compare::compare(&compare::Asked { rev, rounds: options.rounds, json }),
            None => Err("compare wants a revision, such as HEAD~1".into()),
        },
        Some("peers") => peers::peers(options.rounds),
        Some(other) => {
            eprint!("xtask: there is no job {other}\n\n{HELP}");
            return ExitCode::from(2);
        }
        None => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
