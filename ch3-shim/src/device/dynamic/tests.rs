//! Joins of two jobs in which one side falls silent, dies or talks nonsense at each of its steps.
//! Both sides are singletons of this process; the one at fault is played by hand.

use std::os::fd::RawFd;
use std::time::Instant;

use crate::Config;

use super::*;
use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::{Builder, Device};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(400);

/// A job of one process.
struct Alone(String, std::collections::HashMap<String, Vec<u8>>);

impl Bootstrap for Alone {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        1
    }
    fn job_id(&self) -> String {
        self.0.clone()
    }
    fn local_size(&self) -> u32 {
        4
    }
    fn put(&mut self, key: &str, value: &[u8]) -> std::result::Result<(), BootstrapError> {
        self.1.insert(key.into(), value.to_vec());
        Ok(())
    }
    fn get(&mut self, key: &str) -> std::result::Result<Option<Vec<u8>>, BootstrapError> {
        Ok(self.1.get(key).cloned())
    }
    fn barrier_begin(&mut self) -> std::result::Result<(), BootstrapError> {
        Ok(())
    }
    fn barrier_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        Ok(true)
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn finalize_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        Ok(true)
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("aborted with {code}: {message}")
    }
}

fn device(job: &str) -> Device {
    device_with(job, SHORT)
}

/// A device with a time for what others have to do before it parts from them.
fn device_with(job: &str, close_timeout: Duration) -> Device {
    let mut cfg = Config::default();
    cfg.netmods = vec!["tcp".into()];
    cfg.tcp.interface = "127.0.0.1".into();
    cfg.close_timeout = close_timeout;
    let job = format!("{job}-{}-{:?}", std::process::id(), std::thread::current().id());
    Builder::new(cfg, Box::new(Alone(job, Default::default()))).build().expect("a device")
}

/// The way in which a process stops to play its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Dies,
    FallsSilent,
    TalksNonsense,
    SaysItAgain,
}

const FAULTS: [Fault; 4] = [Fault::Dies, Fault::FallsSilent, Fault::TalksNonsense, Fault::SaysItAgain];

/// Ends a part by its fault. The device comes back if it still lives.
fn fail(mut dev: Device, comm: Comm, last: &Word, fault: Fault) -> Option<Device> {
    let nonsense = match fault {
        Fault::Dies => return None,
        Fault::FallsSilent => return Some(dev),
        Fault::TalksNonsense => b"NMD1\xffnonsense".to_vec(),
        Fault::SaysItAgain => last.emit(),
    };
    // The other side may have given up already.
    if dev.say(&nonsense, ROOT, ROOT_TAG, comm).is_ok() {
        let _ = dev.progress();
    }
    Some(dev)
}

/// Keeps a silent device alive, and making progress, until the other side is through.
fn linger(dev: &mut Device, until: &std::sync::atomic::AtomicBool) {
    let end = Instant::now() + LONG;
    while !until.load(std::sync::atomic::Ordering::Acquire) && Instant::now() < end {
        dev.progress().expect("progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn own_party(dev: &Device) -> Party {
    Party { root: 0, roster: vec![dev.ch3.lookups.own_card.clone()] }
}

fn call(dev: &mut Device, what: &'static str, timeout: Duration) -> Call {
    let world = dev.world();
    dev.begin(what, world, 0, timeout).expect("a call")
}

/// Connects to a port, and plays a guest up to a step: 0 the connection, 1 the offer, 2 the
/// agreement.
fn guest_until(step: usize, port: &PortName, fault: Fault) -> Option<Device> {
    let mut dev = device("bad guest");
    let end = call(&mut dev, "connect", LONG).deadline;
    let me = PeerName { group: GroupId(random().expect("random bytes")), rank: ROOT };
    let met = RemoteGroup { id: port_group(port.tag), size: 1, me, key: port.key };
    let now = dev.now;
    let dev_ref: &mut Vci = &mut dev;
    let host = dev_ref.ch3.join(&mut dev_ref.engine.io(now), &met, Cards::Unknown).expect("a group");
    let io = &mut dev_ref.engine.io(now);
    let vc = dev_ref.ch3.connect_to_root(io, host, &port.card, port.tag).expect("a VC");
    let comm = dev.root_comm(host).expect("a communicator");
    let mut last = Word::Offer(own_party(&dev));
    if step == 0 {
        dev.wait_until(end, |d| d.engine.core.vc(vc).is_some_and(|v| v.stats.connects > 0)).expect("wait");
        return fail(dev, comm, &Word::Ready, fault);
    }
    dev.say(&last.emit(), ROOT, ROOT_TAG, comm).expect("an offer");
    if step == 2 {
        let terms = dev.hear(ROOT, ROOT_TAG, comm, end).expect("terms");
        assert!(matches!(terms, Some(Word::Terms { .. })), "{terms:?}");
        last = Word::Ready;
        dev.say(&last.emit(), ROOT, ROOT_TAG, comm).expect("agreement");
        // It agrees, and goes without having heard that the other side does.
        let _ = dev.progress();
    }
    fail(dev, comm, &last, fault)
}

/// Accepting goes on after any bad guest: the next guest is served, and nothing is left of the bad
/// one.
#[test]
fn bad_guests_do_not_keep_others_out() {
    for step in 0..2 {
        for fault in FAULTS {
            let mut host = device_with("host", LONG);
            let port = host.open_port().expect("a port");
            let (name, over) = (port.clone(), std::sync::atomic::AtomicBool::new(false));
            std::thread::scope(|s| {
                let over = &over;
                let bad_port = name.clone();
                s.spawn(move || {
                    if let Some(mut dev) = guest_until(step, &bad_port, fault) {
                        linger(&mut dev, over);
                    }
                });
                let silent = step == 1 && fault == Fault::FallsSilent;
                if silent {
                    // It has made an offer, however long it took to come, and does not answer: that
                    // takes all the time there is.
                    let end = host.deadline_in(LONG);
                    host.wait_until(end, |d| d.ch3.stats.unexpected > 0).expect("an offer");
                    let world = host.world();
                    let e =
                        host.accept(Some(&port), world, 0, SHORT).expect_err("nobody who agrees").to_string();
                    assert!(e.contains("nobody has connected") && e.contains("stopped talking"), "{e}");
                }
                s.spawn(move || {
                    let mut dev = device_with("guest", LONG);
                    let world = dev.world();
                    let inter = dev.connect(Some(&name), world, 0, LONG).expect("connect");
                    dev.send(b"good", 0, 3, inter.comm()).expect("send");
                    dev.disconnect_comm(inter).expect("disconnect");
                    dev.finalize().expect("finalize");
                });
                let world = host.world();
                let inter = host.accept(Some(&port), world, 0, LONG).expect("the good guest");
                let mut got = [0; 4];
                host.recv(&mut got, 0, 3, inter.comm()).expect("recv");
                assert_eq!(&got, b"good", "step {step}, {fault:?}");
                host.disconnect_comm(inter).expect("disconnect");
                over.store(true, std::sync::atomic::Ordering::Release);
            });
            host.close_port(&port).expect("an open port");
            let left = (host.live_vcs(), host.live_requests(), host.unexpected_len(), host.failed().len());
            assert_eq!(left, (0, 0, 0, 0), "step {step}, {fault:?}");
            assert_eq!(host.ch3.groups.iter().count(), 1);
            host.finalize().expect("finalize");
        }
    }
}

/// A guest that is lost after it has agreed: whether the host has noticed or not, it can part, and
/// nothing is left.
#[test]
fn a_guest_that_goes_after_it_has_agreed() {
    for fault in [Fault::Dies, Fault::TalksNonsense] {
        let mut host = device("host");
        let port = host.open_port().expect("a port");
        let name = port.clone();
        let guest = std::thread::spawn(move || drop(guest_until(2, &name, fault)));
        let world = host.world();
        match host.accept(Some(&port), world, 0, 2 * SHORT) {
            Ok(inter) => assert!(host.disconnect_comm(inter).is_err(), "{fault:?}"),
            Err(e) => assert!(e.to_string().contains("nobody has connected"), "{fault:?}: {e}"),
        }
        guest.join().expect("the guest");
        host.close_port(&port).expect("an open port");
        let left = (host.live_vcs(), host.live_requests(), host.unexpected_len(), host.failed().len());
        assert_eq!(left, (0, 0, 0, 0), "{fault:?}");
        host.finalize().expect("finalize");
    }
}

/// A host up to a step: 0 nothing is said to the guest, 1 terms, 2 the same and the guest's
/// agreement heard.
fn host_until(step: usize, mut dev: Device, port: &PortName, fault: Fault) -> Option<Device> {
    let end = call(&mut dev, "accept", LONG).deadline;
    let guest = dev.next_guest(port.tag, end).expect("progress").expect("a guest");
    let comm = dev.root_comm(guest).expect("a communicator");
    let party = own_party(&dev);
    let terms = Word::Terms { meeting: random().expect("random"), key: random().expect("random"), party };
    if step > 0 {
        dev.say(&terms.emit(), ROOT, ROOT_TAG, comm).expect("terms");
        dev.flush();
    }
    if step > 1 {
        let offer = dev.hear(ROOT, ROOT_TAG, comm, end).expect("an offer");
        assert!(matches!(offer, Some(Word::Offer(_))), "{offer:?}");
        let ready = dev.hear(ROOT, ROOT_TAG, comm, end).expect("agreement");
        assert!(matches!(ready, Some(Word::Ready)), "{ready:?}");
    }
    fail(dev, comm, &Word::Ack, fault)
}

/// Connecting to any bad host ends in time with an error, and nothing is left.
#[test]
fn bad_hosts_fail_connecting() {
    for step in 0..3 {
        for fault in FAULTS {
            let mut host = device("bad host");
            let port = host.open_port().expect("a port");
            let over = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|s| {
                let (over, name) = (&over, port.clone());
                s.spawn(move || {
                    if let Some(mut dev) = host_until(step, host, &name, fault) {
                        linger(&mut dev, over);
                    }
                });
                let mut dev = device("guest");
                let world = dev.world();
                let timeout = if fault == Fault::FallsSilent { SHORT } else { LONG };
                let begun = Instant::now();
                let e = dev.connect(Some(&port), world, 0, timeout).expect_err("a bad host");
                over.store(true, std::sync::atomic::Ordering::Release);
                assert!(begun.elapsed() < LONG, "step {step}, {fault:?}: {e}");
                let silent = fault == Fault::FallsSilent;
                assert_eq!(matches!(e, Error::Timeout(_)), silent, "step {step}, {fault:?}: {e}");
                assert!(e.to_string().starts_with("connect to port"), "step {step}, {fault:?}: {e}");
                let left = (dev.live_vcs(), dev.live_requests(), dev.unexpected_len(), dev.failed().len());
                assert_eq!(left, (0, 0, 0, 0), "step {step}, {fault:?}");
                assert_eq!(dev.ch3.groups.iter().count(), 1);
                dev.finalize().expect("finalize");
            });
        }
    }
}
