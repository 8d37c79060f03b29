//! Dynamic processes: peers of other jobs.

use crate::card::Card;
use crate::engine::Core;
use crate::error::{DeviceError, VcError, VcErrorKind};
use crate::netmod::{GroupId, Module, RemoteGroup};
use crate::slab::VcId;

/// Connections with processes of other jobs. A netmod that has none implements [`NoDynamicProcesses`].
pub trait DynamicProcesses {
    /// Takes charge of a VC like `vc_init`, with the process that waits at a port with this tag, and begins to
    /// connect. The VC's peer is rank 0 of [`port_group`](crate::port_group), which was met before;
    /// the other side gets [`crate::Event::PortPeer`].
    ///
    /// # Errors
    /// If the netmod cannot, or the card is of no use; the VC is then not in its charge.
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
    /// If the netmod cannot.
    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError>;

    /// Closes a port to newcomers.
    fn close_port(&mut self, port: u64);

    /// Allows VCs with processes of this group, and those processes to connect.
    ///
    /// # Errors
    /// If the netmod cannot.
    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError>;

    /// Forgets a group of which no VC is left, with its key.
    fn leave_group(&mut self, id: &GroupId);
}

/// A netmod that reaches processes of its own job only: it has no port to open and no group to meet.
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
