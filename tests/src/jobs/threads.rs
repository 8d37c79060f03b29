//! Cases in which several threads of each rank use the device at once, each byte checked.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use ch3_shim::{ANY_SOURCE, ANY_TAG, Comm, Completion, Device, Failed, Multiple, PROC_NULL, SharedRequest};

use super::pattern::{self, Random, seed};
use super::{Args, End, Result};

/// A case with a device that all threads use.
#[derive(Clone, Copy, Debug)]
pub struct SharedCase {
    /// Its name.
    pub name: &'static str,
    /// Its arguments with their defaults, and what it is.
    pub help: &'static str,
    /// Function of the case.
    pub body: fn(&Device<Multiple>, &Args) -> Result<End>,
}

/// All such cases.
pub const SHARED_CASES: &[SharedCase] = &[SharedCase {
    name: "threads",
    help: "[THREADS=8] [ROUNDS=40] [SEED=1]: every thread with every rank, in every way",
    body: |dev, args| {
        mixed(dev, args.get(0, 8) as usize, args.get(1, 40), args.get(2, 1))?;
        Ok(End::Finalize)
    },
}];

/// Messages of each thread to each rank in [`one_pot`].
const POT: u64 = 20;

/// Runs `body` in so many threads; the first error of any.
fn in_threads(threads: usize, body: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|s| {
        let all: Vec<_> = (0..threads)
            .map(|t| {
                (
                    t,
                    s.spawn({
                        let body = &body;
                        move || body(t)
                    }),
                )
            })
            .collect();
        let ended = all.into_iter().map(|(t, h)| match h.join() {
            Ok(result) => result.map_err(|e| format!("thread {t}: {e}").into()),
            Err(_) => Err(format!("thread {t} has panicked").into()),
        });
        ended.collect::<Vec<Result<()>>>().into_iter().collect()
    })
}

/// Threads of all ranks exchange messages in all ways that there are.
///
/// # Errors
/// What was wrong with which message.
pub fn mixed(dev: &Device<Multiple>, threads: usize, rounds: u64, first: u64) -> Result<()> {
    let world = dev.world();
    let comms = [world, dev.dup(world)?, dev.dup(world)?, dev.dup(world)?];
    in_threads(threads, |t| {
        let me = Thread { dev, comms: &comms[..3], t: t as u64, threads: threads as u64, first };
        (0..rounds).try_for_each(|r| me.round(r).map_err(|e| format!("round {r}: {e}").into()))
    })?;
    dev.barrier(world)?;
    one_pot(dev, threads, comms[3], first)?;
    dev.barrier(comms[3])?;
    match (dev.live_requests(), dev.posted_len(), dev.unexpected_len()) {
        (_, 0, 0) => Ok(()),
        left => Err(format!("left: {left:?} requests, posted receives, unexpected messages").into()),
    }
}

/// One thread of one rank.
struct Thread<'a> {
    dev: &'a Device<Multiple>,
    comms: &'a [Comm],
    t: u64,
    threads: u64,
    first: u64,
}

impl Thread<'_> {
    /// The seed of what rank `from` sends to rank `to`, and its length.
    fn message(&self, from: i32, to: i32, r: u64) -> (u64, usize) {
        let s = seed(&[self.first, from as u64, to as u64, self.t, r]);
        let mut random = Random::new(s);
        // In the header, eager, rendezvous.
        let longest = [17, 3000, 200_000][random.below(20).saturating_sub(17)];
        (s, random.below(longest))
    }

    fn bytes(&self, to: i32, r: u64) -> Vec<u8> {
        let (s, len) = self.message(self.dev.rank() as i32, to, r);
        pattern::bytes(s, len)
    }

    /// Checks that the message came from `source` in round `r`.
    fn check(&self, done: &Completion, source: i32, tag: i32, r: u64) -> Result<()> {
        let st = done.status;
        let (s, len) = self.message(source, self.dev.rank() as i32, r);
        if (st.source, st.tag, st.len) != (source, tag, len) {
            return Err(format!("wrong envelope {st:?}, not {len} bytes from {source} with {tag}").into());
        }
        pattern::check(s, &done.buffer[..len])
    }

    /// One exchange with each rank, this one included.
    fn round(&self, r: u64) -> Result<()> {
        let (dev, comm) = (self.dev, self.comm(self.t));
        let (me, n) = (dev.rank() as i32, dev.size() as i32);
        // A tag of its own for each thread and round.
        let tag = (self.t * 100_000 + r) as i32;
        let room = || vec![0; 200_000];
        let send_all = || {
            (0..n)
                .map(|to| dev.isend(self.bytes(to, r), to, tag, comm))
                .collect::<std::result::Result<Vec<_>, Box<Failed>>>()
        };
        match r % 6 {
            // Borrowed buffers, rank by rank.
            0 => {
                for step in 0..n {
                    let (to, from) = ((me + step) % n, (me + n - step) % n);
                    let mut buffer = room();
                    let status = dev.sendrecv(&self.bytes(to, r), to, tag, &mut buffer, from, tag, comm)?;
                    self.check(&Completion { status, buffer }, from, tag, r)?;
                }
            }
            // Everything at once.
            1 => {
                let recvs: std::result::Result<Vec<SharedRequest>, Box<Failed>> =
                    (0..n).map(|from| dev.irecv(room(), from, tag, comm)).collect();
                let sends = send_all()?;
                for (from, done) in dev.wait_all(recvs?)?.iter().enumerate() {
                    self.check(done, from as i32, tag, r)?;
                }
                dev.wait_all(sends)?;
            }
            // Matched probes.
            2 => {
                let sends = send_all()?;
                for from in 0..n {
                    let msg = dev.mprobe(from, tag, comm)?;
                    let done = dev.wait(dev.imrecv(vec![0; msg.status().len], msg))?;
                    self.check(&done, from, tag, r)?;
                }
                dev.wait_all(sends)?;
            }
            // Any source, and any of the requests.
            3 => {
                let recvs: std::result::Result<Vec<SharedRequest>, Box<Failed>> =
                    (0..n).map(|_| dev.irecv(room(), ANY_SOURCE, tag, comm)).collect();
                let mut open = send_all()?;
                open.extend(recvs?);
                let mut from = HashSet::new();
                while let Some((_, done)) = dev.wait_any(&mut open)? {
                    if !done.buffer.is_empty() {
                        from.insert(done.status.source);
                        self.check(&done, done.status.source, tag, r)?;
                    }
                }
                if from.len() != n as usize {
                    return Err(format!("one message each from {from:?}").into());
                }
            }
            // Tests instead of waits.
            4 => {
                let sends = send_all()?;
                for from in 0..n {
                    let mut req = dev.irecv(room(), from, tag, comm)?;
                    let done = loop {
                        req = match dev.test(req)? {
                            Ok(done) => break done,
                            Err(req) => req,
                        };
                        thread::yield_now();
                    };
                    self.check(&done, from, tag, r)?;
                }
                dev.wait_all(sends)?;
            }
            // To the next thread of this rank; a probe, then a receive that nobody else can match.
            _ => {
                let next = (self.t + 1) % self.threads;
                let tag_there = (next * 100_000 + r) as i32;
                let send = dev.isend(self.bytes(me, r), me, tag_there, self.comm(next))?;
                let len = dev.probe(me, tag, comm)?.len;
                let mut buffer = vec![0; len];
                dev.recv(&mut buffer, me, tag, comm)?;
                let before = Thread { t: (self.t + self.threads - 1) % self.threads, ..*self };
                pattern::check(before.message(me, me, r).0, &buffer)?;
                dev.wait(send)?;
                dev.send(&[], PROC_NULL, 0, comm)?;
            }
        }
        Ok(())
    }

    /// The communicator of a thread.
    fn comm(&self, t: u64) -> Comm {
        self.comms[t as usize % self.comms.len()]
    }
}

/// All threads send to all ranks, and all take what comes first: each message arrives once.
fn one_pot(dev: &Device<Multiple>, threads: usize, comm: Comm, first: u64) -> Result<()> {
    let (me, n) = (dev.rank() as i32, dev.size() as i32);
    let content = |from: i32, to: i32, tag: i32| seed(&[first, 7, from as u64, to as u64, tag as u64]);
    let got = Mutex::new(HashSet::new());
    in_threads(threads, |t| {
        let mut sends = Vec::new();
        for i in 0..POT {
            let tag = (t as u64 * POT + i) as i32;
            for to in 0..n {
                sends.push(dev.isend(pattern::bytes(content(me, to, tag), 24), to, tag, comm)?);
            }
        }
        for _ in 0..POT * n as u64 {
            let done = dev.wait(dev.irecv(vec![0; 24], ANY_SOURCE, ANY_TAG, comm)?)?;
            pattern::check(content(done.status.source, me, done.status.tag), &done.buffer)?;
            let new = got.lock().map_err(|e| e.to_string())?.insert((done.status.source, done.status.tag));
            if !new {
                return Err(format!("twice: {:?}", done.status).into());
            }
        }
        dev.wait_all(sends)?;
        Ok(())
    })
}
