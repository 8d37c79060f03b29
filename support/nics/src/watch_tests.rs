//! A watch with scripted notifications.

use std::collections::VecDeque;

use super::*;

/// A channel that replays a script.
struct Script(VecDeque<Result<usize, i32>>);

impl Channel for Script {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive(&mut self, _: &mut [u8], wait: bool) -> io::Result<usize> {
        assert!(!wait, "it would block");
        self.0.pop_front().unwrap_or(Err(libc::EAGAIN)).map_err(io::Error::from_raw_os_error)
    }
}

fn watch(script: &[Result<usize, i32>]) -> Watch<Script> {
    Watch::by(Script(script.iter().copied().collect()))
}

#[test]
fn nothing_is_no_change_and_anything_is_one() {
    assert!(!watch(&[]).changed().unwrap());
    for script in [&[Ok(1000)][..], &[Ok(1), Ok(2)], &[Err(libc::ENOBUFS)], &[Ok(1), Err(libc::ENOBUFS)]] {
        let mut watch = watch(script);
        assert!(watch.changed().unwrap(), "{script:?}");
        assert!(!watch.changed().unwrap(), "{script:?}");
    }
}

#[test]
fn a_flood_does_not_hold_up_the_caller() {
    let mut watch = watch(&[Ok(100); MOST + 1]);
    assert!(watch.changed().unwrap());
    assert_eq!(watch.channel.0.len(), 1);
    assert!(watch.changed().unwrap());
    assert!(!watch.changed().unwrap());
}

#[test]
fn a_broken_socket_is_an_error() {
    assert_eq!(watch(&[Ok(1), Err(libc::EBADF)]).changed().unwrap_err().raw_os_error(), Some(libc::EBADF));
}
