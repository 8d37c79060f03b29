//! The memory that a message lends, and how a netmod gets it.

use netmod_core::{Header, Netmod, ReqId, Run, Segment, SendBuf, Sent, VcError, VcId};

use super::DevIo;

/// The memory of a message: a segment, or a run, which the common path keeps in registers.
pub(crate) trait Lent: Into<Segment> {
    /// Returns the length of the message, in bytes.
    fn len(&self) -> usize;
    /// Returns all of it, if it lies in one piece.
    fn contig(&self) -> Option<SendBuf>;
}

impl Lent for Segment {
    #[inline]
    fn len(&self) -> usize {
        self.remaining()
    }
    #[inline]
    fn contig(&self) -> Option<SendBuf> {
        self.send_buf()
    }
}

impl Lent for Run {
    #[inline]
    fn len(&self) -> usize {
        Run::len(self)
    }
    #[inline]
    fn contig(&self) -> Option<SendBuf> {
        Some(self.send_buf())
    }
}

/// Sends a message with the request of its data, which may lie in one piece or in several.
pub(super) fn send_with(io: &mut DevIo<'_>, vc: VcId, req: ReqId, hdr: &Header) -> Result<Sent, VcError> {
    match io.core.req(req).and_then(|r| r.seg.send_buf()) {
        Some(data) => io.netmod.i_send_contig(io.core, vc, req, hdr, data),
        None => io.netmod.send_noncontig(io.core, vc, req, hdr),
    }
}
