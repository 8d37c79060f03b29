//! Business cards, their sections, and port names.

use netmod_core::card::{NodeSection, Section};
use netmod_core::{Card, CardError, CardWriter};
use netmod_matching::{Address, Host, Kind, Location, Nic, wire};
use netmod_ofi::card::{CardDomain, FrameLimits, OfiCard};
use netmod_ofi::fi::info::Facts;
use netmod_verbs::card::{CardPort, VerbsCard};

use super::{text, texts};
use crate::Outcome;

/// Version of the sections in the inputs: that of this code, which allows nothing behind the body.
const VERSION: u16 = 1;

fn node_section() -> NodeSection {
    NodeSection { boot_id: [7; 16], pid: 300, cores: 2, hostname: "node1".into() }
}

/// Makes the bytes of a card.
fn bytes(fill: impl FnOnce(&mut CardWriter) -> Result<(), CardError>) -> Vec<u8> {
    let mut card = CardWriter::new();
    fill(&mut card).expect("a section of a card");
    card.finish()
}

/// Makes a card with one section, and returns that section's body.
fn body(fill: impl FnOnce(&mut CardWriter) -> Result<(), CardError>) -> Vec<u8> {
    let card = Card::parse(&bytes(fill)).expect("a card");
    card.sections().next().expect("a section").body.to_vec()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![
        bytes(|_| Ok(())),
        bytes(|card| node_section().emit(card)),
        bytes(|card| node_section().emit(card).and_then(|()| card.section("tcp", 1, b"anything"))),
    ]
}

/// A card; it keeps its bytes, and its sections are inside of them.
pub(super) fn card(input: &[u8]) -> Outcome {
    let parsed = Card::parse(input);
    if let Ok(card) = &parsed {
        assert_eq!(card.as_bytes(), input);
        for section in card.sections() {
            assert!(card.section(section.name).is_some());
        }
    }
    Outcome::of(&parsed)
}

pub(super) fn node_seeds() -> Vec<Vec<u8>> {
    vec![body(|card| node_section().emit(card))]
}

pub(super) fn node(input: &[u8]) -> Outcome {
    let parsed = NodeSection::parse(Section { name: "node", version: VERSION, body: input });
    if let Ok(node) = &parsed {
        assert_eq!(body(|card| node.emit(card)), input);
    }
    Outcome::of(&parsed)
}

fn host() -> Host {
    let nic = |number: u8, ip: &str| Nic {
        name: format!("eth{number}"),
        index: 7 + u32::from(number),
        kind: Kind::Physical,
        addresses: vec![Address { ip: ip.parse().expect("an address"), prefix: 24 }],
        speed: Some(10_000),
        mtu: 1500,
        up: true,
        carrier: true,
    };
    let location = Location { boot: [3; 16], netns: 4_026_531_840 };
    Host { location, nics: vec![nic(0, "10.0.0.1"), nic(1, "2001:db8::7")], ..Host::default() }
}

pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    let asked = Host { reach: Some(vec![]), ..host() };
    [Host::default(), host(), asked].iter().map(wire::encode).collect()
}

/// A record of interfaces, which has one form.
pub(super) fn record(input: &[u8]) -> Outcome {
    let parsed = wire::parse(input);
    if let Ok(host) = &parsed {
        assert_eq!(wire::encode(host), input);
    }
    Outcome::of(&parsed)
}

pub(super) fn ofi_seeds() -> Vec<Vec<u8>> {
    let domain = CardDomain {
        name: "eth0".into(),
        fabric: "10.0.0.0/24".into(),
        rma: true,
        address: vec![2, 0, 4, 210, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0].into(),
        contexts: 1,
        ..CardDomain::default()
    };
    let facts = Facts { provider: "tcp".into(), ..Facts::default() };
    let limits = FrameLimits { frame: 4096, window: 64 };
    let card = OfiCard::new(0x1_0011, &facts, limits, &host(), b"life", vec![domain]);
    vec![body(|out| card.write(out))]
}

pub(super) fn ofi(input: &[u8]) -> Outcome {
    let parsed = OfiCard::parse(Section { name: "ofi", version: VERSION, body: input });
    Outcome::of(&parsed)
}

pub(super) fn verbs_seeds() -> Vec<Vec<u8>> {
    let port = CardPort {
        name: "mlx5_0:1".into(),
        kind: hca::GidKind::RoceV2,
        prefix: Some(24),
        speed: Some(100_000),
        mtu: 4096,
        // A location on Ethernet with its GID, a queue pair and its key.
        address: [&[1, 1][..], &[0; 2], &[5; 16], &17u32.to_le_bytes(), &[6; 4]].concat().into(),
    };
    let card = VerbsCard {
        protocol: netmod_verbs::card::PROTOCOL,
        frame: 8192,
        window: 64,
        here: host().location,
        lifeline: b"life".as_slice().into(),
        ports: vec![port],
    };
    vec![body(|out| card.write(out))]
}

pub(super) fn verbs(input: &[u8]) -> Outcome {
    let parsed = VerbsCard::parse(Section { name: "verbs", version: VERSION, body: input });
    if let Ok(card) = &parsed {
        assert_eq!(body(|out| card.write(out)), input);
    }
    Outcome::of(&parsed)
}

/// Makes the text of a port name as `PortName` writes it.
fn port_name() -> String {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&77u64.to_le_bytes());
    bytes.extend_from_slice(&[5; 32]);
    bytes.extend_from_slice(&seeds()[1]);
    let crc = netmod_pmi::codec::crc32(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    format!("netmod-port:{}", netmod_pmi::codec::to_text(&bytes))
}

pub(super) fn port_seeds() -> Vec<Vec<u8>> {
    texts(&[&port_name()])
}

pub(super) fn port(input: &[u8]) -> Outcome {
    let input = text(input);
    let parsed = input.parse::<ch3_shim::PortName>();
    if let Ok(port) = &parsed {
        assert_eq!(port.to_string(), input.trim());
    }
    Outcome::of(&parsed)
}
