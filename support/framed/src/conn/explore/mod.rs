//! Exploration of two machines that dial, cross, end, fail and die, in every order. Mutants,
//! machines with known mistakes, must go wrong.

mod frame;
mod model;
mod mutant;
mod size;
mod steps;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Model, Stop, World};
use size::{Size, Timeouts};

use super::link::Phase;
use mutant::Mutant;

#[derive(Default, Debug)]
struct Seen {
    states: usize,
    ends: usize,
    /// Steps that would have dialled once more than the model has room for.
    bounded: usize,
    /// Each size with its number of states.
    spaces: Vec<(String, usize)>,
    edges: BTreeSet<(Phase, Phase, &'static str)>,
}

fn hash(w: &World) -> u128 {
    let mut a = DefaultHasher::new();
    w.hash(&mut a);
    let mut b = DefaultHasher::new();
    (w, 1u8).hash(&mut b);
    u128::from(a.finish()) << 64 | u128::from(b.finish())
}

/// Looks at so many worlds at most.
fn explore(size: Size, mutant: Option<Mutant>, most: usize) -> Result<Seen, String> {
    let (model, start) = Model::new(size, mutant);
    let mut known = HashMap::from([(hash(&start), 0usize)]);
    let mut worlds = vec![(start, 0)];
    // The predecessors of each world, and the worlds that may stop or are not followed further.
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
    seen.edges = model.edges.into_inner();
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

/// Returns the steps by which the exploration came to a world.
fn history(worlds: &[(World, usize)], mut at: usize) -> String {
    let mut lines = vec![];
    loop {
        let w = &worlds[at].0;
        let mut line = String::new();
        for s in &w.sides {
            line += &format!(
                "\n  {:?} {:?}",
                s.phase(),
                s.link().map(|l| (l.slot, l.from, l.establish.is_wanted(), l.terminating))
            );
        }
        w.in_flight().for_each(|f| line += &format!("\n    {f}"));
        lines.push(line);
        if at == 0 {
            break;
        }
        at = worlds[at].1;
    }
    lines.reverse();
    lines.join("\n  --")
}

/// Nothing fails: every message arrives, once, and everybody agrees in the end.
const QUIET: &[Size] = &[
    Size { dials: 1, long_pauses: true, ..Size::SMALL },
    Size { dials: 1, long_pauses: true, wishes: [2, 2], in_order: true, ..Size::SMALL },
    Size::SMALL,
    Size { wishes: [2, 2], ..Size::SMALL },
    Size { in_order: true, wishes: [2, 2], terminates: [1, 1], ..Size::SMALL },
    Size { wishes: [2, 1], terminates: [1, 0], ..Size::SMALL },
    Size { wishes: [1, 2], terminates: [0, 1], ..Size::SMALL },
    Size { wishes: [1, 2], terminates: [0, 2], ..Size::SMALL },
    Size { wishes: [1, 1], terminates: [1, 1], ..Size::SMALL },
];

/// VCs fail, go, come again; all of it is told.
const TOLD: &[Size] = &[
    Size { aborts: [1, 0], ..Size::SMALL },
    Size { aborts: [0, 1], terminates: [1, 0], ..Size::SMALL },
    Size { aborts: [1, 0], revivals: [1, 1], wishes: [2, 0], dials: 2, ..Size::SMALL },
    Size { aborts: [0, 1], revivals: [1, 1], wishes: [2, 1], dials: 2, in_order: true, ..Size::SMALL },
    Size { aborts: [1, 0], terminates: [0, 1], ..Size::SMALL },
    Size { removals: [1, 0], wishes: [2, 1], dials: 2, ..Size::SMALL },
    Size { removals: [0, 1], wishes: [1, 2], dials: 2, ..Size::SMALL },
    Size { removals: [0, 1], terminates: [1, 0], dials: 2, ..Size::SMALL },
    Size { busy: true, terminates: [1, 0], wishes: [2, 1], dials: 2, ..Size::SMALL },
    Size { busy: true, terminates: [1, 1], revivals: [1, 1], dials: 2, in_order: true, ..Size::SMALL },
];

/// Losses, deaths, and patience that ends at any moment.
const LONG: Size = Size { timeouts: Timeouts::Long, dials: 3, ..Size::SMALL };
const ANY: Size = Size { timeouts: Timeouts::Any, dials: 2, ..Size::SMALL };
const FAULTY: &[Size] = &[
    Size { losses: 1, ..LONG },
    Size { losses: 2, wishes: [1, 0], ..LONG },
    Size { losses: 1, wishes: [2, 0], terminates: [1, 0], ..LONG },
    Size { losses: 1, wishes: [1, 0], terminates: [1, 1], ..LONG },
    Size { restarts: [1, 0], ..LONG },
    Size { restarts: [0, 1], ..LONG },
    Size { restarts: [0, 1], same_address: true, ..LONG },
    Size { restarts: [1, 0], same_address: true, ..LONG },
    Size { restarts: [1, 0], wishes: [1, 0], terminates: [0, 1], busy: true, ..LONG },
    Size { restarts: [0, 1], wishes: [2, 1], revivals: [1, 0], busy: true, ..LONG },
    Size { restarts: [1, 0], wishes: [1, 2], revivals: [0, 1], busy: true, ..LONG },
    Size { aborts: [1, 0], removals: [0, 1], losses: 1, wishes: [1, 0], ..LONG },
    Size { wishes: [1, 0], ..ANY },
    Size { wishes: [1, 0], losses: 1, terminates: [0, 1], ..ANY },
    Size { dials: 1, ..ANY },
    Size { impatient: true, dials: 1, ..ANY },
    Size { impatient: true, wishes: [1, 0], revivals: [1, 1], ..ANY },
    Size { wishes: [0, 1], terminates: [1, 1], ..ANY },
    Size { wishes: [0, 1], restarts: [1, 0], ..ANY },
];

/// Frames of handshakes are lost, and nobody's patience ends: everything arrives all the same.
const LOSSY: &[Size] = &[
    Size { drops: 1, repeats: 1, ..Size::SMALL },
    // Two dials cross that have failed before, and no GOODBYE comes.
    Size { tried: true, drops: 4, dials: 2, in_order: true, ..Size::SMALL },
    Size { tried: true, drops: 2, dials: 3, ..Size::SMALL },
    Size { drops: 4, dials: 2, in_order: true, timeouts: Timeouts::Long, ..Size::SMALL },
    Size { drops: 2, dials: 3, ..Size::SMALL },
    Size { drops: 2, wishes: [2, 0], ..Size::SMALL },
    Size { drops: 1, repeats: 1, wishes: [1, 0], terminates: [1, 0], ..Size::SMALL },
    Size { drops: 1, wishes: [1, 1], terminates: [0, 1], dials: 3, ..Size::SMALL },
];

/// Minutes of it: with NETMOD_TEST_LARGE.
const LARGE: &[Size] = &[
    Size { wishes: [2, 2], terminates: [1, 1], ..Size::SMALL },
    Size { aborts: [1, 1], revivals: [1, 1], wishes: [2, 1], dials: 3, in_order: true, ..Size::SMALL },
    Size { restarts: [1, 1], dials: 2, ..LONG },
    Size { losses: 1, ..ANY },
];

fn run(sizes: &[Size], mutant: Option<Mutant>, most: usize) -> Result<Seen, String> {
    let mut all = Seen::default();
    for size in sizes {
        let seen = explore(*size, mutant, most).map_err(|e| format!("{size:?}: {e}"))?;
        println!("{size:?}: {} states, {} ends, {} cut", seen.states, seen.ends, seen.bounded);
        all.spaces.push((format!("{size:?}"), seen.states));
        all.states += seen.states;
        all.ends += seen.ends;
        all.bounded += seen.bounded;
        all.edges.extend(seen.edges);
    }
    Ok(all)
}

/// Explores the right machines, and records how many states there are.
fn right(sizes: &[Size]) -> Seen {
    let seen = run(sizes, None, usize::MAX).unwrap_or_else(|e| panic!("{e}"));
    seen.spaces.iter().for_each(|(size, states)| netmod_models::state_space(module_path!(), size, *states));
    seen
}

#[test]
fn without_faults_everything_arrives_and_both_agree() {
    let seen = right(QUIET);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn larger_worlds_are_right_too() {
    let sizes = if std::env::var_os("NETMOD_TEST_LARGE").is_some() { LARGE } else { &LARGE[2..3] };
    let seen = right(sizes);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn handshakes_that_lose_frames_are_made_all_the_same() {
    let seen = right(LOSSY);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn ends_of_all_kinds_are_told() {
    let seen = right(TOLD);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn with_losses_and_deaths_nobody_waits_for_ever_and_nothing_is_left() {
    let seen = right(FAULTY);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

/// Worlds of each size that are looked at for a mistake: it must be found without long search.
const FEW: usize = 3_000;

#[test]
fn known_mistakes_are_found() {
    let mut missed = vec![];
    for mutant in Mutant::ALL {
        let sizes = [QUIET, TOLD, LOSSY, FAULTY];
        let error = sizes.iter().try_for_each(|s| run(s, Some(mutant), FEW).map(drop)).err();
        match error {
            Some(error) => {
                netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
                let told = error.lines().next().and_then(|l| l.split("}: ").nth(1)).unwrap_or_default();
                println!("{mutant:?}: {told}");
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
