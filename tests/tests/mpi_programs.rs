//! The MPI library as programs find it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use netmod_tests::jobs::launch::{find_program, skip};
use netmod_tests::jobs::mpi::{Prefix, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Names that the library exports; the tables and headers say the same.
const SYMBOLS: &str = include_str!("../../mpi-abi/symbols-mpich.tsv");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// The exported names of a library that belong to its interface, and what each of them is.
fn exported(nm: &Path, library: &Path) -> BTreeMap<String, String> {
    let said = Command::new(nm).args(["-DS", "--defined-only"]).arg(library).output().expect("nm");
    assert!(said.status.success(), "{said:?}");
    let text = String::from_utf8(said.stdout).expect("names");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (kind, name) = (words[words.len() - 2], words[words.len() - 1]);
        let what = match (kind, words.len()) {
            ("B" | "D" | "G" | "R" | "V", 4) => {
                format!("{} bytes", u64::from_str_radix(words[1], 16).expect("a size"))
            }
            _ => "function".to_owned(),
        };
        found.insert(name.to_owned(), what);
    }
    found
}

fn listed() -> BTreeMap<String, String> {
    let rows = SYMBOLS.lines().filter(|l| !l.starts_with('#'));
    rows.map(|l| l.split_once('\t').expect("a name and what it is"))
        .map(|(name, what)| (name.to_owned(), what.to_owned()))
        .collect()
}

#[test]
fn the_library_exports_what_the_list_names_and_nothing_else() {
    let Some(nm) = find_program("nm") else {
        return skip("SKIPPED: exported names: nm not installed (apt-get install binutils)");
    };
    assert_eq!(exported(&nm, &prefix().file("lib/libmpi.so.12")), listed());
}

#[test]
fn the_list_has_what_mpich_exports() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libmpich.so.12");
    let nm = find_program("nm").filter(|_| library.is_file());
    let Some(nm) = nm else {
        return skip("SKIPPED: MPICH's exported names: not installed (apt-get install binutils libmpich12)");
    };
    let ours = listed();
    let public = |name: &str| {
        ["MPI_", "PMPI_", "MPIX_", "PMPIX_", "QMPI_"].iter().any(|start| name.starts_with(start))
    };
    let all = exported(&nm, library);
    assert!(all.len() > 1_000, "{}", all.len());
    let missing: Vec<_> =
        all.iter().filter(|(name, what)| public(name) && ours.get(*name) != Some(*what)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_library_has_the_names_that_programs_ask_for() {
    let mut ask = Command::new("readelf");
    let said = ask.arg("-d").arg(prefix().file("lib/libmpi.so.12")).output().expect("readelf");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("soname: [libmpi.so.12]") && text.contains("NODELETE"), "{text}");
    let file = |name: &str| std::fs::canonicalize(prefix().file(name)).expect("a link to the library");
    for name in ["lib/libmpich.so.12", "lib/libmpi.so", "lib/libmpich.so"] {
        assert_eq!(file(name), file("lib/libmpi.so.12"), "{name}");
    }
}
