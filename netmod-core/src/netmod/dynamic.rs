//! Dynamic processes: peers of other jobs.

use crate::card::Card;
use crate::error::{DeviceError, VcError, VcErrorKind};
use crate::netmod::Module;
use crate::peer::{GroupId, RemoteGroup};
use crate::slab::VcId;
use crate::state::Core;

/// Connections with processes of other jobs. A netmod that has none implements
/// [`NoDynamicProcesses`].
pub trait DynamicProcesses {
    /// Initializes a VC with the process that accepts at a port with this tag, and begins to
    /// connect.
    ///
    /// The VC's peer is rank 0 of [`port_group`](crate::port_group), which was joined before; the
    /// other side gets [`crate::Event::PortPeer`].
    ///
    /// # Errors
    ///
    /// Fails if the netmod does not support it, or the card is unusable; the netmod then does not
    /// have the VC.
    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError>;

    /// Opens a port: whoever knows its key may come by [`crate::Event::PortPeer`].
    ///
    /// # Errors
    ///
    /// Fails if the netmod does not support it.
    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError>;

    /// Closes a port to new peers.
    fn close_port(&mut self, port: u64);

    /// Allows VCs with processes of this group, and connections from them.
    ///
    /// # Errors
    ///
    /// Fails if the netmod does not support it.
    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError>;

    /// Forgets a group without VCs, and its key.
    fn leave_group(&mut self, id: &GroupId);
}

/// A netmod that reaches only processes of its own job.
pub trait NoDynamicProcesses: Module {
    /// The way out, for the error message: "allow tcp in NETMOD".
    const INSTEAD: &'static str;
}

impl<N: NoDynamicProcesses> DynamicProcesses for N {
    fn connect_to_root(&mut self, _: &mut Core, _: VcId, _: &Card, _: u64) -> Result<(), VcError> {
        let text =
            format!("netmod {} cannot connect to processes of other jobs; {}", self.name(), N::INSTEAD);
        Err(VcError::new(VcErrorKind::Unsupported, None, text))
    }

    fn open_port(&mut self, _: u64, _: [u8; 32]) -> Result<(), DeviceError> {
        Err(DeviceError::new(self.name(), format!("cannot be reached by other jobs; {}", N::INSTEAD)))
    }

    fn close_port(&mut self, _: u64) {}

    fn join_group(&mut self, _: &RemoteGroup) -> Result<(), DeviceError> {
        Err(DeviceError::new(self.name(), format!("cannot talk to other jobs; {}", N::INSTEAD)))
    }

    fn leave_group(&mut self, _: &GroupId) {}
}
