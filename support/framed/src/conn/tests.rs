//! Whole managers with real handshakes in simulated time: single promises, mutated bytes, random
//! schedules.

use core::time::Duration;
use std::collections::VecDeque;

use netmod_connection::{FrameType, Identity, JobKey, Purpose, RejectReason};
use netmod_core::{GroupId, PeerName, Refusal, Slab, Time, Vc, VcError, VcErrorKind, VcId};

use super::*;
use crate::device::Words;
use crate::wire::{Kind, Slot};

mod hostile;
mod inbound;
mod lost;
mod random;

const TIMEOUT: Duration = Duration::from_secs(20);

fn name(rank: u32) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank }
}

/// A generator of numbers that nobody has to be unable to guess.
#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n.max(1)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for b in bytes {
            *b = (self.next() >> 24) as u8;
        }
    }
}

/// A frame on its way.
#[derive(Clone, Debug)]
struct Frame {
    kind: Kind,
    slot: Slot,
    /// The endpoint that it goes to.
    port: u8,
    bytes: Box<[u8]>,
}

/// A process: its rank is its index among those of a test, its address too.
struct Process {
    rank: u32,
    manager: Manager,
    vcs: Slab<Vc, netmod_core::slab::VcKind>,
    /// All events but frames.
    log: Vec<String>,
    /// Addresses of unauthenticated peers, and the endpoint that answers them.
    met: Vec<(InboundId, Box<[u8]>, u8)>,
    refuses: Option<RejectReason>,
    /// True if PeerLeft is settled with its error: the VC is not idle.
    busy: bool,
    random_fails: bool,
}

/// Processes and what is on its way between them, by sender and receiver.
struct World {
    now: Time,
    rng: Rng,
    processes: Vec<Process>,
    wires: Vec<Vec<VecDeque<Frame>>>,
    /// The next frames of these types do not arrive.
    loses: Vec<FrameType>,
}

fn terms(rank: u32, port: u8, peer_port: u8) -> LocalTerms {
    let address = vec![1, rank as u8, port].into();
    LocalTerms { port, peer_port, window: 64, frame: 4096, context: 0, endpoint: [].into(), address }
}

fn process(rank: u32, size: u32, incarnation: u64, key: u8, params: Params) -> Process {
    let mut id = Identity::new(name(rank), size, incarnation);
    id.set_job_key(JobKey([key; 32]));
    Process {
        rank,
        manager: Manager::new(id, params),
        vcs: Slab::new(),
        log: vec![],
        met: vec![],
        refuses: None,
        busy: false,
        random_fails: false,
    }
}

/// A call of a process's manager.
type Call<'f> = Box<dyn FnOnce(&mut Manager, &mut Env<'_>) + 'f>;

impl World {
    fn new(n: u32) -> World {
        World::with(n, Params::new(TIMEOUT, 4, 4, Words::SAMPLE))
    }

    fn with(n: u32, params: Params) -> World {
        let processes = (0..n).map(|r| process(r, n, 100 + u64::from(r), 9, params)).collect();
        let wires = vec![vec![VecDeque::new(); n as usize]; n as usize];
        World { now: Time::ZERO, rng: Rng(0x1234_5678_9abc_def1), processes, wires, loses: vec![] }
    }

    /// Two processes, each with a VC for the other.
    fn pair() -> (World, [VcId; 2]) {
        let mut w = World::new(2);
        let vcs = [w.vc(0, 1), w.vc(1, 0)];
        (w, vcs)
    }

    fn vc(&mut self, at: usize, peer: u32) -> VcId {
        let vc = self.processes[at].vcs.insert(Vc::new(name(peer), 0));
        self.run(at, |m, env| m.add(vc, name(peer), Purpose::Vc, env));
        vc
    }

    /// Calls the manager of a process, and does what it asks for.
    fn run<'f>(&mut self, at: usize, f: impl FnOnce(&mut Manager, &mut Env<'_>) + 'f) {
        self.call(at, Box::new(f));
    }

    fn call(&mut self, at: usize, f: Call<'_>) {
        let mut out = vec![];
        let World { now, rng, processes, wires, loses } = self;
        let p = &mut processes[at];
        let (rank, refuses, random_fails) = (p.rank, p.refuses, p.random_fails);
        let mut env = Env {
            now: *now,
            random: &mut |b| {
                if random_fails {
                    return Err(std::io::Error::other("none left"));
                }
                rng.fill(b);
                Ok(())
            },
            terms: &mut |_, offer| match refuses {
                Some(reason) => Err(reason),
                None => Ok(terms(rank, offer.port, offer.terms.port)),
            },
            out: &mut out,
        };
        f(&mut p.manager, &mut env);
        let mut settle = vec![];
        for action in out {
            let mut send = |met: &[(InboundId, Box<[u8]>, u8)], to, frame: Frame| {
                let (rank, port) = match to {
                    To::Vc(vc) => (p.vcs.get(vc).map(|v| v.peer.rank), 0),
                    To::Inbound(id) => {
                        let (_, a, _) = met.iter().find(|m| m.0 == id).expect("it was met before");
                        (a.get(1).map(|r| u32::from(*r)), a.get(2).copied().unwrap_or(0))
                    }
                };
                let shakes = matches!(frame.kind, Kind::Dial | Kind::Answer);
                let of = FrameType::of(&frame.bytes).filter(|_| shakes);
                if let Some(lost) = loses.iter().position(|l| Some(*l) == of) {
                    loses.remove(lost);
                    return;
                }
                if let Some(wire) = rank.and_then(|r| wires[at].get_mut(r as usize)) {
                    wire.push_back(Frame { port, ..frame });
                }
            };
            match action {
                Action::Shake { to, kind, slot, bytes } => {
                    send(&p.met, to, Frame { kind, slot, port: 0, bytes })
                }
                Action::Control { to, kind, slot } => {
                    send(&p.met, to, Frame { kind, slot, port: 0, bytes: Box::default() });
                }
                Action::Meet { inbound, address, port, .. } => {
                    assert!(p.met.iter().all(|m| m.0 != inbound), "{inbound:?} is met twice");
                    p.met.push((inbound, address, port));
                }
                Action::Forget { inbound } => {
                    let at = p.met.iter().position(|m| m.0 == inbound).expect("it was met");
                    p.met.remove(at);
                }
                Action::Opened { vc, peer, port, .. } => {
                    assert!(p.vcs.get(vc).is_some());
                    p.log.push(format!(
                        "opened {} {} {} {port}",
                        peer.window,
                        peer.frame,
                        peer.address.len()
                    ));
                }
                Action::PeerLeft { vc, error } => {
                    p.log.push("left".into());
                    settle.push((vc, p.busy.then_some(error)));
                }
                Action::Terminated { .. } => p.log.push("terminated".into()),
                Action::Down { error, .. } => p.log.push(format!("down {:?} {error}", error.kind())),
                Action::NewPeer { peer } => p.log.push(format!("new {}", peer.rank)),
                Action::PortPeer { port, .. } => p.log.push(format!("port {port}")),
            }
        }
        for (vc, error) in settle {
            self.run(at, |m, env| m.settle(vc, error, env));
        }
    }

    fn connect(&mut self, at: usize, vc: VcId) {
        let terms = terms(self.processes[at].rank, 0, 0);
        self.run(at, |m, env| m.connect(vc, terms, env));
    }

    /// Delivers the next frame between two processes.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(frame) = self.wires[from][to].pop_front() else { return false };
        self.hand(to, &frame);
        true
    }

    fn hand(&mut self, to: usize, f: &Frame) {
        match f.kind {
            Kind::Dial | Kind::Answer => {
                self.run(to, |m, env| m.on_shake(f.kind, f.slot, f.port, &f.bytes, env));
            }
            kind => {
                let Some(vc) = self.processes[to].manager.lookup(f.slot) else { return };
                self.run(to, |m, env| match kind {
                    Kind::Fin => m.on_fin(vc, env),
                    Kind::FinAck => m.on_fin_ack(vc, env),
                    Kind::Reset => m.on_reset(vc, env),
                    _ => {}
                });
            }
        }
    }

    /// Delivers all there is.
    fn settle(&mut self) {
        let n = self.processes.len();
        let mut frames = 0;
        while (0..n * n).any(|i| self.deliver(i / n, i % n)) {
            frames += 1;
            assert!(frames < 10_000, "it never ends");
        }
    }

    fn log(&mut self, at: usize) -> Vec<String> {
        std::mem::take(&mut self.processes[at].log)
    }

    /// Lets time pass until nothing is due, or the end.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..10_000 {
            self.settle();
            let due = self.processes.iter().filter_map(|p| p.manager.deadline()).min();
            match due.filter(|d| *d <= end) {
                Some(due) => {
                    self.now = self.now.max(due);
                    for at in 0..self.processes.len() {
                        self.run(at, Manager::timer);
                    }
                }
                None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers never end: {:?}", self.now);
    }

    fn assert_quiet(&self) {
        for p in &self.processes {
            assert!(p.manager.is_quiet() && p.met.is_empty(), "rank {}: {:?}", p.rank, p.manager);
        }
    }
}

const OPENED: &str = "opened 64 4096 3 0";

#[test]
fn one_handshake_opens_both_directions_and_fin_ends_them() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    w.connect(0, a);
    assert!(!w.processes[0].manager.is_quiet());
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
    assert!(w.processes[0].manager.is_up(a) && w.processes[1].manager.is_up(b));
    w.pass(Duration::from_secs(60));
    assert_eq!(w.processes[0].manager.deadline(), None, "an open connection waits for nothing");
    w.run(1, |m, env| m.terminate(b, env));
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec!["left".to_owned()], vec!["terminated".to_owned()]));
    w.assert_quiet();
    // And again, by the other side.
    w.connect(1, b);
    w.settle();
    assert!(w.processes[0].manager.is_up(a) && w.processes[1].manager.is_up(b));
    w.run(0, |m, env| m.terminate(a, env));
    w.run(1, |m, env| m.terminate(b, env));
    w.settle();
    assert_eq!((w.log(0).pop(), w.log(1).pop()), (Some("terminated".into()), Some("terminated".into())));
    w.assert_quiet();
}

#[test]
fn crossing_dials_make_one_connection() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    w.connect(1, b);
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
    w.run(0, |m, env| m.abort(a, VcError::new(VcErrorKind::Aborted, None, "enough"), env));
    w.settle();
    assert_eq!(w.log(0), ["down Aborted enough"]);
    assert!(w.log(1)[0].starts_with("down Lost rank 0: it has broken the connection off"));
    w.assert_quiet();
}

#[test]
fn a_peer_without_a_vc_waits_for_one() {
    let mut w = World::new(2);
    let a = w.vc(0, 1);
    w.connect(0, a);
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![], vec!["new 0".to_owned()]));
    w.vc(1, 0);
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));

    let mut w = World::new(2);
    let a = w.vc(0, 1);
    w.connect(0, a);
    w.settle();
    w.run(1, |m, env| m.refuse(&name(0), Refusal::NotWanted, env));
    w.settle();
    let log = w.log(0);
    assert!(log[0].contains("down Refused rank 1: ") && log[0].contains("it has finalized"), "{log:?}");
    w.assert_quiet();
}

#[test]
fn a_silent_peer_is_unreachable_at_the_deadline() {
    let (mut w, [a, _]) = World::pair();
    w.connect(0, a);
    for _ in 0..400 {
        w.wires[0][1].clear();
        w.now = w.now + Duration::from_millis(100);
        w.run(0, Manager::timer);
    }
    let log = w.log(0);
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].contains("down Unreachable rank 1: no connection by the device after 4 dials"), "{log:?}");
    assert!(log[0].contains("no answer") && log[0].contains("(after 20.0 s)"), "{log:?}");
    w.wires[0][1].clear();
    w.assert_quiet();
    assert_eq!(w.processes[0].manager.deadline(), None);
}

#[test]
fn a_finalized_process_says_so() {
    let (mut w, [a, _]) = World::pair();
    w.run(1, Manager::shut);
    w.connect(0, a);
    w.settle();
    let log = w.log(0);
    assert!(log[0].contains("down Refused") && log[0].contains("finalize together"), "{log:?}");
    w.assert_quiet();
}

#[test]
fn terms_that_do_not_fit_are_refused_and_asked_for_again() {
    let (mut w, [a, _]) = World::pair();
    w.processes[1].refuses = Some(RejectReason::Busy);
    w.connect(0, a);
    w.pass(Duration::from_secs(3));
    assert_eq!(w.log(0), Vec::<String>::new());
    w.processes[1].refuses = None;
    w.pass(Duration::from_secs(2));
    assert_eq!(w.log(0), [OPENED]);
}

#[test]
fn a_dial_that_cannot_be_sent_is_tried_again() {
    let (mut w, [a, _]) = World::pair();
    w.connect(0, a);
    w.run(0, |m, env| m.dial_failed(a, "EHOSTUNREACH", env));
    w.pass(Duration::from_secs(1));
    assert_eq!((w.log(0).pop(), w.log(1).pop()), (Some(OPENED.into()), Some(OPENED.into())));
}

#[test]
fn without_random_numbers_nothing_is_dialled_or_answered() {
    let (mut w, [a, _]) = World::pair();
    w.processes[0].random_fails = true;
    w.connect(0, a);
    assert!(w.wires[0][1].is_empty());
    w.processes[0].random_fails = false;
    w.processes[1].random_fails = true;
    w.pass(Duration::from_secs(1));
    assert!(w.log(0).is_empty() && w.log(1).is_empty());
    w.processes[0].random_fails = true;
    w.pass(Duration::from_secs(30));
    let log = w.log(0);
    assert!(log.len() == 1 && log[0].contains("no random numbers"), "{log:?}");
    w.assert_quiet();
}

#[test]
fn a_process_that_takes_anothers_place_is_told_from_it() {
    for busy in [false, true] {
        let (mut w, [a, _]) = World::pair();
        w.connect(0, a);
        w.settle();
        w.log(0);
        w.processes[0].busy = busy;
        w.processes[1] = process(1, 2, 999, 9, Params::new(TIMEOUT, 4, 4, Words::SAMPLE));
        let b = w.vc(1, 0);
        w.connect(1, b);
        w.settle();
        let log = w.log(0);
        if busy {
            assert!(log[1].starts_with("down Lost rank 1: another process has taken its place"), "{log:?}");
            w.run(0, |m, _| m.revive(a));
            w.pass(Duration::from_secs(5));
            assert_eq!(w.log(0), [OPENED]);
        } else {
            assert_eq!(log, ["left", OPENED]);
        }
        assert!(w.processes[1].manager.is_up(b));
    }
}

#[test]
fn a_peer_that_forgot_the_connection_gets_another_after_a_while() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    w.settle();
    // The frame that says so is lost.
    w.run(0, |m, env| m.remove(a, env));
    w.wires[0][1].clear();
    let a = w.vc(0, 1);
    w.log(1);
    w.connect(0, a);
    w.settle();
    assert!(w.processes[1].manager.is_up(b) && w.log(1).is_empty());
    w.pass(Duration::from_secs(3));
    assert_eq!(w.log(1), ["left", OPENED]);
    assert!(w.processes[0].manager.is_up(a));
}

#[test]
fn a_peer_that_never_answers_fin_holds_nobody_up() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    w.settle();
    w.run(0, |m, env| m.terminate(a, env));
    w.wires[0][1].clear();
    w.pass(Duration::from_millis(1999));
    assert_eq!(w.log(0), [OPENED]);
    w.pass(Duration::from_millis(1));
    assert_eq!(w.log(0), ["terminated"]);
    // The peer hears that the connection is gone, by the RESET.
    assert!(!w.processes[1].manager.is_up(b));
    assert!(w.log(1)[1].starts_with("down Lost"));
    w.assert_quiet();
}

#[test]
fn a_promise_is_kept_while_the_dialler_computes() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    // HELLO, CHALLENGE, PROOF; ACCEPT is there, and nobody looks.
    assert!(w.deliver(0, 1) && w.deliver(1, 0) && w.deliver(0, 1));
    w.now = w.now + (TIMEOUT - Duration::from_millis(1));
    w.run(1, Manager::timer);
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
    assert!(w.processes[0].manager.is_up(a) && w.processes[1].manager.is_up(b));
}

#[test]
fn what_comes_behind_a_ready_that_is_lost_is_not_dropped_in_silence() {
    let (mut w, [a, b]) = World::pair();
    w.connect(0, a);
    assert!(w.deliver(0, 1) && w.deliver(1, 0) && w.deliver(0, 1) && w.deliver(1, 0));
    let ready = w.wires[0][1].pop_front().expect("READY");
    assert_eq!(w.log(0), [OPENED]);
    let slot = w.processes[0].manager.machine_slot(a).expect("the peer's name of it");
    assert_eq!(w.processes[1].manager.lookup(slot), None);
    // An unauthenticated peer's frame changes nothing.
    w.run(1, |m, env| m.on_stray(Slot { token: slot.token ^ 1, ..slot }, env));
    assert!(w.log(1).is_empty());
    w.run(1, |m, env| m.on_stray(slot, env));
    let log = w.log(1);
    assert!(log.len() == 1 && log[0].starts_with("down Lost rank 0: frames were lost"), "{log:?}");
    w.settle();
    assert!(w.log(0)[0].starts_with("down Lost rank 1: it has broken the connection off"));
    w.hand(1, &ready);
    assert!(!w.processes[1].manager.is_up(b));
    w.assert_quiet();
}
