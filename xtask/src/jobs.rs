//! The jobs themselves: which commands, in which order.

use std::time::Instant;

use crate::command::{cargo, root, run};
use crate::install::{NEEDS, VM, all_there, install};
use crate::options::Options;
use crate::skip::{NO_SKIP, SKIP_LOG};
use crate::{check, libfabric, vm};

/// Whether a cargo subcommand is there: toolchains may lack rustfmt and clippy.
fn has_component(name: &str) -> bool {
    cargo().args([name, "--version"]).output().is_ok_and(|o| o.status.success())
}

/// Formatting, lints, and what neither of them looks at.
pub(crate) fn lint(options: Options, skipped: &mut Vec<String>) -> Result<(), String> {
    if has_component("fmt") {
        run(cargo().args(["fmt", "--all", "--check"]))?;
    } else {
        skipped.push("formatting (rustup component add rustfmt)".into());
    }
    if has_component("clippy") {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    } else {
        skipped.push("lints (rustup component add clippy)".into());
    }
    if options.no_skip && !skipped.is_empty() {
        return Err(format!("could not check {}", skipped.join("; ")));
    }
    check::check(&check::Asked::default())
}

/// The documentation.
pub(crate) fn doc() -> Result<(), String> {
    run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Everything.
pub(crate) fn test(options: Options) -> Result<(), String> {
    let start = Instant::now();
    let mut skipped = install(options, NEEDS.iter().chain(VM))?;
    let second = libfabric::second(options).map_err(|why| skipped.push(why)).ok();
    let mut machine = None;
    // What is missing has been said.
    if all_there(VM) {
        machine = vm::machine(options).map_err(|why| skipped.push(why)).ok();
    }
    if options.no_skip && !skipped.is_empty() {
        return Err(format!("cannot test {}", skipped.join("; ")));
    }
    lint(options, &mut skipped)?;
    doc()?;
    // Integration tests start these.
    run(cargo().args(["build", "--workspace", "--bins", "--examples", "--quiet"]))?;
    let log = root().join("target").join("skipped-tests.txt");
    std::fs::create_dir_all(root().join("target"))
        .map_err(|e| format!("cannot make the folder target: {e}"))?;
    std::fs::write(&log, "").map_err(|e| format!("cannot write {}: {e}", log.display()))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--quiet"]).env(SKIP_LOG, &log);
    if options.no_skip {
        tests.env(NO_SKIP, "1");
    }
    if let Some(library) = second {
        tests.env(libfabric::VARIABLE, library);
    }
    run(&mut tests)?;
    if let Some(machine) = machine {
        let status = machine.test(&vm::Asked::default())?;
        if status != 0 {
            return Err("tests in the virtual machine have failed".into());
        }
    }
    let told = std::fs::read_to_string(&log).map_err(|e| format!("cannot read {}: {e}", log.display()))?;
    skipped.extend(told.lines().map(str::to_owned));
    skipped.sort();
    skipped.dedup();
    eprintln!("xtask: all tests passed in {:.0} s", start.elapsed().as_secs_f64());
    for what in &skipped {
        eprintln!("xtask: not tested: {what}");
    }
    Ok(())
}
