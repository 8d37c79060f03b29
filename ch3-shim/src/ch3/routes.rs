//! Routes: the netmod of a VC, the reason for it and the peer's host. VCs share equal routes.

use std::collections::HashSet;
use std::sync::Arc;

use netmod_core::Card;

use crate::netset::Chosen;

/// The route to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Route {
    /// The reason for the choice of the VC's netmod.
    pub choice: Box<str>,
    /// The peer's netmods in its order of preference, if its card was needed.
    pub order: Option<Box<str>>,
    /// The peer's host, if its card was needed.
    pub host: Option<Box<str>>,
}

impl Route {
    /// Makes the route to the process with this card.
    pub(super) fn of(chosen: Chosen, card: &Card) -> Route {
        Route {
            choice: chosen.why.into(),
            order: Some(chosen.order.into()),
            host: host_of(card).map(Into::into),
        }
    }
}

/// Returns the host that a business card routes.
pub(super) fn host_of(card: &Card) -> Option<String> {
    let node = card.node().ok()?;
    (!node.hostname.is_empty()).then_some(node.hostname)
}

/// The routes in use.
#[derive(Debug, Default)]
pub(crate) struct Routes(HashSet<Arc<Route>>);

impl Routes {
    /// Returns the shared copy of a route.
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
        let mut routes = Routes::default();
        let route = |choice: &str, host: Option<&str>| Route {
            choice: choice.into(),
            host: host.map(Into::into),
            order: None,
        };
        let mut to = |host: &str| routes.shared(route("tcp", Some(host)));
        let a = to("node1");
        assert!(Arc::ptr_eq(&a, &to("node1")));
        assert!(!Arc::ptr_eq(&a, &to("node2")));
        for i in 0..1000 {
            to(&format!("left{i}"));
        }
        assert!(Arc::ptr_eq(&a, &to("node1")));
        assert!(!Arc::ptr_eq(&a, &routes.shared(route("tcp", None))));
        assert!(!Arc::ptr_eq(&a, &routes.shared(route("shm", Some("node1")))));
        assert!(routes.0.len() < 100, "{}", routes.0.len());
    }
}
