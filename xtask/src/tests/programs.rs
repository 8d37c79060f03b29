//! Packages of the workspace, and their programs of tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::list::Test;
use crate::command::{cargo, output};

/// A package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Name in cargo's messages.
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
    /// Name of the target, as [`Test`] has it.
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

/// Programs that a build of the whole workspace has made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    /// Programs of tests.
    pub(crate) tests: Vec<Program>,
    /// Programs and examples.
    pub(crate) programs: Vec<Program>,
}

impl Built {
    /// Returns the path of a program, an example or a program of tests.
    ///
    /// # Errors
    /// If the build has made none of that package and target.
    pub(crate) fn path(&self, package: &str, target: &str) -> Result<&Path, String> {
        let all = if target.starts_with("test ") { &self.tests } else { &self.programs };
        let found = all.iter().find(|p| p.package.name == package && p.target == target);
        found.map(|p| p.path.as_path()).ok_or_else(|| format!("cargo has built no {target} of {package}"))
    }
}

/// Builds everything in the workspace: libraries, programs, examples and tests. One build instead
/// of one for each kind, since the features of a dependency differ with what is asked for.
///
/// # Errors
/// If something does not build.
pub(crate) fn build(packages: &[Package]) -> Result<Built, String> {
    let mut command = cargo();
    command.args(["build", "--workspace", "--all-targets", "--message-format=json-render-diagnostics"]);
    eprintln!("xtask: building everything");
    let done = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot start cargo: {e}"))?;
    if !done.status.success() {
        return Err("the workspace does not build".into());
    }
    let mut built = Built::default();
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        match program(packages, line)? {
            Some((program, true)) => built.tests.push(program),
            Some((program, false)) => built.programs.push(program),
            None => {}
        }
    }
    built.tests.sort_by(|a, b| (&a.package.name, &a.target).cmp(&(&b.package.name, &b.target)));
    Ok(built)
}

/// Reads a message of cargo's: a program and whether it is one of tests, or something else.
fn program(packages: &[Package], message: &str) -> Result<Option<(Program, bool)>, String> {
    let said: Value = serde_json::from_str(message).map_err(|e| format!("cargo says {message:?}: {e}"))?;
    let Some(path) = said["executable"].as_str() else {
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
    let program = Program { package, target, source, path: Path::new(path).to_owned() };
    Ok(Some((program, said["profile"]["test"] == true)))
}

impl Program {
    /// Runs it as cargo does, in the folder of its package.
    pub(crate) fn command(&self) -> Command {
        self.command_on(None)
    }

    /// Runs it in the same way on some processors, a list for taskset, or on all.
    pub(crate) fn command_on(&self, processors: Option<&str>) -> Command {
        let mut command = Command::new("env");
        // Shells start jobs in the background with these ignored; tests send both.
        command.arg("--default-signal=INT,QUIT");
        if let Some(list) = processors {
            command.args(["taskset", "-c", list]);
        }
        command
            .arg(&self.path)
            .current_dir(&self.package.folder)
            .env("CARGO_MANIFEST_DIR", &self.package.folder);
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

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x#1","executable":"/t/x-1",
        "profile":{"test":true},"target":{"kind":["test"],"name":"some","src_path":"/x/tests/some.rs"}}"#;

    #[test]
    fn a_program_of_tests_is_read_from_what_cargo_says() {
        let (found, is_test) = program(&known(), MESSAGE).expect("a sound message").expect("a program");
        assert_eq!((found.target.as_str(), found.path.to_str()), ("test some", Some("/t/x-1")));
        assert_eq!((found.package.name.as_str(), is_test), ("netmod-x", true));
        let message = MESSAGE.replace("\"test\":true", "\"test\":false").replace("[\"test\"]", "[\"bin\"]");
        let (found, is_test) = program(&known(), &message).expect("a sound message").expect("a program");
        assert_eq!((found.target.as_str(), is_test), ("bin some", false));
    }

    #[test]
    fn other_messages_are_left_out() {
        for message in [r#"{"reason":"build-finished","success":true}"#, r#"{"executable":null}"#] {
            assert!(program(&known(), message).expect("a sound message").is_none());
        }
        assert!(program(&known(), "cargo").is_err());
        assert!(program(&[], MESSAGE).is_err());
    }

    #[test]
    fn what_was_built_is_found_by_its_target() {
        let (program, _) = program(&known(), MESSAGE).expect("a sound message").expect("a program");
        let built = Built { tests: vec![program], programs: vec![] };
        assert_eq!(built.path("netmod-x", "test some"), Ok(Path::new("/t/x-1")));
        assert!(built.path("netmod-x", "bin some").is_err_and(|e| e.contains("no bin some of netmod-x")));
    }
}
