//! The netmod's part of a VC.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, PeerName, VcError, VcId};

use crate::link::{Link, Pending};
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
    /// It is in the list of VCs to be flushed.
    pub(crate) dirty: bool,
    /// It is in the list of VCs that want a connection.
    pub(crate) wanting: bool,
    /// It is in the list of VCs with a timer.
    pub(crate) timed: bool,
    /// A card was asked for.
    pub(crate) asked_card: bool,
    pub(crate) txq: Option<Box<TxQueue>>,
    /// Where the peer listens, in the order to be tried; `None` until its card is known.
    pub(crate) addrs: Option<Box<[SocketAddr]>>,
    pub(crate) dials: u32,
    /// Why it is down.
    pub(crate) cause: Option<VcError>,
}

impl TcpVc {
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.txq.as_ref().is_none_or(|q| q.is_empty())
    }

    pub(crate) fn pending(&self) -> Pending {
        match &self.txq {
            Some(q) if q.is_mid_message() => Pending::Partial,
            Some(q) if !q.is_empty() => Pending::Whole,
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
