//! Exploration of two VCs that are each other's peer.
//!
//! It covers every interleaving of their closes, with loss of the connection, crash and restart,
//! finalize, late and repeated reports, and use after closing. `changed` also explores every table
//! that differs from the real one in one entry; those must be caught.

mod changed;

use std::collections::HashSet;

use super::table::{TABLE, Table};
use super::{Action, VcEvent, VcState};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Msg {
    /// The first message of a new connection.
    Connect,
    Data,
    Close(bool),
    /// The netmod's goodbye, after everything that was pending at `vc_terminate`.
    Bye,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Fifo {
    msgs: [Option<Msg>; 6],
}

impl Fifo {
    fn push(&mut self, m: Msg) {
        let slot = self.msgs.iter_mut().find(|s| s.is_none()).expect("the model's fifo is long enough");
        *slot = Some(m);
    }
    fn head(&self) -> Option<Msg> {
        self.msgs[0]
    }
    fn pop(&mut self) {
        self.msgs.rotate_left(1);
        self.msgs[5] = None;
    }
    fn cut_from_connect(&mut self) {
        if let Some(at) = self.msgs.iter().position(|m| *m == Some(Msg::Connect)) {
            self.msgs[at..].fill(None);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Peer {
    vc: VcState,
    ops: i8,
    uses: u8,
    data: u8,
    crashed: bool,
    connected: bool,
    terminating: bool,
    /// True if the connection is gone and this side has not noticed.
    breaking: bool,
    /// True if a receive is posted.
    receiving: bool,
    /// True if the netmod has a packet that it cannot send.
    stuck_send: bool,
    /// The true history of this VC, independent of the table.
    ghost: Ghost,
    /// The new state of a driver that sends before it stores.
    late: Option<VcState>,
}

impl Peer {
    fn new(uses: u8) -> Peer {
        Peer {
            vc: VcState::Inactive,
            ops: 0,
            uses,
            data: 0,
            crashed: false,
            connected: false,
            terminating: false,
            breaking: false,
            receiving: false,
            stuck_send: false,
            ghost: Ghost::default(),
            late: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Ghost {
    said_close: bool,
    heard_close: bool,
    heard_ack: bool,
    failed: bool,
    finalized: bool,
}

impl Ghost {
    fn event(&mut self, state: VcState, event: VcEvent) {
        let in_use = !state.is_at_rest();
        match event {
            VcEvent::RecvClose { ack } => {
                self.heard_close = true;
                self.heard_ack |= ack;
            }
            VcEvent::Terminated | VcEvent::Lost => {
                let report = in_use || event == VcEvent::Lost;
                self.failed |= report && !self.heard_ack && !self.finalized;
                self.said_close = false;
                self.heard_close = false;
                self.heard_ack = false;
            }
            VcEvent::Finalize => self.finalized |= !self.failed,
            VcEvent::Revive => self.failed = false,
            VcEvent::Use | VcEvent::LocalClose => {}
        }
    }

    fn check(&self, state: VcState) -> Result<(), String> {
        let wrong = if self.said_close && state.needs_close() {
            "it has said CLOSE"
        } else if self.heard_close && state.can_receive() {
            "it has heard CLOSE"
        } else if self.failed != state.is_failed() {
            "that is wrong about a failure"
        } else if self.finalized != (state == VcState::InactiveClosed) {
            "that is wrong about finalize"
        } else {
            return Ok(());
        };
        Err(format!("state {state}, but {wrong}"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    peers: [Peer; 2],
    /// Messages in transit *to* each peer.
    to: [Fifo; 2],
    faults: u8,
    /// Repetitions left: a second close, a second report of an end.
    echoes: u8,
    revivals: u8,
    faulty: bool,
    ack_lost: bool,
}

/// The driver: how the layer above uses the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Driver {
    Right,
    /// Sends first and stores the new state afterwards.
    SendFirst,
    /// Loses the first CLOSE(T).
    LosesAck,
}

struct Model<'a> {
    table: &'a Table,
    driver: Driver,
    /// True if finalize waits for both sides to be at rest.
    barrier: bool,
}

type Step = Result<World, String>;

impl Model<'_> {
    fn apply(&self, mut w: World, x: usize, event: VcEvent) -> Step {
        let before = w.peers[x].vc;
        let (next, action) = self.table.step(before, event).map_err(|v| format!("{x}: {v}"))?;
        let packet = action.close_packet();
        let p = &mut w.peers[x];
        if self.driver == Driver::SendFirst && packet.is_some() {
            p.late = Some(next);
        } else {
            p.vc = next;
        }
        p.ops += action.close_ops() as i8;
        p.ghost.event(before, event);
        p.ghost.said_close |= packet.is_some();
        if event == VcEvent::Use && before == VcState::Inactive {
            p.receiving = true;
        }
        if event == VcEvent::LocalClose {
            p.receiving = false;
        }
        if action.contains(Action::FAIL_REQUESTS) {
            if !w.faulty {
                return Err(format!("{x}: requests failed without a fault"));
            }
            w.peers[x].receiving = false;
            w.peers[x].stuck_send = false;
        }
        if let Some(ack) = packet {
            if self.driver == Driver::LosesAck && ack && !w.ack_lost {
                w.ack_lost = true;
            } else {
                self.send(&mut w, x, Msg::Close(ack))?;
            }
        }
        if action.contains(Action::TERMINATE) {
            if next != VcState::Closed {
                return Err(format!("{x}: the connection is terminated in state {next}"));
            }
            if w.peers[x].terminating {
                return Err(format!("{x}: the connection is terminated twice"));
            }
            w.peers[x].terminating = true;
            self.send(&mut w, x, Msg::Bye)?;
        }
        let p = w.peers[x];
        if p.late.is_none() {
            p.ghost.check(p.vc)?;
        }
        if p.late.is_none() && p.ops != i8::from(p.vc.is_closing()) {
            return Err(format!("{x}: {} close operations in state {}", p.ops, p.vc));
        }
        Ok(w)
    }

    fn send(&self, w: &mut World, x: usize, m: Msg) -> Result<(), String> {
        if !w.peers[x].connected {
            return Err(format!("{x}: {m:?} is sent without a connection"));
        }
        if w.peers[x].breaking {
            w.peers[x].stuck_send |= m != Msg::Bye;
        } else if !w.peers[1 - x].crashed {
            w.to[1 - x].push(m);
        }
        Ok(())
    }

    fn next(&self, w: World) -> Vec<Step> {
        let mut out = Vec::new();
        for x in 0..2 {
            if w.peers[x].crashed {
                self.crashed(w, x, &mut out);
            } else {
                self.alive(w, x, &mut out);
            }
        }
        out
    }

    fn crashed(&self, w: World, x: usize, out: &mut Vec<Step>) {
        if w.revivals > 0 && !w.peers[1 - x].breaking {
            let mut w = w;
            w.revivals -= 1;
            w.peers[x] = Peer::new(1);
            out.push(Ok(w));
        }
    }

    fn alive(&self, w: World, x: usize, out: &mut Vec<Step>) {
        let y = 1 - x;
        let (p, q) = (w.peers[x], w.peers[y]);
        if p.late.is_some() {
            let mut w = w;
            w.peers[x].vc = p.late.unwrap_or(p.vc);
            w.peers[x].late = None;
            out.push(Ok(w));
        }
        if let Some(m) = w.to[x].head() {
            self.deliver(w, x, m, out);
        }
        if p.late.is_some() {
            return;
        }
        if p.vc == VcState::Inactive && p.uses > 0 && !p.breaking && !q.breaking {
            let mut w = w;
            w.peers[x].uses -= 1;
            w.peers[x].data = 1;
            if !p.connected {
                w.peers[x].connected = true;
                if q.crashed {
                    w.peers[x].breaking = true;
                } else {
                    w.to[y].push(Msg::Connect);
                }
            }
            out.push(self.apply(w, x, VcEvent::Use));
        }
        if p.data > 0 && p.vc.can_send() && p.vc != VcState::Inactive {
            let mut w = w;
            w.peers[x].data = 0;
            out.push(self.send(&mut w, x, Msg::Data).map(|()| w));
        }
        if p.vc.needs_close() {
            let mut w = w;
            w.peers[x].data = 0;
            out.push(self.apply(w, x, VcEvent::LocalClose));
        }
        if p.terminating {
            let mut w = w;
            w.peers[x].terminating = false;
            w.peers[x].connected = false;
            w.peers[x].stuck_send = false;
            w.peers[x].breaking = false;
            out.push(self.apply(w, x, VcEvent::Terminated));
        }
        if p.breaking {
            let mut w = w;
            let p = &mut w.peers[x];
            let terminating = p.terminating;
            p.terminating = false;
            p.connected = false;
            p.breaking = false;
            w.to[x] = Fifo::default();
            out.push(self.apply(w, x, VcEvent::Lost));
            if !terminating {
                // A netmod that takes a loss for an end.
                out.push(self.apply(w, x, VcEvent::Terminated));
            }
        }
        if p.vc == VcState::Moribund && w.revivals > 0 {
            let mut w = w;
            w.revivals -= 1;
            w.peers[x].uses = 1;
            out.push(self.apply(w, x, VcEvent::Revive));
        }
        self.finalize(w, x, out);
        self.echo(w, x, out);
        if w.faults > 0 {
            self.fault(w, x, out);
        }
    }

    fn deliver(&self, w: World, x: usize, m: Msg, out: &mut Vec<Step>) {
        let mut w = w;
        let p = w.peers[x];
        if m == Msg::Connect {
            if p.terminating || p.breaking {
                return; // refused for now; the peer dials again
            }
            w.to[x].pop();
            if matches!(p.vc, VcState::InactiveClosed | VcState::Moribund) {
                if !w.faulty {
                    out.push(Err(format!("{x} refuses a correct peer in state {}", p.vc)));
                    return;
                }
                w.to[x] = Fifo::default();
                w.peers[1 - x].breaking = true;
                out.push(Ok(w));
                return;
            }
            w.peers[x].connected = true;
            out.push(self.apply(w, x, VcEvent::Use));
            return;
        }
        w.to[x].pop();
        out.push(match m {
            Msg::Close(ack) => self.apply(w, x, VcEvent::RecvClose { ack }),
            Msg::Data if !p.vc.can_receive() => Err(format!("{x}: data in state {}", p.vc)),
            _ => Ok(w),
        });
    }

    fn finalize(&self, w: World, x: usize, out: &mut Vec<Step>) {
        let (p, q) = (w.peers[x], w.peers[1 - x]);
        let connecting = w.to.iter().any(|f| f.msgs.contains(&Some(Msg::Connect)));
        let all_rest = q.crashed || (q.vc.is_at_rest() && q.uses == 0 && !q.breaking);
        let mine = p.vc == VcState::Inactive && p.uses == 0 && !p.breaking;
        if mine && ((all_rest && !connecting) || (!self.barrier && w.faults > 0)) {
            let mut w = w;
            if !all_rest || connecting {
                w.faults -= 1;
                w.faulty = true;
            }
            out.push(self.apply(w, x, VcEvent::Finalize));
        }
    }

    fn echo(&self, w: World, x: usize, out: &mut Vec<Step>) {
        if w.echoes == 0 {
            return;
        }
        let mut w = w;
        w.echoes -= 1;
        let p = w.peers[x];
        if !p.vc.needs_close() {
            out.push(self.apply(w, x, VcEvent::LocalClose));
        }
        // A connection of the peer that crosses one's own: reported when it is adopted.
        if matches!(p.vc, VcState::Active | VcState::LocalClose | VcState::RemoteClose) {
            out.push(self.apply(w, x, VcEvent::Use));
        }
        if p.vc.is_at_rest() {
            out.push(self.apply(w, x, VcEvent::Terminated));
        }
        if matches!(p.vc, VcState::InactiveClosed | VcState::Moribund) {
            out.push(self.apply(w, x, VcEvent::Lost));
            out.push(self.apply(w, x, VcEvent::Finalize));
        }
    }

    fn fault(&self, w: World, x: usize, out: &mut Vec<Step>) {
        let mut w = w;
        w.faults -= 1;
        w.faulty = true;
        let (p, q) = (w.peers[x], w.peers[1 - x]);
        let mut broken = w;
        for i in 0..2 {
            broken.to[i].cut_from_connect();
            broken.peers[i].breaking |= broken.peers[i].connected;
        }
        if p.connected && x == 0 || !q.connected {
            out.push(Ok(broken));
        }
        // A crash; what was sent may still arrive.
        let mut crash = broken;
        crash.peers[x] = Peer { crashed: true, ..Peer::new(0) };
        crash.to[x] = Fifo::default();
        out.push(Ok(crash));
        // The process manager reports it, before the VC was used.
        if p.vc == VcState::Inactive && !p.connected {
            w.to[x].cut_from_connect();
            w.peers[1 - x].breaking |= q.connected;
            w.peers[x].receiving = true;
            out.push(self.apply(w, x, VcEvent::Lost));
        }
    }

    /// Checks a state without further steps: has everything ended properly?
    fn check_end(&self, w: &World) -> Result<(), String> {
        for (x, p) in w.peers.iter().enumerate().filter(|(_, p)| !p.crashed) {
            let done = p.uses == 0 && p.vc == VcState::InactiveClosed || w.faulty && p.vc.is_at_rest();
            if !done || p.ops != 0 || p.terminating {
                return Err(format!("{x} is stuck in {} with {} close operations", p.vc, p.ops));
            }
            if p.receiving || p.stuck_send {
                return Err(format!("{x} waits for ever for a request, in {}", p.vc));
            }
        }
        Ok(())
    }

    fn explore(&self, start: World) -> Result<Seen, String> {
        let mut known = HashSet::from([start]);
        let mut worlds = vec![(start, 0)];
        let mut stats = Seen::default();
        while let Some(&(w, _)) = worlds.get(stats.states) {
            let at = stats.states;
            stats.states += 1;
            let mut stepped = false;
            for next in self.next(w) {
                let next = next.map_err(|e| e + &history(&worlds, at))?;
                stepped |= next.echoes == w.echoes && next.faults == w.faults;
                if known.insert(next) {
                    worlds.push((next, at));
                }
            }
            if !stepped {
                stats.ends += 1;
                self.check_end(&w).map_err(|e| e + &history(&worlds, at))?;
            }
        }
        Ok(stats)
    }
}

/// Returns the steps that led to a world.
fn history(worlds: &[(World, usize)], mut at: usize) -> String {
    let mut lines = vec![];
    while at != 0 {
        let w = &worlds[at].0;
        let to = w.to.map(|f| f.msgs.into_iter().flatten().collect::<Vec<_>>());
        lines.push(format!("\n  {:?}\n  {:?}\n  to {to:?} faulty {}", w.peers[0], w.peers[1], w.faulty));
        at = worlds[at].1;
    }
    lines.reverse();
    lines.join("\n")
}

#[derive(Default, Debug)]
struct Seen {
    states: usize,
    ends: usize,
}

fn start(uses: [u8; 2], faults: u8, echoes: u8) -> World {
    World {
        peers: uses.map(Peer::new),
        to: [Fifo::default(); 2],
        faults,
        echoes,
        revivals: faults,
        faulty: false,
        ack_lost: false,
    }
}

/// Runs the explorations that together reach every entry that a correct pair reaches.
fn explore_all(table: &Table, driver: Driver) -> Result<Seen, String> {
    let mut all = Seen::default();
    for (uses, faults, echoes, barrier) in [
        ([1, 0], 0, 1, true),
        ([1, 1], 0, 1, true),
        ([1, 1], 1, 1, true),
        ([1, 0], 1, 1, false),
        ([2, 1], 0, 0, true),
    ] {
        let seen = Model { table, driver, barrier }.explore(start(uses, faults, echoes))?;
        all.states += seen.states;
        all.ends += seen.ends;
    }
    Ok(all)
}

#[test]
fn two_correct_peers_never_violate_the_protocol_and_never_wait_for_ever() {
    let seen = explore_all(&TABLE, Driver::Right).unwrap_or_else(|e| panic!("{e}"));
    netmod_models::state_space(module_path!(), "every entry that a correct pair reaches", seen.states);
    assert!(seen.states > 5_000 && seen.ends > 50, "the model explores too little: {seen:?}");
    let deep = Model { table: &TABLE, driver: Driver::Right, barrier: false };
    for (uses, faults, echoes) in [([2, 2], 0, 2), ([1, 1], 2, 2), ([2, 1], 1, 1)] {
        let seen = deep.explore(start(uses, faults, echoes)).unwrap_or_else(|e| panic!("{e}"));
        let name = format!("uses {uses:?}, {faults} faults, {echoes} echoes");
        println!("{name}: {seen:?}");
        netmod_models::state_space(module_path!(), name, seen.states);
    }
}
