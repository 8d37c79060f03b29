//! A second libfabric for the tests, of another version than the system's.
//!
//! It is part of Intel's MPI runtime: libfabric 2.4 with its providers, in the wheel `impi-rt` of
//! PyPI. libfabric has a BSD licence; the wheel has the Intel Simplified Software License, which
//! permits use without change. It is fetched when tests run and kept in the target folder. The
//! project contains nothing of it and passes nothing on.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{root, run};
use crate::install::has;
use crate::options::Options;

/// The variable that names the library to the tests.
pub(crate) const VARIABLE: &str = "NETMOD_TEST_OFI_LIBRARY";

const WHEEL: &str = "impi-rt==2021.18.1";
/// SHA-256 of the wheel for x86-64.
const SHA256: &str = "51ca89c1e64e60d86a7d40a7d6124312ba63aafc03fb6aacc140b3c66371d814";
/// Files of the wheel that are used. This build of libfabric offers only the abilities of the
/// provider of the highest priority, unless that one finds no hardware, as psm2 does. IMB-MPI1 is a
/// program for every library with the ABI of MPICH, and a test of ours.
const PARTS: &str = "libfabric.so.1 libtcp-fi.so libshm-fi.so librxm-fi.so libpsmx2-fi.so IMB-MPI1";

/// Takes parts of an archive out of it: archive, folder, parts.
const UNPACK: &str = "\
import os, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
for part in sys.argv[3].split():
    ends = ('/data/lib/' + part, '/data/bin/' + part)
    name, = [n for n in archive.namelist() if n.endswith(ends)]
    with open(os.path.join(sys.argv[2], part), 'wb') as out:
        out.write(archive.read(name))
        os.fchmod(out.fileno(), 0o755)
";

/// Returns the library: from the environment, from an earlier run, or a new one.
///
/// # Errors
/// If there is none, as what is not tested without it.
pub(crate) fn second(options: Options) -> Result<PathBuf, String> {
    let without = |why: String| format!("what depends on libfabric's version ({why})");
    if let Some(path) = std::env::var_os(VARIABLE).filter(|p| !p.is_empty()) {
        return Ok(path.into());
    }
    let folder = root().join("target").join("libfabric-2");
    let library = folder.join("libfabric.so.1");
    let all_there = || PARTS.split(' ').all(|part| folder.join(part).is_file());
    if all_there() {
        return Ok(library);
    }
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(without(format!("no second libfabric for this machine; {VARIABLE} can name one")));
    }
    if options.no_install || !has("pip3") {
        return Err(without(format!("{WHEEL} was not fetched by pip3; {VARIABLE} can name a libfabric 2")));
    }
    fetch(&folder).map_err(|e| without(e.replace('\n', " ")))?;
    if all_there() { Ok(library) } else { Err(without(format!("{WHEEL} has not all of {PARTS}"))) }
}

fn fetch(folder: &Path) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(fault)?;
    let wanted = folder.join("requirements.txt");
    std::fs::write(&wanted, format!("{WHEEL} --hash=sha256:{SHA256}\n")).map_err(fault)?;
    let wheels = folder.join("wheel");
    run(Command::new("pip3")
        .args(["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"])
        .args(["--disable-pip-version-check", "--platform", "manylinux_2_28_x86_64", "-r"])
        .arg(&wanted)
        .arg("-d")
        .arg(&wheels))?;
    let wheel = std::fs::read_dir(&wheels).map_err(fault)?.flatten().map(|f| f.path());
    let wheel = wheel.into_iter().find(|p| p.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.ok_or("pip3 has fetched no wheel")?;
    run(Command::new("python3").args(["-c", UNPACK]).arg(wheel).arg(folder).arg(PARTS))?;
    // 120 MB that nobody needs any more.
    std::fs::remove_dir_all(&wheels).map_err(fault)
}
