//! Handles that name nothing are errors of the class that MPI names.

use netmod_mpi::handle::{Comm, Datatype, Errhandler, Group, Info, Keyval, Message, Request};
use netmod_mpi::{Buf, Class};

use crate::job::{INT, WORLD, ints, run};

#[test]
fn stale_handles_are_found_out() {
    run(1, |mpi, _| {
        let mut comm = mpi.comm_dup(WORLD).expect("dup");
        let stale = comm;
        mpi.comm_free(&mut comm).expect("free");
        assert!(comm.is_null());
        let again = mpi.comm_dup(WORLD).expect("dup");
        assert_ne!(again, stale, "its slot is used again, its handle is not");
        for bad in [stale, Comm::NULL, Comm(7), Comm(0x8400_4321)] {
            assert_eq!(mpi.comm_size(bad).expect_err("no communicator").class, Class::COMM);
            assert_eq!(mpi.comm_dup(bad).expect_err("no communicator").class, Class::COMM);
            assert_eq!(mpi.send(ints(&mut [1]), 0, 0, bad).expect_err("no communicator").class, Class::COMM);
        }
        mpi.comm_free(&mut { again }).expect("free");

        let mut info = mpi.anytime().info_create().expect("an info");
        let stale = info;
        mpi.anytime().info_free(&mut info).expect("free");
        assert_eq!(mpi.anytime().info_get_nkeys(stale).expect_err("freed").class, Class::INFO);
        let mut group = mpi.comm_group(WORLD).expect("a group");
        let stale = group;
        mpi.group_free(&mut group).expect("free");
        assert_eq!(mpi.group_size(stale).expect_err("freed").class, Class::GROUP);
        assert_eq!(mpi.group_size(Group::NULL).expect_err("null").class, Class::GROUP);
        assert_eq!(mpi.anytime().info_dup(Info::NULL).expect_err("null").class, Class::INFO);
        assert_eq!(
            mpi.comm_set_errhandler(WORLD, Errhandler::NULL).expect_err("null").class,
            Class::ERRHANDLER
        );
        assert_eq!(mpi.comm_get_attr(WORLD, Keyval::NULL).expect_err("invalid").class, Class::KEYVAL);
        let mut message = Message::NULL;
        assert_eq!(mpi.imrecv(ints(&mut [1]), &mut message).expect_err("null").class, Class::REQUEST);

        let mut room = [0];
        let mut request = mpi.irecv(ints(&mut room), 0, 0, WORLD).expect("a receive");
        let stale = request;
        mpi.send(ints(&mut [5]), 0, 0, WORLD).expect("send");
        mpi.wait(&mut request).expect("received");
        assert_eq!((request, room), (Request::NULL, [5]));
        assert_eq!(mpi.wait(&mut { stale }).expect_err("used up").class, Class::REQUEST);
        assert_eq!(mpi.request_free(&mut { stale }).expect_err("used up").class, Class::REQUEST);
        assert_eq!(mpi.cancel(&mut Request::NULL.clone()).expect_err("null").class, Class::REQUEST);
    });
}

#[test]
fn bad_arguments_say_what_would_be_right() {
    run(2, |mpi, _| {
        let class = |r: netmod_mpi::Result<()>| r.map_err(|e| (e.class, e.text)).expect_err("a bad argument");
        let send = |buf: Buf, dest, tag| class(mpi.send(buf, dest, tag, WORLD));
        let (c, text) = send(ints(&mut [1]), 2, 0);
        assert_eq!(c, Class::RANK);
        assert!(text.contains("dest is 2") && text.contains("0 to 1"), "{text}");
        assert_eq!(send(ints(&mut [1]), -2, 0).0, Class::RANK);
        let (c, text) = send(ints(&mut [1]), 0, -1);
        assert_eq!(c, Class::TAG);
        assert!(text.contains("tag is -1") && text.contains("2147483647"), "{text}");
        // SAFETY: these are never used.
        let (negative, null, untyped) = unsafe {
            let null = std::ptr::null_mut();
            (Buf::new(null, -1, INT), Buf::new(null, 1, INT), Buf::new(null, 1, Datatype::NULL))
        };
        assert_eq!(send(negative, 0, 0).0, Class::COUNT);
        assert_eq!(send(null, 0, 0).0, Class::BUFFER);
        assert_eq!(send(untyped, 0, 0).0, Class::TYPE);
        let recv = |source, tag| class(mpi.recv(ints(&mut [1]), source, tag, WORLD).map(|_| ()));
        assert_eq!(recv(2, 0).0, Class::RANK);
        assert_eq!(recv(-3, 0).0, Class::RANK);
        assert_eq!(recv(0, -2).0, Class::TAG);
        assert_eq!(class(mpi.probe(5, 0, WORLD).map(|_| ())).0, Class::RANK);
        assert_eq!(class(mpi.comm_split(WORLD, -7, 0).map(|_| ())).0, Class::ARG);
        assert_eq!(class(mpi.comm_free(&mut Comm::WORLD.clone())).0, Class::COMM);
        assert_eq!(class(mpi.comm_remote_size(WORLD).map(|_| ())).0, Class::COMM);
    });
}

#[test]
fn errors_have_codes_and_texts() {
    run(1, |mpi, _| {
        let error = mpi.comm_size(Comm::NULL).expect_err("null");
        let code = mpi.error_code(&error);
        assert_eq!(mpi.error_class(code), Ok(Class::COMM.0));
        assert!(mpi.error_string(code).expect("a text").contains("MPI_COMM_NULL"));
    });
}
