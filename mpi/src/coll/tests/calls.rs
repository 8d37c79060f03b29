//! Calls: their arguments, on intra- and intercommunicators, and what is wrong with them.

#![allow(unsafe_code)]

use super::network::Network;
use crate::coll::{Active, Call, Peers, reduce_local};
use crate::consts::{PROC_NULL, ROOT};
use crate::datatype::{Blocks, Buf, Form, TypeDesc, Types};
use crate::error::Class;
use crate::handle::{Datatype, Op};
use crate::op::{Builtin, Ops};
use crate::topo::{Cart, Topology};

const INT: Datatype = Datatype(0x4c00_0405);

/// The buffers of one process, in integers.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    send: Vec<i32>,
    recv: Vec<i32>,
}

fn buf(v: &mut [i32], count: usize) -> Buf {
    // SAFETY: the tests give vectors that are long enough and live until the runs are over.
    unsafe { Buf::new(v.as_mut_ptr().cast(), count as i64, INT) }
}

fn blocks(v: &mut [i32], counts: &[i64], displs: &[i64]) -> Blocks {
    // SAFETY: as above.
    unsafe { Blocks::new(v.as_mut_ptr().cast(), counts, displs, INT) }
}

/// Processes of a test: `n` of a group, and perhaps `m` of the other one.
fn run(
    what: &str,
    n: usize,
    m: Option<usize>,
    all: &mut [Memory],
    call: impl Fn(usize, &mut Memory) -> Call,
) {
    let (types, ops) = (Types::new(), Ops::new());
    let plan = |(me, memory): (usize, &mut Memory)| {
        let call = call(me, memory);
        let (place, remote) = match m {
            Some(m) if me < n => ((me, n), Peers::Remote(m)),
            Some(m) => ((me - n, m), Peers::Remote(n)),
            None => ((me, n), Peers::Group),
        };
        call.plan(&types, &ops, place, remote).unwrap_or_else(|e| panic!("{what}: {e:?}"))
    };
    let runs: Vec<Active<usize>> = all.iter_mut().enumerate().map(plan).collect();
    let network = Network::new(what, all.len());
    match m {
        Some(_) => network.of_groups(n).succeed(runs),
        None => network.succeed(runs),
    }
}

/// Every process has the numbers `100 r + k`.
fn memory(n: usize, send: usize, recv: usize) -> Vec<Memory> {
    let one =
        |r: usize| Memory { send: (0..send).map(|k| (100 * r + k) as i32).collect(), recv: vec![-1; recv] };
    (0..n).map(one).collect()
}

const SUM: fn() -> Op = || Builtin::Sum.handle();

#[test]
fn arguments_of_calls_mean_what_mpi_says() {
    for n in 1..=5usize {
        let root = n as i32 / 2;
        let at_root = |me: usize| me == n / 2;
        let mut all = memory(n, 2, 2 * n);
        run("gather", n, None, &mut all, |_, m| Call::Gather {
            send: buf(&mut m.send, 2),
            recv: buf(&mut m.recv, 2),
            root,
        });
        let every: Vec<i32> = (0..n as i32).flat_map(|r| [100 * r, 100 * r + 1]).collect();
        for (me, m) in all.iter().enumerate() {
            assert_eq!(m.recv, if at_root(me) { every.clone() } else { vec![-1; 2 * n] });
        }
        let mut all = memory(n, 2, 2 * n);
        run("allgather", n, None, &mut all, |_, m| Call::Allgather {
            send: buf(&mut m.send, 2),
            recv: buf(&mut m.recv, 2),
        });
        assert!(all.iter().all(|m| m.recv == every));
        // In place, in reverse order.
        let counts = vec![2; n];
        let displs: Vec<i64> = (0..n as i64).rev().map(|i| 2 * i).collect();
        let mut all = memory(n, 2, 2 * n);
        for (me, m) in all.iter_mut().enumerate() {
            let at = displs[me] as usize;
            m.recv[at..at + 2].copy_from_slice(&m.send);
        }
        run("allgatherv", n, None, &mut all, |_, m| Call::Allgatherv {
            send: Buf::IN_PLACE,
            recv: blocks(&mut m.recv, &counts, &displs),
        });
        let reversed: Vec<i32> = (0..n as i32).rev().flat_map(|r| [100 * r, 100 * r + 1]).collect();
        assert!(all.iter().all(|m| m.recv == reversed));
        let mut all = memory(n, 3, 3);
        run("reduce", n, None, &mut all, |me, m| {
            let send = if at_root(me) { Buf::IN_PLACE } else { buf(&mut m.send, 3) };
            if at_root(me) {
                m.recv.copy_from_slice(&m.send);
            }
            // Elsewhere the result has no place.
            let recv = if at_root(me) { buf(&mut m.recv, 3) } else { buf(&mut [], 0) };
            Call::Reduce { send, recv, op: SUM(), root }
        });
        let sum = |k: i32| (0..n as i32).map(|r| 100 * r + k).sum::<i32>();
        assert_eq!(all[n / 2].recv, [sum(0), sum(1), sum(2)]);
        let counts: Vec<i64> = (0..n as i64).map(|i| i % 3).collect();
        let total: usize = counts.iter().sum::<i64>() as usize;
        let mut all = memory(n, total, total.max(1));
        run("reduce_scatter", n, None, &mut all, |_, m| Call::ReduceScatter {
            send: buf(&mut m.send, total),
            recv: buf(&mut m.recv, 0),
            counts: counts.clone(),
            op: SUM(),
        });
        let mut k = 0;
        for (me, m) in all.iter().enumerate() {
            for i in 0..counts[me] as usize {
                assert_eq!(m.recv[i], sum(k));
                k += 1;
            }
        }
        let mut all = memory(n, 1, 1);
        run("exscan", n, None, &mut all, |me, m| {
            // Process 0 has no result, and may have no place for it.
            let recv = if me == 0 { unsafe_null() } else { buf(&mut m.recv, 1) };
            Call::Exscan { send: buf(&mut m.send, 1), recv, op: SUM() }
        });
        assert!(
            all.iter()
                .enumerate()
                .skip(1)
                .all(|(me, m)| m.recv[0] == (0..me as i32).map(|r| 100 * r).sum::<i32>())
        );
    }
}

fn unsafe_null() -> Buf {
    // SAFETY: it is not used.
    unsafe { Buf::new(core::ptr::null_mut(), 1, INT) }
}

#[test]
fn each_group_of_two_gets_what_the_other_has() {
    for (n, m) in (1..=4).flat_map(|n| (1..=4).map(move |m| (n, m))) {
        let both = n + m;
        let what = |op: &str| format!("{op} of groups of {n} and {m}");
        // The processes of the other group.
        let others = |me: usize| if me < n { n..both } else { 0..n };
        let mine = |me: usize| if me < n { me } else { me - n };
        let mut all = memory(both, 1, 1);
        run(&what("barrier"), n, Some(m), &mut all, |_, _| Call::Barrier);
        // From the last process of the first group.
        let part = |me: usize| {
            if me >= n {
                n as i32 - 1
            } else if me == n - 1 {
                ROOT
            } else {
                PROC_NULL
            }
        };
        let mut all = memory(both, 2, 2);
        run(&what("bcast"), n, Some(m), &mut all, |me, mem| {
            if me == n - 1 {
                mem.recv.copy_from_slice(&mem.send);
            }
            Call::Bcast { buf: buf(&mut mem.recv, 2), root: part(me) }
        });
        let sent = all[n - 1].send.clone();
        assert!(
            all[n..].iter().all(|mem| mem.recv == sent) && all[..n - 1].iter().all(|mem| mem.recv == [-1; 2])
        );
        let mut all = memory(both, 2, 2 * m);
        run(&what("gather"), n, Some(m), &mut all, |me, mem| Call::Gather {
            send: buf(&mut mem.send, 2),
            recv: buf(&mut mem.recv, 2),
            root: part(me),
        });
        assert_eq!(all[n - 1].recv, all[n..].iter().flat_map(|mem| mem.send.clone()).collect::<Vec<_>>());
        let mut all = memory(both, 2 * m, 2);
        run(&what("scatter"), n, Some(m), &mut all, |me, mem| Call::Scatter {
            send: buf(&mut mem.send, 2),
            recv: buf(&mut mem.recv, 2),
            root: part(me),
        });
        let given = all[n - 1].send.clone();
        assert!(all[n..].iter().enumerate().all(|(i, mem)| mem.recv == given[2 * i..2 * i + 2]));
        let mut all = memory(both, 2, 2 * n.max(m));
        run(&what("allgather"), n, Some(m), &mut all, |_, mem| Call::Allgather {
            send: buf(&mut mem.send, 2),
            recv: buf(&mut mem.recv, 2),
        });
        for me in 0..both {
            let want: Vec<i32> = others(me).flat_map(|r| all[r].send.clone()).collect();
            assert_eq!(all[me].recv[..want.len()], want, "{}", what("allgather"));
        }
        let mut all = memory(both, n.max(m), n.max(m));
        run(&what("alltoall"), n, Some(m), &mut all, |_, mem| Call::Alltoall {
            send: buf(&mut mem.send, 1),
            recv: buf(&mut mem.recv, 1),
        });
        for me in 0..both {
            let want: Vec<i32> = others(me).map(|r| all[r].send[mine(me)]).collect();
            assert_eq!(all[me].recv[..want.len()], want, "{}", what("alltoall"));
        }
        let sum = |all: &[Memory], me: usize, k: usize| others(me).map(|r| all[r].send[k]).sum::<i32>();
        let mut all = memory(both, 3, 3);
        run(&what("allreduce"), n, Some(m), &mut all, |_, mem| Call::Allreduce {
            send: buf(&mut mem.send, 3),
            recv: buf(&mut mem.recv, 3),
            op: SUM(),
        });
        for me in 0..both {
            assert_eq!(all[me].recv, [0, 1, 2].map(|k| sum(&all, me, k)), "{}", what("allreduce"));
        }
        let mut all = memory(both, 3, 3);
        run(&what("reduce"), n, Some(m), &mut all, |me, mem| Call::Reduce {
            send: buf(&mut mem.send, 3),
            recv: buf(&mut mem.recv, 3),
            op: SUM(),
            root: part(me),
        });
        assert_eq!(all[n - 1].recv, [0, 1, 2].map(|k| sum(&all, n - 1, k)), "{}", what("reduce"));
        // Each group deals out n m elements.
        let mut all = memory(both, n * m, n * m);
        run(&what("reduce_scatter_block"), n, Some(m), &mut all, |me, mem| Call::ReduceScatterBlock {
            send: buf(&mut mem.send, 0),
            recv: buf(&mut mem.recv, if me < n { m } else { n }),
            op: SUM(),
        });
        for me in 0..both {
            let block = if me < n { m } else { n };
            let want: Vec<i32> = (0..block).map(|k| sum(&all, me, mine(me) * block + k)).collect();
            assert_eq!(all[me].recv[..block], want, "{}", what("reduce_scatter_block"));
        }
    }
}

#[test]
fn bad_arguments_have_mpis_class() {
    let (types, ops) = (Types::new(), Ops::new());
    let mut v = vec![0; 8];
    let mut w = vec![0; 8];
    let (a, b) = (buf(&mut v, 4), buf(&mut w, 4));
    let of = |datatype| b.elements(4, datatype);
    let class = |call: Call| match call.plan::<usize>(&types, &ops, (1, 2), Peers::Group) {
        Ok(_) => Class::SUCCESS,
        Err(e) => e.class,
    };
    let op = SUM();
    assert_eq!(class(Call::Bcast { buf: a, root: 2 }), Class::ROOT);
    assert_eq!(class(Call::Bcast { buf: a, root: -1 }), Class::ROOT);
    assert_eq!(class(Call::Bcast { buf: of(Datatype::NULL), root: 0 }), Class::TYPE);
    assert_eq!(class(Call::Bcast { buf: a.with_count(-1), root: 0 }), Class::COUNT);
    assert_eq!(class(Call::Bcast { buf: Buf::IN_PLACE, root: 0 }), Class::BUFFER);
    assert_eq!(class(Call::Bcast { buf: unsafe_null(), root: 0 }), Class::BUFFER);
    assert_eq!(class(Call::Gather { send: Buf::IN_PLACE, recv: b, root: 0 }), Class::BUFFER);
    assert_eq!(class(Call::Allgather { send: a, recv: a }), Class::BUFFER);
    assert_eq!(class(Call::Allreduce { send: a, recv: a, op }), Class::BUFFER);
    assert_eq!(class(Call::Allreduce { send: a, recv: b, op: Op::NULL }), Class::OP);
    assert_eq!(
        class(Call::Allreduce { send: a, recv: of(Datatype(0x4c00_040a)), op: Builtin::Bor.handle() }),
        Class::OP
    );
    assert_eq!(class(Call::Allreduce { send: a, recv: b, op: Builtin::Replace.handle() }), Class::OP);
    assert_eq!(class(Call::Reduce { send: Buf::IN_PLACE, recv: b, op, root: 0 }), Class::BUFFER);
    assert_eq!(class(Call::ReduceScatter { send: a, recv: b, counts: vec![1], op }), Class::COUNT);
    assert_eq!(class(Call::ReduceScatter { send: a, recv: b, counts: vec![1, -1], op }), Class::COUNT);
    let lists = |counts: &[i64]| Call::Allgatherv { send: a, recv: blocks(&mut [0; 8], counts, &[0, 4]) };
    assert_eq!(class(lists(&[4, 4])), Class::SUCCESS);
    assert_eq!(class(lists(&[4])), Class::ARG);
    assert_eq!(class(lists(&[4, -4])), Class::COUNT);
    let inter = Call::Scan { send: a, recv: b, op }.plan::<usize>(&types, &ops, (0, 1), Peers::Remote(1));
    assert_eq!(inter.map(|_| ()).unwrap_err().class, Class::COMM);
    let root = Call::Bcast { buf: a, root: 7 }.plan::<usize>(&types, &ops, (0, 1), Peers::Remote(1));
    assert_eq!(root.map(|_| ()).unwrap_err().class, Class::ROOT);
}

#[test]
fn two_buffers_are_combined_locally() {
    let (mut types, ops) = (Types::new(), Ops::new());
    let (mut v, mut w) = (vec![1, 2, 3], vec![10, 20, 30]);
    let (a, b) = (buf(&mut v, 3), buf(&mut w, 3));
    assert!(reduce_local(&types, &ops, &a, &b, SUM()).unwrap().is_none());
    let class = |op, inout: Buf, types: &Types| {
        reduce_local(types, &ops, &a, &inout, op).map(|_| ()).unwrap_err().class
    };
    assert_eq!(class(SUM(), a, &types), Class::BUFFER);
    assert_eq!(class(Builtin::Maxloc.handle(), b, &types), Class::OP);
    let two = TypeDesc::contiguous(2, &types.desc(INT).unwrap(), Form::Int).unwrap();
    let two = types.add(two).unwrap();
    assert_eq!(class(SUM(), b.elements(1, two), &types), Class::TYPE);
    types.commit(two).unwrap();
    assert_eq!(class(SUM(), b.elements(1, two), &types), Class::OP);
    assert_eq!(w, [11, 22, 33]);
}

/// Runs a call on the neighbours of each process of a grid.
fn on_grid(what: &str, cart: &Topology, all: &mut [Memory], call: impl Fn(&mut Memory) -> Call) {
    let (types, ops) = (Types::new(), Ops::new());
    let n = all.len();
    let plan = |(me, memory): (usize, &mut Memory)| {
        let around = cart.neighbours(me as i32).unwrap();
        call(memory).plan(&types, &ops, (me, n), Peers::Neighbours(&around)).unwrap()
    };
    let runs: Vec<Active<usize>> = all.iter_mut().enumerate().map(plan).collect();
    Network::new(what, n).succeed(runs);
}

#[test]
fn neighbours_on_a_grid_exchange_as_by_shifts() {
    for (dims, periods) in [
        (vec![3, 2], vec![true, false]),
        (vec![2, 1], vec![true, true]),
        (vec![1], vec![true]),
        (vec![4], vec![false]),
        (vec![2, 2, 2], vec![true; 3]),
    ] {
        let cart = Cart::new(&dims, &periods, 100).unwrap();
        let (n, edges) = (cart.cells() as usize, 2 * dims.len());
        let grid = Topology::Cart(cart.clone());
        let mut all = memory(n, edges, edges);
        on_grid("neighbor_alltoall", &grid, &mut all, |m| Call::Alltoall {
            send: buf(&mut m.send, 1),
            recv: buf(&mut m.recv, 1),
        });
        for me in 0..n {
            for dim in 0..dims.len() {
                let (before, behind) = cart.shift(me as i32, dim as i32, 1).unwrap();
                // The one before has sent it forward, the one behind backward.
                let of = |rank: i32, place: usize| usize::try_from(rank).map_or(-1, |r| all[r].send[place]);
                let want = [of(before, 2 * dim + 1), of(behind, 2 * dim)];
                assert_eq!(all[me].recv[2 * dim..2 * dim + 2], want, "{dims:?} {periods:?}, {me}, {dim}");
            }
        }
        let mut all = memory(n, 1, edges);
        on_grid("neighbor_allgather", &grid, &mut all, |m| Call::Allgather {
            send: buf(&mut m.send, 1),
            recv: buf(&mut m.recv, 1),
        });
        for (me, memory) in all.iter().enumerate() {
            let sources = grid.neighbours(me as i32).unwrap().sources;
            let want: Vec<i32> = sources.iter().map(|r| if *r < 0 { -1 } else { 100 * r }).collect();
            assert_eq!(memory.recv, want, "{dims:?} {periods:?}, {me}");
        }
    }
}

#[test]
fn all_processes_get_the_same_bits() {
    const DOUBLE: Datatype = Datatype(0x4c00_080b);
    let (types, ops) = (Types::new(), Ops::new());
    for (n, odd) in (1..=9).flat_map(|n| (0..n).map(move |odd| (n, odd))) {
        for op in [Builtin::Max, Builtin::Min, Builtin::Sum] {
            // With a number that is none the result depends on the order of operands.
            let one = |r: usize| if r == odd { f64::NAN } else { 0.1 * r as f64 };
            let mut all: Vec<[f64; 2]> = (0..n).map(|r| [one(r), 0.0]).collect();
            let plan = |(me, m): (usize, &mut [f64; 2])| {
                let (send, recv) = m.split_at_mut(1);
                // SAFETY: the arrays live until the runs are over.
                let buf = |v: &mut [f64]| unsafe { Buf::new(v.as_mut_ptr().cast(), 1, DOUBLE) };
                let call = Call::Allreduce { send: buf(send), recv: buf(recv), op: op.handle() };
                call.plan(&types, &ops, (me, n), Peers::Group).unwrap()
            };
            let runs: Vec<Active<usize>> = all.iter_mut().enumerate().map(plan).collect();
            Network::new("allreduce", n).succeed(runs);
            let bits: Vec<u64> = all.iter().map(|m| m[1].to_bits()).collect();
            assert!(bits.iter().all(|b| *b == bits[0]), "{op:?}, {n} processes: {bits:x?}");
        }
    }
}
