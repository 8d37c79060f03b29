//! Tests of errors.

use super::*;

#[test]
fn numbers_are_found_however_a_call_returns_them() {
    assert_eq!(number(libc::ENOMEM), errno::ENOMEM);
    assert_eq!(number(-libc::EINVAL), errno::EINVAL);
    // Sets `errno` by a failing system call.
    let refused = std::fs::File::open("/nonexistent/file").expect_err("there is none");
    assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
    assert_eq!(number(-1), Errno(libc::ENOENT));
    let text = check(libc::ENODEV, "ibv_modify_qp", || "rxe0".into()).expect_err("an error").to_string();
    assert!(text.starts_with("ibv_modify_qp on rxe0: ") && text.contains("device has failed"), "{text}");
    assert_eq!(check(0, "ibv_modify_qp", || unreachable!("it is not said where")), Ok(()));
}

#[test]
fn null_is_no_object() {
    let _ = std::fs::File::open("/nonexistent/file").expect_err("there is none");
    let none = made(core::ptr::null_mut::<u8>(), "ibv_alloc_pd", || "rxe0".into()).expect_err("null");
    assert_eq!((none.errno, none.call), (Errno(libc::ENOENT), "ibv_alloc_pd"));
    let mut one = 1_u8;
    assert_eq!(made(&raw mut one, "ibv_alloc_pd", || "rxe0".into()), Ok(&raw mut one));
}
