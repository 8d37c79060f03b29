use netmod_core::CardWriter;
use proptest::prelude::*;

use super::*;

fn party(n: u8) -> Party {
    let card = |i: u8| {
        let mut w = CardWriter::new();
        w.section("tcp", 1, &vec![i; i as usize * 3]).expect("a section");
        w.finish().into()
    };
    Party { root: u32::from(n) - 1, roster: (0..n).map(card).collect() }
}

fn words() -> Vec<Word> {
    let plan = Plan { id: GroupId([1; 16]), ours: GroupId([2; 16]), key: [3; 32], party: party(3) };
    vec![
        Word::Offer(party(1)),
        Word::Terms { meeting: [4; 16], key: [5; 32], party: party(4) },
        Word::Ready,
        Word::Go,
        Word::Refuse("not today".into()),
        Word::Card(party(2).roster[1].clone()),
        Word::Plan(plan),
        Word::Ack,
        Word::Nack("no descriptor".into()),
        Word::Drop,
        Word::Commit,
        Word::Fail { timeout: true, text: "nobody came".into() },
        Word::Fail { timeout: false, text: String::new() },
        Word::Done,
    ]
}

#[test]
fn each_word_comes_back() {
    for w in words() {
        assert!(Word::parse(&w.emit()) == Ok(w.clone()), "{w:?}");
    }
}

/// Cut short, with a byte more, or with one byte altered a message is refused, or is another whole
/// one; nothing panics, and nothing is allocated that did not arrive.
#[test]
fn altered_words_are_checked() {
    for w in words() {
        let bytes = w.emit();
        let text = matches!(w, Word::Refuse(_) | Word::Nack(_) | Word::Fail { .. });
        for at in 0..bytes.len() {
            let cut = Word::parse(&bytes[..at]);
            assert!(cut.is_err() || text, "{w:?} cut at {at}");
            for bit in 0..8 {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << bit;
                if let Ok(other) = Word::parse(&altered) {
                    assert!(text || other != w, "{w:?} with bit {bit} of byte {at}");
                    assert!(Word::parse(&other.emit()).is_ok());
                }
            }
        }
        assert!(text || Word::parse(&[&bytes[..], &[0]].concat()).is_err(), "{w:?} and a byte");
    }
}

#[test]
fn rosters_are_bounded_by_what_has_come() {
    let head = |root: u32, n: u32| [b"NMD1\x01".as_slice(), &root.to_le_bytes(), &n.to_le_bytes()].concat();
    for (root, n) in [(0, 0), (1, 1), (u32::MAX, u32::MAX), (0, u32::MAX), (0, 1 << 20), (0, 1 << 21)] {
        assert!(Word::parse(&head(root, n)).is_err(), "root {root} of {n}");
    }
    let long = [head(0, 1), u32::MAX.to_le_bytes().to_vec()].concat();
    assert!(Word::parse(&long).is_err_and(|e| e == WordError::Cut("a card")));
}

#[test]
fn texts_are_cut_and_cleaned() {
    let long = "\u{e9}".repeat(5000);
    let Ok(Word::Refuse(text)) = Word::parse(&Word::Refuse(long.clone()).emit()) else { panic!("refused") };
    assert!(text.len() <= MAX_TEXT && long.starts_with(&text) && text.len() > MAX_TEXT - 4);
    let nasty = Word::Nack("a\x1b[31m\nb".into()).emit();
    assert!(Word::parse(&nasty) == Ok(Word::Nack("a [31m b".into())));
    assert!(Word::parse(&[b"NMD1\x05".as_slice(), &[b'x'; MAX_TEXT + 1]].concat()).is_err());
}

#[test]
fn debug_shows_no_key() {
    for w in words() {
        assert!(format!("{w:?}").len() < 8);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused(kind in 0u8..30, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Word::parse(&body);
        let _ = Word::parse(&[b"NMD1".as_slice(), &[kind], &body].concat());
    }
}
