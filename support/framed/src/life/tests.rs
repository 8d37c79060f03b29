//! Real sockets and processes, in simulated time.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use netmod_core::{PeerName, Slab, Vc};

use super::*;

const DETECT: Duration = Duration::from_secs(1);

fn vc() -> VcId {
    Slab::<Vc, VcKind>::new().insert(Vc::new(PeerName::default(), 0))
}

/// Asks until there is a verdict. The kernel's part takes real time, which is not measured.
fn verdict(life: &mut Life, now: &mut Time) -> Verdict {
    let mut out = vec![];
    for _ in 0..100_000 {
        *now = life.deadline().expect("somebody is watched").max(*now);
        life.poll(*now, &mut out);
        if let Some((_, verdict)) = out.pop() {
            return verdict;
        }
    }
    panic!("no verdict: {life:?}");
}

/// A process that holds a life line.
fn holder() -> (Child, Vec<u8>) {
    let line = Life::listen(&[], DETECT).unwrap();
    let endpoints = line.endpoints();
    let socket = OwnedFd::from(line.listener);
    let child = Command::new("sleep").arg("1000").stdin(Stdio::from(socket)).spawn().unwrap();
    (child, endpoints)
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_stopped_process_lives_and_a_killed_one_is_dead() {
    let (mut child, endpoints) = holder();
    let (mut life, mut now, vc) = (Life::listen(&[], DETECT).unwrap(), Time::ZERO, vc());
    assert!(life.watch(vc, &endpoints, true, now));
    assert_eq!(verdict(&mut life, &mut now), Verdict::Alive);
    assert_eq!(now, Time::ZERO + DETECT);
    signal(&child, "-STOP");
    assert_eq!(verdict(&mut life, &mut now), Verdict::Alive);
    assert_eq!(now, Time::ZERO + DETECT * 2);
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert_eq!(verdict(&mut life, &mut now), Verdict::Dead);
    assert_eq!(life.deadline(), None, "the dead are asked no more");
}

#[test]
fn nobody_is_asked_who_was_heard() {
    let mut life = Life::listen(&[], DETECT).unwrap();
    let (vc, mut out) = (vc(), vec![]);
    assert!(life.watch(vc, &life.endpoints(), true, Time::ZERO));
    for s in 1..10 {
        let now = Time(s * 999_000_000);
        life.poll(now, &mut out);
        life.heard(vc, now);
    }
    assert!(out.is_empty() && life.probes.is_empty());
    life.unwatch(vc);
    life.poll(Time(99_000_000_000), &mut out);
    assert!(out.is_empty() && life.deadline().is_none());
}

#[test]
fn who_does_not_answer_is_unknown() {
    // A socket that listens, and whose queue is full: the kernel drops what comes.
    let full = listener(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let waiting: Vec<Line> = (0..8).map(|_| ask(&address)).collect();
    assert!(waiting.iter().all(|l| matches!(l, Line::Waiting(_))));
    let (mut life, mut now, vc) = (Life::listen(&[], DETECT).unwrap(), Time::ZERO, vc());
    assert!(life.watch(vc, &endpoints::emit(address.port(), &[]), true, now));
    assert_eq!(verdict(&mut life, &mut now), Verdict::Unknown);
    assert!(now >= Time::ZERO + DETECT + PATIENCE, "{now:?}");
    drop(full);
    assert_eq!(verdict(&mut life, &mut now), Verdict::Dead);
}

#[test]
fn one_address_that_answers_is_enough_and_one_that_is_silent_leaves_doubt() {
    let line = Life::listen(&[], DETECT).unwrap();
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, line.port));
    let gone = {
        let gone = listener(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        gone.local_addr().unwrap().as_socket().unwrap()
    };
    let silent = || Line::Unknown;
    let probe = |lines: Vec<Line>| {
        let mut p = Probe { vc: vc(), lines, until: Time(9), look: Time::ZERO, pause: LOOK };
        (0..10_000).find_map(|_| p.verdict(Time::ZERO)).or_else(|| p.verdict(Time(9)))
    };
    assert_eq!(probe(vec![ask(&gone), ask(&here)]), Some(Verdict::Alive));
    assert_eq!(probe(vec![silent(), ask(&here)]), Some(Verdict::Alive));
    assert_eq!(probe(vec![ask(&gone), silent()]), Some(Verdict::Unknown));
    assert_eq!(probe(vec![ask(&gone), ask(&gone)]), Some(Verdict::Dead));
    assert_eq!(probe(vec![]), Some(Verdict::Unknown));
}

#[test]
fn addresses_that_lead_back_are_not_asked() {
    let ip = |a: &str| a.parse::<IpAddr>().unwrap();
    let mut life = Life::listen(&[ip("172.17.0.1"), ip("10.0.0.1")], DETECT).unwrap();
    let vc = vc();
    let theirs = endpoints::emit(5, &[ip("172.17.0.1"), ip("10.0.0.2")]);
    assert!(life.watch(vc, &theirs, false, Time::ZERO));
    assert_eq!(life.peers.get(vc).unwrap()[..], [SocketAddr::from(([10, 0, 0, 2], 5))]);
    assert!(!life.watch(vc, &endpoints::emit(5, &[ip("172.17.0.1")]), false, Time::ZERO));
    assert!(!life.watch(vc, b"what", true, Time::ZERO));
    assert!(life.watch(vc, &theirs, true, Time::ZERO));
    assert_eq!(life.peers.get(vc).unwrap()[..], [SocketAddr::from(([127, 0, 0, 1], 5))]);
}

#[test]
fn who_asks_is_hung_up_on() {
    let mut life = Life::listen(&[], DETECT).unwrap();
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, life.port));
    let mut asked: Vec<std::net::TcpStream> =
        (0..100).map(|_| std::net::TcpStream::connect(here).unwrap()).collect();
    let mut out = vec![];
    for ms in [0, 50, 100] {
        life.poll(Time(ms * 1_000_000), &mut out);
    }
    for stream in &mut asked {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(std::io::Read::read(stream, &mut [0]).unwrap(), 0, "the end of the stream");
    }
}
