//! Both sides of a direction, explored: in every order of their actions nothing is lost, the bounds
//! hold, and everything arrives.

use std::collections::{BTreeSet, VecDeque};

use super::*;

const EAGER: [u32; 2] = [1, 3];

/// A message on its way. The program sends them in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Msg {
    number: u8,
    /// Its charge if it goes eagerly; 0 if it is too long for that.
    charge: u32,
    eager: bool,
}

/// A notice of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Notice {
    bytes: u32,
    slots: Option<u32>,
}

/// A sender and a receiver, the two ways between them, and the program of each.
#[derive(Debug)]
struct Pair {
    terms: Terms,
    out: Outgoing<Msg>,
    inc: Incoming,
    there: VecDeque<Msg>,
    want_there: bool,
    back: VecDeque<Notice>,
    /// Messages that have no receive yet.
    unexpected: VecDeque<Msg>,
    /// Sent by the program, not yet gone from the sender's own queue: can be cancelled.
    cancelled: BTreeSet<u8>,
    sent: u8,
    received: Vec<u8>,
    notices: usize,
    loans: u32,
}

/// An event.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The program sends a message of this charge, 0 for a long one.
    Send(u32),
    /// The newest message that waits at the sender is cancelled.
    CancelWaiting,
    /// The newest eager message leaves the network's queue before any of it has gone.
    CancelQueued,
    /// The next message arrives; whether its receive is there.
    Arrive { expected: bool },
    /// A receive takes the first unexpected message.
    Take,
    /// The receiver's program looks for a message that is not there.
    Look,
    /// The receiver returns credit with a message of its own, which is lost if it is cancelled.
    Piggyback { lost: bool },
    /// The sender learns of the oldest notice.
    Learn,
}

const STEPS: [Step; 12] = [
    Step::Send(EAGER[0]),
    Step::Send(EAGER[1]),
    Step::Send(0),
    Step::CancelWaiting,
    Step::CancelQueued,
    Step::Arrive { expected: true },
    Step::Arrive { expected: false },
    Step::Take,
    Step::Look,
    Step::Piggyback { lost: false },
    Step::Piggyback { lost: true },
    Step::Learn,
];

impl Pair {
    fn new(terms: Terms) -> Pair {
        Pair {
            terms,
            out: Outgoing::new(terms),
            inc: Incoming::new(terms),
            there: VecDeque::new(),
            want_there: false,
            back: VecDeque::new(),
            unexpected: VecDeque::new(),
            cancelled: BTreeSet::new(),
            sent: 0,
            received: Vec::new(),
            notices: 0,
            loans: 2,
        }
    }

    fn replay(terms: Terms, steps: &[Step]) -> Option<Pair> {
        let mut pair = Pair::new(terms);
        for step in steps {
            if !pair.apply(*step) {
                return None;
            }
            pair.check(steps);
        }
        Some(pair)
    }

    /// False if the step is not possible now.
    fn apply(&mut self, step: Step) -> bool {
        match step {
            Step::Send(charge) => self.send(charge),
            Step::CancelWaiting => {
                let Some((msg, _)) = self.out.waiting.as_ref().and_then(|w| w.queue.back()) else {
                    return false;
                };
                if !self.cancelled.insert(msg.number) {
                    return false;
                }
                self.drain();
            }
            Step::CancelQueued => {
                let Some(msg) = self.there.back().copied().filter(|m| m.eager) else { return false };
                self.there.pop_back();
                self.cancelled.insert(msg.number);
                self.out.refund(msg.charge);
                self.drain();
            }
            Step::Arrive { expected } => {
                // MPI's order: one with a receive does not overtake one without.
                if expected && !self.there.is_empty() && !self.unexpected.is_empty() {
                    return false;
                }
                let Some(msg) = self.there.pop_front() else {
                    // The request for slots comes behind the messages.
                    if !expected || !std::mem::take(&mut self.want_there) {
                        return false;
                    }
                    self.inc.set_wanting(true);
                    return true;
                };
                self.arrive(msg, expected);
            }
            Step::Take => {
                let Some(msg) = self.unexpected.pop_front() else { return false };
                self.received.push(msg.number);
                let due = if msg.eager {
                    self.inc.release(msg.charge)
                } else {
                    self.slot_back(Incoming::release_slot)
                };
                self.notify(due);
            }
            Step::Look => {
                if !self.inc.is_wanting() {
                    return false;
                }
                if self.inc.slots().1 == 0 {
                    let n = self.terms.slots.min(self.loans);
                    if n == 0 {
                        return false;
                    }
                    self.loans -= n;
                    self.inc.lend(n);
                }
                self.notify(true);
            }
            Step::Piggyback { lost } => {
                if self.inc.bytes().1 == 0 {
                    return false;
                }
                let bytes = self.inc.settle_bytes();
                if lost {
                    // The credit is told again by whoever cancels its carrier.
                    self.notify(true);
                } else {
                    self.back.push_back(Notice { bytes, slots: None });
                }
            }
            Step::Learn => {
                let Some(Notice { bytes, slots }) = self.back.pop_front() else { return false };
                let had = self.out.left().1;
                self.out.granted(bytes, slots);
                let more = self.out.left().1 > had;
                self.drain();
                if more && self.out.waiting() > 0 {
                    self.want_there = true;
                }
            }
        }
        true
    }

    fn send(&mut self, charge: u32) {
        let mut msg = Msg { number: self.sent, charge, eager: false };
        self.sent += 1;
        if charge > 0 && self.out.take(charge) {
            msg.eager = true;
            self.there.push_back(msg);
        } else if self.out.take_slot() {
            self.there.push_back(msg);
        } else if self.out.wait(msg, charge) {
            self.want_there = true;
        }
    }

    fn drain(&mut self) {
        while let Some((mut msg, way)) = self.out.next(|m| !self.cancelled.contains(&m.number)) {
            msg.eager = way == Protocol::Eager;
            self.there.push_back(msg);
        }
    }

    fn slot_back(&mut self, how: fn(&mut Incoming) -> bool) -> bool {
        let before = self.inc.slots().2;
        let due = how(&mut self.inc);
        self.loans += before - self.inc.slots().2;
        due
    }

    fn arrive(&mut self, msg: Msg, expected: bool) {
        let due = match (msg.eager, expected) {
            (true, _) => {
                self.inc.admit(msg.charge).expect("the sender keeps to its window");
                if expected {
                    self.inc.pass(msg.charge)
                } else {
                    self.inc.hold(msg.charge);
                    false
                }
            }
            (false, _) => {
                self.inc.admit_slot().expect("the sender keeps to its slots");
                if expected {
                    self.slot_back(Incoming::pass_slot)
                } else {
                    self.inc.hold_slot();
                    false
                }
            }
        };
        if expected {
            self.received.push(msg.number);
        } else {
            self.unexpected.push_back(msg);
        }
        self.notify(due);
    }

    fn notify(&mut self, due: bool) {
        if due {
            let (bytes, slots, more) = self.inc.settle();
            self.inc.set_wanting(self.inc.is_wanting() && !more);
            self.notices += 1;
            self.back.push_back(Notice { bytes, slots: Some(slots) });
        }
    }

    /// Bytes and slots that notices on their way will bring the sender.
    fn notified(&self) -> (u32, u32) {
        let bytes = self.inc.bytes.wrapping_sub(self.out.seen_bytes);
        (bytes, self.inc.announced().told.wrapping_sub(self.out.seen_slots))
    }

    /// Conservation, and the bounds.
    fn check(&self, steps: &[Step]) {
        let (left, slots_left) = self.out.left();
        let on_way: u32 = self.there.iter().filter(|m| m.eager).map(|m| m.charge).sum();
        let announced = self.there.iter().filter(|m| !m.eager).count() as u32;
        let ((held, owed), (notified, slots_notified)) = (self.inc.bytes(), self.notified());
        let (held_slots, owed_slots, lent) = self.inc.slots();
        assert_eq!(left + on_way + held + owed + notified, self.terms.window, "bytes: {steps:?}\n{self:?}");
        assert_eq!(
            slots_left + announced + held_slots + owed_slots + slots_notified,
            self.terms.slots + lent,
            "slots: {steps:?}\n{self:?}"
        );
        assert_eq!(held, self.unexpected.iter().filter(|m| m.eager).map(|m| m.charge).sum::<u32>());
        assert!(held <= self.terms.window && held_slots <= self.terms.slots + lent, "{steps:?}");
        assert_eq!(self.loans + lent, 2, "{steps:?}");
        // While messages wait, nothing goes past them.
        if self.out.waiting() > 0 {
            assert_eq!((self.out.left, self.out.slots), (0, 0), "{steps:?}");
        }
    }

    /// Lets the receiver take everything: all arrives, in order, without a further loan.
    fn finish(mut self, steps: &[Step]) {
        let mut idle = 0;
        while idle < 2 {
            let moved = self.apply(Step::Arrive { expected: false })
                || self.apply(Step::Arrive { expected: true })
                || self.apply(Step::Take)
                || self.apply(Step::Learn);
            self.check(steps);
            idle = if moved { 0 } else { idle + 1 };
        }
        let want: Vec<u8> = (0..self.sent).filter(|n| !self.cancelled.contains(n)).collect();
        assert_eq!(self.received, want, "{steps:?}\n{self:?}");
        assert_eq!(self.out.waiting(), 0, "{steps:?}");
        // The longest eager message can go, without anybody being told anything.
        assert!(self.out.take(self.terms.window / 2), "{steps:?}\n{self:?}");
        assert!(self.out.take_slot(), "{steps:?}\n{self:?}");
    }
}

/// The identity of a state.
fn key(p: &Pair) -> String {
    let n = |m: &Msg| (m.charge, m.eager, p.cancelled.contains(&m.number));
    let ways = (p.there.iter().map(n).collect::<Vec<_>>(), p.unexpected.iter().map(n).collect::<Vec<_>>());
    let queue = p.out.waiting.iter().flat_map(|w| &w.queue);
    let waiting: Vec<_> = queue.map(|(m, c)| (n(m), *c)).collect();
    let out = (p.out.left(), p.out.seen_bytes, p.out.seen_slots);
    // Parts that are made at first use make no difference by themselves.
    let inc = (p.inc.bytes(), p.inc.bytes, p.inc.announced());
    format!("{ways:?}{waiting:?}{out:?}{inc:?}{:?}{}{}", p.back, p.want_there, p.sent)
}

/// Every order of steps up to a number of messages, for the tightest terms.
#[test]
fn all_orders_of_a_few_messages() {
    for (window, slots, messages) in [(6, 1, 5), (6, 2, 4), (7, 1, 4)] {
        let terms = Terms { window, slots };
        let mut seen = BTreeSet::new();
        let mut todo: Vec<Vec<Step>> = vec![Vec::new()];
        while let Some(steps) = todo.pop() {
            for step in STEPS {
                let mut steps = steps.clone();
                steps.push(step);
                let Some(pair) = Pair::replay(terms, &steps) else { continue };
                if pair.sent > messages || !seen.insert(key(&pair)) {
                    continue;
                }
                pair.finish(&steps);
                todo.push(steps);
            }
        }
        netmod_models::state_space(
            module_path!(),
            format_args!("{terms:?}, {messages} messages"),
            seen.len(),
        );
        assert!(seen.len() > 1000, "{} states of {terms:?}", seen.len());
    }
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// Long runs at random, over all window sizes, with the totals about to wrap around.
#[test]
fn long_runs_at_random() {
    for seed in 1..=600u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let terms = Terms {
            window: 6 + (random(&mut state) % 20) as u32,
            slots: 1 + (random(&mut state) % 5) as u32,
        };
        let mut pair = Pair::new(terms);
        let near = 0u32.wrapping_sub((random(&mut state) % 50) as u32);
        (pair.inc.bytes, pair.out.seen_bytes) = (near, near);
        (pair.inc.announced_mut().told, pair.out.seen_slots) = (near, near);
        let mut steps = Vec::new();
        while pair.sent < 120 {
            let step = STEPS[random(&mut state) % STEPS.len()];
            if pair.apply(step) {
                steps.push(step);
            }
            pair.check(&steps);
        }
        // A Credit for every half window, or half the slots, at most; and one for what asks for it.
        let asked = steps.iter().filter(|s| matches!(s, Step::Piggyback { .. } | Step::Look)).count();
        let (bytes, slots) = (3 * 120 / (terms.window as usize / 2), 120 / (terms.slots as usize / 2).max(1));
        assert!(pair.notices <= asked + bytes + slots, "{} Credits: {terms:?} {steps:?}", pair.notices);
        pair.finish(&steps);
    }
}

/// A peer that sends more than it was granted is found out.
#[test]
fn more_than_was_granted() {
    let mut inc = Incoming::new(Terms { window: 1000, slots: 2 });
    inc.hold(600);
    assert!(!inc.pass(400));
    assert_eq!(inc.admit(1), Err(Overdrawn));
    assert_eq!(inc.admit(u32::MAX), Err(Overdrawn));
    assert!(inc.release(600));
    inc.settle();
    assert_eq!(inc.admit(1000), Ok(()));
    assert_eq!(inc.admit(1001), Err(Overdrawn));
    inc.hold_slot();
    inc.hold_slot();
    assert_eq!(inc.admit_slot(), Err(Overdrawn));
    inc.lend(1);
    assert_eq!(inc.admit_slot(), Ok(()));
}

/// Old totals, and those of a peer that claims too much, do no harm.
#[test]
fn totals_of_any_value() {
    let mut out: Outgoing<()> = Outgoing::new(Terms { window: 100, slots: 3 });
    out.granted(50, Some(1));
    assert_eq!(out.left(), (150, 4));
    // Again, and older ones.
    for (bytes, slots) in [(50, 1), (49, 0), (0u32.wrapping_sub(9), u32::MAX)] {
        out.granted(bytes, Some(slots));
        assert_eq!(out.left(), (150, 4));
    }
    for _ in 0..5 {
        let (bytes, slots) =
            (out.seen_bytes.wrapping_add(0x7fff_ffff), out.seen_slots.wrapping_add(0x7fff_ffff));
        out.granted(bytes, Some(slots));
    }
    assert_eq!(out.left(), (MOST, MOST));
}

#[test]
fn terms_of_jobs() {
    let cfg = Config::default();
    let of = |ranks| Terms::of(&cfg, ranks);
    for (ranks, mib) in [(1, 64), (2, 64), (5, 16), (65, 1)] {
        assert_eq!(of(ranks), Terms { window: mib << 20, slots: 1024 });
    }
    // The memory for all peers together does not grow with their number, down to the least window.
    for ranks in [2, 3, 65, 100, 1000, 2000, 4000] {
        let t = of(ranks);
        let all = u64::from(ranks - 1) * u64::from(t.window + t.slots * ENTRY);
        assert!(all <= 128 << 20, "{ranks} ranks: {t:?}, {all} bytes");
        assert!(t.eager_max() + ENTRY as usize <= t.window as usize / 2);
    }
    assert_eq!(of(1_000_000), Terms { window: LEAST_WINDOW, slots: LEAST_SLOTS });
    let mut small = Config::default();
    (small.eager_window, small.rts_max) = (LEAST_WINDOW as usize, 2);
    let t = Terms::of(&small, 2);
    assert_eq!((t.window, t.slots, t.eager_max()), (16 << 10, 2, (8 << 10) - 256));
    assert_eq!(Terms::from_bytes(t.to_bytes()), Some(t));
    for bad in [Terms { window: 1, slots: 1 }, Terms { window: u32::MAX, slots: 1 }, Terms { slots: 0, ..t }]
    {
        assert_eq!(Terms::from_bytes(bad.to_bytes()), None, "{bad:?}");
    }
}
