//! The examples of rsmpi, the crate `mpi`, on the installed library, each with a few ranks.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::judge::Ended;
use super::programs::{self, Run, wrong_status};
use super::report::Outcome;
use super::{Asked, folder};
use crate::command::{cargo, output, run as run_command};

const SUITE: &str = "rsmpi";
/// The crate's version.
const VERSION: &str = "0.8.2";
const RANKS: [u32; 3] = [2, 3, 4];
/// Seconds for an example.
const LIMIT: u64 = 60;

/// Fetches and builds the examples, and runs those that are wanted. bindgen needs libclang.
///
/// # Errors
/// If they cannot be fetched or built; those of [`programs::run`].
pub(crate) fn run(asked: &Asked) -> Result<Vec<Outcome>, String> {
    let manifest = fetch()?;
    let examples = examples(&manifest.with_file_name("examples"))?;
    let build = folder(SUITE).join("build");
    if !asked.list {
        let prefix = asked.install(SUITE)?;
        let mut build_examples = cargo();
        build_examples.args(["build", "--quiet", "--examples", "--all-features", "--locked"]);
        build_examples.arg("--manifest-path").arg(&manifest).arg("--target-dir").arg(&build);
        run_command(build_examples.env("MPICC", prefix.join("bin/mpicc")))?;
    }
    let mut runs = Vec::new();
    for ranks in RANKS {
        runs.extend(examples.iter().map(|name| example(name, &build, ranks)));
    }
    programs::run(SUITE, asked, runs, LIMIT)
}

fn example(name: &str, build: &Path, ranks: u32) -> Run {
    Run {
        list: format!("{ranks} ranks"),
        name: format!("{name} {ranks}"),
        program: build.join("debug/examples").join(name),
        folder: folder(SUITE),
        ranks,
        arguments: Vec::new(),
        environment: Vec::new(),
        libraries: Vec::new(),
        // They check their results, and panic if those are wrong.
        fault: |_, ended: &Ended| (ended.status != Some(0)).then(|| wrong_status(ended)),
    }
}

/// Has cargo fetch the crate, and returns its manifest.
fn fetch() -> Result<PathBuf, String> {
    // A package of its own that depends on it.
    let package = folder(SUITE).join("fetch");
    let write = |file: &str, text: &str| {
        let file = package.join(file);
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))
    };
    std::fs::create_dir_all(&package).map_err(|e| format!("{}: {e}", package.display()))?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\nmpi = \"={VERSION}\"\n[workspace]\n"
    );
    write("Cargo.toml", &manifest)?;
    write("lib.rs", "")?;
    let mut metadata: Command = cargo();
    metadata.args(["metadata", "--quiet", "--format-version", "1"]).current_dir(&package);
    manifest_of("mpi", &output(&mut metadata)?)
}

/// Returns the manifest of a package, from what `cargo metadata` prints.
fn manifest_of(name: &str, metadata: &str) -> Result<PathBuf, String> {
    let fault = |why: &str| format!("cargo metadata: {why}");
    let value: serde_json::Value = serde_json::from_str(metadata).map_err(|e| fault(&e.to_string()))?;
    let packages = value["packages"].as_array().ok_or_else(|| fault("no packages"))?;
    let package = packages.iter().find(|package| package["name"] == name);
    let path = package.and_then(|package| package["manifest_path"].as_str());
    path.map(PathBuf::from).ok_or_else(|| fault(&format!("no package {name}")))
}

/// Returns the names of the examples in a folder.
fn examples(folder: &Path) -> Result<Vec<String>, String> {
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter_map(|n| n.strip_suffix(".rs").map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::programs::tests::ended;
    use super::*;

    #[test]
    fn a_package_is_found_by_its_name() {
        let text = r#"{"packages": [{"name": "a", "manifest_path": "/a/Cargo.toml"},
                                    {"name": "mpi", "manifest_path": "/m/Cargo.toml"}]}"#;
        assert_eq!(manifest_of("mpi", text), Ok("/m/Cargo.toml".into()));
        assert_eq!(manifest_of("b", text), Err("cargo metadata: no package b".into()));
        assert!(manifest_of("b", "text").is_err() && manifest_of("b", "{}").is_err());
    }

    #[test]
    fn an_example_passes_by_its_status() {
        let run = example("ring", Path::new("/b"), 3);
        assert_eq!((run.name.as_str(), run.ranks), ("ring 3", 3));
        assert_eq!(run.program, Path::new("/b/debug/examples/ring"));
        assert_eq!((run.fault)(&run, &ended(0, "")), None);
        assert_eq!((run.fault)(&run, &ended(101, "")).as_deref(), Some("ended with status 101"));
    }
}
