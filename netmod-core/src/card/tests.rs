//! Cards: the exact format, round trips, refusals, and mutated input.

use proptest::prelude::*;

use super::*;

fn card(sections: &[(&str, u16, &[u8])]) -> Vec<u8> {
    let mut w = CardWriter::new();
    for (name, version, body) in sections {
        w.section(name, *version, body).unwrap();
    }
    w.finish()
}

/// Corrects the checksum, so that the checks after it are reached.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes[CHECKSUM_AT..HEADER].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn golden_bytes() {
    let mut node = CardWriter::new();
    let mut body = BodyWriter::new();
    body.u8(1).u16(0x0203).u32(0x0405_0607).u64(8).bytes(&[9]).str("ab");
    node.section("tcp", 0x0102, body.as_bytes()).unwrap();
    let mut want = Vec::new();
    want.extend_from_slice(b"NMC1\x01\0\x01\0\x30\0\0\0");
    want.extend_from_slice(&[0xBC, 0xA5, 0x3D, 0xF0]);
    want.extend_from_slice(b"\x03tcp\x02\x01\x16\0\0\0");
    want.extend_from_slice(&[1, 3, 2, 7, 6, 5, 4, 8, 0, 0, 0, 0, 0, 0, 0]);
    want.extend_from_slice(&[1, 0, 9, 2, 0, b'a', b'b']);
    assert_eq!(node.finish(), want);
    assert_eq!(Card::parse(&want).unwrap().section("tcp").unwrap().body, body.as_bytes());
}

#[test]
fn golden_node() {
    let node = NodeSection { hostname: "n1".into(), boot_id: [0xB0; 16], pid: 77, cores: 4 };
    let mut w = CardWriter::new();
    node.emit(&mut w).unwrap();
    let mut want = b"NMC1\x01\0\x01\0\x37\0\0\0\x12\x2a\xac\xc0\x04node\x01\0\x1c\0\0\0".to_vec();
    want.extend_from_slice(&[0xB0; 16]);
    want.extend_from_slice(b"\x4d\0\0\0\x04\0\0\0\x02\0n1");
    assert_eq!(w.finish(), want);
    assert_eq!(Card::parse(&want).unwrap().node().unwrap(), node);
}

#[test]
fn unknown_sections_are_kept() {
    let bytes = card(&[("warp", 9, b"drive"), ("tcp", 1, b""), ("node~", 2, &[0; 3])]);
    let card = Card::parse(&bytes).unwrap();
    let names: Vec<_> = card.sections().map(|s| (s.name, s.version, s.body.len())).collect();
    assert_eq!(names, [("warp", 9, 5), ("tcp", 1, 0), ("node~", 2, 3)]);
    assert_eq!(card.section("warp").unwrap().body, b"drive");
    assert_eq!(card.section("ofi"), None);
    assert_eq!(card.node(), Err(CardError::Missing { name: "node" }));
    assert_eq!(card.as_bytes(), bytes);
    assert_eq!(format!("{card:?}"), r#"{("warp", 9): 5, ("tcp", 1): 0, ("node~", 2): 3}"#);
}

#[test]
fn what_is_wrong_is_named() {
    let good = card(&[("tcp", 1, b"abc"), ("ofi", 1, b"")]);
    let with = |at: usize, bytes: &[u8]| {
        let mut card = good.clone();
        card[at..at + bytes.len()].copy_from_slice(bytes);
        card
    };
    let parse = |bytes: &[u8]| Card::parse(bytes).unwrap_err();
    assert_eq!(parse(b"HTTP/1.1 200 OK"), CardError::Magic);
    assert_eq!(parse(b"XY"), CardError::Magic);
    assert_eq!(parse(b""), CardError::Truncated { what: "its header" });
    assert_eq!(parse(&good[..15]), CardError::Truncated { what: "its header" });
    assert_eq!(parse(&with(4, &[2])), CardError::Format { found: 2 });
    assert_eq!(parse(&with(10, &[1])), CardError::TooLarge { len: 65536 + good.len() });
    let (stated, actual) = (good.len(), good.len() - 1);
    assert_eq!(parse(&good[..actual]), CardError::Length { stated, actual });
    let longer = [&good[..], &[0]].concat();
    assert_eq!(parse(&longer), CardError::Length { stated, actual: stated + 1 });
    assert!(matches!(parse(&with(26, b"X")), CardError::Checksum { .. }));
    assert_eq!(parse(&seal(with(6, &[65]))), CardError::TooManySections { count: 65 });
    let truncated = CardError::Truncated { what: "the length of a section's name" };
    assert_eq!(parse(&seal(with(6, &[3]))), truncated);
    let left = good.len() - (HEADER + 1 + 3 + 2 + 4 + 3);
    let trailing = CardError::Trailing { what: "the last section", left };
    assert_eq!(parse(&seal(with(6, &[1]))), trailing);
    assert_eq!(parse(&seal(with(16, &[0]))), CardError::Name { name: vec![] });
    assert_eq!(parse(&seal(with(17, b"\n"))), CardError::Name { name: b"\ncp".to_vec() });
    assert_eq!(parse(&seal(with(17, &[0xFF]))), CardError::Name { name: b"\xFFcp".to_vec() });
    let truncated = CardError::Truncated { what: "a section's name" };
    assert_eq!(parse(&seal(with(16, &[200]))), truncated);
    let truncated = CardError::Truncated { what: "a section's body" };
    assert_eq!(parse(&seal(with(22, &[0xFF; 4]))), truncated);
    assert_eq!(parse(&seal(with(30, b"tcp"))), CardError::Duplicate { name: "tcp".into() });
    assert_eq!(parse(&vec![0; MAX_CARD + 1]), CardError::Magic);
    let text = parse(&seal(with(17, b"\n"))).to_string();
    assert!(text.contains(r"`\ncp`"), "{text}");
}

#[test]
fn writers_refuse_what_readers_would() {
    let mut w = CardWriter::new();
    w.section("tcp", 1, b"x").unwrap();
    let before = w.clone().finish();
    for name in ["", "seventeen-letters", "with space", "ü"] {
        assert!(matches!(w.section(name, 1, b""), Err(CardError::Name { .. })), "{name}");
    }
    assert_eq!(w.section("tcp", 2, b""), Err(CardError::Duplicate { name: "tcp".into() }));
    let room = MAX_CARD - before.len() - (1 + 3 + 2 + 4);
    let len = MAX_CARD + 1;
    assert_eq!(w.section("ofi", 1, &vec![0; room + 1]), Err(CardError::TooLarge { len }));
    assert_eq!(w.clone().finish(), before);
    let too_long = BodyWriter::new().bytes(&[0; 1 << 16]).as_bytes().to_vec();
    assert!(matches!(w.section("ofi", 1, &too_long), Err(CardError::TooLarge { .. })));
    w.section("ofi", 1, &vec![0; room]).unwrap();
    assert_eq!(Card::parse(&w.finish()).unwrap().sections().count(), 2);

    let mut w = CardWriter::default();
    for i in 0..MAX_SECTIONS {
        w.section(&format!("s{i}"), 1, b"").unwrap();
    }
    assert_eq!(w.section("more", 1, b""), Err(CardError::TooManySections { count: 65 }));
    assert_eq!(Card::parse(&w.finish()).unwrap().sections().count(), MAX_SECTIONS);
}

#[test]
fn bodies_are_read_with_checks() {
    let mut w = BodyWriter::new();
    w.u8(1).u16(2).u32(3).u64(4).bytes(b"five").str("sechs").raw(&[7, 7]);
    let read = |body: &[u8]| -> Result<(), CardError> {
        let mut r = BodyReader::new("a test", body);
        assert_eq!(r.u8("a")?, 1);
        assert_eq!(r.u16("b")?, 2);
        assert_eq!(r.u32("c")?, 3);
        assert_eq!(r.u64("d")?, 4);
        assert_eq!(r.bytes("e")?, b"five");
        assert_eq!(r.str("f")?, "sechs");
        assert_eq!(r.array("g")?, [7, 7]);
        r.finish()
    };
    let body = w.as_bytes();
    assert_eq!(read(body), Ok(()));
    let cuts = [(0, "a"), (1, "b"), (2, "b"), (6, "c"), (14, "d"), (15, "e"), (20, "e"), (21, "f")];
    for (len, what) in cuts {
        assert_eq!(read(&body[..len]), Err(CardError::Truncated { what }), "{len}");
    }
    assert_eq!(read(&body[..body.len() - 1]), Err(CardError::Truncated { what: "g" }));
    let longer = [body, &[0; 3]].concat();
    assert_eq!(read(&longer), Err(CardError::Trailing { what: "a test", left: 3 }));
    assert_eq!(BodyReader::new("a test", &longer).allow_trailing().finish(), Ok(()));
    let mut r = BodyReader::new("a test", &[1, 0, 0xFF]);
    assert!(matches!(r.str("f"), Err(CardError::Malformed { what: "f", .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trip(sections in prop::collection::btree_map(
        "[!-~]{1,16}", (any::<u16>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20,
    )) {
        let list: Vec<_> = sections.iter().map(|(n, (v, b))| (n.as_str(), *v, &b[..])).collect();
        let parsed = Card::parse(&card(&list)).unwrap();
        let got: Vec<_> = parsed.sections().map(|s| (s.name, s.version, s.body)).collect();
        prop_assert_eq!(got, list);
    }

    #[test]
    fn one_changed_byte_is_noticed(at in any::<prop::sample::Index>(), xor in 1u8..) {
        let mut bytes = card(&[("tcp", 1, b"some addresses"), ("node", 1, &[1; 40])]);
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        prop_assert!(Card::parse(&bytes).is_err());
    }
}

/// A small generator (xorshift64*), so that millions of cases take a second.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// Parsing a mutated card returns an error, or a card that can be read completely and is no larger
/// than its bytes.
#[test]
fn mutated_cards() {
    let rounds = if cfg!(miri) { 500 } else { 2_000_000 };
    let node = NodeSection { hostname: "node17".into(), boot_id: [3; 16], pid: 9, cores: 8 };
    let mut w = CardWriter::new();
    node.emit(&mut w).unwrap();
    w.section("tcp", 1, &[5; 24]).unwrap();
    w.section("x", 3, b"").unwrap();
    let seeds = [w.finish(), card(&[]), card(&[("tcp", 1, &[0; 9]), ("tcq", 1, &[0; 9])])];
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    let (mut good, mut bad) = (0u32, 0u32);
    let mut bytes = Vec::new();
    for round in 0..rounds {
        bytes.clear();
        bytes.extend_from_slice(&seeds[rng.below(seeds.len())]);
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(8) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, rng.below(256) as u8),
                2 => bytes[at] ^= 1 << rng.below(8),
                3 => bytes[at] = [0, 1, 16, 17, 64, 65, 127, 128, 255][rng.below(9)],
                4 => bytes.extend_from_within(at..),
                5 => bytes.drain(..at).for_each(drop),
                _ => bytes[at] = rng.below(256) as u8,
            }
        }
        // Mostly with a correct length and checksum, so that the checks after them are reached.
        if round % 4 != 0 && bytes.len() >= HEADER {
            let len = bytes.len() as u32;
            bytes[8..12].copy_from_slice(&len.to_le_bytes());
            bytes = seal(bytes);
        }
        match Card::parse(&bytes) {
            Ok(card) => {
                good += 1;
                assert_eq!(card.as_bytes(), bytes);
                let stated = usize::from(bytes[6]) + 256 * usize::from(bytes[7]);
                assert_eq!(card.sections().count(), stated);
                let size: usize = card.sections().map(|s| 7 + s.name.len() + s.body.len()).sum();
                assert_eq!(HEADER + size, bytes.len());
                if let Ok(node) = card.node() {
                    assert!(node.hostname.len() <= MAX_HOSTNAME);
                }
            }
            Err(e) => {
                bad += 1;
                if round % 1000 == 0 {
                    assert!(e.to_string().starts_with("business card: "));
                }
            }
        }
    }
    assert!(good > rounds / 20 && bad > rounds / 20, "{good} good, {bad} bad");
}
