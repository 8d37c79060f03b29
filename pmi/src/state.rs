//! The state of a connection to a launcher, and the calls that it allows.

use crate::PmiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    InBarrier,
    /// The barrier has ended, and nobody has polled it yet.
    BarrierOver,
    /// The launcher was told that this process is done, and has not replied.
    Leaving,
    Finalized,
}

impl State {
    pub(crate) fn check_idle(self, call: &'static str) -> Result<(), PmiError> {
        let why = match self {
            State::Idle => return Ok(()),
            State::InBarrier | State::BarrierOver => {
                "a barrier has begun and is not over; poll it to its end"
            }
            State::Leaving | State::Finalized => "the process manager was finalized",
        };
        Err(PmiError::State { call, why: why.to_owned() })
    }

    pub(crate) fn check_in_barrier(self) -> Result<(), PmiError> {
        if matches!(self, State::InBarrier | State::BarrierOver) {
            return Ok(());
        }
        Err(PmiError::State { call: "barrier_poll", why: "no barrier has begun".to_owned() })
    }
}
