//! The record in each packet of a capture file (link type 147, `LINKTYPE_USER0`).
//!
//! A record has 40 bytes, all numbers little-endian, and then data:
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
//! The data of a frame is the 32 bytes of its header and the first bytes of its payload, that of an
//! event a text in UTF-8. A frame is recorded as sent when the netmod has accepted it, and as
//! received when its header and the captured part of its payload have come.

use netmod_core::{GroupId, HDR_LEN, Header, PeerName, VcId};

/// Bytes before the data.
pub const RECORD_LEN: usize = 40;
const VERSION: u8 = 1;
/// Longest text of an event in bytes.
pub(super) const TEXT_MAX: usize = 500;

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A frame that the process has sent.
    Sent,
    /// A frame that the process has received.
    Received,
    /// Event 1: the netmod got the VC.
    Init,
    /// Event 2: a connection was established.
    Up,
    /// Event 3: the VC failed; the text has the reason.
    Down,
    /// Event 4: the VC has terminated.
    Terminated,
    /// Event 5: the upper layer terminates the VC.
    Terminate,
    /// Event 6: the upper layer aborted the VC; the text has the reason.
    Abort,
    /// Event 7: a send was refused; the text has the reason.
    Refused,
    /// Event 8: a queued send was cancelled; the text names its request.
    Cancelled,
    /// Event 9: a peer without a VC requests a connection.
    NewPeer,
    /// Event 10: the received bytes are no frames any more; later ones are not recorded.
    Lost,
    /// Event 11: the netmod is being finalized.
    Finalize,
    /// Event 12: a VC that was down is usable again.
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
    /// Returns kind and event.
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

    /// Returns its name.
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

/// A parsed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Subject of the record.
    pub what: What,
    /// Rank of the process that wrote it.
    pub rank: u32,
    /// Rank of the peer.
    pub peer: u32,
    /// First half of the id of the peer's group.
    pub group: [u8; 8],
    /// Handle of the VC in the process that wrote it.
    pub vc: VcId,
    /// Frames: length of the whole payload in bytes.
    pub payload_len: u64,
    /// Frames: header.
    pub header: Option<Header>,
    /// Frames: first bytes of the payload. Events: text.
    pub data: Vec<u8>,
}

/// The reason why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// There are too few bytes.
    #[error("{found} bytes, where a record has at least {RECORD_LEN}, and one of a frame {}", RECORD_LEN + HDR_LEN)]
    Short {
        /// Their number.
        found: usize,
    },
    /// The version is another one.
    #[error("a record of version {found}; this program reads version {VERSION}")]
    Version {
        /// Version found.
        found: u8,
    },
    /// The kind or event is unknown.
    #[error("unknown kind {kind} with event {event}")]
    Kind {
        /// Kind found.
        kind: u8,
        /// Event found.
        event: u8,
    },
}

impl Record {
    /// Returns the first 40 bytes of a record.
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

    /// Parses the data of a packet.
    ///
    /// # Errors
    ///
    /// Fails if it is no record.
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
