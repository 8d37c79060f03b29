//! How a lane of XRC gets its receiving queue pair, and its ends their part in that: what is said, and what follows from it. No device, no clock.
//!
//! A *lane* is a sending queue pair towards a domain; its *ends* are the processes of that domain that are sent to. Each end asks its
//! peer (JOIN) to take part in the receiving queue pair of the lane, which lives as long as somebody holds it: to make one, if none is
//! known yet, or to open the one that there is. The first ANSWER that names one connects the lane; an end whose peer has made another one
//! asks again, with the right number. So no end waits for the peer of another. Both are datagrams, asked again until they are answered, and it
//! does not matter if they come twice, late, or in another order:
//!
//! - lanes have numbers that grow, and a JOIN for an older lane than the last one is void;
//! - within a lane the first number that an end is asked to open is the last one, since a lane is connected once;
//! - an ANSWER is for one lane, and says what its sender holds at that time.
//!
//! All integers are little-endian. JOIN:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 129, which is no kind of frame |
//! | 1 | 1 | 1: this layout |
//! | 2 | 1 | code of the MTU |
//! | 3 | 1 | reads that the sender will have under way at most |
//! | 4 | 4 | number of the lane |
//! | 8 | 8 | token of the receiver's end |
//! | 16 | 8 | token of the sender's end |
//! | 24 | 28 | the sender's port, as in cards |
//! | 52 | 4 | the lane's queue pair |
//! | 56 | 4 | number of its first packet |
//! | 60 | 4 | its receiving queue pair; 0: it has none yet |
//!
//! ANSWER:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 130 |
//! | 1 | 1 | 1: this layout |
//! | 2 | 1 | 1 HELD: the sender holds it; 2 GONE: there is no such queue pair; 3 UNKNOWN: there is no such end; 4 CANNOT: none can be made |
//! | 3 | 1 | of HELD: reads that it takes at once |
//! | 4 | 4 | number of the lane |
//! | 8 | 8 | token of the receiver's end |
//! | 16 | 4 | of HELD: the receiving queue pair |

use hca::{Mtu, QpNum};

use crate::words::{ADDRESS, Address, BITS_24};

const JOIN: u8 = 129;
const ANSWER: u8 = 130;
const LAYOUT: u8 = 1;

/// The wish to take part in a lane's receiving queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) mtu: Mtu,
    pub(super) reads: u8,
    /// Number of the lane.
    pub(super) lane: u32,
    /// Token of the receiver's end.
    pub(super) to: u64,
    /// Token of the sender's.
    pub(super) from: u64,
    pub(super) address: Address,
    pub(super) ini: QpNum,
    pub(super) psn: u32,
    /// `None`: one is to be made.
    pub(super) tgt: Option<QpNum>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// The peer holds this one, which takes so many reads at once.
    Held(QpNum, u8),
    /// There is no such queue pair any more.
    Gone,
    /// There is no such end any more.
    Unknown,
    /// None can be made.
    Cannot,
}

/// The answer to a JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) said: Said,
    pub(super) lane: u32,
    pub(super) to: u64,
}

/// What ports say to each other beside frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Join(Join),
    Answer(Answer),
}

impl Note {
    /// Whether a datagram is none of netmod-framed.
    #[inline]
    pub(super) fn is_one(first: u8) -> bool {
        matches!(first, JOIN | ANSWER)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match self {
            Note::Join(j) => {
                out.extend_from_slice(&[JOIN, LAYOUT, j.mtu as u8, j.reads]);
                out.extend_from_slice(&j.lane.to_le_bytes());
                out.extend_from_slice(&j.to.to_le_bytes());
                out.extend_from_slice(&j.from.to_le_bytes());
                out.extend_from_slice(&j.address.to_bytes());
                for word in [j.ini.0, j.psn, j.tgt.map_or(0, |tgt| tgt.0)] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
            Note::Answer(a) => {
                let (code, reads, tgt) = match a.said {
                    Said::Held(tgt, reads) => (1, reads, tgt.0),
                    Said::Gone => (2, 0, 0),
                    Said::Unknown => (3, 0, 0),
                    Said::Cannot => (4, 0, 0),
                };
                out.extend_from_slice(&[ANSWER, LAYOUT, code, reads]);
                out.extend_from_slice(&a.lane.to_le_bytes());
                out.extend_from_slice(&a.to.to_le_bytes());
                out.extend_from_slice(&tgt.to_le_bytes());
            }
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Note> {
        let ([kind, LAYOUT, code, reads], rest) = bytes.split_first_chunk::<4>()? else { return None };
        let (lane, rest) = rest.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<8>()?;
        let (lane, to) = (u32::from_le_bytes(*lane), u64::from_le_bytes(*to));
        let queue_pair = |number: u32| (number > 1 && number <= BITS_24).then_some(QpNum(number));
        if *kind == ANSWER {
            let tgt = u32::from_le_bytes(<[u8; 4]>::try_from(rest).ok()?);
            let said = match code {
                1 => Said::Held(queue_pair(tgt)?, *reads),
                2 => Said::Gone,
                3 => Said::Unknown,
                4 => Said::Cannot,
                _ => return None,
            };
            return Some(Note::Answer(Answer { said, lane, to }));
        }
        if *kind != JOIN {
            return None;
        }
        let (from, rest) = rest.split_first_chunk::<8>()?;
        let (address, rest) = rest.split_first_chunk::<ADDRESS>()?;
        let (words, rest) = rest.as_chunks::<4>();
        let [ini, psn, tgt] = words.first_chunk::<3>()?.map(u32::from_le_bytes);
        let whole = rest.is_empty() && words.len() == 3 && psn <= BITS_24;
        let join = Join {
            mtu: Mtu::of_code((*code).into())?,
            reads: *reads,
            lane,
            to,
            from: u64::from_le_bytes(*from),
            address: Address::parse(address)?,
            ini: queue_pair(ini)?,
            psn,
            tgt: if tgt == 0 { None } else { Some(queue_pair(tgt)?) },
        };
        whole.then_some(Note::Join(join))
    }
}

/// An end's part in a receiving queue pair of its peer's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The peer's port; lanes of another one have other numbers.
    pub(super) of: Address,
    pub(super) lane: u32,
    pub(super) tgt: QpNum,
}

/// What is to be done about a JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// It is void.
    Old,
    /// To say what is held.
    Say(QpNum),
    /// To make a queue pair.
    Make,
    /// To open this one.
    Open(QpNum),
}

/// What a JOIN asks of an end that holds this.
pub(super) fn wish(hold: Option<&Hold>, join: &Join) -> Wish {
    let hold = hold.filter(|hold| hold.of == join.address);
    match (hold, join.tgt) {
        (Some(hold), _) if (hold.lane.wrapping_sub(join.lane) as i32) > 0 => Wish::Old,
        (Some(hold), None) if hold.lane == join.lane => Wish::Say(hold.tgt),
        (Some(hold), Some(tgt)) if hold.lane == join.lane && hold.tgt == tgt => Wish::Say(tgt),
        (_, Some(tgt)) => Wish::Open(tgt),
        (_, None) => Wish::Make,
    }
}

/// What follows from an ANSWER for an end of the lane that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The lane is connected to this one, which takes so many reads; the end has joined.
    Connect(QpNum, u8),
    /// The end has joined.
    Joined,
    /// It asks again, with the lane's number.
    AskAgain,
    /// The lane takes no more ends; this one needs another lane.
    Leave,
    /// There is no way to the peer.
    Fail(&'static str),
}

/// What an ANSWER means where a lane has this receiving queue pair.
pub(super) fn step(lane: Option<QpNum>, said: Said) -> Step {
    match (said, lane) {
        (Said::Held(tgt, reads), None) => Step::Connect(tgt, reads),
        (Said::Held(tgt, _), Some(of)) if tgt == of => Step::Joined,
        (Said::Held(..), Some(_)) => Step::AskAgain,
        (Said::Gone, _) => Step::Leave,
        (Said::Unknown, _) => Step::Fail("the peer has given the connection up"),
        (Said::Cannot, _) => {
            Step::Fail("the peer cannot make a receiving queue pair of XRC; its own messages say why")
        }
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
