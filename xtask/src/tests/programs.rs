//! Packages of the workspace, and their programs of tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::list::Test;
use crate::command::{cargo, output};

/// A package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// How cargo's messages name it.
    id: String,
    pub(crate) name: String,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Packages that it names in its manifest.
    pub(crate) needs: Vec<String>,
    /// The name of its library in code, if it has one.
    pub(crate) library: Option<String>,
    /// The first files of its libraries and programs.
    pub(crate) roots: Vec<PathBuf>,
    /// True if it is part of what users get: a default member of the workspace.
    pub(crate) product: bool,
    /// Programs of conformance tests, each with the tests to run, as `package.metadata.quick` names
    /// them.
    pub(crate) conformance: Vec<String>,
}

/// A built program of tests.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) package: Package,
    /// As in [`Test`].
    pub(crate) target: String,
    /// The file that its crate begins with.
    pub(crate) source: PathBuf,
    pub(crate) path: PathBuf,
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("cargo says no {key} in {value}"))
}

/// Returns the packages of the workspace, sorted by name.
///
/// # Errors
/// If cargo fails, or says something else than it should.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let said = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let said: Value = serde_json::from_str(&said).map_err(|e| format!("cargo metadata says no JSON: {e}"))?;
    let all = said["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let product =
        said["workspace_default_members"].as_array().ok_or("cargo metadata names no default members")?;
    let read = |p: &Value| package(p).map(|found| Package { product: product.contains(&p["id"]), ..found });
    let mut packages = all.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn package(said: &Value) -> Result<Package, String> {
    let manifest = PathBuf::from(text(said, "manifest_path")?);
    let folder = manifest.parent().ok_or("cargo metadata names a manifest in no folder")?.to_owned();
    let needs = said["dependencies"].as_array().into_iter().flatten();
    let targets: Vec<&Value> = said["targets"].as_array().into_iter().flatten().collect();
    let is = |t: &Value, kinds: &[&str]| strings(&t["kind"]).iter().any(|k| kinds.contains(&k.as_str()));
    let library = targets
        .iter()
        .find(|t| is(t, &["lib", "rlib"]))
        .map(|t| text(t, "name").map(|n| n.replace('-', "_")));
    let roots = targets.iter().filter(|t| is(t, &["lib", "rlib", "cdylib", "bin", "proc-macro"]));
    Ok(Package {
        id: text(said, "id")?.to_owned(),
        name: text(said, "name")?.to_owned(),
        folder,
        needs: needs.map(|d| text(d, "name").map(str::to_owned)).collect::<Result<_, _>>()?,
        library: library.transpose()?,
        roots: roots.map(|t| text(t, "src_path").map(PathBuf::from)).collect::<Result<_, _>>()?,
        product: false,
        conformance: strings(&said["metadata"]["quick"]["conformance"]),
    })
}

/// The strings of a list; none if it is missing.
fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
impl Package {
    /// A package of the product.
    pub(crate) fn of(name: &str, folder: &str, roots: &[&str]) -> Package {
        Package {
            id: format!("path+file://{folder}#1"),
            name: name.into(),
            folder: folder.into(),
            needs: vec![],
            library: None,
            roots: roots.iter().map(PathBuf::from).collect(),
            product: true,
            conformance: vec![],
        }
    }
}

/// Builds all tests of the workspace.
///
/// # Errors
/// If something does not build.
pub(crate) fn build(packages: &[Package]) -> Result<Vec<Program>, String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--message-format=json"]);
    eprintln!("xtask: building all tests");
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot start cargo: {e}"))?;
    if !done.status.success() {
        return Err("the tests do not build".into());
    }
    let said = String::from_utf8_lossy(&done.stdout);
    let programs = said.lines().map(|line| program(packages, line));
    programs.filter_map(Result::transpose).collect()
}

/// Reads a message of cargo's: a program of tests, or something else.
fn program(packages: &[Package], message: &str) -> Result<Option<Program>, String> {
    let said: Value = serde_json::from_str(message).map_err(|e| format!("cargo says {message:?}: {e}"))?;
    let Some(path) = said["executable"].as_str().filter(|_| said["profile"]["test"] == true) else {
        return Ok(None);
    };
    let id = text(&said, "package_id")?;
    let package = packages.iter().find(|p| p.id == id);
    let package = package.ok_or_else(|| format!("{id} is no package of the workspace"))?.clone();
    let (kind, name) = (said["target"]["kind"][0].as_str().unwrap_or("lib"), text(&said["target"], "name")?);
    let target = match kind {
        "bin" | "test" | "example" | "bench" => format!("{kind} {name}"),
        _ => "lib".to_owned(),
    };
    let source = PathBuf::from(text(&said["target"], "src_path")?);
    Ok(Some(Program { package, target, source, path: Path::new(path).to_owned() }))
}

impl Program {
    /// Runs it as cargo does, in the folder of its package.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.package.folder).env("CARGO_MANIFEST_DIR", &self.package.folder);
        command
    }

    /// Returns its tests.
    ///
    /// # Errors
    /// If it does not list them.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        let all = output(self.command().args(["--list", "--format", "terse"]))?;
        let ignored = output(self.command().args(["--list", "--format", "terse", "--ignored"]))?;
        let ignored: Vec<&str> = ignored.lines().collect();
        let tests = all.lines().filter_map(|line| {
            line.strip_suffix(": test").map(|name| Test {
                package: self.package.name.clone(),
                target: self.target.clone(),
                name: name.to_owned(),
                ignored: ignored.contains(&line),
            })
        });
        Ok(tests.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Package> {
        vec![Package::of("netmod-x", "/x", &[])]
    }

    #[test]
    fn a_program_of_tests_is_read_from_what_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///x#1","executable":"/t/x-1",
            "profile":{"test":true},"target":{"kind":["test"],"name":"some","src_path":"/x/tests/some.rs"}}"#;
        let found = program(&known(), message).expect("a sound message").expect("a program");
        assert_eq!((found.target.as_str(), found.path.to_str()), ("test some", Some("/t/x-1")));
        assert_eq!(found.package.name, "netmod-x");
    }

    #[test]
    fn programs_without_tests_and_other_messages_are_left_out() {
        for message in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"executable":"/t/x","profile":{"test":false},"package_id":"path+file:///x#1"}"#,
        ] {
            assert!(program(&known(), message).expect("a sound message").is_none());
        }
        assert!(program(&known(), "cargo").is_err());
    }
}
