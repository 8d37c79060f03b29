//! What a netmod tells people, and tests do to it.

use crate::engine::Core;
use crate::slab::VcId;

/// Descriptions for people, and faults on demand.
pub trait Diagnose {
    /// Says why the netmod has opened nothing and so reaches nobody; `None` if it has, or if there is nobody to reach.
    fn failure(&self) -> Option<&str>;

    /// Says what the netmod has opened, or why nothing: one line.
    fn opened(&self) -> String;

    /// Says what a person who debugs should know of this VC: one line (connection, interface, queue).
    fn describe(&self, core: &Core, vc: VcId) -> String;

    /// Breaks the connection of the VC, if there is one, as if the network had lost it; if there is none, nothing
    /// happens. Returns false if the netmod cannot do that; the VC can then only be given up
    /// by [`VcLife::vc_abort`](crate::VcLife::vc_abort).
    fn break_connection(&mut self, core: &mut Core, vc: VcId) -> bool;
}
