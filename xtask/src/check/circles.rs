//! Imports between the files of a crate that go round in a circle.
//!
//! An import is a path with `crate`, `self` or `super`, followed through `use` to the file that has
//! the item. A parent and its child may import from each other; so imports between these two count
//! for no circle.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, ItemFn, ItemMod, ItemUse, UseTree};

use super::fields::is_test;
use super::found::Found;
use super::modules::{Tree, for_tests};
use super::sources::Source;

/// Uses of uses that are followed.
const DEPTH: usize = 8;

/// Finds the imports that are part of a circle.
pub(crate) fn check(tree: &Tree, sources: &[Source]) -> Vec<Found> {
    let mut edges = BTreeMap::<usize, BTreeSet<usize>>::new();
    let names = Names::new(tree);
    for (at, module) in tree.modules.iter().enumerate().filter(|(_, m)| !m.test) {
        for path in paths(&module.items) {
            let Some(to) = names.resolve(at, &path, DEPTH).map(|to| tree.modules[to].source) else {
                continue;
            };
            if to != module.source {
                edges.entry(module.source).or_default().insert(to);
            }
        }
    }
    let related = related(tree);
    for (from, to) in &mut edges {
        to.retain(|to| !related.contains(&(*from, *to)));
    }
    let mut found = Vec::new();
    for (from, to) in edges.iter().flat_map(|(from, to)| to.iter().map(|to| (*from, *to))) {
        if reaches(&edges, to, from) {
            let key = format!("{} -> {}", sources[from].shown(), sources[to].path);
            found.push(Found::one(key, "it leads back there".into()));
        }
    }
    found
}

/// Pairs of files of which one has the modules of the other.
fn related(tree: &Tree) -> BTreeSet<(usize, usize)> {
    let mut pairs = BTreeSet::new();
    for module in &tree.modules {
        let parent = tree.modules[module.parent].source;
        pairs.extend([(parent, module.source), (module.source, parent)]);
    }
    pairs
}

fn reaches(edges: &BTreeMap<usize, BTreeSet<usize>>, from: usize, goal: usize) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = open.pop() {
        if at == goal {
            return true;
        }
        open.extend(edges.get(&at).into_iter().flatten().filter(|to| seen.insert(**to)));
    }
    false
}

/// A path, and the name that it has where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Import {
    path: Vec<String>,
    /// Nothing for `*`.
    name: Option<String>,
}

/// Imports and definitions of the modules.
struct Names<'a> {
    tree: &'a Tree,
    imports: Vec<Vec<Import>>,
    defined: Vec<BTreeSet<String>>,
}

impl Names<'_> {
    fn new(tree: &Tree) -> Names<'_> {
        let imports = tree.modules.iter().map(|m| {
            let uses = m.items.iter().filter_map(|i| match i {
                Item::Use(item) => Some(imports(item)),
                _ => None,
            });
            uses.flatten().collect()
        });
        let defined = tree.modules.iter().map(|m| m.items.iter().filter_map(name).collect());
        Names { tree, imports: imports.collect(), defined: defined.collect() }
    }

    /// Returns the module that has what a path names.
    fn resolve(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        let modules = &self.tree.modules;
        let mut here = at;
        for (number, name) in path.iter().enumerate() {
            here = match name.as_str() {
                "crate" => self.tree.root(here),
                "self" => here,
                "super" => modules[here].parent,
                name => match modules[here].children.get(name) {
                    Some(child) => *child,
                    None if number == 0 => return None,
                    None if self.defined[here].contains(name) || depth == 0 => return Some(here),
                    None => {
                        return Some(self.imported(here, name, &path[number + 1..], depth).unwrap_or(here));
                    }
                },
            };
        }
        Some(here)
    }

    /// Follows the `use` of a module that brings a name, and what stands behind the name.
    fn imported(&self, at: usize, name: &str, rest: &[String], depth: usize) -> Option<usize> {
        let named = self.imports[at].iter().find(|i| i.name.as_deref() == Some(name));
        if let Some(import) = named {
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.resolve(at, &path, depth - 1);
        }
        let all = self.imports[at].iter().filter(|i| i.name.is_none());
        let mut modules = all.filter_map(|i| self.resolve(at, &i.path, depth - 1)).filter(|m| *m != at);
        modules.find(|m| self.defined[*m].contains(name))
    }
}

/// Returns the name of an item.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() && !for_tests(&item.attrs) {
        leaves(&item.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn leaves(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<Import>) {
    let mut leaf = |path: String, name: Option<String>| {
        let mut whole = before.clone();
        whole.extend((path != "self" || before.is_empty()).then_some(path));
        found.push(Import { path: whole, name });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, found);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => leaf("self".into(), before.last().cloned()),
        UseTree::Name(name) => leaf(name.ident.to_string(), Some(name.ident.to_string())),
        UseTree::Rename(name) => leaf(name.ident.to_string(), Some(name.rename.to_string())),
        UseTree::Glob(_) => found.push(Import { path: before.clone(), name: None }),
        UseTree::Group(group) => group.items.iter().for_each(|t| leaves(t, before, found)),
    }
}

/// All paths in the items of a module, without those of its modules and of what is only for tests.
fn paths(items: &[Item]) -> Vec<Vec<String>> {
    let mut visitor = Paths::default();
    items.iter().for_each(|i| visitor.visit_item(i));
    visitor.0
}

#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'a ItemMod) {}

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        visit::visit_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.0.extend(imports(item).into_iter().map(|i| i.path));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let is_ours = matches!(names.first().map(String::as_str), Some("crate" | "self" | "super"));
        if is_ours && names.len() > 1 {
            self.0.push(names);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules::testing::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let (tree, sources) = tree(files);
        check(&tree, &sources).into_iter().map(|f| f.key).collect()
    }

    #[test]
    fn two_files_that_import_from_each_other_are_seen() {
        let lib = ("lib.rs", "mod a; mod b;");
        let both = ["p: src/a.rs -> src/b.rs", "p: src/b.rs -> src/a.rs"];
        let a = ("a.rs", "use crate::b::B; pub struct A;");
        assert_eq!(found(&[lib, a, ("b.rs", "use super::a::{self, A}; pub struct B;")]), both);
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B; fn f() -> crate::a::A { todo() }")]), both);
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B;")]), [""; 0]);
        assert_eq!(
            found(&[lib, a, ("b.rs", "pub struct B; #[cfg(test)] mod t { use crate::a::A; }")]),
            [""; 0]
        );
    }

    #[test]
    fn a_name_is_followed_to_the_file_that_has_it() {
        let b = ("b.rs", "use crate::{A, other}; pub struct B;");
        for lib in ["mod a; mod b; pub use a::A;", "mod a; mod b; pub use a::*;"] {
            let a = ("a.rs", "use super::b::B; pub struct A;");
            assert_eq!(found(&[("lib.rs", lib), a, b]).len(), 2, "{lib}");
        }
        let own = ("lib.rs", "mod a; mod b; pub struct A;");
        assert_eq!(found(&[own, ("a.rs", "use super::b::B;"), b]), [""; 0]);
    }

    #[test]
    fn a_parent_and_its_child_may_import_from_each_other() {
        let a = ("a/mod.rs", "mod c; use c::C; pub struct A;");
        let c = ("a/c.rs", "use super::A; pub struct C;");
        assert_eq!(found(&[("lib.rs", "mod a;"), a, c]), [""; 0]);
    }

    #[test]
    fn longer_circles_are_seen() {
        let lib = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a.rs", "use crate::b::B; pub struct A;");
        let b = ("b.rs", "use crate::c::C; pub struct B;");
        assert_eq!(found(&[lib, a, b, ("c.rs", "use crate::a::A as X; pub struct C;")]).len(), 3);
    }
}
