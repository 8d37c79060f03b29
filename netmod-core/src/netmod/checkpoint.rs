//! Checkpoints: a process whose image is taken, and goes on later or elsewhere.

use crate::engine::Core;
use crate::error::DeviceError;
use crate::netmod::{Finalize, Module};
use crate::time::Time;

/// Quiesce and go on. A netmod that cannot implements [`NoCheckpoint`].
pub trait Checkpoint {
    /// Checks that this netmod can be checkpointed at all, with what it has opened.
    ///
    /// # Errors
    /// Why not.
    fn can_ckpt(&self) -> Result<(), DeviceError>;

    /// Quiesces for a checkpoint: peers are told, then no resource of the system is held. `Pending` until done; to be
    /// called again, with polls between. What was taken and not delivered is kept, as is what is sent meanwhile, and
    /// goes on after [`Checkpoint::ckpt_restart`]: nothing is lost or doubled. There is no
    /// [`Netmod::wait_fd`](crate::Netmod::wait_fd) until then.
    ///
    /// # Errors
    /// If the netmod cannot be checkpointed; then nothing has changed.
    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError>;

    /// Goes on after [`Checkpoint::ckpt_shutdown`] was `Done`, possibly in a process that was restored from an image of
    /// this one, and with another address. [`Netmod::wait_fd`](crate::Netmod::wait_fd) is a new one.
    ///
    /// # Errors
    /// If the network cannot be opened again.
    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError>;
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
}
