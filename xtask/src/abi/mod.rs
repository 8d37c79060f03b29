//! `cargo xtask abi`: writes what follows from the tables in `mpi-abi`.
//!
//! The tables name the functions with the roles of their arguments, the roles with their types, and
//! the constants. From them come the headers of C and the exported functions in Rust, which are
//! committed; a test compares them.

mod conformance;
mod facade;
mod header;
mod names;
mod numbers;
mod only;
mod table;
mod translate;

use std::path::PathBuf;

use crate::command::root;
use only::Interface;
use table::Tables;

/// A generated file: its path, and its text.
type Generated = (PathBuf, String);

/// Writes the generated files that are not what the tables give.
///
/// # Errors
/// If a table cannot be read or has a fault, or if a file cannot be written.
pub(crate) fn abi() -> Result<(), String> {
    let tables = Tables::read(&root().join("mpi-abi"))?;
    let faults = conformance::faults(&tables)?;
    if !faults.is_empty() {
        return Err(format!("mpi-abi/conformance.tsv: {}", faults.join("; ")));
    }
    for (path, text) in differing(&tables)? {
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        eprintln!("xtask: wrote {}", path.display());
    }
    Ok(())
}

/// Returns the generated files that differ from those that are there.
fn differing(tables: &Tables) -> Result<Vec<Generated>, String> {
    let mut all = Vec::new();
    for interface in Interface::ALL {
        let all_folders = root().join("mpi-abi");
        let folder = all_folders.join(interface.folder());
        let headers = header::files(tables, interface).into_iter();
        let place = |name: &str| all_folders.join(header::folder(name, interface)).join("include").join(name);
        all.extend(headers.map(|(name, text)| (place(&name), text)));
        let entries = facade::files(tables, interface)?.into_iter();
        all.extend(entries.map(|(name, text)| (folder.join("src/entry").join(name), text)));
        if interface == Interface::Standard {
            let tables = numbers::files(tables)?.into_iter();
            all.extend(tables.map(|(name, text)| (folder.join("src").join(name), text)));
        }
    }
    all.push((root().join("docs/conformance.md"), conformance::page()?));
    let differs = |(path, text): &Generated| std::fs::read_to_string(path).ok().as_ref() != Some(text);
    Ok(all.into_iter().filter(differs).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_what_the_tables_give() {
        let tables = Tables::read(&root().join("mpi-abi")).expect("sound tables");
        let differ = differing(&tables).expect("generated files");
        let names: Vec<_> = differ.iter().map(|(path, _)| path.display().to_string()).collect();
        assert!(names.is_empty(), "{names:?}: run cargo xtask abi");
    }

    #[test]
    fn each_function_has_a_test_that_calls_it() {
        let tables = Tables::read(&root().join("mpi-abi")).expect("sound tables");
        let faults = conformance::faults(&tables).expect("sound tables");
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
