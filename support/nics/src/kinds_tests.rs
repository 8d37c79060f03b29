//! Kinds of interfaces, many of which no test machine has.

use netmod_matching::Kind;

use super::kinds;
use crate::links::Link;

/// An interface: number, software kind ("" for a device), master and lower interface (0 for none).
fn link(index: u32, kind: &str, master: u32, lower: u32) -> Link {
    Link {
        index,
        name: format!("i{index}"),
        hardware: libc::ARPHRD_ETHER,
        kind: Some(kind.to_owned()).filter(|k| !k.is_empty()),
        master: Some(master).filter(|m| *m != 0),
        lower: Some(lower).filter(|l| *l != 0),
        ..Link::default()
    }
}

fn elsewhere(link: Link) -> Link {
    Link { lower_is_elsewhere: true, ..link }
}

/// Checks the kinds, in both orders of the kernel's list.
#[track_caller]
fn check(links: &[Link], expected: &[Kind]) {
    let mut notes = Vec::new();
    assert_eq!(kinds(links, &mut notes), expected);
    let reversed: Vec<Link> = links.iter().rev().cloned().collect();
    let mut found = kinds(&reversed, &mut notes);
    found.reverse();
    assert_eq!(found, expected, "reversed");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn names_of_software() {
    for (name, kind) in [
        ("", Kind::Physical),
        ("vlan", Kind::Vlan),
        ("bond", Kind::Bond),
        ("team", Kind::Bond),
        ("macvlan", Kind::Macvlan),
        ("ipvlan", Kind::Macvlan),
        ("veth", Kind::Veth),
        ("bridge", Kind::BridgeIn),
        ("openvswitch", Kind::BridgeIn),
        ("dummy", Kind::Dummy),
        ("vrf", Kind::Dummy),
        ("tun", Kind::Tunnel),
        ("wireguard", Kind::Tunnel),
        ("vxlan", Kind::Tunnel),
        ("gre", Kind::Tunnel),
        ("ipip", Kind::Tunnel),
        ("ppp", Kind::PointToPoint),
        ("ipoib", Kind::Physical),
    ] {
        check(&[link(2, name, 0, 0)], &[kind]);
    }
}

#[test]
fn devices_by_their_hardware_and_flags() {
    for (hardware, flags, kind) in [
        (libc::ARPHRD_ETHER, 0, Kind::Physical),
        (libc::ARPHRD_INFINIBAND, 0, Kind::Physical),
        (libc::ARPHRD_LOOPBACK, libc::IFF_LOOPBACK, Kind::Loopback),
        (libc::ARPHRD_SIT, libc::IFF_POINTOPOINT, Kind::Tunnel),
        (libc::ARPHRD_NONE, 0, Kind::Tunnel),
        (libc::ARPHRD_PPP, 0, Kind::PointToPoint),
        (libc::ARPHRD_ETHER, libc::IFF_POINTOPOINT, Kind::PointToPoint),
    ] {
        check(&[Link { hardware, flags: flags as u32, ..link(2, "", 0, 0) }], &[kind]);
    }
}

#[test]
fn a_bridge_leads_out_by_a_device_a_vlan_of_one_or_a_bond_of_some() {
    use Kind::{Bond, BridgeIn, BridgeOut, Physical, Port, Vlan};
    check(&[link(2, "", 3, 0), link(3, "bridge", 0, 0)], &[Port, BridgeOut]);
    check(&[link(2, "", 0, 0), link(3, "vlan", 4, 2), link(4, "bridge", 0, 0)], &[Physical, Port, BridgeOut]);
    let bond = [link(2, "", 3, 0), link(3, "bond", 4, 0), link(4, "bridge", 0, 0)];
    check(&bond, &[Port, Port, BridgeOut]);
    // A VLAN on a bond of two, and a bond that has lost its devices.
    let over = [link(2, "", 3, 0), link(5, "", 3, 0), link(3, "bond", 0, 0), link(4, "vlan", 0, 3)];
    check(&over, &[Port, Port, Bond, Vlan]);
    check(&[link(3, "bond", 4, 0), link(4, "bridge", 0, 0)], &[Port, BridgeIn]);
}

#[test]
fn containers_and_tunnels_do_not_make_a_bridge_lead_out() {
    use Kind::{BridgeIn, Physical, Port};
    for port in [
        elsewhere(link(2, "veth", 3, 9)),
        link(2, "tun", 3, 0),
        link(2, "vxlan", 3, 4),
        link(2, "dummy", 3, 0),
    ] {
        check(&[port, link(3, "bridge", 0, 0), link(4, "", 0, 0)], &[Port, BridgeIn, Physical]);
    }
    // The number of an end in another namespace can be another interface's here.
    check(
        &[
            elsewhere(link(2, "veth", 3, 4)),
            link(3, "bridge", 0, 0),
            link(4, "", 5, 0),
            link(5, "bridge", 0, 0),
        ],
        &[Port, BridgeIn, Port, Kind::BridgeOut],
    );
}

#[test]
fn bridges_joined_by_a_cable_lead_out_together() {
    use Kind::{BridgeIn, BridgeOut, Port};
    let joined = |last: Link| {
        [
            link(10, "bridge", 0, 0),
            link(11, "veth", 10, 12),
            link(12, "veth", 20, 11),
            link(20, "bridge", 0, 0),
            link(21, "veth", 20, 22),
            link(22, "veth", 30, 21),
            link(30, "bridge", 0, 0),
            last,
        ]
    };
    let out = [BridgeOut, Port, Port, BridgeOut, Port, Port, BridgeOut, Port];
    check(&joined(link(31, "", 30, 0)), &out);
    check(&joined(link(31, "", 10, 0)), &out);
    let inside = [BridgeIn, Port, Port, BridgeIn, Port, Port, BridgeIn, Port];
    check(&joined(link(31, "tun", 30, 0)), &inside);
}

#[test]
fn what_is_over_something_leads_no_further() {
    use Kind::{BridgeIn, BridgeOut, Dummy, Macvlan, Physical, Port, Tunnel, Vlan};
    check(&[link(2, "dummy", 0, 0), link(3, "macvlan", 0, 2)], &[Dummy, Dummy]);
    check(&[link(2, "bridge", 0, 0), link(3, "vlan", 0, 2)], &[BridgeIn, BridgeIn]);
    check(&[link(2, "wireguard", 0, 0), link(3, "vlan", 0, 2), link(4, "vlan", 0, 3)], &[Tunnel; 3]);
    check(&[link(2, "", 0, 0), link(3, "vlan", 0, 2), link(4, "macvlan", 0, 3)], &[Physical, Vlan, Macvlan]);
    check(&[link(2, "", 3, 0), link(3, "bridge", 0, 0), link(4, "vlan", 0, 3)], &[Port, BridgeOut, Vlan]);
    // A container's macvlan on the host's device, whose number may coincide with one of the
    // container's.
    check(&[elsewhere(link(3, "macvlan", 0, 2))], &[Macvlan]);
    check(&[link(2, "dummy", 0, 0), elsewhere(link(3, "macvlan", 0, 2))], &[Dummy, Macvlan]);
    check(&[link(2, "bridge", 0, 0), elsewhere(link(3, "macvlan", 2, 9))], &[BridgeOut, Port]);
}

#[test]
fn a_vrf_is_no_bridge() {
    use Kind::{BridgeIn, BridgeOut, Dummy, Physical, Port};
    let vrf = [link(2, "vrf", 0, 0), link(3, "", 2, 0), link(4, "bridge", 2, 0), link(5, "tun", 4, 0)];
    check(&vrf, &[Dummy, Physical, BridgeIn, Port]);
    let out = [link(2, "vrf", 0, 0), link(3, "tun", 2, 0), link(4, "bridge", 2, 0), link(5, "", 4, 0)];
    check(&out, &[Dummy, Kind::Tunnel, BridgeOut, Port]);
}

#[test]
fn a_device_that_stands_in_for_another_carries_its_traffic() {
    check(&[link(2, "", 0, 0), link(3, "", 2, 0)], &[Kind::Physical, Kind::Port]);
    check(&[link(2, "hsr", 0, 0), link(3, "", 2, 0)], &[Kind::Vlan, Kind::Port]);
}

#[test]
fn open_vswitch_leads_out_if_one_of_its_ports_does() {
    use Kind::{BridgeIn, BridgeOut, Port};
    let switch = |port: Link| [link(2, "openvswitch", 0, 0), link(3, "openvswitch", 0, 0), port];
    check(&switch(link(4, "", 2, 0)), &[BridgeOut, BridgeOut, Port]);
    check(&switch(link(4, "tun", 2, 0)), &[BridgeIn, BridgeIn, Port]);
}

#[test]
fn masters_that_are_not_there_and_circles_end() {
    use Kind::{BridgeIn, Macvlan, Physical, Vlan};
    check(&[link(2, "", 99, 0)], &[Physical]);
    check(&[link(2, "vlan", 0, 3), link(3, "vlan", 0, 2)], &[Vlan, Vlan]);
    check(&[link(2, "macvlan", 0, 2)], &[Macvlan]);
    check(&[link(2, "bridge", 3, 0), link(3, "bridge", 2, 0)], &[BridgeIn, BridgeIn]);
}

#[test]
fn an_unknown_kind_is_taken_for_less_and_noted() {
    let mut notes = Vec::new();
    let links = [link(2, "", 0, 0), link(3, "newest", 0, 2), link(4, "newest", 0, 0)];
    assert_eq!(kinds(&links, &mut notes), [Kind::Physical, Kind::Macvlan, Kind::Tunnel]);
    assert_eq!(notes.len(), 2);
    assert!(notes.iter().all(|n| n.contains("\"newest\"")), "{notes:?}");
}

#[test]
fn ten_thousand_interfaces_in_a_chain() {
    // More levels than a recursive search would have stack for.
    let mut links: Vec<Link> = (2..10_002).map(|i| link(i, "bond", i + 1, 0)).collect();
    links[0].kind = None;
    links.push(link(10_002, "bridge", 0, 0));
    assert_eq!(kinds(&links, &mut Vec::new()).last(), Some(&Kind::BridgeOut));
}
