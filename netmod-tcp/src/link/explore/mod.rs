//! Exploration of two links that dial, cross, part and lose each other, in every order; and of
//! links with known mistakes in them, which must go wrong.

mod model;
mod mutant;
mod socket;

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Model, Size, Stop, World};

use super::Phase;
use mutant::{About, Mutant};

#[derive(Default, Debug)]
struct Seen {
    states: usize,
    ends: usize,
    /// Steps that would have dialled once more than the model has room for.
    bounded: usize,
    /// Each size with its number of states.
    spaces: Vec<(String, usize)>,
    edges: BTreeSet<(Phase, Phase, String)>,
}

fn hash(w: &World) -> u128 {
    let mut a = DefaultHasher::new();
    w.hash(&mut a);
    let mut b = DefaultHasher::new();
    (w, 1u8).hash(&mut b);
    u128::from(a.finish()) << 64 | u128::from(b.finish())
}

fn explore(size: Size, mutant: Option<Mutant>) -> Result<Seen, String> {
    let (model, start) = Model::new(size, mutant);
    let mut known = HashSet::from([hash(&start)]);
    let mut worlds = vec![(start, 0)];
    let mut seen = Seen::default();
    while seen.states < worlds.len() {
        let at = seen.states;
        seen.states += 1;
        let w = worlds[at].0.clone();
        let (steps, goes_on) = model.next(&w);
        for step in steps {
            match step {
                Ok(next) => {
                    if known.insert(hash(&next)) {
                        worlds.push((next, at));
                    }
                }
                Err(Stop::Bound) => seen.bounded += 1,
                Err(Stop::Wrong(text)) => return Err(text + &history(&worlds, at)),
            }
        }
        if !goes_on {
            seen.ends += 1;
            model.check_end(&w).map_err(|text| text + &history(&worlds, at))?;
        }
    }
    seen.edges = model.edges.into_inner();
    Ok(seen)
}

/// The step by which the exploration came to a world.
fn history(worlds: &[(World, usize)], mut at: usize) -> String {
    let mut lines = vec![];
    loop {
        let w = &worlds[at].0;
        let mut line = String::new();
        for s in &w.sides {
            line += &format!(
                "\n  {:?} on {:?}, session {}, terminating {}, queued {}, wishes {}",
                s.link.phase(),
                s.link.conn(),
                s.link.session(),
                s.link.is_terminating(),
                s.queued,
                s.wishes
            );
        }
        for (c, conn) in w.conns.iter().enumerate() {
            let to: Vec<Vec<_>> = conn.to.iter().map(|f| f.list().collect()).collect();
            line += &format!("\n    {c} of {}: {:?}, to {to:?}", conn.dialer, conn.ends);
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

const QUIET: [Size; 6] = [
    Size { dials: 2, long_pauses: true, ..Size::SMALL },
    Size::SMALL,
    Size { wishes: [2, 1], terminates: [1, 0], ..Size::SMALL },
    Size { wishes: [1, 1], terminates: [1, 1], ..Size::SMALL },
    Size { shutdowns: [1, 1], ..Size::SMALL },
    Size { terminates: [1, 1], cancels: [1, 1], ..Size::SMALL },
];

const FAULTY: [Size; 5] = [
    Size { faults: 1, dials: 3, ..Size::SMALL },
    Size { faults: 1, dials: 3, terminates: [1, 0], ..Size::SMALL },
    Size { wishes: [2, 0], faults: 1, dials: 3, shutdowns: [0, 1], ..Size::SMALL },
    Size { faults: 1, dials: 3, terminates: [1, 0], cancels: [1, 0], ..Size::SMALL },
    Size { faults: 1, dials: 2, impatient: true, ..Size::SMALL },
];

/// Connections break, and what they carried is carried on: nothing is lost or doubled, and nobody
/// is down.
const RESUMED: [Size; 6] = [
    Size { resume: true, dials: 3, faults: 1, ..Size::SMALL },
    Size { resume: true, dials: 3, faults: 1, wishes: [2, 0], ..Size::SMALL },
    Size { resume: true, dials: 4, faults: 2, wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 3, faults: 1, terminates: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 3, faults: 1, shutdowns: [0, 1], wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 2, terminates: [1, 1], ..Size::SMALL },
];

/// Checkpoints of either side, at any moment.
const SLEEPY: [Size; 8] = [
    Size { resume: true, dials: 4, sleeps: [1, 1], ..Size::SMALL },
    Size { resume: true, dials: 5, sleeps: [2, 1], wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 3, sleeps: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 3, sleeps: [0, 1], wishes: [1, 1], ..Size::SMALL },
    Size { resume: true, dials: 3, sleeps: [1, 1], wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 4, sleeps: [0, 2], wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 4, sleeps: [1, 0], wishes: [1, 0], faults: 1, ..Size::SMALL },
    // Both may be elsewhere afterwards.
    Size { resume: true, dials: 4, sleeps: [1, 1], wishes: [1, 0], astray: 2, ..Size::SMALL },
];

/// The same of connections that have no session before.
const SLEEPY_LATE: [Size; 6] = [
    Size { late: true, dials: 3, sleeps: [1, 1], ..Size::SMALL },
    Size { late: true, dials: 5, sleeps: [2, 1], wishes: [1, 0], ..Size::SMALL },
    Size { late: true, dials: 3, sleeps: [1, 0], wishes: [2, 1], ..Size::SMALL },
    Size { late: true, dials: 3, sleeps: [0, 1], wishes: [1, 1], ..Size::SMALL },
    Size { late: true, dials: 4, sleeps: [0, 1], terminates: [1, 0], ..Size::SMALL },
    Size { late: true, dials: 3, sleeps: [1, 0], wishes: [1, 1], faults: 1, ..Size::SMALL },
];

/// Better ways that open for either side, or for both at once.
const MOVING: [Size; 7] = [
    // Both sides move at once and answer in time: no further dial is needed.
    Size { resume: true, dials: 3, moves: [1, 1], wishes: [1, 0], long_pauses: true, ..Size::SMALL },
    Size { resume: true, dials: 3, moves: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 4, moves: [1, 1], wishes: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 4, moves: [0, 2], wishes: [1, 1], ..Size::SMALL },
    Size { resume: true, dials: 4, moves: [1, 1], wishes: [1, 0], faults: 1, ..Size::SMALL },
    Size { resume: true, dials: 4, moves: [1, 1], wishes: [1, 0], terminates: [1, 0], ..Size::SMALL },
    Size { resume: true, dials: 3, moves: [1, 0], wishes: [1, 0], sleeps: [0, 1], ..Size::SMALL },
];

fn run(sizes: &[Size], mutant: Option<Mutant>) -> Result<Seen, String> {
    let mut all = Seen::default();
    for size in sizes {
        let seen = explore(*size, mutant)?;
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
    let seen = run(sizes, None).unwrap_or_else(|e| panic!("{e}"));
    seen.spaces.iter().for_each(|(size, states)| netmod_models::state_space(module_path!(), size, *states));
    seen
}

const LARGE: [Size; 4] = [
    Size { wishes: [2, 2], terminates: [1, 1], dials: 5, ..Size::SMALL },
    Size { wishes: [2, 2], terminates: [2, 1], ..Size::SMALL },
    Size { faults: 2, dials: 4, ..Size::SMALL },
    Size { faults: 1, dials: 4, terminates: [1, 1], ..Size::SMALL },
];

#[test]
fn larger_worlds_are_right_too() {
    let seen = right(&LARGE);
    assert!(seen.states > 100_000, "the model explores too little: {seen:?}");
}

#[test]
fn without_faults_everything_arrives_and_nobody_is_down() {
    let seen = right(&QUIET);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn with_faults_nobody_waits_for_ever_and_both_ends_agree() {
    let seen = right(&FAULTY);
    assert!(seen.states > 1_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn broken_connections_lose_and_double_nothing() {
    let seen = right(&RESUMED);
    assert!(seen.states > 10_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn checkpoints_lose_and_double_nothing_and_nobody_is_down() {
    let seen = right(&SLEEPY);
    assert!(seen.states > 10_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn sessions_that_begin_for_a_checkpoint_lose_and_double_nothing() {
    let seen = right(&SLEEPY_LATE);
    assert!(seen.states > 10_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn moves_to_better_ways_lose_and_double_nothing_and_nobody_is_down() {
    let seen = right(&MOVING);
    assert!(seen.states > 10_000 && seen.ends > 10, "the model explores too little: {seen:?}");
}

#[test]
fn the_documented_graph_is_what_happens() {
    let mut edges = BTreeSet::new();
    for sizes in [&QUIET[..], &FAULTY[..], &RESUMED[..], &SLEEPY[..], &SLEEPY_LATE[..], &MOVING[..]] {
        edges.extend(right(sizes).edges);
    }
    let mut dot = String::from("digraph link {\n");
    let mut edges = edges.into_iter().peekable();
    while let Some((from, to, mut label)) = edges.next() {
        while let Some((_, _, more)) = edges.next_if(|e| (e.0, e.1) == (from, to)) {
            label = label + ", " + &more;
        }
        dot += &format!("    {from:?} -> {to:?} [label=\"{label}\"];\n");
    }
    dot += "}\n";
    if std::env::var_os("NETMOD_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/link/graph.dot");
        std::fs::write(path, dot).expect("the source folder is writable");
        return;
    }
    let why = "run with NETMOD_BLESS=1 if the change is meant";
    assert_eq!(include_str!("../graph.dot"), dot, "graph.dot is not what happens; {why}");
}

/// Returns what has gone wrong with a mistake in the links, in the worlds that it is about, or
/// failing that in any.
fn caught(mutant: Mutant) -> Option<String> {
    let mut sizes: [&[Size]; 6] = [&QUIET, &FAULTY, &RESUMED, &SLEEPY, &SLEEPY_LATE, &MOVING];
    sizes.rotate_left(match mutant.is_about() {
        About::Dials => 0,
        About::Sessions => 2,
        About::Checkpoints => 3,
        About::Moves => 5,
    });
    sizes
        .into_iter()
        .try_for_each(|sizes| run(sizes, Some(mutant)).map(drop))
        .err()
        .map(|e| e.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn known_mistakes_are_found() {
    let mut missed = vec![];
    for mutant in Mutant::ALL {
        match caught(mutant) {
            Some(error) => {
                netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
                println!("{mutant:?}: {error}");
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
