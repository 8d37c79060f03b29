//! `cargo xtask install`: lays the MPI library out in a folder, as programs look for it.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, root, run};

/// The script of all compilers.
const COMPILER: &str = include_str!("../install/compiler.sh");
/// The library with one of the ABIs.
struct Library {
    /// Its file, as cargo names it.
    built: &'static str,
    /// Its own name, by which programs of the ABI ask for it.
    soname: &'static str,
    /// Its other names: that of Debian's programs, and those for the linker.
    links: &'static [&'static str],
    /// The name by which compilers link it.
    linked: &'static str,
    /// The folder of its headers in `mpi-abi`, and where it is installed.
    headers: (&'static str, &'static str),
    /// Name in its package for pkg-config, and the file's other name.
    package: (&'static str, Option<&'static str>),
    /// The package's description.
    about: &'static str,
}

/// The ABI of MPICH, which compilers use unless their names say otherwise.
const MPICH: Library = Library {
    built: "libnetmod_mpich.so",
    soname: "libmpi.so.12",
    links: &["libmpich.so.12", "libmpi.so", "libmpich.so"],
    linked: "mpi",
    headers: ("mpich", "include"),
    package: ("mpich", Some("mpi.pc")),
    about: "MPI library with the ABI of MPICH",
};
/// The ABI of the standard.
const STANDARD: Library = Library {
    built: "libnetmod_mpi_standard.so",
    soname: "libmpi_abi.so.1",
    links: &["libmpi_abi.so"],
    linked: "mpi_abi",
    headers: ("standard", "include/standard"),
    package: ("mpi_abi", None),
    about: "MPI library with the ABI of the standard",
};

/// Compilers: their libraries, the languages of their scripts, and their other names.
const COMPILERS: [(&str, &Library, &str, &[&str]); 5] = [
    ("mpicc", &MPICH, "c", &[]),
    ("mpicxx", &MPICH, "c++", &["mpic++"]),
    ("mpifort", &MPICH, "fortran", &["mpif90", "mpif77"]),
    ("mpicc_abi", &STANDARD, "c", &[]),
    ("mpicxx_abi", &STANDARD, "c++", &["mpic++_abi"]),
];

/// The packages of the workspace that are installed.
pub(crate) const PACKAGES: [&str; 4] = ["netmod-mpich", "netmod-mpi-standard", "netmod-pmi", "netmod-mpi"];

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
    let packages = PACKAGES.iter().flat_map(|name| ["-p", name]);
    run(cargo().args(["build", "--release", "--lib", "--bins"]).args(packages))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}

fn lay(from: &Path, prefix: &Path) -> std::io::Result<()> {
    let bin = prefix.join("bin");
    std::fs::create_dir_all(&bin)?;
    for library in [&MPICH, &STANDARD] {
        lay_library(library, from, prefix)?;
    }
    for name in ["nmrun", "mpivars"] {
        put(&bin.join(name), &std::fs::read(from.join(name))?, 0o755)?;
    }
    let (manuals, completions) =
        (prefix.join("share/man/man1"), prefix.join("share/bash-completion/completions"));
    for (folder, file, option) in [(&manuals, "nmrun.1", "-manual"), (&completions, "nmrun", "-completions")]
    {
        std::fs::create_dir_all(folder)?;
        put(&folder.join(file), &told(&bin.join("nmrun"), option)?, 0o644)?;
    }
    for name in ["mpiexec", "mpirun"] {
        link("nmrun", &bin.join(name))?;
        link("nmrun.1", &manuals.join(format!("{name}.1")))?;
        link("nmrun", &completions.join(name))?;
    }
    for (name, library, language, others) in COMPILERS {
        put(&bin.join(name), script(library, language).as_bytes(), 0o755)?;
        for other in others {
            link(name, &bin.join(other))?;
        }
    }
    Ok(())
}

/// Returns what a program prints.
fn told(program: &Path, option: &str) -> std::io::Result<Vec<u8>> {
    let done = Command::new(program).arg(option).output()?;
    let failed = || std::io::Error::other(format!("{} {option}: {}", program.display(), done.status));
    if done.status.success() { Ok(done.stdout) } else { Err(failed()) }
}

/// Lays out what is of one ABI: the library, its headers and its package.
fn lay_library(library: &Library, from: &Path, prefix: &Path) -> std::io::Result<()> {
    let (source, include) = library.headers;
    let (lib, include) = (prefix.join("lib"), prefix.join(include));
    let packages = lib.join("pkgconfig");
    for folder in [&packages, &include] {
        std::fs::create_dir_all(folder)?;
    }
    put(&lib.join(library.soname), &std::fs::read(from.join(library.built))?, 0o755)?;
    for name in library.links {
        link(library.soname, &lib.join(name))?;
    }
    for part in [source, "common"] {
        for header in std::fs::read_dir(root().join("mpi-abi").join(part).join("include"))? {
            let header = header?;
            put(&include.join(header.file_name()), &std::fs::read(header.path())?, 0o644)?;
        }
    }
    let (name, other) = library.package;
    let file = format!("{name}.pc");
    put(&packages.join(&file), package(library).as_bytes(), 0o644)?;
    other.map_or(Ok(()), |other| link(&file, &packages.join(other)))
}

/// Returns the script of a compiler.
fn script(library: &Library, language: &str) -> String {
    let words = [("@LANGUAGE@", language), ("@LIBRARY@", library.linked), ("@INCLUDE@", library.headers.1)];
    words.iter().fold(COMPILER.to_owned(), |script, (word, value)| script.replace(word, value))
}

/// Writes a file beside its place and moves it there: a program that runs keeps the old one.
pub(crate) fn put(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let mut other = path.as_os_str().to_owned();
    other.push(format!(".{}", std::process::id()));
    let other = PathBuf::from(other);
    let mut file = std::fs::File::create(&other)?;
    file.write_all(bytes)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&other, path)
}

pub(crate) fn link(to: &str, path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    symlink(to, path)
}

/// Returns the file for pkg-config, which finds everything from its own folder.
fn package(library: &Library) -> String {
    let Library { linked, headers: (_, include), package: (name, _), about, .. } = library;
    format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/{include}\n\n\
         Name: {name}\nDescription: {about}\nVersion: {}\n\
         Libs: -L${{libdir}} -l{linked}\nCflags: -I${{includedir}}\n",
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests;
