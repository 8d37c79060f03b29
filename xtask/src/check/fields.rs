//! Structs with many fields: most own more than one thing.

use syn::Item;

use super::found::Found;
use super::modules::{Tree, attributes, for_tests};
use super::sources::Source;
use crate::tests::programs::Package;

/// Fields of a struct that owns one thing.
const FIELDS: usize = 16;

/// Finds structs of the product that have too many fields.
pub(crate) fn check(packages: &[Package], tree: &Tree, sources: &[Source]) -> Vec<Found> {
    let mut found = Vec::new();
    for (at, module) in tree.modules.iter().enumerate().filter(|(_, m)| !m.test) {
        let source = &sources[module.source];
        if !packages.iter().any(|p| p.product && p.name == source.package) {
            continue;
        }
        for item in &module.items {
            if let Item::Struct(item) = item {
                let count = item.fields.len();
                if count > FIELDS && !for_tests(&item.attrs) {
                    let key = format!("{}: {}{}", source.package, tree.name(at), item.ident);
                    found.push(Found { count, ..Found::one(key, source.shown()) });
                }
            }
        }
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found.dedup();
    found
}

/// Returns true if an item is only compiled for tests.
pub(crate) fn is_test(item: &Item) -> bool {
    for_tests(attributes(item))
}

#[cfg(test)]
mod tests {
    use super::super::modules::testing::tree;
    use super::*;

    fn found(fields: usize, before: &str) -> Vec<Found> {
        let fields: String = (0..fields).map(|n| format!("f{n}: u8, ")).collect();
        let text = format!("mod a {{ {before} struct Large {{ {fields} }} }}");
        let (tree, sources) = tree(&[("lib.rs", &text)]);
        check(&[Package::of("p", "/p", &[])], &tree, &sources)
    }

    #[test]
    fn a_struct_with_too_many_fields_is_seen() {
        assert_eq!(found(FIELDS, ""), []);
        let seen = found(FIELDS + 1, "");
        assert_eq!((seen.len(), seen[0].count, seen[0].key.as_str()), (1, 17, "p: a::Large"));
        assert_eq!(found(FIELDS + 1, "#[cfg(test)]"), []);
    }
}
