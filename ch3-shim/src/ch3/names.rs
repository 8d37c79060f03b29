//! What many VCs have in common, such as their hosts' names: each is held once.

use std::collections::HashSet;
use std::sync::Arc;

/// The way to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Route {
    /// Why its VC has the netmod it has.
    pub choice: Box<str>,
    /// The peer's netmods in its order of preference, if its card was needed.
    pub order: Option<Box<str>>,
    /// The peer's host, if its card was needed.
    pub host: Option<Box<str>>,
}

/// The routes in use.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Arc<Route>>);

impl Names {
    /// The one copy of a route.
    pub(crate) fn shared(&mut self, route: Route) -> Arc<Route> {
        if let Some(known) = self.0.get(&route) {
            return known.clone();
        }
        if self.0.len() == self.0.capacity() {
            self.0.retain(|t| Arc::strong_count(t) > 1);
        }
        let new = Arc::new(route);
        self.0.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_routes_are_held_once_and_unused_ones_not_for_ever() {
        let mut names = Names::default();
        let route = |choice: &str, host: Option<&str>| Route {
            choice: choice.into(),
            host: host.map(Into::into),
            order: None,
        };
        let mut to = |host: &str| names.shared(route("tcp", Some(host)));
        let a = to("node1");
        assert!(Arc::ptr_eq(&a, &to("node1")));
        assert!(!Arc::ptr_eq(&a, &to("node2")));
        for i in 0..1000 {
            to(&format!("left{i}"));
        }
        assert!(Arc::ptr_eq(&a, &to("node1")));
        assert!(!Arc::ptr_eq(&a, &names.shared(route("tcp", None))));
        assert!(!Arc::ptr_eq(&a, &names.shared(route("shm", Some("node1")))));
        assert!(names.0.len() < 100, "{}", names.0.len());
    }
}
