//! Sessions, and communicators that are made of groups alone.

use netmod_mpi::Class;
use netmod_mpi::consts::CONGRUENT;
use netmod_mpi::handle::{Comm, Errhandler, Info, Session};

use crate::job::{WORLD, meet, recv, run, send};

#[test]
fn a_session_names_sets_of_processes() {
    run(3, |mpi, me| {
        let mut session = mpi.session_init(Info::NULL, Errhandler::RETURN).expect("a session");
        assert_eq!(mpi.session_get_num_psets(session, Info::NULL), Ok(2));
        let names = [0, 1].map(|n| mpi.session_get_nth_pset(session, Info::NULL, n).expect("a name"));
        assert_eq!(names, ["mpi://WORLD", "mpi://SELF"]);
        for (name, size, rank) in [("mpi://WORLD", 3, me), ("mpi://self", 1, 0)] {
            let mut info = mpi.session_get_pset_info(session, name).expect("an info");
            assert_eq!(mpi.anytime().info_get(info, "mpi_size"), Ok(Some(size.to_string())));
            mpi.anytime().info_free(&mut info).expect("free");
            let mut group = mpi.group_from_session_pset(session, name).expect("a group");
            assert_eq!((mpi.group_size(group), mpi.group_rank(group)), (Ok(size), Ok(rank)));
            mpi.group_free(&mut group).expect("free");
        }
        let mut info = mpi.session_get_info(session).expect("an info");
        assert_eq!(
            mpi.anytime().info_get(info, "thread_level"),
            Ok(Some("MPI_THREAD_SERIALIZED".to_owned()))
        );
        mpi.anytime().info_free(&mut info).expect("free");
        for n in [-1, 2] {
            let error = mpi.session_get_nth_pset(session, Info::NULL, n).expect_err("no set");
            assert_eq!(error.class, Class::ARG);
        }
        assert_eq!(mpi.group_from_session_pset(session, "more").expect_err("no set").class, Class::ARG);
        assert_eq!(mpi.open_sessions(), Ok(1));
        let stale = session;
        mpi.session_finalize(&mut session).expect("the end");
        assert_eq!((session, mpi.open_sessions()), (Session::NULL, Ok(0)));
        let error = mpi.session_get_num_psets(stale, Info::NULL).expect_err("it was closed");
        assert_eq!(error.class, Class::SESSION);
    });
}

#[test]
fn members_of_a_group_make_a_communicator_of_it() {
    run(3, |mpi, me| {
        let all = mpi.comm_group(WORLD).expect("a group");
        let some = mpi.group_incl(all, &[2, 0]).expect("a group");
        if me == 1 {
            let error = mpi.comm_create_from_group(some, "x", Info::NULL, Errhandler::RETURN);
            assert_eq!(error.expect_err("not a member").class, Class::GROUP);
        } else {
            let mut comm =
                mpi.comm_create_from_group(some, "x", Info::NULL, Errhandler::RETURN).expect("made");
            assert_eq!(mpi.comm_size(comm), Ok(2));
            assert_eq!(mpi.comm_get_errhandler(comm), Ok(Errhandler::RETURN));
            if mpi.comm_rank(comm) == Ok(0) {
                send(mpi, &[5], 1, 0, comm).expect("send");
            } else {
                assert_eq!(recv(mpi, 1, 0, 0, comm).expect("recv").0, [5]);
            }
            mpi.comm_free(&mut comm).expect("free");
        }
        let whole = mpi.comm_create_from_group(all, "y", Info::NULL, Errhandler::RETURN).expect("made");
        assert_eq!(mpi.comm_compare(whole, WORLD), Ok(CONGRUENT));
        let none = netmod_mpi::handle::Group::EMPTY;
        assert_eq!(mpi.comm_create_from_group(none, "z", Info::NULL, Errhandler::RETURN), Ok(Comm::NULL));
        meet(mpi, WORLD);
    });
}

#[test]
fn two_groups_make_an_intercommunicator() {
    run(3, |mpi, me| {
        let all = mpi.comm_group(WORLD).expect("a group");
        let [low, high] = [&[0][..], &[1, 2]].map(|ranks| mpi.group_incl(all, ranks).expect("a group"));
        let (local, own, remote, other) = if me == 0 { (low, 0, high, 1) } else { (high, 1, low, 0) };
        let made = mpi.intercomm_create_from_groups(
            local,
            own,
            remote,
            other,
            "pair",
            Info::NULL,
            Errhandler::RETURN,
        );
        let mut inter = made.expect("made");
        let sizes = (mpi.comm_size(inter), mpi.comm_remote_size(inter));
        assert_eq!(sizes, if me == 0 { (Ok(1), Ok(2)) } else { (Ok(2), Ok(1)) });
        if me == 0 {
            send(mpi, &[7], 1, 3, inter).expect("send");
        } else if me == 2 {
            assert_eq!(recv(mpi, 1, 0, 3, inter).expect("recv").0, [7]);
        }
        mpi.comm_free(&mut inter).expect("free");
        let error =
            mpi.intercomm_create_from_groups(local, own, remote, 9, "x", Info::NULL, Errhandler::RETURN);
        assert_eq!(error.expect_err("no such rank").class, Class::RANK);
    });
}
