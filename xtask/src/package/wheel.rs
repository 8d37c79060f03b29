//! The wheel: what `pip install` brings into an environment of Python.
//!
//! pip extracts no links, so each has another form: the names for the linker are scripts of it, the
//! other names of a library are libraries that need it, and those of a launcher call it. The tag
//! says the oldest C library that all files can be loaded with (PEP 600).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Asked, Stage, VERSION, bill, copy_licences, elf, entries, make_folder, write};
use crate::command::{output, root};
use crate::prefix::put;

/// Name of the package, and as files have it.
const NAME: &str = "netmod-mpi";
const FILE_NAME: &str = "netmod_mpi";
/// The program that packs.
const PACK: &str = include_str!("../../package/wheel.py");
/// Text of `METADATA`, before the licence.
const SUMMARY: &str = "MPI for C, Fortran and Python programs: libmpi.so.12, libmpi_abi.so.1, mpiexec, mpicc";

/// Makes the wheel and prints its path.
///
/// # Errors
/// If the build fails, or a file cannot be written.
pub(crate) fn wheel(asked: &Asked) -> Result<(), String> {
    let made = make(asked)?;
    println!("{}", made.display());
    Ok(())
}

/// Makes the wheel and returns its path.
pub(super) fn make(asked: &Asked) -> Result<PathBuf, String> {
    let stage = Stage::new(asked, "wheel", "wheel")?;
    let (major, minor) = elf::oldest_glibc(&stage.programs()?)?;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", std::env::consts::ARCH);
    for folder in ["bin", "lib", "lib/pkgconfig", "share/man/man1", "share/bash-completion/completions"] {
        for path in entries(&stage.prefix.join(folder))? {
            if path.is_symlink() {
                replace_link(&path)?;
            }
        }
    }
    let info = stage.folder.join("info");
    describe(&info, &tag)?;
    let to = asked.to()?.join(format!("{FILE_NAME}-{VERSION}-{tag}.whl"));
    let mut pack = Command::new("python3");
    output(pack.args(["-c", PACK]).arg(&stage.prefix).arg(&to).args([FILE_NAME, VERSION]).arg(info))?;
    Ok(to)
}

/// Writes the wheel's own description.
fn describe(info: &Path, tag: &str) -> Result<(), String> {
    make_folder(&info.join("sboms"))?;
    copy_licences(&info.join("licenses"))?;
    let licence = "License: MIT OR Apache-2.0";
    let description =
        "An MPI library in Rust. Programs for MPICH's ABI or that of the standard run on it as they are.";
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: {SUMMARY}\n{licence}\n\n{description}\n"
    );
    write(&info.join("METADATA"), &metadata)?;
    let kind = format!(
        "Wheel-Version: 1.0\nGenerator: netmod-xtask ({VERSION})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    write(&info.join("WHEEL"), &kind)?;
    write(&info.join("sboms/netmod-mpi.cdx.json"), &bill::of_materials(&root())?)
}

/// Replaces a link by a file that serves the same purpose.
fn replace_link(path: &Path) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", path.display());
    let target = std::fs::read_link(path).map_err(fault)?;
    let real = path.canonicalize().map_err(fault)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.ends_with(".so") {
        let script = format!("INPUT({})\n", target.display());
        return put(path, script.as_bytes(), 0o644).map_err(fault);
    }
    if name.contains(".so.") {
        std::fs::remove_file(path).map_err(fault)?;
        let mut link = Command::new("cc");
        link.args(["-shared", "-nostdlib", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]);
        link.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(path).arg(real);
        return output(&mut link).map(|_| ());
    }
    if elf::is_elf(&real) {
        let script = format!(
            "#!/bin/sh\nexec \"$(dirname -- \"$(readlink -f -- \"$0\")\")/{}\" \"$@\"\n",
            target.display()
        );
        return put(path, script.as_bytes(), 0o755).map_err(fault);
    }
    let bytes = std::fs::read(&real).map_err(fault)?;
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&real).map_err(fault)?.permissions());
    put(path, &bytes, mode).map_err(fault)
}
