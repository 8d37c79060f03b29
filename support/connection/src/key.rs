//! The job key, and the MACs that are made with it.

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::frame::{Frame, MAC_LEN};

/// A secret of 32 bytes: that of the processes of a job, or of the ends of a connection.
///
/// It is never printed: `Debug` shows that there is a key, not which.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKey(pub [u8; 32]);

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

impl JobKey {
    /// Derives the key of another purpose, from which this one cannot be computed.
    ///
    /// `purpose` is longer than a handshake's label, so that no MAC of a handshake is such a key.
    pub fn derive(&self, purpose: &[&[u8]]) -> JobKey {
        let mut mac = self.hmac();
        mac.update(b"netmod derived key");
        purpose.iter().for_each(|part| mac.update(part));
        JobKey(mac.finalize().into_bytes().into())
    }

    fn hmac(&self) -> Hmac<Sha256> {
        // RFC 2104 pads a short key with zeroes to the hash's block, so this is HMAC with the 32
        // bytes; the constructor for a whole block has no error to handle.
        let mut block = [0u8; 64];
        block[..32].copy_from_slice(&self.0);
        Hmac::<Sha256>::new(&block.into())
    }
}

/// The purpose of a MAC, so that none can stand for another.
#[derive(Clone, Copy)]
pub(crate) enum Label {
    Responder,
    Initiator,
    Accept,
    Reject,
    Ready,
    Session,
    Traffic,
}

impl Label {
    /// All of one length: no label and transcript read like another label and transcript.
    const fn bytes(self) -> &'static [u8; 16] {
        match self {
            Label::Responder => b"netmod responder",
            Label::Initiator => b"netmod initiator",
            Label::Accept => b"netmod accept   ",
            Label::Reject => b"netmod reject   ",
            Label::Ready => b"netmod ready    ",
            Label::Session => b"netmod session  ",
            Label::Traffic => b"netmod traffic  ",
        }
    }
}

/// All bytes of the frames so far: HELLO, CHALLENGE, PROOF and the answer, in that order.
#[derive(Clone)]
pub(crate) struct Transcript {
    /// At most four frames before the last MAC, and that.
    bytes: Vec<u8>,
    /// Frames of the other side whose MAC was right.
    proofs: u8,
}

impl Transcript {
    pub(crate) fn new() -> Transcript {
        Transcript { bytes: Vec::new(), proofs: 0 }
    }

    pub(crate) fn add(&mut self, frame: &Frame) {
        self.bytes.extend_from_slice(frame.as_bytes());
    }

    fn mac(&self, key: &JobKey, label: Label, unfinished: &[u8]) -> Hmac<Sha256> {
        let mut mac = key.hmac();
        mac.update(label.bytes());
        mac.update(&self.bytes);
        mac.update(unfinished);
        mac
    }

    /// Completes a frame that lacks only its MAC, and adds it.
    pub(crate) fn seal(&mut self, key: &JobKey, label: Label, unfinished: Frame) -> Frame {
        let mac = self.mac(key, label, unfinished.as_bytes()).finalize().into_bytes();
        let frame = unfinished.put(&mac);
        self.add(&frame);
        frame
    }

    /// The id of the session that begins with this handshake; never zero. Both sides have it once
    /// PROOF is in the transcript.
    pub(crate) fn session(&self, key: &JobKey) -> u64 {
        let mac = self.mac(key, Label::Session, &[]).finalize().into_bytes();
        let id = mac.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
        id.max(1)
    }

    /// Returns the key of the connection, of a secret that both sides share. Both have it once
    /// PROOF is in the transcript.
    pub(crate) fn traffic(&self, key: &JobKey, shared: &[u8; 32]) -> JobKey {
        JobKey(self.mac(key, Label::Traffic, shared).finalize().into_bytes().into())
    }

    /// Returns the number of MACs of the other side that were right.
    pub(crate) fn proofs(&self) -> u8 {
        self.proofs
    }

    /// Checks the MAC at the end of a frame, in constant time, and adds the frame if it is right.
    pub(crate) fn open(&mut self, key: &JobKey, label: Label, frame: &Frame) -> bool {
        let bytes = frame.as_bytes();
        let Some(at) = bytes.len().checked_sub(MAC_LEN) else { return false };
        let (said, mac) = bytes.split_at(at);
        let right = self.mac(key, label, said).verify_slice(mac).is_ok();
        if right {
            self.add(frame);
            self.proofs += 1;
        }
        right
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transcript({} bytes)", self.bytes.len())
    }
}
