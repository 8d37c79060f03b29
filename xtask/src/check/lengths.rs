//! Lengths of files.

use super::found::Found;
use super::sources::Source;

/// Lines of a file with one concern.
const LINES: usize = 600;

/// Finds files that are too long.
pub(crate) fn check(sources: &[Source]) -> Vec<Found> {
    let lengths = sources.iter().map(|s| (s, s.text.lines().count())).filter(|(_, n)| *n > LINES);
    lengths.map(|(s, count)| Found { count, ..Found::one(s.shown(), "its lines".into()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_seen() {
        let source = |lines| Source::of("a.rs", &"fn f() {}\n".repeat(lines));
        assert_eq!(check(&[source(LINES)]), []);
        let found = check(&[source(LINES + 1)]);
        assert_eq!((found.len(), found[0].count, found[0].key.as_str()), (1, 601, "p: src/a.rs"));
    }
}
