//! Exploration of two machines that dial, cross, end, fail and die, in every order; and of machines
//! with known mistakes in them, which must go wrong.

pub(super) mod model;
pub(super) mod mutant;
mod size;
mod steps;
mod wire;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Model, Stop, World};
use mutant::Mutant;
use size::{Network, Size};

#[derive(Default, Debug)]
struct Seen {
    states: usize,
    ends: usize,
    /// Steps that would have dialled once more than the model has room for.
    bounded: usize,
}

fn hash(w: &World) -> u128 {
    let mut a = DefaultHasher::new();
    w.hash(&mut a);
    let mut b = DefaultHasher::new();
    (w, 1u8).hash(&mut b);
    u128::from(a.finish()) << 64 | u128::from(b.finish())
}

/// Explores at most `most` worlds.
fn explore(size: Size, mutant: Option<Mutant>, most: usize) -> Result<Seen, String> {
    let (model, start) = Model::new(size, mutant);
    let mut known = HashMap::from([(hash(&start), 0usize)]);
    let mut worlds = vec![(start, 0)];
    // The predecessors of each world, and the worlds that need no step or cannot be followed.
    let mut before: Vec<Vec<u32>> = vec![vec![]];
    let mut goals = vec![];
    let mut seen = Seen::default();
    while seen.states < worlds.len() {
        let at = seen.states;
        if at >= most {
            return Ok(seen);
        }
        seen.states += 1;
        let w = worlds[at].0.clone();
        let (steps, goes_on) = model.next(&w);
        let mut bounded = false;
        for step in steps {
            match step {
                Ok(next) => {
                    let to = *known.entry(hash(&next)).or_insert(worlds.len());
                    if to == worlds.len() {
                        worlds.push((next, at));
                        before.push(vec![]);
                    }
                    before[to].push(at as u32);
                }
                Err(Stop::Bound) => {
                    seen.bounded += 1;
                    bounded = true;
                }
                Err(Stop::Wrong(text)) => return Err(text + &history(&worlds, at)),
            }
        }
        if !goes_on {
            seen.ends += 1;
            model.check_end(&w).map_err(|text| text + &history(&worlds, at))?;
        }
        if bounded || !goes_on {
            goals.push(at);
        }
    }
    if let Some(at) = endless(&before, goals) {
        return Err("it goes round and round".to_owned() + &history(&worlds, at));
    }
    Ok(seen)
}

/// A world from which no end can be reached.
fn endless(before: &[Vec<u32>], mut goals: Vec<usize>) -> Option<usize> {
    let mut ends = vec![false; before.len()];
    while let Some(at) = goals.pop() {
        if !std::mem::replace(&mut ends[at], true) {
            goals.extend(before[at].iter().map(|b| *b as usize).filter(|b| !ends[*b]));
        }
    }
    ends.iter().position(|e| !e)
}

/// Prints the worlds on the way to one.
fn history(worlds: &[(World, usize)], mut at: usize) -> String {
    let mut lines = vec![];
    loop {
        let w = &worlds[at].0;
        let mut line = String::new();
        for s in &w.sides {
            let m = &s.machine;
            line += &format!(
                "\n  {:?} on {:?}, settled {}/{}, queued {}",
                m.phase, m.conn, m.peer, m.settled, s.queued
            );
        }
        for (c, conn) in w.conns.iter().enumerate() {
            line += &format!("\n    {c} of {}: {:?}, to {:?}", conn.dialer, conn.ends, conn.to);
        }
        lines.push(line);
        if at == 0 {
            break;
        }
        at = worlds[at].1;
    }
    lines.reverse();
    lines.join("\n  --")
}

const STREAM: Size = Size::SMALL;
const RESUMED: Size = Size { network: Network::Resumed, ..Size::SMALL };
const FRAMES: Size = Size { network: Network::Frames, ..Size::SMALL };

/// Nothing fails.
const QUIET: &[Size] = &[
    Size { dials: 2, long_pauses: true, ..STREAM },
    Size { dials: 2, long_pauses: true, wishes: [2, 2], ..FRAMES },
    STREAM,
    FRAMES,
    Size { wishes: [2, 1], ends: [1, 0], ..STREAM },
    Size { wishes: [1, 2], ends: [0, 1], ..STREAM },
    Size { wishes: [2, 2], ends: [1, 1], dials: 4, ..FRAMES },
    Size { wishes: [2, 1], ends: [1, 1], dials: 4, ..RESUMED },
    Size { cancels: [1, 1], wishes: [2, 1], dials: 3, ..STREAM },
    Size { cancels: [1, 1], wishes: [1, 2], dials: 3, ..FRAMES },
    Size { aborts: [1, 1], wishes: [2, 2], dials: 3, ..STREAM },
    Size { aborts: [1, 1], wishes: [2, 1], dials: 3, ..FRAMES },
];

/// Connections break, handshakes time out, processes die and sleep.
const FAULTY: &[Size] = &[
    Size { faults: 1, ..STREAM },
    Size { faults: 2, dials: 3, ..STREAM },
    Size { faults: 1, wishes: [2, 1], ends: [0, 1], ..STREAM },
    Size { faults: 1, impatient: true, ..STREAM },
    Size { faults: 1, cancels: [1, 0], ..STREAM },
    Size { faults: 1, ..RESUMED },
    Size { faults: 2, wishes: [1, 0], ..RESUMED },
    Size { faults: 2, dials: 3, ..RESUMED },
    Size { faults: 1, ..FRAMES },
    Size { faults: 2, wishes: [2, 1], dials: 3, ..FRAMES },
    Size { faults: 1, impatient: true, ..FRAMES },
    Size { restarts: [1, 0], dials: 3, ..STREAM },
    Size { restarts: [0, 1], dials: 3, ..STREAM },
    Size { restarts: [1, 0], wishes: [2, 1], dials: 3, ..FRAMES },
    Size { restarts: [0, 1], wishes: [1, 2], dials: 3, ..FRAMES },
    Size { restarts: [0, 1], dials: 3, ..RESUMED },
    Size { sleeps: [1, 1], dials: 3, ..STREAM },
    Size { sleeps: [1, 1], faults: 1, wishes: [1, 0], dials: 3, ..RESUMED },
    Size { sleeps: [1, 1], dials: 3, ..FRAMES },
];

/// Frames of handshakes are lost, and nobody times out: a connection is made all the same.
const LOSSY: &[Size] = &[
    Size { drops: 1, repeats: 1, ..FRAMES },
    Size { drops: 3, dials: 2, ..FRAMES },
    Size { drops: 2, dials: 3, tried: true, ..FRAMES },
    Size { drops: 4, dials: 2, tried: true, ..FRAMES },
    Size { drops: 1, repeats: 1, wishes: [2, 1], ends: [1, 0], dials: 3, ..FRAMES },
    Size { drops: 2, wishes: [1, 1], cancels: [1, 0], dials: 3, ..FRAMES },
    Size { drops: 1, aborts: [1, 1], dials: 3, ..FRAMES },
    Size { drops: 1, faults: 1, dials: 3, ..FRAMES },
];

fn run(sizes: &[Size], mutant: Option<Mutant>, most: usize) -> Result<Seen, String> {
    let mut all = Seen::default();
    for size in sizes {
        let seen = explore(*size, mutant, most).map_err(|e| format!("{size:?}: {e}"))?;
        if mutant.is_none() {
            netmod_models::state_space(module_path!(), format_args!("{size:?}"), seen.states);
            println!("{size:?}: {} states, {} ends, {} cut", seen.states, seen.ends, seen.bounded);
        }
        all.states += seen.states;
        all.ends += seen.ends;
        all.bounded += seen.bounded;
    }
    Ok(all)
}

#[track_caller]
fn holds(sizes: &[Size]) {
    let seen = run(sizes, None, usize::MAX).unwrap_or_else(|e| panic!("{e}"));
    println!("{} states, {} ends in all", seen.states, seen.ends);
    assert!(seen.states > 10_000 && seen.ends > 100, "the model explores too little: {seen:?}");
}

#[test]
fn without_faults_both_sides_agree() {
    holds(QUIET);
}

#[test]
fn with_faults_and_deaths_nobody_waits_for_ever() {
    holds(FAULTY);
}

#[test]
fn handshakes_that_lose_frames_are_made_all_the_same() {
    holds(LOSSY);
}

/// Worlds of each size in which a mistake is looked for.
const FEW: usize = 20_000;

#[test]
fn known_mistakes_are_found() {
    let mut missed = vec![];
    for mutant in Mutant::EXPLORED {
        let sizes = [QUIET, LOSSY, FAULTY];
        let found = sizes.iter().try_for_each(|s| run(s, Some(mutant), FEW).map(drop));
        match found {
            Err(error) => {
                netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
                println!("{mutant:?}: {}", error.lines().next().unwrap_or_default());
            }
            Ok(()) => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
