//! What a packet of a capture file holds: link type 147 (`LINKTYPE_USER0`), one record.
//!
//! A record is 40 bytes, all numbers little-endian, and what follows them:
//!
//! | bytes | meaning |
//! |-------|---------|
//! | 0 | version, 1 |
//! | 1 | kind: 0 a frame that this process sent, 1 one that it received, 2 an event |
//! | 2 | the event, see [`What`]; 0 for frames |
//! | 3 | 0 |
//! | 4..8 | rank of this process |
//! | 8..12 | rank of the peer |
//! | 12..16 | 0 |
//! | 16..24 | handle of the VC: index in the lower half, generation in the upper |
//! | 24..32 | frames: length of the payload; events: 0 |
//! | 32..40 | first half of the id of the peer's group |
//!
//! A frame's record goes on with the 32 bytes of its header and the first bytes of its payload, an event's
//! with a text in UTF-8. A frame is recorded as sent when the netmod has taken it, and as received when
//! its header has come, with as much of the payload as is kept.

use netmod_core::{GroupId, HDR_LEN, Header, PeerName, VcId};

/// Bytes before a frame or a text.
pub const RECORD_LEN: usize = 40;
const VERSION: u8 = 1;
/// Longest text of an event.
pub(super) const TEXT_MAX: usize = 500;

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A frame that the process sent.
    Sent,
    /// A frame that the process received.
    Received,
    /// Event 1: the netmod took charge of the VC.
    Init,
    /// Event 2: a connection was made.
    Up,
    /// Event 3: the VC failed; the text says why.
    Down,
    /// Event 4: the VC has terminated.
    Terminated,
    /// Event 5: the upper layer wants the VC terminated.
    Terminate,
    /// Event 6: the upper layer gave the VC up; the text says why.
    Abort,
    /// Event 7: a send was refused; the text says why.
    Refused,
    /// Event 8: a queued send was taken back; the text is its request.
    Cancelled,
    /// Event 9: a peer without a VC wants to connect.
    NewPeer,
    /// Event 10: the received bytes are no frames any more; those that follow are not recorded.
    Lost,
    /// Event 11: the netmod is being closed.
    Finalize,
    /// Event 12: a VC that was down is made usable again.
    Revive,
}

const EVENTS: [What; 12] = [
    What::Init,
    What::Up,
    What::Down,
    What::Terminated,
    What::Terminate,
    What::Abort,
    What::Refused,
    What::Cancelled,
    What::NewPeer,
    What::Lost,
    What::Finalize,
    What::Revive,
];

impl What {
    /// Kind and event.
    fn code(self) -> [u8; 2] {
        match self {
            What::Sent => [0, 0],
            What::Received => [1, 0],
            event => [2, EVENTS.iter().position(|e| *e == event).map_or(0, |at| at as u8 + 1)],
        }
    }

    fn from_code(code: [u8; 2]) -> Option<What> {
        match code {
            [0, 0] => Some(What::Sent),
            [1, 0] => Some(What::Received),
            [2, n] => EVENTS.get(usize::from(n).checked_sub(1)?).copied(),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            What::Sent => "sent",
            What::Received => "received",
            What::Init => "init",
            What::Up => "up",
            What::Down => "down",
            What::Terminated => "terminated",
            What::Terminate => "terminate",
            What::Abort => "abort",
            What::Refused => "refused",
            What::Cancelled => "cancelled",
            What::NewPeer => "new-peer",
            What::Lost => "lost-place",
            What::Finalize => "finalize",
            What::Revive => "revive",
        }
    }
}

/// A record, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is of.
    pub what: What,
    /// Rank of the process that wrote it.
    pub rank: u32,
    /// The other end.
    pub peer: u32,
    /// First half of the id of the peer's group.
    pub group: [u8; 8],
    /// The VC in the process that wrote it.
    pub vc: VcId,
    /// Frames: bytes of the whole payload.
    pub payload_len: u64,
    /// Frames: the header.
    pub header: Option<Header>,
    /// Frames: the first bytes of the payload. Events: the text.
    pub data: Vec<u8>,
}

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Too few bytes.
    #[error("{found} bytes, where a record has at least {RECORD_LEN}, and one of a frame {}", RECORD_LEN + HDR_LEN)]
    Short {
        /// How many there are.
        found: usize,
    },
    /// Another version.
    #[error("a record of version {found}; this program reads version {VERSION}")]
    Version {
        /// What stands there.
        found: u8,
    },
    /// An unknown kind or event.
    #[error("unknown kind {kind} with event {event}")]
    Kind {
        /// The kind.
        kind: u8,
        /// The event.
        event: u8,
    },
}

impl Record {
    /// The 40 bytes.
    pub(super) fn emit(what: What, rank: u32, peer: PeerName, vc: VcId, len: u64) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        let [kind, event] = what.code();
        out[..4].copy_from_slice(&[VERSION, kind, event, 0]);
        out[4..8].copy_from_slice(&rank.to_le_bytes());
        out[8..12].copy_from_slice(&peer.rank.to_le_bytes());
        out[16..24].copy_from_slice(&vc.to_wire().to_le_bytes());
        out[24..32].copy_from_slice(&len.to_le_bytes());
        let GroupId(group) = peer.group;
        out[32..40].copy_from_slice(&group[..8]);
        out
    }

    /// Reads the data of a packet.
    ///
    /// # Errors
    /// If it is no record.
    pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
        let short = RecordError::Short { found: bytes.len() };
        let (head, rest) = bytes.split_first_chunk::<RECORD_LEN>().ok_or(short.clone())?;
        let [version, kind, event, ..] = *head;
        if version != VERSION {
            return Err(RecordError::Version { found: version });
        }
        let what = What::from_code([kind, event]).ok_or(RecordError::Kind { kind, event })?;
        let half = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let mut group = [0; 8];
        group.copy_from_slice(&head[32..40]);
        let (header, data) = if matches!(what, What::Sent | What::Received) {
            let (header, data) = rest.split_first_chunk::<HDR_LEN>().ok_or(short)?;
            (Some(*header), data)
        } else {
            (None, rest)
        };
        Ok(Record {
            what,
            rank: half(4),
            peer: half(8),
            group,
            vc: VcId::from_wire(word(16)),
            payload_len: word(24),
            header,
            data: data.to_vec(),
        })
    }
}
