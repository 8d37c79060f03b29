//! Tests of descriptors and tokens without a device.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use super::*;

#[test]
fn a_descriptor_does_not_wait_and_keeps_its_flags() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    nonblocking(reader.as_fd()).expect("it is open");
    let error = reader.read(&mut [0]).expect_err("there is nothing");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(writer);
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn tokens_come_back_from_pointers() {
    for token in [0, 17, u64::MAX] {
        let pointer = pointer_of(token).expect("this machine has 64 bits");
        assert_eq!(event::token(pointer), token);
    }
}
