//! The workspace for aarch64: it is checked, and some unit tests run under qemu's user emulation.
//!
//! That shows other sizes and other instructions, not the weaker order of memory: qemu translates
//! to the host's loads and stores.

use std::path::Path;
use std::process::Command;

use crate::command::{cargo, output, run};
use crate::install::AARCH64;
use crate::options::Options;

/// The target's name for rustc.
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Packages whose unit tests run: those with code for a processor, and with protocols in memory.
/// Beside each, parts of the names of tests that cannot run.
const PACKAGES: &[(&str, &[&str])] = &[
    ("netmod-core", &[]),
    // qemu's user emulation has no process_vm_readv.
    ("netmod-shm", &["attach::", "rma::"]),
    ("netmod-lmt", &[]),
    ("netmod-matching", &[]),
];
/// Parts of the names of tests that are left out: explorers and models visit the same states on any
/// processor, and take minutes under emulation.
const LEFT_OUT: &[&str] = &["explore", "model"];

/// A toolchain for the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aarch64(());

/// Returns the toolchain, for which rustup fetches the standard library if it is missing.
///
/// # Errors
/// If there is none, as what is not tested.
pub(crate) fn toolchain(options: Options) -> Result<Aarch64, String> {
    let without = |why: String| format!("{AARCH64} ({why})");
    if has_std()? {
        return Ok(Aarch64(()));
    }
    let add = format!("rustup target add {TARGET}");
    if options.no_install {
        return Err(without(format!("Rust's standard library for it is missing: {add}")));
    }
    run(Command::new("rustup").args(["target", "add", TARGET])).map_err(without)?;
    if has_std()? { Ok(Aarch64(())) } else { Err(without(format!("`{add}` has not added it"))) }
}

/// Returns true if the toolchain has the target's standard library.
fn has_std() -> Result<bool, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let folder = output(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))?;
    let files = std::fs::read_dir(Path::new(folder.trim()));
    Ok(files
        .is_ok_and(|files| files.flatten().any(|f| f.file_name().to_string_lossy().starts_with("libstd-"))))
}

impl Aarch64 {
    /// Checks the workspace and runs the unit tests.
    ///
    /// # Errors
    /// If something does not build, or a test fails.
    pub(crate) fn test(self) -> Result<(), String> {
        run(cargo_for_target("check").arg("--workspace"))?;
        for (package, cannot_run) in PACKAGES {
            let skipped = LEFT_OUT.iter().chain(*cannot_run).flat_map(|name| ["--skip", name]);
            run(cargo_for_target("test")
                .args(["--lib", "--package", package, "--"])
                .args(skipped)
                .env("PROPTEST_CASES", "16"))?;
        }
        Ok(())
    }
}

/// Returns cargo with the linker for the target, and qemu to run its programs.
fn cargo_for_target(job: &str) -> Command {
    let mut command = cargo();
    command
        .args([job, "--target", TARGET, "--quiet"])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
        .env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu");
    command
}
