//! Tests of the section: its bytes, and what is rejected.

use hca::{Gid, QpNum};
use netmod_core::Card;

use super::*;
use crate::wire;

pub(crate) fn port(name: &str, kind: GidKind, gid: [u8; 16]) -> CardPort {
    let location = wire::PortLocation { ethernet: kind != GidKind::Ib, lid: 3, gid: Gid(gid) };
    let address = Address { location, qp: QpNum(17), qkey: 5, xrc: false }.to_bytes();
    CardPort { name: name.into(), kind, prefix: Some(24), speed: Some(100_000), mtu: 4096, address }
}

fn card() -> VerbsCard {
    VerbsCard {
        protocol: PROTOCOL,
        frame: 8192,
        window: 1024,
        here: Location { boot: [7; 16], netns: 9 },
        lifeline: [1, 2, 3].into(),
        ports: vec![port("a:1", GidKind::Ib, [1; 16]), port("b:2", GidKind::RoceV2, [2; 16])],
    }
}

fn parse(body: &[u8]) -> Result<VerbsCard, CardError> {
    let mut w = CardWriter::new();
    w.section(NAME, VERSION, body).unwrap();
    let card = Card::parse(&w.finish()).unwrap();
    VerbsCard::parse(card.section(NAME).unwrap())
}

#[test]
fn what_is_written_is_read() {
    let mut odd = card();
    (odd.ports[0].prefix, odd.ports[0].speed, odd.ports[1].kind) = (None, None, GidKind::RoceV1);
    for card in [card(), odd] {
        assert_eq!(parse(&card.body()).unwrap(), card);
        let mut w = CardWriter::new();
        card.write(&mut w).unwrap();
        let whole = Card::parse(&w.finish()).unwrap();
        assert_eq!(VerbsCard::parse(whole.section(NAME).unwrap()).unwrap(), card);
    }
}

#[test]
fn no_cut_or_changed_body_is_anything_but_what_its_bytes_say() {
    let body = card().body();
    for len in 0..body.len() {
        assert!(parse(&body[..len]).is_err(), "{len}");
    }
    let mut read = 0;
    for at in 0..body.len() {
        for value in 0..=255 {
            let mut b = body.clone();
            b[at] = value;
            if let Ok(card) = parse(&b) {
                assert_eq!(card.body(), b, "byte {at}: {value}");
                read += 1;
            }
        }
    }
    assert!(read > body.len(), "{read}");
    assert!(parse(&[&body[..], &[0]].concat()).is_err());
}

#[test]
fn values_that_are_of_no_use_are_refused() {
    type Breaks = fn(&mut VerbsCard);
    let broken: [(&str, Breaks); 5] = [
        ("longest frame", |c| c.frame = 255),
        ("window", |c| c.window = 0),
        ("number of ports", |c| c.ports.clear()),
        ("name", |c| c.ports[0].name = "a\n".into()),
        ("address", |c| c.ports[1].address = [].into()),
    ];
    for (what, breaks) in broken {
        let mut c = card();
        breaks(&mut c);
        let error = parse(&c.body()).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
}
