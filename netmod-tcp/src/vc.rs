//! The netmod's part of a VC: made when it is first used, by a send, a connection of the peer, or a close.
//!
//! Until then the netmod knows no more of it than its peer's name. Most VCs are used as soon as they are made,
//! so the addresses of those made last are kept; the card of another one is asked for when it dials.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, PeerName, VcError, VcErrorKind, VcId};

use crate::calls::Calls;
use crate::checkpoint::Checkpoint;
use crate::ending::Ending;
use crate::link::{Link, LinkEvent, Pending};
use crate::moving::Move;
use crate::netmod::TcpNetmod;
use crate::pairs::Pairs;
use crate::sealed::Altered;
use crate::session::Loss;
use crate::txq::TxQueue;
use crate::way::{Way, Ways};

/// The pair of interfaces that a session goes by.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The pair of the last connection: mine, theirs.
    pub(crate) pair: (u32, u32),
    /// The last change of it, and its reason, as readable text.
    pub(crate) change: Option<Box<str>>,
}

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
    /// It is in the list of VCs for which a flush asks the kernel again, because it is blocked.
    pub(crate) stuck: bool,
    /// How much a call writes, and a poll.
    pub(crate) calls: Calls,
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
    /// How to reach the peer; `None` until its card is known.
    pub(crate) ways: Option<Ways>,
    /// The pairs of interfaces that both sides have agreed on, by the last handshake that named any.
    pub(crate) decided: Option<Box<Pairs>>,
    /// The ways beside each other for large messages, if there are at least two.
    rails: Box<[Way]>,
    /// Pairs that were agreed on and are no rails, with the reasons, as readable text; empty if
    /// there are none.
    left_out: Box<str>,
    /// The pair of interfaces of its last connection.
    pub(crate) route: Route,
    /// Its way to a better pair of interfaces, once there was one.
    pub(crate) going: Option<Box<Move>>,
    /// Pairs of interfaces by which dials have failed since there was a connection.
    failed: Vec<(u32, u32)>,
    pub(crate) dials: u32,
    /// The session that messages have been sent or received in; 0 if none, or none that can be resumed.
    pub(crate) session: u64,
    /// Bytes of the adopted connection, which has no session, that were written and never queued.
    pub(crate) unqueued: u64,
    /// The position from which on what is sent in the session is kept: not 0 if it began in the middle of a connection.
    pub(crate) kept_from: u64,
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
    fn new(peer: PeerName, link: Link, ways: Option<Ways>) -> TcpVc {
        TcpVc {
            link,
            peer,
            port: None,
            fd: -1,
            sent_in: 0,
            sends: 0,
            bursts: 0,
            blocked: false,
            stuck: false,
            calls: Calls::default(),
            sealed: false,
            altered: Altered::default(),
            dirty: false,
            wanting: false,
            timed: false,
            owing: false,
            lending: false,
            untidy: false,
            tidy_mark: 0,
            asked_card: false,
            txq: None,
            ways,
            decided: None,
            rails: Box::default(),
            left_out: Box::default(),
            route: Route::default(),
            going: None,
            failed: Vec::new(),
            dials: 0,
            session: 0,
            unqueued: 0,
            kept_from: 0,
            rx: 0,
            told: 0,
            told_control: 0,
            rx_base: 0,
            resumes: 0,
            restarts: 0,
            connection: 0,
            loss: None,
            cause: None,
        }
    }

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

    /// The way of a dial, by its number: those between interfaces that were agreed on come first.
    fn way_of(&self, dial: u32) -> Option<(&Way, u16)> {
        let ways = self.ways.as_ref()?;
        let (list, agreed) = (&ways.paired.list, self.agreed());
        let at = (dial as usize).checked_rem(list.len())?;
        let others = list.iter().filter(|w| !w.pair().is_some_and(|p| agreed.as_slice().contains(&p)));
        ways.paired.between(&agreed).chain(others).nth(at).map(|w| (w, ways.port))
    }

    /// The way to ask after the peer by at the n-th attempt, in turn.
    pub(crate) fn way_by(&self, attempt: usize) -> Option<(Way, u16)> {
        self.way_of(attempt as u32).map(|(way, port)| (way.clone(), port))
    }

    fn agreed(&self) -> Pairs {
        self.decided.as_deref().copied().unwrap_or_default()
    }

    /// What a dial between these interfaces proposes: them, and others that may be used beside them.
    pub(crate) fn proposal(&self, pair: (u32, u32)) -> Pairs {
        let Some(Ways { paired, .. }) = &self.ways else { return Pairs::default() };
        if !paired.list.iter().any(|w| w.is_between(pair)) {
            return Pairs::default();
        }
        // What was agreed on stands until the peer, or a change here, says otherwise.
        let agreed = self.agreed();
        let agreed = if agreed.as_slice().contains(&pair) { agreed.as_slice() } else { &[] };
        let paired_here = paired.pairs().filter(|_| agreed.is_empty());
        let others =
            agreed.iter().copied().chain(paired_here).filter(|p| *p != pair && !self.failed.contains(p));
        Pairs::new(paired.agreement, std::iter::once(pair).chain(others))
    }

    /// The next dial: its way, and the port to connect to. The one before it has failed.
    pub(crate) fn next_dial(&mut self) -> Option<(Way, u16)> {
        if let Some(last) = self.dials.checked_sub(1).and_then(|last| self.way_of(last)?.0.pair())
            && !self.failed.contains(&last)
        {
            self.failed.push(last);
        }
        let (way, port) = self.way_of(self.dials).map(|(way, port)| (way.clone(), port))?;
        self.dials = self.dials.wrapping_add(1);
        Some((way, port))
    }

    /// The way that was dialled last, or would be first.
    pub(crate) fn last_way(&self) -> Option<&Way> {
        self.way_of(self.dials.max(1) - 1).map(|(way, _)| way)
    }

    /// Whether a dial between these interfaces has failed since there was a connection.
    pub(crate) fn has_failed(&self, pair: (u32, u32)) -> bool {
        self.failed.contains(&pair)
    }

    /// Whether the present dial is at least the second one by its way.
    pub(crate) fn has_tried_all(&self) -> bool {
        self.ways.as_ref().is_some_and(|w| self.dials as usize > w.paired.list.len())
    }

    /// Whatever failed before, the next dial goes by the best way.
    pub(crate) fn forget_dials(&mut self) {
        self.dials = 0;
        self.failed = Vec::new();
    }

    /// A handshake has ended with these pairs, of which `most` may be rails.
    pub(crate) fn agree(&mut self, pairs: &Pairs, most: usize) {
        self.decided = (!pairs.as_slice().is_empty()).then(|| Box::new(*pairs));
        self.reckon(most);
    }

    /// Takes note of what was agreed on, or of how the peer can be reached. At most `most` pairs
    /// are rails.
    pub(crate) fn reckon(&mut self, most: usize) {
        let both = self.ways.as_ref().zip(self.decided.as_deref()).filter(|_| most > 1);
        let (rails, left_out) = both.map(|(w, d)| w.paired.rails_of(d, most)).unwrap_or_default();
        self.rails = if rails.len() > 1 { rails } else { Box::default() };
        if !left_out.is_empty() && *self.left_out != *left_out {
            tracing::info!(peer = self.peer.rank, "pairs of interfaces that are no rails: {left_out}");
        }
        self.left_out = left_out.into();
    }

    /// Text about pairs that were agreed on and are no rails.
    pub(crate) fn left_out(&self) -> &str {
        &self.left_out
    }

    /// The ways beside each other for large messages: none, or at least two.
    pub(crate) fn rails(&self) -> &[Way] {
        &self.rails
    }

    /// The address that was dialled last, for people.
    pub(crate) fn address(&self) -> String {
        self.way_of(self.dials.max(1) - 1).map_or_else(
            || "the address it had connected from".to_string(),
            |(way, port)| match &way.via {
                None => way.at(port).to_string(),
                Some(via) => format!("{} through {}", way.at(port), via.device),
            },
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

/// VCs whose addresses are kept until their first use.
const FRESH: usize = 64;

/// Where the peers of the VCs listen that were made last and not used yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fresh(VecDeque<(VcId, Ways)>);

impl Fresh {
    pub(crate) fn put(&mut self, vc: VcId, ways: Ways) {
        if self.0.len() >= FRESH {
            self.0.pop_front();
        }
        self.0.push_back((vc, ways));
    }

    /// The addresses of a VC, unless others have taken their place.
    pub(crate) fn take(&mut self, vc: VcId) -> Option<Ways> {
        let at = self.0.iter().rposition(|(v, _)| *v == vc)?;
        self.0.remove(at).map(|(_, ways)| ways)
    }
}

/// Why a VC takes no messages at the netmod's end.
pub(crate) fn finalized(peer: PeerName) -> VcError {
    VcError::new(VcErrorKind::Aborted, Some(peer), "the netmod has been finalized")
}

impl TcpNetmod {
    /// The peer of a VC that is in the charge of this netmod.
    pub(crate) fn by_vc(&self, core: &Core, vc: VcId) -> Option<PeerName> {
        core.vc(vc).map(|v| v.peer).filter(|p| self.by_peer.get(p) == Some(vc))
    }

    /// The part of a VC, made now if it has not been used.
    ///
    /// # Errors
    /// If the VC is not in the charge of this netmod, or the netmod is at its end.
    #[cold]
    pub(crate) fn first_use(&mut self, core: &Core, vc: VcId) -> Result<&mut TcpVc, VcError> {
        if self.vcs.get(vc).is_none() {
            let peer = self.by_vc(core, vc).ok_or_else(TcpNetmod::no_such_vc)?;
            if self.ending != Ending::No {
                return Err(finalized(peer));
            }
            // Any seed will do that differs from link to link.
            let seed = self.id.me().rank.wrapping_mul(0x9e37_79b9)
                ^ peer.rank.wrapping_mul(0x85eb_ca6b)
                ^ std::process::id();
            let mut link = Link::new(&self.id.name_towards(&peer.group), &peer, seed);
            if self.checkpoint != Checkpoint::None {
                // As all others have been told when it began. One without a connection has nothing to do for it.
                let none = link.on(LinkEvent::Sleep, self.now, &self.link_cfg);
                debug_assert!(none.is_empty());
            }
            let ways = self.fresh.take(vc);
            self.vcs.set(vc, Box::new(TcpVc::new(peer, link, ways)));
        }
        self.vcs.get_mut(vc).map(|v| &mut **v).ok_or_else(TcpNetmod::no_such_vc)
    }
}

/// Whether the layer above still counts on the peer. By the close protocol both sides have closed
/// before either says GOODBYE; a layer without that protocol leaves its VCs inactive.
pub(crate) fn left_open(core: &Core, vc: VcId) -> bool {
    core.vc(vc)
        .is_some_and(|v| v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use netmod_matching::{Class, Weight};

    use super::*;
    use crate::way::{Paired, Via};

    fn vc(n: usize) -> VcId {
        VcId::from_wire(n as u64 | 1 << 32)
    }

    fn address(n: usize) -> Ways {
        Ways { paired: Arc::new(Paired::only([127, 0, 0, 1].into())), port: n as u16 }
    }

    #[test]
    fn the_addresses_of_the_vcs_made_last_are_kept_and_no_others() {
        let mut fresh = Fresh::default();
        for n in 0..1000 {
            fresh.put(vc(n), address(n));
            assert!(fresh.0.len() <= FRESH);
        }
        assert_eq!(fresh.take(vc(1000 - FRESH - 1)), None);
        for n in [1000 - FRESH, 999, 970] {
            assert_eq!(fresh.take(vc(n)), Some(address(n)));
            assert_eq!(fresh.take(vc(n)), None, "taken once");
        }
        // The same place in the table, another VC.
        assert_eq!(fresh.take(VcId::from_wire(971 | 3 << 32)), None);
    }

    /// Ways by `n` cables, of which the first ones are worth being used beside each other.
    fn cables(n: u32, rails: usize) -> Ways {
        let way = |i: u32| {
            let from = [10, 0, i as u8, 1].into();
            let weight = Weight::new(Class::OnLink, [None; 2], [None; 2]);
            let via = Via { mine: i, device: format!("e{i}").into(), from, theirs: 100 + i, weight };
            Way { to: [10, 0, i as u8, 2].into(), via: Some(via) }
        };
        let list = (1..=n).map(way).collect();
        Ways { paired: Arc::new(Paired { peer: Default::default(), list, rails, agreement: 7 }), port: 1 }
    }

    fn with_cables(n: u32, rails: usize) -> TcpVc {
        let name = |rank| PeerName { group: netmod_core::GroupId([1; 16]), rank };
        TcpVc::new(name(1), Link::new(&name(0), &name(1), 1), Some(cables(n, rails)))
    }

    fn rails_of(v: &TcpVc) -> Vec<u32> {
        v.rails().iter().filter_map(|w| Some(w.pair()?.0)).collect()
    }

    /// A connection goes by an interface that is none of the eight best: all eight carry data, and
    /// it is said that it does not.
    #[test]
    fn a_connection_outside_the_rails_takes_the_place_of_none() {
        let mut v = with_cables(10, 8);
        let proposal = v.proposal((10, 110));
        let named: Vec<u32> = proposal.as_slice().iter().map(|p| p.0).collect();
        assert_eq!(named, [10, 1, 2, 3, 4, 5, 6, 7, 8]);
        let survived = Pairs::read(&proposal.terms(), netmod_connection::FrameType::Hello).expect("pairs");
        assert_eq!(survived.as_slice().len(), 9);
        v.agree(&proposal, 8);
        assert_eq!(rails_of(&v), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(v.left_out(), "10.0.10.2 through e10: NETMOD_TCP_RAILS allows 8");
    }

    /// A connection by one of the rails leaves none out; one beside fewer rails than are allowed is
    /// one of them.
    #[test]
    fn what_fits_is_used() {
        let mut v = with_cables(10, 8);
        v.agree(&v.proposal((3, 103)), 8);
        assert_eq!((rails_of(&v), v.left_out()), (vec![3, 1, 2, 4, 5, 6, 7, 8], ""));
        let mut v = with_cables(5, 3);
        v.agree(&v.proposal((5, 105)), 4);
        assert_eq!((rails_of(&v), v.left_out()), (vec![5, 1, 2, 3], ""));
    }

    /// What the peer decides is not beyond what is allowed here, and what this side cannot follow
    /// is told.
    #[test]
    fn pairs_that_the_peer_decides_are_told_if_they_are_not_used() {
        let mut v = with_cables(3, 2);
        v.agree(&Pairs::new(7, [(1, 101), (2, 102), (3, 103), (2, 999)]), 2);
        assert_eq!(rails_of(&v), [1, 2]);
        let text = "number 2 with the peer's 999: this side knows of no way between them, \
                    10.0.3.2 through e3: NETMOD_TCP_RAILS allows 2";
        assert_eq!(v.left_out(), text);
        // Who wants one connection hears nothing of others.
        v.reckon(1);
        assert_eq!((rails_of(&v), v.left_out()), (vec![], ""));
    }
}
