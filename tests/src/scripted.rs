//! A device whose peers are a script: what they send is given byte by byte, what they are sent is kept.

use std::collections::{HashMap, VecDeque};
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ch3_shim::pkt::Packet;
use ch3_shim::{Asked, Bootstrap, Builder, Device, VirtualClock};
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Card, CardError, CardWriter, Checkpoint, Config, Core, DeviceError, Diagnose, Event, Events,
    Finalize, Header, Module, Netmod, NoDynamicProcesses, PeerName, PollOrder, Refusal, ReqId, Rma, RxBuf,
    SendBuf, Sent, SideTable, Time, VcError, VcErrorKind, VcId, VcLife,
};

use crate::remote::{Regions, Remote};
use crate::sys::{Arena, receive_direct};
use crate::watchdog::Watchdog;

const NAME: &str = "scripted";

/// What a peer does next.
#[derive(Clone, Debug)]
enum Act {
    /// Sends bytes, delivered as one piece.
    Bytes(Vec<u8>),
    /// Dies.
    Die,
    /// Connects, again if it had died.
    Connect,
}

#[derive(Debug, Default)]
struct Peer {
    acts: VecDeque<Act>,
    /// All that it was sent, headers and payload.
    got: Vec<u8>,
    vc: Option<VcId>,
    announced: bool,
    down: bool,
    /// It has ended without a word, which shows when it is watched.
    ended: bool,
}

/// What the netmod says of waiting that is not so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Misled {
    /// Nothing.
    #[default]
    No,
    /// Its descriptor is readable.
    Readable,
    /// There is something to be done.
    Busy,
}

#[derive(Debug)]
struct Stage {
    peers: Vec<Peer>,
    direct: bool,
    /// What the process manager says of failed ranks.
    told: Vec<u32>,
    /// Whether the process manager's barriers end.
    barriers_end: bool,
    /// Whether connections break instead of being terminated.
    no_last_word: bool,
    /// Nobody else would notice a wait for what the script never does.
    _watchdog: Watchdog,
    /// What the device has registered.
    regions: Regions,
    /// Ranks that the device has had watched, and how many more it may.
    watched: Vec<u32>,
    watch_room: Option<usize>,
    /// Polls of the device, and what is sent when it blocks.
    polls: u64,
    at_nap: Option<(u32, Vec<u8>)>,
    all_polls: u64,
    misled: Misled,
}

/// The peers.
#[derive(Clone, Debug)]
pub struct Script(Arc<Mutex<Stage>>);

impl Script {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device of rank 0 among `size`, whose peers are the script. `direct`: received bytes go straight
    /// to an active receive.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device(size: u32, direct: bool) -> (Script, Device) {
        Script::device_at(size, direct, None)
    }

    /// As [`Script::device`], with a clock of the test's.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device_at(size: u32, direct: bool, clock: Option<VirtualClock>) -> (Script, Device) {
        Script::device_with(size, direct, clock, |_| {})
    }

    /// As [`Script::device_at`], with a configuration that `tune` has changed.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device_with(
        size: u32,
        direct: bool,
        clock: Option<VirtualClock>,
        tune: impl FnOnce(&mut Config),
    ) -> (Script, Device) {
        let peers = (0..size).map(|_| Peer::default()).collect();
        let stage = Stage {
            peers,
            direct,
            told: Vec::new(),
            barriers_end: true,
            no_last_word: false,
            _watchdog: Watchdog::new(),
            regions: Regions::default(),
            watched: Vec::new(),
            watch_room: None,
            polls: 0,
            at_nap: None,
            all_polls: 0,
            misled: Misled::No,
        };
        let script = Script(Arc::new(Mutex::new(stage)));
        let mut cfg = Config::default();
        cfg.netmods.clear();
        tune(&mut cfg);
        let builder =
            Builder::new(cfg, Box::new(Solo { size, values: HashMap::new(), script: script.clone() }));
        let netmod = Scripted {
            script: script.clone(),
            me: builder.name(),
            vcs: SideTable::new(),
            arena: Arena::new(1 << 20),
            pending: VecDeque::new(),
            remote: Remote::new(script.regions()),
            readable: std::io::pipe().expect("a pipe"),
        };
        (&netmod.readable.1).write_all(&[0]).expect("room in a pipe");
        let builder = builder.netmod(Box::new(netmod));
        let builder = match clock {
            Some(clock) => builder.clock(clock),
            None => builder,
        };
        let dev = builder.build().expect("a device over a script");
        (script, dev)
    }

    /// What the device has registered for one-sided transfers.
    pub fn regions(&self) -> Regions {
        self.lock().regions.clone()
    }

    /// A peer sends bytes, which are delivered in one piece.
    pub fn send(&self, rank: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.lock().peers[rank as usize].acts.push_back(Act::Bytes(bytes.to_vec()));
        }
    }

    /// A peer sends bytes when the device is about to block. How many polls there were by then says [`Script::polls`].
    pub fn send_at_nap(&self, rank: u32, bytes: &[u8]) {
        let mut stage = self.lock();
        stage.polls = 0;
        stage.at_nap = Some((rank, bytes.to_vec()));
    }

    /// Polls since [`Script::send_at_nap`], up to the nap.
    pub fn polls(&self) -> u64 {
        self.lock().polls
    }

    /// Polls in all.
    pub fn all_polls(&self) -> u64 {
        self.lock().all_polls
    }

    /// What the netmod says of waiting is misleading from now on.
    pub fn mislead(&self, how: Misled) {
        self.lock().misled = how;
    }

    /// A peer dies when all it sent was delivered.
    pub fn die(&self, rank: u32) {
        self.lock().peers[rank as usize].acts.push_back(Act::Die);
    }

    /// A peer ends without a word: only who watches it learns of that.
    pub fn end(&self, rank: u32) {
        self.lock().peers[rank as usize].ended = true;
    }

    /// Takes the ranks that the device has had watched since the last time, in order. From now on it may have `room` more
    /// watched, if that is bounded.
    pub fn watched(&self, room: Option<usize>) -> Vec<u32> {
        let mut stage = self.lock();
        stage.watch_room = room;
        std::mem::take(&mut stage.watched)
    }

    /// A peer connects, after all it has done before; one that has died does so in a new incarnation.
    pub fn connect(&self, rank: u32) {
        let mut stage = self.lock();
        let peer = &mut stage.peers[rank as usize];
        peer.acts.push_back(Act::Connect);
        peer.down = false;
    }

    /// The process manager says that these ranks, and no others, have failed.
    pub fn tell_failed(&self, ranks: &[u32]) {
        self.lock().told = ranks.to_vec();
    }

    /// Whether barriers of the process manager end from now on.
    pub fn let_barriers_end(&self, end: bool) {
        self.lock().barriers_end = end;
    }

    /// From now on connections break when both sides have closed, before that is all over.
    pub fn break_last_words(&self) {
        self.lock().no_last_word = true;
    }

    /// Takes what a peer was sent since the last time.
    pub fn received(&self, rank: u32) -> Vec<u8> {
        std::mem::take(&mut self.lock().peers[rank as usize].got)
    }

    /// Whether the VC to a peer is down.
    pub fn is_down(&self, rank: u32) -> bool {
        self.lock().peers[rank as usize].down
    }

    fn is_played(&self) -> bool {
        self.lock().peers.iter().all(|p| p.acts.is_empty() || p.down)
    }

    /// Makes progress until the script has been played.
    ///
    /// # Panics
    /// If the netmod fails as a whole.
    pub fn play(&self, dev: &mut Device) {
        while !self.is_played() {
            dev.progress().expect("progress");
        }
        // What the last bytes have caused.
        while dev.progress().expect("progress") {}
    }
}

/// Reads a sequence of packets with their payloads.
///
/// # Panics
/// If it is not one: the device has sent nonsense.
pub fn parse(mut bytes: &[u8]) -> Vec<(Packet, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some((hdr, rest)) = bytes.split_first_chunk() {
        let pkt = Packet::parse(hdr).expect("a packet of the device");
        let (data, rest) = rest.split_at(pkt.payload_len() as usize);
        out.push((pkt, data.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a packet");
    out
}

/// A process manager of one process that is told it has company.
#[derive(Debug)]
struct Solo {
    size: u32,
    values: HashMap<String, Vec<u8>>,
    script: Script,
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
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        // The peers have the same card as the device: they speak the same netmod.
        let key = if key.starts_with("netmod-card-") { "netmod-card-0" } else { key };
        Ok(self.values.get(key).cloned())
    }
    fn barrier_begin(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn barrier_poll(&mut self) -> Result<bool, String> {
        Ok(self.script.lock().barriers_end)
    }
    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, String> {
        Ok(Asked::Now(self.script.lock().told.clone()))
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn finalize(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn abort(&mut self, code: i32, message: &str) -> ! {
        panic!("the device aborted with code {code}: {message}")
    }
}

/// The netmod between the device and the script: it never has to wait.
#[derive(Debug)]
struct Scripted {
    script: Script,
    me: PeerName,
    vcs: SideTable<PeerName, VcKind>,
    arena: Arena,
    pending: VecDeque<Event>,
    remote: Remote,
    /// A pipe with something in it.
    readable: (PipeReader, PipeWriter),
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
}

impl VcLife for Scripted {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        _: Option<&Card>,
    ) -> Result<(), VcError> {
        if let Some(v) = core.vcs.get_mut(vc) {
            v.stats.connects += 1;
        }
        self.vcs.insert(vc, peer);
        self.script.lock().peers[peer.rank as usize].vc = Some(vc);
        self.pending.push_back(Event::Up { vc });
        Ok(())
    }

    fn set_card(&mut self, _: &mut Core, _: VcId, _: Result<&Card, VcError>) {}

    fn refuse_peer(&mut self, peer: PeerName, _: Refusal) {
        self.script.lock().peers[peer.rank as usize].down = true;
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        self.vcs.remove(vc);
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
}

impl Netmod for Scripted {
    fn i_send_contig(
        &mut self,
        _: &mut Core,
        vc: VcId,
        _: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        self.keep(vc, hdr, data.bytes()).map(|()| Sent::Done)
    }

    fn i_start_contig_msg(
        &mut self,
        _: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        self.keep(vc, hdr, data.bytes()).map(|()| None)
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        let mut data = Vec::new();
        if let Some(r) = core.reqs.get_mut(req) {
            r.seg.pack_vec(usize::MAX, &mut data);
        }
        self.keep(vc, hdr, &data).map(|()| Sent::Done)
    }

    fn send_resume(&mut self, _: &mut Core, _: VcId, _: ReqId, _: bool) {}

    fn cancel_send(&mut self, _: &mut Core, _: VcId, _: ReqId) -> bool {
        false
    }

    fn control_frame(&mut self, _: &mut Core, _: VcId, _: &Header) -> Result<(), String> {
        Err("a script has no control frames".into())
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
        while let Some(ev) = self.pending.pop_front().or_else(|| self.remote.ends.pop_front()) {
            events.push(ev);
        }
        let n = {
            let mut stage = self.script.lock();
            stage.polls += u64::from(stage.at_nap.is_some());
            stage.all_polls += 1;
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

    fn authenticate(&mut self, _job_key: [u8; 32]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card.section(NAME, 1, &[])
    }

    fn reachable(&mut self, _card: &Card) -> Result<(), String> {
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
    fn opened(&self) -> String {
        "what the test says".into()
    }

    fn describe(&self, _: &Core, _: VcId) -> String {
        "a script".into()
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId) -> bool {
        false
    }
}
