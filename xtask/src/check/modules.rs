//! The modules of the workspace's libraries and programs, as the compiler finds their files.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use syn::{Attribute, Item, ItemMod, Meta};

use super::sources::Source;
use crate::tests::programs::Package;

/// A module: a file, or a part of one.
pub(crate) struct Module {
    /// Its place in the sources.
    pub(crate) source: usize,
    /// Its place among the modules is the parent's; that of a crate is its own.
    pub(crate) parent: usize,
    /// Names from the crate on, without it.
    pub(crate) path: Vec<String>,
    /// True if it is only compiled for tests.
    pub(crate) test: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) children: HashMap<String, usize>,
}

/// All modules of all crates.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
    /// Ranges of lines that are compiled for tests only, by source.
    pub(crate) test_lines: HashMap<usize, Vec<(usize, usize)>>,
    by_file: HashMap<PathBuf, usize>,
}

impl Tree {
    /// Reads the libraries and programs of the packages.
    ///
    /// # Errors
    /// If a file is no Rust, or the file of a module is not there.
    pub(crate) fn read(packages: &[Package], sources: &[Source]) -> Result<Tree, String> {
        let by_file = sources.iter().enumerate().map(|(i, s)| (s.file.clone(), i)).collect();
        let mut tree = Tree { by_file, ..Tree::default() };
        for root in packages.iter().flat_map(|p| &p.roots) {
            let source = tree.source(root)?;
            let at = tree.modules.len();
            let folder = root.parent().unwrap_or(Path::new(".")).to_owned();
            tree.add(sources, source, at, Vec::new(), false, &folder)?;
        }
        Ok(tree)
    }

    fn source(&self, file: &Path) -> Result<usize, String> {
        self.by_file.get(file).copied().ok_or_else(|| format!("git does not know {}", file.display()))
    }

    /// Adds a file and its modules. `folder` is where those of its children lie.
    fn add(
        &mut self,
        sources: &[Source],
        source: usize,
        parent: usize,
        path: Vec<String>,
        test: bool,
        folder: &Path,
    ) -> Result<usize, String> {
        let file = syn::parse_file(&sources[source].text)
            .map_err(|e| format!("{}:{}: {e}", sources[source].shown(), e.span().start().line))?;
        let module = Module { source, parent, path, test, items: file.items, children: HashMap::new() };
        self.add_module(sources, module, folder)
    }

    fn add_module(&mut self, sources: &[Source], module: Module, folder: &Path) -> Result<usize, String> {
        let at = self.modules.len();
        let (source, test, path) = (module.source, module.test, module.path.clone());
        let declared: Vec<ItemMod> = module.items.iter().filter_map(as_module).cloned().collect();
        self.modules.push(module);
        for mut child in declared {
            let name = child.ident.to_string();
            let is_test = test || for_tests(&child.attrs);
            let path = path.iter().cloned().chain([name.clone()]).collect();
            let inside = folder.join(&name);
            let added = match child.content.take() {
                Some((braces, items)) => {
                    if is_test && !test {
                        let lines = (child.mod_token.span.start().line, braces.span.close().end().line);
                        self.test_lines.entry(source).or_default().push(lines);
                    }
                    let module =
                        Module { source, parent: at, path, test: is_test, items, children: HashMap::new() };
                    self.add_module(sources, module, &inside)?
                }
                None => {
                    let (file, folder) = self.file_of(&sources[source].file, folder, &child)?;
                    let source = self.source(&file)?;
                    self.add(sources, source, at, path, is_test, &folder)?
                }
            };
            self.modules[at].children.insert(name, added);
        }
        Ok(at)
    }

    /// Returns the file of a module, and the folder of its children.
    fn file_of(&self, parent: &Path, folder: &Path, child: &ItemMod) -> Result<(PathBuf, PathBuf), String> {
        if let Some(path) = path_attribute(&child.attrs) {
            let file = without_dots(&parent.parent().unwrap_or(Path::new(".")).join(path));
            let inside = file.parent().unwrap_or(Path::new(".")).to_owned();
            return Ok((file, inside));
        }
        let name = child.ident.to_string();
        let inside = folder.join(&name);
        [folder.join(format!("{name}.rs")), inside.join("mod.rs")]
            .into_iter()
            .find(|f| self.by_file.contains_key(f))
            .map(|file| (file, inside))
            .ok_or_else(|| format!("{}: the module {name} has no file", parent.display()))
    }

    /// Returns the crate of a module.
    pub(crate) fn root(&self, mut at: usize) -> usize {
        while self.modules[at].parent != at {
            at = self.modules[at].parent;
        }
        at
    }

    /// Returns the name of a module in code.
    pub(crate) fn name(&self, at: usize) -> String {
        self.modules[at].path.iter().map(|p| format!("{p}::")).collect()
    }

    /// Returns true if a whole file is only compiled for tests, or belongs to no library or
    /// program.
    pub(crate) fn is_test_file(&self, source: usize) -> bool {
        // A file can be compiled twice, once for a model.
        self.modules.iter().filter(|m| m.source == source).all(|m| m.test)
    }
}

fn as_module(item: &Item) -> Option<&ItemMod> {
    match item {
        Item::Mod(module) => Some(module),
        _ => None,
    }
}

/// Returns the path without `..`, as git names files.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

fn path_attribute(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().find(|a| a.path().is_ident("path")).and_then(|a| match &a.meta {
        Meta::NameValue(pair) => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Returns true if attributes leave something out of all builds but those of tests.
pub(crate) fn for_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| match &a.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            words.contains(&"test") && !words.contains(&"not")
        }
        _ => false,
    })
}

/// Returns the attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A package `p` of these files, named below its folder `src`, and its modules.
    pub(crate) fn tree(files: &[(&str, &str)]) -> (Tree, Vec<Source>) {
        let sources: Vec<Source> = files.iter().map(|(name, text)| Source::of(name, text)).collect();
        let package = Package::of("p", "/p", &["/p/src/lib.rs"]);
        (Tree::read(&[package], &sources).expect("sound sources"), sources)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::tree;
    use super::*;

    #[test]
    fn files_of_modules_are_found_as_the_compiler_does() {
        let (tree, sources) = tree(&[
            ("lib.rs", "mod a; mod b { mod c; } #[cfg(test)] mod t; #[path = \"a/../x/y.rs\"] mod d;"),
            ("a/mod.rs", "mod e;"),
            ("a/e.rs", ""),
            ("b/c.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"),
            ("t.rs", "mod u;"),
            ("t/u.rs", ""),
            ("x/y.rs", "mod z;"),
            ("x/z.rs", ""),
        ]);
        let found: Vec<_> = tree
            .modules
            .iter()
            .map(|m| (m.path.join("::"), sources[m.source].path.as_str(), m.test))
            .collect();
        assert_eq!(
            found,
            [
                ("".into(), "src/lib.rs", false),
                ("a".into(), "src/a/mod.rs", false),
                ("a::e".into(), "src/a/e.rs", false),
                ("b".into(), "src/lib.rs", false),
                ("b::c".into(), "src/b/c.rs", false),
                ("b::c::tests".into(), "src/b/c.rs", true),
                ("t".into(), "src/t.rs", true),
                ("t::u".into(), "src/t/u.rs", true),
                ("d".into(), "src/x/y.rs", false),
                ("d::z".into(), "src/x/z.rs", false),
            ]
        );
        assert_eq!(tree.test_lines[&3], [(3, 5)]);
        assert!(tree.is_test_file(4) && !tree.is_test_file(3));
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let sources = [Source::of("lib.rs", "mod missing;")];
        assert!(Tree::read(&[Package::of("p", "/p", &["/p/src/lib.rs"])], &sources).is_err());
    }
}
