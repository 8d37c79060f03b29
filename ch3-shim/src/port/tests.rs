use netmod_core::CardWriter;
use proptest::prelude::*;

use super::*;

fn name() -> PortName {
    let mut card = CardWriter::new();
    card.section("tcp", 1, &[1, 2, 3, 4, 5]).expect("a section");
    let card = Card::parse(&card.finish()).expect("a card");
    PortName { tag: 0x0123_4567_89ab_cdef, key: [0x5a; KEY_LEN], card }
}

#[test]
fn a_name_is_one_word_and_comes_back() {
    let text = name().to_string();
    assert!(text.starts_with("netmod-port:") && text.len() < 200, "{text}");
    assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b)), "{text}");
    assert_eq!(text.parse(), Ok(name()));
    assert_eq!(format!(" {text}\n").parse(), Ok(name()));
}

#[test]
fn debug_shows_no_key() {
    assert_eq!(format!("{:?}", name()), "PortName(0123456789abcdef)");
}

#[test]
fn what_is_no_name_is_explained() {
    let text = name().to_string();
    let bad = |t: &str| t.parse::<PortName>().expect_err("not a port name").to_string();
    assert!(bad("").contains("begins with \"\""));
    assert!(bad("10.0.0.1:4711").contains("begins with \"10.0.0.1:471\""));
    assert_eq!("netmod-port:".parse::<PortName>(), Err(PortNameError::Text));
    assert_eq!(format!("{text}!").parse::<PortName>(), Err(PortNameError::Text));
    assert!(bad(&"x".repeat(1 << 20)).len() < 200);
    assert!(matches!(
        format!("netmod-port:{}", "A".repeat(1 << 20)).parse::<PortName>(),
        Err(PortNameError::TooLong { .. })
    ));
    let with = |bytes: &[u8]| {
        let crc = crc32(bytes).to_le_bytes();
        format!("netmod-port:{}", to_text(&[bytes, &crc].concat())).parse::<PortName>()
    };
    assert_eq!(with(&[9; 60]), Err(PortNameError::Version(9)));
    assert_eq!(with(&[]), Err(PortNameError::Text));
    assert_eq!(with(&[1; CARD_AT - 1]), Err(PortNameError::Text));
    assert!(matches!(with(&[1; CARD_AT + 30]), Err(PortNameError::Card(_))));
}

/// A text with anything cut off, added or altered is refused: no two texts are the same port.
#[test]
fn each_altered_text_is_refused() {
    let text = name().to_string();
    for at in 0..text.len() {
        assert!(text[..at].parse::<PortName>().is_err(), "cut at {at}");
        for with in ["A", "B", "_", "~", " ", "\u{e9}"] {
            let altered = format!("{}{with}{}", &text[..at], &text[at + 1..]);
            assert!(altered == text || altered.parse::<PortName>().is_err(), "{with} at {at}");
        }
    }
    for more in ["A", "AA", "AAAA", "="] {
        assert!(format!("{text}{more}").parse::<PortName>().is_err(), "{more}");
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in ".{0,200}", body in "[A-Za-z0-9_-]{0,300}") {
        prop_assert!(text.parse::<PortName>().is_err());
        let _ = format!("netmod-port:{body}").parse::<PortName>();
    }
}
