//! The netmod between a device and its script, and the process manager of the device.

use std::collections::{HashMap, VecDeque};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsRawFd as _, RawFd};

use ch3_shim::{Answer, Asked, Bootstrap, BootstrapError, Silence};
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Checkpoint, Core, DeviceError, Diagnose, Event, Events,
    Finalize, Header, Module, Netmod, NoDynamicProcesses, PacketFault, PeerName, PollOrder, Pollers, Refusal,
    Report, ReqId, Rma, RxBuf, SendBuf, Sent, SideTable, Time, VcError, VcErrorKind, VcId, VcLife,
};

use super::{Act, Misled, Script};
use crate::remote::Remote;
use crate::sys::{Arena, receive_direct};

const NAME: &str = "scripted";

/// A process manager of one process that is told it has company.
#[derive(Debug)]
pub(super) struct Solo {
    pub(super) size: u32,
    pub(super) values: HashMap<String, Vec<u8>>,
    pub(super) script: Script,
}

impl Bootstrap for Solo {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        self.size
    }
    fn job_id(&self) -> String {
        "script".into()
    }
    fn local_size(&self) -> u32 {
        1
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        // The peers have the same card as the device: they speak the same netmod.
        let key = if key.starts_with("netmod-card-") { "netmod-card-0" } else { key };
        Ok(self.values.get(key).cloned())
    }
    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }
    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(self.script.lock().barriers_end)
    }
    fn ask_value(&mut self, key: &str) -> Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        if let Some(asked) = &mut self.script.lock().asked {
            asked.push_back(key.to_owned());
            return Ok(Asked::Later);
        }
        self.get(key).map(Asked::Now)
    }
    fn answer(&mut self) -> Result<Option<Answer>, Silence> {
        let key = {
            let mut stage = self.script.lock();
            let answers = stage.answers;
            stage.asked.as_mut().filter(|_| answers).and_then(VecDeque::pop_front)
        };
        Ok(key.map(|key| {
            let value = self.get(&key);
            Answer::Value(key, value)
        }))
    }
    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        Ok(Asked::Now(self.script.lock().told.clone()))
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(true)
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("the device aborted with code {code}: {message}")
    }
}

/// The netmod between the device and the script: it never has to wait.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) script: Script,
    pub(super) me: PeerName,
    pub(super) vcs: SideTable<PeerName, VcKind>,
    pub(super) arena: Arena,
    pub(super) pending: VecDeque<Event>,
    pub(super) remote: Remote,
    /// A pipe with something in it.
    pub(super) readable: (PipeReader, PipeWriter),
}

impl Scripted {
    fn deliver(&mut self, core: &mut Core, rank: usize, events: &mut Events) {
        let script = self.script.clone();
        let mut stage = script.lock();
        let direct = stage.direct;
        let peer = &mut stage.peers[rank];
        if peer.down || peer.acts.is_empty() {
            return;
        }
        let Some(vc) = peer.vc else {
            if !std::mem::replace(&mut peer.announced, true) {
                let peer = PeerName { rank: rank as u32, ..self.me };
                events.push(Event::NewPeer { peer, netmod: 0 });
            }
            return;
        };
        let mut busy = false;
        while events.room() > 0 {
            match peer.acts.front_mut() {
                Some(Act::Bytes(bytes)) => {
                    let mut gone = 0;
                    let mut room = true;
                    if direct
                        && !busy
                        && let Some(d) = receive_direct(core, vc, [bytes, &[]])
                    {
                        gone = d.taken;
                        busy = d.filled;
                        room = d.filled;
                        if d.done {
                            events.push(Event::RecvDone { vc });
                        }
                    }
                    let rest = &bytes[gone..];
                    let n = if room { rest.len().min(self.arena.room()) } else { 0 };
                    if n > 0 {
                        events.push(Event::Rx { vc, buf: self.arena.lend([&rest[..n], &[]]) });
                        busy = true;
                    }
                    if gone + n == bytes.len() {
                        peer.acts.pop_front();
                    } else {
                        bytes.drain(..gone + n);
                        if self.arena.room() == 0 {
                            return;
                        }
                    }
                }
                Some(Act::Die) if !busy => {
                    peer.acts.clear();
                    peer.down = true;
                    core.reset_receive(vc);
                    let name = self.vcs.get(vc).copied();
                    let error = VcError::new(VcErrorKind::Lost, name, "the script lets it die");
                    events.push(Event::Down { vc, error });
                    return;
                }
                Some(Act::Connect) if !busy => {
                    peer.acts.pop_front();
                    events.push(Event::Up { vc });
                    return;
                }
                _ => return,
            }
        }
    }

    fn keep(&mut self, vc: VcId, hdr: &Header, data: &[u8]) -> Result<(), VcError> {
        let Some(name) = self.vcs.get(vc) else {
            return Err(VcError::new(VcErrorKind::Aborted, None, "no such VC"));
        };
        let mut stage = self.script.lock();
        let peer = &mut stage.peers[name.rank as usize];
        if peer.down {
            return Err(VcError::new(VcErrorKind::Lost, Some(*name), "it is down"));
        }
        peer.got.extend_from_slice(hdr);
        peer.got.extend_from_slice(data);
        Ok(())
    }

    /// Report about the memory of a message that has been sent.
    fn let_go(&mut self, vc: VcId, req: ReqId) -> Sent {
        let mut stage = self.script.lock();
        if !stage.keeps {
            return Sent::Done;
        }
        stage.kept.push((vc, req));
        Sent::Queued
    }
}

impl VcLife for Scripted {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        _: Option<&Card>,
    ) -> Result<(), VcError> {
        if let Some(v) = core.vc_mut(vc) {
            v.stats.connects += 1;
        }
        let mut stage = self.script.lock();
        if stage.refuses {
            return Err(VcError::new(VcErrorKind::Card, Some(peer), "the script takes no VC"));
        }
        let before = self.vcs.insert(vc, peer);
        assert!(before.is_none(), "{vc} is in its charge already");
        stage.in_charge += 1;
        stage.peers[peer.rank as usize].vc = Some(vc);
        self.pending.push_back(Event::Up { vc });
        Ok(())
    }

    fn set_card(&mut self, _: &mut Core, _: VcId, _: Result<&Card, VcError>) {}

    fn refuse_peer(&mut self, peer: PeerName, _: Refusal) {
        self.script.lock().peers[peer.rank as usize].down = true;
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let was = self.vcs.remove(vc);
        assert!(was.is_some() && core.vc(vc).is_some(), "{vc} is not in its charge, or gone already");
        self.script.lock().in_charge -= 1;
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, _: &mut Core, vc: VcId, _: Time) {
        let event = if self.script.lock().no_last_word {
            let error = VcError::new(VcErrorKind::Lost, self.vcs.get(vc).copied(), "the last word is lost");
            Event::Down { vc, error }
        } else {
            Event::Terminated { vc }
        };
        self.pending.push_back(event);
    }

    fn vc_abort(&mut self, _: &mut Core, vc: VcId, error: VcError) {
        let Some(name) = self.vcs.get(vc) else { return };
        let down = std::mem::replace(&mut self.script.lock().peers[name.rank as usize].down, true);
        if !down {
            self.pending.push_back(Event::Down { vc, error });
        }
    }

    fn watch_peer(&mut self, _: &mut Core, vc: VcId, _: Time) -> bool {
        let Some(&name) = self.vcs.get(vc) else { return true };
        let mut stage = self.script.lock();
        if stage.watch_room == Some(0) {
            return false;
        }
        stage.watch_room = stage.watch_room.map(|n| n - 1);
        stage.watched.push(name.rank);
        let peer = &mut stage.peers[name.rank as usize];
        if peer.ended && !std::mem::replace(&mut peer.down, true) {
            let error = VcError::new(VcErrorKind::Lost, Some(name), "the script lets it die");
            self.pending.push_back(Event::Down { vc, error });
        }
        true
    }

    fn vc_revive(&mut self, _: &mut Core, vc: VcId, _: Option<&Card>) -> Result<(), VcError> {
        if let Some(name) = self.vcs.get(vc) {
            self.script.lock().peers[name.rank as usize].down = false;
        }
        Ok(())
    }
}

impl NoDynamicProcesses for Scripted {
    const INSTEAD: &'static str = "a script has no ports";
}

impl Checkpoint for Scripted {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_shutdown(&mut self, _: &mut Core, _: Time) -> Result<Finalize, DeviceError> {
        Ok(Finalize::Done)
    }

    fn ckpt_restart(&mut self, _: &mut Core, _: Time) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_peer(&mut self, _: &mut Core, _: VcId, _: &Card) -> Result<(), VcError> {
        Ok(())
    }
}

// SAFETY: messages are copied within the call.
#[allow(unsafe_code)]
unsafe impl Netmod for Scripted {
    fn i_send_contig(
        &mut self,
        _: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        self.script.lock().hooks.i_send_contig += 1;
        self.keep(vc, hdr, data.bytes()).map(|()| self.let_go(vc, req))
    }

    fn i_start_contig_msg(
        &mut self,
        _: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        self.script.lock().hooks.i_start_contig_msg += 1;
        self.keep(vc, hdr, data.bytes()).map(|()| None)
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.script.lock().hooks.send_noncontig += 1;
        let mut data = Vec::new();
        if let Some(r) = core.req_mut(req) {
            r.seg.pack_vec(usize::MAX, &mut data);
        }
        self.keep(vc, hdr, &data).map(|()| self.let_go(vc, req))
    }

    fn cancel_send(&mut self, _: &mut Core, _: VcId, _: ReqId) -> bool {
        false
    }

    fn control_frame(&mut self, _: &mut Core, _: VcId, _: &Header) -> Result<(), PacketFault> {
        Err(PacketFault::violation("a script has no control frames"))
    }

    fn flush(&mut self, _: &mut Core) {}

    fn poll(
        &mut self,
        core: &mut Core,
        _: PollOrder,
        _: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        assert_eq!(self.arena.lent(), 0, "the engine keeps receive buffers beyond a poll");
        if self.script.lock().broken {
            return Err(DeviceError::new(NAME, "the script lets it break down"));
        }
        while let Some(ev) = self.pending.pop_front().or_else(|| self.remote.ends.pop_front()) {
            events.push(ev);
        }
        let n = {
            let mut stage = self.script.lock();
            stage.polls += u64::from(stage.at_nap.is_some());
            stage.all_polls += 1;
            if !stage.keeps {
                for (vc, req) in stage.kept.drain(..) {
                    core.send_finished(vc, req);
                }
            }
            stage.peers.len()
        };
        if events.is_empty() {
            (0..n).for_each(|rank| self.deliver(core, rank, events));
        }
        Ok(())
    }

    fn release(&mut self, buf: RxBuf) {
        self.arena.give_back(buf);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (self.script.lock().misled == Misled::Readable).then(|| self.readable.0.as_raw_fd())
    }

    fn arm(&mut self, _: &mut Core) -> Arm {
        if self.script.lock().misled == Misled::Busy {
            return Arm::Busy;
        }
        if self.pending.is_empty() && self.remote.ends.is_empty() && self.script.is_played() {
            let due = self.script.lock().at_nap.take();
            if let Some((rank, bytes)) = due {
                self.script.send(rank, &bytes);
            }
            Arm::Armed
        } else {
            Arm::Busy
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

impl Module for Scripted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn threads(&self) -> usize {
        0
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn join_job(&mut self, _job_key: [u8; 32], _: Pollers) -> Result<(), DeviceError> {
        Ok(())
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card.section(NAME, 1, &[])
    }

    fn reachable(&mut self, _card: &Card) -> Result<(), VcError> {
        Ok(())
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        Some(&mut self.remote)
    }

    fn finalize(&mut self, _: &mut Core, _: Time) -> Finalize {
        Finalize::Done
    }
}

impl Diagnose for Scripted {
    fn failure(&self) -> Option<&str> {
        None
    }

    fn opened(&self) -> String {
        "what the test says".into()
    }

    fn describe(&self, _: &Core, _: VcId) -> String {
        "a script".into()
    }

    fn report(&self) -> Option<Report> {
        None
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId, how: Break) -> Result<bool, VcError> {
        how.unsupported(self.name())
    }
}
