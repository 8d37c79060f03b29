//! The project's jobs, as `cargo xtask JOB`.

mod aarch64;
mod abi;
mod args;
mod check;
mod command;
mod compare;
mod crates;
mod disk;
mod everything;
mod figures;
mod install;
mod jobs;
mod lammps;
mod libfabric;
mod mpi4py;
mod options;
mod package;
mod peers;
mod prefix;
mod progress;
mod quick;
mod skip;
mod stages;
mod suite;
mod tests;
mod tool;
mod vm;
mod wheel;

use std::process::ExitCode;

use args::{Args, HELP};

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprint!("{}{HELP}", if why.is_empty() { why } else { format!("xtask: {why}\n\n") });
            return ExitCode::from(2);
        }
    };
    if args.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if args.job == "vm-test" {
        return match vm::job(args.options, &args.vm) {
            Ok(status) => ExitCode::from(status),
            Err(why) => failed(&why),
        };
    }
    run(&args).map_or_else(|why| failed(&why), |()| ExitCode::SUCCESS)
}

fn failed(why: &str) -> ExitCode {
    eprintln!("xtask: {why}");
    ExitCode::FAILURE
}

fn run(args: &Args) -> Result<(), String> {
    let (options, rounds) = (args.options, args.options.rounds);
    match args.job.as_str() {
        "test" => everything::test(options, args.json),
        "tests" if args.list => tests::print(args.json),
        "tests" => Err("tests wants --list; to run them is the job test".into()),
        "lint" => jobs::lint(options, &mut Vec::new()),
        "check" => check::check(&args.check),
        "quick" => quick::quick(args.name.as_deref()),
        "doc" => jobs::doc(),
        "abi" => abi::abi(),
        "install" => prefix::install(&args.prefix),
        "crates" => crates::crates(options),
        "book" => jobs::book(&jobs::BOOK.get(options)?),
        "wheel" => package::wheel(&args.package),
        "deb" => package::deb(&args.package),
        "dist" => package::dist(&args.package),
        "suite" => suite::suite(args.name.as_deref(), &args.suite),
        "libfabric" => {
            libfabric::second(options).map(|path| println!("{}={}", libfabric::VARIABLE, path.display()))
        }
        "compare" => match &args.name {
            Some(rev) => compare::compare(&compare::Asked { rev, rounds, json: args.json }),
            None => Err("compare wants a revision, such as HEAD~1".into()),
        },
        "peers" if args.peers.programs => peers::programs(&args.peers, options),
        "peers" => peers::installed(rounds),
        other => Err(format!("there is no job {other}; --help names them")),
    }
}
