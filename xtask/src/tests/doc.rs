//! Tests in documentation.

use std::io::Read;
use std::process::Stdio;

use super::list::Test;
use super::programs::Package;
use crate::command::cargo;

/// Returns the tests in the documentation of all packages.
///
/// # Errors
/// If rustdoc fails.
pub(crate) fn tests(packages: &[Package]) -> Result<Vec<Test>, String> {
    eprintln!("xtask: looking for tests in the documentation");
    let said = (|| {
        // Cargo names the package on the one, rustdoc its tests on the other.
        let (mut from, out) = std::io::pipe()?;
        let mut command = cargo();
        command.args([
            "test",
            "--workspace",
            "--doc",
            "--color",
            "never",
            "--",
            "--list",
            "--format",
            "terse",
        ]);
        let mut child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        // It holds ends of the pipe, too.
        drop(command);
        let mut said = String::new();
        from.read_to_string(&mut said)?;
        Ok((said, child.wait()?))
    })();
    let (said, status) = said.map_err(|e: std::io::Error| format!("cannot run cargo test --doc: {e}"))?;
    if status.success() { parse(packages, &said) } else { Err(format!("cargo test --doc: {status}: {said}")) }
}

fn parse(packages: &[Package], said: &str) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    let mut package = None;
    for line in said.lines() {
        if let Some(library) = line.trim_start().strip_prefix("Doc-tests ") {
            let found = packages.iter().find(|p| p.library.as_deref() == Some(library));
            package = Some(found.ok_or_else(|| format!("no package has the library {library}"))?);
        } else if let Some(name) = line.strip_suffix(": test") {
            let package = package.ok_or("rustdoc lists tests of no package")?;
            tests.push(Test {
                package: package.name.clone(),
                target: "doc".into(),
                name: stable(name),
                ignored: false,
            });
        }
    }
    Ok(tests)
}

/// Removes the folder and the number of the line, which change with every edit: `src/a.rs - a::B
/// (line 7)`.
fn stable(name: &str) -> String {
    let (path, item) = name.split_once(" - ").unwrap_or(("", name));
    let (item, line) = item.rsplit_once("(line ").unwrap_or((item, ""));
    let kind = line.split_once(')').map_or("", |(_, kind)| kind);
    let file = path.rsplit('/').next().unwrap_or_default();
    format!("{file} - {}{kind}", item.trim()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_whatever_stands_above_it() {
        assert_eq!(stable("pmi/src/lib.rs - (line 12)"), "lib.rs -");
        assert_eq!(stable("src/a.rs - a::B::c (line 7) - compile fail"), "a.rs - a::B::c - compile fail");
    }

    #[test]
    fn tests_belong_to_the_package_named_before_them() {
        let said = "   Doc-tests netmod_x\nsrc/a.rs - a (line 3): test\n";
        let mut package = Package::of("netmod-x", "/x", &[]);
        package.library = Some("netmod_x".into());
        let found = parse(&[package], said).expect("a package");
        assert_eq!((found[0].package.as_str(), found[0].name.as_str()), ("netmod-x", "a.rs - a"));
        assert!(parse(&[], said).is_err());
        assert!(parse(&[], "src/a.rs - a (line 3): test\n").is_err());
        assert_eq!(parse(&[], "warning: nothing").expect("nothing"), []);
    }
}
