//! Partitioned communication (MPI 5.0, chapter 4.2).
//!
//! A partition of the sender is one message, which leaves when the program says that it is ready.
//! 1. `MPI_Psend_init` offers its number, its partitions and their length, with the program's tag;
//!    `MPI_Precv_init` posts a receive for an offer. So both find each other in the order of calls.
//! 2. The first run of the receiver takes the offer, reserves a tag for each partition, and answers
//!    with the first one, or with what is wrong.
//! 3. In each run partition n has the n-th tag. The receiver posts all at once, whatever partitions
//!    its own program has, and tells of those that have arrived.
//!
//! Offers and the rest have a context each, beside the two of every communicator (`context`).

mod calls;
mod recv;
mod send;
pub(crate) mod tags;

use ch3_shim::{Comm as Channel, Vci};

use crate::comm::CommCore;
use crate::context;
use crate::error::{Class, MpiError, Result};

use tags::ANSWERS;

/// The contexts of a communicator's partitioned messages.
#[derive(Clone, Copy, Debug)]
struct Channels {
    offers: Channel,
    rest: Channel,
}

impl Channels {
    /// Those of messages that leave.
    fn out(vci: &mut Vci, core: &CommCore) -> Result<Channels> {
        let [offers, rest] = context::partitioned(vci, core.out)?;
        Ok(Channels { offers, rest })
    }

    /// Those of messages that come.
    fn inn(vci: &mut Vci, core: &CommCore) -> Result<Channels> {
        let [offers, rest] = context::partitioned(vci, core.inn)?;
        Ok(Channels { offers, rest })
    }
}

/// An offer of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    /// The sender's number of this request, by which it knows the answer.
    number: u32,
    partitions: u32,
    /// Bytes of a partition.
    bytes: u64,
}

impl Offer {
    const LEN: usize = 16;

    fn to_bytes(self) -> [u8; Offer::LEN] {
        let mut bytes = [0; Offer::LEN];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.partitions.to_le_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Offer> {
        let bytes: &[u8; Offer::LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (low, high) = (u64::from(word(8)), u64::from(word(12)));
        Some(Offer { number: word(0), partitions: word(4), bytes: high << 32 | low })
    }

    /// Returns the bytes of all partitions, if there can be so many.
    fn total(self) -> Option<u64> {
        self.bytes.checked_mul(u64::from(self.partitions)).filter(|total| i64::try_from(*total).is_ok())
    }

    fn answer_tag(self) -> i32 {
        (ANSWERS | (self.number % ANSWERS)).cast_signed()
    }
}

/// The answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The tag of the first partition.
    First(u32),
    /// The receiver has room for so many bytes, which are not those of the offer.
    Room(u64),
    /// The receiver has no tags left.
    NoTags,
}

impl Answer {
    const LEN: usize = 12;

    fn to_bytes(self) -> [u8; Answer::LEN] {
        let (kind, value) = match self {
            Answer::First(tag) => (0u32, u64::from(tag)),
            Answer::Room(bytes) => (1, bytes),
            Answer::NoTags => (2, 0),
        };
        let mut bytes = [0; Answer::LEN];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Answer> {
        let (kind, value) = bytes.split_first_chunk::<4>()?;
        let value = u64::from_le_bytes(value.try_into().ok()?);
        match u32::from_le_bytes(*kind) {
            0 => Some(Answer::First(u32::try_from(value).ok().filter(|tag| *tag < ANSWERS)?)),
            1 => Some(Answer::Room(value)),
            2 => Some(Answer::NoTags),
            _ => None,
        }
    }
}

/// Returns the error of sides that do not fit.
fn other_length(sent: u64, room: u64) -> Box<MpiError> {
    let class = if sent > room { Class::TRUNCATE } else { Class::COUNT };
    let text = format!(
        "the partitions of MPI_Psend_init have {sent} bytes, and those of MPI_Precv_init {room}; both sides \
         describe the same number of bytes"
    );
    MpiError::new(class, text)
}

fn no_tags() -> Box<MpiError> {
    let text = "more than 2^30 partitions are open at the receiver; free requests, or make fewer partitions";
    MpiError::new(Class::NO_MEM, text)
}

/// Returns the error of a message that is none of this protocol.
fn garbled(what: &str) -> Box<MpiError> {
    MpiError::new(
        Class::INTERN,
        format!("{what} of partitioned communication is not one that this version sends"),
    )
}

/// A partition that a side does not have.
fn bad_partition(partition: i32, partitions: usize) -> Box<MpiError> {
    let text = match partitions {
        0 => format!("partition is {partition}; the request has none"),
        _ => format!("partition is {partition}; the request has partitions 0 to {}", partitions - 1),
    };
    MpiError::new(Class::ARG, text)
}

/// Returns the index of a partition.
fn index(partition: i32, partitions: usize) -> Result<usize> {
    let index = usize::try_from(partition).ok().filter(|index| *index < partitions);
    index.ok_or_else(|| bad_partition(partition, partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_and_answers_are_read_as_they_were_written() {
        let offer = Offer { number: 7, partitions: 3, bytes: 0x1_2345_6789 };
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), Some(offer));
        assert_eq!(offer.total(), Some(3 * 0x1_2345_6789));
        assert_eq!(Offer { bytes: u64::MAX / 2, ..offer }.total(), None);
        for answer in [Answer::First(0), Answer::First(ANSWERS - 1), Answer::Room(u64::MAX), Answer::NoTags] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
        assert_eq!(Answer::from_bytes(&Answer::First(ANSWERS).to_bytes()), None);
        for len in (0..40).filter(|len| *len != Offer::LEN) {
            assert_eq!(Offer::from_bytes(&vec![1; len]), None);
        }
        for len in (0..40).filter(|len| *len != Answer::LEN) {
            assert_eq!(Answer::from_bytes(&vec![0; len]), None);
        }
        assert_eq!(Answer::from_bytes(&[3; Answer::LEN]), None);
    }
}

/// The state of partitioned communication of a process.
#[derive(Debug, Default)]
pub(crate) struct Partitioned {
    /// Tags of receives.
    pub tags: tags::Tags,
    /// Number of sends that were made.
    pub sends: u32,
}
