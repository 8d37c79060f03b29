//! Receiving: streams are taken up, delivered in pieces, and seen to their end.

use netmod_core::{Core, Event, Events, PeerName, VcError, VcErrorKind, VcId};

use super::LoopbackNetmod;
use super::fabric::{End, Lane};
use crate::sys::receive_direct;

/// Deliveries of one VC in one poll.
const EACH: usize = 1024;

/// Result of one look at a VC.
enum Step {
    /// Something; look again.
    Again,
    /// No more in this poll.
    Enough,
    /// The peer has ended its stream.
    Ended,
    /// The peer has given up its stream, or itself.
    Broken,
}

/// The first `n` bytes of the stream at the head, which has as many.
fn head(lane: &Lane, n: usize) -> [&[u8]; 2] {
    let Some(s) = lane.streams.front() else { return [&[]; 2] };
    let (a, b) = s.bytes.as_slices();
    let first = n.min(a.len());
    [&a[..first], &b[..n - first]]
}

impl LoopbackNetmod {
    /// Looks at all lanes to this rank, another one first each time.
    pub(super) fn receive(&mut self, core: &mut Core, events: &mut Events) {
        let n = self.fabric.size();
        self.first = (self.first + 1) % n;
        for i in 0..n {
            let rank = (self.first + i) % n;
            if rank == self.me.rank {
                continue;
            }
            match self.by_rank[rank as usize] {
                Some(vc) => self.receive_vc(core, vc, rank, events),
                None => self.announce(rank, events),
            }
            // Opening streams and failing VCs made events: here is their place in the order.
            while let Some(ev) = self.pending.pop_front() {
                events.push(ev);
            }
        }
    }

    /// A peer without a VC that wants to connect.
    fn announce(&mut self, rank: u32, events: &mut Events) {
        let waiting = !self.fabric.lane(rank, self.me.rank).streams.is_empty();
        if waiting && !self.announced[rank as usize] {
            self.announced[rank as usize] = true;
            events.push(Event::NewPeer { peer: PeerName { group: self.me.group, rank }, netmod: 0 });
        }
    }

    fn receive_vc(&mut self, core: &mut Core, vc: VcId, rank: u32, events: &mut Events) {
        // True if the engine must handle an event of this VC before its receive state is known.
        let mut busy = events.concern(vc);
        for _ in 0..EACH {
            if events.room() == 0 || self.arena.room() == 0 {
                return;
            }
            match self.step(core, vc, rank, events, &mut busy) {
                Step::Again => {}
                Step::Enough => return,
                Step::Ended => return self.peer_left(core, vc),
                Step::Broken => {
                    let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
                    let why = VcError::new(
                        VcErrorKind::Lost,
                        Some(peer),
                        "the connection was broken; has the process died?",
                    );
                    return self.fail(core, vc, why);
                }
            }
        }
    }

    fn step(&mut self, core: &mut Core, vc: VcId, rank: u32, events: &mut Events, busy: &mut bool) -> Step {
        let fabric = std::sync::Arc::clone(&self.fabric);
        let mut lane = fabric.lane(rank, self.me.rank);
        let Some(l) = self.links.get_mut(vc) else { return Step::Enough };
        let Some(stream) = lane.streams.front_mut() else {
            let lost = l.writing && fabric.is_gone(rank);
            return if lost && !*busy { Step::Broken } else { Step::Enough };
        };
        if l.down.is_some() || l.discarding {
            stream.bytes.clear();
            if stream.end == End::Open {
                return Step::Enough;
            }
            lane.streams.pop_front();
            l.discarding = false;
            return Step::Again;
        }
        if !l.reading {
            // A new connection is taken up when all of the one before it is over.
            if l.terminating || *busy {
                return Step::Enough;
            }
            l.reading = true;
            core.reset_receive(vc);
            drop(lane);
            self.came_up(core, vc);
            while let Some(ev) = self.pending.pop_front() {
                events.push(ev);
            }
            return Step::Again;
        }
        if stream.bytes.is_empty() {
            // The end is seen when the engine has handled all that came before it.
            return match stream.end {
                End::Open => Step::Enough,
                _ if *busy => Step::Enough,
                End::Fin => {
                    lane.streams.pop_front();
                    l.reading = false;
                    Step::Ended
                }
                End::Reset => {
                    lane.streams.pop_front();
                    l.reading = false;
                    Step::Broken
                }
            };
        }
        let mut n = self.cutter.next().min(stream.bytes.len());
        let mut gone = 0;
        if fabric.options.direct
            && !*busy
            && let Some(direct) = receive_direct(core, vc, head(&lane, n))
        {
            gone = direct.taken;
            if direct.done {
                events.push(Event::RecvDone { vc });
            }
            // Behind the receive's end the same piece goes on; but what it means is not known
            // before the engine has handled the end.
            *busy = direct.filled;
            n = if direct.filled { n } else { gone };
        }
        if let Some(s) = lane.streams.front_mut() {
            s.bytes.drain(..gone);
        }
        let tail = (n - gone).min(self.arena.room());
        if tail > 0 {
            let buf = self.arena.lend(head(&lane, tail));
            events.push(Event::Rx { vc, buf });
            *busy = true;
            if let Some(s) = lane.streams.front_mut() {
                s.bytes.drain(..tail);
            }
        }
        Step::Again
    }

    /// The peer has ended its connection. Unless this side is ending it too, ours ends with it:
    /// what waits goes by a new one.
    fn peer_left(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.links.get_mut(vc) else { return };
        if l.terminating || !l.writing {
            return;
        }
        if l.queue.is_within() {
            let why = VcError::new(
                VcErrorKind::Closed,
                Some(l.peer),
                "it ended the connection in the middle of a message",
            );
            return self.fail(core, vc, why);
        }
        l.writing = false;
        l.up = false;
        self.fabric.lane(self.me.rank, l.peer.rank).end(End::Fin);
        self.pump(core, vc);
    }
}
