//! `cargo xtask crates`: the crates that can be published, each built from its package alone, and
//! the licences and sources of all that they depend on.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::command::{cargo, output, root, run};
use crate::options::Options;
use crate::tool::Tool;

/// The tool that looks at dependencies.
pub(crate) const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    less: &["--no-default-features"],
    without: "licences and sources of dependencies",
};
/// Its settings, and what it looks at.
const LOOK: [&str; 6] = ["--all-features", "--workspace", "check", "licenses", "bans", "sources"];

/// Packages all crates, builds each from its package, and looks at their dependencies.
///
/// # Errors
/// If a crate does not build without its neighbours, or a dependency is not allowed.
pub(crate) fn crates(options: Options) -> Result<(), String> {
    test(&DENY.get(options)?)
}

/// Packages and builds all crates, and looks at their dependencies with the tool that is there.
///
/// # Errors
/// As of [`crates`].
pub(crate) fn test(deny: &Path) -> Result<(), String> {
    package()?;
    run(Command::new(deny).args(LOOK).current_dir(root()))
}

/// Packages all crates that can be published, and builds each from its package.
fn package() -> Result<(), String> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let names = publishable(&text)?;
    let packages = names.iter().flat_map(|name| ["--package", name]);
    // Changes that are not committed are packaged, too.
    run(cargo().args(["package", "--quiet", "--allow-dirty"]).args(packages))
}

/// Returns the names of packages that may be published, as cargo describes them.
fn publishable(metadata: &str) -> Result<Vec<String>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let may = packages.iter().filter(|package| package["publish"].is_null());
    Ok(may.filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_for_tests_are_not_published() {
        let text =
            output(cargo().args(["metadata", "--format-version", "1", "--no-deps"])).expect("packages");
        let names = publishable(&text).expect("names");
        assert!(
            names.iter().any(|name| name == "netmod-mpi") && names.iter().all(|name| name != "xtask"),
            "{names:?}"
        );
        assert!(publishable("{}").is_err() && publishable("none").is_err());
    }
}
