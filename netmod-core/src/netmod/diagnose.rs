//! Diagnosis: human-readable descriptions, and faults on demand.

use crate::slab::VcId;
use crate::state::Core;

/// Human-readable descriptions, and faults on demand.
pub trait Diagnose {
    /// Returns why the netmod has opened nothing and so reaches no peer.
    ///
    /// `None` if it has opened something, or if there is no peer to reach.
    fn failure(&self) -> Option<&str>;

    /// Describes in one line what the netmod has opened, or why nothing.
    fn opened(&self) -> String;

    /// Describes this VC in one line for debugging (connection, interface, queue).
    fn describe(&self, core: &Core, vc: VcId) -> String;

    /// Breaks the connection of the VC, if there is one, as if the network had lost it.
    ///
    /// Returns false if the netmod cannot do that; then only
    /// [`VcLife::vc_abort`](crate::VcLife::vc_abort) ends the VC.
    fn break_connection(&mut self, core: &mut Core, vc: VcId) -> bool;
}
