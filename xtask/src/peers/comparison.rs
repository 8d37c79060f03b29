//! Comparisons of their own, each of which a word of the filter chooses.

use super::distance::Distance;
use super::rounds::Programs;
use crate::progress::Progress;

/// A table of its own, over shared memory, whose rows are judged.
pub(crate) trait Comparison {
    /// Returns the word that chooses it.
    fn name(&self) -> &'static str;

    /// Returns the title of its page.
    fn title(&self) -> &'static str;

    /// Returns the legend of the table.
    fn note(&self) -> &'static str;

    /// Returns the name of its page, without the ending.
    fn page(&self, date: &str) -> String {
        format!("programs-{date}-{}", self.name())
    }

    /// Returns the number of parts of a round.
    fn parts(&self) -> usize;

    /// Runs all libraries in turn, and adds a run.
    ///
    /// # Errors
    /// If a library fails that has to have results.
    fn measure(&mut self, programs: &Programs, rounds: usize, progress: &mut Progress) -> Result<(), String>;

    /// Returns the distances between the cores, and what each of them is of.
    fn distances(&self) -> (&[Distance], &'static str);

    /// Returns the table in Markdown.
    fn markdown(&self) -> String;

    /// Returns lines that sum the verdicts up.
    fn sums(&self) -> Vec<String>;

    /// Returns the rows as objects of JSON, one a line.
    fn json(&self) -> Vec<String>;

    /// Returns its pictures. `date` is in their titles.
    fn pictures(&self, _date: &str) -> Vec<Picture> {
        Vec::new()
    }
}

/// A picture of a page.
#[derive(Debug)]
pub(crate) struct Picture {
    /// End of its name, such as "-2"; empty for the only one.
    pub(crate) ending: String,
    pub(crate) about: String,
    pub(crate) svg: String,
}

/// Returns the text, in small letters, that names of a comparison's rows have to have: an empty one
/// without a filter or with the comparison's name, TEXT with "NAME:TEXT", and none for another's.
pub(crate) fn text_of(filter: &str, name: &str) -> Option<String> {
    if filter.is_empty() {
        return Some(String::new());
    }
    let text = filter.strip_prefix(name)?;
    Some(text.strip_prefix(':').unwrap_or(text).to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_name_and_a_text() {
        assert_eq!(text_of("", "windows").as_deref(), Some(""));
        assert_eq!(text_of("windows", "windows").as_deref(), Some(""));
        assert_eq!(text_of("windows:Put", "windows").as_deref(), Some("put"));
        assert_eq!(text_of("ping", "windows"), None);
    }
}
