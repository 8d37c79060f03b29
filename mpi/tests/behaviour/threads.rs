//! Threads of a process that call at the same time.

use std::time::{Duration, Instant};

use netmod_mpi::Mpi;
use netmod_mpi::consts::{THREAD_MULTIPLE, THREAD_SERIALIZED};
use netmod_mpi::handle::Comm;

use crate::job::{WORLD, ints, meet, recv, run, run_at, send};

const THREADS: i32 = 4;

/// Runs a body in several threads of a rank.
fn threads(body: impl Fn(i32) + Sync) {
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let body = &body;
            s.spawn(move || body(t));
        }
    });
}

/// Sends around a ring.
fn round(mpi: &Mpi, comm: Comm, value: i32) {
    let (me, n) = (mpi.comm_rank(comm).expect("rank"), mpi.comm_size(comm).expect("size"));
    send(mpi, &[value], (me + 1) % n, value, comm).expect("send");
    assert_eq!(recv(mpi, 1, (me + n - 1) % n, value, comm).expect("recv").0, [value]);
}

#[test]
fn threads_send_and_receive_at_once() {
    run_at(THREAD_MULTIPLE, 2, |mpi, _| {
        threads(|t| (0..200).for_each(|i| round(mpi, WORLD, 1000 * t + i)));
        assert_eq!(mpi.query_thread(), Ok(THREAD_MULTIPLE));
        meet(mpi, WORLD);
    });
}

/// A thread that has called alone so far waits for what the first call of another one sends: by a
/// receive, by sending and receiving at once, and by a request.
#[test]
fn the_first_call_of_another_thread_ends_a_wait() {
    for way in 0..3 {
        run_at(THREAD_MULTIPLE, 2, move |mpi, me| {
            let mut room = [0];
            std::thread::scope(|s| {
                s.spawn(|| {
                    // The other thread has begun to wait, and sleeps perhaps.
                    std::thread::sleep(Duration::from_millis(20 * me as u64));
                    send(mpi, &[7], me, 1, WORLD).expect("send");
                });
                let buf = ints(&mut room);
                let status = match way {
                    0 => mpi.recv(buf, me, 1, WORLD).expect("recv"),
                    1 => {
                        let mut data = [8];
                        mpi.sendrecv(ints(&mut data), me, 2, buf, me, 1, WORLD).expect("sendrecv")
                    }
                    _ => {
                        let mut request = mpi.irecv(buf, me, 1, WORLD).expect("irecv");
                        mpi.wait(&mut request).expect("wait")
                    }
                };
                assert_eq!((status.source, status.tag), (me, 1));
            });
            assert_eq!(room, [7]);
            if way == 1 {
                assert_eq!(recv(mpi, 1, me, 2, WORLD).expect("recv").0, [8]);
            }
            meet(mpi, WORLD);
        });
    }
}

/// Threads that wait take turns in sleeping: none of them polls for long.
#[test]
fn threads_that_wait_for_long_use_no_core() {
    /// Returns how long this thread has been running on a core, in nanoseconds.
    fn used() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the thread's times");
        text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
    }
    const PAUSE: Duration = Duration::from_millis(800);
    run_at(THREAD_MULTIPLE, 2, |mpi, me| {
        meet(mpi, WORLD);
        if me == 0 {
            std::thread::sleep(PAUSE);
            (0..THREADS).for_each(|t| send(mpi, &[t], 1, t, WORLD).expect("send"));
        } else {
            threads(|t| {
                let (begun, before) = (Instant::now(), used());
                assert_eq!(recv(mpi, 1, 0, t, WORLD).expect("recv").0, [t]);
                // The wait is longer than the pause of the other rank if that gets no core then.
                let (spent, waited) = (Duration::from_nanos(used() - before), begun.elapsed());
                assert!(spent < waited / 4, "{spent:?} of {waited:?} on a core");
            });
        }
        meet(mpi, WORLD);
    });
}

/// Each thread makes communicators of its own, in an order that differs between ranks.
#[test]
fn threads_agree_on_contexts_at_once() {
    run_at(THREAD_MULTIPLE, 3, |mpi, me| {
        let parents: Vec<Comm> = (0..THREADS).map(|_| mpi.comm_dup(WORLD).expect("dup")).collect();
        threads(|t| {
            for i in 0..20 {
                let mut comm = match (t + i) % 3 {
                    0 => mpi.comm_dup(parents[t as usize]).expect("dup"),
                    1 => mpi.comm_split(parents[t as usize], 0, -me).expect("split"),
                    _ => mpi.comm_split(parents[t as usize], me % 2, me).expect("split"),
                };
                round(mpi, comm, i);
                mpi.comm_free(&mut comm).expect("free");
            }
        });
        for parent in parents {
            mpi.comm_free(&mut { parent }).expect("free");
        }
    });
}

/// One rank calls two duplications at once, by two threads; the other calls them one after the
/// other, in the order in which the first rank's would wait for each other if one held all ids.
#[test]
fn an_agreement_that_waits_for_a_late_call_does_not_stop_others() {
    run_at(THREAD_MULTIPLE, 2, |mpi, me| {
        let low = mpi.comm_dup(WORLD).expect("dup");
        let high = mpi.comm_dup(WORLD).expect("dup");
        for _ in 0..10 {
            if me == 0 {
                std::thread::scope(|s| {
                    for comm in [low, high] {
                        s.spawn(move || {
                            let mut new = mpi.comm_dup(comm).expect("dup");
                            round(mpi, new, 1);
                            mpi.comm_free(&mut new).expect("free");
                        });
                    }
                });
            } else {
                for comm in [high, low] {
                    let mut new = mpi.comm_dup(comm).expect("dup");
                    round(mpi, new, 1);
                    mpi.comm_free(&mut new).expect("free");
                }
            }
        }
        for comm in [low, high] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

/// Parts of a job make communicators by tags, from several threads at once.
#[test]
fn threads_make_groups_by_tags() {
    run_at(THREAD_MULTIPLE, 3, |mpi, _| {
        let world = mpi.comm_group(WORLD).expect("group");
        threads(|t| {
            for i in 0..10 {
                let mut comm = mpi.comm_create_group(WORLD, world, t).expect("create");
                round(mpi, comm, 100 * t + i);
                mpi.comm_free(&mut comm).expect("free");
            }
        });
        mpi.group_free(&mut { world }).expect("free");
        meet(mpi, WORLD);
    });
}

#[test]
fn the_main_thread_is_known() {
    run(1, |mpi, _| {
        assert_eq!((mpi.is_thread_main(), mpi.query_thread()), (Ok(true), Ok(THREAD_SERIALIZED)));
        let other = std::thread::scope(|s| s.spawn(|| mpi.is_thread_main()).join().expect("a thread"));
        assert_eq!(other, Ok(false));
    });
}
