//! Source packages of Debian, fetched by apt without root's rights or a change of the system.
//!
//! apt checks the signature of the index and the hash of the package.

use std::path::Path;
use std::process::Command;

use crate::command::run;
use crate::install::has;

/// Debian's release with the package.
const RELEASE: &str = "bookworm";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches a source package, and unpacks parts of its archive into a folder, unless that is there.
///
/// # Errors
/// If a program or the keys are missing, or one of the steps fails.
pub(crate) fn fetch(package: &str, parts: &[&str], folder: &Path) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    for program in ["apt-get", "tar", "xz"] {
        if !has(program) {
            return Err(format!("{package} is fetched with {program}, which is not installed"));
        }
    }
    if !Path::new(KEYS).is_file() {
        return Err(format!("{package} is checked with {KEYS}: apt-get install debian-archive-keyring"));
    }
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let work = folder.with_extension("fetch");
    for part in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(work.join(part)).map_err(fault)?;
    }
    let list = work.join("sources.list");
    let line = format!("deb-src [signed-by={KEYS}] http://deb.debian.org/debian {RELEASE} main\n");
    std::fs::write(&list, line).map_err(fault)?;
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        apt.args([
            "-q",
            "-o",
            &option("Dir::Etc::SourceList", &list),
            "-o",
            "Dir::Etc::SourceParts=/dev/null",
        ]);
        apt.args(["-o", &option("Dir::State::Lists", &work.join("lists"))]);
        apt.args(["-o", &option("Dir::Cache", &work.join("cache")), "-o", "APT::Sandbox::User="]);
        run(apt.args(words).current_dir(&work))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", package])?;
    let files = std::fs::read_dir(&work).map_err(fault)?.flatten().map(|f| f.path());
    let archive = files.into_iter().find(|p| p.to_string_lossy().contains(".orig.tar"));
    let archive = archive.ok_or_else(|| format!("apt-get has fetched no archive of {package}"))?;
    // Beside its place first: what is there is whole.
    let new = folder.with_extension("new");
    std::fs::create_dir_all(&new).map_err(fault)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&new).args(["--strip-components=1", "--wildcards"]);
    run(tar.args(parts))?;
    std::fs::rename(&new, folder).map_err(fault)?;
    std::fs::remove_dir_all(&work).map_err(fault)
}
