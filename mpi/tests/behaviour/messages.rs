//! Messages, statuses, probes.

use netmod_mpi::consts::{ANY_SOURCE, ANY_TAG, PROC_NULL, UNDEFINED};
use netmod_mpi::datatype::Form;
use netmod_mpi::handle::{Datatype, Message, Request};
use netmod_mpi::{Buf, Class, Result, Status};

use crate::job::{INT, WORLD, ints, meet, recv, run, send};

#[test]
fn a_message_has_a_status() {
    run(2, |mpi, me| {
        if me == 0 {
            send(mpi, &[1, 2, 3], 1, 9, WORLD).expect("send");
            let (data, status) = recv(mpi, 5, 1, 8, WORLD).expect("recv");
            assert_eq!((data, status.source, status.tag), (vec![4; 5], 1, 8));
        } else {
            let (data, status) = recv(mpi, 8, ANY_SOURCE, ANY_TAG, WORLD).expect("recv");
            assert_eq!(data, [1, 2, 3]);
            assert_eq!(status, Status { source: 0, tag: 9, error: 0, count_bytes: 12, cancelled: false });
            send(mpi, &[4; 5], 0, 8, WORLD).expect("send");
        }
    });
}

/// The wire has ranks of the job; the program sees those of the communicator.
#[test]
fn any_source_is_translated_in_a_part_of_the_job() {
    run(5, |mpi, me| {
        // Ranks 4, 3, 1 as 0, 1, 2; the others by themselves.
        let color = i32::from([0, 2].contains(&me));
        let comm = mpi.comm_split(WORLD, color, -me).expect("split");
        let (rank, size) = (mpi.comm_rank(comm).expect("rank"), mpi.comm_size(comm).expect("size"));
        if color == 1 {
            assert_eq!((size, rank), (2, i32::from(me == 0)));
        } else {
            assert_eq!((size, rank), (3, [9, 2, 9, 1, 0][me as usize]));
        }
        if rank > 0 {
            send(mpi, &[me], 0, rank + 10, comm).expect("send");
            // The same in the whole job does not meet it.
            send(mpi, &[100 + me], if color == 1 { 2 } else { 4 }, rank + 10, WORLD).expect("send");
        } else {
            let mut seen = Vec::new();
            for _ in 1..size {
                let (data, status) = recv(mpi, 1, ANY_SOURCE, ANY_TAG, comm).expect("recv");
                assert_eq!(status.tag, status.source + 10);
                seen.push((status.source, data[0]));
            }
            seen.sort_unstable();
            assert_eq!(seen, if color == 1 { vec![(1, 0)] } else { vec![(1, 3), (2, 1)] });
            for (source, world) in seen {
                let (data, status) = recv(mpi, 1, ANY_SOURCE, source + 10, WORLD).expect("recv");
                assert_eq!((data[0], status.source), (100 + world, world));
            }
        }
        mpi.comm_free(&mut { comm }).expect("free");
    });
}

#[test]
fn nobody_sends_and_receives_at_once() {
    run(1, |mpi, _| {
        send(mpi, &[1], PROC_NULL, 3, WORLD).expect("send");
        let (data, status) = recv(mpi, 1, PROC_NULL, 3, WORLD).expect("recv");
        assert_eq!((data, status), (vec![], Status { source: PROC_NULL, ..Status::EMPTY }));
        let mut request = mpi.irecv(ints(&mut [0]), PROC_NULL, 3, WORLD).expect("irecv");
        assert!(!request.is_null());
        let status = mpi.test(&mut request).expect("test").expect("it is over").expect("success");
        assert_eq!((status.source, status.tag, status.count_bytes), (PROC_NULL, ANY_TAG, 0));
        assert!(request.is_null());
        let status = mpi.probe(PROC_NULL, 0, WORLD).expect("probe");
        assert_eq!(status.source, PROC_NULL);
        let (mut message, status) = mpi.mprobe(PROC_NULL, 0, WORLD).expect("mprobe");
        assert_eq!((message, status.source), (Message::NO_PROC, PROC_NULL));
        let status = mpi.mrecv(ints(&mut [0]), &mut message).expect("mrecv");
        assert_eq!((message, status.source), (Message::NULL, PROC_NULL));
    });
}

#[test]
fn a_message_that_does_not_fit_is_told() {
    run(2, |mpi, me| {
        if me == 1 {
            send(mpi, &[7; 10], 0, 1, WORLD).expect("send");
            send(mpi, &[8; 1], 0, 2, WORLD).expect("send");
        } else {
            let error = recv(mpi, 2, 1, 1, WORLD).expect_err("too long");
            assert_eq!(error.class, Class::TRUNCATE);
            assert!(error.text.contains("40 bytes from rank 1 with tag 1"), "{}", error.text);
            assert_eq!(recv(mpi, 2, 1, 2, WORLD).expect("recv").0, [8]);
        }
    });
}

const BYTE: Datatype = Datatype(0x4c00_010d);

#[test]
fn a_message_that_ends_within_an_element_is_told() {
    run(1, |mpi, _| {
        let mut gaps = mpi.type_vector(2, 1, 2, INT, Form::Int).expect("vector");
        mpi.type_commit(&mut gaps).expect("commit");
        let mut data = [-1; 4];
        let (mut few, base): (_, *mut u8) = ([7u8; 8], data.as_mut_ptr().cast());
        // SAFETY: both outlive the messages, which are over when each call returns.
        let bytes = |few: &mut [u8], n| unsafe { Buf::new(few.as_mut_ptr(), n, BYTE) };
        // SAFETY: as above.
        let room = unsafe { Buf::new(base, 1, gaps) };
        for (count, class) in [(3, Class::TYPE), (4, Class::SUCCESS), (5, Class::TYPE), (8, Class::SUCCESS)] {
            let told = |result: Result<Status>| result.map_or_else(|e| e.class, |_| Class::SUCCESS);
            let send = |few: &mut [u8]| mpi.send(bytes(few, count), 0, 1, WORLD).expect("send");
            send(&mut few);
            assert_eq!(told(mpi.recv(room, 0, 1, WORLD)), class, "{count} bytes");
            send(&mut few);
            let mut request = mpi.irecv(room, 0, 1, WORLD).expect("irecv");
            assert_eq!(told(mpi.wait(&mut request)), class, "{count} bytes");
            send(&mut few);
            let (mut message, _) = mpi.mprobe(0, 1, WORLD).expect("mprobe");
            assert_eq!(told(mpi.mrecv(room, &mut message)), class, "{count} bytes");
            let exchanged = mpi.sendrecv(bytes(&mut few, count), 0, 1, room, 0, 1, WORLD);
            assert_eq!(told(exchanged), class, "{count} bytes");
        }
        assert_eq!(data, [0x0707_0707, -1, 0x0707_0707, -1]);
        mpi.type_free(&mut gaps).expect("free");
    });
}

#[test]
fn probes_find_messages_and_match_them() {
    run(2, |mpi, me| {
        if me == 1 {
            meet(mpi, WORLD);
            for tag in [5, 6, 7] {
                send(mpi, &vec![tag; tag as usize], 0, tag, WORLD).expect("send");
            }
            // Its sender waits for an answer, so that `mrecv` needs a request.
            mpi.ssend(ints(&mut [8; 8]), 0, 8, WORLD).expect("ssend");
            return;
        }
        let (found, _) = mpi.iprobe(ANY_SOURCE, 5, WORLD).expect("iprobe");
        assert!(!found);
        let (found, message, _) = mpi.improbe(ANY_SOURCE, 5, WORLD).expect("improbe");
        assert_eq!((found, message), (false, Message::NULL));
        meet(mpi, WORLD);
        let status = mpi.probe(ANY_SOURCE, 6, WORLD).expect("probe");
        assert_eq!((status.source, status.tag, status.count_bytes), (1, 6, 24));
        let (mut matched, status) = mpi.mprobe(1, 6, WORLD).expect("mprobe");
        assert_eq!((status.tag, status.count_bytes), (6, 24));
        let (found, status) = mpi.iprobe(1, ANY_TAG, WORLD).expect("iprobe");
        assert_eq!((found, status.tag), (true, 5));
        let mut room = [0; 6];
        let status = mpi.mrecv(ints(&mut room), &mut matched).expect("mrecv");
        assert_eq!((status.tag, room), (6, [6; 6]));
        assert_eq!(recv(mpi, 5, 1, 5, WORLD).expect("recv").0, [5; 5]);
        let (mut matched, _) = mpi.mprobe(1, ANY_TAG, WORLD).expect("mprobe");
        let error = mpi.mrecv(ints(&mut room), &mut matched).expect_err("too long");
        assert_eq!((error.class, matched), (Class::TRUNCATE, Message::NULL));
        let (mut matched, _) = mpi.mprobe(1, 8, WORLD).expect("mprobe");
        let mut room = [0; 9];
        let status = mpi.mrecv(ints(&mut room), &mut matched).expect("mrecv");
        assert_eq!((status.tag, status.count_bytes, room), (8, 32, [8, 8, 8, 8, 8, 8, 8, 8, 0]));
    });
}

#[test]
fn messages_are_exchanged() {
    run(3, |mpi, me| {
        let (next, before) = ((me + 1) % 3, (me + 2) % 3);
        let mut room = [0; 2];
        let status =
            mpi.sendrecv(ints(&mut [me, 1]), next, 4, ints(&mut room), before, 4, WORLD).expect("sendrecv");
        assert_eq!((status.source, room), (before, [before, 1]));
        let mut both = [me, 2];
        let status = mpi.sendrecv_replace(ints(&mut both), next, 5, ANY_SOURCE, 5, WORLD).expect("replace");
        assert_eq!((status.source, both), (before, [before, 2]));
        let mut data = [me; 3];
        let mut room = [0; 3];
        let mut request =
            mpi.isendrecv(ints(&mut data), next, 6, ints(&mut room), before, 6, WORLD).expect("isendrecv");
        assert_eq!(mpi.wait(&mut request).expect("wait").count_bytes, 12);
        assert_eq!((room, request), ([before; 3], Request::NULL));
        let mut request = mpi.isendrecv_replace(ints(&mut data), next, 7, before, 7, WORLD).expect("both");
        mpi.wait(&mut request).expect("wait");
        assert_eq!(data, [before; 3]);
        // To nobody, and from somebody.
        let (dest, source) = if me == 0 { (1, PROC_NULL) } else { (PROC_NULL, 0) };
        if me < 2 {
            let mut room = [-1];
            let status =
                mpi.sendrecv(ints(&mut [9]), dest, 8, ints(&mut room), source, 8, WORLD).expect("half");
            assert_eq!((status.source, room), (source, [if me == 0 { -1 } else { 9 }]));
        }
        meet(mpi, WORLD);
    });
}

#[test]
fn a_receive_is_cancelled() {
    run(1, |mpi, _| {
        let mut room = [0];
        let mut request = mpi.irecv(ints(&mut room), 0, 1, WORLD).expect("irecv");
        mpi.cancel(&mut request).expect("cancel");
        assert!(mpi.wait(&mut request).expect("wait").cancelled);
        let mut request = mpi.irecv(ints(&mut room), 0, 1, WORLD).expect("irecv");
        send(mpi, &[3], 0, 1, WORLD).expect("send");
        mpi.cancel(&mut request).expect("cancel");
        let status = mpi.wait(&mut request).expect("wait");
        assert_eq!((status.cancelled, room), (false, [3]));
        assert_eq!(mpi.waitany(&mut []).expect("waitany").0, UNDEFINED);
    });
}

#[test]
fn synchronous_and_ready_sends() {
    run(2, |mpi, me| {
        let mut room = [0; 2];
        if me == 0 {
            meet(mpi, WORLD);
            mpi.ssend(ints(&mut [1]), 1, 1, WORLD).expect("ssend");
            mpi.rsend(ints(&mut [2]), 1, 2, WORLD).expect("rsend");
            let (mut a, mut b) = ([3], [4]);
            let mut requests = [
                mpi.issend(ints(&mut a), 1, 3, WORLD).expect("issend"),
                mpi.irsend(ints(&mut b), 1, 4, WORLD).expect("irsend"),
            ];
            mpi.waitall(&mut requests, |_, _, error| assert!(error.is_none())).expect("waitall");
        } else {
            let mut last = [0; 2];
            let (first, second) = room.split_at_mut(1);
            let (third, fourth) = last.split_at_mut(1);
            let mut requests: Vec<Request> = [(first, 1), (second, 2), (third, 3), (fourth, 4)]
                .into_iter()
                .map(|(room, tag)| mpi.irecv(ints(room), 0, tag, WORLD).expect("irecv"))
                .collect();
            meet(mpi, WORLD);
            mpi.waitall(&mut requests, |i, status, _| assert_eq!(status.tag, i as i32 + 1)).expect("waitall");
            assert_eq!((room, last), ([1, 2], [3, 4]));
        }
    });
}
