//! Windows over messages: ranks that share no memory.

use netmod_mpi::consts::{LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOSUCCEED, PROC_NULL};
use netmod_mpi::handle::{Info, Keyval, Op, Win};
use netmod_mpi::{AttrValue, Class, Mpi};

use crate::job::{INT, WORLD, ints, meet, run};

const SUM: Op = Op(0x5800_0003);
const NO_OP: Op = Op(0x5800_000e);

fn bytes(data: &mut [i32]) -> netmod_mpi::Buf {
    // SAFETY: tests keep their arrays until the windows on them are freed.
    unsafe {
        netmod_mpi::Buf::new(
            data.as_mut_ptr().cast(),
            size_of_val(data) as i64,
            netmod_mpi::handle::Datatype(0x4c00_010d),
        )
    }
}

fn window(mpi: &Mpi, data: &mut [i32]) -> Win {
    mpi.win_create(bytes(data), 4, Info::NULL, WORLD).expect("a window")
}

#[test]
fn a_fence_ends_what_came_before_it() {
    run(3, |mpi, me| {
        let mut data = [me; 4];
        let mut win = window(mpi, &mut data);
        let next = (me + 1) % 3;
        mpi.win_fence(0, win).expect("fence");
        let (mut out, mut read) = ([100 + me, 200 + me], [-1; 1]);
        mpi.put(ints(&mut out), next, 1, 2, INT, win).expect("put");
        mpi.get(ints(&mut read), next, 0, 1, INT, win).expect("get");
        let mut one = [10];
        mpi.accumulate(ints(&mut one), 0, 3, 1, INT, SUM, win).expect("accumulate");
        mpi.win_fence(MODE_NOSUCCEED, win).expect("fence");
        let before = (me + 2) % 3;
        let summed = if me == 0 { 30 } else { me };
        assert_eq!((data, read), ([me, 100 + before, 200 + before, summed], [next]));
        assert_eq!(
            mpi.put(ints(&mut out), next, 1, 2, INT, win).expect_err("no epoch").class,
            Class::RMA_SYNC
        );
        mpi.win_free(&mut win).expect("free");
        assert_eq!(win, Win::NULL);
    });
}

#[test]
fn locks_exclude_others_and_flushes_end_operations() {
    run(4, |mpi, me| {
        let mut data = [0; 2];
        let mut win = window(mpi, &mut data);
        meet(mpi, WORLD);
        for _ in 0..20 {
            mpi.win_lock(LOCK_EXCLUSIVE, 0, 0, win).expect("lock");
            let mut own = [0; 2];
            mpi.get(ints(&mut own), 0, 0, 2, INT, win).expect("get");
            mpi.win_flush(0, win).expect("flush");
            assert_eq!(own[0], own[1], "nobody else is between both");
            for at in 0..2 {
                mpi.put(ints(&mut [own[0] + 1]), 0, at, 1, INT, win).expect("put");
                mpi.win_flush(0, win).expect("flush");
            }
            mpi.win_unlock(0, win).expect("unlock");
        }
        mpi.win_lock_all(0, win).expect("lock all");
        let mut fetched = [0];
        mpi.fetch_and_op([ints(&mut [0]), ints(&mut fetched)], 0, 0, NO_OP, win).expect("fetch");
        mpi.win_flush_local_all(win).expect("flush");
        assert!(fetched[0] % 20 == 0 || fetched[0] < 80);
        mpi.win_unlock_all(win).expect("unlock all");
        meet(mpi, WORLD);
        assert!(me > 0 || data == [80, 80]);
        mpi.win_free(&mut win).expect("free");
    });
}

#[test]
fn a_group_accesses_what_another_one_exposes() {
    run(3, |mpi, me| {
        let mut data = vec![-1; 40_000];
        let mut win = window(mpi, &mut data);
        let mut world = mpi.comm_group(WORLD).expect("group");
        let mut others = mpi.group_excl(world, &[0]).expect("group");
        let mut first = mpi.group_incl(world, &[0]).expect("group");
        for round in 0..3 {
            if me == 0 {
                mpi.win_start(others, 0, win).expect("start");
                // One that does not fit into its request.
                let mut out: Vec<i32> = (0..30_000).map(|i| i + round).collect();
                for rank in 1..3 {
                    mpi.put(ints(&mut out), rank, 5, 30_000, INT, win).expect("put");
                }
                mpi.win_complete(win).expect("complete");
            } else {
                mpi.win_post(first, 0, win).expect("post");
                if round == 1 {
                    while !mpi.win_test(win).expect("test") {}
                } else {
                    mpi.win_wait(win).expect("wait");
                }
                assert!((0..30_000).all(|i| data[i + 5] == i as i32 + round));
            }
        }
        assert_eq!(mpi.win_wait(win).expect_err("not exposed").class, Class::RMA_SYNC);
        assert_eq!(mpi.win_complete(win).expect_err("not started").class, Class::RMA_SYNC);
        for group in [&mut world, &mut others, &mut first] {
            mpi.group_free(group).expect("free");
        }
        mpi.win_free(&mut win).expect("free");
    });
}

#[test]
fn compare_and_swap_counts_with_all() {
    run(3, |mpi, _| {
        let mut data = [0];
        let mut win = window(mpi, &mut data);
        mpi.win_lock_all(0, win).expect("lock all");
        for _ in 0..10 {
            let mut seen = 0;
            loop {
                let (mut new, mut expected, mut was) = ([seen + 1], [seen], [-1]);
                mpi.compare_and_swap([ints(&mut new), ints(&mut expected), ints(&mut was)], 1, 0, win)
                    .expect("swap");
                mpi.win_flush(1, win).expect("flush");
                if was[0] == seen {
                    break;
                }
                seen = was[0];
            }
        }
        mpi.win_unlock_all(win).expect("unlock all");
        mpi.barrier(WORLD).expect("barrier");
        assert!(mpi.comm_rank(WORLD) != Ok(1) || data == [30]);
        mpi.win_free(&mut win).expect("free");
    });
}

#[test]
fn errors_are_told() {
    run(2, |mpi, me| {
        let mut data = [0; 4];
        let mut win = window(mpi, &mut data);
        let class = |r: netmod_mpi::Result<()>| r.map_err(|e| e.class);
        let put = |rank, disp| {
            let mut one = [1];
            class(mpi.put(ints(&mut one), rank, disp, 1, INT, win))
        };
        assert_eq!(put(2, 0), Err(Class::RANK));
        assert_eq!(put(PROC_NULL, 0), Ok(()));
        assert_eq!(class(mpi.win_lock(7, 0, 0, win)), Err(Class::LOCKTYPE));
        assert_eq!(class(mpi.win_lock(LOCK_SHARED, 0, 1, win)), Err(Class::ASSERT));
        assert_eq!(class(mpi.win_unlock(0, win)), Err(Class::RMA_SYNC));
        assert_eq!(class(mpi.win_flush(0, win)), Err(Class::RMA_SYNC));
        mpi.win_lock(LOCK_SHARED, 1 - me, 0, win).expect("lock");
        assert_eq!(class(mpi.win_lock(LOCK_SHARED, 1 - me, 0, win)), Err(Class::RMA_SYNC));
        assert_eq!(put(1 - me, 4), Err(Class::RMA_RANGE));
        assert_eq!(put(1 - me, -1), Err(Class::DISP));
        assert_eq!(put(me, 0), Err(Class::RMA_SYNC), "the other one is locked");
        assert_eq!(class(mpi.win_free(&mut { win })), Err(Class::RMA_SYNC));
        assert_eq!(class(mpi.win_attach(win, bytes(&mut [0; 2]))), Err(Class::RMA_FLAVOR));
        mpi.win_unlock(1 - me, win).expect("unlock");
        assert_eq!(
            mpi.win_get_attr(win, Keyval::WIN_BASE),
            Ok(Some(AttrValue::Pointer(data.as_ptr().addr())))
        );
        mpi.win_free(&mut win).expect("free");
        assert_eq!(class(mpi.win_fence(0, win)), Err(Class::WIN));
        let negative = mpi.win_allocate(-i64::from(me), 1, Info::NULL, WORLD).map(|_| ());
        assert_eq!(class(negative), Err(Class::SIZE), "at the other one, too");
        let shared = mpi.win_allocate_shared(8, 1, Info::NULL, WORLD).map(|_| ());
        assert_eq!(class(shared), Err(Class::RMA_SHARED));
    });
}

#[test]
fn memory_is_attached_and_detached() {
    run(2, |mpi, me| {
        let mut win = mpi.win_create_dynamic(Info::NULL, WORLD).expect("a window");
        let mut data = [0; 8];
        mpi.win_attach(win, bytes(&mut data)).expect("attach");
        assert_eq!(mpi.win_attach(win, bytes(&mut data[2..4])).expect_err("twice").class, Class::RMA_ATTACH);
        let (mut mine, mut theirs) = ([data.as_ptr().addr() as i64], [0i64]);
        let buf = |at: &mut [i64]| {
            // SAFETY: the arrays live until the operations on them are over.
            unsafe { netmod_mpi::Buf::new(at.as_mut_ptr().cast(), 2, INT) }
        };
        mpi.sendrecv(buf(&mut mine), 1 - me, 0, buf(&mut theirs), 1 - me, 0, WORLD).expect("addresses");
        mpi.win_lock(LOCK_EXCLUSIVE, 1 - me, 0, win).expect("lock");
        mpi.put(ints(&mut [7, 8]), 1 - me, theirs[0] + 8, 2, INT, win).expect("put");
        mpi.win_flush(1 - me, win).expect("flush");
        mpi.put(ints(&mut [9, 9]), 1 - me, theirs[0] + 28, 2, INT, win).expect("put beyond the end");
        assert_eq!(mpi.win_flush(1 - me, win).expect_err("beyond").class, Class::RMA_RANGE);
        mpi.put(ints(&mut [9]), 1 - me, 64, 1, INT, win).expect("put to nothing");
        assert_eq!(mpi.win_unlock(1 - me, win).expect_err("nothing is attached").class, Class::RMA_RANGE);
        mpi.barrier(WORLD).expect("barrier");
        assert_eq!(data, [0, 0, 7, 8, 0, 0, 0, 0]);
        let base = data.as_ptr().addr();
        mpi.win_detach(win, base).expect("detach");
        assert_eq!(mpi.win_detach(win, base).expect_err("again").class, Class::RMA_ATTACH);
        mpi.win_free(&mut win).expect("free");
    });
}
