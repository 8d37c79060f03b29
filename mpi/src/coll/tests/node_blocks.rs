//! Blocks of different lengths in shared memory, of which long ones go in pieces, or by messages:
//! each operation against the definition, and what becomes of errors.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::network::Network;
use super::{Process, RECV, SEND, elem, gappy, int, named, packed, pair_of_ints, roots};
use crate::coll::node_memory::LONG;
use crate::coll::{Active, Base, Builder, Data, Entry, Lane, Memory, Reducer, TypeId, node_blocks};
use crate::datatype::TypeDesc;
use crate::error::Class;

const PROCESSES: [usize; 4] = [2, 3, 5, 20];
/// Elements of blocks: beside the flag, none, beside an entry, longer than that, and more pieces
/// than there are slots.
const COUNTS: [usize; 6] = [1, 0, 4, 100, 5000, 70_001];

/// Elements that process `i` gives to `j`: none in pieces of many processes.
fn count(n: usize, i: usize, j: usize) -> usize {
    COUNTS[(5 + 11 * i + 7 * j) % if n > 5 { COUNTS.len() - 1 } else { COUNTS.len() }]
}

/// The blocks of one buffer: the elements of each.
struct Blocks {
    counts: Vec<usize>,
    all: Data,
}

impl Blocks {
    fn new(base: Base, ty: TypeId, desc: &Arc<TypeDesc>, counts: Vec<usize>) -> Blocks {
        let all = Data::new(base, counts.iter().sum(), elem(ty, desc));
        Blocks { counts, all }
    }

    fn list(&self) -> Vec<Data> {
        let block = |r: usize| self.all.part(self.counts[..r].iter().sum(), self.counts[r]);
        (0..self.counts.len()).map(block).collect()
    }
}

/// Runs the operation that `build` makes, with send and receive buffers of the given bytes.
fn run(
    what: &str,
    (from, into): (&Arc<TypeDesc>, &Arc<TypeDesc>),
    n: usize,
    process: impl Fn(&mut Builder) -> (Vec<u8>, Vec<u8>, Vec<u8>),
) {
    let all = (0..n).map(|me| {
        let mut b = Builder::new(me, n);
        let (send, recv, want) = process(&mut b);
        Process { schedule: b.finish(), send, recv, want }
    });
    let types = vec![named(0x4c00_010d), Arc::clone(from), Arc::clone(into)];
    Network::new(what, n).in_memory(2).run(&types, &Reducer::None, all.collect());
}

fn types() -> [(Arc<TypeDesc>, Arc<TypeDesc>); 3] {
    [(pair_of_ints(), pair_of_ints()), (gappy(), pair_of_ints()), (pair_of_ints(), gappy())]
}

#[test]
fn blocks_of_any_length_arrive() {
    for (n, (from, into)) in PROCESSES.iter().flat_map(|n| types().map(|pair| (*n, pair))) {
        let pair = (&from, &into);
        let data = |i: usize, j: usize| packed(100 * i + j, count(n, i, j), from.size());
        let blocks = |f: &dyn Fn(usize) -> Vec<u8>| (0..n).flat_map(f).collect::<Vec<u8>>();
        let gathered = Blocks::new(Base::Recv, RECV, &into, (0..n).map(|r| count(n, r, 0)).collect());
        let gathered = gathered.list();
        let own = |me: usize| Data::new(Base::Send, count(n, me, 0), elem(SEND, &from));
        let collected = blocks(&|r| data(r, 0));
        run(&format!("allgatherv of {n}"), pair, n, |b| {
            node_blocks::allgather(b, Some(own(b.me)), &gathered);
            (data(b.me, 0), vec![0; collected.len()], collected.clone())
        });
        for root in roots(n) {
            run(&format!("gatherv at {root} of {n}"), pair, n, |b| {
                node_blocks::gather(b, root, Some(own(b.me)), if b.me == root { &gathered } else { &[] });
                let old = vec![0; collected.len()];
                (data(b.me, 0), old.clone(), if b.me == root { collected.clone() } else { old })
            });
            run(&format!("scatterv of {root} of {n}"), pair, n, |b| {
                let dealt = Blocks::new(Base::Send, SEND, &from, (0..n).map(|r| count(n, 0, r)).collect());
                let dealt = if b.me == root { dealt.list() } else { Vec::new() };
                let mine = Data::new(Base::Recv, count(n, 0, b.me), elem(RECV, &into));
                node_blocks::scatter(b, root, &dealt, Some(mine));
                (blocks(&|r| data(0, r)), vec![0; mine.bytes()], data(0, b.me))
            });
        }
        run(&format!("alltoallv of {n}"), pair, n, |b| {
            let me = b.me;
            let sends = Blocks::new(Base::Send, SEND, &from, (0..n).map(|r| count(n, me, r)).collect());
            let recvs = Blocks::new(Base::Recv, RECV, &into, (0..n).map(|r| count(n, r, me)).collect());
            node_blocks::alltoall(b, Some(&sends.list()), &recvs.list());
            let want = blocks(&|r| data(r, me));
            (blocks(&|r| data(me, r)), vec![0; want.len()], want)
        });
    }
}

#[test]
fn blocks_are_replaced_in_place() {
    for (n, ty) in PROCESSES.iter().flat_map(|n| [pair_of_ints(), gappy()].map(|ty| (*n, ty))) {
        // Both give each other blocks of one length.
        let both = |i: usize, j: usize| count(n, i.min(j), i.max(j));
        let data = |i: usize, j: usize| packed(100 * i + j, both(i, j), ty.size());
        run(&format!("alltoallv of {n} in place"), (&ty, &ty), n, |b| {
            let me = b.me;
            let recvs = Blocks::new(Base::Recv, RECV, &ty, (0..n).map(|r| both(r, me)).collect());
            node_blocks::alltoall(b, None, &recvs.list());
            let of = |f: &dyn Fn(usize) -> Vec<u8>| (0..n).flat_map(f).collect::<Vec<u8>>();
            (vec![], of(&|r| data(me, r)), of(&|r| if r == me { data(me, me) } else { data(r, me) }))
        });
    }
}

#[test]
fn an_entry_has_room_for_what_it_holds() {
    for of in [1, 2, 3, 15, 16, 255] {
        let entry = |index| Entry { index, of };
        let most = (0..40_000).rev().find(|bytes| entry(0).holds(*bytes)).unwrap();
        assert!(most >= 64, "{of} receivers: {most} bytes");
        let mut end = 0;
        for index in 0..of {
            let (short, range) = entry(index).place(most);
            assert!(!short && range.start >= end && range.len() >= most + node_blocks::HEAD);
            end = range.end;
        }
        assert!(end <= LONG);
    }
    assert_eq!(Entry { index: 0, of: 1 }.place(40), (true, 0..48));
    assert!(!Entry { index: 0, of: 1 }.place(41).0);
}

/// Runs a gather at process 0, to which process 1 gives `given` bytes where it expects `wanted`.
/// Returns the classes of the errors.
fn gathered(given: usize, wanted: usize) -> Vec<Option<Class>> {
    let net = Network::new("blocks that differ", 3).in_memory(1).of_mismatched();
    let memories = net.memories();
    let byte = elem(TypeId(0), &named(0x4c00_010d));
    let mut rooms = [wanted, given, 0].map(|len| vec![7u8; len]);
    let runs = rooms.iter_mut().enumerate().map(|(me, room)| {
        let mut b = Builder::new(me, 3);
        let block = |r: usize| Data::new(Base::Recv, if r == 1 { wanted } else { 0 }, byte);
        match me {
            0 => node_blocks::gather(&mut b, 0, None, &[block(0), block(1), block(2)]),
            _ => {
                let mine = Data::new(Base::Recv, if me == 1 { given } else { 0 }, byte);
                node_blocks::gather(&mut b, 0, Some(mine), &[]);
            }
        }
        let schedule = b.finish();
        let (at, types) = (room.as_mut_ptr(), vec![named(0x4c00_010d), int(), int()]);
        // SAFETY: the buffers are as long as the blocks, and live until the runs are over.
        let memory = unsafe { Memory::new(at, at, types, &schedule.rooms) }.unwrap();
        let mut active = Active::new(schedule, memory, Reducer::None);
        active.use_node(&memories[me], memories[me].begin(Lane::BLOCKING, true));
        active
    });
    let runs = runs.collect();
    net.drive(runs).into_iter().map(|e| e.map(|e| e.class)).collect()
}

#[test]
fn a_block_of_another_length_is_an_error_of_its_receiver() {
    assert_eq!(gathered(8, 8), [None, None, None]);
    assert_eq!(gathered(100_000, 100_000), [None, None, None]);
    let failed = [Some(Class::TRUNCATE), None, None];
    assert_eq!(gathered(8, 16), failed);
    assert_eq!(gathered(8, 2000), failed, "an entry elsewhere");
    for (given, wanted) in [(100_000, 90_000), (700_000, 90_000), (90_000, 700_000)] {
        assert_eq!(gathered(given, wanted), failed, "{given} bytes in pieces, not {wanted}");
    }
    for (given, wanted) in [(8, 700_000), (700_000, 8), (2000, 90_000)] {
        assert_eq!(
            gathered(given, wanted),
            failed,
            "{given} bytes, not {wanted}, of which one follow in pieces"
        );
    }
}
