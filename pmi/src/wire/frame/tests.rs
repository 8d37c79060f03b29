//! Messages of real servers, messages cut anywhere, and millions of damaged ones.

use super::super::tests::Random;
use super::super::{MAX_LINE, quote};
use super::*;

#[test]
fn words_are_found_in_any_order() {
    for text in [
        "cmd=kvs-get-response;rc=0;found=TRUE;value=(vector,(0,1,2));",
        "cmd=kvs-get-response;found=TRUE;value=(vector,(0,1,2));rc=0;",
        "rc=0;value=(vector,(0,1,2));found=TRUE;cmd=kvs-get-response",
    ] {
        let line = Line::parse_frame(text.as_bytes()).unwrap();
        assert_eq!(line.cmd(), "kvs-get-response", "{text}");
        assert_eq!(line.get("value"), Some("(vector,(0,1,2))"), "{text}");
        assert_eq!(line.number::<i32>("rc"), Some(0), "{text}");
    }
    let line = Line::parse_frame(b"cmd=x;errmsg=no such  key;pad=a==b;empty=;last=a;;b;;").unwrap();
    assert_eq!(line.get("errmsg"), Some("no such  key"));
    assert_eq!((line.get("pad"), line.get("empty")), (Some("a==b"), Some("")));
    assert_eq!(line.get("last"), Some("a;;b;;"), "doubled semicolons belong to the value");
}

#[test]
fn bad_messages_are_errors() {
    let many: String = (0..20).map(|i| format!("k{i}=v;")).collect();
    let long = format!("cmd=x;value={}", "a".repeat(MAX_LINE));
    for (text, error) in [
        ("", LineError::Empty),
        ("hello", LineError::NotKeyValue),
        ("cmd=x;hello;", LineError::NotKeyValue),
        ("=x;cmd=y;", LineError::NotKeyValue),
        ("a=b;", LineError::NoCommand),
        ("cmd=;a=b;", LineError::NoCommand),
        ("cmd=a;rc=0;rc=1;", LineError::Twice),
        ("cmd=a;\n", LineError::NotText),
        ("cmd=\u{e9};", LineError::NotText),
        (&many, LineError::TooManyWords),
        (&long, LineError::TooLong),
    ] {
        assert_eq!(Line::parse_frame(text.as_bytes()).unwrap_err(), error, "{}", quote(text.as_bytes()));
    }
}

#[test]
fn messages_are_cut_out_of_any_pieces_and_justifications() {
    let text = b"    13cmd=a;value=b5     cmd=b     0000007cmd=cde    99unfin";
    for piece in 1..text.len() {
        let mut buffer = LineBuffer::default();
        let mut frames = Vec::new();
        for part in text.chunks(piece) {
            buffer.extend(part);
            while let Some(frame) = buffer.next_frame().unwrap() {
                frames.push(frame.to_vec());
            }
        }
        let expected = [&b"cmd=a;value=b"[..], b"cmd=b", b"", b"cmd=cde"];
        assert_eq!(frames, expected, "pieces of {piece}");
        assert_eq!(buffer.rest(), b"    99unfin");
    }
}

#[test]
fn lines_can_go_over_to_messages_in_one_piece() {
    let mut buffer = LineBuffer::default();
    buffer.extend(b"cmd=response_to_init rc=0\n5     cmd=x");
    assert_eq!(buffer.next_line().unwrap(), Some(&b"cmd=response_to_init rc=0"[..]));
    assert_eq!(buffer.next_frame().unwrap(), Some(&b"cmd=x"[..]));
    assert_eq!(buffer.next_frame().unwrap(), None);
}

#[test]
fn a_length_is_a_number_within_bounds() {
    for (text, error) in [
        ("      cmd=x", LineError::NoLength),
        ("cmd=x;", LineError::NoLength),
        ("-00001", LineError::NoLength),
        ("+00001", LineError::NoLength),
        ("1 2   ", LineError::NoLength),
        ("\u{e9}0000", LineError::NoLength),
        ("999999", LineError::TooLong),
        (" 16385", LineError::TooLong),
    ] {
        let mut buffer = LineBuffer::default();
        buffer.extend(text.as_bytes());
        assert_eq!(buffer.next_frame(), Err(error), "{text}");
    }
    let mut buffer = LineBuffer::default();
    buffer.extend(b" 16384");
    assert_eq!(buffer.next_frame(), Ok(None));
    buffer.extend(&[b'x'; MAX_LINE]);
    assert_eq!(buffer.next_frame().unwrap().map(<[u8]>::len), Some(MAX_LINE));
}

#[test]
fn millions_of_damaged_messages_do_no_harm() {
    let seeds: [&[u8]; 6] = [
        b"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=-1;debugged=FALSE;",
        b"cmd=kvs-get-response;found=TRUE;value=1.5.0badcafe.1.aGVsbG8;rc=0;",
        b"cmd=kvs-get-response;found=FALSE;rc=0;",
        b"cmd=kvs-get-response;rc=1;errmsg=no such;; key;",
        b"cmd=job-getid-response;jobid=1.0;rc=0;",
        b"cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,1));rc=0;",
    ];
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut good, mut bad) = (0u32, 0u32);
    let mut bytes = Vec::new();
    for round in 0..3_000_000 {
        random.damage(seeds[round % seeds.len()], &mut bytes);
        match Line::parse_frame(&bytes) {
            Ok(line) => {
                good += 1;
                assert!(!line.cmd().is_empty());
                for (key, value) in &line.words[..line.len] {
                    assert!(!key.is_empty() && !key.contains('='), "{bytes:?}");
                    // Every value can be read by its key, and is a part of the message.
                    assert_eq!(line.get(key), Some(*value));
                    assert!(key.len() + value.len() < bytes.len());
                    assert!(!value.replace(";;", "").contains(';'), "{bytes:?}");
                }
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 100_000 && bad > 100_000, "{good} good, {bad} bad");
}

#[test]
fn damaged_streams_end_in_messages_or_an_error() {
    let stream = b"    28cmd=kvs-fence-response;rc=0;26    cmd=kvs-put-response;rc=0;";
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let (mut whole, mut other) = (0u32, 0u32);
    let mut bytes = Vec::new();
    for _ in 0..300_000 {
        random.damage(stream, &mut bytes);
        let mut buffer = LineBuffer::default();
        buffer.extend(&bytes);
        let mut taken = 0;
        let end = loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => taken += LENGTH + frame.len(),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        // No byte is taken twice or lost.
        assert_eq!(taken + buffer.rest().len(), bytes.len());
        if end && buffer.rest().is_empty() { whole += 1 } else { other += 1 }
    }
    assert!(whole > 10_000 && other > 10_000, "{whole} whole, {other} other");
}
