//! Lines of real servers, lines cut anywhere, and millions of damaged lines.

use super::*;

#[test]
fn words_are_found_in_any_order() {
    for text in [
        "cmd=get_result rc=0 msg=success value=abc\n",
        "rc=0 cmd=get_result value=abc",
        "cmd=get_result value=abc rc=0\r\n",
        "  cmd=get_result\tvalue=abc   rc=0 ",
    ] {
        let line = Line::parse(text.as_bytes()).unwrap();
        assert_eq!(line.cmd(), "get_result", "{text}");
        assert_eq!(line.get("value"), Some("abc"), "{text}");
        assert_eq!(line.number::<i32>("rc"), Some(0), "{text}");
        assert_eq!(line.get("no"), None, "{text}");
    }
}

#[test]
fn values_keep_equal_signs_blanks_and_brackets() {
    let line = Line::parse(b"cmd=x value=(vector,(0,1,2)) msg=no such  key pad=ab== last=").unwrap();
    assert_eq!(line.get("value"), Some("(vector,(0,1,2))"));
    assert_eq!(line.get("msg"), Some("no such  key"));
    assert_eq!(line.get("pad"), Some("ab=="));
    assert_eq!(line.get("last"), Some(""));
    assert_eq!(line.number::<u32>("last"), None);
}

#[test]
fn bad_lines_are_errors() {
    let many: String = (0..20).map(|i| format!("k{i}=v ")).collect();
    let long = format!("cmd=x value={}", "a".repeat(MAX_LINE));
    for (text, error) in [
        ("", LineError::Empty),
        (" \n", LineError::Empty),
        ("hello world", LineError::NotKeyValue),
        ("=x cmd=y", LineError::NotKeyValue),
        ("a=b", LineError::NoCommand),
        ("cmd= a=b", LineError::NoCommand),
        ("cmd=a rc=0 rc=1", LineError::Twice),
        ("cmd=a\x01", LineError::NotText),
        ("cmd=\u{e9}", LineError::NotText),
        (&many, LineError::TooManyWords),
        (&long, LineError::TooLong),
    ] {
        assert_eq!(Line::parse(text.as_bytes()).unwrap_err(), error, "{}", quote(text.as_bytes()));
    }
    assert_eq!(Line::parse(b"cmd=\xff").unwrap_err(), LineError::NotText);
}

#[test]
fn a_quoted_line_is_short_and_printable() {
    assert_eq!(quote(b"cmd=x\n"), "cmd=x");
    let quoted = quote(&[0xff; 100_000]);
    assert!(quoted.len() < 1000 && quoted.is_ascii() && quoted.ends_with("..."));
}

#[test]
fn lines_are_cut_out_of_any_pieces() {
    let text = b"cmd=a\ncmd=bb\n\ncmd=c\nunfinished";
    for piece in 1..text.len() {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for part in text.chunks(piece) {
            buffer.extend(part);
            while let Some(line) = buffer.next_line().unwrap() {
                lines.push(line.to_vec());
            }
        }
        assert_eq!(lines, [&b"cmd=a"[..], b"cmd=bb", b"", b"cmd=c"], "pieces of {piece}");
        assert_eq!(buffer.rest(), b"unfinished");
    }
}

#[test]
fn the_buffer_is_bounded_with_and_without_newline() {
    let mut buffer = LineBuffer::default();
    buffer.extend(&[b'x'; MAX_LINE]);
    assert_eq!(buffer.next_line(), Ok(None));
    buffer.extend(b"x");
    assert_eq!(buffer.next_line(), Err(LineError::TooLong));
    let mut buffer = LineBuffer::default();
    buffer.extend(&[b'x'; MAX_LINE + 1]);
    buffer.extend(b"\n");
    assert_eq!(buffer.next_line(), Err(LineError::TooLong));
    let mut buffer = LineBuffer::default();
    buffer.extend(&[b'x'; MAX_LINE]);
    buffer.extend(b"\n");
    assert_eq!(buffer.next_line().unwrap().map(<[u8]>::len), Some(MAX_LINE));
}

#[test]
fn millions_of_damaged_lines_do_no_harm() {
    let seeds: [&[u8]; 6] = [
        b"cmd=get_result rc=0 msg=success value=abc",
        b"cmd=get_result rc=-1 msg=key_x_not_found value=unknown",
        b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
        b"cmd=barrier_out tag=0",
        b"cmd=initack rc=0 rank=0 size=2 appnum=0 debug=0",
        b"cmd=set size=4",
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut bad) = (0u32, 0u32);
    let mut bytes = Vec::new();
    for round in 0..3_000_000 {
        random.damage(seeds[round % seeds.len()], &mut bytes);
        match Line::parse(&bytes) {
            Ok(line) => {
                good += 1;
                assert!(!line.cmd().is_empty());
                for (key, value) in &line.words[..line.len] {
                    assert!(!key.is_empty() && !key.contains([' ', '=']), "{bytes:?}");
                    // Every value can be read by its key, and is a part of the line.
                    assert_eq!(line.get(key), Some(*value));
                    assert!(key.len() + value.len() < bytes.len());
                }
            }
            Err(_) => {
                bad += 1;
                assert!(quote(&bytes).is_ascii());
            }
        }
    }
    assert!(good > 100_000 && bad > 100_000, "{good} good, {bad} bad");
}

/// A small generator of damage (xorshift64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// Writes a copy of `seed` with up to three bytes changed, added, removed, or cut off.
    pub(crate) fn damage(&mut self, seed: &[u8], bytes: &mut Vec<u8>) {
        const USUAL: &[u8] = b" =\n\r\t;-09ac\0\xff";
        bytes.clear();
        bytes.extend_from_slice(seed);
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] = self.below(256) as u8,
                1 => bytes[at] = USUAL[self.below(USUAL.len())],
                2 => bytes.insert(at, USUAL[self.below(USUAL.len())]),
                3 => drop(bytes.remove(at)),
                4 => bytes.truncate(at),
                _ => {
                    let part = bytes[at..].to_vec();
                    bytes.extend_from_slice(&part);
                }
            }
        }
    }
}
