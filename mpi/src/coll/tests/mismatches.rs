//! Processes that give different counts: those that depend on it fail, and nobody waits for ever.

#![allow(unsafe_code)]

use super::network::Network;
use crate::coll::{Active, Call, Peers};
use crate::datatype::{Buf, Types};
use crate::error::MpiError;
use crate::handle::Datatype;
use crate::op::{Builtin, Ops};

const INT: Datatype = Datatype(0x4c00_0405);

/// Runs a call of `n` processes, each with its count; returns the failure of each.
fn failures(
    what: &str,
    counts: &[i64],
    call: impl Fn(usize, Buf, Buf) -> Call,
) -> Vec<Option<Box<MpiError>>> {
    let counts: Vec<_> = counts.iter().map(|count| (*count, *count)).collect();
    failures_of(what, &counts, call)
}

/// Works like [`failures`], with a count to send and one to receive for each process.
fn failures_of(
    what: &str,
    counts: &[(i64, i64)],
    call: impl Fn(usize, Buf, Buf) -> Call,
) -> Vec<Option<Box<MpiError>>> {
    let n = counts.len();
    let (types, ops) = (Types::new(), Ops::new());
    let mut memory = vec![vec![0i32; 64]; 2 * n];
    let mut buf = |i: usize, count: i64| {
        // SAFETY: the vectors have room for all processes' parts, and live until the runs are over.
        unsafe { Buf::new(memory[i].as_mut_ptr().cast(), count, INT) }
    };
    let mut plan = |me: usize| {
        let (sent, received) = counts[me];
        let call = call(me, buf(2 * me, sent), buf(2 * me + 1, received));
        call.plan(&types, &ops, (me, n), Peers::Group).unwrap_or_else(|e| panic!("{what}: {e:?}"))
    };
    let runs: Vec<Active<usize>> = (0..n).map(&mut plan).collect();
    Network::new(what, n).of_mismatched().drive(runs)
}

#[test]
fn a_broadcast_of_another_length_fails_everywhere_else() {
    for n in 2..=9 {
        for (root, count) in (0..n).flat_map(|root| [(root, 1), (root, 5)]) {
            let mut counts = vec![3; n];
            counts[root] = count;
            let failed = failures("bcast", &counts, |_, buf, _| Call::Bcast { buf, root: root as i32 });
            for (me, failed) in failed.iter().enumerate() {
                assert_eq!(failed.is_some(), me != root, "{me} of {n}, root {root}: {failed:?}");
            }
        }
    }
}

#[test]
fn a_process_that_sends_itself_another_length_fails_and_those_that_depend_on_it() {
    for n in 2..=9 {
        for (odd, sent) in (0..n).flat_map(|odd| [(odd, 2), (odd, 4)]) {
            let mut counts = vec![(3, 3); n];
            counts[odd].0 = sent;
            let failed = failures_of("allgather", &counts, |_, send, recv| Call::Allgather { send, recv });
            for (me, failed) in failed.iter().enumerate() {
                assert!(failed.is_some(), "{me} of {n}: process {odd} sends {sent} elements");
            }
            let failed = failures_of("alltoall", &counts, |_, send, recv| Call::Alltoall { send, recv });
            assert!(failed[odd].is_some(), "{odd} of {n} sends {sent} elements");
        }
    }
}

#[test]
fn one_process_with_another_count_leaves_nobody_waiting() {
    let op = Builtin::Sum.handle();
    type Make = fn(Buf, Buf, crate::handle::Op) -> Call;
    let calls: [(&str, Make); 9] = [
        ("gather", |send, recv, _| Call::Gather { send, recv, root: 0 }),
        ("scatter", |send, recv, _| Call::Scatter { send, recv, root: 0 }),
        ("allgather", |send, recv, _| Call::Allgather { send, recv }),
        ("alltoall", |send, recv, _| Call::Alltoall { send, recv }),
        ("reduce", |send, recv, op| Call::Reduce { send, recv, op, root: 0 }),
        ("allreduce", |send, recv, op| Call::Allreduce { send, recv, op }),
        ("reduce_scatter_block", |send, recv, op| Call::ReduceScatterBlock { send, recv, op }),
        ("scan", |send, recv, op| Call::Scan { send, recv, op }),
        ("exscan", |send, recv, op| Call::Exscan { send, recv, op }),
    ];
    for (what, call) in calls {
        for n in 2..=9 {
            for (odd, count) in (0..n).flat_map(|odd| [(odd, 2), (odd, 4)]) {
                let mut counts = vec![3; n];
                counts[odd] = count;
                let failed = failures(what, &counts, |_, send, recv| call(send, recv, op));
                assert!(failed.iter().any(Option::is_some), "{what}: {odd} of {n} has {count} elements");
            }
        }
    }
}
