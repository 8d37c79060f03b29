//! Hosts with several interfaces: traffic goes by the pairs that were decided on, by the
//! interfaces' own counters, and goes on when one of them goes down.

use netmod_tests::hosts::{Hosts, Made, give, ip, plug};
use netmod_tests::jobs::outage::DOWN;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// More than what ARP, discovery of neighbours and probes take.
const NOISE: u64 = 20_000;
/// Less than what a case moves each way.
const TRAFFIC: u64 = 1_000_000;
/// One connection, so that each counter tells one pair.
const ONE: (&str, &str) = ("NETMOD_TCP_RAILS", "1");

/// Returns the bytes that all of a host's interfaces have carried, in and out together.
struct Counters<'a> {
    hosts: &'a Hosts,
    nics: &'a [&'a str],
    before: Vec<u64>,
}

impl<'a> Counters<'a> {
    fn new(hosts: &'a Hosts, nics: &'a [&'a str]) -> Counters<'a> {
        let mut counters = Counters { hosts, nics, before: Vec::new() };
        counters.before = counters.now();
        counters
    }

    fn now(&self) -> Vec<u64> {
        let of = |host| {
            self.nics.iter().map(move |nic| {
                let (rx, tx) = self.hosts.traffic(host, nic);
                rx + tx
            })
        };
        of(0).chain(of(1)).collect()
    }

    /// The traffic went by these interfaces of the two hosts, and by no others.
    #[track_caller]
    fn expect(&self, used: [&[&str]; 2]) {
        let now = self.now();
        for (i, (before, now)) in self.before.iter().zip(&now).enumerate() {
            let (host, nic) = (i / self.nics.len(), self.nics[i % self.nics.len()]);
            let moved = now - before;
            if used[host].contains(&nic) {
                assert!(moved > TRAFFIC, "host {host}: {nic} carried {moved} bytes");
            } else {
                assert!(moved < NOISE, "host {host}: {nic} carried {moved} bytes, and should have been idle");
            }
        }
    }
}

const SPEEDS: (&str, &str) = ("NETMOD_TCP_SPEED", "n0=1000,n1=100,n2=500,n3=10000,docker0=10000");

/// A fast cable, a slow one, a routed way, one that leads nowhere, and a docker0 with the same
/// address on both.
fn four_nics(h: &mut Hosts) -> Made {
    h.cable(["n0", "n0"], ["10.10.0.1/24", "10.10.0.2/24"])?;
    h.cable(["n1", "n1"], ["10.11.0.1/24", "10.11.0.2/24"])?;
    let router = h.other()?;
    ip(&["netns", "exec", &router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])?;
    for (host, subnet, far) in [(0, "10.20.1", "10.20.2"), (1, "10.20.2", "10.20.1")] {
        let name = h.name(host).to_owned();
        plug([(&name, "n2"), (&router, &format!("to{host}"))])?;
        give(&name, "n2", &format!("{subnet}.2/24"))?;
        give(&router, &format!("to{host}"), &format!("{subnet}.1/24"))?;
        h.ip(host, &["route", "add", &format!("{far}.0/24"), "via", &format!("{subnet}.1")])?;
        // Up, with an address, and nobody there.
        let nowhere = h.other()?;
        plug([(&name, "n3"), (&nowhere, "end")])?;
        give(&name, "n3", &format!("172.{}.0.1/16", 18 + host))?;
        ip(&["-n", &nowhere, "link", "set", "end", "up"])?;
        h.ip(host, &["link", "add", "docker0", "type", "bridge"])?;
        h.address(host, "docker0", "172.17.0.1/16")?;
    }
    Ok(())
}

const FOUR: &[&str] = &["n0", "n1", "n2", "n3", "docker0"];

#[test]
fn the_best_of_four_interfaces() {
    let Some(h) = Hosts::or_skip("the_best_of_four_interfaces", JOB, four_nics) else { return };
    let counters = Counters::new(&h, FOUR);
    h.run(&[ONE, SPEEDS], &["random", "5", "20"]).expect_ok("random", 2);
    counters.expect([&["n0"], &["n0"]]);
    // A pair that one side does not choose is not used by the other.
    let counters = Counters::new(&h, FOUR);
    let done =
        h.run(&[ONE, SPEEDS, ("NETMOD_TCP_INTERFACE", "n*,!n0,!10.11.0.0/16")], &["random", "5", "20"]);
    done.expect_ok("random", 2);
    counters.expect([&["n2"], &["n2"]]);
}

#[test]
fn an_interface_that_goes_down_in_mid_traffic() {
    for rank in ["0", "1"] {
        let Some(h) = Hosts::or_skip("an_interface_that_goes_down_in_mid_traffic", JOB, four_nics) else {
            return;
        };
        let counters = Counters::new(&h, FOUR);
        let down = format!("{rank} n0");
        // The other side hears of it by the new connection, long before it would find the old one
        // dead.
        h.run(&[ONE, SPEEDS, (DOWN, &down), ("NETMOD_TCP_DETECT", "60s")], &["departed"])
            .expect_ok("departed", 2);
        counters.expect([&["n0", "n2"], &["n0", "n2"]]);
    }
}

#[test]
fn connections_go_back_to_an_interface_that_comes_up_again() {
    for rank in ["0", "1"] {
        let test = "connections_go_back_to_an_interface_that_comes_up_again";
        let Some(h) = Hosts::or_skip(test, JOB, four_nics) else { return };
        let down = format!("{rank} n0");
        let env = [ONE, SPEEDS, (DOWN, &down), ("NETMOD_TCP_DETECT", "60s")];
        let done = h.run(&env, &["returned"]);
        done.expect_ok("returned", 2);
        assert_eq!(done.output.matches("back after").count(), 4, "{done}");
        let why = "from n2 to n0: there is a better way to the peer (1000 Mb/s instead of 500)";
        assert!(done.output.contains(why), "it says why: {done}");
    }
}

#[test]
fn a_cable_that_is_pulled_at_the_other_end() {
    // The host has a carrier until its peer's end goes down: with veth both ends lose it together.
    let Some(h) = Hosts::or_skip("a_cable_that_is_pulled_at_the_other_end", JOB, four_nics) else { return };
    h.ip(1, &["link", "set", "n0", "down"]).expect("an interface");
    let counters = Counters::new(&h, FOUR);
    h.run(&[ONE, SPEEDS], &["random", "5", "20"]).expect_ok("random", 2);
    counters.expect([&["n2"], &["n2"]]);
}

/// Two interfaces of each host at one switch.
fn one_subnet(h: &mut Hosts) -> Made {
    let switch = h.other()?;
    ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"])?;
    ip(&["-n", &switch, "link", "set", "switch", "up"])?;
    for (host, base) in [(0, 1), (1, 11)] {
        let name = h.name(host).to_owned();
        // Answers for an address by its own interface only.
        h.sysctl(host, "net.ipv4.conf.all.arp_ignore=1")?;
        h.sysctl(host, "net.ipv4.conf.all.arp_announce=2")?;
        for nic in 0..2 {
            let port = format!("p{host}{nic}");
            plug([(&name, &format!("e{nic}")), (&switch, &port)])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "switch", "up"])?;
            give(&name, &format!("e{nic}"), &format!("10.30.0.{}/24", base + nic))?;
        }
    }
    Ok(())
}

#[test]
fn two_interfaces_in_one_subnet_with_crossed_speeds() {
    let test = "two_interfaces_in_one_subnet_with_crossed_speeds";
    let Some(h) = Hosts::or_skip(test, JOB, one_subnet) else { return };
    let env = [ONE, ("NETMOD", "tcp")];
    let speeds = |a, b| [("NETMOD_TCP_SPEED", a), ("NETMOD_TCP_SPEED", b)];
    for (speeds, used) in [
        (speeds("e0=10000,e1=1000", "e0=1000,e1=10000"), [&["e0"], &["e1"]]),
        (speeds("e0=1000,e1=10000", "e0=10000,e1=1000"), [&["e1"], &["e0"]]),
        (speeds("e0=1000,e1=10000", "e0=1000,e1=10000"), [&["e1"], &["e1"]]),
    ] {
        let counters = Counters::new(&h, &["e0", "e1"]);
        let done = h.run_ranks(1, &env, [&speeds[..1], &speeds[1..]], &["random", "5", "20"]);
        done.expect_ok("random", 2);
        counters.expect([used[0], used[1]]);
        assert!(!done.output.contains("arp_ignore"), "{done}");
    }
}

/// A host answers for all its addresses by each of its interfaces, as Linux does by default.
#[test]
fn connections_that_come_by_another_interface_are_counted() {
    let test = "connections_that_come_by_another_interface_are_counted";
    let own: [&[(&str, &str)]; 2] =
        [&[("NETMOD_TCP_SPEED", "e0=10000,e1=1000")], &[("NETMOD_TCP_SPEED", "e0=1000,e1=10000")]];
    for (strict, strayed) in [(true, 0), (false, 1)] {
        let Some(h) = Hosts::or_skip(test, JOB, |h| {
            one_subnet(h)?;
            if !strict {
                // Pretends that the first host's slow interface had answered for the address of the
                // fast one.
                let slow = "02:00:00:00:00:e1";
                h.ip(0, &["link", "set", "e1", "address", slow])?;
                let at = ["dev", "e1", "lladdr", slow, "nud", "permanent"];
                h.ip(1, &[&["neigh", "replace", "10.30.0.1"][..], &at].concat())?;
            }
            Ok(())
        }) else {
            return;
        };
        let done = h.run_ranks(1, &[ONE, ("NETMOD", "tcp")], own, &["strays", "40", "50000", "1"]);
        done.expect_ok("strays", 2);
        // Rank 0 would not hear the answers to a dial of its own, and go by the other pair.
        let counted = done.output.matches(": 1 connections strayed").count();
        assert_eq!(counted, strayed, "{done}");
    }
}

/// Each interface answers for the address of the other one, on both hosts: no pinned socket hears
/// an answer.
#[test]
fn hosts_that_answer_by_the_wrong_interfaces_are_reached_all_the_same() {
    let test = "hosts_that_answer_by_the_wrong_interfaces_are_reached_all_the_same";
    let mac = |host: usize, nic: usize| format!("02:00:00:00:0{host}:e{nic}");
    let Some(h) = Hosts::or_skip(test, JOB, |h| {
        one_subnet(h)?;
        for host in 0..2 {
            for nic in 0..2 {
                h.ip(host, &["link", "set", &format!("e{nic}"), "address", &mac(host, nic)])?;
            }
        }
        for host in 0..2 {
            let base = if host == 0 { 11 } else { 1 };
            for (nic, by) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (to, wrong) = (format!("10.30.0.{}", base + nic), mac(1 - host, 1 - nic));
                let dev = format!("e{by}");
                h.ip(host, &["neigh", "replace", &to, "dev", &dev, "lladdr", &wrong, "nud", "permanent"])?;
            }
        }
        Ok(())
    }) else {
        return;
    };
    h.run(&[ONE], &["strays"]).expect_ok("strays", 2);
}

#[test]
fn hosts_without_ipv4() {
    let Some(h) = Hosts::or_skip("hosts_without_ipv4", JOB, |h| {
        h.cable(["n0", "n0"], ["fd00:10::1/64", "fd00:10::2/64"])?;
        h.cable(["n1", "n1"], ["fd00:11::1/64", "fd00:11::2/64"])
    }) else {
        return;
    };
    let counters = Counters::new(&h, &["n0", "n1"]);
    h.run(&[ONE, ("NETMOD_TCP_SPEED", "n0=100,n1=1000")], &["random", "5", "20"]).expect_ok("random", 2);
    counters.expect([&["n1"], &["n1"]]);
}

#[test]
fn hosts_with_link_local_addresses_only() {
    let Some(h) = Hosts::or_skip("hosts_with_link_local_addresses_only", JOB, |h| {
        h.cable(["n0", "n0"], ["fe80::1/64", "fe80::2/64"])
    }) else {
        return;
    };
    let counters = Counters::new(&h, &["n0"]);
    h.run(&[ONE], &["random", "5", "20"]).expect_ok("random", 2);
    counters.expect([&["n0"], &["n0"]]);
}

#[test]
fn hosts_without_a_way_say_why() {
    let Some(h) = Hosts::or_skip("hosts_without_a_way_say_why", JOB, |h| {
        h.cable(["n0", "n0"], ["10.10.0.1/24", "10.99.0.2/24"])?;
        for host in 0..2 {
            h.ip(host, &["link", "add", "docker0", "type", "bridge"])?;
            h.address(host, "docker0", "172.17.0.1/16")?;
        }
        Ok(())
    }) else {
        return;
    };
    let done = h.run(&[], &["random", "5", "6"]);
    assert!(!done.status.success(), "{done}");
    for part in [
        "no interface of this host has a way to one of the peer's",
        "n0 with its n0",
        "docker0",
        "netmod-perf pair",
    ] {
        assert!(done.output.contains(part), "{part}: {done}");
    }
}

/// Two cables of 500 Mb/s each.
fn two_rails(h: &mut Hosts) -> Made {
    for (nic, subnet) in [("n0", "10.40.0"), ("n1", "10.40.1")] {
        h.cable([nic; 2], [&format!("{subnet}.1/24"), &format!("{subnet}.2/24")])?;
        for host in 0..2 {
            h.limit(host, nic, 500)?;
        }
    }
    Ok(())
}

#[test]
fn large_messages_go_by_two_rails_at_once() {
    let Some(h) = Hosts::or_skip("large_messages_go_by_two_rails_at_once", JOB, two_rails) else { return };
    const LAPS: u64 = 20;
    const BYTES: u64 = 4 << 20;
    let before = [0, 1].map(|host| ["n0", "n1"].map(|nic| h.traffic(host, nic).1));
    let case = ["strays", &LAPS.to_string(), &BYTES.to_string()];
    h.run(&[("NETMOD_TCP_SPEED", "n0=500,n1=500")], &case).expect_ok("strays", 2);
    for (host, before) in before.iter().enumerate() {
        let sent: Vec<u64> =
            ["n0", "n1"].iter().zip(before).map(|(nic, b)| h.traffic(host, nic).1 - b).collect();
        // The first messages go by the stream while rails are made.
        let least = (LAPS - 3) * BYTES * 2 / 5;
        assert!(sent.iter().all(|s| *s > least), "host {host} sent {sent:?}");
    }
}

#[test]
fn a_rail_goes_down_in_mid_message() {
    for rank in ["0", "1"] {
        let Some(h) = Hosts::or_skip("a_rail_goes_down_in_mid_message", JOB, four_nics) else { return };
        let counters = Counters::new(&h, FOUR);
        let down = format!("{rank} n0");
        let env = [SPEEDS, (DOWN, &*down), ("NETMOD_TCP_DETECT", "60s")];
        h.run(&env, &["departed", "6", "4000000"]).expect_ok("departed", 2);
        counters.expect([&["n0", "n2"], &["n0", "n2"]]);
    }
}
