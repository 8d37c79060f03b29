//! Links and addresses that the recorded host does not have.

use super::*;
use crate::wire;

fn payload(fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut request = wire::request(&mut bytes, 1, 0, 1, fixed);
    for (kind, value) in attributes {
        request = request.attribute(&mut bytes, *kind, value);
    }
    bytes.split_off(16)
}

/// Parses an address of interface 7.
fn read(family: i32, prefix: u8, flags: u8, attributes: &[(u16, &[u8])]) -> Option<Owned> {
    let fixed = [family as u8, prefix, flags, 0, 7, 0, 0, 0];
    Owned::parse(&payload(&fixed, attributes))
}

const MINE: (u16, &[u8]) = (libc::IFA_LOCAL, &[10, 0, 0, 1]);

#[test]
fn the_prefix_belongs_to_the_peer_if_there_is_one() {
    for (prefix, far, expected) in [(24, [10, 0, 0, 1], 24), (24, [10, 0, 0, 9], 24), (16, [10, 9, 0, 9], 32)]
    {
        let owned = read(libc::AF_INET, prefix, 0, &[(libc::IFA_ADDRESS, &far), MINE]).unwrap();
        assert_eq!((owned.address.ip, owned.address.prefix), ([10, 0, 0, 1].into(), expected), "{far:?}");
        assert_eq!(owned.index, 7u32.to_le());
    }
    assert_eq!(read(libc::AF_INET, 0, 0, &[MINE]).unwrap().address.prefix, 0);
}

#[test]
fn flags_of_more_than_eight_bits_replace_the_others() {
    let failed = libc::IFA_F_DADFAILED;
    assert!(read(libc::AF_INET, 24, failed as u8, &[MINE]).unwrap().duplicate);
    assert!(read(libc::AF_INET, 24, 0, &[MINE, (libc::IFA_FLAGS, &failed.to_ne_bytes())]).unwrap().duplicate);
    assert!(!read(libc::AF_INET, 24, failed as u8, &[MINE, (libc::IFA_FLAGS, &[0; 4])]).unwrap().duplicate);
}

#[test]
fn addresses_that_make_no_sense_are_none() {
    assert!(read(libc::AF_INET, 33, 0, &[MINE]).is_none());
    assert!(read(libc::AF_INET6, 24, 0, &[MINE]).is_none());
    assert!(read(libc::AF_INET, 24, 0, &[(libc::IFA_LOCAL, &[10, 0, 0])]).is_none());
    assert!(read(libc::AF_INET, 24, 0, &[]).is_none());
    assert!(read(libc::AF_INET6, 129, 0, &[(libc::IFA_ADDRESS, &[0xfd; 16])]).is_none());
    assert!(read(libc::AF_INET6, 128, 0, &[(libc::IFA_ADDRESS, &[0xfd; 16])]).is_some());
    assert!(Owned::parse(&[2, 24, 0]).is_none());
}

#[test]
fn links_without_name_or_number_are_none_and_what_is_itself_is_nothing_below() {
    let name: (u16, &[u8]) = (libc::IFLA_IFNAME, b"eth0\0");
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&7u32.to_ne_bytes());
    fixed[8..12].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    let own: (u16, &[u8]) = (libc::IFLA_LINK, &7u32.to_ne_bytes());
    let link = Link::parse(&payload(&fixed, &[name, own, (libc::IFLA_MASTER, &[0; 4])])).unwrap();
    assert_eq!((&*link.name, link.index, link.lower, link.master), ("eth0", 7, None, None));
    assert!(link.has(libc::IFF_UP) && !link.has(libc::IFF_LOWER_UP));
    let other: (u16, &[u8]) = (libc::IFLA_LINK, &8u32.to_ne_bytes());
    let link = Link::parse(&payload(&fixed, &[name, other, (libc::IFLA_LINK_NETNSID, &[0; 4])])).unwrap();
    assert_eq!((link.lower, link.lower_is_elsewhere), (Some(8), true));
    assert!(Link::parse(&payload(&fixed, &[])).is_none());
    assert!(Link::parse(&payload(&[0; LINK_FIXED], &[name])).is_none());
    assert!(Link::parse(&payload(&fixed, &[name, (libc::IFLA_MTU, &[1, 2])])).is_none());
}
