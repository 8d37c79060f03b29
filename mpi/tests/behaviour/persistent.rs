//! Persistent requests.

use netmod_mpi::Class;
use netmod_mpi::consts::{BSEND_OVERHEAD, UNDEFINED};
use netmod_mpi::handle::Request;

use crate::job::{WORLD, ints, run};

#[test]
fn operations_are_started_again_and_again() {
    run(2, |mpi, me| {
        let peer = 1 - me;
        let (mut data, mut room) = ([0; 3], [0; 3]);
        let mut requests = [
            mpi.send_init(ints(&mut data), peer, 1, WORLD).expect("send_init"),
            mpi.recv_init(ints(&mut room), peer, 1, WORLD).expect("recv_init"),
        ];
        let handles = requests;
        for round in 0..5 {
            data.fill(10 * me + round);
            mpi.startall(&mut requests).expect("startall");
            assert_eq!(mpi.start(&mut requests[1]).expect_err("active").class, Class::REQUEST);
            let mut counts = [0; 2];
            mpi.waitall(&mut requests, |i, status, _| counts[i] = status.count_bytes).expect("waitall");
            assert_eq!((room, counts[1], requests), ([10 * peer + round; 3], 12, handles));
        }
        // Inactive ones are over, and passed over.
        assert_eq!(mpi.waitany(&mut requests).expect("none").0, UNDEFINED);
        assert!(mpi.test(&mut requests[0]).expect("test").is_some());
        assert_eq!(mpi.cancel(&mut requests[0]).expect_err("inactive").class, Class::REQUEST);
        for request in &mut requests {
            mpi.request_free(request).expect("free");
            assert!(request.is_null());
        }
    });
}

#[test]
fn all_modes_can_be_persistent() {
    run(1, |mpi, _| {
        let (mut data, mut room) = ([4; 2], [0; 2]);
        mpi.buffer_attach(64, 8 + BSEND_OVERHEAD).expect("attach");
        let mut receive = mpi.recv_init(ints(&mut room), 0, 1, WORLD).expect("recv_init");
        let mut sends = [
            mpi.bsend_init(ints(&mut data), 0, 1, WORLD).expect("bsend_init"),
            mpi.ssend_init(ints(&mut data), 0, 1, WORLD).expect("ssend_init"),
            mpi.rsend_init(ints(&mut data), 0, 1, WORLD).expect("rsend_init"),
        ];
        for send in &mut sends {
            for value in [7, 8] {
                data.fill(value);
                mpi.start(&mut receive).expect("start");
                mpi.start(send).expect("start");
                mpi.wait(send).expect("wait");
                mpi.wait(&mut receive).expect("wait");
                assert_eq!(room, [value; 2]);
            }
            mpi.request_free(send).expect("free");
        }
        mpi.start(&mut receive).expect("start");
        mpi.cancel(&mut receive).expect("cancel");
        assert!(mpi.wait(&mut receive).expect("wait").cancelled);
        mpi.request_free(&mut receive).expect("free");
        mpi.buffer_detach().expect("detach");
    });
}

#[test]
fn only_persistent_requests_are_started() {
    run(1, |mpi, _| {
        let mut room = [0];
        let mut receive = mpi.irecv(ints(&mut room), 0, 1, WORLD).expect("irecv");
        let error = mpi.start(&mut receive).expect_err("not persistent");
        assert_eq!(error.class, Class::REQUEST);
        assert!(error.text.contains("not persistent"), "{}", error.text);
        assert_eq!(mpi.start(&mut Request::NULL.clone()).expect_err("null").class, Class::REQUEST);
        mpi.cancel(&mut receive).expect("cancel");
        mpi.wait(&mut receive).expect("wait");
        assert_eq!(mpi.send_init(ints(&mut room), 4, 1, WORLD).expect_err("a bad rank").class, Class::RANK);
    });
}
