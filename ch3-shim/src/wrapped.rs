//! Netmods within wrappers: fault injection and capture, as the configuration asks for.

use std::os::fd::RawFd;

use netmod_core::{
    Arm, Card, CardError, CardWriter, Config, Core, DeviceError, Events, Finalize, GroupId, Header, MetGroup,
    Netmod, Ordering, PeerName, PollOrder, Refusal, ReqId, Rma, RmaUse, RxBuf, SendBuf, Sent, Time, VcError,
    VcId,
};
use netmod_wrap::{Capture, CaptureFile, FaultPlan, Faulty};

use crate::error::{Error, Result};
use crate::netset::{AnyNetmod, each};
use crate::pkt::Packet;

/// A netmod around another.
pub trait Wrapper: Netmod {
    /// What it wraps.
    fn inner(&self) -> &AnyNetmod;
    /// What it wraps.
    fn inner_mut(&mut self) -> &mut AnyNetmod;
}

impl Wrapper for Faulty<AnyNetmod> {
    fn inner(&self) -> &AnyNetmod {
        Faulty::inner(self)
    }
    fn inner_mut(&mut self) -> &mut AnyNetmod {
        Faulty::inner_mut(self)
    }
}

impl Wrapper for Capture<AnyNetmod> {
    fn inner(&self) -> &AnyNetmod {
        Capture::inner(self)
    }
    fn inner_mut(&mut self) -> &mut AnyNetmod {
        Capture::inner_mut(self)
    }
}

impl AnyNetmod {
    /// The netmod itself, without its wrappers: whoever needs to know which one it is asks here.
    pub fn base(&self) -> &AnyNetmod {
        let mut at = self;
        while let AnyNetmod::Wrapped(w) = at {
            at = w.inner();
        }
        at
    }

    /// As [`AnyNetmod::base`]. What is done to it the wrappers do not see.
    pub fn base_mut(&mut self) -> &mut AnyNetmod {
        match self {
            AnyNetmod::Wrapped(w) => w.inner_mut().base_mut(),
            base => base,
        }
    }
}

/// Puts the wrappers around a netmod that the configuration asks for.
///
/// # Errors
/// A setting that cannot be used.
pub(crate) fn wrap(netmod: AnyNetmod, cfg: &Config, me: PeerName) -> Result<AnyNetmod> {
    let mut netmod = netmod;
    if !cfg.faults.is_empty() {
        let plan: FaultPlan = cfg.faults.parse().map_err(|e| Error::Config(format!("NETMOD_FAULTS: {e}")))?;
        if plan.concerns(me.rank) {
            netmod = AnyNetmod::Wrapped(Box::new(Faulty::new(netmod, plan, me)));
        }
    }
    if !cfg.capture.is_empty() {
        // Outermost: what the device sends and gets to see, faults included.
        let stem = format!("{}-{:?}-{}-{}", cfg.capture, me.group, me.rank, netmod.name());
        let file = CaptureFile::create(&stem, me, cfg.capture_snap);
        let payload_len = |h: &Header| Packet::parse(h).ok().map(|p| p.payload_len());
        netmod = AnyNetmod::Wrapped(Box::new(Capture::new(netmod, file, payload_len)));
    }
    Ok(netmod)
}

impl Netmod for AnyNetmod {
    fn name(&self) -> &'static str {
        each!(self, n => n.name())
    }

    fn opened(&self) -> String {
        each!(self, n => n.opened())
    }

    fn threads(&self) -> usize {
        each!(self, n => n.threads())
    }

    fn business_card(&self, card: &mut CardWriter) -> std::result::Result<(), CardError> {
        each!(self, n => n.business_card(card))
    }

    fn reachable(&mut self, card: &Card) -> std::result::Result<(), String> {
        each!(self, n => n.reachable(card))
    }

    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> std::result::Result<(), VcError> {
        each!(self, n => n.vc_init(core, vc, peer, card))
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: std::result::Result<&Card, VcError>) {
        each!(self, n => n.set_card(core, vc, card))
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        each!(self, n => n.refuse_peer(peer, why))
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        each!(self, n => n.vc_destroy(core, vc))
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        each!(self, n => n.vc_terminate(core, vc, now))
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        each!(self, n => n.vc_abort(core, vc, error))
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool {
        each!(self, n => n.watch_peer(core, vc, now))
    }

    fn vc_revive(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: Option<&Card>,
    ) -> std::result::Result<(), VcError> {
        each!(self, n => n.vc_revive(core, vc, card))
    }

    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> std::result::Result<(), VcError> {
        each!(self, n => n.connect_to_root(core, vc, card, port_tag))
    }

    fn open_port(&mut self, port: u64, key: [u8; 32]) -> std::result::Result<(), DeviceError> {
        each!(self, n => n.open_port(port, key))
    }

    fn close_port(&mut self, port: u64) {
        each!(self, n => n.close_port(port))
    }

    fn meet_group(&mut self, met: &MetGroup) -> std::result::Result<(), DeviceError> {
        each!(self, n => n.meet_group(met))
    }

    fn part_group(&mut self, id: &GroupId) {
        each!(self, n => n.part_group(id))
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> std::result::Result<Finalize, DeviceError> {
        each!(self, n => n.ckpt_shutdown(core, now))
    }

    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> std::result::Result<(), DeviceError> {
        each!(self, n => n.ckpt_restart(core, now))
    }

    fn ordering(&self) -> Ordering {
        each!(self, n => n.ordering())
    }

    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> std::result::Result<Sent, VcError> {
        each!(self, n => n.i_send_contig(core, vc, req, hdr, data))
    }

    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> std::result::Result<Option<ReqId>, VcError> {
        each!(self, n => n.i_start_contig_msg(core, vc, hdr, data))
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> std::result::Result<Sent, VcError> {
        each!(self, n => n.send_noncontig(core, vc, req, hdr))
    }

    fn send_resume(&mut self, core: &mut Core, vc: VcId, req: ReqId, more: bool) {
        each!(self, n => n.send_resume(core, vc, req, more))
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        each!(self, n => n.cancel_send(core, vc, req))
    }

    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> std::result::Result<(), String> {
        each!(self, n => n.control_frame(core, vc, hdr))
    }

    fn flush(&mut self, core: &mut Core) {
        each!(self, n => n.flush(core))
    }

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> std::result::Result<(), DeviceError> {
        each!(self, n => n.poll(core, order, now, events))
    }

    fn release(&mut self, buf: RxBuf) {
        each!(self, n => n.release(buf))
    }

    fn wait_fd(&self) -> Option<RawFd> {
        each!(self, n => n.wait_fd())
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        each!(self, n => n.arm(core))
    }

    fn deadline(&self) -> Option<Time> {
        each!(self, n => n.deadline())
    }

    fn rma(&mut self) -> Option<&mut dyn Rma> {
        each!(self, n => n.rma())
    }

    fn can_rma(
        &mut self,
        core: &Core,
        vc: VcId,
    ) -> std::result::Result<RmaUse, std::borrow::Cow<'static, str>> {
        each!(self, n => n.can_rma(core, vc))
    }

    fn break_connection(&mut self, core: &mut Core, vc: VcId) -> bool {
        each!(self, n => n.break_connection(core, vc))
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        each!(self, n => n.finalize(core, now))
    }

    fn describe(&self, core: &Core, vc: VcId) -> String {
        each!(self, n => n.describe(core, vc))
    }
}
