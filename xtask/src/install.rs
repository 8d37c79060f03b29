//! What the tests need from the system, and how to get it.

use std::path::Path;
use std::process::Command;

use crate::Options;
use crate::jobs::run;

/// A program, the Debian package that has it, and what is not tested without it.
struct Need {
    program: &'static str,
    package: &'static str,
    without: &'static str,
}

const NEEDS: &[Need] = &[Need {
    program: "mpiexec.hydra",
    package: "mpich",
    without: "jobs under Debian's mpiexec.hydra (PMI-1 by descriptor and by port, two virtual nodes)",
}];

/// Whether a program is on the path.
pub(crate) fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Installs what is missing if that is possible; returns what stays untested, and says how to change
/// that.
pub(crate) fn install(options: Options) -> Result<Vec<String>, String> {
    let missing = || NEEDS.iter().filter(|n| !has(n.program)).collect::<Vec<_>>();
    let packages: Vec<&str> = missing().iter().map(|n| n.package).collect();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let apt = Path::new("/usr/bin/apt-get").exists();
    if apt && is_root() && !options.no_install {
        eprintln!("xtask: installing {}", packages.join(" "));
        run(Command::new("apt-get").arg("update").arg("-q"))?;
        run(Command::new("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    } else {
        eprintln!(
            "xtask: for all tests run once:  sudo apt-get install --no-install-recommends {}",
            packages.join(" ")
        );
    }
    Ok(missing().iter().map(|n| format!("{} ({} is not installed)", n.without, n.program)).collect())
}
