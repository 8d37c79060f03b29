//! Diagnosis: human-readable descriptions, figures for programs, and faults on demand.

use core::any::Any;

use crate::error::{VcError, VcErrorKind};
use crate::slab::VcId;
use crate::state::Core;

/// The figures of a netmod, in a type of its own; see [`Diagnose::report`].
pub type Report = Box<dyn Any + Send>;

/// A fault of the network, for tests and drills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Both sides see a reset; bytes in flight are lost.
    Reset,
    /// Both directions are shut: the peer reads the bytes in flight, then the end of the stream.
    Shut,
    /// The rail of this number breaks: one of the connections on which this side sends the data of
    /// large messages.
    Rail(usize),
}

impl Break {
    /// Returns the answer of a netmod that breaks nothing.
    ///
    /// # Errors
    ///
    /// Always fails with [`VcErrorKind::Unsupported`](crate::VcErrorKind::Unsupported).
    pub fn unsupported(self, netmod: &str) -> Result<bool, VcError> {
        let why = format!("netmod {netmod} cannot break a connection ({self:?}); abort the VC instead");
        Err(VcError::new(VcErrorKind::Unsupported, None, why))
    }
}

/// Human-readable descriptions, figures for programs, and faults on demand.
pub trait Diagnose {
    /// Returns why the netmod has opened nothing and so reaches no peer.
    ///
    /// `None` if it has opened something, or if there is no peer to reach.
    fn failure(&self) -> Option<&str>;

    /// Describes in one line what the netmod has opened, or why nothing.
    fn opened(&self) -> String;

    /// Describes this VC in one line for debugging (connection, interface, queue).
    fn describe(&self, core: &Core, vc: VcId) -> String;

    /// Returns the netmod's figures (counts, open connections) in the report type of its crate;
    /// `None` if it has none.
    fn report(&self) -> Option<Report>;

    /// Breaks a connection of the VC as if the network had lost it. Returns false if there is none.
    ///
    /// # Errors
    ///
    /// Fails with [`VcErrorKind::Unsupported`](crate::VcErrorKind::Unsupported) if the netmod or
    /// the system cannot do that. Then only [`VcLife::vc_abort`](crate::VcLife::vc_abort) ends the
    /// VC.
    fn break_connection(&mut self, core: &mut Core, vc: VcId, how: Break) -> Result<bool, VcError>;
}
