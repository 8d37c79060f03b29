//! `cargo xtask quick`: the checks of one package, for the loop of a developer.

use std::path::Path;
use std::time::Instant;

use crate::check;
use crate::command::{cargo, run};
use crate::tests::programs::{self, Package};

/// Checks one package: format, lints, documentation, unit tests, and the conformance tests that its
/// manifest names. Without a name it is the package of the folder that the user is in.
///
/// # Errors
/// If there is no such package, or a check fails.
pub(crate) fn quick(name: Option<&str>) -> Result<(), String> {
    let start = Instant::now();
    let packages = programs::packages()?;
    let here = std::env::current_dir().map_err(|e| format!("cannot tell the folder: {e}"))?;
    let package = find(&packages, name, &here)?;
    for args in commands(package) {
        let mut command = cargo();
        command.args(&args);
        if args[0] == "doc" {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        run(&mut command)?;
    }
    check::check(&check::Asked::default())?;
    eprintln!("xtask: {} is right, in {:.0} s", package.name, start.elapsed().as_secs_f64());
    Ok(())
}

/// Finds the package of a name, which may lack its `netmod-`, or of a folder.
fn find<'a>(packages: &'a [Package], name: Option<&str>, here: &Path) -> Result<&'a Package, String> {
    let Some(name) = name else {
        let inside = packages.iter().filter(|p| here.starts_with(&p.folder));
        let found = inside.max_by_key(|p| p.folder.as_os_str().len());
        return found.ok_or_else(|| format!("quick wants a package, since {} is in none", here.display()));
    };
    let whole = format!("netmod-{name}");
    let found =
        packages.iter().find(|p| p.name == name).or_else(|| packages.iter().find(|p| p.name == whole));
    found.ok_or_else(|| {
        let names: Vec<_> = packages.iter().map(|p| p.name.as_str()).collect();
        format!("there is no package {name}; there are {}", names.join(", "))
    })
}

/// The arguments of cargo for each check, in the order of the time that they take.
fn commands(package: &Package) -> Vec<Vec<&str>> {
    let name = package.name.as_str();
    let mut all = vec![
        vec!["fmt", "--package", name, "--check"],
        vec!["clippy", "--package", name, "--all-targets", "--quiet", "--", "-D", "warnings"],
        vec!["doc", "--package", name, "--no-deps", "--quiet"],
    ];
    let mut units = vec!["test", "--package", name, "--quiet"];
    units.extend(package.library.as_ref().map(|_| "--lib"));
    units.push("--bins");
    all.push(units);
    all.extend(package.conformance.iter().map(|suite| {
        let mut words = suite.split_whitespace();
        let target = words.next().unwrap_or_default();
        let suite = ["test", "--package", SUITES, "--quiet", "--test", target, "--"];
        suite.into_iter().chain(words).collect()
    }));
    all
}

/// The package with the conformance suites.
const SUITES: &str = "netmod-tests";

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> [Package; 3] {
        let mut tcp = Package::of("netmod-tcp", "/p/tcp", &[]);
        tcp.library = Some("netmod_tcp".into());
        tcp.conformance = vec!["conformance over_tcp::".into()];
        [tcp, Package::of("pmi", "/p/tcp/pmi", &[]), Package::of("netmod-pmi", "/p/b", &[])]
    }

    #[test]
    fn a_package_is_found_by_its_name_and_by_its_folder() {
        let all = packages();
        let find = |name, here: &str| find(&all, name, Path::new(here)).map(|p| p.name.clone());
        assert_eq!(find(Some("tcp"), "/").as_deref(), Ok("netmod-tcp"));
        assert_eq!(find(Some("pmi"), "/").as_deref(), Ok("pmi"));
        assert_eq!(find(None, "/p/tcp/pmi/src").as_deref(), Ok("pmi"));
        assert!(find(Some("udp"), "/").expect_err("no such package").contains("netmod-tcp, pmi"));
        assert!(find(None, "/p").is_err());
    }

    #[test]
    fn a_package_is_tested_by_itself_and_by_its_suites() {
        let all = packages();
        let tests: Vec<String> = commands(&all[0])[3..].iter().map(|c| c.join(" ")).collect();
        assert_eq!(
            tests,
            [
                "test --package netmod-tcp --quiet --lib --bins",
                "test --package netmod-tests --quiet --test conformance -- over_tcp::"
            ]
        );
        assert_eq!(commands(&all[1])[3..], [["test", "--package", "pmi", "--quiet", "--bins"]]);
    }
}
