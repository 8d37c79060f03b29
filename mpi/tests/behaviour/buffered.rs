//! Buffered sends.

use netmod_mpi::consts::BSEND_OVERHEAD;
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
                assert!(mpi.test(&mut request).expect("test").0);
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
