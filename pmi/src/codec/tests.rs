//! Round trips of all sizes, and damage that must be detected.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn store(bytes: &[u8], room: usize) -> Vec<String> {
    let texts = encode(bytes, room).unwrap();
    for text in &texts {
        assert!(!text.is_empty() && text.len() <= room.min(MAX_CHUNK));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{text}");
    }
    texts
}

fn load(texts: &[String]) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(&texts[0])?;
    while let Some(index) = decoder.wants() {
        let Some(text) = texts.get(index) else { break };
        decoder.push(text)?;
    }
    decoder.finish()
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn checksum_and_text_are_the_standard_ones() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(to_text(b"foobar"), "Zm9vYmFy");
    assert_eq!(to_text(b"fooba"), "Zm9vYmE");
    assert_eq!(to_text(b"foob"), "Zm9vYg");
    assert_eq!(to_text(&[0xfb, 0xff]), "-_8");
    assert_eq!(to_text(b""), "");
    for bad in ["A", "AAAAA", "AA=", "A A", "AB", "-+/"] {
        assert_eq!(from_text(bad), None, "{bad}");
    }
}

#[test]
fn sizes_from_0_to_100_kb_survive() {
    let sizes = (0..3000).chain((3000..100_000).step_by(997)).chain([100_000]);
    for size in sizes {
        let bytes = sample(size);
        assert_eq!(load(&store(&bytes, MAX_CHUNK)).as_deref(), Ok(&bytes[..]), "{size} bytes");
    }
    for room in [MIN_CHUNK, 65, 100, 651, 5000] {
        for size in [0, 1, 30, 31, 32, 33, 47, 48, 49, 5000, 60_000] {
            let bytes = sample(size);
            assert_eq!(load(&store(&bytes, room)).as_deref(), Ok(&bytes[..]), "{size} in {room}");
        }
    }
}

#[test]
fn the_largest_value_survives_and_a_larger_one_is_refused() {
    let bytes = sample(MAX_VALUE);
    let texts = store(&bytes, MIN_CHUNK);
    let suffix = chunk_key("", texts.len() - 1);
    assert!(suffix.len() <= SUFFIX_ROOM, "{suffix}");
    assert!(load(&texts) == Ok(bytes));
    assert!(encode(&sample(MAX_VALUE + 1), MAX_CHUNK).unwrap_err().to_string().contains("limit"));
    assert!(encode(b"x", MIN_CHUNK - 1).unwrap_err().to_string().contains("limits leave only"));
}

#[test]
fn a_short_value_is_one_entry() {
    assert_eq!(store(&sample(500), MAX_CHUNK).len(), 1);
    assert_eq!(store(b"", MAX_CHUNK), ["1.0.00000000.1."]);
}

#[test]
fn missing_and_cut_chunks_are_told() {
    let texts = store(&sample(5000), MAX_CHUNK);
    assert_eq!(texts.len(), 9);
    for missing in 1..texts.len() {
        let error = load(&texts[..missing]).unwrap_err();
        assert_eq!(error, DecodeError::Missing { index: missing, chunks: 9 });
    }
    for (index, length) in texts.iter().map(String::len).enumerate() {
        for cut in [1, 2, 3, 4, 40] {
            let mut damaged = texts.clone();
            damaged[index].truncate(length - cut);
            let error = load(&damaged).unwrap_err();
            assert!(matches!(error, DecodeError::Truncated { .. }), "chunk {index}, {cut} less: {error}");
        }
    }
}

#[test]
fn exchanged_chunks_and_changed_bytes_are_noticed() {
    let texts = store(&sample(5000), MAX_CHUNK);
    let mut exchanged = texts.clone();
    exchanged.swap(2, 3);
    assert!(load(&exchanged).unwrap_err().to_string().contains("checksum"));
    for index in 0..texts.len() {
        let mut damaged = texts.clone();
        let last = damaged[index].pop().unwrap();
        damaged[index].push(if last == 'A' { 'Q' } else { 'A' });
        load(&damaged).unwrap_err();
    }
    let mut longer = texts;
    longer[4].push('A');
    assert!(load(&longer).is_err());
}

#[test]
fn headings_that_lie_cost_nothing() {
    for head in [
        "",
        "1",
        "unknown",
        "2.1.00000000.1.AA",
        "1.1.00000000.0.AA",
        "1.99999999999999999999.00000000.1.",
        "1.1048577.00000000.2.",
        "1.5.00000000.4294967295.",
        "1.0.00000000.2.",
        "1.1.0000000.1.AA",
        "1.-1.00000000.1.AA",
        "1.1.00000000.1.AAAAAA",
    ] {
        assert!(Decoder::new(head).is_err(), "{head}");
    }
}

#[test]
fn keys_of_chunks_differ() {
    let keys: HashMap<String, usize> = (0..3000).map(|i| (chunk_key("card-1", i), i)).collect();
    assert_eq!(keys.len(), 3000);
    assert_eq!(chunk_key("k", 0), "k");
    assert_eq!(chunk_key("k", 12), "k~12");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..4000), room in MIN_CHUNK..1200) {
        prop_assert_eq!(load(&store(&bytes, room)), Ok(bytes));
    }

    #[test]
    fn a_damaged_entry_never_gives_another_value(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"A0z_-.~".to_vec()),
    ) {
        let mut texts = store(&bytes, 200);
        let index = which.index(texts.len());
        let at = at.index(texts[index].len());
        texts[index].replace_range(at..=at, std::str::from_utf8(&[byte]).unwrap());
        if let Ok(value) = load(&texts) {
            prop_assert_eq!(value, bytes);
        }
    }

    #[test]
    fn any_heading_is_harmless(head in "[ -~]{0,80}", more in "[ -~]{0,80}") {
        if let Ok(mut decoder) = Decoder::new(&head) {
            let _ = decoder.push(&more);
            let _ = decoder.finish();
        }
    }
}
