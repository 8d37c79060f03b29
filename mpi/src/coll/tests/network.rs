//! A network in one thread: messages between processes in order, sent at once or when they match.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use netmod_core::{RxBytes, Segment};

use super::Process;
use crate::coll::{Active, Advance, Memory, Reducer, Wire};
use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};

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
    /// True if messages may have other lengths than their receivers expect.
    mismatched: bool,
    dice: u64,
}

struct Port<'a> {
    net: &'a mut Network,
    me: usize,
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
            mismatched: false,
            dice,
        }
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

    fn request(&mut self) -> usize {
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
    pub fn run(self, types: &[Arc<TypeDesc>], reducer: &Reducer, all: Vec<Process>) {
        let mut memory: Vec<Spread> = Vec::new();
        let mut runs = Vec::new();
        let mut wants = Vec::new();
        for p in &all {
            let mut send = Spread::new(&types[1], &p.send);
            let mut recv = Spread::new(&types[2], &p.recv);
            let (s, r) = (send.origin(), recv.origin());
            // SAFETY: the buffers are as long as the packed data of the test says, live until the
            // runs are over, and are not touched before.
            let mem = unsafe { Memory::new(s, r, types.to_vec(), &p.schedule.rooms) }.unwrap();
            runs.push(Active::new(Arc::new(p.schedule.clone()), mem, reducer.clone()));
            wants.push((send.memory.clone(), recv.with(&p.want)));
            memory.extend([send, recv]);
        }
        let what = self.what.clone();
        self.succeed(runs);
        for (me, (send, recv)) in wants.into_iter().enumerate() {
            assert!(memory[2 * me].memory == send, "{}: process {me}'s send buffer was changed", what);
            let got = &memory[2 * me + 1].memory;
            let differs = || got.iter().zip(&recv).position(|(a, b)| a != b);
            assert!(*got == recv, "{what}: process {me}'s result is wrong at byte {:?}", differs());
        }
    }

    /// Runs all processes, none of which fails.
    pub fn succeed(self, runs: Vec<Active<usize>>) {
        let what = self.what.clone();
        let failed = self.drive(runs);
        assert!(failed.iter().all(Option::is_none), "{what}: {failed:?}");
    }

    /// Runs all processes in a random order until they are over. Returns the failure of each.
    pub fn drive(mut self, runs: Vec<Active<usize>>) -> Vec<Option<Box<MpiError>>> {
        let mut runs: Vec<Option<Active<usize>>> = runs.into_iter().map(Some).collect();
        let mut failed = vec![None; runs.len()];
        let mut idle = 0;
        while runs.iter().any(Option::is_some) {
            let me = self.roll(self.n);
            let Some(active) = &mut runs[me] else { continue };
            let before = self.over.len();
            match active.advance(&mut Port { net: &mut self, me }) {
                Advance::Blocked => {
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
        let req = self.net.request();
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
        let req = self.net.request();
        let from = self.net.process(self.me, from);
        assert!(from < self.net.n && from != self.me, "{}: {} receives from {from}", self.net.what, self.me);
        self.net.channels.entry((from, self.me)).or_default().recvs.push_back((req, room));
        self.net.match_up(from, self.me);
        Ok(req)
    }

    fn take(&mut self, req: usize) -> Option<Result<usize>> {
        self.net.over[req].clone()
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
