//! Two processes with a real [`Link`] each, and the sockets between them.
//!
//! A connection is a pair of FIFOs. The cryptographic part of the hello is one message here, since
//! an [`LinkEvent::Incoming`] follows only a right PROOF. Times are all zero: a pause may end at
//! any moment, which includes the moments that real pauses allow.

mod deliver;
mod steps;

use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeSet;

use netmod_core::{GroupId, PeerName, Time};

use super::mutant::Mutant;
use super::socket::{Conn, End, Fifo, Msg, reset};
use crate::link::{ConnKey, Failure, Link, LinkAction, LinkConfig, LinkEvent, Phase};

pub(super) const CONNS: usize = 6;

/// Progress of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Rest {
    Awake,
    /// The peer is told, or what is under way comes to its end.
    Settling,
    /// Nobody listens.
    Asleep,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Side {
    pub(super) link: Link,
    /// Messages that the program has not yet thought of.
    pub(super) wishes: u8,
    /// Messages in the netmod's queue.
    pub(super) queued: u8,
    sent: u8,
    got: u8,
    terminates: u8,
    shutdowns: u8,
    cancels: u8,
    /// Checkpoints to come, and how far the present one is.
    sleeps: u8,
    rest: Rest,
    /// Times that a better way will open; and whether its present move resets the old connection.
    moves: u8,
    harsh: bool,
    asked: bool,
    /// Messages that arrived; `got` is the number of the last one.
    arrived: u8,
    /// Its incarnation.
    incarnation: u8,
    /// The session of its messages; where that began, of what is sent and of what has come; what of
    /// it went on this connection, is acknowledged by the peer, and to the peer.
    session: u64,
    tx_base: u8,
    rx_base: u8,
    cursor: u8,
    acked: u8,
    told: u8,
    /// The peer has said goodbye on this connection, and acknowledges nothing more.
    left: bool,
    /// It was reported down, so that the program knows that messages may be lost.
    down: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) sides: [Side; 2],
    pub(super) conns: Vec<Conn>,
    pub(super) faults: u8,
    /// Dials to a peer that was checkpointed that may yet reach another process.
    pub(super) astray: u8,
    pub(super) faulty: bool,
    crashed: bool,
    /// Something else happened than broken connections and slow handshakes.
    hard: bool,
    /// A side wanted to part, or a side was down: from then on a resumption may find nobody.
    parted: bool,
    /// Something was lost that no protocol could have saved: by a reset, or because one side did
    /// not wait for the other's goodbye.
    lossy: bool,
}

impl Side {
    fn new(x: usize, wishes: u8, incarnation: u8, mutant: Option<Mutant>) -> Side {
        Side {
            link: new_link(x, mutant),
            wishes,
            queued: 0,
            sent: 0,
            got: 0,
            terminates: 0,
            shutdowns: 0,
            cancels: 0,
            sleeps: 0,
            rest: Rest::Awake,
            moves: 0,
            harsh: false,
            asked: false,
            arrived: 0,
            incarnation,
            session: 0,
            tx_base: 0,
            rx_base: 0,
            cursor: 0,
            acked: 0,
            told: 0,
            left: false,
            down: false,
        }
    }

    /// Returns the position in a session up to which this side has read, as the peer is told.
    fn position(&self, session: u8) -> u8 {
        if session != 0 && u64::from(session) == self.session { self.arrived - self.rx_base } else { 0 }
    }

    /// Returns true if nothing waits to be sent or acknowledged.
    fn settled(&self) -> bool {
        self.queued == 0
            && self.cursor == self.sent
            && (self.session == 0 || self.left || self.acked == self.sent)
    }

    /// The acknowledgement that is owed.
    fn acknowledge(&mut self) -> Option<Msg> {
        if self.session == 0 || self.told == self.arrived {
            return None;
        }
        self.told = self.arrived;
        Some(Msg::Ack(self.arrived - self.rx_base))
    }
}

/// The cause for which a step is not explored further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The model has no room for another dial.
    Bound,
    Wrong(String),
}

/// The size of an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) wishes: [u8; 2],
    pub(super) terminates: [u8; 2],
    pub(super) shutdowns: [u8; 2],
    /// Messages that may be taken back before they leave.
    pub(super) cancels: [u8; 2],
    /// Checkpoints of each side.
    pub(super) sleeps: [u8; 2],
    /// Times that a better way opens for each side.
    pub(super) moves: [u8; 2],
    pub(super) faults: u8,
    /// Dials after a checkpoint that reach another process, which has got the peer's address.
    pub(super) astray: u8,
    pub(super) dials: usize,
    /// Sessions are resumed.
    pub(super) resume: bool,
    /// A connection without a session begins one for a checkpoint.
    pub(super) late: bool,
    /// Give up at the first failed dial.
    pub(super) impatient: bool,
    /// Pauses are longer than everything else takes, and one dial more than `dials` is wrong.
    pub(super) long_pauses: bool,
}

impl Size {
    pub(super) const SMALL: Size = Size {
        wishes: [1, 1],
        terminates: [0, 0],
        shutdowns: [0, 0],
        cancels: [0, 0],
        sleeps: [0, 0],
        moves: [0, 0],
        faults: 0,
        astray: 0,
        dials: 4,
        resume: false,
        late: false,
        impatient: false,
        long_pauses: false,
    };
}

pub(super) struct Model {
    /// Every change of phase that was met, with the event.
    pub(super) edges: RefCell<BTreeSet<(Phase, Phase, String)>>,
    /// The mistake that the links make.
    mutant: Option<Mutant>,
    cfg: LinkConfig,
    dials: usize,
    faults: u8,
    resume: bool,
    late: bool,
    /// Nothing is lost unless a process ends.
    lossless: bool,
    long_pauses: bool,
}

type Step = Result<World, Stop>;

fn name(x: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: x as u32 }
}

fn new_link(x: usize, mutant: Option<Mutant>) -> Link {
    match mutant {
        Some(Mutant::BothAccept) => Link::new(&name(0), &name(1), 1),
        Some(Mutant::BothReject) => Link::new(&name(1), &name(0), 1),
        _ => Link::new(&name(x), &name(1 - x), 1),
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(text.into()))
}

impl Model {
    pub(super) fn new(size: Size, mutant: Option<Mutant>) -> (Model, World) {
        let connect_timeout = if size.impatient { Duration::ZERO } else { Duration::MAX };
        let cfg = LinkConfig {
            connect_timeout,
            handshake_timeout: Duration::ZERO,
            backoff_min: Duration::ZERO,
            backoff_max: Duration::ZERO,
            crossing_wait: Duration::ZERO,
            move_timeout: Duration::ZERO,
            parting_timeout: Duration::ZERO,
            resume_timeout: connect_timeout,
            ckpt_timeout: connect_timeout,
        };
        let side = |x: usize| Side {
            terminates: size.terminates[x],
            shutdowns: size.shutdowns[x],
            cancels: size.cancels[x],
            sleeps: size.sleeps[x],
            moves: size.moves[x],
            ..Side::new(x, size.wishes[x], 1, mutant)
        };
        let world = World {
            sides: [side(0), side(1)],
            conns: vec![],
            faults: size.faults,
            astray: size.astray,
            faulty: size.impatient,
            crashed: false,
            hard: size.impatient,
            parted: false,
            lossy: false,
        };
        (
            Model {
                edges: RefCell::default(),
                mutant,
                cfg,
                dials: size.dials.min(CONNS),
                faults: size.faults,
                resume: size.resume,
                late: size.late,
                lossless: size.resume || size.late && size.faults == 0,
                long_pauses: size.long_pauses,
            },
            world,
        )
    }

    fn on(&self, w: &mut World, x: usize, event: LinkEvent) -> Result<(), Stop> {
        let before = w.sides[x].link.phase();
        let withdrawn = matches!(event, LinkEvent::Lost { failure: Failure::Withdrawn, .. });
        let parting = before == Phase::Parting && !withdrawn;
        let held = w.sides[x].link.up();
        let link = &mut w.sides[x].link;
        let acts: Vec<_> = match self.mutant {
            Some(mutant) => mutant.on(link, event, Time::ZERO, &self.cfg),
            None => link.on(event, Time::ZERO, &self.cfg).into_iter().collect(),
        };
        w.sides[x].link.forget_random();
        if parting && acts.iter().any(|a| matches!(a, LinkAction::Down(_))) {
            return wrong(format!("{x} is down though it had said goodbye"));
        }
        let peer = &w.sides[1 - x].link;
        // A move may be taken for good though its side has just given it up, since that loses
        // nothing either.
        let moved = matches!(event, LinkEvent::Incoming { conn, .. } if w.conns[conn.0 as usize].moves);
        let holds = matches!(peer.phase(), Phase::Up | Phase::Promised) && peer.conn() == held && !moved;
        if holds && acts.contains(&LinkAction::Suspend(Failure::Replaced)) {
            return wrong(format!("{x} gives up a connection for a dial that its peer has given up for it"));
        }
        let after = w.sides[x].link.phase();
        if before != after {
            let text = format!("{event:?}");
            let event = text.split([' ', '{']).next().unwrap_or_default().to_owned();
            self.edges.borrow_mut().insert((before, after, event));
        }
        self.carry_out(w, x, acts)?;
        let s = &mut w.sides[x];
        if s.session != 0 && s.session != s.link.session() {
            s.session = 0;
            s.acked = s.sent;
            s.cursor = s.sent;
        }
        Ok(())
    }

    fn carry_out(&self, w: &mut World, x: usize, acts: Vec<LinkAction>) -> Result<(), Stop> {
        for act in acts {
            match act {
                LinkAction::StartDial => {
                    let tells = w.sides[x].link.is_resuming() && !w.sides[x].link.is_patient();
                    if w.sides[x].rest == Rest::Asleep || w.sides[x].rest == Rest::Settling && !tells {
                        return wrong(format!("{x} dials while it is being checkpointed"));
                    }
                    let conn = self.connect(w, x)?;
                    hello(w, x, conn)?;
                    self.on(w, x, LinkEvent::Dialing { conn })?;
                }
                LinkAction::Offer(c) => hello(w, x, c)?,
                LinkAction::SendAccept(c) => {
                    let position = w.sides[x].position(w.conns[c.0 as usize].session);
                    let incarnation = w.sides[x].incarnation;
                    let dials = w.conns.iter().rposition(|c| c.dialer == x).map_or(0, |c| c as u8 + 1);
                    send(w, x, c, Msg::Accept { position, incarnation, dials })?;
                }
                LinkAction::SendReady(c) => send(w, x, c, Msg::Ready)?,
                LinkAction::SendReject(c, reason) => {
                    send(w, x, c, Msg::Reject(reason))?;
                    close(w, x, c)?;
                }
                LinkAction::Adopt(c) => self.adopt(w, x, c)?,
                LinkAction::Abandon(c) => {
                    // An end that has parted already has said it.
                    send(w, x, c, Msg::Goodbye)?;
                    close(w, x, c)?;
                }
                LinkAction::Withdraw(c) => {
                    send(w, x, c, Msg::Withdrawn)?;
                    close(w, x, c)?;
                }
                LinkAction::Suspend(_) => {}
                LinkAction::SayGoodbye(c) => {
                    w.sides[x].acknowledge().map_or(Ok(()), |ack| send(w, x, c, ack))?;
                    send(w, x, c, Msg::Goodbye)?;
                    send(w, x, c, Msg::Fin)?;
                    w.conns[c.0 as usize].ends[x] = End::Half;
                    if !w.sides[x].settled() && (self.lossless || !w.faulty) {
                        return wrong(format!("{x} says goodbye with messages pending"));
                    }
                }
                LinkAction::Close(c) if w.sides[x].harsh && w.sides[x].link.up() != Some(c) => {
                    // Bytes that the peer has not read yet may be lost with the connection.
                    w.sides[x].harsh = false;
                    close(w, x, c)?;
                    if w.conns[c.0 as usize].ends[1 - x] != End::Closed && !w.conns[c.0 as usize].broken {
                        w.conns[c.0 as usize].to[1 - x] = Fifo::default();
                        w.conns[c.0 as usize].to[1 - x].push(Msg::Reset);
                    }
                }
                LinkAction::Close(c) => close(w, x, c)?,
                LinkAction::Terminated => {
                    if !core::mem::take(&mut w.sides[x].asked) {
                        return wrong(format!("{x}: terminated without being asked"));
                    }
                }
                LinkAction::Down(cause) => {
                    if !w.faulty {
                        return wrong(format!("{x} is down without a fault: {cause}"));
                    }
                    if self.lossless && !w.hard && !w.parted {
                        return wrong(format!("{x} is down though only connections broke: {cause}"));
                    }
                    is_down(w, x);
                }
            }
        }
        Ok(())
    }

    /// An adopted connection without a session begins one.
    pub(super) fn begin_session(&self, w: &mut World, x: usize, c: ConnKey) -> Result<(), Stop> {
        if !self.late || w.sides[x].link.session() != 0 || w.sides[x].left {
            return Ok(());
        }
        self.on(w, x, LinkEvent::BeginSession { session: c.0 + 1 })?;
        let s = &mut w.sides[x];
        s.session = s.link.session();
        if s.session != 0 {
            // From now on it is kept what is sent, and acknowledged what comes.
            (s.acked, s.told) = (s.cursor, s.arrived);
        }
        Ok(())
    }

    /// An adopted connection of a process that is about to sleep.
    pub(super) fn tell(&self, w: &mut World, x: usize, c: ConnKey) -> Result<(), Stop> {
        if w.sides[x].rest == Rest::Awake {
            return Ok(());
        }
        self.begin_session(w, x, c)?;
        w.sides[x].acknowledge().map_or(Ok(()), |ack| send(w, x, c, ack))?;
        send(w, x, c, Msg::Suspend)
    }

    /// A connection that this side makes, without a word yet.
    pub(super) fn connect(&self, w: &mut World, x: usize) -> Result<ConnKey, Stop> {
        let at = w.conns.len();
        if at >= self.dials {
            if self.long_pauses {
                return wrong(format!("{x} dials more often than is needed"));
            }
            return Err(Stop::Bound);
        }
        let mut ends = [End::Unknown; 2];
        ends[x] = End::Open;
        w.conns.push(Conn {
            dialer: x,
            moves: false,
            ends,
            to: Default::default(),
            farewell: [false; 2],
            session: w.sides[x].link.session() as u8,
            told: [0; 2],
            accepted: false,
            broken: false,
        });
        Ok(ConnKey(at as u64))
    }

    fn adopt(&self, w: &mut World, x: usize, c: ConnKey) -> Result<(), Stop> {
        let conn = &w.conns[c.0 as usize];
        if conn.ends[x] != End::Open {
            return wrong(format!("{x} adopts connection {} that it has closed", c.0));
        }
        if conn.farewell[x] {
            return wrong(format!("{x} adopts connection {} after the peer's farewell", c.0));
        }
        if conn.dialer != x && !conn.accepted {
            return wrong(format!("{x} adopts connection {} before READY", c.0));
        }
        let told = conn.told[x];
        let s = &mut w.sides[x];
        let session = s.link.session();
        s.left = false;
        if session == 0 || session != s.session {
            if told != 0 {
                return wrong(format!("the peer of {x} resumes at {told} what has just begun"));
            }
            s.session = session;
            (s.tx_base, s.rx_base) = (s.sent, s.arrived);
            (s.acked, s.cursor, s.told) = (s.sent, s.sent, s.arrived);
            return self.tell(w, x, c);
        }
        let position = s.tx_base + told;
        if position < s.acked && self.late && w.faults < self.faults {
            // The bytes lost with the connection were sent before the session began.
            close(w, x, c)?;
            is_down(w, x);
            return self.on(w, x, LinkEvent::Abort);
        }
        if position < s.acked || position > s.sent {
            return wrong(format!("{x} is to resume at {position}, and keeps {} to {}", s.acked, s.sent));
        }
        (s.acked, s.cursor, s.told) = (position, position, s.arrived);
        self.tell(w, x, c)
    }

    /// Everything that can happen next. The flag: something that does not cost a fault.
    pub(super) fn next(&self, w: &World) -> (Vec<Step>, bool) {
        let mut out = Vec::new();
        for x in 0..2 {
            self.program(w, x, &mut out);
            for c in 0..w.conns.len() {
                let link = &w.sides[x].link;
                let unread = link.moving().is_some() && link.conn() == Some(ConnKey(c as u64));
                if !w.conns[c].to[x].is_empty() && (!unread || self.mutant == Some(Mutant::ReadWhileMoving)) {
                    out.push(self.step(w, |m, w| m.deliver(w, x, c)));
                }
            }
        }
        for x in 0..2 {
            let pause =
                w.sides[x].link.phase() == Phase::Backoff && w.sides[x].link.deadline() == Some(Time::ZERO);
            if pause && (!self.long_pauses || out.is_empty()) {
                out.push(self.step(w, |m, w| m.on(w, x, LinkEvent::Timer)));
            }
        }
        for x in 0..2 {
            // The peer may make no call for longer than anybody waits.
            if w.sides[x].link.moving().is_some() && !self.long_pauses {
                out.push(self.step(w, |m, w| m.on(w, x, LinkEvent::Timer)));
            }
        }
        let free = !out.is_empty();
        for x in 0..2 {
            let due = w.sides[x].link.deadline().is_some();
            let link = &w.sides[x].link;
            let waits = link.phase() != Phase::Backoff && link.moving().is_none();
            if due && waits && (w.faults > 0 || (!free && w.faulty)) {
                out.push(self.step(w, |m, w| {
                    w.faults = w.faults.saturating_sub(1);
                    w.faulty = true;
                    w.lossy |= w.sides[x].link.phase() == Phase::Parting;
                    m.on(w, x, LinkEvent::Timer)
                }));
            }
            if w.faults > 0 {
                self.faults(w, x, &mut out);
            }
        }
        let timers = out.len();
        (out, free || (timers > 0 && w.faulty && w.faults == 0))
    }

    fn step(&self, w: &World, f: impl FnOnce(&Model, &mut World) -> Result<(), Stop>) -> Step {
        let mut w = w.clone();
        f(self, &mut w)?;
        Ok(w)
    }

    /// Tells the link when nothing waits any more.
    fn drained(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        if w.sides[x].settled() { self.on(w, x, LinkEvent::Drained) } else { Ok(()) }
    }
}

fn send(w: &mut World, x: usize, c: ConnKey, m: Msg) -> Result<(), Stop> {
    let conn = &mut w.conns[c.0 as usize];
    match conn.ends[x] {
        End::Open => {}
        // The end of the handshake repeats nothing that was said before.
        End::Half if m == Msg::Fin => {}
        end => return wrong(format!("{x} sends {m:?} on connection {} that is {end:?}", c.0)),
    }
    if conn.dialer != x && !conn.accepted && matches!(m, Msg::Data(_)) {
        return wrong(format!("{x} sends on connection {} before READY", c.0));
    }
    if !conn.broken && conn.ends[1 - x] != End::Closed {
        conn.to[1 - x].push(m);
    }
    Ok(())
}

/// The hello of a dial.
fn hello(w: &mut World, x: usize, conn: ConnKey) -> Result<(), Stop> {
    let session = w.conns[conn.0 as usize].session;
    let position = w.sides[x].position(session);
    let incarnation = w.sides[x].incarnation;
    send(w, x, conn, Msg::Hello { session, position, incarnation })
}

/// The program learns that its VC is down.
fn is_down(w: &mut World, x: usize) {
    w.parted = true;
    let s = &mut w.sides[x];
    s.queued = 0;
    s.cursor = s.sent;
    s.asked = false;
    s.down = true;
}

fn close(w: &mut World, x: usize, c: ConnKey) -> Result<(), Stop> {
    if c == ConnKey::NONE {
        return wrong(format!("{x} closes no connection"));
    }
    if w.conns[c.0 as usize].ends[x] == End::Open {
        send(w, x, c, Msg::Fin)?;
    }
    let conn = &mut w.conns[c.0 as usize];
    conn.ends[x] = End::Closed;
    conn.to[x] = Fifo::default();
    Ok(())
}
