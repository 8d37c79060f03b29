//! The Debian package: the installation in a folder of its own, and alternatives by which the
//! system's `mpicc`, `mpiexec`, `mpi.h` and `libmpi.so` are this library's.
//!
//! `dpkg-deb` packs the folder. cargo-deb describes files that cargo builds; most of these are
//! headers, links and scripts of `cargo xtask install`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::dist::time;
use super::{Asked, LICENCES, Stage, VERSION, bill, elf, entries, make_folder, write};
use crate::command::{output, root};
use crate::prefix::{link, put};

/// Name of the package.
const NAME: &str = "netmod-mpi";
/// Libraries that programs find without a search path.
const FOR_ALL: [&str; 2] = ["libmpi.so.12", "libmpi_abi.so.1"];
/// Scripts of the package, and their names in it.
const SCRIPTS: [(&str, &str); 2] = [
    ("postinst", include_str!("../../package/postinst.sh")),
    ("prerm", include_str!("../../package/prerm.sh")),
];
/// Names of processors, here and in Debian.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

/// Makes the package and prints its path.
///
/// # Errors
/// If the build fails, a file cannot be written, or `dpkg-deb` is missing.
pub(crate) fn deb(asked: &Asked) -> Result<(), String> {
    let made = make(asked)?;
    println!("{}", made.display());
    Ok(())
}

/// Makes the package and returns its path.
pub(super) fn make(asked: &Asked) -> Result<PathBuf, String> {
    let processor = std::env::consts::ARCH;
    let architecture = ARCHITECTURES.iter().find(|(here, _)| *here == processor);
    let (_, architecture) =
        architecture.ok_or_else(|| format!("Debian's name of {processor} is not known"))?;
    let multiarch = format!("{processor}-linux-gnu");
    let lib = format!("usr/lib/{multiarch}");
    let stage = Stage::new(asked, "deb", &format!("tree/{lib}/{NAME}"))?;
    let tree = stage.folder.join("tree");
    for name in FOR_ALL {
        link(&format!("{NAME}/lib/{name}"), &tree.join(&lib).join(name))
            .map_err(|e| format!("{name}: {e}"))?;
    }
    // Found through an alternative, a description does not know its own folder.
    for path in entries(&stage.prefix.join("lib/pkgconfig"))? {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        write(&path, &text.replace("prefix=${pcfiledir}/../..", &format!("prefix=/{lib}/{NAME}")))?;
    }
    let doc = tree.join("usr/share/doc").join(NAME);
    make_folder(&doc)?;
    write(&doc.join("copyright"), &copyright()?)?;
    write(&doc.join("sbom.cdx.json"), &bill::of_materials(&root())?)?;
    let (major, minor) = elf::oldest_glibc(&stage.programs()?)?;
    let debian = tree.join("DEBIAN");
    make_folder(&debian)?;
    for (name, script) in SCRIPTS {
        let script = script
            .replace("@PREFIX@", &format!("/{lib}/{NAME}"))
            .replace("@LIB@", &format!("/{lib}"))
            .replace("@MULTIARCH@", &multiarch);
        put(&debian.join(name), script.as_bytes(), 0o755).map_err(|e| format!("{name}: {e}"))?;
    }
    let control = format!(
        "\
Package: {NAME}
Version: {VERSION}-1
Architecture: {architecture}
Maintainer: {}
Section: libs
Priority: optional
Depends: libc6 (>= {major}.{minor}), libgcc-s1
Suggests: gcc, gfortran
Installed-Size: {}
Description: MPI library with the ABIs of MPICH and of the standard
 Programs in C, C++, Fortran and Python that were linked to MPICH, or to the standard ABI of
 MPI 5, run on it as they are. With mpiexec, mpicc, mpicxx and mpifort.
",
        maintainer(),
        kibibytes(&tree)?,
    );
    write(&debian.join("control"), &control)?;
    let to = asked.to()?.join(format!("{NAME}_{VERSION}-1_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    // The same files make the same package.
    pack.env("SOURCE_DATE_EPOCH", time()?.to_string());
    output(pack.args(["--root-owner-group", "--build"]).arg(&tree).arg(&to))?;
    Ok(to)
}

/// Returns the maintainer, whom Debian's tools take from these variables.
fn maintainer() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let name = variable("DEBFULLNAME").unwrap_or_else(|| "Builder of this package".into());
    let mail = variable("DEBEMAIL").unwrap_or_else(|| "root@localhost".into());
    format!("{name} <{mail}>")
}

/// Returns the text of both licences.
fn copyright() -> Result<String, String> {
    let mut text = String::from("MIT OR Apache-2.0\n");
    for name in LICENCES {
        let licence = std::fs::read_to_string(root().join(name)).map_err(|e| format!("{name}: {e}"))?;
        text += &format!("\n{licence}");
    }
    Ok(text)
}

/// Returns the size of a folder's files in KiB.
fn kibibytes(folder: &Path) -> Result<u64, String> {
    let said =
        output(Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1K"]).arg(folder))?;
    let number = said.split_whitespace().next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("du: {said}"))
}
