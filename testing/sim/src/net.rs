//! The simulated network: hosts, connections, and future events.
//!
//! A connection has a pipe in each direction. Data in a pipe arrives in order, in fragments, after
//! random delays. A pipe holds a bounded number of unread bytes. All randomness comes from one
//! generator, which also breaks ties in time, so a seed determines everything.

mod conn;
mod profile;
mod schedule;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use ch3_shim::VirtualClock;
use netmod_core::slab::Slab;
use netmod_core::{Time, VcId};

use crate::trace::Trace;
use netmod_harness::Rng;

use conn::{Conn, ConnKind, Host, Life, Pipe};
use schedule::{NetEvent, Scheduled};

pub(crate) use conn::{ConnId, End, HandshakeMessage, Item, Stage};
pub use profile::Profile;
/// Maximum number of connection attempts that a host queues; further ones are retried later.
const BACKLOG: usize = 128;
/// Delay before an attempt that found the queue full is retried; doubled each time.
const KNOCK_AGAIN: Duration = Duration::from_millis(200);
/// Maximum delivery delay, in nanoseconds, before a system gives a connection up.
const GIVES_UP_AFTER: u64 = 15_000_000_000;

/// `ECONNREFUSED`: there is no listener.
const REFUSED: i32 = 111;
/// `ECONNRESET`: the other end is gone.
const RESET: i32 = 104;
/// `ETIMEDOUT`: nothing was received for too long.
const TIMED_OUT: i32 = 110;

/// A time during which some hosts cannot reach others.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) from: Time,
    /// End of the partition; [`Time::NEVER`] if it is permanent.
    pub(crate) until: Time,
    /// Side of each rank.
    pub(crate) side: Vec<bool>,
}

/// Statistics of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Dialled connections.
    pub dials: u64,
    /// Attempts that found the listener's queue full.
    pub crowded: u64,
    /// Connections that carried messages.
    pub opened: u64,
    /// Severed connections.
    pub severed: u64,
    /// Executed events.
    pub events: u64,
    /// Maximum number of simultaneous connections.
    pub high: u64,
}

/// The simulated network.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) rng: Rng,
    pub(crate) profile: Profile,
    pub(crate) trace: Trace,
    pub(crate) stats: NetStats,
    clock: VirtualClock,
    queue: BinaryHeap<Reverse<Scheduled>>,
    conns: Slab<Conn, ConnKind>,
    hosts: Vec<Host>,
    /// Hosts whose process has something to do.
    ready: Vec<u32>,
    pub(crate) partitions: Vec<Partition>,
}

impl Net {
    pub(crate) fn new(size: u32, profile: Profile, rng: Rng, clock: VirtualClock, trace: Trace) -> Net {
        let host = || Host { life: Life::Up, inbox: VecDeque::new(), knocking: 0, ready: false };
        Net {
            rng,
            profile,
            trace,
            stats: NetStats::default(),
            clock,
            queue: BinaryHeap::new(),
            conns: Slab::new(),
            hosts: (0..size).map(|_| host()).collect(),
            ready: Vec::new(),
            partitions: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Makes the process of a rank ready.
    pub(crate) fn wake(&mut self, rank: u32) {
        let host = &mut self.hosts[rank as usize];
        if host.life != Life::Crashed && !std::mem::replace(&mut host.ready, true) {
            self.ready.push(rank);
        }
    }

    pub(crate) fn wake_all(&mut self) {
        for rank in 0..self.size() {
            self.wake(rank);
        }
    }

    /// Makes the process of a rank ready at a later time.
    pub(crate) fn wake_at(&mut self, rank: u32, at: Time) {
        let at = at.max(self.now());
        self.schedule(at, NetEvent::Wake(rank));
    }

    /// Takes a random ready process.
    pub(crate) fn take_ready(&mut self) -> Option<u32> {
        if self.ready.is_empty() {
            return None;
        }
        let i = self.rng.index(self.ready.len());
        let rank = self.ready.swap_remove(i);
        self.hosts[rank as usize].ready = false;
        Some(rank)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the time of the next event, if there is one.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse(s)| s.at)
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Describes the remaining connections.
    pub(crate) fn describe(&self) -> String {
        let each = self.conns.iter().take(20).map(|(id, c)| {
            let pipe = |l: &Pipe| {
                let mut text = format!("{} bytes", l.data.len());
                if !l.items.is_empty() {
                    text += &format!(", arrived {:?}", l.items);
                }
                if l.blocked {
                    text += ", full";
                }
                text
            };
            let [a, b] = &c.ends;
            format!(
                "\n  connection {id}: {} {:?} to {} {:?}{}; there {}; back {}",
                a.rank,
                a.stage,
                b.rank,
                b.stage,
                if c.severed { ", severed" } else { "" },
                pipe(&c.pipes[0]),
                pipe(&c.pipes[1])
            )
        });
        each.collect()
    }

    fn schedule(&mut self, at: Time, event: NetEvent) {
        let tie = self.rng.word();
        self.queue.push(Reverse(Scheduled { at, tie, event }));
    }

    fn delay(&mut self) -> Duration {
        let (low, high) = self.profile.latency;
        let mut ns = self.rng.range(low, high);
        if self.profile.spikes > 0 && self.rng.one_in(self.profile.spikes) {
            ns = ns.saturating_mul(100);
        }
        Duration::from_nanos(ns)
    }

    /// Returns true if the process of `rank` has ended, as far as `by` can ask its host.
    pub(crate) fn has_ended(&mut self, by: u32, rank: u32) -> bool {
        let now = self.now();
        self.hosts[rank as usize].life != Life::Up && self.passes(by, rank, now).is_some_and(|at| at <= now)
    }

    /// Returns the time at which data due at `at` arrives, given the partitions;
    /// `None` if never.
    fn passes(&mut self, a: u32, b: u32, mut at: Time) -> Option<Time> {
        for i in 0..self.partitions.len() {
            let p = &self.partitions[i];
            if p.side[a as usize] != p.side[b as usize] && at >= p.from && at < p.until {
                if p.until == Time::NEVER {
                    return None;
                }
                at = p.until + Duration::from_nanos(self.rng.below(1_000_000));
            }
        }
        Some(at)
    }

    /// Executes the next event; returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(Reverse(next)) = self.queue.pop() else { return false };
        self.clock.set(next.at);
        self.stats.events += 1;
        let event = &next.event;
        self.trace.note(next.at, || format!("network: {event:?}"));
        match next.event {
            NetEvent::Arrive { conn, pipe, item } => self.arrive(conn, pipe, item),
            NetEvent::Broken { conn, side, errno } => {
                if let Some(c) = self.conns.get_mut(conn) {
                    c.pipes[1 - usize::from(side)].items.push_back(Item::Reset(errno));
                    self.notify(conn, side);
                    self.tidy(conn);
                }
            }
            NetEvent::Room { conn, side } => self.notify(conn, side),
            NetEvent::Knock { conn, tries } => self.knock(conn, tries),
            NetEvent::Wake(rank) => self.wake(rank),
        }
        true
    }

    /// Advances the clock without an event.
    pub(crate) fn pass(&mut self, by: Duration) {
        self.clock.set(self.now() + by);
    }

    /// Notifies an end's process of new data.
    fn notify(&mut self, conn: ConnId, side: u8) {
        let Some(end) = self.conns.get_mut(conn).map(|c| &mut c.ends[usize::from(side)]) else { return };
        match end.stage {
            Stage::Closed => {}
            // The attempt has not reached the host.
            Stage::Knocking if !end.knocked => {}
            // Arriving data is discarded; a FIN or reset ends the connection.
            Stage::Lingering => self.discard(conn, side),
            _ => {
                let rank = end.rank;
                if !std::mem::replace(&mut end.queued, true) {
                    self.hosts[rank as usize].inbox.push_back((conn, side));
                }
                self.wake(rank);
            }
        }
    }

    fn arrive(&mut self, conn: ConnId, pipe: u8, item: Item) {
        let Some(c) = self.conns.get_mut(conn).filter(|c| !c.severed) else { return };
        let to = 1 - pipe;
        let l = &mut c.pipes[usize::from(pipe)];
        if c.ends[usize::from(to)].stage == Stage::Closed {
            // There is no process: the system answers.
            if let Item::Bytes(n) = item {
                l.data.drain(..n);
                return self.put(conn, to, Item::Reset(RESET));
            }
            return;
        }
        match (l.items.back_mut(), item) {
            (Some(Item::Bytes(m)), Item::Bytes(n)) => *m += n,
            _ => l.items.push_back(item),
        }
        self.notify(conn, to);
    }

    /// Discards the data that has arrived at a closed end.
    fn discard(&mut self, conn: ConnId, side: u8) {
        while let Some(item) = self.item(conn, side) {
            match item {
                Item::Bytes(n) => self.consume(conn, side, n),
                Item::HandshakeMessage(_) => self.pop(conn, side),
                Item::Fin | Item::Reset(_) => return self.close(conn, side),
            }
        }
    }

    /// Begins a connection, by the dial of `from` with this number.
    pub(crate) fn dial(&mut self, from: u32, to: u32, vc: VcId, number: u64) -> ConnId {
        self.stats.dials += 1;
        let end = |rank, stage, vc| End { rank, stage, vc, peer_left: false, queued: false, knocked: false };
        let conn = self.conns.insert(Conn {
            ends: [end(from, Stage::Dial, Some(vc)), end(to, Stage::Knocking, None)],
            number,
            pipes: Default::default(),
            severed: false,
        });
        self.stats.high = self.stats.high.max(self.conns.len() as u64);
        let at = self.now() + self.delay();
        if let Some(at) = self.passes(from, to, at) {
            self.schedule(at, NetEvent::Knock { conn, tries: 0 });
        }
        conn
    }

    /// Handles a connection attempt's arrival at its host.
    fn knock(&mut self, conn: ConnId, tries: u32) {
        let Some(c) = self.conns.get_mut(conn).filter(|c| !c.severed) else { return };
        let (from, to) = (c.ends[0].rank, c.ends[1].rank);
        if c.ends[0].stage == Stage::Closed {
            c.ends[1].stage = Stage::Closed;
            return self.tidy(conn);
        }
        let host = &mut self.hosts[to as usize];
        if host.life != Life::Up {
            c.ends[1].stage = Stage::Closed;
            return self.put(conn, 1, Item::Reset(REFUSED));
        }
        if host.knocking >= BACKLOG {
            self.stats.crowded += 1;
            let at = self.now() + KNOCK_AGAIN * (1 << tries.min(5)) + self.delay();
            if let Some(at) = self.passes(from, to, at) {
                self.schedule(at, NetEvent::Knock { conn, tries: tries + 1 });
            }
            return;
        }
        host.knocking += 1;
        c.ends[1].knocked = true;
        self.notify(conn, 1);
    }

    /// Sends an item that needs no buffer space.
    fn put(&mut self, conn: ConnId, side: u8, item: Item) {
        let delay = self.delay();
        let now = self.now();
        let Some(c) = self.conns.get_mut(conn) else { return };
        let (a, b) = (c.ends[0].rank, c.ends[1].rank);
        let l = &mut c.pipes[usize::from(side)];
        if l.ended {
            return;
        }
        l.ended = matches!(item, Item::Fin | Item::Reset(_));
        let at = (now + delay).max(Time(l.last.0 + 1));
        l.last = at;
        if let Some(at) = self.passes(a, b, at) {
            if let Some(c) = self.conns.get_mut(conn) {
                c.pipes[usize::from(side)].last = at;
            }
            self.schedule(at, NetEvent::Arrive { conn, pipe: side, item });
        }
    }

    pub(crate) fn send_handshake(&mut self, conn: ConnId, side: u8, message: HandshakeMessage) {
        self.put(conn, side, Item::HandshakeMessage(message));
    }

    /// Ends the stream written by this end.
    pub(crate) fn fin(&mut self, conn: ConnId, side: u8) {
        self.put(conn, side, Item::Fin);
    }

    /// Returns the number of bytes that a pipe accepts now.
    pub(crate) fn room(&self, conn: ConnId, side: u8) -> usize {
        let held = self.conns.get(conn).map_or(usize::MAX, |c| c.pipes[usize::from(side)].data.len());
        self.profile.capacity.saturating_sub(held)
    }

    /// Writes bytes, regardless of the buffer space.
    pub(crate) fn write(&mut self, conn: ConnId, side: u8, bytes: &[u8]) {
        let Some(c) = self.conns.get_mut(conn).filter(|c| !c.pipes[usize::from(side)].ended) else { return };
        c.pipes[usize::from(side)].data.extend(bytes);
        let mut left = bytes.len();
        while left > 0 {
            // A few fragments behave like many: reading cuts the data again.
            let n =
                if self.rng.one_in(3) { left } else { left.min(1 + self.rng.index(self.profile.fragment)) };
            self.put(conn, side, Item::Bytes(n));
            left -= n;
        }
    }

    /// Requests a notification when there is space again.
    pub(crate) fn wants_room(&mut self, conn: ConnId, side: u8) {
        if let Some(c) = self.conns.get_mut(conn) {
            c.pipes[usize::from(side)].blocked = true;
        }
    }

    /// Takes the rank's next end with new data.
    pub(crate) fn take_inbox(&mut self, rank: u32) -> Option<(ConnId, u8)> {
        loop {
            let (conn, side) = self.hosts[rank as usize].inbox.pop_front()?;
            if let Some(end) = self.end_mut(conn, side) {
                end.queued = false;
                return Some((conn, side));
            }
        }
    }

    pub(crate) fn inbox_len(&self, rank: u32) -> usize {
        self.hosts[rank as usize].inbox.len()
    }

    /// Puts an end back into the inbox, because it has more to do.
    pub(crate) fn again(&mut self, conn: ConnId, side: u8) {
        self.notify(conn, side);
    }

    pub(crate) fn end(&self, conn: ConnId, side: u8) -> Option<&End> {
        self.conns.get(conn).map(|c| &c.ends[usize::from(side)])
    }

    pub(crate) fn end_mut(&mut self, conn: ConnId, side: u8) -> Option<&mut End> {
        self.conns.get_mut(conn).map(|c| &mut c.ends[usize::from(side)])
    }

    /// Returns the rank's side of a connection.
    pub(crate) fn side_of(&self, conn: ConnId, rank: u32) -> u8 {
        self.conns.get(conn).map_or(0, |c| u8::from(c.ends[0].rank != rank))
    }

    /// Returns the rank at the other end.
    pub(crate) fn peer_of(&self, conn: ConnId, side: u8) -> u32 {
        self.conns.get(conn).map_or(0, |c| c.ends[usize::from(1 - side)].rank)
    }

    /// Records that the process has noticed the dialled connection.
    pub(crate) fn accept(&mut self, conn: ConnId, side: u8) {
        if let Some(end) = self.end_mut(conn, side) {
            end.stage = Stage::Proved;
            let rank = end.rank;
            if std::mem::take(&mut end.knocked) {
                self.hosts[rank as usize].knocking -= 1;
            }
        }
    }

    /// Returns the first item that has arrived at an end.
    pub(crate) fn item(&self, conn: ConnId, side: u8) -> Option<Item> {
        self.conns.get(conn)?.pipes[usize::from(1 - side)].items.front().copied()
    }

    /// Returns the first `n` bytes that have arrived at an end.
    pub(crate) fn head(&self, conn: ConnId, side: u8, n: usize) -> [&[u8]; 2] {
        let Some(c) = self.conns.get(conn) else { return [&[]; 2] };
        let (a, b) = c.pipes[usize::from(1 - side)].data.as_slices();
        let first = n.min(a.len());
        [&a[..first], &b[..n - first]]
    }

    /// Removes the first item.
    pub(crate) fn pop(&mut self, conn: ConnId, side: u8) {
        if let Some(c) = self.conns.get_mut(conn) {
            c.pipes[usize::from(1 - side)].items.pop_front();
        }
    }

    /// Removes the first `n` bytes, which were read.
    pub(crate) fn consume(&mut self, conn: ConnId, side: u8, n: usize) {
        let Some(c) = self.conns.get_mut(conn) else { return };
        let l = &mut c.pipes[usize::from(1 - side)];
        l.data.drain(..n);
        if l.data.is_empty() && l.data.capacity() > 1 << 12 {
            l.data.shrink_to(0);
        }
        if let Some(Item::Bytes(m)) = l.items.front_mut() {
            *m -= n;
            if *m == 0 {
                l.items.pop_front();
            }
        }
        if std::mem::take(&mut l.blocked) {
            let at = self.now() + self.delay();
            self.schedule(at, NetEvent::Room { conn, side: 1 - side });
        }
    }

    /// Makes an end linger: it writes and reads no more.
    pub(crate) fn linger(&mut self, conn: ConnId, side: u8) {
        self.fin(conn, side);
        if let Some(end) = self.end_mut(conn, side) {
            end.stage = Stage::Lingering;
            end.vc = None;
        }
        self.discard(conn, side);
        self.tidy(conn);
    }

    /// Closes an end.
    pub(crate) fn close(&mut self, conn: ConnId, side: u8) {
        let Some(c) = self.conns.get_mut(conn) else { return };
        let end = &mut c.ends[usize::from(side)];
        let knocking = std::mem::take(&mut end.knocked);
        let rank = end.rank;
        end.stage = Stage::Closed;
        end.vc = None;
        let unread = !c.pipes[usize::from(1 - side)].items.is_empty();
        if knocking {
            self.hosts[rank as usize].knocking -= 1;
        }
        // With unread bytes the system resets the connection.
        self.put(conn, side, if unread { Item::Reset(RESET) } else { Item::Fin });
        self.tidy(conn);
    }

    /// Removes a connection with two closed ends.
    fn tidy(&mut self, conn: ConnId) {
        let done = |e: &End| match e.stage {
            Stage::Closed | Stage::Lingering => true,
            Stage::Knocking => !e.knocked,
            Stage::Dial | Stage::Proved | Stage::Open => false,
        };
        if self.conns.get(conn).is_some_and(|c| c.ends.iter().all(done)) {
            self.conns.remove(conn);
        }
    }

    /// Severs a connection: each end notices separately.
    fn sever(&mut self, conn: ConnId, longest: u64) {
        let Some(c) = self.conns.get_mut(conn).filter(|c| !c.severed) else { return };
        c.severed = true;
        self.stats.severed += 1;
        for side in 0..2 {
            let at = self.now() + Duration::from_nanos(self.rng.below(longest));
            let errno = if self.rng.one_in(2) { RESET } else { TIMED_OUT };
            self.schedule(at, NetEvent::Broken { conn, side, errno });
        }
    }

    /// Severs a random connection that carries messages; returns its ranks.
    pub(crate) fn sever_any(&mut self) -> Option<(u32, u32)> {
        let open: Vec<(ConnId, u32, u32)> = self
            .conns
            .iter()
            .filter(|(_, c)| !c.severed && c.ends.iter().any(|e| e.stage == Stage::Open))
            .map(|(id, c)| (id, c.ends[0].rank, c.ends[1].rank))
            .collect();
        if open.is_empty() {
            return None;
        }
        let (conn, a, b) = self.rng.pick(&open);
        let longest = self.rng.pick(&[1, 100_000, 1_000_000_000]);
        self.sever(conn, longest);
        Some((a, b))
    }

    /// Severs all connections between two sides of the network.
    pub(crate) fn split(&mut self, side: &[bool]) {
        let across: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, c)| side[c.ends[0].rank as usize] != side[c.ends[1].rank as usize])
            .map(|(id, _)| id)
            .collect();
        for conn in across {
            self.sever(conn, GIVES_UP_AFTER);
        }
    }

    /// Handles the orderly exit of a process whose connections are closed: it no longer listens.
    pub(crate) fn finalized(&mut self, rank: u32) {
        self.hosts[rank as usize].life = Life::Finalized;
        let knocking = std::mem::take(&mut self.hosts[rank as usize].inbox);
        for (conn, side) in knocking {
            self.close(conn, side);
        }
    }

    /// Handles the death of a process.
    pub(crate) fn crash(&mut self, rank: u32) {
        if self.hosts[rank as usize].life != Life::Up {
            return;
        }
        self.hosts[rank as usize].life = Life::Crashed;
        self.hosts[rank as usize].inbox.clear();
        let mine: Vec<(ConnId, u8)> = self
            .conns
            .iter()
            .flat_map(|(id, c)| (0..2u8).map(move |s| (id, s, &c.ends[usize::from(s)])))
            .filter(|(_, _, e)| e.rank == rank && !matches!(e.stage, Stage::Closed | Stage::Lingering))
            .map(|(id, s, _)| (id, s))
            .collect();
        for (conn, side) in mine {
            if self.rng.one_in(2) {
                // Data in transit is lost with the host.
                self.sever(conn, 1_000_000_000);
            }
            self.close(conn, side);
        }
    }
}
