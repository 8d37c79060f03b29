//! The netmod's part of a VC.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, PeerName, VcError, VcId};

use crate::link::{Link, Pending};
use crate::sealed::Altered;
use crate::session::Loss;
use crate::txq::TxQueue;

/// The netmod's part of a VC.
#[derive(Debug)]
pub(crate) struct TcpVc {
    pub(crate) link: Link,
    pub(crate) peer: PeerName,
    /// The port at which the peer waits, if it is not of a group that is known here.
    pub(crate) port: Option<u64>,
    /// The adopted connection's descriptor, while messages can be written to it at once; or -1.
    pub(crate) fd: RawFd,
    /// Poll in which a message was last written at once.
    pub(crate) sent_in: u32,
    /// Small messages since that poll, and the polls in a row before which they were many.
    pub(crate) sends: u16,
    pub(crate) bursts: u8,
    /// The kernel took less than it was given; epoll will say when it takes more.
    pub(crate) blocked: bool,
    /// Its connection carries records.
    pub(crate) sealed: bool,
    /// It is in the list of VCs to be flushed.
    pub(crate) dirty: bool,
    /// It is in the list of VCs that want a connection.
    pub(crate) wanting: bool,
    /// It is in the list of VCs with a timer.
    pub(crate) timed: bool,
    /// It is in the list of VCs that owe acknowledgements; that have sent what is in senders' memory; that hold
    /// memory that they may have no use for.
    pub(crate) owing: bool,
    pub(crate) lending: bool,
    pub(crate) untidy: bool,
    /// What it had sent when it was last seen to hold much memory.
    pub(crate) tidy_mark: u64,
    /// A card was asked for.
    pub(crate) asked_card: bool,
    pub(crate) txq: Option<Box<TxQueue>>,
    /// Where the peer listens, in the order to be tried; `None` until its card is known.
    pub(crate) addrs: Option<Box<[SocketAddr]>>,
    pub(crate) dials: u32,
    /// The session that messages have been sent or received in; 0 if none, or none that can be resumed.
    pub(crate) session: u64,
    /// Bytes of it that were read, as long as there is no connection.
    pub(crate) rx: u64,
    /// Bytes of it that the peer has been told were read, and control frames read since.
    pub(crate) told: u64,
    pub(crate) told_control: u64,
    /// The core's count of bytes received when the session began.
    pub(crate) rx_base: u64,
    /// What came altered.
    pub(crate) altered: Altered,
    /// Times that it was resumed.
    pub(crate) resumes: u32,
    /// The restart of this process after which the peer was last told where it listens.
    pub(crate) restarts: u32,
    /// How the peer calls the connection that was adopted last, in `Control::Suspend`; 0 if there was none.
    pub(crate) connection: u64,
    /// The connection that was lost, while it is not resumed.
    pub(crate) loss: Option<Box<Loss>>,
    /// Why it is down.
    pub(crate) cause: Option<VcError>,
}

impl TcpVc {
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.txq.as_ref().is_none_or(|q| q.is_drained())
    }

    /// Bytes of a session that were read here, if there is no connection.
    pub(crate) fn position(&self, session: u64) -> u64 {
        if session != 0 && session == self.session { self.rx } else { 0 }
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.txq.as_ref().is_none_or(|q| q.is_settled())
    }

    /// The address that was dialled last, for people.
    pub(crate) fn address(&self) -> String {
        self.addrs.as_ref().filter(|a| !a.is_empty()).map_or_else(
            || "the address it had connected from".to_string(),
            |a| a[(self.dials.max(1) as usize - 1) % a.len()].to_string(),
        )
    }

    pub(crate) fn pending(&self) -> Pending {
        match &self.txq {
            Some(q) if q.is_mid_message() => Pending::Partial,
            Some(q) if !q.is_drained() => Pending::Whole,
            _ => Pending::Nothing,
        }
    }
}

/// Whether the layer above still counts on the peer. By the close protocol both sides have closed
/// before either says GOODBYE; a layer without that protocol leaves its VCs inactive.
pub(crate) fn left_open(core: &Core, vc: VcId) -> bool {
    core.vcs
        .get(vc)
        .is_some_and(|v| v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked)
}
