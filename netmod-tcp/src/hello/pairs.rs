//! What a handshake says about interfaces: which of one side's is to talk to which of the other's.

use super::HelloError;
use super::frame::{Fields, FrameType};

/// Most pairs that a handshake names.
pub const MAX_PAIRS: usize = 8;
/// Bytes on the wire.
pub(super) const PAIRS_LEN: usize = 16 + 8 * MAX_PAIRS;

/// Interfaces by their kernels' numbers, best pair first, as the sender of the frame sees it.
///
/// On the wire: agreement u64, number of pairs u8, zero 7, and [`MAX_PAIRS`] times the number of the sender's interface u32 and
/// of the receiver's u32, zero behind the last pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pairs {
    /// What two sides that see the same have in common ([`netmod_matching`]); 0 if the sender has paired nothing.
    pub agreement: u64,
    len: u8,
    /// Mine, yours.
    pairs: [(u32, u32); MAX_PAIRS],
}

impl Pairs {
    /// Of the first [`MAX_PAIRS`] pairs (mine, yours).
    pub fn new(agreement: u64, list: impl IntoIterator<Item = (u32, u32)>) -> Pairs {
        let mut pairs = Pairs { agreement, ..Pairs::default() };
        for (slot, pair) in pairs.pairs.iter_mut().zip(list) {
            *slot = pair;
            pairs.len += 1;
        }
        pairs
    }

    /// The pairs: mine, yours.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.pairs[..usize::from(self.len)]
    }

    pub(super) fn emit(&self) -> [u8; PAIRS_LEN] {
        let mut out = [0; PAIRS_LEN];
        out[..8].copy_from_slice(&self.agreement.to_le_bytes());
        out[8] = self.len;
        for (slot, (mine, yours)) in out[16..].chunks_exact_mut(8).zip(self.pairs) {
            slot[..4].copy_from_slice(&mine.to_le_bytes());
            slot[4..].copy_from_slice(&yours.to_le_bytes());
        }
        out
    }

    /// From a frame of the other side, turned round: mine is the receiver's.
    pub(super) fn parse(body: &mut Fields<'_>, kind: FrameType) -> Result<Pairs, HelloError> {
        let agreement = body.u64();
        let [len, reserved @ ..]: [u8; 8] = body.take();
        let mut pairs = [(0, 0); MAX_PAIRS];
        for pair in &mut pairs {
            let (yours, mine) = (body.u32(), body.u32());
            *pair = (mine, yours);
        }
        let used = pairs.get(..usize::from(len)).ok_or(HelloError::Reserved { kind })?;
        if reserved != [0; 7] || pairs[used.len()..].iter().any(|p| *p != (0, 0)) {
            return Err(HelloError::Reserved { kind });
        }
        Ok(Pairs { agreement, len, pairs })
    }
}
