//! Handles failed operations, both those that identify themselves and those that do not.
//!
//! After a receive that has failed without identification, the port does not know which buffer is
//! lost. So it takes stock: it cancels all receives. The provider returns those that it still has,
//! and they are posted again. The missing ones, at most as many as have failed, are the failed
//! ones.

use libfabric_sys::consts::{FI_ATOMIC, FI_MULTI_RECV, FI_READ, FI_RECV, FI_RMA, FI_SEND, FI_WRITE};

use netmod_framed::device::{Done, Port as _, ResetFrame};
use netmod_framed::wire::{FRAME_HEADER, FrameHeader, Kind};

use super::{Port, What};
use crate::fi::endpoint::Failed;

/// Maximum number of error entries taken per poll, since a broken provider may report them
/// endlessly.
const ERRORS: usize = 16;
/// Polls in which a provider must return cancelled receives.
const STOCK: u32 = 256;

impl Port {
    /// Takes error entries.
    #[cold]
    pub(super) fn errors(&mut self) {
        for _ in 0..ERRORS {
            let Some(failed) = self.endpoint.error() else { return };
            if let Some(buffer) = self.receives.find(failed.context) {
                self.receive_failed(buffer, &failed);
            } else if let Some(what) = self.ops.find(failed.context).and_then(|op| self.ops.end(op)) {
                self.failed(what, failed);
            } else {
                self.nameless(&failed);
            }
        }
    }

    fn receive_failed(&mut self, buffer: u32, failed: &Failed) {
        if !failed.cancelled {
            self.oddities.receives += 1;
            tracing::warn!(why = failed.text, truncated = failed.truncated, "a receive failed");
            // No peer sends messages longer than a frame.
            if !failed.truncated {
                self.failures.push_back(Done::MaybeLost { transfers: false });
            }
        }
        let multi = self.endpoint.traits().multi_recv;
        if failed.cancelled || !multi || failed.flags & FI_MULTI_RECV != 0 {
            self.receives.retire(buffer);
        }
    }

    fn failed(&mut self, what: What, failed: Failed) {
        match what {
            What::Send { buffer, vc, to } => {
                self.tx_free.push(buffer);
                let done = match self.reset_frame(buffer) {
                    Some(frame) => Done::ResetFailed { vc, reset: Box::new(ResetFrame { to, frame }) },
                    None => Done::SendFailed { vc, why: failed.text },
                };
                self.failures.push_back(done);
            }
            What::Transfer { number } => {
                self.transfers -= 1;
                self.failures.push_back(Done::TransferFailed { number, why: failed.text });
            }
        }
    }

    /// Returns the frame in a send buffer, if it ends a connection.
    fn reset_frame(&mut self, buffer: u32) -> Option<[u8; FRAME_HEADER]> {
        let frame = *self.buffer(buffer).first_chunk()?;
        FrameHeader::parse(&frame).filter(|h| h.kind == Kind::Reset).map(|_| frame)
    }

    /// Handles a failure without an operation: an injected message, or an unidentified entry.
    fn nameless(&mut self, failed: &Failed) {
        self.oddities.unknown += 1;
        tracing::debug!(
            why = failed.text,
            flags = failed.flags,
            "libfabric reports an error without an operation"
        );
        let is = |flags| failed.flags & flags != 0;
        if is(FI_RECV) {
            self.oddities.receives += 1;
            self.nameless += 1;
            if self.stock.is_none() {
                self.begin_stock();
            }
        }
        let transfers = is(FI_READ | FI_WRITE | FI_RMA | FI_ATOMIC) || !is(FI_SEND | FI_RECV);
        self.failures.push_back(Done::MaybeLost { transfers: transfers && self.transfers > 0 });
    }

    fn begin_stock(&mut self) {
        self.receives.count();
        for buffer in self.receives.under_way() {
            self.endpoint.cancel(true, self.receives.context(buffer));
        }
        self.stock = Some((std::mem::take(&mut self.nameless), STOCK));
    }

    #[cold]
    pub(super) fn take_stock(&mut self) {
        let Some((failed, polls)) = self.stock else { return };
        let missing = self.receives.missing();
        if polls > 0 && !missing.is_empty() {
            self.stock = Some((failed, polls - 1));
            return;
        }
        self.stock = None;
        if missing.len() > failed + self.nameless {
            let (missing, failed) = (missing.len(), failed + self.nameless);
            tracing::error!(missing, failed, "libfabric does not return cancelled receive buffers");
            return;
        }
        for buffer in missing {
            self.receives.retire(buffer);
        }
        if self.nameless > 0 {
            self.begin_stock();
        }
    }
}
