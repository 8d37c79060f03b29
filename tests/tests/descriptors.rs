//! Faults below a VC: no descriptors, nobody there, somebody else there, a peer that says
//! nothing, a connection that breaks. Each is an error of that VC alone that says what to do.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use ch3_shim::Config;
use ch3_shim::{Device, Error, Mode};
use netmod_core::{VcError, VcErrorKind};
use netmod_matching::{Canonical, Host, wire};
use netmod_tests::board::run_job_with;
use netmod_tests::jobs::launch::{self, OVER_TCP, run};
use netmod_tests::jobs::pattern::{bytes, check};
use netmod_tests::jobs::tap::{Proxy, Server, Tap};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// Short times, so that what fails for good fails soon.
fn impatient(cfg: &mut Config) {
    for (name, value) in [("NETMOD_TCP_CONNECT_TIMEOUT", "1s"), ("NETMOD_TCP_HELLO_TIMEOUT", "300ms")] {
        cfg.set(name, value).expect("a duration");
    }
}

/// A message each way, checked. The lesser rank begins, and so is the one that dials: nobody dials
/// rank 1, whose address may lead astray.
fn greet(dev: &mut Device, peer: i32) {
    let (me, world) = (dev.rank() as i32, dev.world());
    let mut got = vec![0; 2000];
    if me < peer {
        dev.send(&bytes(me as u64, 2000), peer, 1, world).expect("a send on another VC");
    }
    dev.recv(&mut got, peer, 1, world).expect("a receive on another VC");
    check(peer as u64, &got).expect("the bytes of the peer");
    if me > peer {
        dev.send(&bytes(me as u64, 2000), peer, 1, world).expect("a send on another VC");
    }
}

/// The error of a VC, which must name rank 1.
fn vc_error<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> VcError {
    match result.map_err(Into::into) {
        Err(Error::Peer(e)) if e.to_string().starts_with("rank 1") => e,
        other => panic!("an error of the VC with rank 1 was expected: {other:?}"),
    }
}

/// Rank 0 of a job of 3 cannot reach rank 1, whose card leads to `detour`. The error; both of them
/// can reach rank 2 before and after.
fn unreachable_peer(detour: impl Fn(SocketAddr) -> SocketAddr + Send + 'static) -> VcError {
    let tap = Tap::default();
    tap.detour(1, detour);
    let errors = run_job_with(&tap, 3, impatient, |dev| {
        let world = dev.world();
        match dev.rank() {
            0 => {
                greet(dev, 2);
                let receive = dev.irecv(vec![0; 10], 1, 0, world).expect("a receive is posted");
                let sync =
                    dev.isend_mode(vec![1; 10].into(), 1, 0, world, Mode::Sync).expect("a send is queued");
                let large = dev.isend(vec![1; 1 << 20], 1, 0, world).expect("a send is queued");
                let error = vc_error(dev.send(&bytes(0, 50_000), 1, 0, world));
                for request in [receive, sync, large] {
                    assert_eq!(vc_error(dev.wait(request)), error);
                }
                greet(dev, 2);
                // The VC stays down, and says so at once.
                assert_eq!(vc_error(dev.send(&[1], 1, 0, world)), error);
                assert_eq!(dev.ack_failures().len(), 1);
                Some(error)
            }
            1 => {
                greet(dev, 2);
                None
            }
            _ => {
                greet(dev, 0);
                greet(dev, 1);
                greet(dev, 0);
                None
            }
        }
    });
    let error = errors.into_iter().flatten().next().expect("the error of rank 0");
    println!("{error}");
    error
}

#[track_caller]
fn says(error: &VcError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

fn nmrun(ranks: &str, case: &str) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", ranks, JOB, case]).env(OVER_TCP.0, OVER_TCP.1);
    c
}

#[test]
fn a_dial_without_a_descriptor() {
    let done = run(nmrun("4", "starve-dial").env("NETMOD_TCP_CONNECT_TIMEOUT", "3s"));
    done.expect_ok("starve-dial", 4);
    assert!(done.output.contains("raise it with ulimit -n"), "{done}");
}

#[test]
fn an_accept_without_a_descriptor() {
    let done = run(&mut nmrun("3", "starve-accept"));
    done.expect_ok("starve-accept", 3);
    assert!(
        done.output.contains("no descriptor for an incoming connection")
            || done.output.contains("times without a descriptor"),
        "{done}"
    );
}

#[test]
fn nobody_listens() {
    let e = unreachable_peer(|_| Server::new().addr);
    assert_eq!(e.kind(), VcErrorKind::Unreachable);
    says(&e, &["Connection refused", "attempts", "still alive"]);
    assert!(e.tried_for().is_some_and(|t| t >= Duration::from_secs(1)));
}

#[test]
fn a_listener_that_says_nothing() {
    let e = unreachable_peer(|_| {
        let server = Server::new();
        let addr = server.addr;
        server.serve(|stream| {
            // Kept open until the other side has had enough.
            let _ = std::io::copy(&mut &stream, &mut std::io::sink());
        });
        addr
    });
    assert_eq!(e.kind(), VcErrorKind::Unreachable);
    says(&e, &["no answer in time", "firewall"]);
}

/// Listens like a stopped process: the kernel accepts for it.
#[test]
fn a_listener_that_never_accepts() {
    let e = unreachable_peer(|_| {
        let server = Box::leak(Box::new(Server::new()));
        server.addr
    });
    says(&e, &["no answer in time", "stopped"]);
}

#[test]
fn something_else_listens() {
    let e = unreachable_peer(|_| {
        let server = Server::new();
        let addr = server.addr;
        server.serve(|mut stream| {
            use std::io::Write as _;
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        });
        addr
    });
    assert_eq!(e.kind(), VcErrorKind::Protocol);
    says(&e, &["something else"]);
}

/// Rank 2 listens at rank 1's address.
#[test]
fn another_rank_listens() {
    let tap = Tap::default();
    let homes = tap.clone();
    tap.detour(1, move |_| homes.home(2));
    let errors = run_job_with(&tap, 3, impatient, |dev| {
        let world = dev.world();
        (dev.rank() == 0).then(|| {
            let error = vc_error(dev.send(&[1], 1, 0, world));
            assert_eq!(dev.ack_failures().len(), 1);
            error
        })
    });
    let e = errors.into_iter().flatten().next().expect("the error of rank 0");
    says(&e, &["another process", "business card"]);
}

/// The connection breaks while a large message is on it: both ends fail that VC, and no other.
#[test]
fn a_reset_in_mid_message() {
    let tap = Tap::default();
    tap.detour(1, |home| {
        let proxy = Proxy::new(home);
        // The message is longer.
        proxy.cut_after(1 << 20);
        proxy.addr
    });
    // Without sessions: with them, the connection would be resumed.
    let unforgiving = |cfg: &mut Config| {
        impatient(cfg);
        cfg.set("NETMOD_TCP_RESUME_TIMEOUT", "0s").expect("a duration");
    };
    let errors = run_job_with(&tap, 3, unforgiving, |dev| {
        let world = dev.world();
        let me = dev.rank();
        if me == 2 {
            greet(dev, 0);
            greet(dev, 1);
            greet(dev, 0);
            greet(dev, 1);
            return None;
        }
        greet(dev, 2);
        let error = if me == 0 {
            vc_error(dev.send(&bytes(1, 8 << 20), 1, 3, world))
        } else {
            let mut got = vec![0; 8 << 20];
            match dev.recv(&mut got, 0, 3, world) {
                Err(Error::Peer(e)) if e.to_string().starts_with("rank 0 on ") => e,
                other => panic!("half a message: {other:?}"),
            }
        };
        greet(dev, 2);
        assert_eq!(dev.ack_failures().len(), 1);
        Some(error)
    });
    for e in errors.iter().flatten() {
        assert_eq!(e.kind(), VcErrorKind::Lost, "{e}");
        says(e, &["lost", "died"]);
    }
    assert_eq!(errors.iter().flatten().count(), 2);
}

/// Rank 0 of a job of 3 cannot reach rank 1, whose card is not what it should be. The error.
fn error_of_a_forged_card(tap: &Tap) -> VcError {
    let errors = run_job_with(tap, 3, impatient, |dev| {
        let world = dev.world();
        if dev.rank() == 2 {
            greet(dev, 0);
            greet(dev, 1);
            greet(dev, 0);
            return None;
        }
        greet(dev, 2);
        if dev.rank() == 1 {
            return None;
        }
        let error = vc_error(dev.send(&bytes(0, 50_000), 1, 0, world));
        assert_eq!(error.kind(), VcErrorKind::Card);
        assert_eq!(vc_error(dev.send(&[1], 1, 0, world)), error);
        greet(dev, 2);
        Some(error)
    });
    let error = errors.into_iter().flatten().next().expect("the error of rank 0");
    println!("{error}");
    error
}

/// A peer that lies about its interfaces harms nobody but itself.
#[test]
fn a_card_that_lies() {
    type Lie = fn(&mut Host);
    // Behind the flags and the port: a length, and the record.
    const RECORD_AT: usize = 5;
    let elsewhere: Lie = |host| host.location.boot = [9; 16];
    let nothing: Lie = |host| {
        host.location.boot = [9; 16];
        host.nics.clear();
    };
    let ours: Lie = |host| {
        host.location.boot = [9; 16];
        for nic in &mut host.nics {
            (nic.name, nic.index, nic.speed) =
                (format!("x{}", nic.index), u32::MAX - nic.index, Some(u32::MAX));
        }
        *host = Canonical::new(host).host;
    };
    for lie in [elsewhere, nothing, ours] {
        let tap = Tap::default();
        tap.forge(1, move |body| {
            let mut host = wire::parse(&body[RECORD_AT..]).expect("the record of this host");
            lie(&mut host);
            let record = wire::encode(&host);
            [&body[..3], &(record.len() as u16).to_le_bytes(), &record].concat()
        });
        let e = error_of_a_forged_card(&tap);
        says(&e, &["no interface of this host has a way", "netmod-perf pair"]);
    }
    for (damage, text) in [(RECORD_AT, "version"), (RECORD_AT + 25, "interfaces")] {
        let tap = Tap::default();
        tap.forge(1, move |mut body| {
            body[damage] = 0xff;
            body
        });
        says(&error_of_a_forged_card(&tap), &["interfaces that the peer published", text]);
    }
}
