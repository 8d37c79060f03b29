//! Texts that many VCs have in common, such as their hosts' names: each is held once.

use std::collections::HashSet;
use std::sync::Arc;

/// The texts in use.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    /// The one copy of a text.
    pub(crate) fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() == self.0.capacity() {
            self.0.retain(|t| Arc::strong_count(t) > 1);
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_held_once_and_unused_ones_not_for_ever() {
        let mut names = Names::default();
        let a = names.shared("node1");
        assert!(Arc::ptr_eq(&a, &names.shared("node1")));
        assert!(!Arc::ptr_eq(&a, &names.shared("node2")));
        for i in 0..1000 {
            names.shared(&format!("left{i}"));
        }
        assert!(names.0.len() < 100, "{}", names.0.len());
        assert!(Arc::ptr_eq(&a, &names.shared("node1")));
    }
}
