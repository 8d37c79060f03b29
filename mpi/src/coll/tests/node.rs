//! Operations in shared memory: each against the definition, with processes that sleep and wake at
//! random, several operations after each other in the same memory.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::network::Network;
use super::{COUNTS, Process, RECV, SEND, elem, gappy, int, named, packed, pair_of_ints, roots};
use crate::coll::node_memory::LONG;
use crate::coll::reduce::OpFacts;
use crate::coll::{Active, Base, Builder, Call, Data, Lane, Memory, Reducer, node, signature};
use crate::datatype::basic::basic;
use crate::datatype::{Buf, TypeDesc};
use crate::error::MpiError;
use crate::handle::{Datatype, Op};
use crate::op::{Builtin, kernel};

/// Numbers of processes: those that look at all flags, and those that are a tree.
const PROCESSES: [usize; 5] = [2, 3, 5, 16, 20];

fn of(ty: crate::coll::TypeId, desc: &Arc<TypeDesc>, base: Base, count: usize) -> Data {
    Data::new(base, count, elem(ty, desc))
}

/// Runs one operation in the shared memory of `net`, with processes made by `make`.
fn run(what: &str, send: &Arc<TypeDesc>, recv: &Arc<TypeDesc>, reducer: &Reducer, all: Vec<Process>) {
    let types = vec![named(0x4c00_010d), Arc::clone(send), Arc::clone(recv)];
    // The second and third run find the slots of the first.
    Network::new(what, all.len()).in_memory(3).run(&types, reducer, all);
}

#[test]
fn bcast() {
    for n in PROCESSES {
        for (from, into) in [(int(), int()), (gappy(), pair_of_ints()), (pair_of_ints(), gappy())] {
            for count in [1, 3, 12, 1000] {
                for root in roots(n) {
                    let data = packed(root, count, from.size());
                    let all = (0..n).map(|me| {
                        let desc = if me == root { &from } else { &into };
                        let ty = if me == root { SEND } else { RECV };
                        let base = if me == root { Base::Send } else { Base::Recv };
                        let mut b = Builder::new(me, n);
                        node::bcast(&mut b, root, of(ty, desc, base, count));
                        let old = vec![1; data.len()];
                        let (send, want) =
                            (data.clone(), if me == root { old.clone() } else { data.clone() });
                        Process { schedule: b.finish(), send, recv: old, want }
                    });
                    let what = format!("bcast of {count} from {root} of {n}");
                    run(&what, &from, &into, &Reducer::None, all.collect());
                }
            }
        }
    }
}

#[test]
fn barrier() {
    for n in PROCESSES {
        let all = (0..n).map(|me| {
            let mut b = Builder::new(me, n);
            node::barrier(&mut b);
            Process { schedule: b.finish(), send: vec![], recv: vec![], want: vec![] }
        });
        run(&format!("barrier of {n}"), &int(), &int(), &Reducer::None, all.collect());
    }
}

#[test]
fn allgather_alltoall_gather_and_scatter() {
    for n in PROCESSES {
        for (from, into) in [(int(), int()), (gappy(), pair_of_ints()), (pair_of_ints(), gappy())] {
            for count in [1, 3, 50].into_iter().filter(|c| n * c * from.size() <= LONG) {
                let size = from.size();
                let block = |r: usize, to: usize| packed(100 * r + to, count, size);
                let blocks = |f: &dyn Fn(usize) -> Vec<u8>| (0..n).flat_map(f).collect::<Vec<u8>>();
                let (own, all) = (of(SEND, &from, Base::Send, count), of(RECV, &into, Base::Recv, count));
                let make = |build: &dyn Fn(&mut Builder), me: usize, send: Vec<u8>, want: Vec<u8>| {
                    let mut b = Builder::new(me, n);
                    build(&mut b);
                    Process { schedule: b.finish(), send, recv: vec![0; want.len()], want }
                };
                let gathered = blocks(&|r| block(r, 0));
                let procs = (0..n).map(|me| {
                    make(&|b| node::allgather(b, Some(own), all), me, block(me, 0), gathered.clone())
                });
                run(&format!("allgather {count} of {n}"), &from, &into, &Reducer::None, procs.collect());
                let procs = (0..n).map(|me| {
                    let (send, want) = (blocks(&|r| block(me, r)), blocks(&|r| block(r, me)));
                    make(&|b| node::alltoall(b, Some(own), all), me, send, want)
                });
                run(&format!("alltoall {count} of {n}"), &from, &into, &Reducer::None, procs.collect());
                for root in roots(n) {
                    let procs = (0..n).map(|me| {
                        let want = if me == root { gathered.clone() } else { vec![0; gathered.len()] };
                        let all = Some(all).filter(|_| me == root);
                        make(&|b| node::gather(b, root, Some(own), all), me, block(me, 0), want)
                    });
                    run(
                        &format!("gather {count} at {root} of {n}"),
                        &from,
                        &into,
                        &Reducer::None,
                        procs.collect(),
                    );
                    let procs = (0..n).map(|me| {
                        let source = Some(own).filter(|_| me == root);
                        let send = blocks(&|r| block(r, 0));
                        make(&|b| node::scatter(b, root, source, Some(all)), me, send, block(me, 0))
                    });
                    run(
                        &format!("scatter {count} of {root} of {n}"),
                        &from,
                        &into,
                        &Reducer::None,
                        procs.collect(),
                    );
                }
            }
        }
    }
}

/// `MPI_SUM` of integers.
fn sum() -> Reducer {
    Reducer::Kernel(
        kernel(Builtin::of(Op(0x5800_0003)).unwrap(), basic(Datatype(0x4c00_0405)).unwrap()).unwrap(),
    )
}

fn ints(rank: usize, count: usize) -> Vec<i32> {
    (0..count).map(|i| (rank * 7919 + i * 31) as i32).collect()
}

fn bytes(all: &[i32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn summed(ranks: core::ops::Range<usize>, count: usize) -> Vec<i32> {
    (0..count).map(|i| ranks.clone().map(|r| ints(r, count)[i]).sum()).collect()
}

const FACTS: OpFacts = OpFacts { commutative: true, divisible: true };

#[test]
fn reductions() {
    for n in PROCESSES {
        for count in COUNTS.into_iter().chain([1100, 20_000]).filter(|c| *c > 0 && (n < 16 || *c < 20_000)) {
            for in_place in [false, true] {
                let data = |base| of(RECV, &int(), base, count);
                let mine = data(if in_place { Base::Recv } else { Base::Send });
                let operand = |me: usize| bytes(&ints(me, count));
                let all = |make: &dyn Fn(&mut Builder), wants: &dyn Fn(usize) -> Vec<u8>| {
                    let process = |me: usize| {
                        let mut b = Builder::new(me, n);
                        make(&mut b);
                        Process {
                            schedule: b.finish(),
                            send: operand(me),
                            recv: operand(me),
                            want: wants(me),
                        }
                    };
                    (0..n).map(process).collect::<Vec<_>>()
                };
                let total = bytes(&summed(0..n, count));
                let what = |op: &str| format!("{op} of {count} by {n}, in place: {in_place}");
                let run = |name: &str, processes| run(&what(name), &int(), &int(), &sum(), processes);
                run(
                    "allreduce",
                    all(&|b| node::allreduce(b, FACTS, mine, data(Base::Recv)), &|_| total.clone()),
                );
                for root in roots(n) {
                    let reduce = |b: &mut Builder| {
                        let (mine, result) = match b.me == root {
                            true => (mine, Some(data(Base::Recv))),
                            false => (data(Base::Send), None),
                        };
                        node::reduce(b, root, FACTS, mine, result);
                    };
                    run("reduce", all(&reduce, &|me| if me == root { total.clone() } else { operand(me) }));
                }
                if count * 4 <= LONG {
                    let before = |me: usize| bytes(&summed(0..me, count));
                    run(
                        "scan",
                        all(&|b| node::scan(b, mine, Some(data(Base::Recv)), true), &|me| {
                            bytes(&summed(0..me + 1, count))
                        }),
                    );
                    let exscan = |b: &mut Builder| {
                        node::scan(b, mine, Some(data(Base::Recv)).filter(|_| b.me > 0), false);
                    };
                    run("exscan", all(&exscan, &|me| if me == 0 { operand(0) } else { before(me) }));
                    let share = |me: usize| me * count / n..(me + 1) * count / n;
                    let scatter = |b: &mut Builder| {
                        let counts: Vec<usize> = (0..n).map(|rank| share(rank).len()).collect();
                        node::reduce_scatter(b, mine, data(Base::Recv).part(0, counts[b.me]), &counts);
                    };
                    run(
                        "reduce_scatter",
                        all(&scatter, &|me| {
                            let share = share(me);
                            let mut want = operand(me);
                            want[..4 * share.len()].copy_from_slice(&total[4 * share.start..4 * share.end]);
                            want
                        }),
                    );
                }
            }
        }
    }
}

/// Builds a schedule, and returns the receive buffer before and after it.
type Made<'a> = &'a dyn Fn(&mut Builder) -> (Vec<u8>, Vec<u8>);

/// Data that needs more pieces than there are slots.
#[test]
fn long_data_in_pieces() {
    let types = [(int(), int()), (gappy(), pair_of_ints()), (pair_of_ints(), gappy())];
    for (n, (from, into)) in [2, 3, 5].into_iter().flat_map(|n| types.iter().map(move |t| (n, t))) {
        let count = (10 * LONG + 100) / from.size();
        let (own, block) = (of(SEND, from, Base::Send, count), of(RECV, into, Base::Recv, count));
        let data: Vec<Vec<u8>> = (0..n).map(|r| packed(r, count, from.size())).collect();
        let old = vec![1; data[0].len()];
        for (root, is_in_place) in [(0, false), (n - 1, true)] {
            let go = |what: &str, make: Made<'_>| {
                let process = |me: usize| {
                    let mut b = Builder::new(me, n);
                    let (recv, want) = make(&mut b);
                    Process { schedule: b.finish(), send: data[me].clone(), recv, want }
                };
                run(
                    &format!("long {what} of {n}"),
                    from,
                    into,
                    &Reducer::None,
                    (0..n).map(process).collect(),
                );
            };
            go("bcast", &|b| {
                let is_root = b.me == root;
                node::bcast(b, root, if is_root { own } else { block });
                (old.clone(), if is_root { old.clone() } else { data[root].clone() })
            });
            let is_given = |rank: usize| is_in_place && rank == root;
            go("gather", &|b| {
                let is_root = b.me == root;
                let mine = Some(own).filter(|_| !is_given(b.me));
                node::gather(b, root, mine, Some(block).filter(|_| is_root));
                let recv = if is_given(b.me) { data.concat() } else { vec![1; data.concat().len()] };
                (recv.clone(), if is_root { data.concat() } else { recv })
            });
            go("allgather", &|b| {
                let mine = Some(own).filter(|_| !is_given(b.me));
                node::allgather(b, mine, block);
                let recv = if is_given(b.me) { data.concat() } else { vec![1; data.concat().len()] };
                (recv, data.concat())
            });
        }
    }
}

/// Vectors of two processes that need more pieces than there are slots.
#[test]
fn long_vectors_of_two() {
    let count = (10 * LONG + 100) / 4;
    let vector = |r: usize| ints(r, count);
    let total: Vec<i32> = vector(0).iter().zip(vector(1)).map(|(a, b)| a + b).collect();
    for is_in_place in [false, true] {
        let result = of(RECV, &int(), Base::Recv, count);
        let mine = Data { base: if is_in_place { Base::Recv } else { Base::Send }, ..result };
        let process = |me: usize| {
            let mut b = Builder::new(me, 2);
            node::allreduce(&mut b, FACTS, mine, result);
            let (send, want) = (bytes(&vector(me)), bytes(&total));
            Process { schedule: b.finish(), send: send.clone(), recv: send, want }
        };
        let what = format!("long allreduce, in place: {is_in_place}");
        run(&what, &int(), &int(), &sum(), (0..2).map(process).collect());
    }
}

type Schedules<'a> = &'a dyn Fn(&mut Builder);

/// Runs two processes that call different operations; returns their errors.
fn differ(calls: [(Call, Schedules<'_>); 2]) -> Vec<Option<Box<MpiError>>> {
    let net = Network::new("different operations", 2).in_memory(1);
    let memories = net.memories();
    let mut rooms = [[0u8; 64]; 2];
    let mut runs = Vec::new();
    for (me, ((call, build), room)) in calls.iter().zip(&mut rooms).enumerate() {
        let mut b = Builder::new(me, 2);
        build(&mut b);
        let mut schedule = b.finish();
        schedule.signature = signature::of(call, schedule.signature);
        let (at, types) = (room.as_mut_ptr(), vec![named(0x4c00_010d), int(), int()]);
        // SAFETY: no operation of the tests has more bytes, and the runs are over before the memory
        // is.
        let memory = unsafe { Memory::new(at, at, types, &schedule.rooms) }.unwrap();
        let mut active = Active::new(schedule, memory, Reducer::None);
        active.use_node(&memories[me], memories[me].begin(Lane::BLOCKING, true));
        runs.push(active);
    }
    net.drive(runs)
}

#[test]
fn who_has_called_something_else_is_named() {
    let buf = Buf::IN_PLACE;
    let root = of(RECV, &int(), Base::Recv, 2);
    let bcast = |b: &mut Builder| node::bcast(b, 0, root);
    let failed = differ([(Call::Bcast { buf, root: 0 }, &bcast), (Call::Barrier, &|b| node::barrier(b))]);
    assert!(failed[0].is_none(), "the root of a broadcast waits for nobody: {failed:?}");
    let text = failed[1].as_ref().map(|e| e.text.to_string()).unwrap_or_default();
    let wanted =
        "rank 0 has called MPI_Bcast of 8 bytes from or to root 0 where this process has called MPI_Barrier";
    assert!(text.starts_with(wanted), "{text}");
    let longer = of(RECV, &int(), Base::Recv, 3);
    let bcast3 = |b: &mut Builder| node::bcast(b, 0, longer);
    let failed = differ([(Call::Bcast { buf, root: 0 }, &bcast), (Call::Bcast { buf, root: 0 }, &bcast3)]);
    assert!(
        failed[1].as_ref().is_some_and(|e| e.text.contains("of 8 bytes") && e.text.contains("of 12 bytes"))
    );
}
