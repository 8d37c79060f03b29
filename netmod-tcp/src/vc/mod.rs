//! The netmod's part of a VC: made when it is first used, by a send, a connection of the peer, or a
//! close.
//!
//! Until then the netmod knows no more of it than its peer's name. Most VCs are used as soon as
//! they are made, so the routes of those made last are kept; the card of another one is asked for
//! when it dials.

pub(crate) mod fresh;
pub(crate) mod peers;
pub(crate) mod routes;
pub(crate) mod session;
pub(crate) mod upgrade;

use std::os::fd::RawFd;

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, PeerName, VcError, VcErrorKind, VcId};

use crate::calls::Calls;
use crate::link::{Link, Pending};
use crate::route::Routes;
use crate::txq::TxQueue;
use crate::work::Listed;

use routes::PeerRoutes;
use session::Session;

/// The sending side of a VC.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The adopted connection's descriptor, while messages can be written to it at once; or -1.
    pub(crate) fd: RawFd,
    /// Poll in which a message was last written at once.
    pub(crate) sent_in: u32,
    /// Small messages since that poll.
    pub(crate) sends: u16,
    /// Polls in a row before which small messages were many.
    pub(crate) bursts: u8,
    /// The kernel took less than it was given; epoll reports when it takes more.
    pub(crate) blocked: bool,
    /// The connection carries records.
    pub(crate) sealed: bool,
    /// Bounds of a call that writes, and of a poll.
    pub(crate) calls: Calls,
    /// Bytes of the adopted connection, which has no session, that were written and never queued.
    pub(crate) unqueued: u64,
    pub(crate) queue: Option<Box<TxQueue>>,
}

/// The netmod's part of a VC.
#[derive(Debug)]
pub(crate) struct TcpVc {
    pub(crate) link: Link,
    pub(crate) peer: PeerName,
    /// The port at which the peer waits, if it is not of a group that is known here.
    pub(crate) port: Option<u64>,
    pub(crate) listed: Listed,
    pub(crate) tx: Sending,
    pub(crate) routes: PeerRoutes,
    pub(crate) session: Session,
    /// The reason why it is down.
    pub(crate) cause: Option<VcError>,
}

impl TcpVc {
    pub(crate) fn new(peer: PeerName, link: Link, routes: Option<Routes>) -> TcpVc {
        TcpVc {
            link,
            peer,
            port: None,
            listed: Listed::default(),
            tx: Sending {
                fd: -1,
                sent_in: 0,
                sends: 0,
                bursts: 0,
                blocked: false,
                sealed: false,
                calls: Calls::default(),
                unqueued: 0,
                queue: None,
            },
            routes: PeerRoutes::new(routes),
            session: Session::default(),
            cause: None,
        }
    }

    /// Returns true if nothing waits to be sent.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.tx.queue.as_ref().is_none_or(|q| q.is_drained())
    }

    /// Returns true if nothing waits to be sent or acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.tx.queue.as_ref().is_none_or(|q| q.is_settled())
    }

    /// Forgets the descriptor of its connection, which is gone.
    pub(crate) fn disconnect(&mut self) {
        self.tx.fd = -1;
        self.tx.blocked = false;
    }

    pub(crate) fn pending(&self) -> Pending {
        match &self.tx.queue {
            Some(q) if q.is_mid_message() => Pending::Partial,
            Some(q) if !q.is_drained() => Pending::Whole,
            _ => Pending::Nothing,
        }
    }
}

/// Returns the error of a VC that takes no messages at the netmod's end.
pub(crate) fn finalized(peer: PeerName) -> VcError {
    VcError::new(VcErrorKind::Aborted, Some(peer), "the netmod has been finalized")
}

/// Returns true if the layer above still counts on the peer. By the close protocol both sides have
/// closed before either says GOODBYE; a layer without that protocol leaves its VCs inactive.
pub(crate) fn left_open(core: &Core, vc: VcId) -> bool {
    core.vc(vc)
        .is_some_and(|v| v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked)
}
