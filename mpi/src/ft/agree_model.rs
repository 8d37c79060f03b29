//! All orders of events of small agreements, and many of larger ones: members begin, messages
//! arrive, members fail between any two messages that they send, and others learn of it.

use std::collections::{HashSet, VecDeque};

use super::agree::{Agreement, Message, Outgoing, Set};

/// A group of members, and the messages between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    members: Vec<Agreement>,
    begun: Vec<bool>,
    alive: Vec<bool>,
    /// Pairs of a member and one whose failure it knows.
    knows: Vec<Set>,
    /// Messages that a member has yet to send.
    unsent: Vec<VecDeque<(usize, Message)>>,
    /// Messages under way, by receiver and sender.
    under_way: Vec<Vec<VecDeque<Message>>>,
    crashes_left: usize,
}

/// One step of the group.
#[derive(Clone, Copy, Debug)]
enum Event {
    Begin(usize),
    Send(usize),
    Arrive { to: usize, from: usize },
    Crash(usize),
    Learn { who: usize, of: usize },
}

/// The word of a member: all bits but its own.
fn word(member: usize) -> u64 {
    !(1 << (member % 64))
}

impl Group {
    fn new(n: usize, crashes: usize) -> Group {
        Group {
            members: (0..n).map(|me| Agreement::new(me, n)).collect(),
            begun: vec![false; n],
            alive: vec![true; n],
            knows: vec![Set::new(n); n],
            unsent: vec![VecDeque::new(); n],
            under_way: vec![vec![VecDeque::new(); n]; n],
            crashes_left: crashes,
        }
    }

    fn events(&self) -> Vec<Event> {
        let n = self.members.len();
        let mut events = Vec::new();
        for p in (0..n).filter(|p| self.alive[*p]) {
            if !self.unsent[p].is_empty() {
                // A member sends before it does anything else, or fails.
                events.push(Event::Send(p));
            } else {
                if !self.begun[p] {
                    events.push(Event::Begin(p));
                }
                let arrives = |from: &usize| !self.under_way[p][*from].is_empty();
                events.extend((0..n).filter(arrives).map(|from| Event::Arrive { to: p, from }));
                let news = |of: &usize| !self.alive[*of] && !self.knows[p].has(*of);
                events.extend((0..n).filter(news).map(|of| Event::Learn { who: p, of }));
            }
            if self.crashes_left > 0 {
                events.push(Event::Crash(p));
            }
        }
        events
    }

    fn take(&mut self, event: Event) {
        let mut out = Outgoing::new();
        let who = match event {
            Event::Begin(p) => {
                self.begun[p] = true;
                self.members[p].begin(vec![word(p)], &mut out);
                p
            }
            Event::Send(p) => {
                if let Some((to, message)) = self.unsent[p].pop_front() {
                    self.under_way[to][p].push_back(message);
                }
                p
            }
            Event::Arrive { to, from } => {
                if let Some(message) = self.under_way[to][from].pop_front() {
                    self.members[to].receive(from, message, &mut out);
                }
                to
            }
            Event::Crash(p) => {
                self.alive[p] = false;
                self.crashes_left -= 1;
                self.unsent[p].clear();
                self.under_way[p].iter_mut().for_each(VecDeque::clear);
                p
            }
            Event::Learn { who, of } => {
                self.knows[who].add(of);
                // Its messages are lost from here on.
                self.under_way[who][of].clear();
                self.members[who].fail(of, &mut out);
                who
            }
        };
        self.unsent[who].extend(out);
    }

    /// Checks what holds at any time: nobody decides otherwise, also of those that fail then.
    fn check(&self) {
        let n = self.members.len();
        let mut decisions = self.members.iter().filter_map(Agreement::decided);
        let Some(first) = decisions.next() else { return };
        assert!(decisions.all(|d| d == first), "two decisions: {self:?}");
        for p in (0..n).filter(|p| self.alive[*p]) {
            assert!(!first.failed.has(p), "member {p} lives: {self:?}");
        }
        let all = (0..n).fold(u64::MAX, |all, p| all & word(p));
        assert_eq!(first.words[0] & all, all);
        for p in (0..n).filter(|p| self.alive[*p]) {
            assert_eq!(first.words[0] & !word(p), 0, "member {p} was not heard: {self:?}");
        }
    }

    /// Checks that all that live have decided, when nothing is left to happen.
    fn check_end(&self) {
        for p in (0..self.members.len()).filter(|p| self.alive[*p]) {
            assert!(self.members[p].decided().is_some(), "member {p} waits for ever: {self:?}");
        }
    }
}

/// Explores all orders; returns the number of states.
fn explore(n: usize, crashes: usize) -> usize {
    let (mut seen, mut todo) = (HashSet::new(), vec![Group::new(n, crashes)]);
    while let Some(group) = todo.pop() {
        group.check();
        let events = group.events();
        // Crashes are no duty.
        if events.iter().all(|e| matches!(e, Event::Crash(_))) {
            group.check_end();
        }
        for event in events {
            let mut next = group.clone();
            next.take(event);
            if seen.insert(hash(&next)) {
                todo.push(next);
            }
        }
    }
    seen.len()
}

/// Two hashes of a state, which stand for it.
fn hash(group: &Group) -> u128 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
    let one = BuildHasherDefault::<DefaultHasher>::default().hash_one(group);
    let mut salted = DefaultHasher::new();
    salted.write_u64(one);
    std::hash::Hash::hash(group, &mut salted);
    u128::from(one) << 64 | u128::from(salted.finish())
}

#[test]
fn all_orders_of_small_groups() {
    for (n, crashes, least) in [(3, 0, 300), (3, 2, 3000), (4, 1, 3000)] {
        let states = explore(n, crashes);
        assert!(states > least, "{n} members: {states} states were seen");
    }
}

/// Runs one order of events, by chance; returns the number of failures.
fn run(n: usize, crashes: usize, seed: u64) -> usize {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % most
    };
    let mut group = Group::new(n, crashes);
    loop {
        let mut events = group.events();
        // Many of the events are failures that may happen, and few of them do.
        if events.iter().any(|e| !matches!(e, Event::Crash(_))) && below(4 * n) > 0 {
            events.retain(|e| !matches!(e, Event::Crash(_)));
        }
        if events.iter().all(|e| matches!(e, Event::Crash(_))) {
            break;
        }
        group.take(events[below(events.len())]);
        if n < 10 {
            group.check();
        }
    }
    group.check();
    group.check_end();
    group.alive.iter().filter(|alive| !**alive).count()
}

#[test]
fn many_orders_of_up_to_nine_members() {
    let failures: usize = (0..4000).map(|seed| run(2 + seed as usize % 8, seed as usize % 7, seed)).sum();
    assert!(failures > 2000, "{failures} members failed");
}

/// A large group, in which the messages of a member arrive in their order: members of `doomed`
/// fail after so many events.
fn simulate(n: usize, doomed: &[(usize, usize)], seed: u64) -> usize {
    let mut random = seed | 1;
    let mut below = move |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % most
    };
    let mut members: Vec<Agreement> = (0..n).map(|me| Agreement::new(me, n)).collect();
    let mut alive = vec![true; n];
    let mut unsent: Vec<VecDeque<(usize, Message)>> = vec![VecDeque::new(); n];
    // Members that may do something: begin, or send.
    let (mut ready, mut news) = ((0..n).collect::<Vec<_>>(), Vec::new());
    let (mut begun, mut step) = (vec![false; n], 0);
    while !ready.is_empty() || !news.is_empty() {
        step += 1;
        for (p, _) in doomed.iter().filter(|(p, at)| *at == step && *p < n) {
            alive[*p] = false;
            unsent[*p].clear();
            news.extend((0..n).map(|who| (who, *p)));
        }
        let mut out = Outgoing::new();
        let at = below(ready.len() + news.len());
        let who = if at >= ready.len() {
            let (who, of) = news.swap_remove(at - ready.len());
            if alive[who] {
                members[who].fail(of, &mut out);
            }
            who
        } else {
            let p = ready[at];
            if alive[p] && !begun[p] {
                begun[p] = true;
                members[p].begin(vec![word(p)], &mut out);
                p
            } else if let Some((to, message)) = unsent[p].pop_front() {
                if alive[to] {
                    members[to].receive(p, message, &mut out);
                }
                to
            } else {
                ready.swap_remove(at);
                continue;
            }
        };
        if !out.is_empty() && unsent[who].is_empty() {
            ready.push(who);
        }
        unsent[who].extend(out);
    }
    let decided: Vec<_> = (0..n).filter(|p| alive[*p]).map(|p| members[p].decided()).collect();
    assert!(decided.iter().all(|d| d.is_some() && *d == decided[0]), "seed {seed}: {n} members");
    step
}

/// The first leaders fail one after the other, and others at any time.
#[test]
fn groups_of_up_to_a_thousand_members() {
    for seed in 0..60 {
        let n = [17, 100, 300][seed as usize % 3];
        let doomed: Vec<_> = (0..n / 4)
            .map(|k| (if k % 2 == 0 { k / 2 } else { k * 3 % n }, 1 + k * (seed as usize + 1) * n / 40))
            .collect();
        let steps = simulate(n, &doomed, seed);
        assert!(steps > n, "{steps}");
    }
    // Without failures each member hears and says little: the leader asks, and each answers.
    let steps = simulate(1000, &[], 7);
    assert!(steps < 11 * 1000, "{steps} events");
    simulate(1000, &[(0, 2000), (1, 5000), (2, 7000), (500, 3000), (999, 6000)], 8);
}
