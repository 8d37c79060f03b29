//! Communicators: who is in them, that their messages do not meet, that their ids return.

use netmod_mpi::consts::{
    ANY_SOURCE, COMM_TYPE_HW_UNGUIDED, COMM_TYPE_NEIGHBORHOOD, COMM_TYPE_SHARED, CONGRUENT, IDENT, SIMILAR,
    UNDEFINED, UNEQUAL,
};
use netmod_mpi::handle::{Comm, Group, Info, Request};
use netmod_mpi::{Class, Mpi};

use crate::job::{WORLD, ints, meet, recv, run, send};

/// Checks that messages of one communicator are not received in another.
fn stay_apart(mpi: &Mpi, a: Comm, b: Comm) {
    let (me, n) = (mpi.comm_rank(a).expect("rank"), mpi.comm_size(a).expect("size"));
    let (next, before) = ((me + 1) % n, (me + n - 1) % n);
    send(mpi, &[1], next, 0, a).expect("send");
    send(mpi, &[2], next, 0, b).expect("send");
    assert_eq!(recv(mpi, 1, before, 0, b).expect("recv").0, [2]);
    assert_eq!(recv(mpi, 1, before, 0, a).expect("recv").0, [1]);
}

#[test]
fn duplicates_keep_messages_apart() {
    for ranks in [1, 2, 3, 5] {
        run(ranks, |mpi, me| {
            let mut one = mpi.comm_dup(WORLD).expect("dup");
            let mut two = mpi.comm_dup(one).expect("dup");
            assert_eq!(mpi.comm_rank(two), Ok(me));
            for (a, b) in [(WORLD, one), (one, two), (WORLD, two)] {
                stay_apart(mpi, a, b);
                assert_eq!(mpi.comm_compare(a, b), Ok(CONGRUENT));
            }
            assert_eq!(mpi.comm_compare(one, one), Ok(IDENT));
            mpi.comm_free(&mut one).expect("free");
            mpi.comm_free(&mut two).expect("free");
        });
    }
}

/// There are 2048 ids: more communicators than that are made, one after the other.
#[test]
fn ids_return_when_communicators_are_freed() {
    run(2, |mpi, _| {
        let mut kept = Vec::new();
        for i in 0..2500 {
            let mut comm = mpi.comm_dup(WORLD).expect("dup");
            if i % 500 == 0 {
                kept.push(comm);
            } else {
                mpi.comm_free(&mut comm).expect("free");
            }
        }
        stay_apart(mpi, kept[0], kept[4]);
        kept.iter_mut().for_each(|comm| mpi.comm_free(comm).expect("free"));
    });
}

#[test]
fn too_many_communicators_are_told() {
    run(2, |mpi, _| {
        let mut all = Vec::new();
        let error = loop {
            match mpi.comm_dup(WORLD) {
                Ok(comm) => all.push(comm),
                Err(e) => break e,
            }
        };
        assert_eq!((all.len(), error.class), (2045, Class::OTHER));
        assert!(error.text.contains("no context id is left"), "{}", error.text);
        let (mut none, mut request) = mpi.comm_idup(WORLD).expect("idup");
        assert_eq!(mpi.wait(&mut request).expect_err("it fails, too").class, Class::OTHER);
        mpi.comm_free(&mut none).expect("free");
        mpi.comm_free(&mut all[1000]).expect("free");
        all[1000] = mpi.comm_dup(WORLD).expect("one is free again");
        all.iter_mut().for_each(|comm| mpi.comm_free(comm).expect("free"));
    });
}

/// A receive that is under way keeps its communicator, whose handle and context others would have:
/// none of them gets its message, and the sender's rank is that in the communicator.
#[test]
fn a_communicator_stays_while_messages_are_under_way() {
    run(2, |mpi, me| {
        let mut comm = mpi.comm_split(WORLD, 0, -me).expect("split");
        let mut room = [0];
        let mut receive = Request::NULL;
        if me == 1 {
            receive = mpi.irecv(ints(&mut room), ANY_SOURCE, 3, comm).expect("irecv");
        } else {
            meet(mpi, WORLD);
            send(mpi, &[1], 0, 3, comm).expect("send");
        }
        let freed = comm;
        mpi.comm_free(&mut comm).expect("free");
        if me == 1 {
            // Those of this process alone would have the lowest free id, and at last the handle.
            let mut same = 0;
            for _ in 0..200 {
                let mut own = mpi.comm_dup(Comm::SELF).expect("dup");
                same += u32::from(own == freed);
                send(mpi, &[9], 0, 3, own).expect("send");
                assert_eq!(recv(mpi, 1, 0, 3, own).expect("recv").0, [9]);
                mpi.comm_free(&mut own).expect("free");
            }
            assert!(same > 0, "no communicator has had the handle");
            meet(mpi, WORLD);
            assert_eq!(mpi.wait(&mut receive).expect("wait").source, 1);
            assert_eq!(room, [1]);
        }
    });
}

#[test]
fn splits_order_by_key() {
    run(6, |mpi, me| {
        let color = if me == 5 { UNDEFINED } else { me % 2 };
        let comm = mpi.comm_split(WORLD, color, 10 - me).expect("split");
        if me == 5 {
            assert!(comm.is_null());
        } else {
            let expected: &[i32] = if color == 0 { &[4, 2, 0] } else { &[3, 1] };
            let rank = expected.iter().position(|r| *r == me).expect("a member") as i32;
            assert_eq!((mpi.comm_rank(comm), mpi.comm_size(comm)), (Ok(rank), Ok(expected.len() as i32)));
            let (world, part) = (mpi.comm_group(WORLD).expect("group"), mpi.comm_group(comm).expect("group"));
            let ranks: Vec<i32> = (0..expected.len() as i32).collect();
            assert_eq!(mpi.group_translate_ranks(part, &ranks, world).expect("ranks"), expected);
            assert_eq!(mpi.comm_compare(comm, WORLD), Ok(UNEQUAL));
            // Equal keys keep the order of ranks.
            let again = mpi.comm_split(comm, 0, 0).expect("split");
            assert_eq!(mpi.comm_compare(comm, again), Ok(CONGRUENT));
            let back = mpi.comm_split(comm, 0, me).expect("split");
            assert_eq!(mpi.comm_compare(comm, back), Ok(SIMILAR));
            for comm in [comm, again, back] {
                mpi.comm_free(&mut { comm }).expect("free");
            }
            for group in [world, part] {
                mpi.group_free(&mut { group }).expect("free");
            }
        }
    });
}

#[test]
fn parts_of_a_job_agree_by_themselves() {
    run(5, |mpi, me| {
        let world = mpi.comm_group(WORLD).expect("group");
        let odd = mpi.group_incl(world, &[3, 1]).expect("group");
        let all = mpi.comm_create(WORLD, odd).expect("create");
        let own = mpi.comm_create_group(WORLD, odd, 7).expect("create");
        if me % 2 == 0 {
            assert!(all.is_null() && own.is_null());
        } else {
            assert_eq!((mpi.comm_size(own), mpi.comm_rank(own)), (Ok(2), Ok(i32::from(me == 1))));
            stay_apart(mpi, all, own);
            mpi.comm_free(&mut { all }).expect("free");
            mpi.comm_free(&mut { own }).expect("free");
        }
        // Everybody is in a group of two or three, at the same time.
        let mine = if me < 2 { [0, 1].as_slice() } else { &[2, 3, 4] };
        let mine = mpi.group_incl(world, mine).expect("group");
        let mut comm = mpi.comm_create_group(WORLD, mine, 0).expect("create");
        meet(mpi, comm);
        let alien = mpi.comm_create(comm, world).expect_err("not part of it");
        assert_eq!(alien.class, Class::GROUP);
        mpi.comm_free(&mut comm).expect("free");
        assert!(mpi.comm_create(WORLD, Group::EMPTY).expect("create").is_null());
        assert!(mpi.comm_create_group(WORLD, Group::EMPTY, 1).expect("create").is_null());
        for group in [world, odd, mine] {
            mpi.group_free(&mut { group }).expect("free");
        }
    });
}

#[test]
fn duplications_go_on_beside_other_calls() {
    run(3, |mpi, me| {
        let (one, a) = mpi.comm_idup(WORLD).expect("idup");
        let (two, b) = mpi.comm_idup(WORLD).expect("idup");
        // A blocking one overtakes them.
        let three = mpi.comm_dup(WORLD).expect("dup");
        assert_eq!(mpi.comm_rank(one), Ok(me));
        let mut requests = [b, a];
        mpi.waitall(&mut requests, |_, _, error| assert!(error.is_none())).expect("waitall");
        stay_apart(mpi, one, two);
        stay_apart(mpi, two, three);
        for comm in [one, two, three] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

#[test]
fn processes_of_a_node_are_found() {
    run(3, |mpi, me| {
        let mut comm = mpi.comm_split_type(WORLD, COMM_TYPE_SHARED, me, Info::NULL).expect("split");
        assert_eq!(mpi.comm_size(comm), Ok(3));
        mpi.comm_disconnect(&mut comm).expect("disconnect");
        for kind in [UNDEFINED, COMM_TYPE_NEIGHBORHOOD] {
            assert!(mpi.comm_split_type(WORLD, kind, 0, Info::NULL).expect("split").is_null());
        }
        assert_eq!(
            mpi.comm_split_type(WORLD, 77, 0, Info::NULL).expect_err("no such kind").class,
            Class::ARG
        );
    });
}

#[test]
fn names_and_hints() {
    run(1, |mpi, _| {
        assert_eq!(mpi.comm_get_name(WORLD), Ok("MPI_COMM_WORLD".to_owned()));
        let info = mpi.anytime().info_create().expect("info");
        let hint = "mpi_assert_exact_length";
        mpi.anytime().info_set(info, hint, "true").expect("set");
        mpi.anytime().info_set(info, "unheard_of", "yes").expect("set");
        let comm = mpi.comm_dup_with_info(WORLD, info).expect("dup");
        assert_eq!(mpi.comm_get_name(comm), Ok(String::new()));
        let long = "é".repeat(100);
        mpi.comm_set_name(comm, &long).expect("name");
        assert_eq!(mpi.comm_get_name(comm).expect("name").len(), 126);
        let hints = mpi.comm_get_info(comm).expect("info");
        assert_eq!(mpi.anytime().info_get(hints, hint), Ok(Some("true".to_owned())));
        assert_eq!(mpi.anytime().info_get(hints, "unheard_of"), Ok(None));
        for info in [info, hints] {
            mpi.anytime().info_free(&mut { info }).expect("free");
        }
        mpi.comm_free(&mut { comm }).expect("free");
    });
}

/// Halves of the job, of which the last rank of the first one knows the first rank of the other.
fn halves(mpi: &Mpi, me: i32, n: i32) -> (Comm, Comm) {
    let low = me < n / 2;
    let half = mpi.comm_split(WORLD, i32::from(!low), 0).expect("split");
    let (leader, remote) = if low { (n / 2 - 1, n / 2) } else { (0, n / 2 - 1) };
    (half, mpi.intercomm_create(half, leader, WORLD, remote, 5).expect("create"))
}

#[test]
fn two_groups_send_to_each_other() {
    for n in [2, 3, 5] {
        run(n, move |mpi, me| {
            let n = n as i32;
            let (half, inter) = halves(mpi, me, n);
            let low = me < n / 2;
            let (own, other) = if low { (n / 2, n - n / 2) } else { (n - n / 2, n / 2) };
            assert_eq!((mpi.comm_size(inter), mpi.comm_remote_size(inter)), (Ok(own), Ok(other)));
            assert_eq!((mpi.comm_test_inter(inter), mpi.comm_test_inter(half)), (Ok(true), Ok(false)));
            let copy = mpi.comm_dup(inter).expect("dup");
            assert_eq!(mpi.comm_compare(inter, copy), Ok(CONGRUENT));
            assert_eq!(mpi.comm_compare(inter, WORLD), Ok(UNEQUAL));
            for (comm, value) in [(inter, me), (copy, 100 + me)] {
                for peer in 0..other {
                    send(mpi, &[value], peer, 1, comm).expect("send");
                }
            }
            for (comm, base) in [(copy, 100), (inter, 0)] {
                for _ in 0..other {
                    let (data, status) = recv(mpi, 1, ANY_SOURCE, 1, comm).expect("recv");
                    let world = status.source + if low { n / 2 } else { 0 };
                    assert_eq!(data, [base + world]);
                }
            }
            assert_eq!(send(mpi, &[1], other, 1, inter).expect_err("no such rank").class, Class::RANK);
            // All processes are on one node, below which nothing is known.
            let mut node = mpi.comm_split_type(inter, COMM_TYPE_SHARED, 0, Info::NULL).expect("split");
            assert_eq!(mpi.comm_compare(node, inter), Ok(CONGRUENT));
            mpi.comm_free(&mut node).expect("free");
            for kind in [COMM_TYPE_HW_UNGUIDED, UNDEFINED] {
                assert_eq!(mpi.comm_split_type(inter, kind, 0, Info::NULL), Ok(Comm::NULL));
            }
            for comm in [half, inter, copy] {
                mpi.comm_free(&mut { comm }).expect("free");
            }
        });
    }
}

/// The id of one group of an intercommunicator may be that of another group of a second one.
#[test]
fn duplications_of_two_intercommunicators_are_told_apart() {
    run(4, |mpi, me| {
        let low = me < 2;
        let half = mpi.comm_split(WORLD, i32::from(!low), 0).expect("split");
        let (leader, remote) = if low { (1, 2) } else { (0, 1) };
        // The lower group has the id first that the upper one has then.
        let mut first = (!low).then(|| mpi.comm_dup(half).expect("dup"));
        let one = mpi.intercomm_create(half, leader, WORLD, remote, 5).expect("create");
        if let Some(first) = &mut first {
            mpi.comm_free(first).expect("free");
        }
        let other = mpi.intercomm_create(half, leader, WORLD, remote, 6).expect("create");
        // Each process begins them in another order, since only those of one parent have one.
        let mut random = me as u32;
        for _ in 0..40 {
            let mut left = [(one, 3), (other, 3), (half, 3), (WORLD, 3)];
            let mut made = Vec::new();
            while made.len() < 12 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (parent, times) = &mut left[random as usize >> 30];
                if *times > 0 {
                    *times -= 1;
                    made.push(mpi.comm_idup(*parent).expect("idup"));
                    mpi.test(&mut made[0].1).expect("test");
                }
            }
            for (comm, mut request) in made {
                mpi.wait(&mut request).expect("wait");
                mpi.comm_free(&mut { comm }).expect("free");
            }
        }
        for comm in [half, one, other] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

#[test]
fn two_groups_are_merged() {
    run(5, |mpi, me| {
        let (half, inter) = halves(mpi, me, 5);
        let low = me < 2;
        // The lower group first, the upper group first, and both alike.
        for (high, expected) in [(!low, me), (low, (me + 3) % 5), (true, me)] {
            let mut merged = mpi.intercomm_merge(inter, high).expect("merge");
            assert_eq!((mpi.comm_size(merged), mpi.comm_rank(merged)), (Ok(5), Ok(expected)));
            meet(mpi, merged);
            mpi.comm_free(&mut merged).expect("free");
        }
        assert_eq!(mpi.intercomm_merge(half, true).expect_err("intra").class, Class::COMM);
        for comm in [half, inter] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

/// Sends a number to each process of the other group; returns those that come, by rank.
fn hear_all(mpi: &Mpi, inter: Comm, value: i32) -> Vec<i32> {
    let others = mpi.comm_remote_size(inter).expect("remote size");
    for peer in 0..others {
        send(mpi, &[value], peer, 9, inter).expect("send");
    }
    (0..others).map(|peer| recv(mpi, 1, peer, 9, inter).expect("recv").0[0]).collect()
}

#[test]
fn two_groups_are_split_into_pairs_of_groups() {
    run(6, |mpi, me| {
        let (half, inter) = halves(mpi, me, 6);
        let (low, rank) = (me < 3, me % 3);
        // Colors 0 and 1 are in both groups, color 2 in one of them only. Keys turn the order.
        let color = if rank == 2 { 0 } else { rank };
        let part = mpi.comm_split(inter, color, -rank).expect("split");
        let expected = match (color, low) {
            (0, true) => vec![5, 3],
            (0, false) => vec![2, 0],
            (_, true) => vec![4],
            (_, false) => vec![1],
        };
        assert_eq!(hear_all(mpi, part, me), expected);
        assert_eq!(mpi.comm_rank(part), Ok(i32::from(color == 0 && rank == 0)));
        let again = mpi.comm_split(part, 0, 0).expect("split");
        assert_eq!(hear_all(mpi, again, me), expected);
        let alone = mpi.comm_split(inter, if low { 7 } else { 8 }, 0).expect("split");
        assert!(alone.is_null(), "the other group has no such color");
        let none = if me == 1 { UNDEFINED } else { 0 };
        let mut most = mpi.comm_split(inter, none, 0).expect("split");
        assert_eq!(most.is_null(), me == 1);
        if !most.is_null() {
            let others = if low { vec![3, 4, 5] } else { vec![0, 2] };
            assert_eq!(hear_all(mpi, most, me), others);
            mpi.comm_free(&mut most).expect("free");
        }
        for comm in [part, again, half, inter] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

#[test]
fn parts_of_two_groups_make_a_communicator() {
    run(5, |mpi, me| {
        let (half, inter) = halves(mpi, me, 5);
        let group = mpi.comm_group(inter).expect("group");
        // The last process of each group, then its first.
        let last = mpi.group_size(group).expect("size") - 1;
        let some = mpi.group_incl(group, &[last, 0]).expect("incl");
        let mut made = mpi.comm_create(inter, some).expect("create");
        let low = me < 2;
        assert_eq!(made.is_null(), me == 3);
        if !made.is_null() {
            assert_eq!(hear_all(mpi, made, me), if low { vec![4, 2] } else { vec![1, 0] });
            mpi.comm_free(&mut made).expect("free");
        }
        let nobody = mpi.comm_create(inter, if low { some } else { Group::EMPTY }).expect("create");
        assert!(nobody.is_null(), "the other group is empty");
        for group in [group, some] {
            mpi.group_free(&mut { group }).expect("free");
        }
        for comm in [half, inter] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}

#[test]
fn duplications_of_two_groups_go_on_beside_other_calls() {
    run(5, |mpi, me| {
        let (half, inter) = halves(mpi, me, 5);
        let (one, a) = mpi.comm_idup(inter).expect("idup");
        let (two, b) = mpi.comm_idup(inter).expect("idup");
        let three = mpi.comm_dup(inter).expect("dup");
        mpi.waitall(&mut [b, a], |_, _, error| assert!(error.is_none())).expect("waitall");
        let others = if me < 2 { vec![2, 3, 4] } else { vec![0, 1] };
        for comm in [one, two, three] {
            assert_eq!(hear_all(mpi, comm, me), others);
            assert_eq!(mpi.comm_compare(comm, inter), Ok(CONGRUENT));
        }
        for comm in [one, two, three, half, inter] {
            mpi.comm_free(&mut { comm }).expect("free");
        }
    });
}
