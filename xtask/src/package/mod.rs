//! `cargo xtask wheel`, `deb` and `dist`: the MPI library as people get one, a wheel for pip, a
//! Debian package, and an archive to unpack anywhere.

mod bill;
mod deb;
mod dist;
mod elf;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{output, root};
use crate::prefix;

pub(crate) use deb::deb;
pub(crate) use dist::dist;
pub(crate) use wheel::wheel;

/// Version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Files with the licences, in the root of the workspace.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Options of all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The folder that the package is written to; `target/dist` without one.
    pub(crate) to: Option<PathBuf>,
    /// The folder with what was built; without one the release profile is built.
    pub(crate) from: Option<PathBuf>,
}

impl Asked {
    /// Returns the folder for packages, which is made if need be.
    fn to(&self) -> Result<PathBuf, String> {
        let to = self.to.clone().unwrap_or_else(|| root().join("target/dist"));
        std::fs::create_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
        std::path::absolute(&to).map_err(|e| format!("{}: {e}", to.display()))
    }
}

/// An installation that is packed, in a folder of its own.
struct Stage {
    /// It goes with the stage.
    folder: PathBuf,
    /// The installation.
    prefix: PathBuf,
}

impl Stage {
    /// Installs into a place in a new folder for a kind of package, without debug information.
    fn new(asked: &Asked, kind: &str, place: &str) -> Result<Stage, String> {
        let folder = asked.to()?.join(format!(".stage-{}-{kind}", std::process::id()));
        let stage = Stage { prefix: folder.join(place), folder };
        let wanted = prefix::Asked { prefix: Some(stage.prefix.clone()), from: asked.from.clone() };
        prefix::install(&wanted)?;
        for file in stage.programs()? {
            output(Command::new("strip").arg("--strip-debug").arg(file))?;
        }
        Ok(stage)
    }

    /// Returns the programs and libraries for the processor, without links to them.
    fn programs(&self) -> Result<Vec<PathBuf>, String> {
        let mut found = Vec::new();
        for folder in ["bin", "lib"] {
            let files = entries(&self.prefix.join(folder))?;
            found.extend(files.into_iter().filter(|file| !file.is_symlink() && elf::is_elf(file)));
        }
        Ok(found)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the entries of a folder, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let read = std::fs::read_dir(folder).map_err(fault)?;
    let mut found =
        read.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(fault)?;
    found.sort();
    Ok(found)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Copies the licences into a folder.
fn copy_licences(to: &Path) -> Result<(), String> {
    make_folder(to)?;
    for name in LICENCES {
        std::fs::copy(root().join(name), to.join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
