//! Random traffic from a seed: every rank knows what every other sends, and checks that it gets
//! that.
//!
//! Each round of a rank is: start everything that does not wait (sends, receives, cancels) in a
//! random order, then do what waits (probes, the fate of cancelled sends), then wait for the rest.
//! As nobody waits before all its own is started, no order can deadlock.

use std::collections::HashMap;
use std::sync::Arc;

use ch3_shim::{ANY_SOURCE, ANY_TAG, Comm, Device, Mode, RawReq, Request, Status};
use netmod_core::{Datatype, RxBytes, Segment};

use super::basic::{context, place};
use super::pattern::{self, Random, seed};
use super::{Args, End, Result};
use crate::sys::Area;

/// Tags of one round; each has its own block of [`ROUND`].
const ROUND: i32 = 64;
/// Exact receives on several tags.
const EXACT: i32 = 0;
const EXACT_TAGS: i32 = 4;
/// Receives with any source.
const WILD: i32 = 8;
/// Probed before they are received.
const PROBED: i32 = 9;
/// Matched probes.
const MPROBED: i32 = 10;
/// Cancelled by the sender; the fate follows with its own tag.
const CANCELLED: i32 = 16;
const FATE: i32 = 17;
/// Nobody sends with it.
const NEVER: i32 = 18;

const GAP: u8 = 0xE5;
/// Sizes around the limits of short, eager and rendezvous messages, and a few others.
const SIZES: [usize; 16] =
    [0, 1, 15, 16, 17, 100, 1000, 4096, 4097, 20_000, 70_000, 131_072, 131_073, 200_000, 500_001, 1 << 20];

/// Way in which the receiver gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Exact,
    Wild,
    Probed,
    Matched,
    /// The sender cancels it; the flag: a receive waits for it.
    Cancelled(bool),
}

/// One message of the plan.
#[derive(Clone, Debug)]
struct Planned {
    id: u64,
    from: i32,
    to: i32,
    tag: i32,
    len: usize,
    mode: Mode,
    how: How,
    /// Scattered in memory at the sender, at the receiver.
    pieces: (bool, bool),
}

impl Planned {
    fn seed(&self, run: u64) -> u64 {
        seed(&[run, self.id])
    }

    fn check(&self, run: u64, status: &Status, data: &[u8]) -> Result<()> {
        let is = (status.source, status.tag, status.len);
        if is != (self.from, self.tag, self.len) {
            return Err(format!("{self:?}: wrong envelope {status:?}").into());
        }
        context(pattern::check(self.seed(run), &data[..self.len]), || format!("{self:?}"))
    }
}

/// Messages of all ranks in a round.
fn plan(run: u64, round: u64, n: i32, each: usize) -> Vec<Planned> {
    let mut all = Vec::new();
    for from in 0..n {
        let mut dice = Random::new(seed(&[run, round, from as u64]));
        for i in 0..each {
            let how = match dice.below(12) {
                0 => How::Wild,
                1 => How::Probed,
                2 => How::Matched,
                3 => How::Cancelled(false),
                4 => How::Cancelled(true),
                _ => How::Exact,
            };
            let tag = match how {
                How::Exact => EXACT + dice.below(EXACT_TAGS as usize) as i32,
                How::Wild => WILD,
                How::Probed => PROBED,
                How::Matched => MPROBED,
                How::Cancelled(_) => CANCELLED,
            };
            // Large ones are rarer, so that a round takes no longer than a moment.
            let most = if dice.below(4) == 0 { SIZES.len() } else { SIZES.len() - 4 };
            let len = SIZES[dice.below(most)] + dice.below(3).min(1) * dice.below(9);
            let len = len.min(1 << 20);
            let mode = if dice.below(3) == 0 { Mode::Sync } else { Mode::Standard };
            all.push(Planned {
                id: (round * n as u64 + from as u64) * each as u64 + i as u64,
                from,
                to: dice.below(n as usize) as i32,
                tag: round as i32 * ROUND + tag,
                len,
                mode,
                how,
                pieces: (dice.below(3) == 0, dice.below(3) == 0),
            });
        }
    }
    // At most one cancelled message for a pair of ranks, so that a fate belongs to one.
    let mut pairs = HashMap::new();
    all.retain(|m| {
        !matches!(m.how, How::Cancelled(_)) || (m.from != m.to && pairs.insert((m.from, m.to), ()).is_none())
    });
    all
}

/// Bytes in blocks of 24 every 40, and the rest in one piece behind them.
fn layout(len: usize) -> Result<Arc<Datatype>> {
    let block = Datatype::contiguous(24)?;
    let blocks = (len / 24).min(2000);
    let rows = Datatype::vector(blocks, 1, 40, &block)?;
    let rest = Datatype::contiguous(len - 24 * blocks)?;
    Ok(Datatype::structure(&[(0, 1, rows), (40 * blocks as i64 + 5, 1, rest)])?)
}

/// Memory for messages in pieces, used again and again: it is never freed.
#[derive(Default)]
struct Areas(Vec<Area>);

impl Areas {
    fn take(&mut self) -> Area {
        let mut area = self.0.pop().unwrap_or_else(|| Area::new(vec![GAP; (1 << 20) + 16 * 2000 + 64]));
        area.fill(GAP);
        area
    }
}

fn scatter(area: &Area, ty: &Arc<Datatype>, data: &[u8]) -> Result<()> {
    let mut seg: Segment = area.typed(0, ty, 1);
    if seg.unpack(RxBytes::from_slice(data)) == data.len() {
        Ok(())
    } else {
        Err("a layout is too small".into())
    }
}

/// The data of an area with a layout.
///
/// # Errors
/// If anything outside the layout was written.
fn gather(areas: &mut Areas, area: &Area, ty: &Arc<Datatype>) -> Result<Vec<u8>> {
    let mut data = vec![0; ty.size()];
    area.typed(0, ty, 1).pack(&mut data);
    let reference = areas.take();
    scatter(&reference, ty, &data)?;
    let same = reference.bytes() == area.bytes();
    areas.0.push(reference);
    if same { Ok(data) } else { Err("bytes were written outside the receive's layout".into()) }
}

enum Receive {
    Owned(Request),
    Pieces(RawReq, Area, Arc<Datatype>),
}

enum Send {
    Owned(Request),
    Pieces(RawReq, Area),
}

struct Rank<'a> {
    dev: &'a mut Device,
    world: Comm,
    run: u64,
    areas: Areas,
    /// Messages and bytes, sent and received.
    totals: [u64; 4],
}

impl Rank<'_> {
    fn send(&mut self, m: &Planned) -> Result<Send> {
        let data = pattern::bytes(m.seed(self.run), m.len);
        if !m.pieces.0 {
            return Ok(Send::Owned(self.dev.isend_mode(data.into(), m.to, m.tag, self.world, m.mode)?));
        }
        let (area, ty) = (self.areas.take(), layout(m.len)?);
        scatter(&area, &ty, &data)?;
        let req = self.dev.isend_raw(area.typed(0, &ty, 1), m.to, m.tag, self.world, m.mode)?;
        Ok(Send::Pieces(req, area))
    }

    fn sent(&mut self, send: Send) -> Result<Status> {
        match send {
            Send::Owned(r) => Ok(self.dev.wait(r)?.status),
            Send::Pieces(r, area) => {
                let status = self.dev.wait_raw(r)?;
                self.areas.0.push(area);
                Ok(status)
            }
        }
    }

    fn cancel_send(&mut self, send: &Send) {
        match send {
            Send::Owned(r) => self.dev.cancel(r),
            Send::Pieces(r, _) => self.dev.cancel_raw(*r),
        }
    }

    fn receive(&mut self, m: &Planned) -> Result<Receive> {
        if !m.pieces.1 {
            return Ok(Receive::Owned(self.dev.irecv(vec![GAP; m.len], m.from, m.tag, self.world)?));
        }
        let (area, ty) = (self.areas.take(), layout(m.len)?);
        let req = self.dev.irecv_raw(area.typed(0, &ty, 1), m.from, m.tag, self.world)?;
        Ok(Receive::Pieces(req, area, ty))
    }

    fn received(&mut self, m: &Planned, receive: Receive) -> Result<()> {
        let (status, data) = match receive {
            Receive::Owned(r) => {
                let done = context(self.dev.wait(r), || format!("{m:?}"))?;
                (done.status, done.buffer)
            }
            Receive::Pieces(r, area, ty) => {
                let status = context(self.dev.wait_raw(r), || format!("{m:?}"))?;
                let data = context(gather(&mut self.areas, &area, &ty), || format!("{m:?}"))?;
                self.areas.0.push(area);
                (status, data)
            }
        };
        m.check(self.run, &status, &data)?;
        self.count(m);
        Ok(())
    }

    fn count(&mut self, m: &Planned) {
        self.totals[2] += 1;
        self.totals[3] += m.len as u64;
    }

    /// The receiver's side of a message that its sender wants to cancel.
    fn fate(&mut self, m: &Planned, waiting: Option<Request>) -> Result<()> {
        let mut fate = [0];
        self.dev.recv(&mut fate, m.from, m.tag - CANCELLED + FATE, self.world)?;
        let cancelled = fate[0] == 1;
        match waiting {
            None if cancelled => match self.dev.iprobe(m.from, m.tag, self.world)? {
                None => Ok(()),
                Some(s) => Err(format!("{m:?} was cancelled, and yet there is {s:?}").into()),
            },
            None => {
                let receive = self.receive(m)?;
                self.received(m, receive)
            }
            Some(r) if cancelled => {
                self.dev.cancel(&r);
                let done = self.dev.wait(r)?;
                if done.status.cancelled {
                    Ok(())
                } else {
                    Err(format!("{m:?} was cancelled, and yet received: {:?}", done.status).into())
                }
            }
            Some(r) => self.received(m, Receive::Owned(r)),
        }
    }

    fn round(&mut self, round: u64, each: usize) -> Result<()> {
        let (me, n) = place(self.dev);
        let all = plan(self.run, round, n, each);
        let mut dice = Random::new(seed(&[self.run, round, me as u64, 0xd1ce]));
        let base = round as i32 * ROUND;
        // Sends of one (receiver, tag), and receives of one (source, tag), must be started in the
        // plan's order; what may be mixed is one list with the other.
        let mut todo: Vec<(bool, &Planned)> = Vec::new();
        let mut mine = all.iter().filter(|m| m.from == me).peekable();
        let mut theirs = all.iter().filter(|m| m.to == me).peekable();
        while mine.peek().is_some() || theirs.peek().is_some() {
            let first = dice.below(2) == 0;
            todo.extend(if first { mine.next() } else { None }.map(|m| (true, m)));
            todo.extend(if first { None } else { theirs.next() }.map(|m| (false, m)));
        }
        let (mut sends, mut cancelled, mut receives, mut wild) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut waits, mut fates, mut told) = (Vec::new(), Vec::new(), Vec::new());
        for (outgoing, m) in todo {
            match (outgoing, m.how) {
                (true, How::Cancelled(_)) => {
                    let send = self.send(m)?;
                    self.cancel_send(&send);
                    cancelled.push((m, send));
                }
                (true, _) => sends.push((m, self.send(m)?)),
                (false, How::Exact) => receives.push((m, self.receive(m)?)),
                (false, How::Wild) => {
                    wild.push(self.dev.irecv(vec![GAP; 1 << 20], ANY_SOURCE, m.tag, self.world)?);
                }
                (false, How::Probed | How::Matched) => waits.push(m),
                (false, How::Cancelled(posted)) => {
                    let receive = |d: &mut Device| d.irecv(vec![GAP; m.len], m.from, m.tag, self.world);
                    fates.push((m, if posted { Some(receive(self.dev)?) } else { None }));
                }
            }
            if dice.below(8) == 0 {
                self.never(base + NEVER)?;
            }
            if dice.below(4) == 0 {
                self.dev.progress()?;
            }
        }
        for (m, send) in cancelled {
            let status = self.sent(send)?;
            if !status.cancelled {
                self.totals[0] += 1;
                self.totals[1] += m.len as u64;
            }
            told.push(self.dev.isend(vec![u8::from(status.cancelled)], m.to, base + FATE, self.world)?);
        }
        self.probed(&waits)?;
        for (m, waiting) in fates {
            self.fate(m, waiting)?;
        }
        dice.shuffle(&mut receives);
        for (m, receive) in receives {
            self.received(m, receive)?;
        }
        self.wild(wild, all.iter().filter(|m| m.to == me && m.how == How::Wild))?;
        self.dev.wait_all(told)?;
        dice.shuffle(&mut sends);
        for (m, send) in sends {
            let status = self.sent(send)?;
            if status.cancelled {
                return Err(format!("{m:?} was cancelled by nobody").into());
            }
            self.totals[0] += 1;
            self.totals[1] += m.len as u64;
        }
        Ok(())
    }

    /// A receive that nothing can match is cancelled.
    fn never(&mut self, tag: i32) -> Result<()> {
        let receive = self.dev.irecv(vec![0; 8], ANY_SOURCE, tag, self.world)?;
        self.dev.cancel(&receive);
        let done = self.dev.wait(receive)?;
        if done.status.cancelled {
            Ok(())
        } else {
            Err("a receive that nothing matches was not cancelled".into())
        }
    }

    /// Messages that are looked at before they are received; those of one source in their order.
    fn probed(&mut self, waits: &[&Planned]) -> Result<()> {
        for m in waits {
            if m.how == How::Probed {
                let seen = self.dev.probe(m.from, m.tag, self.world)?;
                if seen.len != m.len {
                    return Err(format!("{m:?}: probed {seen:?}").into());
                }
                let receive = self.receive(m)?;
                self.received(m, receive)?;
                continue;
            }
            let message = self.dev.mprobe(m.from, m.tag, self.world)?;
            let seen = message.status();
            let done = self.dev.imrecv(vec![GAP; seen.len], message);
            let done = self.dev.wait(done)?;
            m.check(self.run, &done.status, &done.buffer)?;
            self.count(m);
        }
        Ok(())
    }

    /// Receives with any source got the messages of each source in its order.
    fn wild<'p>(&mut self, wild: Vec<Request>, planned: impl Iterator<Item = &'p Planned>) -> Result<()> {
        let mut of: HashMap<i32, Vec<&Planned>> = HashMap::new();
        for m in planned {
            of.entry(m.from).or_default().push(m);
        }
        for request in wild {
            let done = self.dev.wait(request)?;
            let queue = of.get_mut(&done.status.source).filter(|q| !q.is_empty());
            let m = queue
                .ok_or_else(|| format!("one message too many of a source: {:?}", done.status))?
                .remove(0);
            m.check(self.run, &done.status, &done.buffer)?;
            if done.buffer[m.len..].iter().any(|b| *b != GAP) {
                return Err(format!("{m:?}: written behind the message").into());
            }
            self.count(m);
        }
        if of.values().any(|q| !q.is_empty()) {
            return Err("a message for any source was not received".into());
        }
        Ok(())
    }
}

pub(super) fn random(dev: &mut Device, args: &Args) -> Result<End> {
    let (run, rounds, each) = (args.get(0, 1), args.get(1, 12), args.get(2, 12) as usize);
    let world = dev.world();
    let mut rank = Rank { dev, world, run, areas: Areas::default(), totals: [0; 4] };
    for round in 0..rounds {
        context(rank.round(round, each), || format!("seed {run}, round {round}"))?;
    }
    let mut sum = rank.totals;
    let (me, n) = place(dev);
    let bytes: Vec<u8> = sum.iter().flat_map(|t| t.to_le_bytes()).collect();
    let tag = rounds as i32 * ROUND;
    if me != 0 {
        dev.send(&bytes, 0, tag, world)?;
    } else {
        for _ in 1..n {
            let mut theirs = [0; 32];
            dev.recv(&mut theirs, ANY_SOURCE, tag, world)?;
            for (total, part) in sum.iter_mut().zip(theirs.as_chunks::<8>().0) {
                *total += u64::from_le_bytes(*part);
            }
        }
        if (sum[0], sum[1]) != (sum[2], sum[3]) || sum[0] == 0 {
            return Err(format!("messages and bytes sent, messages and bytes received: {sum:?}").into());
        }
        println!("random: {} messages, {} bytes", sum[0], sum[1]);
    }
    dev.barrier(world)?;
    if let Some(s) = dev.iprobe(ANY_SOURCE, ANY_TAG, world)? {
        return Err(format!("a message is left over: {s:?}").into());
    }
    if (dev.live_requests(), dev.unexpected_len(), dev.posted_len()) != (0, 0, 0) {
        let (r, u, p) = (dev.live_requests(), dev.unexpected_len(), dev.posted_len());
        return Err(format!("{r} requests, {u} messages and {p} receives are left over").into());
    }
    Ok(End::Finalize)
}
