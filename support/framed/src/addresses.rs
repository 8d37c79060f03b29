//! The addresses in use: of peers, of endpoints that are closed, of unauthenticated peers.

use std::collections::HashMap;

use crate::book::{Book, Dest};
use crate::conn::InboundId;
use crate::device::Port;
use crate::endpoints::Leaving;

/// All addresses to which the netmod sends, or has just sent.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) book: Book,
    /// Endpoints that no VC needs any more.
    pub(crate) leaving: Leaving,
    /// Addresses of unauthenticated peers, which are known by their HELLO alone.
    inbound: HashMap<InboundId, Dest>,
}

impl Addresses {
    /// Returns the address of an unauthenticated peer.
    pub(crate) fn of_inbound(&self, id: InboundId) -> Option<Dest> {
        self.inbound.get(&id).copied()
    }

    /// Keeps the address of an unauthenticated peer.
    pub(crate) fn keep_inbound(&mut self, id: InboundId, dest: Dest) {
        if let Some(old) = self.inbound.insert(id, dest) {
            self.book.release(old);
        }
    }

    /// Releases the address of an unauthenticated peer, and returns it.
    pub(crate) fn release_inbound(&mut self, id: InboundId) -> Option<Dest> {
        let dest = self.inbound.remove(&id)?;
        self.book.release(dest);
        Some(dest)
    }

    /// Forgets the unauthenticated peers: their ports are closed.
    pub(crate) fn clear_inbound(&mut self) {
        self.inbound.clear();
    }

    /// Returns true if an address waits to be removed, or an endpoint to be closed.
    #[inline]
    pub(crate) fn is_unsettled(&self) -> bool {
        self.book.is_unsettled() || !self.leaving.is_empty()
    }

    /// Removes addresses and closes endpoints that are not needed any more. `waits` is true of
    /// those for which a frame has yet to be sent.
    pub(crate) fn settle(&mut self, ports: &mut [impl Port], waits: impl Fn(Dest) -> bool) {
        self.leaving.settle(ports, &waits);
        self.book.settle(ports, waits);
    }
}
