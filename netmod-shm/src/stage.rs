//! The state of a rank's checkpoints.

use std::time::Duration;

use crate::segment::Parked;

/// Time that a peer may be away for a checkpoint, unless that is set.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The progress of a checkpoint.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    #[default]
    No,
    /// Earlier sends are written, so that no peer waits for them while this rank is away.
    Flushing,
    /// Peers are asked, in this round.
    Asking(u32),
    /// Nothing of the system is held. Without shared memory there was nothing but the pipe.
    Away(Option<Parked>),
}

/// The checkpoints of this rank.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    pub(crate) stage: Stage,
    /// Number of the last round that was begun.
    pub(crate) round: u32,
    /// Ranks that had joined the node's memory when this one last came back.
    pub(crate) members: usize,
    /// Time that a peer may be away.
    pub(crate) patience: Duration,
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints { stage: Stage::No, round: 0, members: 0, patience: PATIENCE }
    }
}
