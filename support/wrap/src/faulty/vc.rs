//! Held traffic of one VC: received bytes and events, and messages to send.

use std::collections::VecDeque;

use netmod_core::{Event, Header, PeerName, ReqId, SendBuf, Time};

use super::FaultStats;
use crate::plan::FaultPlan;
use netmod_harness::Rng;

/// Purposes of the random numbers.
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const CORRUPT: u64 = 3;
/// Bytes in which half of the cuts fall, since headers are there.
const NEAR: u64 = 40;

/// Held received data.
#[derive(Debug)]
pub(super) enum Received {
    /// Bytes, of which the first `gone` have been delivered.
    Bytes { bytes: Vec<u8>, gone: usize },
    /// An event that came after them.
    Event(Event),
}

/// The data of a message.
#[derive(Debug)]
pub(super) enum Data {
    /// Contiguous data.
    Contig(SendBuf),
    /// Data in the request's segment.
    Segment,
}

/// A message that the netmod has not got yet.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub due: Time,
    pub req: ReqId,
    pub hdr: Header,
    pub data: Data,
}

/// The wrapper's side table entry of a VC.
#[derive(Debug)]
pub(super) struct VcFaults {
    pub peer: PeerName,
    receive: Rng,
    send: Rng,
    corrupt: Rng,
    /// Bytes until the next altered one.
    until_flip: u64,
    last_in: Time,
    last_out: Time,
    pub inbox: VecDeque<(Time, Received)>,
    pub outbox: VecDeque<Outgoing>,
}

/// The fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Nothing,
    Break,
    Abort,
}

impl VcFaults {
    pub(super) fn new(plan: &FaultPlan, me: PeerName, peer: PeerName) -> VcFaults {
        let rng = |purpose| Rng::for_purpose(plan.seed, &[u64::from(me.rank), u64::from(peer.rank), purpose]);
        let mut corrupt = rng(CORRUPT);
        VcFaults {
            peer,
            receive: rng(RECEIVE),
            send: rng(SEND),
            until_flip: corrupt.failures(plan.corrupt),
            corrupt,
            last_in: Time::ZERO,
            last_out: Time::ZERO,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Alters bits of received bytes.
    pub(super) fn flip(&mut self, plan: &FaultPlan, bytes: &mut [u8], stats: &mut FaultStats) {
        let mut rest = bytes;
        while let Some(byte) = usize::try_from(self.until_flip).ok().and_then(|at| rest.get_mut(at)) {
            *byte ^= 1 << self.corrupt.below(8);
            stats.flipped += 1;
            rest = &mut rest[self.until_flip as usize + 1..];
            self.until_flip = self.corrupt.failures(plan.corrupt);
        }
        self.until_flip = self.until_flip.saturating_sub(rest.len() as u64);
    }

    /// Appends received data.
    pub(super) fn receive(&mut self, plan: &FaultPlan, what: Received, now: Time, stats: &mut FaultStats) {
        let mut due = now;
        if let (Some(delay), Received::Bytes { .. }) = (plan.delay, &what) {
            due = now + delay.pick(&mut self.receive);
            stats.delayed += 1;
        }
        self.last_in = self.last_in.max(due);
        self.inbox.push_back((self.last_in, what));
    }

    /// Returns how many of `len` bytes are delivered at once, and whether the rest waits for the
    /// next poll.
    pub(super) fn cut(&mut self, plan: &FaultPlan, len: usize, stats: &mut FaultStats) -> (usize, bool) {
        if len < 2 || !self.receive.chance(plan.split) {
            return (len, false);
        }
        stats.split += 1;
        let most = len as u64 - 1;
        let within = if self.receive.chance(0.5) { most.min(NEAR) } else { most };
        (1 + self.receive.below(within) as usize, self.receive.chance(0.5))
    }

    /// Returns the fault of the next message.
    pub(super) fn fate(&mut self, plan: &FaultPlan) -> Fate {
        if self.send.chance(plan.drop) {
            Fate::Break
        } else if self.send.chance(plan.abort) {
            Fate::Abort
        } else {
            Fate::Nothing
        }
    }

    /// Returns when the next message is due.
    pub(super) fn due(&mut self, plan: &FaultPlan, now: Time) -> Time {
        if let Some(delay) = plan.send_delay {
            self.last_out = self.last_out.max(now + delay.pick(&mut self.send));
        }
        self.last_out.max(now)
    }

    /// Returns when anything is due next.
    pub(super) fn next(&self) -> Option<Time> {
        let received = self.inbox.front().map(|(due, _)| *due);
        received.into_iter().chain(self.outbox.front().map(|m| m.due)).min()
    }
}
