//! The source files that the checks read, and the packages that they belong to.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{output, root};
use crate::tests::programs::{self, Package};

/// Endings of files with code.
const CODE: [&str; 5] = ["rs", "c", "h", "py", "sh"];

/// A file with code.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) package: String,
    /// Below the package's folder, so that the name outlasts a move of it.
    pub(crate) path: String,
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    /// True if it was changed since the last commit.
    pub(crate) changed: bool,
}

impl Source {
    /// Returns the name by which lists and messages call it.
    pub(crate) fn shown(&self) -> String {
        format!("{}: {}", self.package, self.path)
    }

    /// A file in the sources of a package `p`.
    #[cfg(test)]
    pub(crate) fn of(name: &str, text: &str) -> Source {
        let path = format!("src/{name}");
        let file = PathBuf::from("/p").join(&path);
        Source { package: "p".into(), path, file, text: text.into(), changed: false }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Returns all files with code that git knows or would take, sorted, and the packages.
///
/// # Errors
/// If git or cargo fails, or a file cannot be read.
pub(crate) fn all() -> Result<(Vec<Package>, Vec<Source>), String> {
    let packages = programs::packages()?;
    let root = root();
    let git = |words: &[&str]| output(Command::new("git").current_dir(&root).args(words));
    let committed = git(&["ls-tree", "-r", "-z", "--name-only", "HEAD"])?;
    let committed: BTreeSet<&str> = committed.split('\0').collect();
    let edited = git(&["diff", "-z", "--name-only", "HEAD"])?;
    let edited: BTreeSet<&str> = edited.split('\0').collect();
    let mut sources = Vec::new();
    let names = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    for name in names.split('\0').filter(|n| !n.is_empty()) {
        let file = root.join(name);
        let is_code = file.extension().is_some_and(|e| CODE.iter().any(|c| e == *c));
        // A file that was deleted and not committed is still named.
        if !is_code || !file.exists() {
            continue;
        }
        let owner = packages.iter().filter(|p| file.starts_with(&p.folder));
        let owner = owner.max_by_key(|p| p.folder.as_os_str().len());
        let (package, path) = match owner {
            Some(p) => (p.name.clone(), file.strip_prefix(&p.folder).unwrap_or(&file)),
            None => ("no package".to_owned(), file.strip_prefix(&root).unwrap_or(&file)),
        };
        let path = path.to_string_lossy().into_owned();
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let changed = edited.contains(name) || !committed.contains(name);
        sources.push(Source { package, path, file, text, changed });
    }
    sources.sort_by(|a, b| (&a.package, &a.path).cmp(&(&b.package, &b.path)));
    Ok((packages, sources))
}
