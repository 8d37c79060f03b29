//! The recorded host is found as it was set up, and failures are reported.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use netmod_matching::{Address, Kind, Nic};

use super::*;
use crate::dump::ATTEMPTS;
use crate::plain::PlainAddress;
use crate::simulated::{Delivery, Simulated};

fn address(text: &str) -> Address {
    let (ip, prefix) = text.split_once('/').unwrap();
    Address { ip: ip.parse::<IpAddr>().unwrap(), prefix: prefix.parse().unwrap() }
}

fn nic<'a>(found: &'a Found, name: &str) -> &'a Nic {
    found.host.nics.iter().find(|nic| nic.name == name).unwrap_or_else(|| panic!("no {name}: {found:?}"))
}

/// Sets a flag in the header of a datagram's first message.
fn flag(datagram: &mut Delivery, flag: i32) {
    let datagram = datagram.as_mut().unwrap();
    let flags = u16::from_ne_bytes([datagram[6], datagram[7]]) | flag as u16;
    datagram[6..8].copy_from_slice(&flags.to_ne_bytes());
}

#[test]
fn the_recorded_host_is_as_it_was_made() {
    let found = Found::by(&Simulated::host()).unwrap();
    assert_eq!(found.notes, [""; 0]);
    assert_eq!(found.host.location, netmod_matching::Location { boot: [7; 16], netns: 42 });
    let expected = [
        ("lo", Kind::Loopback, &["127.0.0.1/8", "::1/128"][..], true, true),
        ("tn0", Kind::Tunnel, &["10.9.0.1/32"], true, false),
        ("tp0", Kind::Tunnel, &[], false, false),
        ("e0", Kind::Veth, &["10.1.0.1/24", "10.1.0.3/24", "fd00:1::1/64"], true, true),
        ("e1", Kind::Veth, &["10.1.0.2/24", "fd00:1::2/64"], true, true),
        ("e2", Kind::Veth, &["10.128.0.2/32"], true, true),
        ("e3", Kind::Veth, &["10.3.0.1/24"], true, false),
        ("docker0", Kind::BridgeIn, &["172.17.0.1/16"], true, true),
        ("c0", Kind::Port, &[], true, true),
        ("mv0", Kind::Macvlan, &["10.1.0.9/24"], true, true),
        ("mv1", Kind::BridgeIn, &[], false, false),
        ("vx0", Kind::Tunnel, &[], false, false),
        ("d0", Kind::Dummy, &[], false, false),
        ("b0", Kind::Veth, &[], true, false),
        ("b1", Kind::Veth, &[], false, false),
    ];
    assert_eq!(found.host.nics.len(), expected.len());
    for (nic, (name, kind, addresses, up, carrier)) in found.host.nics.iter().zip(expected) {
        let addresses: Vec<Address> = addresses.iter().map(|a| address(a)).collect();
        assert_eq!((&*nic.name, nic.kind, nic.up, nic.carrier), (name, kind, up, carrier));
        assert_eq!(nic.addresses, addresses, "{name}");
        let paired = up && kind != Kind::Loopback && !addresses.is_empty();
        assert_eq!(nic.speed, paired.then_some(10000), "{name}");
    }
    assert_eq!(nic(&found, "e0").index, 100);
    assert_eq!((nic(&found, "lo").mtu, nic(&found, "vx0").mtu), (65536, 1450));
}

#[test]
fn the_order_of_interfaces_is_that_of_their_numbers() {
    let kernel = Simulated::host().tampered(|_, _, replies| {
        // The last datagram ends the dump.
        let end = replies.len() - 1;
        replies.make_contiguous()[..end].reverse();
    });
    let names = |found: Found| found.host.nics.into_iter().map(|nic| nic.name).collect::<Vec<_>>();
    assert_eq!(names(Found::by(&kernel).unwrap()), names(Found::by(&Simulated::host()).unwrap()));
}

#[test]
fn a_dump_that_changed_meanwhile_is_read_again() {
    let kernel = Simulated::host().tampered(|sends, _, replies| {
        if sends < 2 {
            flag(&mut replies[0], libc::NLM_F_DUMP_INTR);
            // One datagram less, as if interfaces were missing.
            replies.remove(1);
        }
    });
    let found = Found::by(&kernel).unwrap();
    assert_eq!(found, Found::by(&Simulated::host()).unwrap());
    assert_eq!(kernel.sends.get(), 4, "links three times, addresses once");
}

#[test]
fn a_dump_that_keeps_changing_ends_and_says_so() {
    let kernel = Simulated::host().tampered(|_, _, replies| {
        for reply in replies {
            flag(reply, libc::NLM_F_DUMP_INTR);
        }
    });
    let found = Found::by(&kernel).unwrap();
    assert_eq!(found.host, Found::by(&Simulated::host()).unwrap().host);
    assert_eq!(kernel.sends.get(), 2 * ATTEMPTS as usize);
    assert_eq!(found.notes.iter().filter(|n| n.contains("kept changing")).count(), 2, "{:?}", found.notes);
}

#[test]
fn a_dump_of_which_something_was_lost_is_read_again() {
    let kernel = Simulated::host().tampered(|sends, _, replies| {
        if sends == 0 {
            replies[0] = Err(libc::ENOBUFS);
        }
        if sends == 1 {
            replies.push_front(Err(libc::EINTR));
        }
    });
    assert_eq!(Found::by(&kernel).unwrap(), Found::by(&Simulated::host()).unwrap());
    assert_eq!(kernel.sends.get(), 3);
}

#[test]
fn a_datagram_larger_than_the_buffer_is_read_again_with_room() {
    let kernel = Simulated::host().tampered(|_, requests, replies| {
        // One large datagram, after many messages of other sockets.
        let mut all = Vec::new();
        let mut other = crate::wire::messages(requests).next().unwrap().unwrap().payload.to_vec();
        // They fill the buffer to the last byte, so that the rest is cut at a message.
        other.resize((32 << 10) - 16, 0);
        crate::wire::request(&mut all, 4711, 0, 0, &other);
        for reply in replies.drain(..) {
            all.extend_from_slice(&reply.unwrap());
        }
        replies.push_back(Ok(all));
        // The end of the dump is not lost, or nobody would know of it.
        let mut done = Vec::new();
        let sequence = crate::wire::messages(requests).next().unwrap().unwrap().sequence;
        crate::wire::request(&mut done, libc::NLMSG_DONE as u16, 0, sequence, &[0; 4]);
        replies.push_back(Ok(done));
    });
    let found = Found::by(&kernel).unwrap();
    assert_eq!(found, Found::by(&Simulated::host()).unwrap());
    assert_eq!(kernel.sends.get(), 3, "the links twice, with room for the addresses");
}

#[test]
fn messages_of_others_and_of_before_are_passed_over() {
    let kernel = Simulated::host().tampered(|_, _, replies| {
        let mut stale = replies.clone();
        for reply in stale.iter_mut().map(|r| r.as_mut().unwrap()) {
            reply[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
            // Only the first message of each, so that the others do not count.
            let len = u32::from_ne_bytes(*reply.first_chunk().unwrap()) as usize;
            reply.truncate(len);
        }
        stale.append(replies);
        *replies = stale;
    });
    assert_eq!(Found::by(&kernel).unwrap(), Found::by(&Simulated::host()).unwrap());
}

#[test]
fn an_interface_that_cannot_be_read_is_missing_and_noted() {
    let kernel = Simulated::host().tampered(|sends, _, replies| {
        if sends == 0 {
            // The number of the first interface, lo.
            replies[0].as_mut().unwrap()[20..24].fill(0);
        }
    });
    let found = Found::by(&kernel).unwrap();
    assert!(!found.host.nics.iter().any(|nic| nic.name == "lo"));
    assert_eq!(found.host.nics.len() + 1, Found::by(&Simulated::host()).unwrap().host.nics.len());
    assert!(
        found.notes.iter().any(|n| n.contains("1 of the interfaces could not be read")),
        "{:?}",
        found.notes
    );
}

fn plain() -> Plain {
    let link = Link {
        index: 3,
        name: "eth0".to_owned(),
        flags: (libc::IFF_UP | libc::IFF_LOWER_UP) as u32,
        mtu: 1500,
        ..Link::default()
    };
    let address = |text, duplicate| PlainAddress { index: 3, address: address(text), duplicate };
    Plain { links: vec![link], addresses: vec![address("10.0.0.4/8", false), address("fd00::4/64", true)] }
}

#[test]
fn without_netlink_there_are_interfaces_and_a_note() {
    let refusals: [(&str, Simulated); 4] = [
        ("not permitted", Simulated { no_netlink: libc::EPERM, ..Simulated::host() }),
        ("not supported", Simulated { no_netlink: libc::EAFNOSUPPORT, ..Simulated::host() }),
        ("does not end", Simulated::host().tampered(|_, _, replies| replies.clear())),
        (
            "denied",
            Simulated::host().tampered(|_, requests, replies| {
                replies.clear();
                let mut refusal = Vec::new();
                let sequence = crate::wire::messages(requests).next().unwrap().unwrap().sequence;
                let code = (-libc::EACCES).to_ne_bytes();
                crate::wire::request(&mut refusal, libc::NLMSG_ERROR as u16, 0, sequence, &code);
                replies.push_back(Ok(refusal));
            }),
        ),
    ];
    for (why, kernel) in refusals {
        let found = Found::by(&Simulated { plain: Ok(plain()), ..kernel.clone() }).unwrap();
        let [nic] = &found.host.nics[..] else { panic!("{found:?}") };
        assert_eq!((&*nic.name, nic.kind, nic.index, nic.mtu), ("eth0", Kind::Physical, 3, 1500));
        assert!(nic.up && nic.carrier);
        assert_eq!((&nic.addresses[..], nic.speed), (&[address("10.0.0.4/8")][..], Some(10000)));
        assert!(found.notes[0].starts_with("netlink: ") && found.notes[0].contains(why), "{:?}", found.notes);
        assert!(found.notes.iter().any(|n| n.contains("fd00::4 on eth0: another host")), "{:?}", found.notes);

        let neither = Found::by(&kernel).unwrap_err().to_string();
        assert!(neither.contains(why) && neither.contains("sandbox"), "{neither}");
    }
}

#[test]
fn speeds_that_are_unknown_are_none_and_failures_are_noted_once() {
    let kernel = Simulated {
        speed: Rc::new(|name| match name {
            "e0" => Ok(None),
            "e1" => Ok(Some(0)),
            "e2" => Ok(Some(25000)),
            _ => Err(libc::EPERM),
        }),
        ..Simulated::host()
    };
    let found = Found::by(&kernel).unwrap();
    for (name, speed) in [("e0", None), ("e1", None), ("e2", Some(25000)), ("docker0", None)] {
        assert_eq!(nic(&found, name).speed, speed, "{name}");
    }
    let [note] = &found.notes[..] else { panic!("{:?}", found.notes) };
    assert!(note.contains("speeds of 4 interfaces"), "{note}");
    assert_eq!(*kernel.asked.borrow(), ["tn0", "e0", "e1", "e2", "e3", "docker0", "mv0"]);
}

#[test]
fn interfaces_that_are_down_are_not_asked_for_their_speed() {
    for up in [true, false] {
        let mut plain = plain();
        plain.links[0].flags = if up { libc::IFF_UP as u32 } else { 0 };
        let kernel = Simulated { no_netlink: libc::EPERM, plain: Ok(plain), ..Simulated::host() };
        let found = Found::by(&kernel).unwrap();
        assert_eq!(nic(&found, "eth0").speed, up.then_some(10000));
    }
}

#[test]
fn slow_drivers_are_not_waited_for() {
    let kernel = Simulated { speed_takes: Duration::from_millis(150), ..Simulated::host() };
    let found = Found::by(&kernel).unwrap();
    assert_eq!(*kernel.asked.borrow(), ["tn0", "e0"], "300 ms are more than is allowed, 150 ms are not");
    assert_eq!((nic(&found, "e0").speed, nic(&found, "e1").speed), (Some(10000), None));
    assert!(found.notes[0].contains("speeds of 5 interfaces were not asked for"), "{:?}", found.notes);
}
