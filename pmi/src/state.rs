//! What a connection to a launcher allows now.

use crate::PmiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    InBarrier,
    Finalized,
}

impl State {
    pub(crate) fn check_idle(self, call: &'static str) -> Result<(), PmiError> {
        let why = match self {
            State::Idle => return Ok(()),
            State::InBarrier => "a barrier has begun and is not over; poll it to its end",
            State::Finalized => "the process manager was finalized",
        };
        Err(PmiError::State { call, why: why.to_owned() })
    }

    pub(crate) fn check_in_barrier(self) -> Result<(), PmiError> {
        if self == State::InBarrier {
            return Ok(());
        }
        Err(PmiError::State { call: "barrier_poll", why: "no barrier has begun".to_owned() })
    }
}
