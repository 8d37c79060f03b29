//! Waits and tests of several requests, and what they say of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod_mpi::consts::UNDEFINED;
use netmod_mpi::handle::Request;
use netmod_mpi::{Class, GreqFunctions, Mpi, MpiError, Result, Status};

use crate::job::{WORLD, ints, meet, run, send};

fn rooms(mpi: &Mpi, rooms: &mut [[i32; 2]]) -> Vec<Request> {
    let receive = |(tag, room): (usize, &mut [i32; 2])| mpi.irecv(ints(room), 0, tag as i32, WORLD);
    rooms.iter_mut().enumerate().map(receive).collect::<Result<_>>().expect("receives")
}

#[test]
fn each_request_of_waitall_has_its_own_error() {
    run(1, |mpi, _| {
        let mut memory = [[0; 2]; 4];
        let mut requests = rooms(mpi, &mut memory);
        requests[1] = {
            let mut unused = requests[1];
            mpi.cancel(&mut unused).expect("cancel");
            mpi.wait(&mut unused).expect("wait");
            unused
        };
        for (tag, len) in [(0, 1), (2, 5), (3, 2)] {
            send(mpi, &vec![tag; len], 0, tag, WORLD).expect("send");
        }
        let mut seen = Vec::new();
        let error = mpi
            .waitall(&mut requests, |i, status, error| {
                seen.push((i, status.count_bytes, error.map(|e| e.class)));
                if i == 2 {
                    assert_eq!((status.source, status.tag), (0, 2), "its message has come all the same");
                }
            })
            .expect_err("one does not fit");
        assert_eq!(error.class, Class::IN_STATUS);
        assert!(error.text.contains("request 2"), "{}", error.text);
        assert_eq!(seen, [(0, 4, None), (1, 0, None), (2, 8, Some(Class::TRUNCATE)), (3, 8, None)]);
        assert_eq!(requests, [Request::NULL; 4]);
        assert_eq!((memory[0][0], memory[2], memory[3]), (0, [2, 2], [3, 3]));
    });
}

#[test]
fn any_and_some_pass_null_requests_over() {
    run(2, |mpi, me| {
        if me == 1 {
            meet(mpi, WORLD);
            return;
        }
        let mut memory = [[0; 2]; 4];
        let mut requests = rooms(mpi, &mut memory);
        assert_eq!(mpi.testany(&mut requests), Ok(None));
        assert_eq!(mpi.testsome(&mut requests, |_, _, _| panic!("none is over")), Ok(0));
        assert_eq!(mpi.testall(&mut requests, |_, _, _| panic!("not all are over")), Ok(false));
        send(mpi, &[2], 0, 2, WORLD).expect("send");
        let (index, status) = mpi.waitany(&mut requests).expect("waitany");
        assert_eq!((index, status.expect("a message").tag, requests[2]), (2, 2, Request::NULL));
        for tag in [3, 0] {
            send(mpi, &[tag], 0, tag, WORLD).expect("send");
        }
        let mut seen = Vec::new();
        let mut count = 0;
        while count < 2 {
            count +=
                mpi.waitsome(&mut requests, |i, status, _| seen.push((i, status.tag))).expect("waitsome");
        }
        seen.sort_unstable();
        assert_eq!((count, seen), (2, vec![(0, 0), (3, 3)]));
        send(mpi, &[1; 3], 0, 1, WORLD).expect("send");
        let (index, error) = mpi.waitany(&mut requests).expect("one has failed");
        let error = error.expect_err("too long");
        assert_eq!((index, error.class, requests[1]), (1, Class::TRUNCATE, Request::NULL));
        assert_eq!(error.comm, Some(WORLD.0), "the communicator of the operation");
        assert_eq!(mpi.waitany(&mut requests), Ok((UNDEFINED, Ok(Status::EMPTY))));
        assert_eq!(mpi.testany(&mut requests), Ok(Some((UNDEFINED, Ok(Status::EMPTY)))));
        assert_eq!(mpi.waitsome(&mut requests, |_, _, _| {}), Ok(UNDEFINED));
        assert_eq!(mpi.testsome(&mut requests, |_, _, _| {}), Ok(UNDEFINED));
        assert_eq!(mpi.testall(&mut requests, |_, status, _| assert_eq!(status, Status::EMPTY)), Ok(true));
        meet(mpi, WORLD);
    });
}

#[test]
fn a_status_is_looked_at_without_using_the_request_up() {
    run(1, |mpi, _| {
        let mut room = [0];
        let mut request = mpi.irecv(ints(&mut room), 0, 1, WORLD).expect("irecv");
        assert!(mpi.request_get_status(request).expect("status").is_none());
        send(mpi, &[4], 0, 1, WORLD).expect("send");
        for _ in 0..2 {
            let seen = mpi.request_get_status(request).expect("status").expect("it is over");
            assert_eq!(seen.map(|status| (status.tag, status.count_bytes)), Ok((1, 4)));
        }
        assert_eq!(mpi.wait(&mut request).expect("wait").count_bytes, 4);
        assert_eq!(mpi.request_get_status(Request::NULL).expect("null"), Some(Ok(Status::EMPTY)));
    });
}

#[test]
fn a_test_finds_that_an_operation_has_failed() {
    run(1, |mpi, _| {
        let mut room = [0];
        let mut receive = mpi.recv_init(ints(&mut room), 0, 1, WORLD).expect("recv_init");
        for _ in 0..2 {
            mpi.start(&mut receive).expect("start");
            assert_eq!(mpi.test(&mut receive), Ok(None), "nothing was sent");
            send(mpi, &[1, 2], 0, 1, WORLD).expect("send");
            let seen = mpi.request_get_status(receive).expect("a request").expect("it is over");
            assert_eq!(seen.expect_err("it does not fit").class, Class::TRUNCATE);
            let failed = mpi.test(&mut receive).expect("a request").expect("it is over");
            let failed = failed.expect_err("it does not fit");
            assert_eq!((failed.class, Status::of_failure(&failed).tag), (Class::TRUNCATE, 1));
            assert_eq!(mpi.test(&mut receive), Ok(Some(Ok(Status::EMPTY))), "it is inactive");
        }
        mpi.request_free(&mut receive).expect("free");
        let stale = mpi.test(&mut { Request(0xac00_0fff) }).expect_err("no request");
        assert_eq!(stale.class, Class::REQUEST);
    });
}

#[test]
fn several_statuses_are_looked_at() {
    run(1, |mpi, _| {
        let mut memory = [[0; 2]; 3];
        let mut requests = rooms(mpi, &mut memory);
        assert_eq!(mpi.request_get_status_any(&requests).expect("none").0, UNDEFINED);
        assert_eq!(mpi.request_get_status_some(&requests, |_, _| {}), Ok(0));
        assert_eq!(mpi.request_get_status_all(&requests, |_, _| {}), Ok(false));
        send(mpi, &[1], 0, 1, WORLD).expect("send");
        for _ in 0..2 {
            let (index, done, status) = mpi.request_get_status_any(&requests).expect("one");
            assert_eq!((index, done, status.tag), (1, true, 1));
            let mut seen = Vec::new();
            let count = mpi.request_get_status_some(&requests, |i, status| seen.push((i, status.tag)));
            assert_eq!((count, seen), (Ok(1), vec![(1, 1)]));
        }
        for tag in [0, 2] {
            send(mpi, &[tag], 0, tag, WORLD).expect("send");
        }
        let mut seen = Vec::new();
        let all = mpi.request_get_status_all(&requests, |i, status| seen.push((i as i32, status.tag)));
        assert_eq!((all, seen), (Ok(true), vec![(0, 0), (1, 1), (2, 2)]));
        mpi.waitall(&mut requests, |_, _, error| assert!(error.is_none())).expect("waitall");
        assert_eq!(mpi.request_get_status_any(&requests), Ok((UNDEFINED, true, Status::EMPTY)));
        assert_eq!(mpi.request_get_status_some(&requests, |_, _| {}), Ok(UNDEFINED));
    });
}

#[test]
fn a_freed_request_ends_by_itself() {
    run(2, |mpi, me| {
        if me == 0 {
            let mut data = vec![7; 300_000];
            let mut request = mpi.isend(ints(&mut data), 1, 1, WORLD).expect("isend");
            mpi.request_free(&mut request).expect("free");
            assert!(request.is_null());
            // The data is received before it is gone.
            meet(mpi, WORLD);
        } else {
            let mut room = vec![0; 300_000];
            mpi.recv(ints(&mut room), 0, 1, WORLD).expect("recv");
            assert!(room.iter().all(|x| *x == 7));
            meet(mpi, WORLD);
        }
    });
}

/// An operation of the program, whose functions call MPI.
struct Own {
    mpi: *const Mpi,
    queried: AtomicU32,
    freed: AtomicU32,
    cancelled: AtomicU32,
}

// SAFETY: the process outlives the request.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

impl Own {
    fn call_mpi(&self) {
        // SAFETY: as above.
        let mpi = unsafe { &*self.mpi };
        assert_eq!(mpi.comm_size(WORLD), Ok(1));
    }
}

impl GreqFunctions for Own {
    fn query(&self) -> Result<Status> {
        self.call_mpi();
        self.queried.fetch_add(1, Ordering::Relaxed);
        Ok(Status { source: UNDEFINED, tag: 77, count_bytes: 5, ..Status::EMPTY })
    }

    fn free(&self) -> Result<()> {
        self.call_mpi();
        self.freed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        self.call_mpi();
        self.cancelled.fetch_add(1, Ordering::Relaxed);
        if complete { Err(MpiError::of_user(Class::OTHER, 5, "too late")) } else { Ok(()) }
    }
}

#[test]
fn generalized_requests_call_functions_that_call_mpi() {
    run(1, |mpi, _| {
        let own = Arc::new(Own {
            mpi,
            queried: AtomicU32::new(0),
            freed: AtomicU32::new(0),
            cancelled: AtomicU32::new(0),
        });
        let mut request = mpi.grequest_start(own.clone()).expect("start");
        assert!(mpi.test(&mut request).expect("test").is_none());
        mpi.cancel(&mut request).expect("cancel");
        mpi.grequest_complete(request).expect("complete");
        assert_eq!(mpi.cancel(&mut request).expect_err("too late").user_code, 5);
        let seen = mpi.request_get_status(request).expect("status").expect("it is over");
        assert_eq!(seen.expect("success").tag, 77);
        let mut all = [Request::NULL, request];
        mpi.waitall(&mut all, |i, status, _| assert_eq!(status.tag, [-1, 77][i])).expect("waitall");
        let counts = [&own.queried, &own.freed, &own.cancelled].map(|n| n.load(Ordering::Relaxed));
        assert_eq!((counts, all), ([2, 1, 2], [Request::NULL; 2]));
        let mut receive = mpi.irecv(ints(&mut [0]), 0, 0, WORLD).expect("irecv");
        assert_eq!(mpi.grequest_complete(receive).expect_err("another kind").class, Class::REQUEST);
        mpi.cancel(&mut receive).expect("cancel");
        mpi.wait(&mut receive).expect("wait");
    });
}
