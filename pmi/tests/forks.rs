//! A forked child must not use its parent's connection.

#![allow(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use netmod_pmi::client::{PmiClient, Version};
use netmod_pmi::{PmiError, ProcessManager};

/// A launcher that replies to a client's handshake, and then records all requests until the client
/// disconnects.
fn launcher(stream: UnixStream) -> Vec<String> {
    let mut writer = stream.try_clone().expect("another descriptor");
    let mut requests = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        let reply = match line.split_whitespace().next().expect("a command") {
            "cmd=init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "cmd=get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "cmd=get_appnum" => "cmd=appnum appnum=0",
            "cmd=get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1",
            "cmd=get" => "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            "cmd=finalize" => "cmd=finalize_ack",
            other => panic!("the launcher hears {other}"),
        };
        requests.push(line);
        writer.write_all(format!("{reply}\n").as_bytes()).expect("a reply");
    }
    requests
}

/// Runs `check` in a forked child; returns its exit code.
fn in_child(check: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child ends by `_exit`.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child, without destructors.
        0 => unsafe { libc::_exit(check()) },
        child => {
            let mut status = 0;
            // SAFETY: the process is a child of this one, and the status goes to a valid integer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "{status:#x}");
            libc::WEXITSTATUS(status)
        }
    }
}

fn is_forked<T>(result: Result<T, PmiError>) -> bool {
    matches!(result, Err(PmiError::Forked { .. }))
}

#[test]
fn a_child_is_refused_and_the_launcher_hears_nothing_of_it() {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let served = std::thread::spawn(move || launcher(theirs));
    let client = PmiClient::from_fd(OwnedFd::from(ours), 0, 1, Version::V1, None).expect("a client");
    let mut client = Some(client);
    let code = in_child(|| {
        let mut inherited = client.take().expect("a client");
        let refused = is_forked(inherited.put_str("key", "value"))
            && is_forked(inherited.get_str("key"))
            && is_forked(inherited.barrier_begin())
            && is_forked(inherited.abort(1))
            && is_forked(inherited.finalize());
        drop(inherited);
        i32::from(!refused)
    });
    assert_eq!(code, 0, "a call of the child was not refused");
    let mut pm = Some(ProcessManager::over(client.take().expect("a client"), None).expect("a job"));
    let code = in_child(|| {
        let mut inherited = pm.take().expect("a job");
        let refused = is_forked(inherited.put_bytes("key", b"value"))
            && is_forked(inherited.get_bytes("key"))
            && is_forked(inherited.barrier_begin())
            && inherited.barrier_poll().is_err()
            && is_forked(inherited.barrier())
            && is_forked(inherited.failed_ranks())
            && is_forked(inherited.finalize());
        if refused { inherited.abort(7, "the child wants to end") } else { 1 }
    });
    assert_eq!(code, 7, "the child ends itself alone");
    pm.take().expect("a job").finalize().expect("the launcher answers");
    let heard = served.join().expect("the launcher hears what it should");
    assert_eq!(heard.last().map(String::as_str), Some("cmd=finalize"), "{heard:?}");
}
