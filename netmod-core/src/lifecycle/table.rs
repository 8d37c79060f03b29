//! The table of the VC lifecycle, and its printed forms.

use core::fmt::Write as _;

use super::{Action, VcEvent, VcState, Violation};

pub(super) type Entry = Option<(VcState, Action)>;

/// A map from (state, event) to (state, action). It is a value, so that tests can explore mutated
/// ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table(pub(super) [[Entry; VcEvent::ALL.len()]; VcState::ALL.len()]);

struct Rule(VcState, VcEvent, VcState, Action);

const RULES: [Rule; 36] = {
    use Action as A;
    use VcEvent::{Finalize, LocalClose as Close, Lost, Revive, Terminated, Use};
    use VcState::{Active, CloseAcked, Closed, Inactive, InactiveClosed, LocalClose, Moribund, RemoteClose};
    const CLOSE_F: VcEvent = VcEvent::RecvClose { ack: false };
    const CLOSE_T: VcEvent = VcEvent::RecvClose { ack: true };
    const FAIL: Action = A::FAIL_REQUESTS;
    const FAIL_CLOSE: Action = A::FAIL_REQUESTS.and(A::CLOSE_FINISHED);
    [
        // The life of a VC, closed by agreement.
        Rule(Inactive, Use, Active, A::NONE),
        Rule(Active, Close, LocalClose, A::SEND_CLOSE.and(A::CLOSE_STARTED)),
        Rule(Active, CLOSE_F, RemoteClose, A::NONE),
        Rule(RemoteClose, Close, CloseAcked, A::SEND_CLOSE_ACK.and(A::CLOSE_STARTED)),
        Rule(LocalClose, CLOSE_F, CloseAcked, A::SEND_CLOSE_ACK),
        Rule(LocalClose, CLOSE_T, Closed, A::SEND_CLOSE_ACK.and(A::TERMINATE)),
        Rule(CloseAcked, CLOSE_T, Closed, A::TERMINATE),
        Rule(Closed, Terminated, Inactive, A::CLOSE_FINISHED),
        Rule(Inactive, Finalize, InactiveClosed, A::NONE),
        // The end of a connection before both sides have agreed on it.
        Rule(Inactive, Lost, Moribund, FAIL),
        Rule(Active, Lost, Moribund, FAIL),
        Rule(RemoteClose, Lost, Moribund, FAIL),
        Rule(LocalClose, Lost, Moribund, FAIL_CLOSE),
        Rule(CloseAcked, Lost, Moribund, FAIL_CLOSE),
        Rule(Active, Terminated, Moribund, FAIL),
        Rule(RemoteClose, Terminated, Moribund, FAIL),
        Rule(LocalClose, Terminated, Moribund, FAIL_CLOSE),
        Rule(CloseAcked, Terminated, Moribund, FAIL_CLOSE),
        // Both had agreed: what is lost now is at most this side's last CLOSE.
        Rule(Closed, Lost, Inactive, FAIL_CLOSE),
        Rule(Moribund, Revive, Inactive, A::NONE),
        // No change. A connection from the peer may cross the local use and close.
        Rule(Active, Use, Active, A::NONE),
        Rule(LocalClose, Use, LocalClose, A::NONE),
        Rule(RemoteClose, Use, RemoteClose, A::NONE),
        // Closing a VC that is closing or at rest.
        Rule(Inactive, Close, Inactive, A::NONE),
        Rule(LocalClose, Close, LocalClose, A::NONE),
        Rule(CloseAcked, Close, CloseAcked, A::NONE),
        Rule(Closed, Close, Closed, A::NONE),
        Rule(InactiveClosed, Close, InactiveClosed, A::NONE),
        Rule(Moribund, Close, Moribund, A::NONE),
        // A second report of an end.
        Rule(Inactive, Terminated, Inactive, A::NONE),
        Rule(InactiveClosed, Terminated, InactiveClosed, A::NONE),
        Rule(InactiveClosed, Lost, InactiveClosed, A::NONE),
        Rule(Moribund, Terminated, Moribund, A::NONE),
        Rule(Moribund, Lost, Moribund, A::NONE),
        Rule(InactiveClosed, Finalize, InactiveClosed, A::NONE),
        Rule(Moribund, Finalize, Moribund, A::NONE),
    ]
};

pub(super) const TABLE: Table = {
    let mut table = Table([[None; VcEvent::ALL.len()]; VcState::ALL.len()]);
    let mut i = 0;
    while i < RULES.len() {
        let Rule(state, event, next, action) = RULES[i];
        let entry = &mut table.0[state as usize][event.index()];
        assert!(entry.is_none(), "two rules for one state and event");
        *entry = Some((next, action));
        i += 1;
    }
    table
};

impl Table {
    #[inline]
    pub(super) const fn step(&self, state: VcState, event: VcEvent) -> Result<(VcState, Action), Violation> {
        match self.0[state as usize][event.index()] {
            Some(entry) => Ok(entry),
            None => Err(Violation { state, event }),
        }
    }
}

/// Returns the next state, and the action to carry out once it is stored.
///
/// # Errors
///
/// Returns a [`Violation`] if the table has no entry; the state is unchanged. The module's
/// documentation says whose fault that is.
#[inline]
pub const fn step(state: VcState, event: VcEvent) -> Result<(VcState, Action), Violation> {
    TABLE.step(state, event)
}

/// Returns the table as a graph in Graphviz's language, without entries that change and do nothing.
pub fn dot() -> String {
    let mut out = String::from("digraph vc {\n");
    for state in VcState::ALL {
        for event in VcEvent::ALL {
            if let Ok((next, action)) = step(state, event)
                && (next != state || !action.is_none())
            {
                let does = if action.is_none() { String::new() } else { format!(" / {action}") };
                // Writing to a String cannot fail.
                let _ = writeln!(out, "    {state} -> {next} [label=\"{event}{does}\"];");
            }
        }
    }
    out.push_str("}\n");
    out
}

/// Returns the whole table in Markdown: a row for each state, a column for each event.
pub fn markdown() -> String {
    let mut out = String::from("| state |");
    for event in VcEvent::ALL {
        let _ = write!(out, " {event} |");
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(VcEvent::ALL.len()));
    out.push('\n');
    for state in VcState::ALL {
        let _ = write!(out, "| {state} |");
        for event in VcEvent::ALL {
            let _ = match step(state, event) {
                Err(_) => write!(out, " - |"),
                Ok((next, action)) if next == state && action.is_none() => write!(out, " = |"),
                Ok((next, action)) if action.is_none() => write!(out, " {next} |"),
                Ok((next, action)) => write!(out, " {next}: {action} |"),
            };
        }
        out.push('\n');
    }
    out
}
