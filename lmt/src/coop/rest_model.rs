//! Every order of steps of two sides that send large messages, leave for checkpoints, give it up
//! and come back.

use std::collections::{HashSet, VecDeque};

use super::rest::Rest;

/// Mistakes that the exploration must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// None.
    No,
    /// A side that is back accepts what was granted before the peer knew that it leaves.
    AcceptsAtOnce,
    /// One answer counts for all RESTs.
    CountsOne,
    /// A ring is used again behind a checkpoint.
    KeepsRing,
    /// Keeps grants in the queue that the peer will refuse.
    KeepsVoid,
    /// Takes out of the queue what the peer has accepted, too.
    DropsAll,
    /// A side that is away is granted rings.
    GrantsOn,
    /// The position counts whatever ring it is in.
    AnyRing,
    /// A side that leaves again has forgotten what it has put in before.
    Forgets,
    /// A side leaves with something in a ring.
    LeavesAtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Packet {
    /// The message, and whether a ring is offered.
    Rts(u8, bool),
    /// The message, and the ring.
    Cts(u8, Option<u8>),
    Refuse(u8),
    Data(u8),
    /// The ring that was accepted last, and the position at which that ends.
    Rest(Option<(u8, u32)>),
    Rested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    There,
    Draining,
    /// The side is away: what is sent and what comes waits until it is back.
    Away,
}

/// The receiver's end of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inc {
    name: u8,
    /// The messages whose bytes are in it.
    bytes: VecDeque<u8>,
    taken: u32,
}

/// The sender's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Out {
    name: u8,
    put: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Side {
    stage: Stage,
    rest: Rest,
    leaves: u8,
    to_send: u8,
    next: u8,
    inc: Option<Inc>,
    granted: VecDeque<u8>,
    out: Option<Out>,
    /// The ring that was unmapped last, and the position at which that ended.
    ended: Option<(u8, u32)>,
    accepted: VecDeque<u8>,
    /// Announced messages that nobody has matched.
    announced: VecDeque<(u8, bool)>,
    /// Messages of the peer's that have come, by bits.
    came: u8,
    rings: u8,
    inbox: VecDeque<Packet>,
    /// Packets sent while this side is away.
    held: VecDeque<Packet>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    sides: [Side; 2],
}

/// The worlds that are explored.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Messages of each side, of one unit each.
    messages: [u8; 2],
    leaves: [u8; 2],
    mutant: Mutant,
}

type Next = Result<World, String>;

impl World {
    fn new(case: Case) -> World {
        let side = |i: usize| Side {
            stage: Stage::There,
            rest: Rest::default(),
            leaves: case.leaves[i],
            to_send: case.messages[i],
            next: 0,
            inc: None,
            granted: VecDeque::new(),
            out: None,
            ended: None,
            accepted: VecDeque::new(),
            announced: VecDeque::new(),
            came: 0,
            rings: 0,
            inbox: VecDeque::new(),
            held: VecDeque::new(),
        };
        World { sides: [side(0), side(1)] }
    }

    fn post(&mut self, from: usize, packet: Packet) {
        if self.sides[from].stage == Stage::Away {
            self.sides[from].held.push_back(packet);
        } else {
            self.sides[1 - from].inbox.push_back(packet);
        }
    }

    /// All worlds that one step of side `i` leads to, and whether it comes by itself.
    fn steps(&self, i: usize, mutant: Mutant) -> Vec<(bool, Next)> {
        let mut all = Vec::new();
        let mut step = |due: bool, f: &dyn Fn(&mut World) -> Result<(), String>| {
            let mut w = self.clone();
            let done = f(&mut w);
            w.shed(i, mutant);
            all.push((due, done.map(|()| w)));
        };
        let me = &self.sides[i];
        if me.to_send > 0 {
            step(false, &|w| {
                let me = &mut w.sides[i];
                let (message, offers) = (me.next, me.stage == Stage::There);
                (me.to_send, me.next) = (me.to_send - 1, me.next + 1);
                w.post(i, Packet::Rts(message, offers));
                Ok(())
            });
        }
        if me.stage == Stage::Away {
            step(false, &|w| {
                w.sides[i].stage = Stage::There;
                for packet in std::mem::take(&mut w.sides[i].held) {
                    w.post(i, packet);
                }
                Ok(())
            });
            return all;
        }
        if let Some(packet) = me.inbox.front() {
            step(true, &|w| {
                w.sides[i].inbox.pop_front();
                w.deliver(i, *packet, mutant)
            });
        }
        if !me.announced.is_empty() {
            step(false, &|w| {
                w.take_announced(i, mutant);
                Ok(())
            });
        }
        if !me.accepted.is_empty() {
            step(true, &|w| w.put(i));
        }
        if me.inc.as_ref().is_some_and(|inc| !inc.bytes.is_empty()) {
            step(true, &|w| w.take(i));
        }
        if me.stage == Stage::There && me.leaves > 0 {
            step(false, &|w| {
                let me = &mut w.sides[i];
                (me.stage, me.leaves) = (Stage::Draining, me.leaves - 1);
                me.rest.say();
                let ended = if mutant == Mutant::Forgets { None } else { me.ended };
                let accepted = me.out.map(|out| (out.name, out.put + me.accepted.len() as u32)).or(ended);
                w.post(i, Packet::Rest(accepted));
                Ok(())
            });
        }
        if me.stage == Stage::Draining {
            step(false, &|w| {
                w.sides[i].stage = Stage::There;
                Ok(())
            });
            let is_empty = me.accepted.is_empty() && me.granted.is_empty();
            if is_empty || mutant == Mutant::LeavesAtOnce {
                step(true, &|w| w.leave(i));
            }
        }
        all
    }

    /// Drops rings that are not used any more.
    fn shed(&mut self, i: usize, mutant: Mutant) {
        let me = &mut self.sides[i];
        if me.rest.is_closing() && me.accepted.is_empty() && me.granted.is_empty() {
            me.unmap();
            if mutant != Mutant::KeepsRing {
                me.inc = None;
            }
            me.rest.closed();
        }
    }

    fn leave(&mut self, i: usize) -> Result<(), String> {
        let me = &mut self.sides[i];
        if !me.accepted.is_empty() || me.inc.take().is_some_and(|inc| !inc.bytes.is_empty()) {
            return Err("bytes are in a ring whose side leaves".into());
        }
        me.unmap();
        me.stage = Stage::Away;
        Ok(())
    }

    fn take_announced(&mut self, i: usize, mutant: Mutant) {
        let me = &mut self.sides[i];
        let Some((message, offers)) = me.announced.pop_front() else { return };
        let may = me.rest.may_grant() || mutant == Mutant::GrantsOn && !me.rest.is_closing();
        if !offers || me.stage != Stage::There || !may {
            return self.post(i, Packet::Cts(message, None));
        }
        if me.inc.is_none() {
            me.rings += 1;
            me.inc = Some(Inc { name: me.rings, bytes: VecDeque::new(), taken: 0 });
        }
        me.granted.push_back(message);
        let name = me.inc.as_ref().map(|inc| inc.name);
        self.post(i, Packet::Cts(message, name));
    }

    fn deliver(&mut self, i: usize, packet: Packet, mutant: Mutant) -> Result<(), String> {
        let me = &mut self.sides[i];
        match packet {
            Packet::Rts(message, offers) => {
                if offers {
                    me.rest.offered();
                }
                me.announced.push_back((message, offers));
            }
            Packet::Cts(message, None) => self.post(i, Packet::Data(message)),
            Packet::Cts(message, Some(name)) => {
                let may = me.rest.may_accept() || mutant == Mutant::AcceptsAtOnce;
                if me.stage != Stage::There || !may {
                    self.post(i, Packet::Refuse(message));
                    return Ok(());
                }
                return self.accept(i, message, name);
            }
            Packet::Refuse(message) => {
                me.granted.retain(|m| *m != message);
                self.post(i, Packet::Cts(message, None));
            }
            Packet::Data(message) => return self.arrived(i, message),
            Packet::Rest(accepted) => {
                me.rest.heard();
                me.void(accepted, mutant);
                self.post(i, Packet::Rested);
            }
            Packet::Rested => {
                if !me.rest.answered() {
                    return Err("an answer to nothing".into());
                }
                while mutant == Mutant::CountsOne && me.rest.answered() {}
            }
        }
        Ok(())
    }

    fn accept(&mut self, i: usize, message: u8, name: u8) -> Result<(), String> {
        let [me, other] = self.pair(i);
        if me.out.is_none_or(|out| out.name != name) {
            let is_new = other.inc.as_ref().is_some_and(|inc| inc.name == name && inc.taken == 0);
            if !is_new || !me.accepted.is_empty() {
                return Err("a ring cannot be mapped".into());
            }
            me.out = Some(Out { name, put: 0 });
        }
        me.accepted.push_back(message);
        Ok(())
    }

    fn pair(&mut self, i: usize) -> [&mut Side; 2] {
        let [a, b] = &mut self.sides;
        if i == 0 { [a, b] } else { [b, a] }
    }

    fn put(&mut self, i: usize) -> Result<(), String> {
        let [me, other] = self.pair(i);
        let (Some(message), Some(out)) = (me.accepted.pop_front(), &mut me.out) else {
            return Err("a message without a ring".into());
        };
        match other.inc.as_mut().filter(|inc| inc.name == out.name) {
            Some(inc) => inc.bytes.push_back(message),
            None => return Err("bytes are put where nobody takes them out".into()),
        }
        out.put += 1;
        Ok(())
    }

    fn take(&mut self, i: usize) -> Result<(), String> {
        let me = &mut self.sides[i];
        let byte = me.inc.as_mut().and_then(|inc| {
            inc.taken += 1;
            inc.bytes.pop_front()
        });
        let wanted = me.granted.pop_front();
        match (byte, wanted) {
            (Some(byte), Some(message)) if byte == message => self.arrived(i, message),
            _ => Err(format!("{byte:?} came for {wanted:?}")),
        }
    }

    fn arrived(&mut self, i: usize, message: u8) -> Result<(), String> {
        let bit = 1 << message;
        if self.sides[i].came & bit != 0 {
            return Err(format!("message {message} came twice"));
        }
        self.sides[i].came |= bit;
        Ok(())
    }

    /// Nothing happens by itself any more.
    fn check_rest(&self, case: Case) -> Result<(), String> {
        if self.sides.iter().any(|s| s.stage == Stage::Draining) {
            return Err("a side cannot leave".into());
        }
        let is_there = |s: &Side| s.stage == Stage::There && s.to_send == 0 && s.announced.is_empty();
        let has_all = |i: usize| self.sides[i].came == (1 << case.messages[1 - i]) - 1;
        if self.sides.iter().all(is_there) && !(has_all(0) && has_all(1)) {
            return Err("a message has not come".into());
        }
        Ok(())
    }
}

impl Side {
    fn unmap(&mut self) {
        self.ended = self.out.take().map(|out| (out.name, out.put)).or(self.ended);
    }

    /// The peer says what it has accepted: what was granted behind that is not in the queue any
    /// more.
    fn void(&mut self, accepted: Option<(u8, u32)>, mutant: Mutant) {
        if mutant == Mutant::KeepsVoid {
            return;
        }
        let (name, taken) = self.inc.as_ref().map_or((0, 0), |inc| (inc.name, inc.taken));
        let end = accepted.filter(|(ring, _)| *ring == name || mutant == Mutant::AnyRing);
        let left = end.map_or(0, |(_, end)| end.saturating_sub(taken)) as usize;
        self.granted.truncate(if mutant == Mutant::DropsAll { 0 } else { left });
    }
}

/// Looks at all worlds; returns how many there are.
fn explore(case: Case) -> Result<usize, String> {
    let start = World::new(case);
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        let steps = [world.steps(0, case.mutant), world.steps(1, case.mutant)].concat();
        if !steps.iter().any(|(due, _)| *due) {
            world.check_rest(case).map_err(|e| format!("{e}: {world:?}"))?;
        }
        for (_, next) in steps {
            let next = next.map_err(|e| format!("{e}, behind {world:?}"))?;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

/// The cases: without a mistake, and with each.
const CASES: [([u8; 2], [u8; 2]); 4] =
    [([2, 0], [2, 0]), ([2, 0], [1, 1]), ([2, 0], [2, 1]), ([1, 1], [2, 1])];

#[test]
fn rings_go_and_come_in_every_order() {
    for (messages, leaves) in CASES {
        let case = Case { messages, leaves, mutant: Mutant::No };
        let worlds = explore(case).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        netmod_models::state_space(module_path!(), format_args!("{case:?}"), worlds);
        assert!(worlds > 1000, "{worlds} of {case:?}");
    }
}

#[test]
fn each_mistake_is_found() {
    use Mutant::{
        AcceptsAtOnce, AnyRing, CountsOne, DropsAll, Forgets, GrantsOn, KeepsRing, KeepsVoid, LeavesAtOnce,
    };
    for mutant in
        [AcceptsAtOnce, CountsOne, KeepsRing, KeepsVoid, DropsAll, GrantsOn, AnyRing, Forgets, LeavesAtOnce]
    {
        let found =
            CASES.iter().any(|&(messages, leaves)| explore(Case { messages, leaves, mutant }).is_err());
        assert!(found, "{mutant:?}");
        netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
    }
}
