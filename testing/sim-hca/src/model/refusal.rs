//! Refusals of a queue pair's transitions.

use hca::{Errno, errno};

/// Reason why a transition is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    /// The invalid attribute, by its name in `ibv_modify_qp(3)`.
    pub(crate) attribute: Option<&'static str>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal { errno, attribute: None }
    }
}

impl Refusal {
    /// Makes the refusal of an invalid attribute.
    pub(crate) fn of(attribute: &'static str) -> Refusal {
        Refusal { errno: errno::EINVAL, attribute: Some(attribute) }
    }
}

/// Refuses an attribute unless the condition holds.
pub(crate) fn valid(holds: bool, attribute: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::of(attribute)) }
}
