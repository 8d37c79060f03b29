//! Protocol by which endpoints join the receiving QP of a shared XRC QP. Pure state transitions,
//! without device or clock.
//!
//! A *shared QP* is a sending queue pair to a domain. Its *endpoints* lead to the processes of that
//! domain. Each endpoint asks its peer (JOIN) to hold the receiving QP, which lives as long as a
//! process holds it: to make one if none is known yet, or to open the existing one. The first
//! ANSWER that names one connects the shared QP. An endpoint whose peer has made another one asks
//! again with the right number. So no endpoint waits for another endpoint's peer. Both messages are
//! datagrams, repeated until answered. Duplicates, delays and reordering are harmless:
//!
//! - Shared QPs have increasing numbers, and a JOIN for an older one than the last is void.
//! - Within a shared QP, the first number that an endpoint is asked to open is the last one, since
//!   it is connected once.
//! - An ANSWER is for one shared QP, and states what its sender holds at that time.
//!
//! All integers are little-endian. JOIN:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 129, which is no frame type |
//! | 1 | 1 | 1: this layout |
//! | 2 | 1 | code of the MTU |
//! | 3 | 1 | maximum number of the sender's reads in flight |
//! | 4 | 4 | number of the shared QP |
//! | 8 | 8 | token of the receiver's endpoint |
//! | 16 | 8 | token of the sender's endpoint |
//! | 24 | 28 | the sender's port, as in cards |
//! | 52 | 4 | number of the sending queue pair |
//! | 56 | 4 | packet sequence number of its first packet |
//! | 60 | 4 | its receiving queue pair; 0 if there is none yet |
//!
//! ANSWER:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 130 |
//! | 1 | 1 | 1: this layout |
//! | 2 | 1 | result: 1 HELD, 2 GONE, 3 UNKNOWN, 4 CANNOT |
//! | 3 | 1 | of HELD: maximum number of reads that it serves at once |
//! | 4 | 4 | number of the shared QP |
//! | 8 | 8 | token of the receiver's endpoint |
//! | 16 | 4 | of HELD: the receiving queue pair |
//!
//! HELD: the sender holds the queue pair. GONE: there is no such queue pair. UNKNOWN: there is no
//! such endpoint. CANNOT: none can be made.

use hca::{Mtu, QpNum};

use crate::wire::{ADDRESS, Address, BITS_24};

const JOIN: u8 = 129;
const ANSWER: u8 = 130;
const LAYOUT: u8 = 1;

/// A request to hold a shared QP's receiving QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) mtu: Mtu,
    pub(super) reads: u8,
    /// Number of the shared QP.
    pub(super) send_qp: u32,
    /// Token of the receiver's endpoint.
    pub(super) to: u64,
    /// Token of the sender's endpoint.
    pub(super) from: u64,
    pub(super) address: Address,
    pub(super) ini: QpNum,
    pub(super) psn: u32,
    /// The receiving QP; `None` asks for a new one.
    pub(super) tgt: Option<QpNum>,
}

/// Result of a JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JoinResult {
    /// The peer holds this queue pair, which serves this many reads at once.
    Held(QpNum, u8),
    /// There is no such queue pair.
    Gone,
    /// There is no such endpoint.
    Unknown,
    /// The peer cannot make one.
    Cannot,
}

/// The answer to a JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) result: JoinResult,
    pub(super) send_qp: u32,
    pub(super) to: u64,
}

/// Control message between ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Join(Join),
    Answer(Answer),
}

impl Control {
    /// Returns true if a datagram is a control message rather than a frame.
    #[inline]
    pub(super) fn is_one(first: u8) -> bool {
        matches!(first, JOIN | ANSWER)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        match self {
            Control::Join(j) => {
                out.extend_from_slice(&[JOIN, LAYOUT, j.mtu as u8, j.reads]);
                out.extend_from_slice(&j.send_qp.to_le_bytes());
                out.extend_from_slice(&j.to.to_le_bytes());
                out.extend_from_slice(&j.from.to_le_bytes());
                out.extend_from_slice(&j.address.to_bytes());
                for word in [j.ini.0, j.psn, j.tgt.map_or(0, |tgt| tgt.0)] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
            Control::Answer(a) => {
                let (code, reads, tgt) = match a.result {
                    JoinResult::Held(tgt, reads) => (1, reads, tgt.0),
                    JoinResult::Gone => (2, 0, 0),
                    JoinResult::Unknown => (3, 0, 0),
                    JoinResult::Cannot => (4, 0, 0),
                };
                out.extend_from_slice(&[ANSWER, LAYOUT, code, reads]);
                out.extend_from_slice(&a.send_qp.to_le_bytes());
                out.extend_from_slice(&a.to.to_le_bytes());
                out.extend_from_slice(&tgt.to_le_bytes());
            }
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Control> {
        let ([kind, LAYOUT, code, reads], rest) = bytes.split_first_chunk::<4>()? else { return None };
        let (send_qp, rest) = rest.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<8>()?;
        let (send_qp, to) = (u32::from_le_bytes(*send_qp), u64::from_le_bytes(*to));
        let queue_pair = |number: u32| (number > 1 && number <= BITS_24).then_some(QpNum(number));
        if *kind == ANSWER {
            let tgt = u32::from_le_bytes(<[u8; 4]>::try_from(rest).ok()?);
            let result = match code {
                1 => JoinResult::Held(queue_pair(tgt)?, *reads),
                2 => JoinResult::Gone,
                3 => JoinResult::Unknown,
                4 => JoinResult::Cannot,
                _ => return None,
            };
            return Some(Control::Answer(Answer { result, send_qp, to }));
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
            send_qp,
            to,
            from: u64::from_le_bytes(*from),
            address: Address::parse(address)?,
            ini: queue_pair(ini)?,
            psn,
            tgt: if tgt == 0 { None } else { Some(queue_pair(tgt)?) },
        };
        whole.then_some(Control::Join(join))
    }
}

/// The receiving QP that an endpoint holds for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The peer's port. Each port numbers its shared QPs separately.
    pub(super) of: Address,
    pub(super) send_qp: u32,
    pub(super) tgt: QpNum,
}

/// Action upon a JOIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinAction {
    /// None: it is void.
    Ignore,
    /// Answer with the QP that is held.
    Report(QpNum),
    /// Make a queue pair.
    Make,
    /// Open this queue pair.
    Open(QpNum),
}

/// Returns the action upon a JOIN for an endpoint that holds this.
pub(super) fn join_action(hold: Option<&Hold>, join: &Join) -> JoinAction {
    let hold = hold.filter(|hold| hold.of == join.address);
    match (hold, join.tgt) {
        (Some(hold), _) if (hold.send_qp.wrapping_sub(join.send_qp) as i32) > 0 => JoinAction::Ignore,
        (Some(hold), None) if hold.send_qp == join.send_qp => JoinAction::Report(hold.tgt),
        (Some(hold), Some(tgt)) if hold.send_qp == join.send_qp && hold.tgt == tgt => JoinAction::Report(tgt),
        (_, Some(tgt)) => JoinAction::Open(tgt),
        (_, None) => JoinAction::Make,
    }
}

/// Action upon an ANSWER, for an endpoint of its shared QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerAction {
    /// Connect the shared QP to this queue pair, which serves this many reads; the endpoint has
    /// joined.
    Connect(QpNum, u8),
    /// The endpoint has joined.
    Joined,
    /// Ask again with the shared QP's receiving QP.
    AskAgain,
    /// Leave the shared QP, which accepts no more endpoints.
    Leave,
    /// Fail: the peer cannot be reached.
    Fail(&'static str),
}

/// Returns the action upon an ANSWER, given the receiving QP of the shared QP.
pub(super) fn answer_action(send_qp: Option<QpNum>, result: JoinResult) -> AnswerAction {
    match (result, send_qp) {
        (JoinResult::Held(tgt, reads), None) => AnswerAction::Connect(tgt, reads),
        (JoinResult::Held(tgt, _), Some(of)) if tgt == of => AnswerAction::Joined,
        (JoinResult::Held(..), Some(_)) => AnswerAction::AskAgain,
        (JoinResult::Gone, _) => AnswerAction::Leave,
        (JoinResult::Unknown, _) => AnswerAction::Fail("the peer has given the connection up"),
        (JoinResult::Cannot, _) => {
            AnswerAction::Fail("the peer cannot make a receiving queue pair of XRC; its own messages say why")
        }
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
