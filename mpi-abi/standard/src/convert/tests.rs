use netmod_mpi_common::convert::MpiStatus;

use super::*;

#[test]
fn predefined_handles_and_those_of_the_library_are_kept_apart() {
    let (world, null) = (0x4400_0000, 0x0400_0000);
    assert_eq!((number(0x101), Kind::COMM.handle(world)), (world, Handle(0x101)));
    assert_eq!((number(0x100), Kind::COMM.handle(null)), (null, Handle(0x100)));
    let made = 0x8400_0005;
    assert_eq!((number(made as usize), Kind::COMM.handle(made)), (made, Handle(made as usize)));
    // The library has one null handle for requests and messages.
    assert_eq!(Kind::REQUEST.handle(0x2c00_0000), Handle(0x180));
    assert_eq!(Kind::MESSAGE.handle(0x2c00_0000), Handle(0x128));
}

#[test]
fn all_predefined_handles_come_back() {
    let given = HANDLES.iter().enumerate().filter(|(_, number)| **number != 0);
    let kinds = [
        Kind::COMM,
        Kind::ERRHANDLER,
        Kind::FILE,
        Kind::GROUP,
        Kind::INFO,
        Kind::MESSAGE,
        Kind::REQUEST,
        Kind::SESSION,
        Kind::WIN,
        Kind::DATATYPE,
        Kind::OP,
    ];
    let mut seen = 0;
    for (handle, number) in given {
        let is_null = kinds.iter().find(|kind| kind.null == handle);
        let back = is_null.unwrap_or(&Kind::COMM).handle(*number);
        assert_eq!(back, Handle(handle), "{number:#x}");
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_pointer_that_is_no_handle_is_none_of_the_library() {
    for wrong in [0, 1, 0x3ff, 0x400, 0x4400_0000, usize::MAX, 0x8400_0005 << 32, 0x1_8400_0005] {
        assert_eq!(number(wrong), NO_HANDLE, "{wrong:#x}");
    }
    for done in [Request::COMPLETE, Request::FROM_NOBODY] {
        assert_eq!(number(done.0 as usize), done.0);
    }
}

/// Returns the status of a message from nobody in the library's numbers.
fn from_nobody(error: c_int) -> MpiStatus {
    MpiStatus::new(-1, -1, error, [7, 0])
}

#[test]
fn a_status_is_translated_and_written_only_where_the_library_has_written() {
    let mut status = Status { source: 5, tag: 6, error: 77, reserved: [9; 5] };
    // SAFETY: a status of this frame.
    unsafe { Status::write(&raw mut status, &Status::unwritten()) };
    assert_eq!((status.source, status.tag, status.error, status.reserved), (5, 6, 77, [9; 5]));
    let (nobody, any_tag) = (numbers::rank_out(-1), numbers::tag_out(-1));
    assert_ne!(nobody, -1, "MPI_PROC_NULL has another value here");
    // SAFETY: as above.
    unsafe { Status::write(&raw mut status, &from_nobody(c_int::MIN)) };
    assert_eq!((status.source, status.tag, status.error), (nobody, any_tag, 77));
    assert_eq!(status.reserved, [7, 0, 0, 0, 0]);
    // SAFETY: as above.
    unsafe { Status::write(&raw mut status, &from_nobody(netmod_mpi::Class::ROOT.0)) };
    assert_eq!(status.error, 8);
    let back = status.inner();
    assert_eq!((back.source, back.tag, back.error), (-1, -1, netmod_mpi::Class::ROOT.0));
    assert_eq!(status.plain().error, 8);
    // SAFETY: as above.
    unsafe { Status::write_plain(&raw mut status, &from_nobody(4321)) };
    assert_eq!(status.error, 4321, "a number of the program's stays as it is");
}

#[test]
fn addresses_with_a_meaning_are_translated_and_others_are_not() {
    for (here, inside) in ADDRESSES {
        let address: *mut c_void = core::ptr::without_provenance_mut(here);
        assert_eq!(address.memory().addr(), inside);
        assert_eq!(address.cast_const().memory().addr(), inside);
        assert_eq!(outer(inside), Some(here));
    }
    let mut value = 0_i32;
    let address: *mut c_void = (&raw mut value).cast();
    assert_eq!((address.memory(), outer(address.addr())), (address, None));
    let [unweighted, empty] = WEIGHTS.map(core::ptr::without_provenance::<c_int>);
    assert_eq!((unweighted.weights(), empty.weights()), (&raw const UNWEIGHTED, &raw const WEIGHTS_EMPTY));
    assert_eq!((&raw const value).weights(), &raw const value);
}
