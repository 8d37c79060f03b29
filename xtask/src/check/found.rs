//! Findings of a check, and the lists of those that are allowed.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::sources::Source;

/// Something that a check finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Name on the list of allowed findings.
    pub(crate) key: String,
    /// Count; findings with the same key are added up.
    pub(crate) count: usize,
    /// Location, for a reader.
    pub(crate) what: String,
    /// True if its file was changed since the last commit: of many findings the new one is there.
    pub(crate) changed: bool,
}

/// Findings of one key that are shown.
const SHOWN: usize = 20;

impl Found {
    pub(crate) fn one(key: String, what: String) -> Found {
        Found { key, count: 1, what, changed: false }
    }

    pub(crate) fn in_file(self, source: &Source) -> Found {
        Found { changed: source.changed, ..self }
    }
}

/// A list of what is allowed: one line for each key, with its count and the reason, and tabs
/// between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed(BTreeMap<String, (usize, String)>);

impl Allowed {
    /// Reads a list.
    ///
    /// # Errors
    /// If a line has another form, no reason, or a key that another line has.
    pub(crate) fn parse(text: &str) -> Result<Allowed, String> {
        let mut allowed = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let strange =
                || format!("line {number}: {line:?}: want key, count and reason, with tabs between them");
            let [key, count, reason] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(strange());
            };
            let count = count.parse().ok().filter(|n| *n > 0).ok_or_else(strange)?;
            if reason.trim().is_empty() {
                return Err(strange());
            }
            if allowed.insert(key.to_owned(), (count, reason.to_owned())).is_some() {
                return Err(format!("line {number}: {key} stands there twice"));
            }
        }
        Ok(Allowed(allowed))
    }

    /// The list as a file, with what stands at the head of it.
    pub(crate) fn text(&self, head: &str) -> String {
        let mut out: String = head.lines().map(|l| format!("# {l}\n")).collect();
        for (key, (count, reason)) in &self.0 {
            let _ = writeln!(out, "{key}\t{count}\t{reason}");
        }
        out
    }

    /// Returns what is found and not allowed, and what is allowed and not found any more, in words.
    pub(crate) fn compare(&self, found: &[Found]) -> (Vec<String>, Vec<String>) {
        let counts = sums(found);
        let (mut new, mut gone) = (Vec::new(), Vec::new());
        for (key, count) in &counts {
            let most = self.0.get(*key).map_or(0, |(n, _)| *n);
            if *count > most {
                new.push(format!("{key}: {count}, and {most} are allowed"));
                let mut of: Vec<&Found> = found.iter().filter(|f| f.key == **key).collect();
                of.sort_by_key(|f| !f.changed);
                new.extend(of.iter().take(SHOWN).map(|f| format!("  {}", f.what)));
                new.extend((of.len() > SHOWN).then(|| format!("  and {} more", of.len() - SHOWN)));
            }
        }
        for (key, (most, _)) in &self.0 {
            let count = counts.get(key.as_str()).copied().unwrap_or(0);
            if count < *most {
                gone.push(format!("{key}: {count}, though {most} are allowed"));
            }
        }
        (new, gone)
    }

    /// Takes out what is found no more.
    pub(crate) fn shrink(&mut self, found: &[Found]) {
        let counts = sums(found);
        for (key, (most, _)) in &mut self.0 {
            *most = (*most).min(counts.get(key.as_str()).copied().unwrap_or(0));
        }
        self.0.retain(|_, (most, _)| *most > 0);
    }

    /// Allows what is found, for a reason.
    pub(crate) fn accept(&mut self, found: &[Found], reason: &str) {
        for (key, count) in sums(found) {
            let (most, why) = self.0.entry(key.to_owned()).or_insert((0, reason.to_owned()));
            if count > *most {
                (*most, *why) = (count, reason.to_owned());
            }
        }
    }
}

fn sums(found: &[Found]) -> BTreeMap<&str, usize> {
    let mut sums = BTreeMap::new();
    found.iter().for_each(|f| *sums.entry(f.key.as_str()).or_default() += f.count);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str, count: usize) -> Found {
        Found { key: key.into(), count, what: "here".into(), changed: false }
    }

    #[test]
    fn what_is_new_and_what_is_gone_is_told() {
        let allowed = Allowed::parse("# head\na\t2\twhy\nb\t1\twhy\n").expect("a list");
        let (new, gone) = allowed.compare(&[found("a", 1), found("a", 2), found("c", 1)]);
        assert_eq!(new, ["a: 3, and 2 are allowed", "  here", "  here", "c: 1, and 0 are allowed", "  here"]);
        assert_eq!(gone, ["b: 0, though 1 are allowed"]);
        assert_eq!(allowed.compare(&[found("a", 2), found("b", 1)]), (vec![], vec![]));
    }

    #[test]
    fn of_many_findings_those_in_changed_files_are_shown_first() {
        let mut many: Vec<Found> = (0..SHOWN + 5).map(|n| Found::one("a".into(), format!("{n}"))).collect();
        many[SHOWN + 2].changed = true;
        let (new, _) = Allowed::default().compare(&many);
        assert_eq!(new.len(), SHOWN + 2);
        assert_eq!((new[1].as_str(), new[SHOWN + 1].as_str()), ("  22", "  and 5 more"));
    }

    #[test]
    fn a_list_shrinks_and_grows_only_as_it_is_told() {
        let mut allowed = Allowed::parse("a\t2\twhy\nb\t1\twhy\n").expect("a list");
        allowed.shrink(&[found("a", 1), found("c", 1)]);
        assert_eq!(allowed.text("head"), "# head\na\t1\twhy\n");
        allowed.accept(&[found("a", 1), found("c", 4)], "because");
        assert_eq!(allowed.text("head"), "# head\na\t1\twhy\nc\t4\tbecause\n");
    }

    #[test]
    fn a_line_without_a_reason_is_an_error() {
        for text in ["a\t1\t \n", "a\t1\n", "a\tx\twhy\n", "a\t0\twhy\n", "a\t1\twhy\na\t1\twhy\n"] {
            assert!(Allowed::parse(text).is_err(), "{text:?}");
        }
    }
}
