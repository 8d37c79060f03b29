//! Lines that stand twice outside of tests.
//!
//! Compared is what could go wrong in two places: lines of code without comments, imports,
//! attributes and lines of brackets, whatever their indentation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::found::Found;
use super::lines::split;
use super::modules::Tree;
use super::sources::Source;

/// Equal lines in a row that are too many.
const ROW: usize = 10;

/// A line of code: its number, and what is compared.
type Code = (usize, String);

/// Finds pairs of files with too many equal lines in a row. The count is that of the lines in all
/// such rows.
pub(crate) fn check(tree: &Tree, sources: &[Source]) -> Vec<Found> {
    let files: BTreeSet<usize> =
        tree.modules.iter().map(|m| m.source).filter(|s| !tree.is_test_file(*s)).collect();
    let files: Vec<(usize, Vec<Code>)> = files.into_iter().map(|s| (s, code(tree, s, &sources[s]))).collect();
    let mut places = HashMap::<Vec<&str>, Vec<(usize, usize)>>::new();
    for (number, (_, lines)) in files.iter().enumerate() {
        for at in 0..(lines.len() + 1).saturating_sub(ROW) {
            let row = lines[at..at + ROW].iter().map(|l| l.1.as_str()).collect();
            places.entry(row).or_default().push((number, at));
        }
    }
    // The places where rows begin, by pair of files and by the distance of the rows in them.
    let mut pairs = BTreeMap::<(usize, usize, isize), BTreeSet<usize>>::new();
    for same in places.values() {
        for (n, (first, a)) in same.iter().enumerate() {
            let others = same[n + 1..].iter().filter(|(second, b)| first != second || b - a >= ROW);
            others.for_each(|(second, b)| {
                pairs.entry((*first, *second, *b as isize - *a as isize)).or_default().insert(*a);
            });
        }
    }
    let mut found = Vec::new();
    for ((first, second, distance), rows) in pairs {
        let ((a, left), (b, right)) = (&files[first], &files[second]);
        let key = format!("{} = {}", sources[*a].shown(), sources[*b].shown());
        for (begin, end) in runs(&rows) {
            let other = |at: usize| right[(at as isize + distance) as usize].0;
            let (from, to) = (left[begin].0, left[end].0);
            let what = format!("lines {from} to {to}, and {} to {}", other(begin), other(end));
            found.push(Found { count: end + 1 - begin, ..Found::one(key.clone(), what) });
        }
    }
    found
}

/// Joins rows that overlap. Returns the first and the last line of each run.
fn runs(rows: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in rows {
        match runs.last_mut() {
            Some((_, end)) if *at <= *end + 1 => *end = at + ROW - 1,
            _ => runs.push((*at, at + ROW - 1)),
        }
    }
    runs
}

/// Returns the lines of a file that are compared.
fn code(tree: &Tree, number: usize, source: &Source) -> Vec<Code> {
    let tests = tree.test_lines.get(&number).map_or(&[][..], Vec::as_slice);
    let mut importing = false;
    let mut lines = Vec::new();
    for (line, number) in split(&source.text).into_iter().zip(1..) {
        let text = line.code.split_whitespace().collect::<Vec<_>>().join(" ");
        importing |= text.starts_with("use ") || text.starts_with("pub") && text.contains(" use ");
        let counts = !importing && !text.starts_with("#[") && text.contains(char::is_alphanumeric);
        if importing && text.ends_with(';') {
            importing = false;
        }
        if counts && !tests.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
            lines.push((number, text));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::modules::testing::tree;
    use super::*;

    fn found(a: &str, b: &str) -> Vec<Found> {
        let (tree, sources) = tree(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]);
        check(&tree, &sources)
    }

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("    let a{n} = {n};\n")).collect()
    }

    #[test]
    fn ten_equal_lines_are_seen_whatever_stands_between_and_around() {
        let a = format!("fn f() {{\n{}}}\n", lines(ROW));
        let spaced = lines(ROW).replace(";\n", "; // why\n\n    // More.\n");
        let seen = found(&a, &format!("use crate::a;\nfn g() {{\n    loop {{\n{spaced}}}}}\n"));
        assert_eq!((seen.len(), seen[0].count), (1, ROW), "{seen:?}");
        assert_eq!(seen[0].key, "p: src/a.rs = p: src/b.rs");
        assert_eq!(seen[0].what, "lines 2 to 11, and 4 to 31");
    }

    #[test]
    fn nine_lines_tests_and_imports_are_no_pair() {
        let a = format!("fn f() {{\n{}}}\n", lines(ROW - 1));
        assert_eq!(found(&a, &a.replace("f()", "g()")), []);
        let test = format!("#[cfg(test)]\nmod t {{\n    fn f() {{\n{}    }}\n}}\n", lines(ROW));
        assert_eq!(found(&test, &test), []);
        let uses: String = (0..2 * ROW).map(|n| format!("use std::a{n};\n")).collect();
        assert_eq!(found(&uses, &uses), []);
    }

    #[test]
    fn longer_runs_and_repetitions_in_one_file_are_seen() {
        let a = format!("fn f() {{\n{}}}\n", lines(15));
        let seen = found(&a, &a.replace("f()", "g()"));
        assert_eq!((seen.len(), seen[0].count), (1, 15), "{seen:?}");
        let twice = format!("{a}{}", a.replace("f()", "g()"));
        let seen = found(&twice, "");
        assert_eq!((seen.len(), seen[0].count, seen[0].key.as_str()), (1, 15, "p: src/a.rs = p: src/a.rs"));
    }
}
