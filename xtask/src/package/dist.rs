//! The archive: an installation that works wherever it is unpacked, with checksums, licences, a
//! bill of materials and a file for environment modules.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Asked, Stage, VERSION, bill, copy_licences, make_folder, write};
use crate::command::{output, root};

/// The file for environment modules.
const MODULE: &str = include_str!("../../package/modulefile.tcl");

/// Makes the archive and its checksum, and prints its path.
///
/// # Errors
/// If the build fails, or a file cannot be written.
pub(crate) fn dist(asked: &Asked) -> Result<(), String> {
    let made = make(asked)?;
    println!("{}", made.display());
    Ok(())
}

/// Makes the archive and its checksum, and returns the path of the archive.
pub(super) fn make(asked: &Asked) -> Result<PathBuf, String> {
    let name = format!("netmod-mpi-{VERSION}-{}-linux", std::env::consts::ARCH);
    let stage = Stage::new(asked, "dist", &name)?;
    let share = stage.prefix.join("share");
    copy_licences(&share.join("doc/netmod-mpi"))?;
    make_folder(&share.join("modulefiles/netmod-mpi"))?;
    write(&share.join("modulefiles/netmod-mpi").join(VERSION), MODULE)?;
    write(&share.join("doc/netmod-mpi/sbom.cdx.json"), &bill::of_materials(&root())?)?;
    write(&share.join("doc/netmod-mpi/SHA256SUMS"), &sums(&stage.prefix)?)?;
    let to = asked.to()?;
    let archive = to.join(format!("{name}.tar.gz"));
    let mut pack = Command::new("tar");
    // The same files make the same archive.
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    pack.arg(format!("--mtime=@{}", time()?))
        .arg("-C")
        .arg(&stage.folder)
        .arg("-czf")
        .arg(&archive)
        .arg(&name);
    output(&mut pack)?;
    let mut sum = Command::new("sha256sum");
    let text = output(sum.current_dir(&to).arg(format!("{name}.tar.gz")))?;
    write(&to.join(format!("{name}.tar.gz.sha256")), &text)?;
    Ok(archive)
}

/// Returns the checksums of all files below a folder, as `sha256sum --check` reads them there.
fn sums(folder: &Path) -> Result<String, String> {
    let list = output(Command::new("find").current_dir(folder).args([".", "-type", "f"]))?;
    let mut files: Vec<&str> = list.lines().collect();
    files.sort_unstable();
    output(Command::new("sha256sum").current_dir(folder).args(files))
}

/// Returns the date of the archive's files, in seconds since 1970: that of `SOURCE_DATE_EPOCH`, or
/// of the last commit.
pub(super) fn time() -> Result<u64, String> {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = match set {
        Some(text) => text,
        None => output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))?,
    };
    text.trim().parse().map_err(|_| format!("SOURCE_DATE_EPOCH is {text}: seconds since 1970 are wanted"))
}
