//! Pages of documentation: each link leads somewhere, and the book has each page of `docs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::command::{output, root};

/// Folder of the book's pages, and its list of them.
const FOLDER: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// A page: what it links to, and the headings that others may link to.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Returns links that lead nowhere, and pages that the book lacks, as messages.
///
/// # Errors
/// If git fails or a page cannot be read.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let root = root();
    let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let names = output(Command::new("git").current_dir(&root).args(words))?;
    let files: BTreeSet<PathBuf> = names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect();
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "md")) {
        let path = root.join(file);
        // git lists a file that was deleted until that is committed.
        if path.exists() {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            pages.insert(file.clone(), Page::read(&text));
        }
    }
    Ok(wrong(&files, &pages))
}

fn wrong(files: &BTreeSet<PathBuf>, pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, page) in pages {
        for link in &page.links {
            if let Some(why) = fault(file, link, files, pages) {
                wrong.push(format!("pages: {} links to {link}: {why}", file.display()));
            }
        }
    }
    let listed = |summary: &Page| -> BTreeSet<PathBuf> {
        summary.links.iter().map(|link| Path::new(FOLDER).join(link)).collect()
    };
    let listed = pages.get(Path::new(SUMMARY)).map(listed).unwrap_or_default();
    for file in pages.keys().filter(|f| f.starts_with(FOLDER) && *f != Path::new(SUMMARY)) {
        if !listed.contains(file) {
            wrong.push(format!("pages: {SUMMARY} lacks {}", file.display()));
        }
    }
    wrong
}

/// Returns the fault of a link, if it has one. Links to other places of the web are not followed.
fn fault(
    from: &Path,
    link: &str,
    files: &BTreeSet<PathBuf>,
    pages: &BTreeMap<PathBuf, Page>,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => from.to_owned(),
        path => plain(&from.parent().unwrap_or(Path::new("")).join(path)),
    };
    if !files.iter().any(|file| file.starts_with(&target)) {
        return Some("there is no such file");
    }
    let missing = anchor.is_some_and(|a| !pages.get(&target).is_some_and(|page| page.anchors.contains(a)));
    missing.then_some("the page has no such heading")
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors.extend(heading.take().map(|title| anchor(&title)));
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(title) = &mut heading {
                        title.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the anchor of a heading, as GitHub and mdbook make it.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_of(texts: &[(&str, &str)], others: &[&str]) -> Vec<String> {
        let pages: BTreeMap<PathBuf, Page> =
            texts.iter().map(|(name, text)| (PathBuf::from(name), Page::read(text))).collect();
        let files = pages.keys().cloned().chain(others.iter().map(PathBuf::from)).collect();
        wrong(&files, &pages)
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let start = "# A title, `with` code\n[b](docs/b.md#one-two)\n[c](src/lib.rs)\n[d](src)\n[web](https://a.b/c)\n[e](#a-title-with-code)\n";
        let page = "# One two\n[up](../README.md)\n`[no](link)`\n";
        let list = "[b](b.md)\n";
        let texts = [("README.md", start), ("docs/b.md", page), (SUMMARY, list)];
        assert_eq!(wrong_of(&texts, &["src/lib.rs"]), [""; 0]);
        let bad = "[x](docs/c.md)\n[y](docs/b.md#three)\n![z](docs/z.svg)\n";
        let found = wrong_of(&[("README.md", bad), ("docs/b.md", page), (SUMMARY, list)], &[]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("docs/c.md: there is no such file"), "{found:?}");
        assert!(found[1].contains("no such heading") && found[2].contains("docs/z.svg"), "{found:?}");
    }

    #[test]
    fn the_book_has_each_page() {
        let found = wrong_of(
            &[("docs/b.md", ""), ("docs/c.md", ""), (SUMMARY, "[b](b.md)\n"), ("README.md", "")],
            &[],
        );
        assert_eq!(found, [format!("pages: {SUMMARY} lacks docs/c.md")]);
    }
}
