//! Two processes with a real [`Machine`] each, a small owner around it, and what is on its way.
//!
//! Connections overtake each other; the messages of one stay in order. Times are zero: what may end
//! at some moment may end at any. The owner ends a made connection by one message, and has a
//! session that is named after the connection which began it.

use core::time::Duration;
use std::collections::VecDeque;

use netmod_core::Time;

use super::mutant::{Mutant, transition};
use super::size::{Network, Size};
use super::wire::{Conn, End, Msg};
use crate::RejectReason;
use crate::establish::{Action, Claim, Event, Incoming, Machine, Phase, Rules, Setback, Verdict};

/// The cause of a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in super::super) enum Fail {
    Machine(Setback),
    Lost,
}

impl From<Setback> for Fail {
    fn from(setback: Setback) -> Fail {
        Fail::Machine(setback)
    }
}

pub(in super::super) type Peer = Machine<u8, Fail>;

/// The time of everything but timeouts, which are later than retransmissions.
const NOW: Time = Time::ZERO;
const LATE: Time = Time(1);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Side {
    pub(super) machine: Peer,
    pub(super) incarnation: u8,
    /// The number of the last dial.
    dials: u8,
    /// The session of its messages, or 0.
    pub(super) session: u8,
    /// A dial of the peer that waits for the end of the made connection.
    pub(super) waiting: Option<u8>,
    /// This side has ended the made connection, and waits for the peer's word.
    pub(super) parting: bool,
    pub(super) asleep: bool,
    pub(super) queued: u8,
    /// Events that are yet to happen.
    pub(super) wishes: u8,
    pub(super) cancels: u8,
    pub(super) ends: u8,
    pub(super) aborts: u8,
    pub(super) restarts: u8,
    pub(super) sleeps: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) sides: [Side; 2],
    pub(super) conns: Vec<Conn>,
    pub(super) faults: u8,
    pub(super) drops: u8,
    pub(super) repeats: u8,
    /// Something was lost, or failed.
    pub(super) faulty: bool,
    /// A process has died.
    pub(super) crashed: bool,
}

impl World {
    pub(super) fn is_silent(&self) -> bool {
        self.conns.iter().flat_map(|c| &c.to).all(VecDeque::is_empty)
    }
}

/// The reason why a step is not taken further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The model has no room for another dial.
    Bound,
    Wrong(String),
}

pub(super) fn wrong<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(text.into()))
}

pub(super) struct Model {
    pub(super) size: Size,
    pub(super) mutant: Option<Mutant>,
}

impl Model {
    pub(super) fn new(size: Size, mutant: Option<Mutant>) -> (Model, World) {
        let model = Model { size, mutant };
        let side = |x: usize| Side {
            machine: machine(x),
            incarnation: 1,
            dials: 0,
            session: 0,
            waiting: None,
            parting: false,
            asleep: false,
            queued: 0,
            wishes: size.wishes[x],
            cancels: size.cancels[x],
            ends: size.ends[x],
            aborts: size.aborts[x],
            restarts: size.restarts[x],
            sleeps: size.sleeps[x],
        };
        let mut w = World {
            sides: [side(0), side(1)],
            conns: vec![],
            faults: size.faults,
            drops: size.drops,
            repeats: size.repeats,
            faulty: size.impatient,
            crashed: false,
        };
        for x in 0..2 {
            if size.tried {
                let m = &mut w.sides[x].machine;
                let rules = model.rules(false);
                let failed = Event::Failed { conn: None, failure: Fail::Lost, permanent: false };
                let _ = m.on(Event::Want, NOW, &rules);
                let _ = m.on(failed, NOW, &rules);
                w.sides[x].queued = w.sides[x].wishes;
                w.sides[x].wishes = 0;
            }
        }
        (model, w)
    }

    fn rules(&self, held: bool) -> Rules {
        Rules {
            connect_timeout: if self.size.impatient { Duration::ZERO } else { Duration::MAX },
            handshake_timeout: LATE - NOW,
            promise_timeout: LATE - NOW,
            backoff_min: Duration::ZERO,
            backoff_max: Duration::ZERO,
            crossing_wait: Duration::ZERO,
            retransmit: if self.size.network == Network::Frames { Duration::ZERO } else { Duration::MAX },
            held,
        }
    }

    /// Lets something happen to a side's machine, and does what it says.
    pub(super) fn on(&self, w: &mut World, x: usize, event: Event<u8, Fail>) -> Result<(), Stop> {
        self.at(w, x, event, NOW)
    }

    pub(super) fn time_out(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        self.at(w, x, Event::Timer, LATE)
    }

    fn at(&self, w: &mut World, x: usize, event: Event<u8, Fail>, now: Time) -> Result<(), Stop> {
        let s = &mut w.sides[x];
        let rules = self.rules(s.asleep);
        let acts = transition(self.mutant, &mut s.machine, event, now, &rules);
        // Worlds that differ only in counts and in when a wait began are the same.
        s.machine.normalize(now - NOW);
        for act in acts {
            self.carry_out(w, x, act)?;
        }
        Ok(())
    }

    fn carry_out(&self, w: &mut World, x: usize, act: Action<u8>) -> Result<(), Stop> {
        match act {
            Action::Dial => {
                let conn = self.dial(w, x)?;
                self.on(w, x, Event::Dialing { conn })
            }
            Action::Retransmit(c) => {
                let conn = &w.conns[usize::from(c)];
                let again = if conn.dialer == x { Some(Msg::Hello) } else { conn.accept };
                again.map_or(Ok(()), |m| send(w, x, c, m))
            }
            Action::Accept(c) => {
                let (incarnation, dials) = (w.sides[x].incarnation, w.sides[x].dials);
                let accept = Msg::Accept { incarnation, dials };
                w.conns[usize::from(c)].accept = Some(accept);
                send(w, x, c, accept)
            }
            Action::Reject(c, reason) => {
                let conn = &w.conns[usize::from(c)];
                let peer = &w.sides[1 - x];
                let live = peer.machine.phase == Phase::Dialing
                    && peer.machine.conn == Some(c)
                    && peer.incarnation == conn.incarnation;
                if live && reason == RejectReason::AlreadyConnected && !conn.told[x] {
                    return wrong(format!("{x} takes dial {c} for void, and it is under way"));
                }
                self.end(w, x, c, Msg::Reject(reason))
            }
            Action::Made { conn, dialed } => self.made(w, x, conn, dialed),
            Action::Abandon(c) => self.end(w, x, c, Msg::Goodbye),
            Action::Withdraw(c) => self.end(w, x, c, Msg::Withdrawn),
            Action::Close(c) => self.close(w, x, c),
            Action::Unreachable { .. } => {
                if !self.size.impatient {
                    return wrong(format!("{x} finds its peer unreachable without a fault"));
                }
                w.sides[x].queued = 0;
                Ok(())
            }
        }
    }

    fn dial(&self, w: &mut World, x: usize) -> Result<u8, Stop> {
        let c = w.conns.len();
        if c >= self.size.dials {
            return if self.size.long_pauses {
                wrong(format!("{x} dials more often than is needed"))
            } else {
                Err(Stop::Bound)
            };
        }
        let s = &mut w.sides[x];
        if s.asleep {
            return wrong(format!("{x} dials while it is being checkpointed"));
        }
        s.dials += 1;
        let mut ends = [End::Unknown; 2];
        ends[x] = End::Open;
        w.conns.push(Conn {
            dialer: x,
            incarnation: s.incarnation,
            number: s.dials,
            session: s.session,
            ends,
            to: Default::default(),
            told: [false; 2],
            accept: None,
            ready: false,
            broken: false,
        });
        send(w, x, c as u8, Msg::Hello)?;
        Ok(c as u8)
    }

    fn made(&self, w: &mut World, x: usize, c: u8, dialed: bool) -> Result<(), Stop> {
        let conn = &w.conns[usize::from(c)];
        if conn.ends[x] != End::Open {
            return wrong(format!("{x} adopts connection {c}, which it has closed"));
        }
        if conn.dialer != x && !conn.ready {
            return wrong(format!("{x} adopts connection {c} before READY"));
        }
        let fresh = if self.size.network == Network::Resumed { c + 1 } else { 0 };
        w.sides[x].session = if conn.session == 0 { fresh } else { conn.session };
        if dialed {
            send(w, x, c, Msg::Ready)?;
        }
        for _ in 0..core::mem::take(&mut w.sides[x].queued) {
            send(w, x, c, Msg::Data)?;
        }
        Ok(())
    }

    /// Announces the end of a connection, and closes it.
    pub(super) fn end(&self, w: &mut World, x: usize, c: u8, word: Msg) -> Result<(), Stop> {
        // A forgotten connection can still be answered if there are no streams.
        if self.size.network != Network::Frames || w.conns[usize::from(c)].ends[x] == End::Open {
            send(w, x, c, word)?;
        } else {
            push(w, x, c, word);
        }
        let conn = &mut w.conns[usize::from(c)];
        conn.told[x] = true;
        conn.ends[x] = End::Closed;
        self.forget(w, x, c);
        Ok(())
    }

    /// Closes a connection without a word.
    pub(super) fn close(&self, w: &mut World, x: usize, c: u8) -> Result<(), Stop> {
        if self.size.network != Network::Frames && w.conns[usize::from(c)].ends[x] == End::Open {
            send(w, x, c, Msg::Eof)?;
        }
        w.conns[usize::from(c)].ends[x] = End::Closed;
        self.forget(w, x, c);
        Ok(())
    }

    /// Drops the unread messages of a closed stream.
    fn forget(&self, w: &mut World, x: usize, c: u8) {
        if self.size.network != Network::Frames {
            w.conns[usize::from(c)].to[x].clear();
        }
    }

    /// The next message of a connection comes to a side.
    pub(super) fn deliver(&self, w: &mut World, x: usize, c: u8) -> Result<(), Stop> {
        let at = usize::from(c);
        let Some(m) = w.conns[at].to[x].pop_front() else { return Ok(()) };
        let s = &w.sides[x];
        let conn = &w.conns[at];
        let frames = self.size.network == Network::Frames;
        let mine = conn.dialer == x && conn.incarnation == s.incarnation;
        match m {
            Msg::Hello => return self.hello(w, x, c),
            // It was given up, and its responder has not heard so.
            Msg::Accept { incarnation, dials } if frames && mine => {
                let (incarnation, conn) = (incarnation.into(), c);
                return self.on(w, x, Event::Accepted { conn, incarnation, dials: dials.into() });
            }
            Msg::Data if conn.ends[x] == End::Closed && !conn.told[x] && !w.faulty => {
                return wrong(format!("a message to {x} is lost, and nobody is told"));
            }
            _ if conn.ends[x] != End::Open => {
                if frames && m == Msg::Goodbye && s.waiting == Some(c) {
                    w.sides[x].waiting = None;
                }
                return Ok(());
            }
            _ => {}
        }
        let made = s.machine.phase == Phase::Made && s.machine.conn == Some(c);
        match m {
            Msg::Hello => Ok(()),
            Msg::Accept { incarnation, dials } => {
                let (incarnation, dials) = (incarnation.into(), dials.into());
                self.on(w, x, Event::Accepted { conn: c, incarnation, dials })
            }
            Msg::Reject(reason) => {
                w.conns[at].ends[x] = End::Closed;
                let resumes = reason == RejectReason::NoSession && w.conns[at].session != 0;
                if resumes {
                    w.sides[x].session = 0;
                }
                let permanent = !reason.is_transient() && !resumes;
                self.on(w, x, Event::Rejected { conn: c, reason, permanent })
            }
            Msg::Ready => {
                w.conns[at].ready = true;
                self.on(w, x, Event::Ready { conn: c })
            }
            Msg::Goodbye if made => wrong(format!("{x} is told that its made connection {c} is no more")),
            Msg::Goodbye => {
                w.conns[at].ends[x] = End::Closed;
                if w.sides[x].waiting == Some(c) {
                    w.sides[x].waiting = None;
                }
                self.on(w, x, Event::Goodbye { conn: c })
            }
            Msg::Data if made => Ok(()),
            Msg::Data => wrong(format!("{x} gets a message on connection {c}, which is not made")),
            // Both may have ended it at once.
            Msg::Ended if made && !s.parting => {
                self.end(w, x, c, Msg::EndedToo).and_then(|()| self.ended(w, x))
            }
            Msg::Withdrawn | Msg::Ended | Msg::EndedToo if made => {
                w.conns[at].ends[x] = End::Closed;
                self.ended(w, x)
            }
            Msg::Eof if !w.faulty => {
                wrong(format!("{x} reads the end of connection {c}, and no goodbye before it"))
            }
            Msg::Withdrawn | Msg::Ended | Msg::EndedToo | Msg::Eof | Msg::Reset => self.lost(w, x, c),
        }
    }

    fn lost(&self, w: &mut World, x: usize, c: u8) -> Result<(), Stop> {
        w.conns[usize::from(c)].ends[x] = End::Closed;
        let m = &w.sides[x].machine;
        if m.phase != Phase::Made || m.conn != Some(c) {
            let event = Event::Failed { conn: Some(c), failure: Fail::Lost, permanent: false };
            return self.on(w, x, event);
        }
        let session = if w.sides[x].parting { 0 } else { w.sides[x].session };
        self.ended(w, x)?;
        if session != 0 && w.sides[x].machine.phase == Phase::Idle {
            w.sides[x].session = session;
            return self.on(w, x, Event::Want);
        }
        Ok(())
    }

    /// The made connection is no more: the dial that waits is decided.
    pub(super) fn ended(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        let waiting = w.sides[x].waiting.take();
        w.sides[x].session = 0;
        w.sides[x].parting = false;
        self.on(w, x, Event::Ended)?;
        waiting.map_or(Ok(()), |c| self.incoming(w, x, c))
    }

    /// HELLO, perhaps once more.
    fn hello(&self, w: &mut World, x: usize, c: u8) -> Result<(), Stop> {
        let s = &w.sides[x];
        if w.conns[usize::from(c)].dialer == x || s.waiting == Some(c) {
            return Ok(());
        }
        if s.machine.conn == Some(c) {
            let accept = w.conns[usize::from(c)].accept;
            let again = accept.filter(|_| s.machine.phase == Phase::Promised);
            return again.map_or(Ok(()), |m| send(w, x, c, m));
        }
        w.conns[usize::from(c)].ends[x] = End::Open;
        self.incoming(w, x, c)
    }

    fn incoming(&self, w: &mut World, x: usize, c: u8) -> Result<(), Stop> {
        let (s, conn) = (&w.sides[x], &w.conns[usize::from(c)]);
        let known = conn.session == 0 || conn.session == s.session;
        let claim = if known { Claim::Acceptable } else { Claim::Refused(RejectReason::NoSession) };
        let (incarnation, number) = (conn.incarnation.into(), conn.number.into());
        let dial = Incoming { conn: c, incarnation, number, claim };
        let replaced = s.machine.is_replaced_by(incarnation);
        if s.machine.verdict(&dial) != Verdict::Contested {
            return self.on(w, x, Event::Incoming(dial));
        }
        let made = s.machine.conn.map(|c| &w.conns[usize::from(c)]);
        if let Some(Msg::Accept { incarnation, dials }) = made.and_then(|made| made.accept)
            && made.is_some_and(|made| made.dialer == x)
            && conn.incarnation == incarnation
            && conn.number <= dials
        {
            return wrong(format!("{x} ends its connection for dial {c}, which was given up for it"));
        }
        let resumes = conn.session != 0;
        if replaced || resumes {
            let old = s.machine.conn.expect("a made connection");
            self.close(w, x, old)?;
            w.sides[x].parting = false;
            self.on(w, x, Event::Ended)?;
            return self.on(w, x, Event::Incoming(dial));
        }
        if self.size.network != Network::Frames {
            return self.end(w, x, c, Msg::Reject(RejectReason::AlreadyConnected));
        }
        // The later one of two waiting dials counts.
        let earlier = w.sides[x].waiting.replace(c);
        earlier.map_or(Ok(()), |e| self.end(w, x, e, Msg::Reject(RejectReason::AlreadyConnected)))
    }

    /// A message: sent at once where a connection is made.
    pub(super) fn wish(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        w.sides[x].wishes -= 1;
        let m = &w.sides[x].machine;
        if let (Phase::Made, Some(c), false) = (m.phase, m.conn, w.sides[x].parting) {
            return send(w, x, c, Msg::Data);
        }
        w.sides[x].queued += 1;
        self.on(w, x, Event::Want)
    }

    /// A process dies, and another one takes its name. What is on its way to its peer is lost or
    /// not.
    pub(super) fn restart(&self, w: &mut World, x: usize, lost: bool) -> Result<(), Stop> {
        w.faulty = true;
        w.crashed = true;
        for conn in &mut w.conns {
            if lost {
                conn.to[1 - x].clear();
            }
            if self.size.network != Network::Frames {
                conn.to[x].clear();
                if conn.ends[1 - x] != End::Closed && !conn.broken && (conn.ends[x] != End::Closed || lost) {
                    conn.to[1 - x].push_back(Msg::Reset);
                    conn.broken = true;
                }
            }
            if conn.dialer == x || self.size.network != Network::Frames {
                conn.ends[x] = End::Closed;
            } else {
                // The new process has the address of the old one.
                conn.ends[x] = End::Unknown;
            }
            conn.told[x] = true;
        }
        let s = &mut w.sides[x];
        s.restarts -= 1;
        s.incarnation += 1;
        s.machine = machine(x);
        (s.dials, s.session, s.waiting, s.queued) = (0, 0, None, 0);
        (s.parting, s.asleep) = (false, false);
        Ok(())
    }

    /// Checks a world in which nothing more happens.
    pub(super) fn check_end(&self, w: &World) -> Result<(), String> {
        for (x, s) in w.sides.iter().enumerate() {
            let phase = s.machine.phase;
            if !matches!(phase, Phase::Idle | Phase::Made) {
                return Err(format!("{x} stays in {phase:?} for ever"));
            }
            if s.queued > 0 || s.parting {
                return Err(format!("a message of {x} waits for ever, in {phase:?}"));
            }
            for (c, conn) in w.conns.iter().enumerate() {
                let waits = s.waiting == Some(c as u8);
                if conn.ends[x] == End::Open && s.machine.conn != Some(c as u8) && !waits {
                    return Err(format!("{x} has forgotten to close connection {c}"));
                }
            }
        }
        let [a, b] = &w.sides;
        // A side that does not see the end of a stream does not see a death either.
        let blind = w.crashed && self.size.network == Network::Frames;
        if a.machine.conn != b.machine.conn && !blind {
            return Err(format!("one is on {:?}, the other on {:?}", a.machine.conn, b.machine.conn));
        }
        Ok(())
    }
}

fn machine(x: usize) -> Peer {
    Machine::new(x == 1, 1)
}

fn push(w: &mut World, x: usize, c: u8, m: Msg) {
    let conn = &mut w.conns[usize::from(c)];
    let gone = conn.ends[1 - x] == End::Closed && conn.to[1 - x].is_empty();
    if !(conn.broken || gone && m == Msg::Eof) {
        conn.to[1 - x].push_back(m);
    }
}

pub(super) fn send(w: &mut World, x: usize, c: u8, m: Msg) -> Result<(), Stop> {
    let end = w.conns[usize::from(c)].ends[x];
    if end != End::Open {
        return wrong(format!("{x} sends {m:?} on connection {c}, which is {end:?}"));
    }
    push(w, x, c, m);
    Ok(())
}
