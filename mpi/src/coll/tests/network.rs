//! A network in one thread: messages between processes in order, sent at once or when they match.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use netmod_core::{RxBytes, Segment};

use super::Process;
use crate::coll::{Active, Advance, Lane, Memory, NodeMemory, Reducer, Wire};
use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};
use ch3_shim::shared_memory::SharedMemory;

enum Payload {
    /// Copied when it was sent.
    Eager(Vec<u8>),
    /// Read when it matches.
    Lent(Segment),
}

#[derive(Default)]
struct Channel {
    sends: VecDeque<(usize, Payload)>,
    recvs: VecDeque<(usize, Segment)>,
}

pub struct Network {
    what: String,
    n: usize,
    /// Processes of the first of two groups; 0 if there is one.
    first: usize,
    channels: BTreeMap<(usize, usize), Channel>,
    /// The bytes of each request that is over.
    over: Vec<Option<Result<usize>>>,
    /// The process of each request.
    owners: Vec<usize>,
    /// True if messages may have other lengths than their receivers expect.
    mismatched: bool,
    dice: u64,
    /// Runs of the same operation after each other, in shared memory; 0 if by messages.
    rounds: usize,
}

struct Port<'a> {
    net: &'a mut Network,
    me: usize,
    is_drowsy: bool,
    stays_awake: bool,
}

impl Network {
    pub fn new(what: &str, n: usize) -> Network {
        let dice = 0x2545_f491_4f6c_dd1d ^ (n as u64) << 7 ^ what.len() as u64;
        Network {
            what: what.into(),
            n,
            first: 0,
            channels: BTreeMap::new(),
            over: Vec::new(),
            owners: Vec::new(),
            mismatched: false,
            dice,
            rounds: 0,
        }
    }

    /// Lets the processes share memory, in which they run the operation so many times.
    pub fn in_memory(mut self, rounds: usize) -> Network {
        self.rounds = rounds;
        self
    }

    /// Makes it the network of two groups, the first of `n` processes. Each numbers its own first.
    pub fn of_groups(mut self, n: usize) -> Network {
        self.first = n;
        self
    }

    /// Lets processes send other lengths than are expected.
    pub fn of_mismatched(mut self) -> Network {
        self.mismatched = true;
        self
    }

    /// Returns the process that another one calls `rank`.
    fn process(&self, me: usize, rank: u32) -> usize {
        let (rank, first) = (rank as usize, self.first);
        if me < first || first == 0 { rank } else { (rank + first) % self.n }
    }

    fn roll(&mut self, n: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 20) as usize % n
    }

    fn request(&mut self, me: usize) -> usize {
        self.owners.push(me);
        self.over.push(None);
        self.over.len() - 1
    }

    fn match_up(&mut self, from: usize, to: usize) {
        let channel = self.channels.entry((from, to)).or_default();
        while !channel.sends.is_empty() && !channel.recvs.is_empty() {
            let (Some((send, payload)), Some((recv, mut room))) =
                (channel.sends.pop_front(), channel.recvs.pop_front())
            else {
                return;
            };
            let data = match payload {
                Payload::Eager(data) => data,
                Payload::Lent(mut seg) => {
                    let mut data = Vec::new();
                    seg.pack_vec(usize::MAX, &mut data);
                    data
                }
            };
            let fits = data.len().min(room.total());
            assert!(
                self.mismatched || data.len() == room.total(),
                "{}: bytes from {from} to {to}: {} for {}",
                self.what,
                data.len(),
                room.total()
            );
            room.unpack(RxBytes::from_slice(&data[..fits]));
            let too_long = data.len() > fits;
            self.over[send] = Some(Ok(data.len()));
            self.over[recv] =
                Some(if too_long { Err(MpiError::new(Class::TRUNCATE, "too long")) } else { Ok(fits) });
        }
    }

    /// Runs all processes, and compares their buffers with what is wanted.
    pub fn run(mut self, types: &[Arc<TypeDesc>], reducer: &Reducer, all: Vec<Process>) {
        let memories = self.memories();
        for round in 0..self.rounds.max(1) {
            let mut memory: Vec<Spread> = Vec::new();
            let mut runs = Vec::new();
            let mut wants = Vec::new();
            for (me, p) in all.iter().enumerate() {
                let mut send = Spread::new(&types[1], &p.send);
                let mut recv = Spread::new(&types[2], &p.recv);
                let (s, r) = (send.origin(), recv.origin());
                // SAFETY: the buffers are as long as the packed data of the test says, live until
                // the runs are over, and are not touched before.
                let mem = unsafe { Memory::new(s, r, types.to_vec(), &p.schedule.rooms) }.unwrap();
                let mut active = Active::new(p.schedule.clone(), mem, reducer.clone());
                if let Some(node) = memories.get(me) {
                    active.use_node(node, node.begin(Lane::BLOCKING, true));
                }
                runs.push(active);
                wants.push((send.memory.clone(), recv.with(&p.want)));
                memory.extend([send, recv]);
            }
            let what = format!("{}, round {round}", self.what);
            let failed = self.drive_all(runs);
            assert!(failed.iter().all(Option::is_none), "{what}: {failed:?}");
            for (me, (send, recv)) in wants.into_iter().enumerate() {
                assert!(memory[2 * me].memory == send, "{what}: process {me}'s send buffer was changed");
                let got = &memory[2 * me + 1].memory;
                let differs = || got.iter().zip(&recv).position(|(a, b)| a != b);
                assert!(*got == recv, "{what}: process {me}'s result is wrong at byte {:?}", differs());
            }
        }
    }

    /// Makes the memory that the processes share, as each of them sees it.
    pub fn memories(&self) -> Vec<Arc<NodeMemory>> {
        if self.rounds == 0 {
            return Vec::new();
        }
        let made = SharedMemory::create(NodeMemory::bytes(self.n)).unwrap();
        let ticket = made.ticket().unwrap();
        let open = |me| SharedMemory::open(&ticket, NodeMemory::bytes(self.n)).map(|m| (me, m)).unwrap();
        let opened: Vec<_> = (0..self.n).map(open).collect();
        opened.into_iter().map(|(me, m)| Arc::new(NodeMemory::new(m, (me, self.n), true))).collect()
    }

    /// Runs all processes, none of which fails.
    pub fn succeed(self, runs: Vec<Active<usize>>) {
        let what = self.what.clone();
        let failed = self.drive(runs);
        assert!(failed.iter().all(Option::is_none), "{what}: {failed:?}");
    }

    /// Runs all processes in a random order until they are over. Returns the failure of each.
    pub fn drive(mut self, runs: Vec<Active<usize>>) -> Vec<Option<Box<MpiError>>> {
        self.drive_all(runs)
    }

    fn drive_all(&mut self, runs: Vec<Active<usize>>) -> Vec<Option<Box<MpiError>>> {
        let mut runs: Vec<Option<Active<usize>>> = runs.into_iter().map(Some).collect();
        let mut failed = vec![None; runs.len()];
        let mut asleep = vec![None; runs.len()];
        let mut idle = 0;
        while runs.iter().any(Option::is_some) {
            let me = self.roll(self.n);
            let Some(active) = &mut runs[me] else { continue };
            let before = self.over.len();
            // A process that sleeps goes on when a message has ended the sleep.
            let is_over = |req: &usize| self.over[*req].is_some();
            if asleep[me].as_ref().is_some_and(|reqs: &Vec<usize>| !reqs.iter().any(is_over)) {
                idle += 1;
                assert!(idle < 400 * self.n + 4000, "{}: process {me} sleeps for ever", self.what);
                continue;
            }
            asleep[me] = None;
            let is_drowsy = self.roll(3) == 0;
            let mut port = Port { net: self, me, is_drowsy, stays_awake: false };
            let advanced = active.advance(&mut port);
            let sleeps = is_drowsy && !port.stays_awake;
            match advanced {
                Advance::Blocked => {
                    if sleeps {
                        let own = |r: &usize| self.over[*r].is_none() && self.owners[*r] == me;
                        asleep[me] = Some((0..self.over.len()).filter(own).collect());
                    }
                    idle = if self.over.len() == before { idle + 1 } else { 0 };
                    assert!(idle < 400 * self.n + 4000, "{}: process {me} waits for ever", self.what);
                }
                Advance::UserOp(work) => {
                    work.run();
                    active.resume();
                }
                over @ (Advance::Done | Advance::Failed(_)) => {
                    if let Advance::Failed(e) = over {
                        failed[me] = Some(e);
                    }
                    runs[me] = None;
                    idle = 0;
                }
            }
        }
        for (at, channel) in &self.channels {
            assert!(channel.sends.is_empty() && channel.recvs.is_empty(), "{}: left over {at:?}", self.what);
        }
        failed
    }
}

impl Wire for Port<'_> {
    type Req = usize;

    fn send(&mut self, to: u32, mut data: Segment) -> Result<usize> {
        let req = self.net.request(self.me);
        let payload = if self.net.roll(2) == 0 {
            let mut copy = Vec::new();
            data.pack_vec(usize::MAX, &mut copy);
            self.net.over[req] = Some(Ok(copy.len()));
            Payload::Eager(copy)
        } else {
            Payload::Lent(data)
        };
        let (from, to) = (self.me, self.net.process(self.me, to));
        assert!(to < self.net.n && to != from, "{}: {from} sends to {to}", self.net.what);
        self.net.channels.entry((from, to)).or_default().sends.push_back((req, payload));
        self.net.match_up(from, to);
        Ok(req)
    }

    fn recv(&mut self, from: u32, room: Segment) -> Result<usize> {
        let req = self.net.request(self.me);
        let from = self.net.process(self.me, from);
        assert!(from < self.net.n && from != self.me, "{}: {} receives from {from}", self.net.what, self.me);
        self.net.channels.entry((from, self.me)).or_default().recvs.push_back((req, room));
        self.net.match_up(from, self.me);
        Ok(req)
    }

    fn take(&mut self, req: usize) -> Option<Result<usize>> {
        self.net.over[req].clone()
    }

    fn await_wake(&mut self, _lane: Lane, from: u32) -> Result<usize> {
        self.recv(from, Segment::empty())
    }

    fn wake(&mut self, _lane: Lane, to: u32) -> Result<usize> {
        self.send(to, Segment::empty())
    }

    fn withdraw(&mut self, req: usize) {
        self.net.channels.values_mut().for_each(|c| c.recvs.retain(|(r, _)| *r != req));
    }

    fn shares_cores(&self) -> bool {
        self.me % 2 == 1
    }

    fn is_going_to_sleep(&self) -> bool {
        self.is_drowsy
    }

    fn stay_awake(&mut self) {
        self.stays_awake = true;
    }

    fn given_up(&self) -> Option<Box<MpiError>> {
        None
    }
}

/// A buffer in memory, made of packed data.
struct Spread {
    desc: Arc<TypeDesc>,
    memory: Vec<u8>,
    /// Bytes before the first element's address.
    before: usize,
    count: usize,
}

impl Spread {
    fn new(desc: &Arc<TypeDesc>, packed: &[u8]) -> Spread {
        let count = packed.len() / desc.size();
        let span = desc.layout.span(count).unwrap();
        // Some room before and behind, which must not change.
        let before = 32 + (-span.start).max(0) as usize;
        let memory = vec![0x5a; before + span.end.max(0) as usize + 32];
        let mut all = Spread { desc: Arc::clone(desc), memory, before, count };
        all.fill(packed);
        all
    }

    fn origin(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(self.before)
    }

    fn fill(&mut self, packed: &[u8]) {
        let origin = self.origin();
        // SAFETY: the memory has the span of so many elements.
        let mut seg = unsafe { Segment::typed(origin, &self.desc.layout, self.count) };
        seg.unpack(RxBytes::from_slice(packed));
    }

    /// The memory with other data.
    fn with(&self, packed: &[u8]) -> Vec<u8> {
        let mut other = Spread { desc: Arc::clone(&self.desc), memory: self.memory.clone(), ..*self };
        other.fill(packed);
        other.memory
    }
}
