//! Messages of two jobs that join, and of the members of one: and their checked
//! form.
//!
//! A message begins with `NMD1` and a byte that says what it is. All integers are little-endian. A
//! roster is a count (4 bytes) and for each rank the length of its business card (4) and the card.
//!
//! | byte | | body |
//! |---|---|---|
//! | 1 | `Offer`, who connects | rank of its root (4), roster |
//! | 2 | `Terms`, who accepts | meeting (16), key (32), rank of its root (4), roster |
//! | 3 | `Ready`, who connects | |
//! | 4 | `Go`, who accepts | |
//! | 5 | `Refuse`, either | text |
//! | 16 | `Card`, member to root | card |
//! | 17 | `Plan`, to members | the other id (16), ours (16), key (32), other root (4), roster |
//! | 18 | `Ack`, member to root | |
//! | 19 | `Nack`, member to root | text |
//! | 20 | `Drop`, root to members: the plan has failed | |
//! | 21 | `Commit`, root to members: the groups have met | |
//! | 22 | `Fail`, root to members | 1 if a deadline has passed (1), text |
//! | 23 | `Done`, when parting: nothing more will be sent | |

use netmod_core::{Card, CardError, GroupId};

const MAGIC: [u8; 4] = *b"NMD1";
/// Processes of a group that is met.
const MAX_PROCESSES: usize = 1 << 20;
/// Longest text of a message in bytes; a longer one is cut.
const MAX_TEXT: usize = 2000;
/// Longest message that is taken.
pub(super) const MAX_WORD: usize = 64 << 20;

/// The business cards of a group by rank, each of them checked.
pub(super) type Roster = Vec<Box<[u8]>>;

/// A group as the other one is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Party {
    /// The rank that speaks for it.
    pub(super) root: u32,
    pub(super) roster: Roster,
}

/// The way in which a group is joined.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The other group.
    pub(super) id: GroupId,
    /// The name of this one towards it.
    pub(super) ours: GroupId,
    pub(super) key: [u8; 32],
    pub(super) party: Party,
}

/// A message.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Word {
    Offer(Party),
    Terms { meeting: [u8; 16], key: [u8; 32], party: Party },
    Ready,
    Go,
    Refuse(String),
    Card(Box<[u8]>),
    Plan(Plan),
    Ack,
    Nack(String),
    Drop,
    Commit,
    Fail { timeout: bool, text: String },
    Done,
}

/// The fault of bytes that are no message of a join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WordError {
    /// The first bytes are another protocol's, or another version's.
    #[error("it does not begin with NMD1; do both jobs run the same version?")]
    Magic,
    /// There is no message of this kind.
    #[error("kind {0} is unknown; do both jobs run the same version?")]
    Kind(u8),
    /// There is no failure of this kind.
    #[error("{0} is no kind of failure")]
    FailureKind(u8),
    /// The bytes end within this part.
    #[error("it ends within {0}")]
    Cut(&'static str),
    /// Bytes follow the message: how many.
    #[error("{0} bytes too many")]
    Trailing(usize),
    /// A text is longer than allowed.
    #[error("a text of {0} bytes; at most {MAX_TEXT} are allowed")]
    Text(usize),
    /// The root is no rank of its group, or the group is too large.
    #[error("root {root} of {processes} processes cannot be")]
    Root {
        /// Rank of the root.
        root: u32,
        /// Size of the group.
        processes: usize,
    },
    /// A business card cannot be read.
    #[error(transparent)]
    Card(#[from] CardError),
}

impl Word {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Word::Offer(_) => "Offer",
            Word::Terms { .. } => "Terms",
            Word::Ready => "Ready",
            Word::Go => "Go",
            Word::Refuse(_) => "Refuse",
            Word::Card(_) => "Card",
            Word::Plan(_) => "Plan",
            Word::Ack => "Ack",
            Word::Nack(_) => "Nack",
            Word::Drop => "Drop",
            Word::Commit => "Commit",
            Word::Fail { .. } => "Fail",
            Word::Done => "Done",
        }
    }

    /// The bytes of the message.
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut w = MAGIC.to_vec();
        match self {
            Word::Offer(party) => {
                w.push(1);
                put_party(&mut w, party);
            }
            Word::Terms { meeting, key, party } => {
                w.push(2);
                w.extend_from_slice(meeting);
                w.extend_from_slice(key);
                put_party(&mut w, party);
            }
            Word::Ready => w.push(3),
            Word::Go => w.push(4),
            Word::Refuse(text) => {
                w.push(5);
                put_text(&mut w, text);
            }
            Word::Card(card) => {
                w.push(16);
                w.extend_from_slice(card);
            }
            Word::Plan(Plan { id, ours, key, party }) => {
                w.push(17);
                w.extend_from_slice(&id.0);
                w.extend_from_slice(&ours.0);
                w.extend_from_slice(key);
                put_party(&mut w, party);
            }
            Word::Ack => w.push(18),
            Word::Nack(text) => {
                w.push(19);
                put_text(&mut w, text);
            }
            Word::Drop => w.push(20),
            Word::Commit => w.push(21),
            Word::Fail { timeout, text } => {
                w.extend_from_slice(&[22, u8::from(*timeout)]);
                put_text(&mut w, text);
            }
            Word::Done => w.push(23),
        }
        w
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Fails with the fault of bytes that are no message.
    pub(super) fn parse(bytes: &[u8]) -> Result<Word, WordError> {
        let mut r = Reader(bytes);
        if r.array("its beginning")? != MAGIC {
            return Err(WordError::Magic);
        }
        let [kind] = r.array("its kind")?;
        let word = match kind {
            1 => Word::Offer(r.party()?),
            2 => {
                Word::Terms { meeting: r.array("the meeting")?, key: r.array("the key")?, party: r.party()? }
            }
            3 => Word::Ready,
            4 => Word::Go,
            5 => Word::Refuse(r.text()?),
            16 => Word::Card(card(r.rest())?),
            17 => Word::Plan(Plan {
                id: GroupId(r.array("the other group")?),
                ours: GroupId(r.array("this group")?),
                key: r.array("the key")?,
                party: r.party()?,
            }),
            18 => Word::Ack,
            19 => Word::Nack(r.text()?),
            20 => Word::Drop,
            21 => Word::Commit,
            22 => {
                let [timeout] = r.array("the kind of failure")?;
                if timeout > 1 {
                    return Err(WordError::FailureKind(timeout));
                }
                Word::Fail { timeout: timeout == 1, text: r.text()? }
            }
            23 => Word::Done,
            other => return Err(WordError::Kind(other)),
        };
        if r.0.is_empty() { Ok(word) } else { Err(WordError::Trailing(r.0.len())) }
    }
}

/// Without keys.
impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn put_party(w: &mut Vec<u8>, party: &Party) {
    w.extend_from_slice(&party.root.to_le_bytes());
    w.extend_from_slice(&(party.roster.len() as u32).to_le_bytes());
    for card in &party.roster {
        w.extend_from_slice(&(card.len() as u32).to_le_bytes());
        w.extend_from_slice(card);
    }
}

fn put_text(w: &mut Vec<u8>, text: &str) {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    w.extend_from_slice(&text.as_bytes()[..end]);
}

fn card(bytes: &[u8]) -> Result<Box<[u8]>, WordError> {
    Card::parse(bytes)?;
    Ok(bytes.into())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], WordError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(WordError::Cut(what))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WordError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, WordError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Text of another process: no control characters get into a log or onto a terminal.
    fn text(&mut self) -> Result<String, WordError> {
        let bytes = self.rest();
        if bytes.len() > MAX_TEXT {
            return Err(WordError::Text(bytes.len()));
        }
        let text = String::from_utf8_lossy(bytes);
        Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    fn party(&mut self) -> Result<Party, WordError> {
        let root = self.u32("the root")?;
        let n = self.u32("the number of processes")? as usize;
        if n > MAX_PROCESSES || root as usize >= n {
            return Err(WordError::Root { root, processes: n });
        }
        // The reserved room is bounded by the bytes that have come.
        let mut roster = Vec::with_capacity(n.min(self.0.len() / 4));
        for _ in 0..n {
            let len = self.u32("the length of a card")?;
            roster.push(card(self.take(usize::try_from(len).unwrap_or(usize::MAX), "a card")?)?);
        }
        Ok(Party { root, roster })
    }
}

#[cfg(test)]
mod tests;
