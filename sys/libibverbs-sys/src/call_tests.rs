//! Tests with tables of older and newer libraries, and of drivers that lack a call.

use core::mem::MaybeUninit;

use super::*;
use crate::object::verbs_context;

/// Makes a context within its table, of a library that knows `size` bytes of the table, with or
/// without the mark.
fn table(size: usize, marked: bool) -> Box<verbs_context> {
    // SAFETY: zeros are valid: null pointers, no functions, and unused locks.
    let mut table = unsafe { Box::<verbs_context>::new(MaybeUninit::zeroed().assume_init()) };
    table.sz = size;
    table.context.abi_compat = core::ptr::without_provenance_mut(if marked { usize::MAX } else { 0 });
    table
}

const WHOLE: usize = size_of::<verbs_context>();

unsafe extern "C" fn number(_: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: the caller below gives a valid pointer.
    unsafe { number.write(4711) };
    0
}

unsafe extern "C" fn domain(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    // SAFETY: the caller below gives a live record.
    unsafe { if (*attr).fd == 7 { context.cast() } else { core::ptr::null_mut() } }
}

/// Calls a table's functions. Returns the errors of opening a domain and of asking for a number,
/// and the number.
fn tried(mut table: Box<verbs_context>, fd: c_int) -> (Option<c_int>, c_int, u32) {
    let table = &raw mut *table;
    // SAFETY: table, record and queue are live, and made so that the functions above can use them.
    unsafe {
        let context = (&raw mut (*table).context).cast::<ibv_context>();
        let mut attr = ibv_xrcd_init_attr { comp_mask: 0, fd, oflags: 0 };
        let mut srq: ibv_srq = MaybeUninit::zeroed().assume_init();
        srq.context = context;
        let opened = ibv_open_xrcd(context, &raw mut attr);
        assert!(opened.is_err() || opened == Ok(context.cast()));
        let mut n = 0;
        let done = ibv_get_srq_num(&raw mut srq, &raw mut n);
        (opened.err(), done, n)
    }
}

fn filled(size: usize, marked: bool) -> Box<verbs_context> {
    let mut table = table(size, marked);
    table.open_xrcd = Some(domain);
    table.get_srq_num = Some(number);
    table
}

#[test]
fn a_call_is_made_if_library_and_driver_have_it() {
    assert_eq!(tried(filled(WHOLE, true), 7), (None, 0, 4711));
    // A newer library's table begins earlier.
    assert_eq!(tried(filled(WHOLE + 64, true), 7), (None, 0, 4711));
    assert_eq!(tried(table(WHOLE, true), 7), (Some(EOPNOTSUPP), EOPNOTSUPP, 0));
}

#[test]
fn a_table_that_does_not_reach_so_far_is_not_read() {
    let reach = WHOLE - offset_of!(verbs_context, get_srq_num);
    assert_eq!(tried(filled(reach, true), 7), (None, 0, 4711));
    assert_eq!(tried(filled(reach - 1, true), 7), (None, EOPNOTSUPP, 0));
    assert_eq!(tried(filled(0, true), 7), (Some(EOPNOTSUPP), EOPNOTSUPP, 0));
}

#[test]
fn without_the_mark_there_is_no_table() {
    assert_eq!(tried(filled(WHOLE, false), 7), (Some(EOPNOTSUPP), EOPNOTSUPP, 0));
}

#[test]
fn an_object_that_was_not_made_is_an_error() {
    // The error is whatever `errno` holds; a null pointer is never an object.
    assert!(tried(filled(WHOLE, true), 8).0.is_some());
}

#[test]
fn calls_that_a_driver_lacks_are_not_made() {
    let mut table = table(WHOLE, true);
    let table = &raw mut *table;
    // SAFETY: the objects are live, and name a live context.
    unsafe {
        let context = (&raw mut (*table).context).cast::<ibv_context>();
        let (mut qp, mut cq): (ibv_qp, ibv_cq) =
            (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init());
        (qp.context, cq.context) = (context, context);
        let (mut bad_send, mut bad_recv) = (core::ptr::null_mut(), core::ptr::null_mut());
        assert_eq!(ibv_post_send(&raw mut qp, core::ptr::null_mut(), &raw mut bad_send), EOPNOTSUPP);
        assert_eq!(ibv_post_recv(&raw mut qp, core::ptr::null_mut(), &raw mut bad_recv), EOPNOTSUPP);
        assert_eq!(ibv_poll_cq(&raw mut cq, 1, core::ptr::null_mut()), -EOPNOTSUPP);
        assert_eq!(ibv_req_notify_cq(&raw mut cq, 0), EOPNOTSUPP);
    }
}
