//! Every order of steps of two ranks that leave, come back, give it up and send, over memory that
//! goes when nobody has it.

use std::collections::{HashSet, VecDeque};

use crate::pause::{Note, Pause};

/// Mistakes that the exploration must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// None.
    No,
    /// Bytes are sent in spite of a checkpoint.
    SendsOn,
    /// A rank leaves without an answer.
    LeavesAtOnce,
    /// An answer to another round is taken for one to this.
    AnyAnswer,
    /// A rank that has left counts as away when it is back.
    NoLook,
    /// A rank that has come and left again counts as one that has never come.
    Forgets,
    /// A rank that is back writes to one that has left meanwhile.
    Overlooks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cell {
    Byte,
    Note(Note),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    There,
    Asking,
    Away,
}

/// One rank, its slot, and the ring from it to the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    stage: Stage,
    pause: Pause,
    round: u32,
    /// The memory that it has, or had.
    memory: u32,
    to_send: u32,
    received: u32,
    ring: VecDeque<Cell>,
    back: u32,
    is_away: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    ranks: [Rank; 2],
    memory: u32,
    /// A third rank has it, too.
    is_held: bool,
}

const BYTES: u32 = 1;
const ROUNDS: u32 = 2;

impl World {
    fn new() -> World {
        let rank = Rank {
            stage: Stage::There,
            pause: Pause::default(),
            round: 0,
            memory: 0,
            to_send: BYTES,
            received: 0,
            ring: VecDeque::new(),
            back: 0,
            is_away: false,
        };
        World { ranks: [rank.clone(), rank], memory: 0, is_held: true }
    }

    /// All worlds that one step of rank `i` leads to.
    fn steps(&self, i: usize, gives_up: bool, mutant: Mutant) -> Vec<World> {
        let mut all = Vec::new();
        let mut step = |f: &dyn Fn(&mut World)| {
            let mut w = self.clone();
            f(&mut w);
            all.push(w);
        };
        let (me, other) = (&self.ranks[i], &self.ranks[1 - i]);
        if me.stage == Stage::Away {
            step(&|w| w.come_back(i, mutant));
            return all;
        }
        if me.to_send > 0 && (!me.pause.holds() || mutant == Mutant::SendsOn) {
            step(&|w| {
                w.ranks[i].to_send -= 1;
                w.ranks[i].ring.push_back(Cell::Byte);
            });
        }
        if let Some(note) = me.pause.next_note() {
            step(&|w| {
                w.ranks[i].ring.push_back(Cell::Note(note));
                w.ranks[i].pause.said();
            });
        }
        match other.ring.front() {
            Some(Cell::Byte) => step(&|w| {
                w.ranks[1 - i].ring.pop_front();
                w.ranks[i].received += 1;
            }),
            Some(Cell::Note(note)) => step(&|w| {
                w.ranks[1 - i].ring.pop_front();
                let (note, back) = match (mutant, *note) {
                    (Mutant::AnyAnswer, Note::Suspended(_)) => {
                        (Note::Suspended(w.ranks[i].round), other.back)
                    }
                    (_, note) => (note, other.back),
                };
                w.ranks[i].pause.heard(note, back);
            }),
            None => {}
        }
        step(&|w| {
            w.ranks[i].pause.look(other.back, other.is_away);
        });
        if me.stage == Stage::There && me.round < ROUNDS {
            step(&|w| {
                let me = &mut w.ranks[i];
                (me.stage, me.round) = (Stage::Asking, me.round + 1);
                me.pause.ask(me.round);
            });
        }
        if me.stage == Stage::Asking {
            if gives_up {
                step(&|w| {
                    let me = &mut w.ranks[i];
                    (me.stage, me.back) = (Stage::There, me.round);
                    me.pause.back(other.is_away && mutant != Mutant::Overlooks);
                });
            }
            let mut pause = me.pause;
            if mutant != Mutant::NoLook {
                pause.look(other.back, other.is_away);
            }
            let back = if mutant == Mutant::Forgets { 0 } else { other.back };
            if pause.is_agreed(back) || mutant == Mutant::LeavesAtOnce {
                step(&|w| (w.ranks[i].stage, w.ranks[i].is_away) = (Stage::Away, true));
            }
        }
        all.retain(|w| w != self);
        all
    }

    /// Nobody has the memory any more.
    fn is_gone(&self) -> bool {
        !self.is_held && self.ranks.iter().all(|r| r.stage == Stage::Away)
    }

    fn come_back(&mut self, i: usize, mutant: Mutant) {
        if self.is_gone() {
            self.memory += 1;
            for r in &mut self.ranks {
                r.ring.clear();
                (r.back, r.is_away) = (0, true);
            }
        }
        let (memory, is_away) = (self.memory, self.ranks[1 - i].is_away && mutant != Mutant::Overlooks);
        let me = &mut self.ranks[i];
        if std::mem::replace(&mut me.memory, memory) == memory {
            me.pause.back(is_away)
        } else {
            me.pause.anew()
        }
        (me.stage, me.back, me.is_away) = (Stage::There, me.round, false);
    }

    /// Returns true if everything has arrived, and nobody holds anything back.
    fn is_done(&self) -> bool {
        self.ranks.iter().all(|r| r.received == BYTES && r.stage == Stage::There && !r.pause.holds())
    }
}

/// Looks at all worlds; returns how many there are.
fn explore(gives_up: bool, mutant: Mutant) -> Result<usize, String> {
    let mut seen = HashSet::from([World::new()]);
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        let mut next = world.steps(0, gives_up, mutant);
        next.extend(world.steps(1, gives_up, mutant));
        if world.is_held {
            next.push(World { is_held: false, ..world.clone() });
        }
        if next.is_empty() && !world.is_done() {
            return Err(format!("nothing goes on: {world:?}"));
        }
        for w in next {
            if w.is_gone() && w.ranks.iter().any(|r| r.ring.contains(&Cell::Byte)) {
                return Err("bytes were in memory that nobody has".into());
            }
            if w.ranks.iter().any(|r| r.received > BYTES) {
                return Err("bytes came twice".into());
            }
            if seen.insert(w.clone()) {
                open.push(w);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn two_ranks_leave_and_come_back_in_every_order() {
    for gives_up in [false, true] {
        let worlds = explore(gives_up, Mutant::No).unwrap_or_else(|e| panic!("gives up {gives_up}: {e}"));
        netmod_models::state_space(module_path!(), format_args!("gives up: {gives_up}"), worlds);
        assert!(worlds > 1000, "{worlds}");
    }
}

#[test]
fn each_mistake_is_found() {
    use Mutant::{AnyAnswer, Forgets, LeavesAtOnce, NoLook, Overlooks, SendsOn};
    for mutant in [SendsOn, LeavesAtOnce, AnyAnswer, Forgets, NoLook, Overlooks] {
        assert!(explore(true, mutant).is_err(), "{mutant:?}");
        netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
    }
}

/// The numbers come round.
#[test]
fn rounds_are_told_apart_when_their_numbers_come_round() {
    let most = crate::pause::ROUNDS;
    for (round, back, away) in [(1, 0, true), (1, 1, false), (1, 2, false), (1, most, true), (most, 1, false)]
    {
        let mut pause = Pause::default();
        pause.heard(Note::Suspend(round), back);
        assert_eq!(pause.is_away(), away, "round {round}, back from {back}");
        assert_eq!(pause.next_note().is_some(), away);
    }
}
