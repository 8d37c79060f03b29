//! Every operation over a simulated network: the schedules of all processes are run against each
//! other, and the result is compared with the definition.

mod calls;
mod leaders;
mod mismatches;
mod model;
mod moves;
mod network;
mod node;
mod node_blocks;
mod reductions;
mod simulator;

use std::sync::Arc;

use network::Network;

use super::choice::{Algorithm, Case, Forced, Machine, PATHS, Setting};
use super::{Elem, Reducer, Schedule, TypeId};
use crate::datatype::basic::basic;
use crate::datatype::{Form, TypeDesc};
use crate::handle::Datatype;

/// The type of the send buffer, and of the receive buffer.
const SEND: TypeId = TypeId(1);
const RECV: TypeId = TypeId(2);

fn named(code: u32) -> Arc<TypeDesc> {
    Arc::new(TypeDesc::named(basic(Datatype(code)).unwrap()))
}

fn int() -> Arc<TypeDesc> {
    named(0x4c00_0405)
}

/// Two integers with gaps before, between and behind them.
fn gappy() -> Arc<TypeDesc> {
    let two = TypeDesc::hindexed(&[1, 1], &[4, 12], &int(), Form::Int).unwrap();
    Arc::new(TypeDesc::resized(0, 20, &Arc::new(two), Form::Int).unwrap())
}

/// Eight bytes in one run.
fn pair_of_ints() -> Arc<TypeDesc> {
    Arc::new(TypeDesc::contiguous(2, &int(), Form::Int).unwrap())
}

fn elem(ty: TypeId, desc: &TypeDesc) -> Elem {
    Elem { ty, size: desc.size(), extent: desc.extent(), plain: desc.is_plain() }
}

/// `count` elements of a process, packed: bytes that differ by process and place.
fn packed(rank: usize, count: usize, size: usize) -> Vec<u8> {
    let word = |k: usize| {
        let x = (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (k as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (x ^ x >> 29).to_ne_bytes()
    };
    let len = count * size;
    let mut all = Vec::with_capacity(len + 7);
    (0..len.div_ceil(8)).for_each(|k| all.extend_from_slice(&word(k)));
    all.truncate(len);
    all
}

/// One process of a test: its buffers, packed, and what the receive buffer is to become.
struct Process {
    schedule: Schedule,
    send: Vec<u8>,
    recv: Vec<u8>,
    want: Vec<u8>,
}

/// Runs the processes, whose buffers have these types, and compares.
fn run(what: &str, send: &Arc<TypeDesc>, recv: &Arc<TypeDesc>, reducer: &Reducer, all: Vec<Process>) {
    let types = vec![named(0x4c00_010d), Arc::clone(send), Arc::clone(recv)];
    Network::new(what, all.len()).run(&types, reducer, all);
}

/// Processes on nodes that each begin with one of these ranks, which are to have leaders.
fn on_nodes(n: usize, starts: &[u32]) -> Setting {
    let ends = starts[1..].iter().copied().chain([n as u32]);
    let per_node = starts.iter().zip(ends).map(|(s, e)| e - s).max().unwrap_or(1) as usize;
    let machine = Machine { near: PATHS[0], far: PATHS[1], nodes: starts.len(), per_node };
    let forced = Forced::read(|o| if o.values().contains(&"leaders") { "leaders" } else { "auto" });
    Setting { machine, starts: Some(starts.into()), ..Setting::unknown(n, forced) }
}

/// Nodes of different sizes: numbers of processes, and the first ranks.
const NODES: [(usize, &[u32]); 6] =
    [(3, &[0, 1]), (4, &[0, 2]), (5, &[0, 3]), (7, &[0, 1, 4]), (9, &[0, 4, 5, 8]), (12, &[0, 4, 8])];

/// The algorithms of an operation that can run a case.
fn able<A: Algorithm>(case: &Case) -> Vec<A> {
    A::ALL.iter().copied().filter(|a| a.can_run(case)).collect()
}

/// Roots that are tried: all of few processes, some of many.
fn roots(n: usize) -> Vec<usize> {
    if n <= 5 { (0..n).collect() } else { vec![0, n / 2, n - 1] }
}

const COUNTS: [usize; 4] = [0, 1, 3, 1000];

/// Pairs of numbers of processes and elements of `size` bytes: everything small, and vectors of
/// `long` bytes for some.
fn cases(long: usize, size: usize) -> Vec<(usize, usize)> {
    let small = (1..=17).flat_map(|n| COUNTS.map(|count| (n, count)));
    small.chain([2, 3, 5, 8, 9, 12, 16].map(|n| (n, long / size))).collect()
}
