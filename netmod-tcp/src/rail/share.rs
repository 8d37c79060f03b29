//! The sharing of puts among rails: a pure object, without sockets.
//!
//! A put is cut into chunks while it goes. A rail takes the next one when it has room: its window
//! bounds what it has sent and what is not acknowledged, so that its share follows its speed.
//! Chunks become smaller towards the end of a put, so that its rails end at about the same time. A
//! rail that is lost gives its chunks back.

use std::collections::VecDeque;

use netmod_core::IoVec;
use netmod_core::rma::RegionId;

use super::wire::Ack;

/// Sizes of chunks, in bytes, and what their lengths are multiples of where that is possible.
const LARGEST: usize = 256 << 10;
const SMALLEST: usize = 32 << 10;
const ROUND: usize = 4 << 10;
/// Bytes of a rail's window: at first, and between which bounds.
const WINDOW: usize = 512 << 10;
const WINDOW_MIN: usize = 128 << 10;
const WINDOW_MAX: usize = 4 << 20;

/// A put under way.
#[derive(Clone, Copy, Debug)]
struct Put {
    number: u64,
    op: u64,
    local: RegionId,
    mem: IoVec,
    region: u64,
    /// Offset of its first byte in the region.
    at: u64,
    /// Bytes that were cut into chunks, and bytes that are in their place.
    cut: usize,
    acked: usize,
}

/// Part of a put.
#[derive(Clone, Copy, Debug)]
struct Part {
    put: u64,
    at: usize,
    len: usize,
}

/// The next piece of a put that a rail is to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// Its number on the rail.
    pub(crate) number: u32,
    /// The peer's region, and the place in it.
    pub(crate) region: u64,
    pub(crate) at: u64,
    /// The data.
    pub(crate) mem: IoVec,
}

/// The chunks under way on one rail.
#[derive(Clone, Debug)]
struct Flow {
    up: bool,
    /// Unacknowledged, oldest first.
    parts: VecDeque<Part>,
    bytes: usize,
    window: usize,
    /// The last of them has not been sent to its end.
    sending: bool,
    /// Number of the next chunk.
    next: u32,
}

/// The end of a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) op: u64,
    /// Its region was there to the end.
    pub(crate) ok: bool,
}

/// The puts of one VC and its rails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    puts: VecDeque<Put>,
    /// Chunks that lost rails have given back; the next one last.
    again: Vec<Part>,
    flows: Vec<Flow>,
    last: u64,
}

impl Share {
    /// Adds a rail, without a connection.
    pub(crate) fn add_rail(&mut self) {
        let parts = VecDeque::new();
        self.flows.push(Flow { up: false, parts, bytes: 0, window: WINDOW, sending: false, next: 0 });
    }

    /// Removes a rail. Those behind it move up.
    pub(crate) fn remove_rail(&mut self, rail: usize) {
        self.down(rail);
        self.flows.remove(rail);
    }

    /// Begins a put. One of no bytes is none.
    pub(crate) fn put(&mut self, op: u64, local: RegionId, mem: IoVec, region: u64, at: u64) {
        debug_assert!(mem.len > 0);
        self.last += 1;
        self.puts.push_back(Put { number: self.last, op, local, mem, region, at, cut: 0, acked: 0 });
    }

    /// Returns true if no put is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.puts.is_empty()
    }

    /// Returns true if there is a piece that no rail has taken.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.again.is_empty() || self.puts.back().is_some_and(|p| p.cut < p.mem.len)
    }

    /// Returns the number of rails that are up.
    pub(crate) fn rails_up(&self) -> usize {
        self.flows.iter().filter(|f| f.up).count()
    }

    /// Takes note that a rail is connected.
    pub(crate) fn up(&mut self, rail: usize) {
        let f = &mut self.flows[rail];
        debug_assert!(f.parts.is_empty());
        (f.up, f.next, f.window) = (true, 0, WINDOW);
    }

    /// Takes note that a rail is lost. Returns the number of its chunks, which wait for the others.
    pub(crate) fn down(&mut self, rail: usize) -> usize {
        let f = &mut self.flows[rail];
        (f.up, f.bytes, f.sending) = (false, 0, false);
        let before = self.again.len();
        while let Some(part) = f.parts.pop_back() {
            if self.puts.iter().any(|p| p.number == part.put) {
                self.again.push(part);
            }
        }
        self.again.len() - before
    }

    /// Returns true if [`Share::next`] has something for a rail.
    pub(crate) fn would_take(&self, rail: usize) -> bool {
        let Some(f) = self.flows.get(rail).filter(|f| f.up && !f.sending) else { return false };
        let room = f.window.saturating_sub(f.bytes);
        let fits = |part: &Part| f.bytes == 0 || part.len <= room;
        self.is_waiting() && (f.bytes == 0 || room >= SMALLEST) && self.again.last().is_none_or(fits)
    }

    /// Returns the next chunk of a rail; `None` if it has no room, or there is nothing. The chunk
    /// is being sent until [`Share::sent`].
    pub(crate) fn next(&mut self, rail: usize) -> Option<Chunk> {
        if !self.would_take(rail) {
            return None;
        }
        let rails = self.rails_up().max(1);
        let f = self.flows.get_mut(rail)?;
        let room = f.window.saturating_sub(f.bytes);
        let part = match self.again.pop() {
            Some(part) => part,
            None => {
                let p = self.puts.iter_mut().find(|p| p.cut < p.mem.len)?;
                let rest = p.mem.len - p.cut;
                let fair = (rest / (2 * rails)).next_multiple_of(ROUND).clamp(SMALLEST, LARGEST);
                let len = rest.min(fair).min(room.max(SMALLEST) / ROUND * ROUND);
                let part = Part { put: p.number, at: p.cut, len };
                p.cut += len;
                part
            }
        };
        let p = self.puts.iter().find(|p| p.number == part.put)?;
        let mem = IoVec { base: p.mem.base.wrapping_add(part.at), len: part.len };
        let chunk = Chunk { number: f.next, region: p.region, at: p.at + part.at as u64, mem };
        f.parts.push_back(part);
        f.bytes += part.len;
        f.next = f.next.wrapping_add(1);
        f.sending = true;
        Some(chunk)
    }

    /// Takes note that a rail's chunk has been sent to its end.
    pub(crate) fn sent(&mut self, rail: usize) {
        self.flows[rail].sending = false;
    }

    /// Takes an acknowledgement of a rail. Returns the put that has ended with it, and the rails,
    /// one a bit, that are in the middle of a chunk of a put that is no more.
    ///
    /// # Errors
    /// If that chunk was not sent, or not this one is the next to be acknowledged.
    pub(crate) fn acked(&mut self, rail: usize, ack: Ack) -> Result<(Option<Ended>, u64), &'static str> {
        let f = &mut self.flows[rail];
        let Some(part) = f.parts.front().copied() else { return Err("it acknowledges what was not sent") };
        let number = f.next.wrapping_sub(f.parts.len() as u32);
        if (ack.number, ack.len as usize) != (number, part.len) {
            return Err("it acknowledges another chunk than the oldest");
        }
        if f.parts.len() == 1 && f.sending {
            return Err("it acknowledges a chunk that was not sent to its end");
        }
        f.parts.pop_front();
        f.bytes -= part.len;
        let Some(i) = self.puts.iter().position(|p| p.number == part.put) else { return Ok((None, 0)) };
        let p = &mut self.puts[i];
        let op = p.op;
        if !ack.taken {
            let stuck = self.drop_put(i);
            return Ok((Some(Ended { op, ok: false }), stuck));
        }
        p.acked += part.len;
        if p.acked < p.mem.len {
            return Ok((None, 0));
        }
        self.puts.remove(i);
        Ok((Some(Ended { op, ok: true }), 0))
    }

    /// Forgets a put. The rails, one a bit, that are in the middle of a chunk of it, and cannot go
    /// on.
    fn drop_put(&mut self, i: usize) -> u64 {
        let Some(p) = self.puts.remove(i) else { return 0 };
        self.again.retain(|part| part.put != p.number);
        let stuck = |f: &Flow| f.sending && f.parts.back().is_some_and(|part| part.put == p.number);
        self.flows.iter().enumerate().filter(|(_, f)| stuck(f)).fold(0, |set, (i, _)| set | 1 << i)
    }

    /// Ends a put that uses the memory of a registration. Returns its operation, and the rails, one
    /// a bit, that are in the middle of a chunk of it. Called until it finds nothing.
    pub(crate) fn forget_local(&mut self, region: RegionId) -> Option<(u64, u64)> {
        let i = self.puts.iter().position(|p| p.local == region)?;
        let op = self.puts[i].op;
        Some((op, self.drop_put(i)))
    }

    /// Gives up the oldest put: its operation. Rails are to be taken down before.
    pub(crate) fn give_up(&mut self) -> Option<u64> {
        let op = self.puts.front()?.op;
        self.drop_put(0);
        Some(op)
    }

    /// Adapts a rail's window after an acknowledgement; `unsent` bytes of the rail are still in
    /// this host. A rail that has nothing to send although something waits had too little; one with
    /// much of its window unsent has too much.
    pub(crate) fn adapt(&mut self, rail: usize, unsent: usize) {
        let waiting = self.is_waiting();
        let f = &mut self.flows[rail];
        if unsent == 0 && waiting && !f.sending {
            f.window = (f.window + LARGEST).min(WINDOW_MAX);
        } else if unsent > f.window / 2 {
            f.window = (f.window - f.window / 4).max(WINDOW_MIN);
        }
    }

    /// Returns the bytes of a rail that are not acknowledged, and those of its window.
    pub(crate) fn load(&self, rail: usize) -> (usize, usize) {
        (self.flows[rail].bytes, self.flows[rail].window)
    }

    /// Returns the bytes of all puts under way that are not in their place.
    pub(crate) fn left(&self) -> usize {
        self.puts.iter().map(|p| p.mem.len - p.acked).sum()
    }
}
