//! The messages between processes that go on after failures: steps of agreements, and the news that
//! a communicator was revoked.
//!
//! All are words of 64 bits, little-endian: the communicator's name, the number of the agreement
//! with the kind of the message, and what the kind has.

use super::agree::{Message, Set, Value};

/// The words before the body.
pub(super) const HEAD: usize = 2;
/// The most words that members contribute.
const MOST_WORDS: u64 = 1 << 20;

const REVOKE: u64 = 0;
const QUERY: u64 = 1;
const CONTRIBUTE: u64 = 2;
const PROPOSE: u64 = 3;
const ACCEPT: u64 = 4;
const DECIDE: u64 = 5;

/// The subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The communicator was revoked.
    Revoke,
    /// A step of its agreement with this number.
    Agreement(u32),
}

fn put(words: &mut Vec<u64>, value: &Value) {
    words.push(value.words.len() as u64);
    words.extend(&value.words);
    words.extend(&value.failed.0);
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the news that a communicator was revoked.
pub(super) fn revocation(name: u64) -> Vec<u8> {
    bytes(&[name, REVOKE])
}

/// Returns the bytes of a step of an agreement.
pub(super) fn emit(name: u64, number: u32, message: &Message) -> Vec<u8> {
    let kind = |kind: u64| u64::from(number) << 8 | kind;
    let mut words = vec![name];
    match message {
        Message::Query { failed } => {
            words.push(kind(QUERY));
            words.extend(&failed.0);
        }
        Message::Contribute { value, accepted } => {
            words.push(kind(CONTRIBUTE));
            put(&mut words, value);
            if let Some((leader, value)) = accepted {
                words.push(*leader as u64);
                put(&mut words, value);
            }
        }
        Message::Propose { value } => {
            words.push(kind(PROPOSE));
            put(&mut words, value);
        }
        Message::Accept { failed } => {
            words.push(kind(ACCEPT));
            words.extend(&failed.0);
        }
        Message::Decide { value } => {
            words.push(kind(DECIDE));
            put(&mut words, value);
        }
    }
    bytes(&words)
}

/// Returns the name of the communicator and the subject of a message; `None` if it is none.
pub(super) fn head(data: &[u8]) -> Option<(u64, Subject)> {
    let (words, []) = data.as_chunks::<8>() else { return None };
    let [name, kind] = [words.first()?, words.get(1)?].map(|w| u64::from_le_bytes(*w));
    let number = u32::try_from(kind >> 8).ok()?;
    match kind & 0xff {
        REVOKE if number == 0 && words.len() == HEAD => Some((name, Subject::Revoke)),
        QUERY..=DECIDE => Some((name, Subject::Agreement(number))),
        _ => None,
    }
}

/// The body of a message, as far as it was not read yet.
struct Body<'a> {
    words: &'a [[u8; 8]],
    members: usize,
}

impl Body<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn words(&mut self, n: usize) -> Option<Vec<u64>> {
        (0..n).map(|_| self.word()).collect()
    }

    fn set(&mut self) -> Option<Set> {
        let words = self.words(self.members.div_ceil(64))?;
        let beyond = self.members % 64;
        // Members that do not exist have not failed.
        let fits = beyond == 0 || words.last().is_none_or(|last| last >> beyond == 0);
        fits.then_some(Set(words))
    }

    fn value(&mut self, contributed: Option<usize>) -> Option<Value> {
        let n = self.word().filter(|n| *n <= MOST_WORDS)? as usize;
        if n > self.words.len() || contributed.is_some_and(|own| own != n) {
            return None;
        }
        Some(Value { words: self.words(n)?, failed: self.set()? })
    }
}

/// Returns the step of an agreement of so many members; `None` if the message is none.
/// `contributed`: the number of words that this process contributes, once it takes part.
pub(super) fn parse(data: &[u8], members: usize, contributed: Option<usize>) -> Option<Message> {
    let (words, []) = data.as_chunks::<8>() else { return None };
    let kind = u64::from_le_bytes(*words.get(1)?) & 0xff;
    let mut body = Body { words: words.get(HEAD..)?, members };
    let message = match kind {
        QUERY => Message::Query { failed: body.set()? },
        CONTRIBUTE => {
            let value = body.value(contributed)?;
            let accepted = match body.words {
                [] => None,
                _ => {
                    let leader = usize::try_from(body.word()?).ok().filter(|leader| *leader < members)?;
                    Some((leader, body.value(contributed)?))
                }
            };
            Message::Contribute { value, accepted }
        }
        PROPOSE => Message::Propose { value: body.value(contributed)? },
        ACCEPT => Message::Accept { failed: body.set()? },
        DECIDE => Message::Decide { value: body.value(contributed)? },
        _ => return None,
    };
    body.words.is_empty().then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let failed = Set(vec![5, 1]);
        let value = Value { words: vec![7, 8, 9], failed: failed.clone() };
        vec![
            Message::Query { failed: failed.clone() },
            Message::Contribute { value: value.clone(), accepted: None },
            Message::Contribute { value: value.clone(), accepted: Some((69, value.clone())) },
            Message::Propose { value: value.clone() },
            Message::Accept { failed },
            Message::Decide { value },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for message in messages() {
            let data = emit(77, 12, &message);
            assert_eq!(head(&data), Some((77, Subject::Agreement(12))));
            assert_eq!(parse(&data, 70, Some(3)), Some(message));
        }
        assert_eq!(head(&revocation(9)), Some((9, Subject::Revoke)));
    }

    #[test]
    fn mutated_messages_are_read_or_refused() {
        let (mut random, mut refused) = (1u64, 0);
        let mut below = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % n
        };
        let all = messages();
        for _ in 0..500_000 {
            let mut data = emit(1, 2, &all[below(all.len())]);
            match below(3) {
                0 => data.truncate(below(data.len() + 1)),
                1 => data.extend(vec![below(256) as u8; below(20)]),
                _ => {}
            }
            for _ in 0..below(4) {
                if !data.is_empty() {
                    let at = below(data.len());
                    data[at] = below(256) as u8;
                }
            }
            match (head(&data), parse(&data, 70, Some(3))) {
                // All that is read is written alike, so nothing of it was passed over.
                (Some((name, Subject::Agreement(n))), Some(message)) => {
                    assert_eq!(emit(name, n, &message), data)
                }
                _ => refused += 1,
            }
        }
        assert!(refused > 100_000, "{refused} were refused");
    }
}
