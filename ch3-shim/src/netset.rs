//! The netmods of a device as one netmod: each VC goes to the one that was chosen for it.

use std::os::fd::RawFd;

use netmod_core::{
    Arm, Card, CardError, CardWriter, Checkpoint, Core, DeviceError, Diagnose, DynamicProcesses, Events,
    Finalize, GroupId, Header, Module, Netmod, PeerName, PollOrder, Pollers, Refusal, RemoteGroup, Report,
    ReqId, RxBuf, SendBuf, Time, VcError, VcErrorKind, VcId, VcLife, forward,
};

use crate::any_netmod::each;
pub use crate::any_netmod::{AnyNetmod, Wrapper};
use crate::choice::{self, Choice, NoChoice, Offer, Offered};
use crate::turns::Turns;

/// The netmod that was chosen for a VC.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Index in the set.
    pub netmod: u8,
    /// Reasons for it and against those before it.
    pub why: String,
    /// The peer's netmods in order of preference.
    pub order: String,
}

/// A netmod that was wanted and could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub name: String,
    pub why: String,
}

/// The netmods of a device, in order of preference; none if no netmod could start.
///
/// A batch of events belongs to one netmod, so that receive buffers find their way back to it.
#[derive(Debug)]
pub struct NetSet {
    mods: Vec<AnyNetmod>,
    /// The netmod polled last: its are the buffers on loan.
    polled: usize,
    turns: Turns,
    /// The card's list of them, with those that could not start.
    offer: Offer,
}

impl NetSet {
    /// At least one netmod.
    ///
    /// # Panics
    /// With none, or more than 255.
    pub fn new(mods: Vec<AnyNetmod>) -> NetSet {
        assert!(!mods.is_empty(), "a device has at least one netmod");
        NetSet::with_missing(mods.into_iter().map(Ok).collect())
    }

    /// The netmods that a device was to have, in order of preference.
    ///
    /// # Panics
    /// With more than 255.
    pub(crate) fn with_missing(wanted: Vec<Result<AnyNetmod, Missing>>) -> NetSet {
        assert!(wanted.len() <= choice::MAX_NETMODS, "a device has at most 255 netmods");
        let offered = |netmod: &Result<AnyNetmod, Missing>| match netmod {
            Ok(m) => {
                Offered { name: each!(m, n => n.name()).to_owned(), failure: m.failure().map(str::to_owned) }
            }
            Err(missing) => Offered { name: missing.name.clone(), failure: Some(missing.why.clone()) },
        };
        let offer = Offer::new(wanted.iter().map(offered).collect());
        let mods: Vec<AnyNetmod> = wanted.into_iter().filter_map(Result::ok).collect();
        let turns = Turns::new(mods.len());
        NetSet { mods, polled: 0, turns, offer }
    }

    /// Returns the card's list of the netmods.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Takes the set apart, to put its netmods into wrappers, say.
    pub fn into_netmods(self) -> Vec<AnyNetmod> {
        self.mods
    }

    /// The netmods, in order of preference.
    pub fn netmods(&self) -> impl Iterator<Item = &dyn Netmod> {
        self.mods.iter().map(|m| match m {
            #[cfg(feature = "shm")]
            AnyNetmod::Shm(n) => n.as_ref() as &dyn Netmod,
            #[cfg(feature = "tcp")]
            AnyNetmod::Tcp(n) => n.as_ref() as &dyn Netmod,
            #[cfg(feature = "ofi")]
            AnyNetmod::Ofi(n) => n.as_ref() as &dyn Netmod,
            #[cfg(feature = "verbs")]
            AnyNetmod::Verbs(n) => n.as_ref() as &dyn Netmod,
            AnyNetmod::Other(n) => n.as_ref(),
            AnyNetmod::Wrapped(n) => n.as_ref(),
        })
    }

    /// Returns the figures of the netmod whose report has the type `R`, if it is one of them.
    pub fn report_of<R: 'static>(&self) -> Option<R> {
        self.netmods().find_map(|m| m.report()?.downcast().ok()).map(|report| *report)
    }

    /// Chooses the netmod of the VC with a process, as that process does from the card of this one.
    /// `me` is the name by which the peer knows this process.
    ///
    /// # Errors
    /// Why no netmod that both have reaches.
    pub(crate) fn choose(&mut self, me: PeerName, peer: PeerName, card: &Card) -> Result<Chosen, VcError> {
        let wrong = |why: NoChoice| VcError::new(VcErrorKind::Card, Some(peer), why.to_string());
        let theirs = Offer::of(card).map_err(wrong)?;
        let mods = &mut self.mods;
        let reaches = |name: &str| match mods.iter_mut().find(|m| each!(m, n => n.name()) == name) {
            Some(m) => each!(m, n => n.reachable(card)),
            None => Err(VcError::of_card("could not start")),
        };
        let Choice { netmod, why } =
            choice::choose((me, &self.offer), (peer, &theirs), reaches).map_err(wrong)?;
        let index = self.mods.iter().position(|m| each!(m, n => n.name()) == netmod).unwrap_or(0);
        Ok(Chosen { netmod: index as u8, why, order: theirs.order() })
    }

    /// The name of a netmod.
    pub(crate) fn name_of(&self, netmod: u8) -> &'static str {
        self.mods.get(usize::from(netmod)).map_or("?", |m| each!(m, n => n.name()))
    }

    /// Returns true if the netmod of a VC shares memory with its peer.
    pub(crate) fn is_near(&self, core: &Core, vc: VcId) -> bool {
        let netmod = core.vc(vc).and_then(|v| self.mods.get(usize::from(v.netmod)));
        netmod.is_some_and(Module::shares_memory)
    }

    /// Does something with every netmod; an error if none can.
    fn any(
        &mut self,
        mut f: impl FnMut(&mut AnyNetmod) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let missing = self.offer.failures();
        let mut all = Err(DeviceError::of_all(format!("no netmod could start: {missing}")));
        for m in &mut self.mods {
            let one = f(m);
            if all.is_err() {
                all = one;
            }
        }
        match all {
            // One that could not start may be the one that could have done it.
            Err(e) if !missing.is_empty() && !self.mods.is_empty() => {
                Err(DeviceError::of_all(format!("{e}; of the others, {missing}")))
            }
            all => all,
        }
    }

    #[inline(always)]
    fn of(&mut self, core: &Core, vc: VcId) -> &mut AnyNetmod {
        match core.vc(vc) {
            Some(v) if v.netmod != 0 => self.later(usize::from(v.netmod)),
            // The first one is looked at in each poll, whether it is used or not.
            _ => &mut self.mods[0],
        }
    }

    #[cold]
    fn later(&mut self, i: usize) -> &mut AnyNetmod {
        let i = i.min(self.mods.len() - 1);
        self.turns.looked_at(i, true);
        &mut self.mods[i]
    }
}

#[inline(never)]
fn flush_each(mods: &mut [AnyNetmod], core: &mut Core) {
    for m in mods {
        each!(m, n => n.flush(core));
    }
}

/// Finds the netmod of a VC, for [`netmod_core::forward`].
macro_rules! of_vc {
    ($set:expr, [$core:ident, $vc:ident], $n:ident => $body:expr) => {
        each!($set.of($core, $vc), $n => $body)
    };
}

impl VcLife for NetSet {
    forward!(of_vc: vc_init, set_card, vc_destroy, vc_terminate, vc_abort, watch_peer, vc_revive);

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        for m in &mut self.mods {
            each!(m, n => n.refuse_peer(peer, why));
        }
    }
}

impl DynamicProcesses for NetSet {
    forward!(of_vc: connect_to_root);

    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError> {
        self.any(|m| each!(m, n => n.open_port(port, key)))
    }

    fn close_port(&mut self, port: u64) {
        for m in &mut self.mods {
            each!(m, n => n.close_port(port));
        }
    }

    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError> {
        self.any(|m| each!(m, n => n.join_group(met)))
    }

    fn leave_group(&mut self, id: &GroupId) {
        for m in &mut self.mods {
            each!(m, n => n.leave_group(id));
        }
    }
}

impl Checkpoint for NetSet {
    forward!(of_vc: ckpt_peer);

    fn can_ckpt(&self) -> Result<(), DeviceError> {
        self.netmods().try_for_each(Checkpoint::can_ckpt)
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        // Before any of them has let go of something.
        self.can_ckpt()?;
        let mut all = Finalize::Done;
        for i in 0..self.mods.len() {
            match each!(&mut self.mods[i], n => n.ckpt_shutdown(core, now)) {
                Ok(Finalize::Done) => {}
                Ok(Finalize::Pending) => all = Finalize::Pending,
                Err(e) => {
                    // Nothing has changed: those before it go on.
                    for m in &mut self.mods[..i] {
                        each!(m, n => n.ckpt_restart(core, now))?;
                    }
                    return Err(e);
                }
            }
        }
        Ok(all)
    }

    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.mods.iter_mut().try_for_each(|m| each!(m, n => n.ckpt_restart(core, now)))
    }
}

// SAFETY: each call goes to one netmod, which keeps the contract.
#[allow(unsafe_code)]
unsafe impl Netmod for NetSet {
    forward!(of_vc: i_send_contig, send_noncontig, cancel_send, control_frame);

    // Within a node a further call on the way of a small message is felt in the message rate.
    #[inline(always)]
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        match self.of(core, vc) {
            #[cfg(feature = "shm")]
            AnyNetmod::Shm(n) => n.i_start_contig_msg(core, vc, hdr, data),
            other => other.start(core, vc, hdr, data),
        }
    }

    #[inline]
    fn flush(&mut self, core: &mut Core) {
        match &mut self.mods[..] {
            [only] => each!(only, n => n.flush(core)),
            all => flush_each(all, core),
        }
    }

    /// Polls one netmod after another until one has something, so that a batch is of one netmod.
    #[inline]
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        if let [only] = &mut self.mods[..] {
            return each!(only, n => n.poll(core, order, now, events));
        }
        let first = self.turns.begin();
        for place in 0..self.mods.len() {
            let i = self.turns.at(first, place);
            if !self.turns.is_due(i) {
                continue;
            }
            self.polled = i;
            let before = events.len();
            each!(&mut self.mods[i], n => n.poll(core, order, now, events))?;
            if events.len() > before {
                self.turns.looked_at(i, true);
                if i > 0 {
                    events.tag_netmod(before, i as u8);
                }
                return Ok(());
            }
            self.turns.looked_at(i, events.has_progress());
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        each!(&mut self.mods[self.polled], n => n.release(buf))
    }

    /// Only a set of one netmod has one descriptor; see [`NetSet::netmods`].
    fn wait_fd(&self) -> Option<RawFd> {
        match &self.mods[..] {
            [m] => each!(m, n => n.wait_fd()),
            _ => None,
        }
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        let mut all = Arm::Armed;
        // The end of the wait may come from any of them.
        self.turns.wake();
        for m in &mut self.mods {
            if each!(m, n => n.arm(core)) == Arm::Busy {
                all = Arm::Busy;
            }
        }
        all
    }

    fn deadline(&self) -> Option<Time> {
        self.netmods().filter_map(|m| m.deadline()).min()
    }
}

impl Module for NetSet {
    forward!(of_vc: rma);

    fn name(&self) -> &'static str {
        "set"
    }

    fn threads(&self) -> usize {
        self.netmods().map(Module::threads).sum()
    }

    fn shares_memory(&self) -> bool {
        self.mods.iter().any(Module::shares_memory)
    }

    fn join_job(&mut self, job_key: [u8; 32], pollers: Pollers) -> Result<(), DeviceError> {
        self.mods.iter_mut().try_for_each(|m| each!(m, n => n.join_job(job_key, pollers)))
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        self.netmods().try_for_each(|m| m.business_card(card))
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        let reasons: Vec<String> = self
            .mods
            .iter_mut()
            .map_while(|m| {
                Some(format!("{}: {}", each!(m, n => n.name()), each!(m, n => n.reachable(card)).err()?))
            })
            .collect();
        if reasons.len() < self.mods.len() { Ok(()) } else { Err(VcError::of_card(reasons.join("; "))) }
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        let mut all = Finalize::Done;
        for m in &mut self.mods {
            if each!(m, n => n.finalize(core, now)) == Finalize::Pending {
                all = Finalize::Pending;
            }
        }
        all
    }
}

impl Diagnose for NetSet {
    forward!(of_vc: break_connection);

    /// Each netmod has a report of its own; see [`NetSet::report_of`].
    fn report(&self) -> Option<Report> {
        None
    }

    /// Returns the first netmod's reason if each of them has failed.
    fn failure(&self) -> Option<&str> {
        let mut all = self.mods.iter().map(Diagnose::failure);
        let first = all.next()??;
        all.all(|f| f.is_some()).then_some(first)
    }

    fn opened(&self) -> String {
        self.netmods().map(|m| format!("{}: {}", m.name(), m.opened())).collect::<Vec<_>>().join("; ")
    }

    fn describe(&self, core: &Core, vc: VcId) -> String {
        match core.vc(vc).and_then(|v| self.netmods().nth(usize::from(v.netmod))) {
            Some(m) => format!("{}: {}", m.name(), m.describe(core, vc)),
            None => "no such VC".into(),
        }
    }
}
