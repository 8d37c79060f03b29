//! The routes to peers whose VCs were made and not used yet.

use std::collections::VecDeque;

use netmod_core::VcId;

use crate::route::Routes;

/// VCs whose routes are kept until their first use.
const FRESH: usize = 64;

/// Routes to the peers of the VCs that were made last and not used yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fresh(VecDeque<(VcId, Routes)>);

impl Fresh {
    pub(crate) fn put(&mut self, vc: VcId, routes: Routes) {
        if self.0.len() >= FRESH {
            self.0.pop_front();
        }
        self.0.push_back((vc, routes));
    }

    /// Removes and returns the routes of a VC, unless later ones have taken their place.
    pub(crate) fn take(&mut self, vc: VcId) -> Option<Routes> {
        let at = self.0.iter().rposition(|(v, _)| *v == vc)?;
        self.0.remove(at).map(|(_, routes)| routes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::route::Paired;

    fn vc(n: usize) -> VcId {
        VcId::from_wire(n as u64 | 1 << 32)
    }

    fn address(n: usize) -> Routes {
        Routes { paired: Arc::new(Paired::only([127, 0, 0, 1].into())), port: n as u16 }
    }

    #[test]
    fn the_addresses_of_the_vcs_made_last_are_kept_and_no_others() {
        let mut fresh = Fresh::default();
        for n in 0..1000 {
            fresh.put(vc(n), address(n));
            assert!(fresh.0.len() <= FRESH);
        }
        assert_eq!(fresh.take(vc(1000 - FRESH - 1)), None);
        for n in [1000 - FRESH, 999, 970] {
            assert_eq!(fresh.take(vc(n)), Some(address(n)));
            assert_eq!(fresh.take(vc(n)), None, "taken once");
        }
        // The same place in the table, another VC.
        assert_eq!(fresh.take(VcId::from_wire(971 | 3 << 32)), None);
    }
}
