//! Operations by leaders of nodes that move data.

use std::sync::Arc;

use super::{NODES, Process, RECV, SEND, elem, gappy, int, on_nodes, packed, pair_of_ints, run};
use crate::coll::shape::Shape;
use crate::coll::{Base, Builder, Data, Reducer, Step};
use crate::datatype::TypeDesc;

/// A case: processes, the first ranks of their nodes, elements, types of both buffers.
type Case = (usize, &'static [u32], usize, Arc<TypeDesc>, Arc<TypeDesc>);

fn each(f: impl Fn(&Case)) {
    for (from, into) in [(int(), int()), (pair_of_ints(), gappy())] {
        for ((n, starts), count) in NODES.into_iter().flat_map(|nodes| [0, 1, 3, 500].map(|c| (nodes, c))) {
            f(&(n, starts, count, Arc::clone(&from), Arc::clone(&into)));
        }
    }
}

fn blocks(n: usize, count: usize, size: usize) -> Vec<u8> {
    (0..n).flat_map(|r| packed(r, count, size)).collect()
}

#[test]
fn broadcasts() {
    each(|(n, starts, count, _, ty)| {
        for root in 0..*n {
            let process = |me| {
                let mut b = Builder::new(me, *n);
                let data = Data::new(Base::Recv, *count, elem(RECV, ty));
                Shape::Bcast { root, data }.build(&mut b, &on_nodes(*n, starts));
                let (recv, want) = (packed(me, *count, ty.size()), packed(root, *count, ty.size()));
                Process { schedule: b.finish(), send: vec![], recv, want }
            };
            let what = format!("bcast of {count} from {root} of {n}, nodes {starts:?}");
            run(&what, ty, ty, &Reducer::None, (0..*n).map(process).collect());
        }
    });
}

#[test]
fn gathers_and_scatters() {
    each(|(n, starts, count, s, r)| {
        let (n, count, size) = (*n, *count, s.size());
        let (setting, all) = (on_nodes(n, starts), blocks(n, count, size));
        for (root, in_place) in (0..n).flat_map(|root| [(root, false), (root, true)]) {
            let own = |me| packed(me, count, size);
            let part = |me, base, ty, desc: &TypeDesc, wants: bool| {
                (wants && (me != root || !in_place)).then(|| Data::new(base, count, elem(ty, desc)))
            };
            let whole =
                |me, base, ty, desc: &TypeDesc| (me == root).then(|| Data::new(base, count, elem(ty, desc)));
            let what = |op| format!("{op} of {count}, {root} of {n}, nodes {starts:?}, {in_place}");
            let process = |me| {
                let mut b = Builder::new(me, n);
                let (mine, into) = (part(me, Base::Send, SEND, s, true), whole(me, Base::Recv, RECV, r));
                Shape::Gather { root, mine, all: into }.build(&mut b, &setting);
                let mut recv = if me == root { blocks(n, count, size) } else { vec![] };
                for (rank, block) in recv.chunks_mut((count * size).max(1)).enumerate() {
                    if rank != root || !in_place {
                        block.fill(7);
                    }
                }
                let want = if me == root { all.clone() } else { vec![] };
                Process { schedule: b.finish(), send: own(me), recv, want }
            };
            run(&what("gather"), s, r, &Reducer::None, (0..n).map(process).collect());
            let process = |me| {
                let mut b = Builder::new(me, n);
                let (mine, from) = (part(me, Base::Recv, RECV, r, true), whole(me, Base::Send, SEND, s));
                Shape::Scatter { root, mine, all: from }.build(&mut b, &setting);
                let recv = packed(55, count, size);
                let want = if mine.is_some() { own(me) } else { recv.clone() };
                let send = if me == root { all.clone() } else { vec![] };
                Process { schedule: b.finish(), send, recv, want }
            };
            run(&what("scatter"), s, r, &Reducer::None, (0..n).map(process).collect());
        }
    });
}

#[test]
fn allgathers() {
    each(|(n, starts, count, s, r)| {
        let (n, count, size) = (*n, *count, s.size());
        for in_place in [false, true] {
            let process = |me| {
                let mut b = Builder::new(me, n);
                let mine = (!in_place).then(|| Data::new(Base::Send, count, elem(SEND, s)));
                let all = Data::new(Base::Recv, count, elem(RECV, r));
                Shape::Allgather { mine, all }.build(&mut b, &on_nodes(n, starts));
                let mut recv = vec![9; n * count * size];
                recv[me * count * size..(me + 1) * count * size].copy_from_slice(&packed(me, count, size));
                let send = packed(me, count, size);
                Process { schedule: b.finish(), send, recv, want: blocks(n, count, size) }
            };
            let what = format!("allgather of {count}, {n}, nodes {starts:?}, {in_place}");
            run(&what, s, r, &Reducer::None, (0..n).map(process).collect());
        }
    });
}

/// Between nodes only their leaders send, and each to the other nodes' leaders.
#[test]
fn barriers_leave_a_node_by_its_leader() {
    for (n, starts) in NODES {
        let build = |me| {
            let mut b = Builder::new(me, n);
            Shape::Barrier.build(&mut b, &on_nodes(n, starts));
            b.finish()
        };
        let node = |rank: usize| starts.partition_point(|s| *s as usize <= rank);
        for me in 0..n {
            for step in build(me).steps {
                if let Step::Send { to, .. } = step
                    && node(me) != node(to as usize)
                {
                    assert!(starts.contains(&(me as u32)) && starts.contains(&to), "{me} sends to {to}");
                }
            }
        }
        let process = |me| Process { schedule: build(me), send: vec![], recv: vec![], want: vec![] };
        let what = format!("barrier of {n}, nodes {starts:?}");
        run(&what, &int(), &int(), &Reducer::None, (0..n).map(process).collect());
    }
}
