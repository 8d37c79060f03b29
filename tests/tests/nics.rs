//! Discovery, lookups and changes on hosts made for it: network namespaces, one thread in each.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netmod_matching::{Address, Answer, Canonical, Kind, Location, Nic, Query, Routes};
use netmod_nics::{Found, Kernel, Linux, Lookups, Plain, Socket, Watch};
use netmod_tests::jobs::launch::{self, launcher_or_skip};
use netmod_tests::jobs::sys::own_network;

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own.
struct Host {
    id: String,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn new() -> io::Result<Host> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let made = own_network();
            let failed = made.is_err();
            tell.send(made).expect("the maker waits");
            while !failed && let Ok(job) = todo.recv() {
                job();
            }
        });
        let id = told.recv().expect("the thread has said")?.to_string();
        Ok(Host { id, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Returns the result of a function on this host.
    fn on<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        let jobs = self.jobs.as_ref().expect("there until dropped");
        // A receiver that is gone has failed elsewhere.
        jobs.send(Box::new(move || drop(tell.send(f())))).expect("the thread lives");
        told.recv().expect("what ran on that host has panicked; see above")
    }

    /// Commands of ip(8), one a line; an empty line, or one that begins with #, is none.
    fn ip(&self, commands: &str) {
        let lines: Vec<&str> = commands.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let batch = lines.join("\n") + "\n";
        self.on(move || {
            let mut ip = Command::new("ip");
            ip.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut ip = ip.spawn().expect("ip");
            io::Write::write_all(&mut ip.stdin.take().expect("piped"), batch.as_bytes()).expect("ip reads");
            let done = ip.wait_with_output().expect("ip");
            assert!(done.status.success(), "{batch}{}", String::from_utf8_lossy(&done.stderr));
        });
    }

    fn found(&self) -> Found {
        self.on(|| Found::here().expect("netlink"))
    }

    fn nic(&self, name: &str) -> Nic {
        nic(&self.found(), name).clone()
    }

    /// A veth to another host, with the same name at both ends, up, with an address at this one.
    fn cable(&self, name: &str, other: &Host, address: &str) {
        self.ip(&format!(
            "link add {name} type veth peer name {name} netns {}
             link set {name} addrgenmode none
             link set {name} up
             addr add {address} dev {name}{}",
            other.id,
            // An address that is being checked for duplicates is changed when that ends.
            if address.contains(':') { " nodad" } else { "" }
        ));
        other.ip(&format!("link set {name} addrgenmode none\nlink set {name} up"));
    }

    /// Lookups by name of the interface, source and destination.
    fn ask(&self, asked: &[(&str, &str, &str, Answer)]) {
        let found = self.found();
        let queries: Vec<Query> = asked
            .iter()
            .map(|(name, from, to, _)| Query {
                index: nic(&found, name).index,
                from: from.parse().expect("an address"),
                to: to.parse().expect("an address"),
            })
            .collect();
        let (put, mut record) = (queries.clone(), found.host);
        let (answers, record, notes) = self.on(move || {
            let mut lookups = Lookups::here();
            record.ask(&mut lookups);
            (lookups.ask(&put), Canonical::new(&record).host, lookups.notes().to_vec())
        });
        // The record says the same as the tables, for all that a peer could ask.
        let own = |ip| record.nics.iter().any(|n| n.addresses.iter().any(|a| a.ip == ip));
        for ((asked, query), answer) in asked.iter().zip(&queries).zip(&answers) {
            assert_eq!(asked.3, *answer, "{asked:?}");
            if !own(query.to) && query.from.is_ipv4() == query.to.is_ipv4() {
                assert_eq!(record.answer(query), *answer, "{asked:?}: {:?}", record.reach);
            }
        }
        assert_eq!(answers.len(), asked.len());
        assert_eq!(notes, [""; 0]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there is one of the test's, too.
            drop(thread.join());
        }
    }
}

fn nic<'a>(found: &'a Found, name: &str) -> &'a Nic {
    found.host.nics.iter().find(|nic| nic.name == name).unwrap_or_else(|| panic!("no {name} in {found:?}"))
}

fn addresses(nic: &Nic) -> Vec<String> {
    nic.addresses.iter().map(|a: &Address| format!("{}/{}", a.ip, a.prefix)).collect()
}

/// Two hosts, or none if the test is skipped.
#[track_caller]
fn hosts(test: &str) -> Option<[Host; 2]> {
    launcher_or_skip(test, "ip", "iproute2")?;
    match (Host::new(), Host::new()) {
        (Ok(a), Ok(b)) => Some([a, b]),
        (Err(why), _) | (_, Err(why)) => {
            launch::skip(&format!("SKIPPED: {test}: no network namespaces ({why}); run it as root"));
            None
        }
    }
}

/// Waits for what the kernel does in its own time.
#[track_caller]
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn interfaces_of_all_kinds_that_the_kernel_has() {
    let Some([a, b]) = hosts("interfaces_of_all_kinds_that_the_kernel_has") else { return };
    a.cable("e0", &b, "10.1.0.1/24");
    a.cable("e1", &b, "fd00:1::1/64");
    a.cable("c0", &b, "169.254.7.7/16");
    b.ip(&format!("link add out link e0 netns {} type macvlan", a.id));
    a.ip("link set lo up
          link add docker0 type bridge
          addr add 172.17.0.1/16 dev docker0
          link set docker0 up
          link set c0 master docker0
          link add br0 type bridge
          link set out master br0
          link add mv0 link e0 type macvlan
          link set e0 mtu 1450
          tuntap add tun0 mode tun
          addr add 10.9.0.1 peer 10.9.0.2/32 dev tun0
          tuntap add tap0 mode tap
          link add vx0 type vxlan id 4 dstport 4789 dev e0");
    let found = a.found();
    for (name, kind) in [
        ("lo", Kind::Loopback),
        ("e0", Kind::Veth),
        ("e1", Kind::Veth),
        ("c0", Kind::Port),
        ("docker0", Kind::BridgeIn),
        ("out", Kind::Port),
        ("br0", Kind::BridgeOut),
        ("mv0", Kind::Macvlan),
        ("tun0", Kind::Tunnel),
        ("tap0", Kind::Tunnel),
        ("vx0", Kind::Tunnel),
    ] {
        assert_eq!(nic(&found, name).kind, kind, "{name}");
    }
    assert_eq!(addresses(nic(&found, "e0")), ["10.1.0.1/24"]);
    assert_eq!(addresses(nic(&found, "e1")), ["fd00:1::1/64"]);
    assert_eq!(addresses(nic(&found, "tun0")), ["10.9.0.1/32"]);
    assert_eq!(addresses(nic(&found, "lo")), ["127.0.0.1/8", "::1/128"]);
    assert_eq!(nic(&found, "e0").mtu, 1450);
    // The speed is veth's own answer: /sys shows another namespace here. An interface that is down
    // is not asked.
    assert_eq!((nic(&found, "e0").speed, nic(&found, "tap0").speed), (Some(10000), None));
    // The bridge loses the way out.
    a.ip("link set out nomaster");
    assert_eq!(a.nic("br0").kind, Kind::BridgeIn);
    assert_eq!(a.nic("out").kind, Kind::Macvlan);
}

#[test]
fn places_differ_between_namespaces_and_not_between_looks() {
    let Some([a, b]) = hosts("places_differ_between_namespaces_and_not_between_looks") else { return };
    let [place_a, place_b] = [&a, &b].map(|host| host.found().host.location);
    let own = Found::here().expect("netlink").host.location;
    assert!(place_a.is_same(&a.found().host.location));
    for (one, other) in [(place_a, place_b), (place_a, own), (place_b, own)] {
        assert!(!one.is_same(&other));
        assert_eq!(one.boot, other.boot);
        assert_ne!(one.boot, [0; 16]);
        assert!(one.netns != 0 && other.netns != 0);
    }
}

#[test]
fn routes_of_ipv4() {
    let Some([a, b]) = hosts("routes_of_ipv4") else { return };
    for (name, address) in [
        ("e0", "10.1.0.1/24"),
        ("e1", "10.1.0.2/24"),
        ("e2", "10.128.0.2/32"),
        ("e3", "10.3.0.1/24"),
        ("e4", "10.2.0.1/24"),
    ] {
        a.cable(name, &b, address);
    }
    a.ip("route add default via 10.1.0.254 dev e0
          route add 10.9.0.0/16 via 10.1.0.254 dev e0
          route add 10.128.0.1/32 dev e2
          route add 10.128.0.0/20 via 10.128.0.1 dev e2
          route add blackhole 10.21.0.0/16
          route add unreachable 10.22.0.0/16
          route add prohibit 10.23.0.0/16
          route add 10.24.0.0/16 nexthop via 10.1.0.253 dev e0 nexthop dev e1
          rule add from 10.2.0.1 lookup 100
          route add default via 10.2.0.254 dev e4 table 100");
    a.ask(&[
        ("e0", "10.1.0.1", "10.1.0.77", Answer::OnLink),
        ("e1", "10.1.0.2", "10.1.0.77", Answer::OnLink),
        ("e0", "10.1.0.1", "10.1.0.2", Answer::OnLink),
        ("e0", "10.1.0.1", "10.9.0.1", Answer::Gateway),
        ("e1", "10.1.0.2", "10.9.0.1", Answer::None),
        ("e0", "10.1.0.1", "192.168.1.1", Answer::Default),
        ("e1", "10.1.0.2", "192.168.1.1", Answer::None),
        ("e2", "10.128.0.2", "10.128.0.1", Answer::OnLink),
        ("e2", "10.128.0.2", "10.128.0.3", Answer::Gateway),
        ("e3", "10.3.0.1", "10.9.0.1", Answer::None),
        ("e0", "10.1.0.1", "10.21.0.1", Answer::None),
        ("e0", "10.1.0.1", "10.22.0.1", Answer::None),
        ("e0", "10.1.0.1", "10.23.0.1", Answer::None),
        ("e0", "10.1.0.1", "10.24.0.1", Answer::Gateway),
        ("e1", "10.1.0.2", "10.24.0.1", Answer::OnLink),
        // A table of its own, by the source.
        ("e4", "10.2.0.1", "10.9.0.1", Answer::Default),
        ("e4", "10.2.0.1", "10.2.0.2", Answer::Default),
    ]);
    // The default route of packets, whatever the source.
    let found = a.found();
    let index = move |name: &str| Some(nic(&found, name).index);
    let left = a.on(|| {
        let mut lookups = Lookups::here();
        [
            ("10.1.0.1", "10.1.0.77"),
            ("10.1.0.2", "10.1.0.77"),
            ("10.2.0.1", "10.9.0.1"),
            ("10.1.0.1", "10.9.0.1"),
            ("10.1.0.1", "10.21.0.1"),
            ("10.1.0.1", "fd00::1"),
        ]
        .map(|(from, to)| {
            lookups.leaves_by(from.parse().expect("an address"), to.parse().expect("an address"))
        })
    });
    assert_eq!(left, [index("e0"), index("e0"), index("e4"), index("e0"), None, None]);
    // An address of another family, and no address: neither hides what is known of the rest.
    a.ask(&[("e0", "10.1.0.1", "fd00::1", Answer::None), ("e0", "10.1.0.1", "10.1.0.9", Answer::OnLink)]);
    // Down, there is no route.
    a.ip("link set e1 down");
    a.ask(&[("e1", "10.1.0.2", "10.1.0.77", Answer::None), ("e0", "10.1.0.1", "10.1.0.77", Answer::OnLink)]);
}

#[test]
fn routes_of_ipv6_and_by_gateways_of_the_other_family() {
    let Some([a, b]) = hosts("routes_of_ipv6_and_by_gateways_of_the_other_family") else { return };
    a.cable("e0", &b, "fd00:1::1/64");
    a.cable("e1", &b, "fd00:1::2/64");
    a.ip("addr add 10.1.0.1/24 dev e0
          addr add fe80::a/64 dev e0 nodad
          route add 10.20.0.0/16 via inet6 fd00:1::254 dev e0
          route add default via fd00:1::254 dev e1
          route add fd00:24::/64 nexthop via fd00:1::253 dev e0 nexthop via fd00:1::252 dev e1
          route add fd00:25::/64 via fd00:1::253 dev e0
          route add blackhole fd00:21::/64
          route add unreachable fd00:22::/64
          route add prohibit fd00:23::/64");
    a.ask(&[
        ("e0", "10.1.0.1", "10.20.0.1", Answer::Gateway),
        ("e0", "fd00:1::1", "fd00:1::77", Answer::OnLink),
        ("e1", "fd00:1::2", "fd00:1::77", Answer::OnLink),
        ("e0", "fe80::a", "fe80::b", Answer::OnLink),
        ("e0", "fd00:1::1", "fd00:1::2", Answer::OnLink),
        ("e1", "fd00:1::2", "2001:db8::1", Answer::Default),
        ("e0", "fd00:1::1", "2001:db8::1", Answer::None),
        ("e0", "fd00:1::1", "fd00:24::1", Answer::Gateway),
        ("e1", "fd00:1::2", "fd00:24::1", Answer::Gateway),
        // e0 has the better route, and e1 one of its own.
        ("e0", "fd00:1::1", "fd00:25::1", Answer::Gateway),
        ("e1", "fd00:1::2", "fd00:25::1", Answer::Default),
        ("e0", "fd00:1::1", "fd00:21::1", Answer::None),
        ("e0", "fd00:1::1", "fd00:22::1", Answer::None),
        ("e0", "fd00:1::1", "fd00:23::1", Answer::None),
    ]);
}

#[test]
fn next_hops_that_are_objects() {
    let Some([a, b]) = hosts("next_hops_that_are_objects") else { return };
    a.cable("e0", &b, "10.1.0.1/24");
    a.cable("e1", &b, "10.2.0.1/24");
    a.ip("nexthop add id 7 via 10.1.0.9 dev e0
          nexthop add id 8 dev e0
          route add 10.5.0.0/16 nhid 7
          route add 10.6.0.0/16 nhid 8
          route add default nhid 7");
    let asked = [
        ("e0", "10.1.0.1", "10.5.0.1", Answer::Gateway),
        ("e1", "10.2.0.1", "10.5.0.1", Answer::None),
        ("e0", "10.1.0.1", "10.6.0.1", Answer::OnLink),
        ("e0", "10.1.0.1", "192.168.0.1", Answer::Default),
    ];
    a.ask(&asked);
    // Now the kernel shows nothing but the object's number.
    a.on(|| {
        let file = "/proc/sys/net/ipv4/nexthop_compat_mode";
        // It is the namespace of whoever opens it.
        std::fs::write(file, "0").unwrap_or_else(|e| panic!("{file}: {e}"));
    });
    a.ask(&asked);
}

#[test]
fn changes_are_heard_of_and_found() {
    let Some([a, b]) = hosts("changes_are_heard_of_and_found") else { return };
    a.cable("e0", &b, "10.1.0.1/24");
    let mut watch = a.on(|| Watch::here().expect("netlink"));
    let quiet = |watch: &mut Watch| {
        eventually("no more changes", || !watch.changed().expect("it lives"));
    };
    let changed = |watch: &mut Watch, what: &str| {
        eventually(what, || watch.changed().expect("it lives"));
    };
    quiet(&mut watch);
    assert!(a.nic("e0").up && a.nic("e0").carrier);

    b.ip("link set e0 down");
    changed(&mut watch, "the cable was pulled");
    let pulled = a.nic("e0");
    assert!(pulled.up && !pulled.carrier, "{pulled:?}");
    quiet(&mut watch);

    b.ip("link set e0 up");
    changed(&mut watch, "the cable is back");
    assert!(a.nic("e0").carrier);
    quiet(&mut watch);

    a.ip("addr add 10.1.0.2/24 dev e0");
    changed(&mut watch, "an address was added");
    quiet(&mut watch);
    a.ip("addr add fd00::2/64 dev e0 nodad");
    changed(&mut watch, "an IPv6 address was added");
    quiet(&mut watch);
    a.ip("route add 10.5.0.0/16 via 10.1.0.9");
    changed(&mut watch, "a route was added");
    quiet(&mut watch);
    a.ip("route add fd05::/64 via fd00::9");
    changed(&mut watch, "an IPv6 route was added");
    quiet(&mut watch);
    b.ip("link add other type bridge");
    assert!(!watch.changed().expect("it lives"), "another host's change");

    a.ip("link set e0 down");
    changed(&mut watch, "the interface was taken down");
    assert!(!a.nic("e0").up);
    a.ip("link del e0");
    changed(&mut watch, "the interface has gone");
    assert!(!a.found().host.nics.iter().any(|nic| nic.name == "e0"));
    quiet(&mut watch);
}

#[test]
fn a_thousand_interfaces() {
    let Some([a, b]) = hosts("a_thousand_interfaces") else { return };
    const COUNT: usize = 1000;
    a.cable("e0", &b, "10.1.0.1/16");
    let mut watch = a.on(|| Watch::here().expect("netlink"));
    // These have a carrier from the start. Whole hosts are told late of others' carriers if a
    // thousand change.
    let lines = |i: usize| {
        let address = format!("10.{}.{}.1/24", 100 + i / 250, i % 250);
        format!("link add n{i} type ifb\nlink set n{i} addrgenmode none\naddr add {address} dev n{i}\n")
    };
    a.ip(&(0..COUNT).map(lines).collect::<String>());
    // More than its buffer has room for; that is a change, and the last one.
    assert!(watch.changed().expect("it lives"));
    eventually("no more changes", || !watch.changed().expect("it lives"));

    let found = a.found();
    assert_eq!(found.notes, [""; 0]);
    let made: Vec<&Nic> = found.host.nics.iter().filter(|nic| nic.name.starts_with('n')).collect();
    assert_eq!(made.len(), COUNT);
    for nic in made {
        let i: usize = nic.name[1..].parse().expect("its number");
        assert_eq!(addresses(nic), [format!("10.{}.{}.1/24", 100 + i / 250, i % 250)]);
        assert_eq!((nic.kind, nic.up), (Kind::Dummy, false));
    }
    // Asked for all at once, each answer belongs to its question.
    let index = nic(&found, "e0").index;
    let from = [10, 1, 0, 1].into();
    let queries: Vec<Query> = (0..COUNT)
        .map(|i| Query {
            index,
            from,
            to: [10, if i % 3 == 0 { 2 } else { 1 }, 1 + (i / 200) as u8, (i % 200) as u8].into(),
        })
        .collect();
    let answers = a.on(move || Lookups::here().ask(&queries));
    for (i, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if i % 3 == 0 { Answer::None } else { Answer::OnLink }, "{i}");
    }
}

#[test]
fn interfaces_that_come_and_go_hide_no_others() {
    let Some([a, b]) = hosts("interfaces_that_come_and_go_hide_no_others") else { return };
    a.cable("e0", &b, "10.1.0.1/24");
    let stays = a.nic("e0");
    let stop = Arc::new(AtomicBool::new(false));
    let looking = Arc::clone(&stop);
    let (tell, told) = mpsc::channel();
    // A second thread in the namespace of the first, which is busy with ip.
    a.on(move || {
        std::thread::spawn(move || {
            let mut looks = Vec::new();
            while !looking.load(Ordering::Relaxed) {
                looks.push(Found::here().expect("netlink"));
            }
            drop(tell.send(looks));
        });
    });
    for _ in 0..3 {
        a.ip(&(0..12).map(|i| format!("link add n{i} type ifb\n")).collect::<String>());
        a.ip(&(0..12).map(|i| format!("link del n{i}\n")).collect::<String>());
    }
    stop.store(true, Ordering::Relaxed);
    let looks = told.recv().expect("a look that failed; see above");
    for found in &looks {
        assert_eq!(*nic(found, "e0"), stays);
        let mut indexes: Vec<u32> = found.host.nics.iter().map(|nic| nic.index).collect();
        indexes.dedup();
        assert_eq!(indexes.len(), found.host.nics.len(), "one is there twice");
        assert!(found.notes.iter().all(|n| n.contains("kept changing")), "{:?}", found.notes);
    }
    assert!(looks.iter().any(|found| found.host.nics.len() > 2), "{} looks saw no change", looks.len());
}

/// Linux without netlink.
struct Forbidden(Linux);

impl Kernel for Forbidden {
    type Channel = Socket;

    fn netlink(&self) -> io::Result<Socket> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn speed(&self, name: &str) -> io::Result<Option<u32>> {
        self.0.speed(name)
    }

    fn location(&self, notes: &mut Vec<String>) -> Location {
        self.0.location(notes)
    }

    fn plain(&self) -> io::Result<Plain> {
        self.0.plain()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[test]
fn without_netlink_the_same_interfaces_are_found() {
    let Some([a, b]) = hosts("without_netlink_the_same_interfaces_are_found") else { return };
    for (name, address) in
        [("e0", "10.1.0.1/24"), ("e1", "fd00:1::1/64"), ("e2", "10.2.0.1/20"), ("e3", "10.3.0.1/31")]
    {
        a.cable(name, &b, address);
    }
    a.ip("link set lo up
          addr add 10.1.0.2/24 dev e0
          addr add 10.7.0.1/16 dev e0 label e0:7
          link set e1 mtu 1400
          link add br0 type bridge
          tuntap add tun0 mode tun
          addr add 10.9.0.1 peer 10.9.0.2/32 dev tun0");
    // More than one call of the kernel's has room for.
    a.ip(&(2..90).map(|i| format!("addr add 10.8.0.{i}/24 dev e3\n")).collect::<String>());
    b.ip("link set e2 down");
    let comparable = |mut found: Found| {
        for nic in &mut found.host.nics {
            nic.addresses.sort();
            // /sys shows another namespace's.
            nic.kind = Kind::default();
        }
        found.host
    };
    // Carriers are reported in the kernel's own time.
    eventually("both ways agree", || {
        let with = comparable(a.found());
        let without = a.on(|| Found::by(&Forbidden(Linux::new())).expect("ioctl and /proc"));
        assert!(without.notes[0].contains("netlink"), "{:?}", without.notes);
        let without = comparable(without);
        assert_eq!(with.nics.len(), 7);
        with == without
    });
    let answers = a.on(|| {
        let mut lookups = Lookups::by(&Forbidden(Linux::new()));
        let answers =
            lookups.ask(&[Query { index: 1, from: [10, 1, 0, 1].into(), to: [10, 1, 0, 2].into() }; 3]);
        (answers, lookups.notes().len())
    });
    assert_eq!(answers, (vec![Answer::Unknown; 3], 1));
}
