//! `cargo xtask check`: checks beyond those of the compiler, rustfmt and clippy.
//!
//! Each check has a list of what is allowed, in `xtask/allowed`, with a count and a reason in each
//! line. What is not on the list fails, and what is on the list and not found any more fails too,
//! so that the lists shrink.

mod circles;
mod comments;
mod equal;
mod errors;
mod fields;
mod found;
mod lengths;
mod lines;
pub(crate) mod modules;
mod pages;
pub(crate) mod sources;
mod variables;

use std::path::PathBuf;

use found::{Allowed, Found};
use modules::Tree;

use crate::command::root;

/// Options of `check`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// True if entries that are not found any more leave the lists.
    pub(crate) shrink: bool,
    /// Reason for which new findings are added to the lists.
    pub(crate) accept: Option<String>,
    /// Number of doc comments to print instead.
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
}

/// A check with its list.
struct Check {
    /// The name of the list.
    name: &'static str,
    /// Meaning of its keys and counts.
    head: &'static str,
    /// True if something on the list that is found no more is a fault. Otherwise it is only said.
    strict: bool,
    found: Vec<Found>,
}

/// Runs all checks.
///
/// # Errors
/// If one finds what is not allowed, or a list allows what is not there.
pub(crate) fn check(asked: &Asked) -> Result<(), String> {
    let (packages, sources) = sources::all()?;
    let rust: Vec<_> = sources.iter().filter(|s| s.is_rust()).cloned().collect();
    if let Some(count) = asked.sample {
        print!("{}", comments::sample(&rust, count, asked.seed));
        return Ok(());
    }
    let tree = Tree::read(&packages, &rust)?;
    let checks = [
        Check {
            name: "comments",
            head: "Comments that begin with a clause, and comment lines of more than 100 columns: how many there are.",
            // Many rewrite comments at the same time, and none should wait for the others' numbers.
            strict: false,
            found: comments::check(&rust),
        },
        Check {
            name: "lengths",
            head: "Files of more than 600 lines: how many lines they have.",
            strict: true,
            found: lengths::check(&sources),
        },
        Check {
            name: "fields",
            head: "Structs of the product with more than 16 fields: how many they have.",
            strict: true,
            found: fields::check(&packages, &tree, &rust),
        },
        Check {
            name: "errors",
            head: "Types Result<_, String> of the product: how many there are.",
            strict: true,
            found: errors::check(&packages, &tree, &rust),
        },
        Check {
            name: "equal",
            head: "Pairs of files with ten equal lines in a row or more: how many lines are equal.",
            strict: true,
            found: equal::check(&tree, &rust),
        },
        Check {
            name: "circles",
            head: "Imports between files of a crate that are part of a circle.",
            strict: true,
            found: circles::check(&tree, &rust),
        },
    ];
    let mut wrong = variables::check(&sources)?;
    wrong.extend(pages::check()?);
    for check in checks {
        wrong.extend(check.compare(asked)?);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.iter().for_each(|w| eprintln!("{w}"));
    Err("what is new must be mended, or allowed with a reason (--accept REASON); what is gone leaves the lists by --shrink"
        .into())
}

impl Check {
    /// Compares what was found with the list. Returns what is wrong, in words.
    fn compare(&self, asked: &Asked) -> Result<Vec<String>, String> {
        let path = self.path();
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        let mut allowed = Allowed::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if asked.shrink {
            allowed.shrink(&self.found);
        }
        if let Some(reason) = &asked.accept {
            allowed.accept(&self.found, reason);
        }
        if asked.shrink || asked.accept.is_some() {
            std::fs::write(&path, allowed.text(self.head)).map_err(failed)?;
        }
        let (wrong, notes) = self.judge(&allowed);
        notes.iter().for_each(|n| eprintln!("xtask: {n}"));
        Ok(wrong)
    }

    /// Returns what is a fault, and what is only to be said, in words.
    fn judge(&self, allowed: &Allowed) -> (Vec<String>, Vec<String>) {
        let (new, gone) = allowed.compare(&self.found);
        let mut wrong = Vec::new();
        let mut tell = |title, lines: &[String]| {
            if !lines.is_empty() {
                wrong.push(format!("{}, {title}:", self.name));
                wrong.extend(lines.iter().map(|l| format!("  {l}")));
            }
        };
        tell("not allowed", &new);
        if self.strict {
            tell("allowed but gone", &gone);
            return (wrong, Vec::new());
        }
        let note = |line: String| format!("{}: {line}; check --shrink lowers it", self.name);
        (wrong, gone.into_iter().map(note).collect())
    }

    fn path(&self) -> PathBuf {
        root().join("xtask").join("allowed").join(format!("{}.tsv", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(strict: bool, list: &str, found: Vec<Found>) -> (Vec<String>, Vec<String>) {
        let allowed = Allowed::parse(list).expect("a list");
        Check { name: "list", head: "", strict, found }.judge(&allowed)
    }

    #[test]
    fn what_is_new_is_a_fault_and_what_is_gone_only_where_lists_are_strict() {
        let new = || vec![Found::one("a".into(), "here".into())];
        for strict in [true, false] {
            let (wrong, notes) = judge(strict, "", new());
            assert_eq!(wrong, ["list, not allowed:", "  a: 1, and 0 are allowed", "    here"]);
            assert!(notes.is_empty());
            assert_eq!(judge(strict, "a\t1\twhy\n", new()), (vec![], vec![]));
        }
        let gone = "a\t2\twhy\n";
        let (wrong, notes) = judge(true, gone, new());
        assert_eq!((wrong.len(), notes.len()), (2, 0), "{wrong:?}");
        let (wrong, notes) = judge(false, gone, new());
        assert_eq!((wrong.len(), notes.len()), (0, 1), "{notes:?}");
    }
}
