//! Comments: how they begin, and how long lines are (language.md, rules 1 and 6).

use netmod_harness::Rng;

use super::found::Found;
use super::lines::{Line, split};
use super::sources::Source;

/// Columns of a comment line.
const WIDTH: usize = 100;
/// Words that begin a relative or an indirect clause; `Of` and `By` begin what is said before its
/// subject.
const CLAUSES: [&str; 21] = [
    "what",
    "whatever",
    "whether",
    "how",
    "however",
    "when",
    "whenever",
    "where",
    "wherever",
    "which",
    "whichever",
    "who",
    "whoever",
    "whom",
    "whose",
    "why",
    "as",
    "by",
    "of",
    "that",
    "so",
];
/// Words that may stand before such a word.
const PREPOSITIONS: [&str; 20] = [
    "about", "after", "against", "around", "at", "before", "behind", "between", "beyond", "during", "for",
    "from", "in", "into", "on", "through", "to", "under", "until", "with",
];
/// Words that a preposition does not make a clause of.
const PLAIN: [&str; 5] = ["as", "by", "of", "that", "so"];

/// Counts what is wrong with the comments of each package.
pub(crate) fn check(sources: &[Source]) -> Vec<Found> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in long(&source.text) {
            let (columns, line) = (line.chars().count(), line.trim());
            let what = format!("{}:{number}: {columns} columns: {line}", source.shown());
            found.push(Found::one(format!("{}: long lines", source.package), what).in_file(source));
        }
        for block in blocks(&source.text).iter().filter(|b| begins_with_clause(b.first())) {
            let what = format!("{}:{}: {}", source.shown(), block.line, block.first());
            found.push(Found::one(format!("{}: first lines", source.package), what).in_file(source));
        }
        for (number, first) in inner(&source.text).into_iter().filter(|(_, first)| begins_with_clause(first))
        {
            let what = format!("{}:{number}: {first}", source.shown());
            found.push(Found::one(format!("{}: inner comments", source.package), what).in_file(source));
        }
    }
    found
}

/// Lines with a comment that are too long. A line that is mostly code is rustfmt's business.
fn long(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().zip(split(text)).zip(1..);
    let is_long = |line: &str, parts: &Line| parts.comment.is_some() && line.chars().count() > WIDTH;
    lines.filter(|((l, parts), _)| is_long(l, parts)).map(|((line, _), n)| (n, line)).collect()
}

/// A doc comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The number of its first line.
    line: usize,
    lines: Vec<String>,
    /// The first line of code behind it.
    code: String,
}

impl Block {
    fn first(&self) -> &str {
        self.lines.iter().map(|l| l.trim()).find(|l| !l.is_empty()).unwrap_or_default()
    }
}

/// Returns the doc comments of a file.
fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, number) in split(text).iter().zip(1..) {
        match line.doc() {
            Some(doc) if open => found.last_mut().into_iter().for_each(|b| b.lines.push(doc.to_owned())),
            Some(doc) => found.push(Block { line: number, lines: vec![doc.to_owned()], code: String::new() }),
            None => {
                let code = line.code.trim();
                let last = found.last_mut().filter(|b| b.code.is_empty() && !code.starts_with("#["));
                last.into_iter().for_each(|b| b.code = code.to_owned());
            }
        }
        open = line.doc().is_some();
    }
    found
}

/// Returns the first line of each comment that is no doc comment, with its number.
fn inner(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open = false;
    for (line, number) in split(text).iter().zip(1..) {
        let plain = line.comment.as_deref().filter(|_| line.doc().is_none());
        let first = plain.and_then(|c| c.strip_prefix("//")).map(str::trim);
        let alone = line.code.trim().is_empty();
        found.extend(first.filter(|_| !(open && alone)).map(|f| (number, f.to_owned())));
        open = first.is_some() && alone;
    }
    found
}

/// Returns true if a sentence begins with a clause instead of a verb or the name of a thing.
fn begins_with_clause(first: &str) -> bool {
    let words = first.split(|c: char| !c.is_alphanumeric() && c != '\'').map(str::to_lowercase);
    // A code span or a link is a name.
    let mut words = words.take_while(|w| !w.is_empty());
    let Some(word) = words.next() else { return false };
    if CLAUSES.contains(&word.as_str()) {
        return true;
    }
    let second = words.next().unwrap_or_default();
    PREPOSITIONS.contains(&word.as_str())
        && CLAUSES.contains(&second.as_str())
        && !PLAIN.contains(&second.as_str())
}

/// Returns doc comments drawn by chance, each with its place and the line that it describes.
pub(crate) fn sample(sources: &[Source], count: usize, seed: u64) -> String {
    let mut all: Vec<(&Source, Block)> =
        sources.iter().flat_map(|s| blocks(&s.text).into_iter().map(move |b| (s, b))).collect();
    let mut rng = Rng::new(seed);
    let mut out = String::new();
    for number in 1..=count.min(all.len()) {
        let (source, block) = all.swap_remove(rng.below(all.len() as u64) as usize);
        out += &format!("{number}. {}:{}\n", source.shown(), block.line);
        block.lines.iter().for_each(|l| out += &format!("   {}\n", format!("/// {l}").trim_end()));
        out += &format!("   {}\n\n", block.code);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of("a.rs", text)
    }

    #[test]
    fn a_first_line_that_is_a_clause_is_seen() {
        for line in [
            "Whether it was such a one.",
            "How long a rank waits.",
            "What is left.",
            "By how much each nap is longer.",
            "Of those that were in use.",
            "As `poll`, for those who block.",
            "For whom it was.",
            "In which the frames lie.",
        ] {
            let found = check(&[source(&format!("/// {line}\nfn f() {{}}\n"))]);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].key.as_str(), found[0].count), ("p: first lines", 1));
        }
    }

    #[test]
    fn first_lines_that_name_a_thing_or_say_what_is_done_are_right() {
        for line in [
            "Returns true if it was one.",
            "A pool of buffers.",
            "The way that was chosen.",
            "`what` is a name.",
            "[`Whether`] is one, too.",
            "For tests.",
            "In order of arrival.",
            "Whole messages.",
        ] {
            assert_eq!(
                check(&[source(&format!("/// {line}\n/// Which may go on.\nfn f() {{}}\n"))]),
                [],
                "{line}"
            );
        }
    }

    #[test]
    fn an_inner_comment_that_begins_with_a_clause_is_seen() {
        let text =
            "fn f() {\n    // Who waits is woken.\n    // What follows goes on.\n    g(); // As before.\n}\n";
        let found = check(&[source(text)]);
        assert_eq!(found.iter().map(|f| f.key.as_str()).collect::<Vec<_>>(), ["p: inner comments"; 2]);
        for (found, line) in found.iter().zip([2, 4]) {
            assert!(found.what.contains(&format!(":{line}: ")), "{}", found.what);
        }
        let right =
            "/// Names a thing.\n// Threads that wait are woken,\n// who knows.\nlet a = \"// What\";\n";
        assert_eq!(check(&[source(right)]), []);
    }

    #[test]
    fn a_long_comment_line_is_seen() {
        let long = "x".repeat(WIDTH);
        for text in [format!("/// {long}\n"), format!("fn f() {{}} // {long}"), format!("/* {long}\n*/")] {
            let found = check(&[source(&text)]);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].key, "p: long lines");
        }
        assert_eq!(check(&[source(&format!("/// {}\nlet a = \"// {long}\";\n", &long[4..]))]), []);
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed_and_names_places() {
        let text: String = (0..9).map(|n| format!("/// Number {n}.\n#[inline]\nfn f{n}() {{}}\n")).collect();
        let sources = [source(&text)];
        let drawn = sample(&sources, 3, 7);
        assert_eq!(drawn, sample(&sources, 3, 7));
        assert_ne!(drawn, sample(&sources, 3, 8));
        assert_eq!(drawn.matches("p: src/a.rs:").count(), 3, "{drawn}");
        assert_eq!(drawn.matches("() {}").count(), 3, "{drawn}");
        assert_eq!(sample(&sources, 99, 7).matches("Number").count(), 9);
    }
}
