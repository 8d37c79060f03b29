//! Collective operations of real ranks: blocking, nonblocking, persistent.

use netmod_mpi::consts::UNDEFINED;
use netmod_mpi::datatype::Blocks;
use netmod_mpi::handle::{Comm, Info, Op, Request};
use netmod_mpi::op::Builtin;
use netmod_mpi::{Buf, Class};

use crate::job::{INT, WORLD, ints, run};

fn sum() -> Op {
    Builtin::Sum.handle()
}

fn blocks(v: &mut [i32], counts: &[i64], displs: &[i64]) -> Blocks {
    // SAFETY: the tests give blocks within the list, which lives until the operation is over.
    unsafe { Blocks::new(v.as_mut_ptr().cast(), counts, displs, INT) }
}

#[test]
fn all_operations_give_what_they_are_defined_to() {
    for n in [1, 2, 3, 5] {
        run(n, move |mpi, me| {
            let n = n as i32;
            mpi.barrier(WORLD).expect("barrier");
            for root in 0..n {
                let mut data = if me == root { [7, 8, 9 + root] } else { [0; 3] };
                mpi.bcast(ints(&mut data), root, WORLD).expect("bcast");
                assert_eq!(data, [7, 8, 9 + root]);
                let (mut mine, mut all) = ([me, -me], vec![0; 2 * n as usize]);
                mpi.gather(ints(&mut mine), ints_of(&mut all, 2), root, WORLD).expect("gather");
                let every: Vec<i32> = (0..n).flat_map(|r| [r, -r]).collect();
                assert_eq!(all == every, me == root, "{all:?}");
                let (mut all, mut mine) = (every, [0; 2]);
                mpi.scatter(ints_of(&mut all, 2), ints(&mut mine), root, WORLD).expect("scatter");
                assert_eq!(mine, [me, -me]);
                let (mut mine, mut total) = ([me, 1], [0; 2]);
                mpi.reduce(ints(&mut mine), ints(&mut total), sum(), root, WORLD).expect("reduce");
                assert!(me != root || total == [n * (n - 1) / 2, n]);
            }
            let (mut mine, mut all) = ([me; 3], vec![0; 3 * n as usize]);
            mpi.allgather(ints(&mut mine), ints_of(&mut all, 3), WORLD).expect("allgather");
            assert!(all.iter().enumerate().all(|(i, v)| *v == i as i32 / 3));
            let mut out: Vec<i32> = (0..n).map(|to| 10 * me + to).collect();
            let mut got = vec![0; n as usize];
            mpi.alltoall(ints_of(&mut out, 1), ints_of(&mut got, 1), WORLD).expect("alltoall");
            assert_eq!(got, (0..n).map(|from| 10 * from + me).collect::<Vec<_>>());
            let mut long: Vec<i32> = (0..5000).map(|k| k + me).collect();
            let mut total = vec![0; 5000];
            mpi.allreduce(ints(&mut long), ints(&mut total), sum(), WORLD).expect("allreduce");
            assert!(total.iter().enumerate().all(|(k, v)| *v == n * k as i32 + n * (n - 1) / 2));
            let (mut mine, mut before, mut upto) = ([me + 1], [-5], [0]);
            mpi.scan(ints(&mut mine), ints(&mut upto), sum(), WORLD).expect("scan");
            mpi.exscan(ints(&mut mine), ints(&mut before), sum(), WORLD).expect("exscan");
            assert_eq!(upto, [(me + 1) * (me + 2) / 2]);
            assert_eq!(before, [if me == 0 { -5 } else { me * (me + 1) / 2 }]);
            let counts: Vec<i64> = (0..i64::from(n)).collect();
            let displs: Vec<i64> = counts.iter().map(|c| c * (c - 1) / 2).collect();
            let len = (n * (n - 1) / 2) as usize;
            let (mut mine, mut all) = (vec![me; me as usize], vec![-1; len.max(1)]);
            mpi.allgatherv(ints(&mut mine), blocks(&mut all, &counts, &displs), WORLD).expect("allgatherv");
            let want: Vec<i32> = (0..n).flat_map(|r| vec![r; r as usize]).collect();
            assert_eq!(all[..len], want);
        });
    }
}

/// A buffer of `count` integers for each process.
pub fn ints_of(v: &mut [i32], count: i64) -> Buf {
    // SAFETY: the tests give lists that are long enough and live until the operation is over.
    unsafe { Buf::new(v.as_mut_ptr().cast(), count, INT) }
}

#[test]
fn operations_go_on_beside_each_other_and_end_in_any_order() {
    run(3, |mpi, me| {
        let mut mine: Vec<[i32; 2]> = (0..8).map(|k| [me, k]).collect();
        let mut totals = vec![[0; 2]; 8];
        let mut requests: Vec<Request> = mine
            .iter_mut()
            .zip(&mut totals)
            .map(|(m, t)| mpi.iallreduce(ints(m), ints(t), sum(), WORLD).expect("iallreduce"))
            .collect();
        requests.push(mpi.ibarrier(WORLD).expect("ibarrier"));
        // A blocking operation between.
        let mut one = [if me == 1 { 5 } else { 0 }];
        mpi.bcast(ints(&mut one), 1, WORLD).expect("bcast");
        assert_eq!(one, [5]);
        requests.reverse();
        mpi.waitall(&mut requests, |_, _, e| assert!(e.is_none())).expect("waitall");
        assert!(requests.iter().all(|r| r.is_null()));
        assert!(totals.iter().enumerate().all(|(k, t)| *t == [3, 3 * k as i32]), "{totals:?}");
    });
}

#[test]
fn persistent_operations_are_started_again() {
    run(4, |mpi, me| {
        let (mut mine, mut total) = ([0; 600], [0; 600]);
        let mut request =
            mpi.allreduce_init(ints(&mut mine), ints(&mut total), sum(), WORLD, Info::NULL).expect("init");
        for round in 0..4 {
            mine.fill(round + me);
            mpi.start(&mut request).expect("start");
            mpi.wait(&mut request).expect("wait");
            assert_eq!(total, [4 * round + 6; 600]);
        }
        mpi.request_free(&mut request).expect("free");
    });
}

#[test]
fn persistent_operations_are_started_in_any_order() {
    const MADE: usize = 10;
    run(3, |mpi, me| {
        let mut mine = vec![[0; 40]; MADE];
        let mut results = vec![[0; 120]; MADE];
        let mut requests: Vec<Request> = Vec::new();
        for (i, (mine, result)) in mine.iter_mut().zip(&mut results).enumerate() {
            let root = (i % 3) as i32;
            let (mine, all) = (ints(mine), ints_of(result, 40));
            let made = match i % 4 {
                0 => mpi.allreduce_init(mine, all, sum(), WORLD, Info::NULL),
                1 => mpi.gather_init(mine, all, root, WORLD, Info::NULL),
                2 => mpi.bcast_init(mine, root, WORLD, Info::NULL),
                _ => mpi.allgather_init(mine, all, WORLD, Info::NULL),
            };
            requests.push(made.expect("init"));
        }
        for round in 0..20 {
            for (i, mine) in mine.iter_mut().enumerate() {
                mine.fill(100 * round + 10 * i as i32 + me);
            }
            for i in 0..MADE {
                let at = (i * 3 + round as usize * me as usize + me as usize) % MADE;
                mpi.start(&mut requests[at]).expect("start");
                if me == 1 && i % 4 == 0 {
                    // It ends only when the others have started it.
                    mpi.test(&mut requests[at]).expect("test");
                }
            }
            mpi.waitall(&mut requests, |_, _, e| assert!(e.is_none())).expect("waitall");
            for (i, (mine, result)) in mine.iter().zip(&results).enumerate() {
                let of = |rank: i32| 100 * round + 10 * i as i32 + rank;
                let root = (i % 3) as i32;
                let is_gathered = || result.iter().enumerate().all(|(k, v)| *v == of(k as i32 / 40));
                let is_right = match i % 4 {
                    0 => result[..40].iter().all(|v| *v == 3 * of(1)),
                    1 => me != root || is_gathered(),
                    2 => mine.iter().all(|v| *v == of(root)),
                    _ => is_gathered(),
                };
                assert!(is_right, "operation {i} in round {round} at rank {me}");
            }
        }
        requests.iter_mut().for_each(|request| mpi.request_free(request).expect("free"));
    });
}

#[test]
fn operations_stay_in_their_communicators() {
    run(5, |mpi, me| {
        let mut odd = mpi.comm_split(WORLD, me % 2, -me).expect("split");
        let mut total = [me];
        mpi.allreduce(Buf::IN_PLACE, ints(&mut total), sum(), odd).expect("allreduce");
        assert_eq!(total, [if me % 2 == 1 { 4 } else { 6 }]);
        let mut first = [me];
        mpi.bcast(ints(&mut first), 0, odd).expect("bcast");
        assert_eq!(first, [if me % 2 == 1 { 3 } else { 4 }]);
        mpi.comm_free(&mut odd).expect("free");
    });
}

#[test]
fn bad_arguments_are_told_before_anything_is_sent() {
    run(2, |mpi, me| {
        let (mut a, mut b) = ([1], [2]);
        let class = |r: netmod_mpi::Result<()>| r.expect_err("refused").class;
        assert_eq!(class(mpi.bcast(ints(&mut a), 2, WORLD)), Class::ROOT);
        assert_eq!(class(mpi.allreduce(ints(&mut a), ints(&mut b), Op::NULL, WORLD)), Class::OP);
        assert_eq!(class(mpi.barrier(Comm::NULL)), Class::COMM);
        let same = ints(&mut a);
        assert_eq!(class(mpi.allreduce(same, same, sum(), WORLD)), Class::BUFFER);
        let (mut mine, mut total) = ([me], [0]);
        mpi.allreduce(ints(&mut mine), ints(&mut total), sum(), WORLD).expect("it goes on");
        assert_eq!((total, UNDEFINED), ([1], -32766));
    });
}

#[test]
fn operations_with_requests_do_not_match_blocking_ones() {
    run(3, |mpi, me| {
        let (mut mine, mut total) = ([me + 1], [0]);
        let start = |mine: &mut [i32], total: &mut [i32]| {
            mpi.iallreduce(ints(mine), ints(total), sum(), WORLD).expect("iallreduce")
        };
        // Programs exist that mix the order of both.
        let mut request = if me == 1 {
            let mut request = start(&mut mine, &mut total);
            assert!(mpi.test(&mut request).expect("test").is_none(), "the others have not begun");
            mpi.barrier(WORLD).expect("barrier");
            request
        } else {
            mpi.barrier(WORLD).expect("barrier");
            start(&mut mine, &mut total)
        };
        mpi.wait(&mut request).expect("wait");
        assert_eq!(total, [6]);
    });
}

#[test]
fn a_block_that_is_sent_and_written_is_an_error() {
    run(3, |mpi, me| {
        let mut data = [0; 6];
        let all = data.as_mut_ptr();
        // SAFETY: places of two integers each within the array, which lives until the end.
        let place = |rank: i32| unsafe { Buf::new(all.wrapping_add(2 * rank as usize).cast(), 2, INT) };
        let (counts, displs) = ([2; 3], [0, 2, 4]);
        // SAFETY: these blocks are the array.
        let blocks = || unsafe { Blocks::new(all.cast(), counts, displs, INT) };
        let class = |result: netmod_mpi::Result<()>| result.expect_err("the same memory").class;
        assert_eq!(class(mpi.allgather(place(me), place(0), WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.allgatherv(place(me), blocks(), WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.gather(place(me), place(0), me, WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.gatherv(place(me), blocks(), me, WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.scatter(place(0), place(me), me, WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.scatterv(blocks(), place(me), me, WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.alltoallv(blocks(), blocks(), WORLD)), Class::BUFFER);
        assert_eq!(class(mpi.exscan(place(0), place(0), sum(), WORLD)), Class::BUFFER);
        // One address may serve both if the blocks are apart.
        let mut both: Vec<i32> = (0..6).map(|i| if i < 3 { 10 * me + i } else { -1 }).collect();
        let at = both.as_mut_ptr();
        // SAFETY: these blocks are the first and the second half of the list.
        let half = |from: i64| unsafe { Blocks::new(at.cast(), [1; 3], [from, from + 1, from + 2], INT) };
        mpi.alltoallv(half(0), half(3), WORLD).expect("alltoallv");
        assert_eq!(both[3..], [me, 10 + me, 20 + me]);
    });
}
