//! The bill of materials: all crates that are part of the library and its launcher, with their
//! licences and checksums, in the format CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::VERSION;
use crate::command::{cargo, output};
use crate::prefix::PACKAGES;

/// Returns the bill of the workspace in a folder.
///
/// # Errors
/// If cargo or its lock file cannot be read.
pub(super) fn of_materials(root: &Path) -> Result<String, String> {
    let mut ask = cargo();
    ask.args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform"]);
    let told = output(ask.arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH)))?;
    let told: Value = serde_json::from_str(&told).map_err(|e| format!("cargo metadata: {e}"))?;
    let lock = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    let bill = bill(&told, &checksums(&lock))?;
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|e| e.to_string())
}

/// Returns the checksums of a lock file, by names and versions.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            sums.insert((name, version), sum);
        }
    }
    sums
}

/// Returns the ids of all packages that those which are installed are built of.
fn used(told: &Value) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_id: BTreeMap<String, Value> =
        list(&told["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let installed = list(&told["packages"]).into_iter().filter(|package| {
        PACKAGES.contains(&package["name"].as_str().unwrap_or_default()) && package["source"].is_null()
    });
    let mut open: Vec<String> = installed.map(|package| text(&package["id"])).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !used.insert(id.clone()) {
            continue;
        }
        for dependency in list(&of_id.get(&id).cloned().unwrap_or_default()["deps"]) {
            // Others build it or test it, and are no part of it.
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                open.push(text(&dependency["pkg"]));
            }
        }
    }
    used
}

fn bill(told: &Value, sums: &BTreeMap<(String, String), String>) -> Result<Value, String> {
    let used = used(told);
    let packages = told["packages"].as_array().ok_or("cargo metadata tells no packages")?;
    let mut components = Vec::new();
    for package in packages.iter().filter(|p| p["id"].as_str().is_some_and(|id| used.contains(id))) {
        let (Some(name), Some(version)) = (package["name"].as_str(), package["version"].as_str()) else {
            return Err(format!("cargo metadata tells a package without name or version: {package}"));
        };
        let licence = package["license"].as_str();
        let licence = licence.ok_or_else(|| format!("package {name} {version} names no licence"))?;
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component = json!({
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
            // The older form of a choice is no expression of SPDX.
            "licenses": [{ "expression": licence.replace('/', " OR ") }],
        });
        if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        components.push(component);
    }
    components.sort_by_key(|component| component["bom-ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "library", "name": "netmod-mpi", "version": VERSION } },
        "components": components,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_belong_to_names_and_versions() {
        let lock = "\
[[package]]
name = \"a\"
version = \"1.0.0\"
source = \"registry\"
checksum = \"12\"

[[package]]
name = \"own\"
version = \"0.1.0\"
";
        let sums = checksums(lock);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[&("a".to_owned(), "1.0.0".to_owned())], "12");
    }

    #[test]
    fn what_only_builds_or_tests_is_no_part() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Zlib", "source": null });
        let needs = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let told = json!({
            "packages": [package(PACKAGES[0]), package("part"), package("below"), package("tool")],
            "resolve": { "nodes": [
                { "id": PACKAGES[0], "deps": [needs("part", Value::Null), needs("tool", json!("dev"))] },
                { "id": "part", "deps": [needs("below", Value::Null), needs("tool", json!("build"))] },
                { "id": "below", "deps": [] },
                { "id": "tool", "deps": [] },
            ] },
        });
        let sums = BTreeMap::from([(("below".to_owned(), "1.0.0".to_owned()), "34".to_owned())]);
        let bill = bill(&told, &sums).expect("a bill");
        let components = bill["components"].as_array().expect("components");
        let mut names: Vec<&str> = components.iter().filter_map(|c| c["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["below", PACKAGES[0], "part"]);
        assert_eq!(components[0]["hashes"][0]["content"], "34");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Zlib");
    }

    #[test]
    fn the_library_s_own_bill_has_its_crates() {
        let text = of_materials(&crate::command::root()).expect("a bill");
        for name in PACKAGES.iter().chain(&["netmod-core", "ch3-shim", "parking_lot"]) {
            assert!(text.contains(&format!("pkg:cargo/{name}@")), "{name}");
        }
        assert!(!text.contains("pkg:cargo/proptest@"), "a package of tests");
    }
}
