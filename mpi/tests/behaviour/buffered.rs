//! Buffered sends.

use netmod_mpi::consts::{BSEND_OVERHEAD, BUFFER_AUTOMATIC};
use netmod_mpi::handle::{Errhandler, Info};
use netmod_mpi::{Class, Mpi};

use crate::job::{WORLD, ints, meet, recv, run};

fn bsend(mpi: &Mpi, len: usize, tag: i32) -> netmod_mpi::Result<()> {
    mpi.bsend(ints(&mut vec![tag; len]), 1, tag, WORLD)
}

/// Large messages stay until they are received.
const LARGE: usize = 100_000;

#[test]
fn a_buffer_is_used_up_and_given_back() {
    run(2, |mpi, me| {
        if me == 1 {
            meet(mpi, WORLD);
            for tag in 0..3 {
                assert_eq!(recv(mpi, LARGE, 0, tag, WORLD).expect("recv").0, vec![tag; LARGE]);
                if tag == 1 {
                    meet(mpi, WORLD);
                }
            }
            return;
        }
        let error = bsend(mpi, 1, 9).expect_err("no buffer");
        assert_eq!(error.class, Class::BUFFER);
        assert!(
            error.text.contains("no buffer is attached") && error.text.contains("100 bytes"),
            "{}",
            error.text
        );
        let each = 4 * LARGE as i64 + BSEND_OVERHEAD;
        mpi.buffer_attach(4096, 2 * each + 50).expect("attach");
        assert_eq!(mpi.buffer_attach(4096, 10).expect_err("attached").class, Class::BUFFER);
        bsend(mpi, LARGE, 0).expect("it fits");
        bsend(mpi, LARGE, 1).expect("it fits");
        let error = bsend(mpi, LARGE, 2).expect_err("the buffer is full");
        assert_eq!(error.class, Class::BUFFER);
        assert!(error.text.contains(&format!("{} are in use", 2 * each)), "{}", error.text);
        meet(mpi, WORLD);
        meet(mpi, WORLD);
        mpi.buffer_flush().expect("flush");
        bsend(mpi, LARGE, 2).expect("there is room again");
        assert_eq!(mpi.buffer_detach(), Ok((4096, 2 * each + 50)));
        assert_eq!(mpi.buffer_detach(), Ok((0, 0)));
        assert_eq!(bsend(mpi, 1, 9).expect_err("no buffer").class, Class::BUFFER);
    });
}

#[test]
fn small_messages_leave_nothing_behind() {
    run(2, |mpi, me| {
        if me == 0 {
            mpi.buffer_attach(8, 4 + BSEND_OVERHEAD).expect("attach");
            for tag in 0..100 {
                let mut request = mpi.ibsend(ints(&mut [tag]), 1, tag, WORLD).expect("ibsend");
                assert!(mpi.test(&mut request).expect("test").is_some());
                meet(mpi, WORLD);
            }
            mpi.buffer_detach().expect("detach");
        } else {
            for tag in 0..100 {
                assert_eq!(recv(mpi, 1, 0, tag, WORLD).expect("recv").0, [tag]);
                meet(mpi, WORLD);
            }
        }
    });
}

#[test]
fn a_communicator_has_a_buffer_of_its_own() {
    run(2, |mpi, me| {
        let mut own = mpi.comm_dup(WORLD).expect("dup");
        if me == 1 {
            meet(mpi, WORLD);
            for comm in [own, WORLD] {
                assert_eq!(recv(mpi, LARGE, 0, 1, comm).expect("recv").0, vec![1; LARGE]);
            }
        } else {
            let each = 4 * LARGE as i64 + BSEND_OVERHEAD;
            mpi.comm_attach_buffer(own, 4096, each).expect("attach");
            let again = mpi.comm_attach_buffer(own, 4096, each).expect_err("attached");
            assert_eq!(again.class, Class::BUFFER);
            let mut data = vec![1; LARGE];
            mpi.bsend(ints(&mut data), 1, 1, own).expect("it fits");
            let full = mpi.bsend(ints(&mut data), 1, 1, own).expect_err("full");
            assert_eq!((full.class, full.comm), (Class::BUFFER, Some(own.0)));
            let none = mpi.bsend(ints(&mut data), 1, 1, WORLD).expect_err("no buffer");
            assert!(none.text.contains("no buffer is attached"), "{}", none.text);
            mpi.buffer_attach(BUFFER_AUTOMATIC, -1).expect("attach");
            mpi.bsend(ints(&mut data), 1, 1, WORLD).expect("there is always room");
            let mut flushes = [mpi.comm_iflush_buffer(own), mpi.buffer_iflush()].map(|f| f.expect("iflush"));
            for flush in &mut flushes {
                assert!(mpi.test(flush).expect("test").is_none(), "nobody has received the message");
            }
            meet(mpi, WORLD);
            mpi.waitall(&mut flushes, |_, _, error| assert!(error.is_none())).expect("flushed");
            mpi.comm_flush_buffer(own).expect("flush");
            assert_eq!(mpi.comm_detach_buffer(own), Ok((4096, each)));
            assert_eq!(mpi.buffer_detach(), Ok((BUFFER_AUTOMATIC, 0)));
        }
        mpi.comm_free(&mut own).expect("free");
        assert_eq!(mpi.comm_detach_buffer(own).expect_err("no communicator").class, Class::COMM);
    });
}

#[test]
fn a_session_has_a_buffer_for_its_communicators() {
    run(2, |mpi, me| {
        let mut session = mpi.session_init(Info::NULL, Errhandler::RETURN).expect("a session");
        let mut group = mpi.group_from_session_pset(session, "mpi://WORLD").expect("a group");
        let made = mpi.comm_create_from_group(group, "buffers", Info::NULL, Errhandler::RETURN);
        let mut of = made.expect("a communicator");
        let mut dup = mpi.comm_dup(of).expect("dup");
        let (mut idup, mut request) = mpi.comm_idup(of).expect("idup");
        mpi.wait(&mut request).expect("it is made");
        if me == 1 {
            meet(mpi, WORLD);
            for comm in [of, dup] {
                assert_eq!(recv(mpi, LARGE, 0, 1, comm).expect("recv").0, vec![1; LARGE]);
            }
            for comm in [WORLD, dup] {
                assert_eq!(recv(mpi, LARGE, 0, 2, comm).expect("recv").0, vec![2; LARGE]);
            }
        } else {
            let two = 2 * (4 * LARGE as i64 + BSEND_OVERHEAD);
            mpi.session_attach_buffer(session, 4096, two).expect("attach");
            let mut data = [vec![1; LARGE], vec![2; LARGE]];
            mpi.bsend(ints(&mut data[0]), 1, 1, of).expect("it fits");
            mpi.bsend(ints(&mut data[0]), 1, 1, dup).expect("it fits");
            for comm in [dup, idup] {
                let full = mpi.bsend(ints(&mut data[1]), 1, 2, comm).expect_err("full");
                assert_eq!(full.class, Class::BUFFER);
                assert!(full.text.contains("are in use"), "{}", full.text);
            }
            let none = mpi.bsend(ints(&mut data[1]), 1, 2, WORLD).expect_err("no buffer");
            assert!(none.text.contains("no buffer is attached"), "{}", none.text);
            mpi.buffer_attach(BUFFER_AUTOMATIC, 0).expect("attach");
            mpi.bsend(ints(&mut data[1]), 1, 2, WORLD).expect("there is always room");
            mpi.comm_attach_buffer(dup, BUFFER_AUTOMATIC, 0).expect("attach");
            mpi.bsend(ints(&mut data[1]), 1, 2, dup).expect("it has a buffer of its own");
            let mut flush = mpi.session_iflush_buffer(session).expect("iflush");
            assert!(mpi.test(&mut flush).expect("test").is_none(), "nobody has received the messages");
            meet(mpi, WORLD);
            mpi.wait(&mut flush).expect("flushed");
            assert_eq!(mpi.session_detach_buffer(session), Ok((4096, two)));
            assert_eq!(mpi.session_detach_buffer(session), Ok((0, 0)));
            mpi.session_attach_buffer(session, 8192, 100).expect("attach");
            mpi.session_flush_buffer(session).expect("nothing is in it");
        }
        meet(mpi, WORLD);
        mpi.group_free(&mut group).expect("free");
        [&mut of, &mut dup, &mut idup].into_iter().for_each(|comm| mpi.comm_free(comm).expect("free"));
        let gone = session;
        mpi.session_finalize(&mut session).expect("finalize");
        assert_eq!(mpi.session_flush_buffer(gone).expect_err("no session").class, Class::SESSION);
    });
}

#[test]
fn messages_of_a_freed_communicator_leave_its_buffer() {
    run(2, |mpi, me| {
        let mut own = mpi.comm_dup(WORLD).expect("dup");
        if me == 0 {
            mpi.comm_attach_buffer(own, BUFFER_AUTOMATIC, 0).expect("attach");
            mpi.bsend(ints(&mut vec![1; LARGE]), 1, 1, own).expect("it fits");
            mpi.comm_free(&mut own).expect("free");
            meet(mpi, WORLD);
        } else {
            meet(mpi, WORLD);
            assert_eq!(recv(mpi, LARGE, 0, 1, own).expect("recv").0, vec![1; LARGE]);
            mpi.comm_free(&mut own).expect("free");
        }
    });
}
