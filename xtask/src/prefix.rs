//! `cargo xtask install`: lays the MPI library out in a folder, as programs look for it.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::command::{cargo, root, run};

/// The script of all compilers.
const COMPILER: &str = include_str!("../install/compiler.sh");
/// File of the library, as cargo names it.
const BUILT: &str = "libnetmod_mpich.so";
/// The library's own name, by which programs of the ABI ask for it.
const SONAME: &str = "libmpi.so.12";
/// Compilers: the languages of their scripts, and their other names.
const COMPILERS: [(&str, &str, &[&str]); 3] =
    [("mpicc", "c", &[]), ("mpicxx", "c++", &["mpic++"]), ("mpifort", "fortran", &["mpif90", "mpif77"])];
/// Its other names: that of Debian's programs, and those for the linker.
const LINKS: [&str; 3] = ["libmpich.so.12", "libmpi.so", "libmpich.so"];

/// Options of `install`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The folder to install to.
    pub(crate) prefix: Option<PathBuf>,
    /// The folder with what was built; without one the release profile is built.
    pub(crate) from: Option<PathBuf>,
}

/// Builds the library and the launcher, unless a folder has them, and installs them.
///
/// # Errors
/// If the build fails or a file cannot be written.
pub(crate) fn install(asked: &Asked) -> Result<(), String> {
    let prefix = asked.prefix.as_ref().ok_or("install wants --prefix and a folder")?;
    let prefix = std::path::absolute(prefix).map_err(|e| format!("{}: {e}", prefix.display()))?;
    let from = match &asked.from {
        Some(from) => from.clone(),
        None => build()?,
    };
    lay(&from, &prefix).map_err(|e| format!("cannot install to {}: {e}", prefix.display()))?;
    eprintln!("xtask: installed to {}", prefix.display());
    Ok(())
}

fn build() -> Result<PathBuf, String> {
    run(cargo().args(["build", "--release", "-p", "netmod-mpich", "-p", "netmod-pmi", "--lib", "--bins"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}

fn lay(from: &Path, prefix: &Path) -> std::io::Result<()> {
    let [bin, lib, include] = ["bin", "lib", "include"].map(|name| prefix.join(name));
    for folder in [&bin, &lib.join("pkgconfig"), &include] {
        std::fs::create_dir_all(folder)?;
    }
    put(&lib.join(SONAME), &std::fs::read(from.join(BUILT))?, 0o755)?;
    for name in LINKS {
        link(SONAME, &lib.join(name))?;
    }
    put(&bin.join("nmrun"), &std::fs::read(from.join("nmrun"))?, 0o755)?;
    for name in ["mpiexec", "mpirun"] {
        link("nmrun", &bin.join(name))?;
    }
    for (name, language, others) in COMPILERS {
        put(&bin.join(name), script(language).as_bytes(), 0o755)?;
        for other in others {
            link(name, &bin.join(other))?;
        }
    }
    for header in std::fs::read_dir(root().join("mpi-abi/mpich/include"))? {
        let header = header?;
        put(&include.join(header.file_name()), &std::fs::read(header.path())?, 0o644)?;
    }
    let package = package(prefix);
    put(&lib.join("pkgconfig/mpich.pc"), package.as_bytes(), 0o644)?;
    link("mpich.pc", &lib.join("pkgconfig/mpi.pc"))
}

/// Returns the script of a compiler.
fn script(language: &str) -> String {
    let words = [("@LANGUAGE@", language), ("@LIBRARY@", "mpi"), ("@INCLUDE@", "include")];
    words.iter().fold(COMPILER.to_owned(), |script, (word, value)| script.replace(word, value))
}

/// Writes a file beside its place and moves it there: a program that runs keeps the old one.
fn put(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let mut other = path.as_os_str().to_owned();
    other.push(format!(".{}", std::process::id()));
    let other = PathBuf::from(other);
    let mut file = std::fs::File::create(&other)?;
    file.write_all(bytes)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&other, path)
}

fn link(to: &str, path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    symlink(to, path)
}

fn package(prefix: &Path) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: mpich\nDescription: MPI library with the ABI of MPICH\nVersion: {}\n\
         Libs: -L${{libdir}} -lmpi\nCflags: -I${{includedir}}\n",
        prefix.display(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests;
