//! The stages of a netmod's life: running, checkpointed, ending.

use netmod_core::Time;

/// Progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    /// Peers have until then to answer.
    Until(Time),
    Over,
}

/// Progress of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    None,
    /// Peers have until `time` to answer.
    Until {
        time: Time,
        /// The port at which peers know this process.
        port: u16,
    },
    /// No descriptor is held. A restart asks for the same port again.
    Asleep {
        port: u16,
    },
}

/// The stage of the netmod.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) ending: Ending,
    pub(crate) checkpoint: Checkpoint,
    /// Restarts after a checkpoint.
    pub(crate) restarts: u32,
}

impl Life {
    pub(crate) fn new() -> Life {
        Life { ending: Ending::No, checkpoint: Checkpoint::None, restarts: 0 }
    }

    /// Returns true if neither the end nor a checkpoint has begun.
    pub(crate) fn is_running(&self) -> bool {
        self.ending == Ending::No && self.checkpoint == Checkpoint::None
    }

    /// Returns true if the netmod is being checkpointed, or was and is not restarted yet.
    pub(crate) fn is_checkpointed(&self) -> bool {
        self.checkpoint != Checkpoint::None
    }
}
