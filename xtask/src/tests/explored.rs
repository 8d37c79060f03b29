//! Runs the tests that explore, for what they record.

use super::list::Test;
use super::programs::{Package, Program};
use crate::check::modules::Tree;
use crate::check::sources::{self, Source};
use crate::command::{output, root};

/// The package that tests record with.
const RECORDER: &str = "netmod-models";
/// Prefix of its items in code.
const CALL: &str = "netmod_models::";

/// Runs all modules of tests that record something, and returns the lines.
///
/// # Errors
/// If a test fails, or a file records in a module that has no tests.
pub(crate) fn run(packages: &[Package], programs: &[Program], tests: &[Test]) -> Result<String, String> {
    let file = root().join("target").join("explored.tsv");
    std::fs::write(&file, "").map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    let sources: Vec<Source> = sources::all()?.1.into_iter().filter(Source::is_rust).collect();
    let tree = Tree::read(packages, &sources)?;
    let recording = |p: &&Program| {
        let package = packages.iter().find(|k| k.name == p.package.name);
        package.is_some_and(|k| k.needs.iter().any(|n| n == RECORDER))
    };
    for program in programs.iter().filter(recording) {
        let modules = modules(&tree, &sources, program);
        for module in &modules {
            let (package, target) = (&program.package.name, &program.target);
            let of_program = |t: &&Test| (&t.package, &t.target) == (package, target);
            if !tests.iter().filter(of_program).any(|t| t.name.starts_with(module)) {
                return Err(format!("{package}, {target}: {module} records something but has no tests"));
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
fn modules(tree: &Tree, sources: &[Source], program: &Program) -> Vec<String> {
    let records = |s: &Source| s.text.contains(CALL);
    if program.target != "lib" {
        let root = sources.iter().find(|s| s.file == program.source);
        return root.filter(|s| records(s)).map(|_| String::new()).into_iter().collect();
    }
    let of_program = |at: &usize| sources[tree.modules[tree.root(*at)].source].file == program.source;
    let modules = (0..tree.modules.len()).filter(of_program);
    // A module within a file has the name of the file's, and more.
    let is_file = |at: &usize| {
        let module = &tree.modules[*at];
        module.parent == *at || tree.modules[module.parent].source != module.source
    };
    let recording = modules.filter(is_file).filter(|at| records(&sources[tree.modules[*at].source]));
    recording.map(|at| tree.name(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::modules::testing::tree;

    #[test]
    fn a_file_is_the_module_that_its_tests_are_named_by() {
        let (tree, sources) = tree(&[
            ("lib.rs", "mod link; #[path = \"a_tests.rs\"] mod tests;"),
            ("link.rs", "mod explore; mod other;"),
            ("link/explore.rs", "mod inner { fn f() { netmod_models::mutant() } }"),
            ("link/other.rs", ""),
            ("a_tests.rs", "fn f() { netmod_models::mutant() }"),
        ]);
        let package = Package::of("p", "/p", &[]);
        let program = |target: &str, source: &str| Program {
            package: package.clone(),
            target: target.into(),
            source: source.into(),
            path: "/t".into(),
        };
        let modules = |p: Program| modules(&tree, &sources, &p);
        assert_eq!(modules(program("lib", "/p/src/lib.rs")), ["link::explore::", "tests::"]);
        assert_eq!(modules(program("test a", "/p/src/a_tests.rs")), [""]);
        assert_eq!(modules(program("test b", "/p/src/lib.rs")), [""; 0]);
    }
}
