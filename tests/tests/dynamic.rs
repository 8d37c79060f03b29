//! Dynamic processes over TCP, with the ranks of two or more jobs as threads of this process: jobs
//! that were started apart meet at a port, exchange, and part; what can go wrong at each step.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Error, InterComm, PortName};
use netmod_pmi::codec::{crc32, from_text, to_text};
use netmod_tcp::TcpReport;
use netmod_tests::board::run_devices;
use netmod_tests::conformance::settle;
use netmod_tests::factory::Tcp;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

/// A value that one job waits for and another sets.
#[derive(Clone, Debug)]
struct Slot<T>(Arc<(Mutex<Option<T>>, Condvar)>);

impl<T: Clone> Slot<T> {
    fn new() -> Slot<T> {
        Slot(Arc::new((Mutex::new(None), Condvar::new())))
    }

    fn set(&self, value: T) {
        *self.0.0.lock().unwrap() = Some(value);
        self.0.1.notify_all();
    }

    fn get(&self) -> T {
        let (lock, changed) = &*self.0;
        let limit = Instant::now() + LONG;
        let mut value = lock.lock().unwrap();
        loop {
            if let Some(v) = &*value {
                return v.clone();
            }
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nobody has set the slot");
            value = changed.wait_timeout(value, left).unwrap().0;
        }
    }
}

/// A job of `ranks` threads beside this one.
fn job<R: Send + 'static>(
    ranks: u32,
    body: impl Fn(&mut Device) -> R + Send + Sync + 'static,
) -> JoinHandle<Vec<R>> {
    job_with(ranks, |_| {}, body)
}

fn job_with<R: Send + 'static>(
    ranks: u32,
    tune: impl Fn(&mut Config) + Send + 'static,
    body: impl Fn(&mut Device) -> R + Send + Sync + 'static,
) -> JoinHandle<Vec<R>> {
    std::thread::spawn(move || {
        run_devices(&Tcp, ranks, tune, move |mut dev| {
            let result = body(&mut dev);
            let rank = dev.rank();
            settle(&mut dev);
            dev.finalize().unwrap_or_else(|e| panic!("rank {rank}: finalize: {e}"));
            result
        })
    })
}

fn at_root<T>(dev: &Device, root: u32, make: impl FnOnce() -> T) -> Option<T> {
    (dev.rank() == root).then(make)
}

fn text_of(outcome: Result<InterComm, Error>) -> String {
    outcome.expect_err("a call that fails").to_string()
}

/// Each process of one job sends to each of the other, and back.
fn exchange(dev: &mut Device, inter: &InterComm, round: usize, len: usize) {
    let (me, comm) = (dev.rank() as i32, inter.comm());
    let n = inter.remote_size() as i32;
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    for peer in 0..n {
        receives.push((peer, dev.irecv(vec![0; len + 1], peer, round as i32, comm).expect("irecv")));
        let mut data = vec![me as u8 ^ 0x55; len];
        data[0] = peer as u8;
        sends.push(dev.isend(data, peer, round as i32, comm).expect("isend"));
    }
    for (peer, r) in receives {
        let done = dev.wait(r).expect("a message");
        assert_eq!((done.status.source, done.status.tag, done.status.len), (peer, round as i32, len));
        assert_eq!((done.buffer[0], done.buffer[len - 1]), (me as u8, peer as u8 ^ 0x55));
    }
    dev.wait_all(sends).expect("sends");
}

#[test]
fn two_jobs_meet_exchange_and_part() {
    for (hosts, guests, host_root, guest_root) in [(1, 1, 0, 0), (3, 2, 1, 1), (1, 4, 0, 2)] {
        let name: Slot<String> = Slot::new();
        let theirs = name.clone();
        let host = job(hosts, move |dev| {
            let world = dev.world();
            let port = at_root(dev, host_root, || ()).map(|()| dev.open_port().expect("a port"));
            if let Some(p) = &port {
                theirs.set(p.to_string());
            }
            let inter = dev.accept(port.as_ref(), world, host_root, LONG).expect("accept");
            assert_eq!((inter.remote_size(), dev.comm_size(inter.comm()).unwrap()), (guests, guests));
            for len in [2, 100, 300_000] {
                exchange(dev, &inter, len, len);
            }
            dev.disconnect_comm(inter).expect("disconnect");
            if let Some(p) = port {
                dev.close_port(&p).expect("an open port");
                assert!(dev.close_port(&p).unwrap_err().to_string().contains("not open"));
            }
        });
        let guest = job(guests, move |dev| {
            let port: Option<PortName> =
                at_root(dev, guest_root, || name.get().parse().expect("a port name"));
            let world = dev.world();
            let inter = dev.connect(port.as_ref(), world, guest_root, LONG).expect("connect");
            assert_eq!(inter.remote_size(), hosts);
            for len in [2, 100, 300_000] {
                exchange(dev, &inter, len, len);
            }
            dev.disconnect_comm(inter).expect("disconnect");
        });
        host.join().expect("the host");
        guest.join().expect("the guests");
    }
}

/// Messages of a meeting match nothing of the job or of another meeting, whatever their contexts
/// are at the other end; duplicates are kept apart too; all end with the meeting.
#[test]
fn communicators_of_a_meeting_are_its_own() {
    let names: [Slot<String>; 2] = [Slot::new(), Slot::new()];
    let host = |name: Slot<String>, offset: u8| {
        job(2, move |dev| {
            let world = dev.world();
            // Contexts differ at the two ends.
            for _ in 0..offset {
                let _ = dev.dup(world).expect("a context");
            }
            let port = at_root(dev, 0, || ()).map(|()| dev.open_port().expect("a port"));
            if let Some(p) = &port {
                name.set(p.to_string());
            }
            let inter = dev.accept(port.as_ref(), world, 0, LONG).expect("accept");
            let again = dev.dup(inter.comm()).expect("a context");
            assert!(dev.barrier(inter.comm()).unwrap_err().to_string().contains("another job"));
            let me = dev.rank() as u8;
            dev.send(&[offset, me, 2], 0, 5, again).expect("send");
            dev.send(&[offset, me, 1], 0, 5, inter.comm()).expect("send");
            dev.disconnect_comm(inter).expect("disconnect");
        })
    };
    let hosts = [host(names[0].clone(), 1), host(names[1].clone(), 7)];
    let guest = job(1, move |dev| {
        let world = dev.world();
        let ports: Vec<PortName> = names.iter().map(|n| n.get().parse().expect("a port name")).collect();
        let inters: Vec<InterComm> =
            ports.iter().map(|p| dev.connect(Some(p), world, 0, LONG).expect("connect")).collect();
        let again: Vec<_> = inters.iter().map(|i| dev.dup(i.comm()).expect("a context")).collect();
        let local = dev.irecv(vec![0; 3], ANY_SOURCE, ANY_TAG, world).expect("irecv");
        for (i, offset) in [(1, 7), (0, 1)] {
            for (comm, last) in [(inters[i].comm(), 1), (again[i], 2)] {
                let mut seen = [false; 2];
                for _ in 0..2 {
                    let mut got = [0; 3];
                    let status = dev.probe(ANY_SOURCE, ANY_TAG, comm).expect("probe");
                    assert_eq!(status.len, 3);
                    let status = dev.recv(&mut got, ANY_SOURCE, 5, comm).expect("recv");
                    assert_eq!(got, [offset, status.source as u8, last]);
                    assert!(!std::mem::replace(&mut seen[status.source as usize], true));
                }
                assert_eq!(dev.iprobe(ANY_SOURCE, ANY_TAG, comm).expect("iprobe"), None);
            }
        }
        assert!(matches!(dev.send(&[1], 2, 0, inters[0].comm()), Err(Error::Rank { rank: 2, size: 2 })));
        assert!(matches!(dev.send(&[1], 0, -3, inters[0].comm()), Err(Error::Tag(-3))));
        dev.send(&[1, 2, 3], 0, 9, world).expect("send to itself");
        assert_eq!(dev.wait(local).expect("recv from itself").buffer, [1, 2, 3]);
        // A receive that matches nothing fails when the jobs part, a communicator that is left over
        // is of no use.
        let inters: Vec<_> = inters.into_iter().map(|i| (i.comm(), i)).collect();
        for ((comm, inter), dup) in inters.into_iter().zip(again) {
            let left = dev.irecv(vec![0; 3], ANY_SOURCE, 77, dup).expect("irecv");
            dev.disconnect_comm(inter).expect("disconnect");
            let e = dev.wait(left).expect_err("a receive of a group that is gone");
            assert!(e.to_string().contains("disconnected"), "{e}");
            for comm in [comm, dup] {
                let e = dev.send(&[1], 0, 0, comm).expect_err("a communicator of a group that is gone");
                assert!(matches!(&e, Error::Usage(t) if t.contains("disconnected")), "{e}");
                assert!(dev.dup(comm).is_err() && dev.irecv(vec![], 0, 0, comm).is_err());
            }
        }
        assert_eq!(
            (dev.live_vcs(), dev.live_requests(), dev.posted_len(), dev.unexpected_len()),
            (0, 0, 0, 0)
        );
    });
    guest.join().expect("the guest");
    for h in hosts {
        h.join().expect("a host");
    }
}

#[test]
fn nobody_comes_or_nobody_accepts() {
    let name: Slot<String> = Slot::new();
    let over: Slot<()> = Slot::new();
    let (theirs, wait) = (name.clone(), over.clone());
    let host = job(2, move |dev| {
        let world = dev.world();
        let port = at_root(dev, 0, || ()).map(|()| dev.open_port().expect("a port"));
        let e = text_of(dev.accept(port.as_ref(), world, 0, SHORT));
        assert!(e.contains("nobody has connected") && e.contains("300ms"), "{e}");
        // The port is still good: guests find it, though nobody accepts.
        if let Some(p) = &port {
            theirs.set(p.to_string());
            while !matches!(wait.0.0.lock().unwrap().as_ref(), Some(())) {
                dev.progress().expect("progress");
                std::thread::yield_now();
            }
        }
        let e = text_of(dev.accept(port.as_ref(), world, 0, SHORT));
        assert!(e.contains("nobody has connected"), "a guest that has gone is forgotten: {e}");
        if let Some(p) = &port {
            dev.close_port(p).expect("an open port");
            assert_eq!(dev.live_vcs(), 1, "that with the other rank");
        }
    });
    let guest = job(2, move |dev| {
        let world = dev.world();
        let port: Option<PortName> = at_root(dev, 1, || name.get().parse().expect("a port name"));
        let begun = Instant::now();
        let e = text_of(dev.connect(port.as_ref(), world, 1, 2 * SHORT));
        assert!(e.contains("nobody has accepted") && e.contains("600ms"), "{e}");
        assert!(begun.elapsed() >= 2 * SHORT);
        dev.barrier(world).expect("barrier");
        over.set(());
        assert_eq!(dev.live_vcs(), 1, "that with the other rank");
    });
    guest.join().expect("the guests");
    host.join().expect("the hosts");
}

/// The name of an altered port: the same text with another key, or another tag.
fn forged(text: &str, at: usize) -> PortName {
    let mut bytes = from_text(text.strip_prefix("netmod-port:").expect("a port name")).expect("base64url");
    bytes.truncate(bytes.len() - 4);
    bytes[at] ^= 1;
    let crc = crc32(&bytes).to_le_bytes();
    bytes.extend_from_slice(&crc);
    format!("netmod-port:{}", to_text(&bytes)).parse().expect("a port name")
}

/// A wrong key, a port that was closed, a job that has ended: told within the deadline, and all the
/// ranks say the same.
#[test]
fn ports_that_do_not_answer() {
    let name: Slot<String> = Slot::new();
    let over: Slot<()> = Slot::new();
    let (theirs, wait) = (name.clone(), over.clone());
    let host = job(1, move |dev| {
        let port = dev.open_port().expect("a port");
        let closed = dev.open_port().expect("a port");
        dev.close_port(&closed).expect("an open port");
        theirs.set(format!("{port} {closed}"));
        while !matches!(wait.0.0.lock().unwrap().as_ref(), Some(())) {
            dev.progress().expect("progress");
            std::thread::yield_now();
        }
        let e = text_of(dev.accept(Some(&closed), dev.world(), 0, SHORT));
        assert!(e.contains("not open at the root, rank 0"), "{e}");
        let e = text_of(dev.accept(None, dev.world(), 0, SHORT));
        assert!(e.contains("the root must name the port"), "{e}");
        assert!(matches!(dev.accept(Some(&port), dev.world(), 1, SHORT), Err(Error::Rank { .. })));
        assert!(
            dev.netmod_report::<TcpReport>().expect("tcp").stats.unauthenticated > 0,
            "the forger was counted"
        );
        assert_eq!((dev.live_vcs(), dev.unexpected_len()), (0, 0));
    });
    let tune = |c: &mut Config| c.tcp.connect_timeout = Duration::from_millis(500);
    let guest = job_with(2, tune, move |dev| {
        let world = dev.world();
        let both = name.get();
        let (port, closed) = both.split_once(' ').expect("two names");
        let (port, closed) = (Some(port), closed.parse::<PortName>().expect("a port name"));
        let key = forged(port.expect("a port name"), 9);
        let tag = forged(port.expect("a port name"), 1);
        for (what, port, words) in [
            ("a wrong key", &key, "does not know the key"),
            ("a port that was closed", &closed, "nobody accepts on that port"),
            ("a port that never was", &tag, "nobody accepts on that port"),
        ] {
            // Longer than a connection is tried for, and shorter.
            for timeout in [LONG, SHORT] {
                let port = at_root(dev, 0, || port);
                let e = text_of(dev.connect(port, world, 0, timeout));
                assert!(e.contains(words) && e.contains("connect to port"), "{what}, {timeout:?}: {e}");
            }
        }
        dev.barrier(world).expect("barrier");
        over.set(());
        port.expect("a port name").to_owned()
    });
    let names = guest.join().expect("the guests");
    host.join().expect("the host");
    let gone: PortName = names[0].parse().expect("a port name");
    let late = job_with(1, tune, move |dev| {
        let e = text_of(dev.connect(Some(&gone), dev.world(), 0, LONG));
        assert!(e.contains("refused") && e.contains("still alive"), "{e}");
        let e = text_of(dev.connect(None, dev.world(), 0, LONG));
        assert!(e.contains("the root must name the port"), "{e}");
        assert_eq!((dev.live_vcs(), dev.live_requests()), (0, 0));
    });
    late.join().expect("the one that came late");
}

/// A rank that does not make the call lets it fail at all others, and joins in the next time.
#[test]
fn a_rank_that_does_not_join_in() {
    let name: Slot<String> = Slot::new();
    let theirs = name.clone();
    let host = job_with(
        3,
        |c| c.close_timeout = Duration::from_secs(5),
        move |dev| {
            let world = dev.world();
            let port = at_root(dev, 0, || ()).map(|()| dev.open_port().expect("a port"));
            if dev.rank() == 2 {
                std::thread::sleep(3 * SHORT);
            }
            let e = text_of(dev.accept(port.as_ref(), world, 0, SHORT));
            assert!(e.contains("rank 2 of this job did not join in"), "{e}");
            if let Some(p) = &port {
                theirs.set(p.to_string());
            }
            let inter = dev.accept(port.as_ref(), world, 0, LONG).expect("accept");
            exchange(dev, &inter, 1, 100);
            dev.disconnect_comm(inter).expect("disconnect");
        },
    );
    let guest = job(1, move |dev| {
        let port: PortName = name.get().parse().expect("a port name");
        let inter = dev.connect(Some(&port), dev.world(), 0, LONG).expect("connect");
        exchange(dev, &inter, 1, 100);
        dev.disconnect_comm(inter).expect("disconnect");
    });
    guest.join().expect("the guest");
    host.join().expect("the hosts");
}

/// Jobs that come at once are served one after the other, in the order in which they came.
#[test]
fn jobs_that_come_at_once_are_queued() {
    const GUESTS: usize = 5;
    let name: Slot<String> = Slot::new();
    let theirs = name.clone();
    let host = job(2, move |dev| {
        let world = dev.world();
        let port = at_root(dev, 0, || ()).map(|()| dev.open_port().expect("a port"));
        if let Some(p) = &port {
            theirs.set(p.to_string());
        }
        let inters: Vec<InterComm> =
            (0..GUESTS).map(|_| dev.accept(port.as_ref(), world, 0, LONG).expect("accept")).collect();
        for inter in &inters {
            exchange(dev, inter, 1, 1000);
        }
        for inter in inters {
            dev.disconnect_comm(inter).expect("disconnect");
        }
    });
    let guests: Vec<_> = (0..GUESTS)
        .map(|i| {
            let name = name.clone();
            job(1 + i as u32 % 2, move |dev| {
                let world = dev.world();
                let port: Option<PortName> = at_root(dev, 0, || name.get().parse().expect("a port name"));
                let inter = dev.connect(port.as_ref(), world, 0, LONG).expect("connect");
                exchange(dev, &inter, 1, 1000);
                dev.disconnect_comm(inter).expect("disconnect");
            })
        })
        .collect();
    for g in guests {
        g.join().expect("a guest");
    }
    host.join().expect("the hosts");
}

/// Parting waits for what is under way, and says what never ends.
#[test]
fn parting_waits_for_sends_and_names_those_that_are_not_received() {
    let name: Slot<String> = Slot::new();
    let theirs = name.clone();
    let tune = |c: &mut Config| c.close_timeout = Duration::from_secs(1);
    let host = job_with(1, tune, move |dev| {
        let port = dev.open_port().expect("a port");
        theirs.set(port.to_string());
        // A send that is received while its sender waits in the call.
        let inter = dev.accept(Some(&port), dev.world(), 0, LONG).expect("accept");
        let big = dev.isend(vec![7; 3 << 20], 0, 1, inter.comm()).expect("isend");
        dev.disconnect_comm(inter).expect("disconnect");
        dev.wait(big).expect("the send");
        // One that nobody receives.
        let inter = dev.accept(Some(&port), dev.world(), 0, LONG).expect("accept");
        let big = dev.isend(vec![7; 3 << 20], 0, 1, inter.comm()).expect("isend");
        let e = dev.disconnect_comm(inter).expect_err("a send that is not received").to_string();
        assert!(e.contains("1 sends or receives of rank 0 were not finished"), "{e}");
        assert!(dev.wait(big).is_err());
        assert_eq!((dev.live_vcs(), dev.live_requests()), (0, 0));
    });
    let guest = job_with(1, tune, move |dev| {
        let port: PortName = name.get().parse().expect("a port name");
        let inter = dev.connect(Some(&port), dev.world(), 0, LONG).expect("connect");
        std::thread::sleep(SHORT / 3);
        let got = dev.irecv(vec![0; 3 << 20], 0, 1, inter.comm()).expect("irecv");
        assert!(dev.wait(got).expect("the message").buffer.iter().all(|b| *b == 7));
        dev.disconnect_comm(inter).expect("disconnect");
        let inter = dev.connect(Some(&port), dev.world(), 0, LONG).expect("connect");
        let e = dev.disconnect_comm(inter).expect_err("the other side's send").to_string();
        assert!(e.contains("the other job") && e.contains("not finished"), "{e}");
        assert_eq!((dev.live_vcs(), dev.live_requests(), dev.unexpected_len()), (0, 0, 0));
    });
    guest.join().expect("the guest");
    host.join().expect("the host");
}
