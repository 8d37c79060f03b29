//! The pairs of interfaces in a handshake: one side's interface, and the other's that it is to talk
//! to. These are the terms of TCP's handshake.

use netmod_connection::{FrameType, HandshakeError, InitiatorStep, Responder, Terms};

/// Most rails of one direction.
pub(crate) const MAX_RAILS: usize = 8;
/// Most pairs that a handshake names: one for each rail, and that of a connection which is none of
/// them.
pub(crate) const MAX_PAIRS: usize = MAX_RAILS + 1;
/// Bytes on the wire.
pub(crate) const PAIRS_LEN: usize = 16 + 8 * MAX_PAIRS;

/// Interfaces by their kernels' numbers, best pair first, as the sender of the frame sees it.
///
/// On the wire: agreement u64, number of pairs u8, offer u8 (1 or 0), zero 6, and [`MAX_PAIRS`]
/// times the number of the sender's interface u32 and of the receiver's u32, zero behind the last
/// pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pairs {
    /// Fingerprint that is equal on two sides which see the same ([`netmod_matching`]); 0 if the
    /// sender has paired nothing.
    pub(crate) agreement: u64,
    len: u8,
    /// HELLO: the connection is offered in place of one that is whole.
    pub(crate) offer: bool,
    /// Mine, yours.
    pairs: [(u32, u32); MAX_PAIRS],
}

impl Pairs {
    /// Makes pairs of the first [`MAX_PAIRS`] (mine, yours) of a list: no side has more to say.
    pub(crate) fn new(agreement: u64, list: impl IntoIterator<Item = (u32, u32)>) -> Pairs {
        let mut pairs = Pairs { agreement, ..Pairs::default() };
        for (slot, pair) in pairs.pairs.iter_mut().zip(list) {
            *slot = pair;
            pairs.len += 1;
        }
        pairs
    }

    /// Sets the mark of a HELLO whose connection is offered in place of one that works.
    pub(crate) fn offered(self, offer: bool) -> Pairs {
        Pairs { offer, ..self }
    }

    /// Returns the pairs: mine, yours.
    pub(crate) fn as_slice(&self) -> &[(u32, u32)] {
        &self.pairs[..usize::from(self.len)]
    }

    /// Returns the form on the wire.
    pub(crate) fn terms(&self) -> Terms {
        let mut out = [0; PAIRS_LEN];
        out[..8].copy_from_slice(&self.agreement.to_le_bytes());
        out[8] = self.len;
        out[9] = self.offer.into();
        for (slot, (mine, yours)) in out[16..].chunks_exact_mut(8).zip(self.pairs) {
            slot[..4].copy_from_slice(&mine.to_le_bytes());
            slot[4..].copy_from_slice(&yours.to_le_bytes());
        }
        Terms::from(out)
    }

    /// Reads a frame of the other side, turned round: mine is the receiver's.
    ///
    /// # Errors
    /// If these are not exactly the terms of pairs.
    pub(crate) fn read(terms: &Terms, kind: FrameType) -> Result<Pairs, HandshakeError> {
        Pairs::parse(terms.as_bytes()).ok_or(HandshakeError::BadTerms { kind })
    }

    fn parse(terms: &[u8]) -> Option<Pairs> {
        let terms: &[u8; PAIRS_LEN] = terms.try_into().ok()?;
        let (agreement, rest) = terms.split_first_chunk()?;
        let ([len, offer, reserved @ ..], rest) = rest.split_first_chunk::<8>()?;
        let mut pairs = [(0, 0); MAX_PAIRS];
        for (pair, bytes) in pairs.iter_mut().zip(rest.chunks_exact(8)) {
            let (yours, mine) = bytes.split_at(4);
            *pair = (number(mine)?, number(yours)?);
        }
        let unused = pairs.get(usize::from(*len)..)?;
        let clean = *offer <= 1 && *reserved == [0; 6] && unused.iter().all(|p| *p == (0, 0));
        clean.then_some(Pairs {
            agreement: u64::from_le_bytes(*agreement),
            len: *len,
            offer: *offer == 1,
            pairs,
        })
    }
}

/// Returns the pairs that an initiator proposes; none before it has said so.
///
/// # Errors
/// If it has said what is none of TCP's.
pub(crate) fn proposed(responder: &Responder) -> Result<Pairs, HandshakeError> {
    responder.claimed().map_or(Ok(Pairs::default()), |c| Pairs::read(&c.terms, FrameType::Hello))
}

/// Returns the pairs of a responder's answer; none if the step is no answer, or proves nothing.
///
/// # Errors
/// If it is none of TCP's.
pub(crate) fn answered(step: &InitiatorStep) -> Result<Pairs, HandshakeError> {
    match step {
        InitiatorStep::Accepted { terms, .. } => Pairs::read(terms, FrameType::Accept),
        InitiatorStep::Rejected { terms, proved: true, .. } => Pairs::read(terms, FrameType::Reject),
        InitiatorStep::Rejected { .. } | InitiatorStep::NeedMore | InitiatorStep::Prove(_) => {
            Ok(Pairs::default())
        }
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests;
