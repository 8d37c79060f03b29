//! Modelled sockets: a connection is a FIFO each way and the state of its two ends.

use netmod_connection::RejectReason;

const DEPTH: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Msg {
    Hello {
        session: u8,
        position: u8,
        incarnation: u8,
    },
    Accept {
        position: u8,
        incarnation: u8,
        dials: u8,
    },
    Reject(RejectReason),
    Ready,
    Data(u8),
    Ack(u8),
    Goodbye,
    Suspend,
    Suspended,
    Withdrawn,
    /// End of file.
    Fin,
    Reset,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Fifo([Option<Msg>; DEPTH]);

impl Fifo {
    pub(super) fn list(&self) -> impl Iterator<Item = Msg> {
        self.0.iter().copied().flatten()
    }
    pub(super) fn push(&mut self, m: Msg) {
        let slot = self.0.iter_mut().find(|s| s.is_none()).expect("the model's fifo is long enough");
        *slot = Some(m);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
    pub(super) fn pop(&mut self) -> Option<Msg> {
        let m = self.0[0].take();
        self.0.rotate_left(1);
        m
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum End {
    /// The hello has not arrived here.
    Unknown,
    Open,
    /// GOODBYE said; reading on.
    Half,
    Closed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Conn {
    pub(super) dialer: usize,
    /// It was made in place of one that was whole.
    pub(super) moves: bool,
    pub(super) ends: [End; 2],
    /// Items in transit to each side.
    pub(super) to: [Fifo; 2],
    /// True for a side that has read a GOODBYE, REJECT or WITHDRAWN.
    pub(super) farewell: [bool; 2],
    /// The session that its dialer wants resumed, or 0.
    pub(super) session: u8,
    /// Position up to which the other side has read, as each side has been told.
    pub(super) told: [u8; 2],
    pub(super) accepted: bool,
    pub(super) broken: bool,
}

/// The connection breaks; what is under way to each side is lost or not.
pub(super) fn reset(conn: &mut Conn, lost: [bool; 2]) {
    for (fifo, lost) in conn.to.iter_mut().zip(lost) {
        if lost {
            *fifo = Fifo::default();
        }
        fifo.push(Msg::Reset);
    }
    conn.broken = true;
}
