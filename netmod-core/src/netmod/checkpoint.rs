//! Checkpoints: the image of a process is taken, and the process continues later or elsewhere.

use crate::card::Card;
use crate::error::{DeviceError, VcError, VcErrorKind};
use crate::netmod::{Finalize, Module};
use crate::slab::VcId;
use crate::state::Core;
use crate::time::Time;

/// Quiescing and continuing. A netmod that cannot do so implements [`NoCheckpoint`].
pub trait Checkpoint {
    /// Checks that this netmod can be checkpointed, with what it has opened.
    ///
    /// # Errors
    ///
    /// Returns the reason why not.
    fn can_ckpt(&self) -> Result<(), DeviceError>;

    /// Quiesces for a checkpoint: tells the peers, then releases all resources of the system.
    ///
    /// Returns `Pending` until it is done; call it again, with polls between. Messages that were
    /// accepted and not delivered are kept, as are those sent meanwhile. They continue after
    /// [`Checkpoint::ckpt_restart`]: none is lost or duplicated. There is no
    /// [`Netmod::wait_fd`](crate::Netmod::wait_fd) until then.
    ///
    /// # Errors
    ///
    /// Fails if the netmod cannot be checkpointed; then nothing has changed.
    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError>;

    /// Continues after [`Checkpoint::ckpt_shutdown`] was `Done`.
    ///
    /// The process may have been restored from an image, and may have another address.
    /// [`Netmod::wait_fd`](crate::Netmod::wait_fd) is a new one.
    ///
    /// # Errors
    ///
    /// Fails if the network cannot be opened again.
    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError>;

    /// Takes the card with which a VC's peer has come back from a checkpoint: from now on the
    /// peer is looked for there. Not to be called between [`Checkpoint::ckpt_shutdown`] and
    /// [`Checkpoint::ckpt_restart`].
    ///
    /// # Errors
    /// If the card does not lead to the peer; then nothing has changed.
    fn ckpt_peer(&mut self, core: &mut Core, vc: VcId, card: &Card) -> Result<(), VcError>;
}

/// A netmod that cannot be checkpointed, whatever it has opened.
pub trait NoCheckpoint: Module {
    /// The reason and the way out, for the error message.
    const WHY: &'static str;
}

impl<N: NoCheckpoint> Checkpoint for N {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Err(DeviceError::new(self.name(), N::WHY))
    }

    fn ckpt_shutdown(&mut self, _: &mut Core, _: Time) -> Result<Finalize, DeviceError> {
        self.can_ckpt().map(|()| Finalize::Pending)
    }

    fn ckpt_restart(&mut self, _: &mut Core, _: Time) -> Result<(), DeviceError> {
        self.can_ckpt()
    }

    fn ckpt_peer(&mut self, core: &mut Core, vc: VcId, _: &Card) -> Result<(), VcError> {
        let peer = core.vc(vc).map(|v| v.peer);
        Err(VcError::new(VcErrorKind::Unsupported, peer, format!("{}: {}", self.name(), N::WHY)))
    }
}
