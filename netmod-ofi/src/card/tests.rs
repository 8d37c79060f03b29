use netmod_core::card::{Card, CardError, CardWriter, Section};
use netmod_matching::Location;

use super::samples::{host, ip_card, other_card};
use super::*;

fn through(card: &OfiCard) -> OfiCard {
    let mut w = CardWriter::new();
    card.write(&mut w).expect("it fits");
    let parsed = Card::parse(&w.finish()).expect("a card");
    OfiCard::parse(parsed.section(NAME).expect("the section")).expect("a section of this kind")
}

#[test]
fn a_card_comes_as_it_went() {
    let (a, b) = (Location { boot: [1; 16], netns: 4 }, Location { boot: [2; 16], netns: 4 });
    for card in [
        ip_card(&host(a, &["192.0.2.1", "198.51.100.1"]), &["192.0.2.1", "198.51.100.1", "127.0.0.1"]),
        ip_card(&host(b, &["2001:db8::1"]), &["2001:db8::1"]),
        // An address that the host does not have.
        ip_card(&host(b, &[]), &["192.0.2.1"]),
        other_card(a, 12, &["one", "two"]),
        other_card(a, 9, &["shm"]),
    ] {
        assert_eq!(through(&card), card);
    }
}

#[test]
fn the_record_has_the_interfaces_of_the_domains() {
    let location = Location { boot: [1; 16], netns: 4 };
    let card = ip_card(&host(location, &["192.0.2.1", "198.51.100.1"]), &["127.0.0.1", "198.51.100.1"]);
    let nics: Vec<_> = card.record.nics.iter().map(|n| (&*n.name, n.index)).collect();
    assert_eq!(nics, [("eth1", 1)]);
    assert_eq!(card.location.network, location);
    // For an address that the system does not know, the fabric's name gives the subnet.
    let mut domain = ip_card(&host(location, &[]), &["192.0.2.1"]).domains.remove(0);
    domain.fabric = "192.0.2.0/24".into();
    let nics = record(&host(location, &[]), &[domain.clone()]).nics;
    assert_eq!(nics[0].addresses[0].prefix, 24);
    for odd in ["192.0.2.0/77", "IB-0xfe80", "192.0.2.0/x", ""] {
        domain.fabric = odd.into();
        assert_eq!(record(&host(location, &[]), &[domain.clone()]).nics[0].addresses[0].prefix, 32, "{odd}");
    }
}

#[test]
fn names_are_cut_at_a_character() {
    assert_eq!(short("eth0"), "eth0");
    let long = "é".repeat(200);
    let cut = short(&long);
    assert_eq!(cut.len(), 254);
    assert!(long.starts_with(&cut));
}

/// Parses a section whose card was changed before.
fn changed(card: &OfiCard, change: impl FnOnce(&mut OfiCard)) -> Result<OfiCard, CardError> {
    let mut card = card.clone();
    change(&mut card);
    OfiCard::parse(Section { name: NAME, version: VERSION, body: &card.body() })
}

#[test]
fn invalid_sections_are_rejected() {
    let location = Location { boot: [1; 16], netns: 4 };
    let good = ip_card(&host(location, &["192.0.2.1", "198.51.100.1"]), &["192.0.2.1", "198.51.100.1"]);
    assert_eq!(changed(&good, |_| {}), Ok(good.clone()));
    let refused = |part: &str, change: fn(&mut OfiCard)| {
        let error = changed(&good, change).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused("largest frame", |c| c.frame = 255);
    refused("window", |c| c.window = 0);
    refused("provider", |c| c.provider = "x".repeat(256));
    refused("provider", |c| c.provider = "tcp\x1b[2J".into());
    refused("number of domains", |c| c.domains.clear());
    refused("number of domains", |c| c.domains = vec![c.domains[0].clone(); 17]);
    refused("contexts", |c| c.domains[0].contexts = 0);
    refused("a domain's context ", |c| c.domains[0].context = 1);
    refused("address", |c| c.domains[1].address = Box::default());
    refused("address", |c| c.domains[1].address = vec![1; MAX_ADDRESS + 1].into());
    refused("record", |c| c.record.nics[0].index = 2);
    refused("record", |c| c.record.nics[1].index = 0);
    let mut longer = good.body();
    longer.push(0);
    let parse = |version, body: &[u8]| OfiCard::parse(Section { name: NAME, version, body });
    assert!(matches!(parse(VERSION, &longer), Err(CardError::Trailing { left: 1, .. })));
    assert_eq!(parse(VERSION + 1, &longer), Ok(good.clone()), "later versions append");
    let whole = good.body();
    for cut in 0..whole.len() {
        assert!(parse(VERSION, &whole[..cut]).is_err(), "{cut}");
    }
}

/// A section with damaged bytes is rejected or parsed consistently; both sides compute the same
/// pair from it.
#[test]
fn damaged_cards_are_refused_or_mean_something() {
    let (a, b) = (Location { boot: [1; 16], netns: 4 }, Location { boot: [2; 16], netns: 4 });
    let mine = ip_card(&host(a, &["192.0.2.1", "198.51.100.1"]), &["192.0.2.1", "198.51.100.1"]);
    let samples = [
        ip_card(&host(b, &["192.0.2.2", "198.51.100.2"]), &["192.0.2.2", "198.51.100.2"]),
        ip_card(&host(a, &["192.0.2.1"]), &["192.0.2.1", "127.0.0.1"]),
        other_card(b, 12, &["one", "two"]),
    ];
    let mut random = super::samples::Random(1);
    let (mut read, mut paired) = (0, 0);
    for _ in 0..60_000 {
        let sample = &samples[random.below(samples.len())];
        let mut body = sample.body();
        for _ in 0..1 + random.below(3) {
            let at = random.below(body.len());
            match random.below(4) {
                0 => body[at] = random.below(256) as u8,
                1 => body[at] ^= 1 << random.below(8),
                2 => drop(body.remove(at)),
                _ => body.insert(at, random.below(256) as u8),
            }
        }
        let Ok(card) = OfiCard::parse(Section { name: NAME, version: VERSION, body: &body }) else {
            continue;
        };
        read += 1;
        assert_eq!(card.body(), body, "what is read is what was written");
        let (there, back) = (pair(&mine, &card), pair(&card, &mine));
        assert_eq!(there.clone().map(|(a, b)| (b, a)).ok(), back.ok());
        if let Ok((own, peer)) = there {
            assert!(own < mine.domains.len() && peer < card.domains.len());
            paired += 1;
        }
    }
    assert!(
        read > 10_000 && paired > 1_000,
        "{read} read, {paired} paired: the changes should not be too coarse"
    );
}
