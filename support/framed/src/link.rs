//! The netmod's part of a VC: its connection, its windows, and what waits to be sent.

use netmod_core::{Core, HDR_LEN, Message, PeerName, SendQueue, Time, VcError, VcErrorKind, VcId};

use crate::book::Dest;
use crate::conn::To;
use crate::device::Route;
use crate::endpoints::Endpoints;
use crate::loss_probe::LossProbe;
use crate::wire::{FRAME_HEADER, FrameHeader, Kind, Slot, UNIT, units};

/// Copies as much of a message as a frame has room for; its header is not cut. Returns the number
/// of bytes, and true if that was the rest.
pub(crate) fn copy_message(m: &mut Message, core: &mut Core, out: &mut [u8]) -> (usize, bool) {
    let mut n = 0;
    if !m.started() {
        let Some(head) = out.first_chunk_mut::<HDR_LEN>() else { return (0, false) };
        head.copy_from_slice(m.head());
        m.head_sent(HDR_LEN);
        n = HDR_LEN;
    }
    let (of_data, end) = m.copy(core, &mut out[n..]);
    (n + of_data, end)
}

/// A frame in a buffer that has not gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stalled {
    pub(crate) buffer: u32,
    pub(crate) len: usize,
}

/// The open connection of a VC: its windows and counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// The destination of its frames.
    pub(crate) dest: Dest,
    /// The peer's name for it.
    theirs: Slot,
    /// Longest frame.
    pub(crate) frame: usize,
    /// Units that may be on their way.
    window: u32,
    /// Least units that a frame takes of the peer's window, and of this side's; see [`cost`].
    cost_out: u32,
    cost_in: u32,
    /// Units that were sent, and that the peer has given back.
    sent: u32,
    returned: u32,
    /// Units of the peer's frames that are handled, and that it has been told of.
    taken: u32,
    told: u32,
    /// Numbers of the next DATA frame out and in.
    next_out: u32,
    next_in: u32,
    /// True if frames may be lost: the peer is to be asked how many it has sent.
    pub(crate) probing: bool,
    /// True if the peer has asked so.
    pub(crate) asked: bool,
    /// Time since which the device refuses frames, or [`Time::NEVER`].
    pub(crate) refused_since: Time,
}

/// The reason why a frame is not what the connection expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Frames between the last one and this one are lost.
    Gap,
    /// The peer gives back what it has not got.
    Returned,
    /// The peer has sent more than its window.
    Window,
}

/// Returns the least units that a frame takes of the window of a receiver whose frames fill a
/// buffer each, whatever their length. `frame` is its longest frame, `window` its window in units,
/// of which a quarter is enough for any frame.
pub(crate) fn cost(frame: usize, window: u32) -> u32 {
    units(frame).min(window / 4)
}

impl Open {
    /// Creates a new connection. `window` is the peer's, in units; `frame` what both can take, of
    /// which no more than a quarter of the window is used.
    pub(crate) fn new(dest: Dest, theirs: Slot, frame: usize, window: u32) -> Open {
        Open {
            dest,
            theirs,
            frame: frame.min((window as usize / 4 * UNIT).saturating_sub(1)),
            window,
            cost_out: 0,
            cost_in: 0,
            sent: 0,
            returned: 0,
            taken: 0,
            told: 0,
            next_out: 0,
            next_in: 0,
            probing: false,
            asked: false,
            refused_since: Time::NEVER,
        }
    }

    /// Returns the connection with frames that take more than their bytes, of the peer's window and
    /// of this side's.
    pub(crate) fn costing(self, cost_out: u32, cost_in: u32) -> Open {
        Open { cost_out, cost_in, ..self }
    }

    /// Returns the length of the longest frame that the peer's window has room for now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let left = self.window - self.sent.wrapping_sub(self.returned);
        if left < self.cost_out {
            return 0;
        }
        (left as usize * UNIT).saturating_sub(1).min(self.frame)
    }

    /// Returns true if everything that was sent has been given back.
    pub(crate) fn is_idle(&self) -> bool {
        self.sent == self.returned
    }

    /// Returns the header of the next DATA frame.
    #[inline]
    pub(crate) fn header(&self) -> FrameHeader {
        self.other(Kind::Data, self.next_out)
    }

    /// The header of another frame.
    #[inline]
    pub(crate) fn other(&self, kind: Kind, seq: u32) -> FrameHeader {
        FrameHeader { kind, ask: false, returned: self.taken as u16, slot: self.theirs, seq }
    }

    /// The header of a CREDIT.
    pub(crate) fn credit(&self) -> FrameHeader {
        FrameHeader { ask: self.probing, ..self.other(Kind::Credit, self.next_out) }
    }

    /// Counts a sent DATA frame of so many bytes.
    #[inline]
    pub(crate) fn data_sent(&mut self, bytes: usize) {
        self.sent = self.sent.wrapping_add(units(bytes).max(self.cost_out));
        self.next_out = self.next_out.wrapping_add(1);
        self.told = self.taken;
    }

    /// Notes that a CREDIT has gone.
    pub(crate) fn credit_sent(&mut self) {
        self.told = self.taken;
        (self.probing, self.asked) = (false, false);
    }

    /// A frame has come that says how many DATA frames were sent before it.
    ///
    /// # Errors
    /// If some of them have not come.
    pub(crate) fn on_count(&self, frames: u32) -> Result<(), Wrong> {
        if frames == self.next_in { Ok(()) } else { Err(Wrong::Gap) }
    }

    /// Returns the number of DATA frames sent.
    pub(crate) fn data_frames(&self) -> u32 {
        self.next_out
    }

    /// Handles a frame that says what the peer has given back. Returns true if that made room.
    ///
    /// # Errors
    /// If it never had so much.
    #[inline]
    pub(crate) fn on_returned(&mut self, returned: u16) -> Result<bool, Wrong> {
        let more = u32::from(returned.wrapping_sub(self.returned as u16));
        if more > self.sent.wrapping_sub(self.returned) {
            return Err(Wrong::Returned);
        }
        self.returned = self.returned.wrapping_add(more);
        Ok(more > 0)
    }

    /// A DATA frame of so many bytes has come, and is handled before the next poll. `window` is
    /// this side's, in units.
    ///
    /// # Errors
    /// If it is not the next one, or more than the window allows.
    #[inline]
    pub(crate) fn on_data(&mut self, seq: u32, bytes: usize, window: u32) -> Result<(), Wrong> {
        if seq != self.next_in {
            return Err(Wrong::Gap);
        }
        self.next_in = seq.wrapping_add(1);
        self.taken = self.taken.wrapping_add(units(bytes).max(self.cost_in));
        if self.taken.wrapping_sub(self.told) > window { Err(Wrong::Window) } else { Ok(()) }
    }

    /// Returns true if a CREDIT is due: it tells the peer what this side has taken, for lack of a
    /// DATA frame that says it, or how many frames there were, or asks for that.
    #[inline]
    pub(crate) fn owes_credit(&self, window: u32) -> bool {
        self.taken.wrapping_sub(self.told) > window / 4 || self.probing || self.asked
    }
}

/// The signs of life of a VC's peer.
#[derive(Debug, Default)]
pub(crate) struct PeerLife {
    /// The process has ended: nothing is sent to it.
    pub(crate) gone: bool,
    /// Time until which somebody waits for it, connected or not.
    pub(crate) wanted_until: Time,
    /// Time of the last frame of a connection with it.
    pub(crate) heard: Time,
    /// The last connection has ended with frames of which the peer had not said that it has taken
    /// them.
    pub(crate) unread: bool,
}

/// The frames and transfers of a VC that are in flight, and when it sends.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Number of the poll in or after which something was sent last.
    pub(crate) sent_in: u32,
    /// Frames in the port's buffers that have not left.
    pub(crate) in_flight: u32,
    /// One-sided transfers under way.
    pub(crate) transfers: u32,
}

/// The netmod's part of a VC.
#[derive(Debug)]
pub(crate) struct FrameVc {
    pub(crate) peer: PeerName,
    pub(crate) life: PeerLife,
    pub(crate) traffic: Traffic,
    /// The route to it, by its card.
    pub(crate) route: Option<Route>,
    /// Frames of the connection may be lost.
    pub(crate) probe: Option<Box<LossProbe>>,
    /// The destination of dials, once there was one.
    pub(crate) dial: Option<Dest>,
    pub(crate) endpoints: Endpoints,
    pub(crate) open: Option<Open>,
    /// The dial that has made the open connection.
    pub(crate) via: To,
    /// Messages can be sent at once: a connection is open, and nothing waits.
    pub(crate) ready: bool,
    /// A card was asked for.
    pub(crate) asked: bool,
    pub(crate) terminating: bool,
    pub(crate) down: Option<VcError>,
    pub(crate) queue: SendQueue,
    /// A frame that the device would not take yet, or, if the VC is ready, one that is being
    /// filled.
    pub(crate) stalled: Option<Stalled>,
}

impl FrameVc {
    pub(crate) fn new(vc: VcId, peer: PeerName) -> FrameVc {
        FrameVc {
            peer,
            life: PeerLife::default(),
            traffic: Traffic::default(),
            route: None,
            probe: None,
            dial: None,
            endpoints: Endpoints::default(),
            open: None,
            via: To::Vc(vc),
            ready: false,
            asked: false,
            terminating: false,
            down: None,
            queue: SendQueue::default(),
            stalled: None,
        }
    }

    /// Returns the error of a connection that ends in doubt: frames may be lost, and the peer has
    /// not said since how many there were.
    pub(crate) fn loss_error(&self) -> Option<VcError> {
        let text = "frames may be lost, and the process has not said how many there were; did it, or its host, fail?";
        let lost =
            self.open.is_some() && self.probe.as_ref().is_some_and(|d| d.suspects_loss(self.life.heard));
        lost.then(|| VcError::new(VcErrorKind::Lost, Some(self.peer), text))
    }

    /// Returns true if the peer owes something: room in its window, or the end of a transfer.
    pub(crate) fn is_owed(&self) -> bool {
        self.traffic.transfers > 0 || self.traffic.in_flight > 0 || self.open.is_some_and(|o| !o.is_idle())
    }
}

/// Bytes in front of a message's data in its first frame.
pub(crate) const OVERHEAD: usize = FRAME_HEADER + HDR_LEN;

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
