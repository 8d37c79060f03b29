//! A device whose peers are a script: what they send is given byte by byte, what they are sent is
//! kept.

mod netmod;

use std::collections::{HashMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ch3_shim::Config;
use ch3_shim::pkt::Packet;
use ch3_shim::{Builder, Device, VirtualClock};
use netmod_core::{ReqId, SideTable, VcId};

use self::netmod::{Scripted, Solo};
use crate::remote::{Regions, Remote};
use crate::sys::Arena;
use crate::watchdog::Watchdog;

/// Next action of a peer.
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

/// Misleading claims of the netmod about waiting.
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

/// Number of calls of each hook that sends messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Data in one piece, with a request of the device's.
    pub i_send_contig: u64,
    /// Data in one piece, or none, without a request.
    pub i_start_contig_msg: u64,
    /// Data in several pieces.
    pub send_noncontig: u64,
}

#[derive(Debug)]
struct Stage {
    peers: Vec<Peer>,
    direct: bool,
    /// The process manager's report of failed ranks.
    told: Vec<u32>,
    /// Cards that the process manager was asked for, if it answers later, and whether it answers
    /// now.
    asked: Option<VecDeque<String>>,
    answers: bool,
    /// True if the process manager's barriers end.
    barriers_end: bool,
    /// True if connections break instead of being terminated.
    no_last_word: bool,
    /// Nobody else would notice a wait for what the script never does.
    _watchdog: Watchdog,
    /// Regions that the device has registered.
    regions: Regions,
    /// Ranks that the device has had watched, and how many more it may.
    watched: Vec<u32>,
    watch_room: Option<usize>,
    /// Polls of the device, and what is sent when it blocks.
    polls: u64,
    at_nap: Option<(u32, Vec<u8>)>,
    all_polls: u64,
    misled: Misled,
    /// Says if the netmod keeps the memory of what it has sent, and of what it does.
    keeps: bool,
    kept: Vec<(VcId, ReqId)>,
    hooks: Hooks,
    /// VCs in the netmod's charge, and whether it takes no others.
    in_charge: usize,
    refuses: bool,
    /// Set if the netmod fails as a whole.
    broken: bool,
}

/// The peers.
#[derive(Clone, Debug)]
pub struct Script(Arc<Mutex<Stage>>);

impl Script {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device of rank 0 among `size`, whose peers are the script. `direct`: received bytes go
    /// straight to an active receive.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device(size: u32, direct: bool) -> (Script, Device) {
        Script::device_at(size, direct, None)
    }

    /// Makes a device like [`Script::device`], with a clock of the test's.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device_at(size: u32, direct: bool, clock: Option<VirtualClock>) -> (Script, Device) {
        Script::device_with(size, direct, clock, |_| {})
    }

    /// Makes a device like [`Script::device_at`], with a configuration that `tune` has changed.
    ///
    /// # Panics
    /// If the device cannot be made.
    pub fn device_with(
        size: u32,
        direct: bool,
        clock: Option<VirtualClock>,
        tune: impl FnOnce(&mut Config),
    ) -> (Script, Device) {
        let (script, builder) = Script::builder(size, direct, tune);
        let builder = match clock {
            Some(clock) => builder.clock(clock),
            None => builder,
        };
        let dev = builder.build().expect("a device over a script");
        (script, dev)
    }

    /// Returns a builder of such a device, at any thread level.
    ///
    /// # Panics
    /// If the process has no descriptors left.
    pub fn builder(size: u32, direct: bool, tune: impl FnOnce(&mut Config)) -> (Script, Builder) {
        let peers = (0..size).map(|_| Peer::default()).collect();
        let stage = Stage {
            peers,
            direct,
            told: Vec::new(),
            asked: None,
            answers: true,
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
            keeps: false,
            kept: Vec::new(),
            hooks: Hooks::default(),
            in_charge: 0,
            refuses: false,
            broken: false,
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
        (script, builder.netmod(Box::new(netmod)))
    }

    /// Returns what the device has registered for one-sided transfers.
    pub fn regions(&self) -> Regions {
        self.lock().regions.clone()
    }

    /// A peer sends bytes, which are delivered in one piece.
    pub fn send(&self, rank: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.lock().peers[rank as usize].acts.push_back(Act::Bytes(bytes.to_vec()));
        }
    }

    /// A peer sends bytes when the device is about to block. How many polls there were by then says
    /// [`Script::polls`].
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

    /// Makes the netmod's claims about waiting misleading from now on.
    pub fn mislead(&self, how: Misled) {
        self.lock().misled = how;
    }

    /// Sets whether the netmod keeps the memory of messages that it has sent, as for
    /// retransmission. When it stops, it releases all.
    pub fn keep_memory(&self, keeps: bool) {
        self.lock().keeps = keeps;
    }

    /// Takes how often each hook was called since the last time.
    pub fn hooks(&self) -> Hooks {
        std::mem::take(&mut self.lock().hooks)
    }

    /// VCs that are in the netmod's charge: initialized and not destroyed.
    pub fn in_charge(&self) -> usize {
        self.lock().in_charge
    }

    /// From now on the netmod takes no VC into its charge.
    pub fn refuse_vcs(&self) {
        self.lock().refuses = true;
    }

    /// From now on the netmod fails as a whole: each poll returns an error.
    pub fn break_down(&self) {
        self.lock().broken = true;
    }

    /// A peer dies when all it sent was delivered.
    pub fn die(&self, rank: u32) {
        self.lock().peers[rank as usize].acts.push_back(Act::Die);
    }

    /// A peer ends without a word: only who watches it learns of that.
    pub fn end(&self, rank: u32) {
        self.lock().peers[rank as usize].ended = true;
    }

    /// Takes the ranks that the device has had watched since the last time, in order. From now on
    /// it may have `room` more watched, if that is bounded.
    pub fn watched(&self, room: Option<usize>) -> Vec<u32> {
        let mut stage = self.lock();
        stage.watch_room = room;
        std::mem::take(&mut stage.watched)
    }

    /// A peer connects, after all it has done before; one that has died does so in a new
    /// incarnation.
    pub fn connect(&self, rank: u32) {
        let mut stage = self.lock();
        let peer = &mut stage.peers[rank as usize];
        peer.acts.push_back(Act::Connect);
        peer.down = false;
    }

    /// From now on the process manager answers questions for cards later: when it is told to.
    pub fn answer_cards(&self, now: bool) {
        let mut stage = self.lock();
        stage.asked.get_or_insert_default();
        stage.answers = now;
    }

    /// The process manager says that these ranks, and no others, have failed.
    pub fn tell_failed(&self, ranks: &[u32]) {
        self.lock().told = ranks.to_vec();
    }

    /// Sets whether barriers of the process manager end from now on.
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

    /// Returns true if the VC to a peer is down.
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
        // Handles the effects of the last bytes.
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
