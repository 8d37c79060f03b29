//! Errors that are texts: a caller cannot tell their causes apart.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{GenericArgument, ImplItemFn, Item, ItemMod, Path, PathArguments, PathSegment, Type};

use super::fields::is_test;
use super::found::Found;
use super::modules::{Tree, for_tests};
use super::sources::Source;
use crate::tests::programs::Package;

/// Finds types `Result<_, String>` in the product.
pub(crate) fn check(packages: &[Package], tree: &Tree, sources: &[Source]) -> Vec<Found> {
    // A file can be compiled twice, once for a model.
    let mut places = BTreeSet::new();
    for module in tree.modules.iter().filter(|m| !m.test) {
        let source = &sources[module.source];
        if packages.iter().any(|p| p.product && p.name == source.package) {
            let mut visitor = Texts::default();
            module.items.iter().for_each(|i| visitor.visit_item(i));
            places.extend(visitor.0.into_iter().map(|(line, column)| (module.source, line, column)));
        }
    }
    let found = |(source, line, _): (usize, usize, usize)| {
        let source: &Source = &sources[source];
        Found::one(source.shown(), format!("line {line}")).in_file(source)
    };
    places.into_iter().map(found).collect()
}

/// The lines and columns of such types in a module, without its modules and what is only for tests.
#[derive(Default)]
struct Texts(Vec<(usize, usize)>);

impl<'a> Visit<'a> for Texts {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'a ItemMod) {}

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        if !for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        if let Some(last) = path.segments.last().filter(|last| has_text_for_error(last)) {
            let start = last.ident.span().start();
            self.0.push((start.line, start.column));
        }
        visit::visit_path(self, path);
    }
}

/// Returns true for `Result` with a second argument that is `String`.
fn has_text_for_error(segment: &PathSegment) -> bool {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    segment.ident == "Result"
        && matches!(error, Some(GenericArgument::Type(Type::Path(t)))
            if t.path.segments.last().is_some_and(|s| s.ident == "String"))
}

#[cfg(test)]
mod tests {
    use super::super::modules::testing::tree;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let (tree, sources) = tree(&[("lib.rs", text)]);
        let found = check(&[Package::of("p", "/p", &[])], &tree, &sources);
        assert!(found.iter().all(|f| f.key == "p: src/lib.rs"), "{found:?}");
        found.into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn an_error_that_is_a_text_is_seen() {
        for text in [
            "fn f() -> Result<u8, String> { g() }",
            "fn f() -> Result<Option<Vec<u8>>, String> { g() }",
            "fn f() -> std::result::Result<(), std::string::String> { g() }",
            "type Made<T = ()> = Result<T, String>;",
            "struct S { answer: Option<Result<(), String>> }",
            "enum E { Value(Result<(), String>) }",
            "trait T { fn f(&self, g: &dyn Fn(u8) -> Result<(), String>); }",
            "impl S { fn f(g: impl FnMut() -> Result<(), String>) {} }",
            "fn f() { let _ = g().collect::<Result<Vec<u8>, String>>(); }",
            "mod m { fn f() -> Result<u8, String> { g() } }",
        ] {
            assert_eq!(found(text), ["line 1"], "{text}");
        }
        assert_eq!(found("fn f() -> Result<u8, String> {\n let g: Result<(), String>; }").len(), 2);
    }

    #[test]
    fn other_errors_and_tests_are_not_seen() {
        for text in [
            "fn f() -> Result<String, u8> { g() }",
            "fn f() -> Result<String> { g() }",
            "fn f() -> Map<u8, String> { g() }",
            "fn f() -> Result<(), Vec<String>> { g() }",
            "#[test] fn f() -> Result<u8, String> { g() }",
            "#[cfg(test)] mod m { fn f() -> Result<u8, String> { g() } }",
            "impl S { #[cfg(test)] fn f() -> Result<u8, String> { g() } }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_is_not_of_the_product_may_have_texts() {
        let (tree, sources) = tree(&[("lib.rs", "fn f() -> Result<u8, String> { g() }")]);
        let mut package = Package::of("p", "/p", &[]);
        package.product = false;
        assert_eq!(check(&[package], &tree, &sources), []);
    }
}
