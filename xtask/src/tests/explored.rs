//! Runs the tests that explore, for what they record.

use std::path::{Path, PathBuf};

use super::list::Test;
use super::programs::{Package, Program};
use crate::command::{output, root};

/// The package that tests record with.
const RECORDER: &str = "netmod-models";
/// How code names it.
const CALL: &str = "netmod_models::";

/// Runs all modules of tests that record something, and returns the lines.
///
/// # Errors
/// If a test fails, or a file records in a module that has no tests.
pub(crate) fn run(packages: &[Package], programs: &[Program], tests: &[Test]) -> Result<String, String> {
    let file = root().join("target").join("explored.tsv");
    std::fs::write(&file, "").map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    let recording = |p: &&Program| {
        let package = packages.iter().find(|k| k.name == p.package.name);
        package.is_some_and(|k| k.needs.iter().any(|n| n == RECORDER))
    };
    for program in programs.iter().filter(recording) {
        let modules = modules(program)?;
        for module in &modules {
            let (package, target) = (&program.package.name, &program.target);
            if !tests
                .iter()
                .any(|t| (&t.package, &t.target) == (package, target) && t.name.starts_with(module))
            {
                return Err(format!(
                    "{package}, {target}: {module} records states or mutants but has no tests"
                ));
            }
        }
        if !modules.is_empty() {
            eprintln!("xtask: exploring {}, {}", program.package.name, program.target);
            output(program.command().args(&modules).env(netmod_models::FILE, &file))?;
        }
    }
    std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

/// Returns the modules of a program that record something, as the beginnings of their tests' names.
/// A program that is one file is one module, without a name.
fn modules(program: &Program) -> Result<Vec<String>, String> {
    let folder = program.source.parent().unwrap_or(Path::new("."));
    let mut files = Vec::new();
    if program.target == "lib" {
        sources(folder, &mut files)?;
        // These belong to programs of their own.
        files.retain(|f| !f.starts_with(folder.join("bin")));
        files.sort();
    } else {
        files.push(program.source.clone());
    }
    let mut modules = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        if text.contains(CALL) {
            modules.push(if file == program.source { String::new() } else { module(folder, &file) });
        }
    }
    Ok(modules)
}

/// Adds all Rust files of a folder and of those in it.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let strange = |e: std::io::Error| format!("cannot read {}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(strange)? {
        let path = entry.map_err(strange)?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the module of a file below the folder of its crate, with `::` behind it.
fn module(root: &Path, file: &Path) -> String {
    let below = file.strip_prefix(root).unwrap_or(file).with_extension("");
    let mut parts: Vec<_> = below.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|p| p == "mod") {
        parts.pop();
    }
    parts.iter().map(|p| format!("{p}::")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_module_that_its_tests_are_named_by() {
        let module = |file: &str| module(Path::new("/x/src"), Path::new(file));
        assert_eq!(module("/x/src/link/explore/mod.rs"), "link::explore::");
        assert_eq!(module("/x/src/ring/model.rs"), "ring::model::");
    }
}
