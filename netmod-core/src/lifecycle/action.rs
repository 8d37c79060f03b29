//! The actions that a step of the lifecycle requires.

use core::fmt;
use core::ops::BitOr;

/// A small set of actions, to be carried out once the new state is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use = "a step's action has to be carried out"]
pub struct Action(pub(super) u8);

impl Action {
    /// No action.
    pub const NONE: Action = Action(0);
    /// Send CLOSE with `ack` false.
    pub const SEND_CLOSE: Action = Action(1);
    /// Send CLOSE with `ack` true.
    pub const SEND_CLOSE_ACK: Action = Action(2);
    /// Call the netmod's `vc_terminate`, after the CLOSE if there is one.
    pub const TERMINATE: Action = Action(4);
    /// Complete every request of the VC with its error.
    pub const FAIL_REQUESTS: Action = Action(8);
    /// A close operation begins: one more is outstanding.
    pub const CLOSE_STARTED: Action = Action(16);
    /// A close operation is over: one less is outstanding.
    pub const CLOSE_FINISHED: Action = Action(32);

    const NAMES: [(Action, &'static str); 6] = [
        (Action::SEND_CLOSE, "send CLOSE(F)"),
        (Action::SEND_CLOSE_ACK, "send CLOSE(T)"),
        (Action::TERMINATE, "terminate"),
        (Action::FAIL_REQUESTS, "fail requests"),
        (Action::CLOSE_STARTED, "ops+1"),
        (Action::CLOSE_FINISHED, "ops-1"),
    ];

    /// Returns true if all of `other` is in this.
    #[inline]
    pub const fn contains(self, other: Action) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if there is no action.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the `ack` of the CLOSE packet to send, if any.
    #[inline]
    pub const fn close_packet(self) -> Option<bool> {
        if self.contains(Action::SEND_CLOSE_ACK) {
            Some(true)
        } else if self.contains(Action::SEND_CLOSE) {
            Some(false)
        } else {
            None
        }
    }

    /// Returns the change of the number of outstanding close operations: -1, 0 or 1.
    #[inline]
    pub const fn close_ops(self) -> i32 {
        self.contains(Action::CLOSE_STARTED) as i32 - self.contains(Action::CLOSE_FINISHED) as i32
    }

    pub(super) const fn and(self, other: Action) -> Action {
        Action(self.0 | other.0)
    }
}

impl BitOr for Action {
    type Output = Action;
    fn bitor(self, other: Action) -> Action {
        self.and(other)
    }
}

/// Writes the actions as in the table, separated by commas.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (bit, name) in Action::NAMES {
            if self.contains(bit) {
                if !first {
                    f.write_str(", ")?;
                }
                first = false;
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Action({self})")
    }
}
