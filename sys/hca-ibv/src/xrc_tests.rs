//! Tests of how a domain is asked for.

use std::os::fd::AsFd;

use super::*;

#[test]
fn a_domain_is_found_by_its_file() {
    let file = std::fs::File::open("/dev/null").expect("a file");
    let fd = file.as_raw_fd();
    assert_eq!(fd_and_flags(XrcdOpen::Shared(file.as_fd())), (fd, libc::O_CREAT));
    assert_eq!(fd_and_flags(XrcdOpen::Existing(file.as_fd())), (fd, 0));
    assert_eq!(fd_and_flags(XrcdOpen::Private), (-1, libc::O_CREAT));
}

#[test]
fn missing_features_have_one_error_number() {
    assert_eq!(unsupported(Errno(libc::ENOSYS)), errno::EOPNOTSUPP);
    assert_eq!(unsupported(errno::EOPNOTSUPP), errno::EOPNOTSUPP);
    assert_eq!(unsupported(errno::ENOMEM), errno::ENOMEM);
}
