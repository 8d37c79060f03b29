//! The program of one rank: begins the planned operations, and handles their completions.

use ch3_shim::{ANY_SOURCE, Comm, Device, Disconnecting, Error, Request};
use netmod_core::{Arm, VcErrorKind};

use crate::plan::{How, NEVER_TAG, Op, POKE_TAG};
use crate::world::{Fate, World, Wrong, wrong};
use netmod_harness::Rng;

/// Maximum number of operations begun per turn.
const BURST: u64 = 6;
/// Interval of turns in which the process computes after beginning operations, so that the helper
/// must send staged data.
const COMPUTES: u64 = 8;

/// Purpose of a request.
#[derive(Clone, Copy, Debug)]
enum What {
    Send { id: usize, given_up: bool },
    Receive { stream: usize, position: usize, given_up: bool },
    Never,
    Poke,
}

#[derive(Debug)]
struct Pending {
    req: Request,
    what: What,
}

/// Progress of a rank.
#[derive(Debug)]
enum Stage {
    Working,
    Disconnecting(Vec<Disconnecting>),
    /// Only the device's own work is left.
    Settling,
    Finalizing,
    Done,
}

/// One rank.
#[derive(Debug)]
pub(crate) struct Program {
    rank: u32,
    rng: Rng,
    /// The device; `None` after finalize or a crash.
    dev: Option<Device>,
    comms: Vec<Comm>,
    round: usize,
    next: usize,
    pending: Vec<Pending>,
    /// Receives that wait for a probe.
    probes: Vec<(usize, How)>,
    stage: Stage,
    /// Ranks that it has sent a test message to, because they may never have heard of it.
    poked: Vec<u32>,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There may be more to do at once.
    Busy,
    /// Nothing to do until something arrives.
    Idle,
}

impl Program {
    pub(crate) fn new(rank: u32, mut dev: Device, comms: usize, rng: Rng) -> Result<Program, Wrong> {
        let world = dev.world();
        let more: Result<Vec<Comm>, Error> = (1..comms).map(|_| dev.dup(world)).collect();
        let comms = std::iter::once(world).chain(more?).collect();
        Ok(Program {
            rank,
            rng,
            dev: Some(dev),
            comms,
            round: 0,
            next: 0,
            pending: Vec::new(),
            probes: Vec::new(),
            stage: Stage::Working,
            poked: Vec::new(),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// Kills the process, without notice to anybody.
    pub(crate) fn crash(&mut self) {
        self.dev = None;
        self.pending.clear();
        self.stage = Stage::Done;
    }

    /// Describes its current activity.
    pub(crate) fn describe(&self, world: &World) -> String {
        let what = |p: &Pending| match p.what {
            What::Send { id, given_up } => {
                format!("send {id}{} of {:?}", if given_up { " (given up)" } else { "" }, world.message(id))
            }
            What::Receive { stream, given_up, .. } => {
                format!("receive{} of {:?}", if given_up { " (given up)" } else { "" }, world.stream(stream))
            }
            other => format!("{other:?}"),
        };
        let whats: Vec<String> = self.pending.iter().take(12).map(what).collect();
        let mut out = format!(
            "rank {}: round {}, {:?}, {} requests: {}; probes {:?}",
            self.rank,
            self.round,
            self.stage,
            self.pending.len(),
            whats.join(", "),
            self.probes
        );
        if let Some(dev) = &self.dev {
            out += &format!(
                "; device: {} requests, {} posted, {} unexpected",
                dev.live_requests(),
                dev.posted_len(),
                dev.unexpected_len()
            );
            for v in dev.report() {
                out += &format!("\n    VC to {}: {}, {}", v.rank, v.state, v.netmod);
            }
        }
        out
    }

    /// Does everything that can be done now.
    pub(crate) fn turn(&mut self, world: &mut World) -> Result<Turn, Wrong> {
        let rank = self.rank;
        let before = world.activity;
        let moved = self.advance(world).map_err(|Wrong(text)| Wrong(format!("rank {rank}: {text}")))?;
        Ok(if moved || world.activity != before { Turn::Busy } else { Turn::Idle })
    }

    fn advance(&mut self, world: &mut World) -> Result<bool, Wrong> {
        let mut moved = false;
        if matches!(self.stage, Stage::Working) {
            self.begin(world)?;
            if let Some(dev) = &mut self.dev
                && self.rng.one_in(COMPUTES)
            {
                dev.flush();
                return Ok(true);
            }
        }
        if let Some(dev) = &mut self.dev
            && !matches!(self.stage, Stage::Finalizing)
        {
            moved = dev.progress()?;
        }
        self.probe(world)?;
        self.harvest(world)?;
        // A rank that has begun to finalize has nothing left to give up, and may not send.
        if world.giving_up && !matches!(self.stage, Stage::Finalizing) {
            self.give_up(world)?;
        }
        self.revoked(world);
        self.next_stage(world)?;
        // An event loop around the device's descriptor does the same before it waits.
        if let Some(dev) = &mut self.dev
            && matches!(self.stage, Stage::Finalizing)
        {
            moved |= dev.arm() == Arm::Busy;
        }
        let waits = matches!(self.stage, Stage::Working) && self.next < self.ops(world);
        Ok(moved || waits)
    }

    fn ops(&self, world: &World) -> usize {
        world.plan.rounds[self.rank as usize].get(self.round).map_or(0, |r| r.ops.len())
    }

    /// Begins the next operations of the round.
    fn begin(&mut self, world: &mut World) -> Result<(), Wrong> {
        for _ in 0..self.rng.range(1, BURST) {
            let rounds = &world.plan.rounds[self.rank as usize];
            let Some(op) = rounds.get(self.round).and_then(|r| r.ops.get(self.next)).copied() else { break };
            self.next += 1;
            world.activity += 1;
            match op {
                Op::Send(id) => self.send(world, id)?,
                Op::Receive(stream, How::Posted) => self.post(world, stream)?,
                Op::Receive(stream, how) => self.probes.push((stream, how)),
                Op::Never => self.never()?,
            }
        }
        Ok(())
    }

    fn send(&mut self, world: &mut World, id: usize) -> Result<(), Wrong> {
        let Some(dev) = &mut self.dev else { return Ok(()) };
        let m = world.message(id);
        let (to, cancel) = (m.to, m.cancel);
        let data = m.content(id);
        match dev.isend_mode(data.into(), to as i32, m.tag, self.comms[m.comm], m.mode) {
            Ok(req) => {
                if cancel {
                    dev.cancel(&req);
                }
                self.pending.push(Pending { req, what: What::Send { id, given_up: false } });
                Ok(())
            }
            Err(e) => self.send_failed(world, id, e.into()),
        }
    }

    fn send_failed(&mut self, world: &mut World, id: usize, e: Error) -> Result<(), Wrong> {
        let to = world.message(id).to;
        self.excused(world, to as i32, &e, || format!("send of message {id} to {to}"))?;
        world.sent(id, Fate::Failed)
    }

    /// Returns true if this peer may have caused a failure.
    fn excused(
        &self,
        world: &mut World,
        peer: i32,
        e: &Error,
        what: impl FnOnce() -> String,
    ) -> Result<(), Wrong> {
        world.failures += 1;
        world.activity += 1;
        if world.tainted_source(peer, self.rank) && !matches!(e, Error::Usage(_) | Error::Rank { .. }) {
            let protocol = matches!(e, Error::Peer(e) if e.kind() == VcErrorKind::Protocol);
            if !protocol {
                return Ok(());
            }
        }
        wrong(format!("{}: {e}", what()))
    }

    fn post(&mut self, world: &mut World, stream: usize) -> Result<(), Wrong> {
        let s = world.stream(stream);
        let (source, tag, comm, room) = (s.source, s.tag, self.comms[s.comm], s.room);
        self.receive(world, stream, source, tag, comm, room)
    }

    fn receive(
        &mut self,
        world: &mut World,
        stream: usize,
        source: i32,
        tag: i32,
        comm: Comm,
        room: usize,
    ) -> Result<(), Wrong> {
        let Some(dev) = &mut self.dev else { return Ok(()) };
        match dev.irecv(vec![0xee; room], source, tag, comm) {
            Ok(req) => {
                let what = What::Receive { stream, position: world.post(stream), given_up: false };
                self.pending.push(Pending { req, what });
                Ok(())
            }
            Err(e) => self.excused(world, source, &e.error, || format!("receive of stream {stream}")),
        }
    }

    fn never(&mut self) -> Result<(), Wrong> {
        let Some(dev) = &mut self.dev else { return Ok(()) };
        let req = dev.irecv(vec![0; 8], ANY_SOURCE, NEVER_TAG, self.comms[0])?;
        dev.cancel(&req);
        self.pending.push(Pending { req, what: What::Never });
        Ok(())
    }

    /// Probes for one or two of the messages that are probed.
    fn probe(&mut self, world: &mut World) -> Result<(), Wrong> {
        for _ in 0..self.probes.len().min(2) {
            let at = self.rng.index(self.probes.len());
            let (stream, how) = self.probes[at];
            let s = world.stream(stream);
            let (source, tag, comm, room) = (s.source, s.tag, self.comms[s.comm], s.room);
            let Some(dev) = &mut self.dev else { return Ok(()) };
            let found = match how {
                How::Matched => dev.improbe(source, tag, comm).map(|m| {
                    m.map(|m| {
                        let position = world.post(stream);
                        let req = dev.imrecv(vec![0xee; room], m);
                        let what = What::Receive { stream, position, given_up: false };
                        self.pending.push(Pending { req, what });
                    })
                }),
                How::Probed | How::Posted => match dev.iprobe(source, tag, comm) {
                    Ok(Some(s)) => {
                        self.receive(world, stream, s.source, s.tag, comm, room)?;
                        Ok(Some(()))
                    }
                    Ok(None) => Ok(None),
                    Err(e) => Err(e),
                },
            };
            match found {
                Ok(None) => {}
                Ok(Some(())) => {
                    self.probes.swap_remove(at);
                    world.activity += 1;
                }
                // It waits for the remaining ranks.
                Err(Error::PendingFailed { rank, .. }) if world.tainted(rank, self.rank) => {
                    if let Some(dev) = &mut self.dev {
                        dev.ack_failures();
                    }
                }
                Err(e) => {
                    self.excused(world, source, &e, || format!("probe for stream {stream}"))?;
                    self.probes.swap_remove(at);
                }
            }
        }
        Ok(())
    }

    /// Handles finished requests.
    fn harvest(&mut self, world: &mut World) -> Result<(), Wrong> {
        let mut i = 0;
        while i < self.pending.len() {
            let Some(dev) = &mut self.dev else { return Ok(()) };
            if !dev.is_finished(self.pending[i].req.raw()) {
                i += 1;
                continue;
            }
            let Pending { req, what } = self.pending.swap_remove(i);
            let done = dev.wait(req);
            world.activity += 1;
            match what {
                What::Send { id, given_up } => match done {
                    Ok(done) if done.status.cancelled => world.taken_back(id, given_up)?,
                    Ok(_) => world.sent(id, Fate::Sent)?,
                    Err(e) => self.send_failed(world, id, e.into())?,
                },
                What::Receive { stream, position, given_up } => match done.map_err(Error::from) {
                    Ok(done) if done.status.cancelled => {
                        if !given_up {
                            return wrong(format!("a receive of stream {stream} was cancelled by nobody"));
                        }
                    }
                    Ok(_) if world.is_revoked(stream) => {
                        return wrong(format!(
                            "a receive of stream {stream} got a message that had been taken back"
                        ));
                    }
                    Ok(done) => world.received(stream, position, &done.status, Some(&done.buffer))?,
                    Err(Error::Truncated { status, sent }) => {
                        let room = world.stream(stream).room;
                        if status.len != room || sent <= room as u64 {
                            return wrong(format!(
                                "a buffer of {room} bytes cut a message of {sent}: {status:?}"
                            ));
                        }
                        world.received(stream, position, &status, None)?;
                    }
                    Err(e) => {
                        let source = world.stream(stream).source;
                        self.excused(world, source, &e, || format!("receive of stream {stream}"))?;
                    }
                },
                What::Never => match done {
                    Ok(done) if done.status.cancelled => {}
                    other => return wrong(format!("a receive that nothing matches, cancelled: {other:?}")),
                },
                What::Poke => {}
            }
        }
        Ok(())
    }

    /// Cancels receives whose message was cancelled.
    fn revoked(&mut self, world: &World) {
        let Some(dev) = &mut self.dev else { return };
        for p in &mut self.pending {
            if let What::Receive { stream, given_up, .. } = &mut p.what
                && !*given_up
                && world.is_revoked(*stream)
            {
                *given_up = true;
                dev.cancel(&p.req);
            }
        }
    }

    /// Gives up what may never complete, when nothing else can happen.
    fn give_up(&mut self, world: &mut World) -> Result<(), Wrong> {
        let Some(dev) = &mut self.dev else { return Ok(()) };
        let rank = self.rank;
        self.probes.retain(|(stream, _)| {
            let source = world.plan.streams[*stream].source;
            source != ANY_SOURCE && !world.tainted_source(source, rank)
        });
        for p in &mut self.pending {
            // A send to a receive that was given up will not be matched either.
            let (given_up, doubtful) = match &mut p.what {
                What::Receive { stream, given_up, .. } => {
                    let source = world.plan.streams[*stream].source;
                    let never = match u32::try_from(source) {
                        Ok(source) => world.is_late(source, rank),
                        // Even without a loss here: a sender may have given up.
                        Err(_) => true,
                    };
                    (given_up, never)
                }
                What::Send { id, given_up } => {
                    let m = &world.plan.messages[*id];
                    let any = world.plan.streams[m.stream].source == ANY_SOURCE;
                    (given_up, any || world.is_late(m.to, rank))
                }
                What::Never | What::Poke => continue,
            };
            if doubtful && !std::mem::replace(given_up, true) {
                dev.cancel(&p.req);
            }
        }
        // A message between two ranks may have been lost before one knew of the other. The process
        // manager reports dead ranks.
        let doubtful = |r: &u32| {
            let (r, crashed) = (*r, &world.crashed[*r as usize]);
            !crashed && world.tainted(r, rank) && !self.poked.contains(&r)
        };
        let doubtful: Vec<u32> = (0..world.plan.ranks).filter(doubtful).collect();
        self.poked.extend(&doubtful);
        for to in doubtful {
            world.activity += 1;
            if let Ok(req) = dev.isend(vec![0; 4], to as i32, POKE_TAG, self.comms[0]) {
                self.pending.push(Pending { req, what: What::Poke });
            }
        }
        Ok(())
    }

    fn next_stage(&mut self, world: &mut World) -> Result<(), Wrong> {
        let rounds = world.plan.rounds[self.rank as usize].len();
        match &mut self.stage {
            Stage::Working => {
                if self.next < self.ops(world) || !self.pending.is_empty() || !self.probes.is_empty() {
                    return Ok(());
                }
                world.activity += 1;
                let Some(round) = world.plan.rounds[self.rank as usize].get(self.round) else {
                    self.stage = Stage::Settling;
                    return Ok(());
                };
                let Some(dev) = &mut self.dev else { return Ok(()) };
                let closing = round.disconnect.iter().map(|peer| dev.disconnect_begin(*peer)).collect();
                self.stage = Stage::Disconnecting(closing);
                Ok(())
            }
            Stage::Disconnecting(closing) => {
                let Some(dev) = &mut self.dev else { return Ok(()) };
                let mut left = Vec::new();
                for d in std::mem::take(closing) {
                    match dev.disconnect_poll(&d) {
                        Ok(true) => world.activity += 1,
                        // The peer may not know of the connection, if its messages were lost.
                        Ok(false) if world.giving_up => {
                            world.activity += 1;
                            world.late(self.rank, d.rank());
                        }
                        Ok(false) => left.push(d),
                        // The peer may wait for a lost rank, and come too late.
                        Err(_) if world.plan.fault_kind.is_lossy() => {
                            world.activity += 1;
                            world.late(self.rank, d.rank());
                        }
                        Err(e) => return wrong(format!("disconnect: {e}")),
                    }
                }
                *closing = left;
                if closing.is_empty() {
                    self.round += 1;
                    self.next = 0;
                    self.stage = if self.round < rounds { Stage::Working } else { Stage::Settling };
                }
                Ok(())
            }
            Stage::Settling => {
                let Some(dev) = &mut self.dev else { return Ok(()) };
                if dev.live_requests() > 0 {
                    return Ok(());
                }
                world.activity += 1;
                let left = (dev.unexpected_len(), dev.posted_len(), dev.stats().unexpected_bytes);
                if !world.plan.fault_kind.is_lossy() && left != (0, 0, 0) {
                    return wrong(format!(
                        "{} messages, {} receives and {} bytes of unexpected messages are left over",
                        left.0, left.1, left.2
                    ));
                }
                if self.rng.one_in(2) {
                    dev.ack_failures();
                }
                dev.finalize_begin();
                world.finalizes(self.rank);
                self.stage = Stage::Finalizing;
                Ok(())
            }
            Stage::Finalizing => {
                let Some(dev) = &mut self.dev else { return Ok(()) };
                let over = match dev.finalize_poll() {
                    // It may learn of a failure at the very end.
                    Err(Error::ProcessesFailed(who))
                        if who.iter().all(|f| world.may_be_named(f.peer.rank, self.rank)) =>
                    {
                        Ok(true)
                    }
                    other => other,
                };
                match over {
                    Ok(false) => {}
                    Ok(true) => {
                        world.activity += 1;
                        if dev.live_requests() > 0 {
                            return wrong(format!("{} requests outlive finalize", dev.live_requests()));
                        }
                        self.dev = None;
                        self.stage = Stage::Done;
                    }
                    Err(e) => return wrong(format!("finalize: {e}")),
                }
                Ok(())
            }
            Stage::Done => Ok(()),
        }
    }
}
