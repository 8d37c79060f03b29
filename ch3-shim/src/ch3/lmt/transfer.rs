//! A large message under way: its machine, its windows, its request and its peer.

use netmod_core::slab::ReqKind;
use netmod_core::{Outcome, ReqId, SideTable, VcError, VcErrorKind, VcId};
use netmod_lmt::autotune::Strategy;
use netmod_lmt::cookie::{Keyed, RingName};
use netmod_lmt::{Actions, Ending, Event, Fault, Modes, RecvLmt, RecvPhase, SendLmt, SendPhase, Window};

use super::windows::{Bounces, Windows};

/// Windows of ended transfers that are kept for later ones; about 40 KiB.
const MAX_SPARE: usize = 64;

/// One side's machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    Send(SendLmt),
    Recv(RecvLmt),
}

/// The transfer of a request.
///
/// Where the core finishes the request (Null), the transfer stays until the next one replaces it.
/// It owns no memory then.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) machine: Machine,
    pub(super) vc: VcId,
    /// The peer's request, once it is known.
    pub(super) theirs: u64,
    /// Modes that were offered.
    pub(super) offered: Modes,
    /// Sender: the ring that CTS named.
    pub(super) ring: Option<RingName>,
    /// Sender: the send is synchronous.
    pub(super) sync: bool,
    /// Receiver: the strategy whose time is taken.
    pub(super) timed: Option<Strategy>,
    /// Put and Get: the windows of both sides.
    windows: Option<Box<Windows>>,
}

impl Transfer {
    /// Makes a transfer that has offered, or been offered, these modes.
    pub(super) fn new(machine: Machine, vc: VcId, offered: Modes) -> Transfer {
        Transfer { machine, vc, theirs: 0, offered, ring: None, sync: false, timed: None, windows: None }
    }

    /// Returns true if this side sends.
    pub(super) fn is_send(&self) -> bool {
        matches!(self.machine, Machine::Send(_))
    }

    /// Gives its machine an event.
    ///
    /// # Errors
    /// The machine's fault; it has not changed then.
    pub(super) fn on(&mut self, event: Event) -> Result<Actions, Fault> {
        match &mut self.machine {
            Machine::Send(m) => m.on(event),
            Machine::Recv(m) => m.on(event),
        }
    }

    /// Returns the sender's and the receiver's request, given this side's.
    pub(super) fn requests(&self, ours: ReqId) -> (u64, u64) {
        let ours = ours.to_wire();
        if self.is_send() { (ours, self.theirs) } else { (self.theirs, ours) }
    }

    /// Returns true if it only waits for a put or get to end.
    pub(super) fn is_draining(&self) -> bool {
        match self.machine {
            Machine::Send(m) => matches!(m.phase(), SendPhase::Draining(_)),
            Machine::Recv(m) => matches!(m.phase(), RecvPhase::Draining(_)),
        }
    }

    /// Returns its windows, if it has any.
    pub(super) fn windows(&self) -> Option<&Windows> {
        self.windows.as_deref()
    }

    /// Returns its windows, if it has any.
    pub(super) fn windows_mut(&mut self) -> Option<&mut Windows> {
        self.windows.as_deref_mut()
    }

    /// Returns an exposed window with its key, for the peer.
    pub(super) fn keyed(&self, window: Window) -> Option<Keyed> {
        self.windows()?.keyed(window)
    }

    /// Returns the outcome of its request.
    pub(super) fn outcome(&mut self, ending: Ending, peer: Option<netmod_core::PeerName>) -> Outcome {
        match ending {
            Ending::Done => Outcome::Done,
            Ending::Cancelled => Outcome::Cancelled,
            Ending::Aborted | Ending::Lost => {
                let cause = self.windows_mut().and_then(|w| w.failure.take());
                Outcome::Failed(cause.unwrap_or_else(|| {
                    let text =
                        "the other side gave a large message up in the middle; did its scope end by a panic?";
                    VcError::new(VcErrorKind::Aborted, peer, text)
                }))
            }
        }
    }
}

/// All transfers, and the memory that they share.
#[derive(Debug)]
pub(super) struct Transfers {
    table: SideTable<Transfer, ReqKind>,
    /// Transfers that have windows.
    windowed: usize,
    /// Windows for transfers to come. The boxes are what is kept.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Windows>>,
    pub(super) bounces: Bounces,
    /// Transfers whose next piece waits until something can be registered.
    pub(super) stalled: Vec<ReqId>,
}

impl Transfers {
    /// Makes an empty table.
    pub(super) fn new() -> Transfers {
        Transfers {
            table: SideTable::new(),
            windowed: 0,
            spare: Vec::with_capacity(MAX_SPARE),
            bounces: Bounces::default(),
            stalled: Vec::new(),
        }
    }

    /// Adds the transfer of a request.
    pub(super) fn begin(&mut self, req: ReqId, transfer: Transfer) {
        self.table.set(req, transfer);
    }

    /// Returns the transfer of a request.
    pub(super) fn get(&self, req: ReqId) -> Option<&Transfer> {
        self.table.get(req)
    }

    /// Returns the transfer of a request.
    pub(super) fn get_mut(&mut self, req: ReqId) -> Option<&mut Transfer> {
        self.table.get_mut(req)
    }

    /// Returns the transfer of a request and the buffers that its windows may take.
    pub(super) fn with_bounces(&mut self, req: ReqId) -> Option<(&mut Transfer, &mut Bounces)> {
        Some((self.table.get_mut(req)?, &mut self.bounces))
    }

    /// Iterates over all transfers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Transfer> {
        self.table.iter().map(|(_, t)| t)
    }

    /// Returns the windows of a transfer, which gets some if it has none.
    pub(super) fn make_windows(&mut self, req: ReqId) -> Option<&mut Windows> {
        let t = self.table.get_mut(req)?;
        if t.windows.is_none() {
            t.windows = Some(self.spare.pop().unwrap_or_default());
            self.windowed += 1;
        }
        t.windows.as_deref_mut()
    }

    /// Stores the key of a window of the peer's.
    pub(super) fn learn_key(&mut self, req: ReqId, keyed: Keyed) {
        if let Some(windows) = self.make_windows(req) {
            windows.learn(keyed);
        }
    }

    /// Drops the windows of a transfer, of which nothing is registered or moves any more.
    pub(super) fn drop_windows(&mut self, req: ReqId) {
        let Some(mut windows) = self.table.get_mut(req).and_then(|t| t.windows.take()) else { return };
        self.windowed -= 1;
        if let Some(buf) = std::mem::take(&mut *windows).bounce {
            self.bounces.give(buf);
        }
        if self.spare.len() < MAX_SPARE {
            self.spare.push(windows);
        }
    }

    /// Ends a transfer.
    pub(super) fn end(&mut self, req: ReqId) {
        self.drop_windows(req);
        self.table.clear(req);
    }

    /// Returns true if a device or a peer may access memory of this process on its own.
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        self.windowed > 0
    }

    /// Returns true if a send can still be taken back, as far as this side knows.
    pub(super) fn is_offered(&self, req: ReqId) -> bool {
        match self.get(req).map(|t| t.machine) {
            Some(Machine::Send(m)) => matches!(m.phase(), SendPhase::Offered(_)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use netmod_core::slab::{Slab, VcKind};

    use super::*;

    fn transfer(vc: VcId) -> Transfer {
        Transfer::new(Machine::Send(SendLmt::start(1 << 20, None).0), vc, Modes::NULL)
    }

    #[test]
    fn an_ended_transfer_returns_its_buffer_and_counts_no_more() {
        let vc = Slab::<(), VcKind>::new().insert(());
        let mut reqs = Slab::<(), ReqKind>::new();
        let mut transfers = Transfers::new();
        assert!(transfers.make_windows(reqs.insert(())).is_none(), "no transfer, no windows");
        for round in 0..100 {
            let req = reqs.insert(());
            transfers.begin(req, transfer(vc));
            assert!(!transfers.is_moving(), "{round}");
            let buf = transfers.bounces.take().expect("a buffer");
            transfers.make_windows(req).expect("windows").bounce = Some(buf);
            assert!(transfers.is_moving(), "{round}");
            transfers.end(req);
            assert!(!transfers.is_moving() && transfers.get(req).is_none(), "{round}");
        }
    }

    #[test]
    fn windows_dropped_for_another_mode_leave_the_transfer() {
        let vc = Slab::<(), VcKind>::new().insert(());
        let req = Slab::<(), ReqKind>::new().insert(());
        let mut transfers = Transfers::new();
        transfers.begin(req, transfer(vc));
        transfers.make_windows(req).expect("windows");
        transfers.drop_windows(req);
        transfers.drop_windows(req);
        assert!(!transfers.is_moving());
        assert!(transfers.get(req).is_some_and(|t| t.windows().is_none()));
    }
}
