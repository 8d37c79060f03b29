//! Variables of the tests: `docs/testing.md` names all, and no others.

use std::collections::BTreeSet;

use super::sources::Source;
use crate::command::root;

/// Prefix of the variables.
const PREFIX: &str = "NETMOD_TEST_";
/// The page that names them.
const PAGE: &str = "docs/testing.md";

/// Returns what the page lacks, and what it names without need, as messages.
///
/// # Errors
/// If the page cannot be read.
pub(crate) fn check(sources: &[Source]) -> Result<Vec<String>, String> {
    let page = std::fs::read_to_string(root().join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
    Ok(compare(&page, sources))
}

fn compare(page: &str, sources: &[Source]) -> Vec<String> {
    let documented = names(page);
    let used: BTreeSet<&str> = sources.iter().flat_map(|s| names(&s.text)).collect();
    let missing = used.difference(&documented).map(|name| format!("variables: {PAGE} lacks {name}"));
    let unused =
        documented.difference(&used).map(|name| format!("variables: nothing reads {name} of {PAGE}"));
    missing.chain(unused).collect()
}

/// Returns the names in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices(PREFIX).map(|(at, _)| &text[at..]);
    let name = |rest: &'_ str| rest.bytes().take_while(|b| b.is_ascii_uppercase() || *b == b'_').count();
    // The prefix alone names no variable.
    starts.map(|rest| &rest[..name(rest)]).filter(|name| name.len() > PREFIX.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_in_the_code_and_on_the_page() {
        let name = |end: &str| format!("{PREFIX}{end}");
        let source = |end: &str| Source::of("a.rs", &format!("const A: &str = \"{}\";", name(end)));
        let page = format!("| `{}` |\nOthers begin with {PREFIX}*", name("A_B"));
        assert_eq!(compare(&page, &[source("A_B"), source("A_B")]), [""; 0]);
        let found = compare(&page, &[source("A")]);
        let (lacks, unused) = (format!("lacks {}", name("A")), format!("nothing reads {} of", name("A_B")));
        assert!(found[0].ends_with(&lacks) && found[1].contains(&unused), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}
