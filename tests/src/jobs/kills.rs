//! Cases in which one rank is killed: at a certain stage of its life, or at any moment of random
//! traffic.
//!
//! Whatever the stage, the others must learn of it by errors that name the rank and its host, and
//! go on.

use std::time::{Duration, Instant};

use ch3_shim::{ANY_SOURCE, Device, Error, Mode, Request};

use super::basic::{context, place};
use super::pattern::{self, mix, seed};
use super::{Args, End, Result, sys};

/// Time in which the others must learn of a death. An idle machine takes milliseconds; the process
/// manager is asked each second.
pub const DETECTION: Duration = Duration::from_secs(10);

/// Kills this process after some microseconds.
fn kill_after(us: u64) -> Result<()> {
    let kill = move || {
        std::thread::sleep(Duration::from_micros(us));
        sys::kill_self()
    };
    std::thread::Builder::new().name("killer".into()).spawn(kill)?;
    Ok(())
}

/// Acts as a victim of the case `kill` before it joins the job: at stage 0 it dies, at stage 1 it
/// is about to.
///
/// # Errors
/// There can be no thread.
pub fn before_joining(case: &str, args: &Args, rank: u64) -> Result<()> {
    if case != "kill" || rank != args.get(1, 1) {
        return Ok(());
    }
    match args.get(0, 0) {
        0 => sys::kill_self(),
        1 => kill_after(mix(args.get(2, 1)) % 30_000),
        _ => Ok(()),
    }
}

/// A message to and from each other rank but one.
fn acquaint(dev: &mut Device, without: i32) -> Result<()> {
    let (me, n) = place(dev);
    let world = dev.world();
    for peer in (0..n).filter(|r| *r != me && *r != without && me != without) {
        let mut got = [0; 64];
        dev.sendrecv(&pattern::bytes(me as u64, 64), peer, 0, &mut got, peer, 0, world)?;
        pattern::check(peer as u64, &got)?;
    }
    Ok(())
}

fn is_of(e: &netmod_core::VcError, victim: i32) -> bool {
    e.peer().is_some_and(|p| p.rank as i32 == victim) && e.to_string().starts_with(&format!("rank {victim}"))
}

fn names<T>(result: std::result::Result<T, Error>, victim: i32, what: &str) -> Result<()> {
    match result {
        Err(Error::Peer(e)) if is_of(&e, victim) => Ok(()),
        Err(e) => Err(format!("{what}: an error that names rank {victim} was expected, and not: {e}").into()),
        Ok(_) => Err(format!("{what} succeeded although rank {victim} is dead").into()),
    }
}

fn pends<T>(result: std::result::Result<T, Error>, victim: i32, what: &str) -> Result<()> {
    match result {
        Err(Error::PendingFailed { rank, cause, others: 0 })
            if rank as i32 == victim && is_of(&cause, victim) =>
        {
            Ok(())
        }
        Err(e) => Err(format!("{what}: rank {victim} should be pending-failed, and not: {e}").into()),
        Ok(_) => Err(format!("{what} got a message that nobody has sent").into()),
    }
}

/// Checks the job after a death: everything with the dead rank fails, wildcards until they were
/// told, and the others go on.
fn aftermath(dev: &mut Device, victim: i32) -> Result<()> {
    let (me, world) = (dev.rank() as i32, dev.world());
    let begun = Instant::now();
    names(dev.recv(&mut [0], victim, 50, world), victim, "a receive")?;
    if begun.elapsed() > DETECTION {
        return Err(format!("the death of rank {victim} was noticed after {:?}", begun.elapsed()).into());
    }
    names(dev.send(&[0; 100], victim, 50, world), victim, "a send")?;
    names(dev.probe(victim, 50, world), victim, "a probe")?;
    pends(dev.probe(ANY_SOURCE, 51, world), victim, "a probe of any source")?;
    let mut wild = dev.irecv(vec![0; 64], ANY_SOURCE, 52, world)?;
    pends(dev.wait(&mut wild).map_err(ch3_shim::Error::from), victim, "a receive from any source")?;
    let failed = dev.ack_failures();
    if failed.len() != 1 || !is_of(&failed[0].cause, victim) {
        return Err(format!("failed ranks: {failed:?}").into());
    }
    acquaint(dev, victim)?;
    // A ring of those that are left, through the receive from any source.
    let left: Vec<i32> = (0..dev.size() as i32).filter(|r| *r != victim).collect();
    let at = left.iter().position(|r| *r == me).ok_or("the victim lives")?;
    if left.len() > 1 {
        let (next, prev) = (left[(at + 1) % left.len()], left[(at + left.len() - 1) % left.len()]);
        let send = dev.isend(pattern::bytes(me as u64, 64), next, 52, world)?;
        let done = context(dev.wait(&mut wild), || "a receive from any source, later".into())?;
        pattern::check(prev as u64, &done.buffer)?;
        dev.wait(send)?;
    }
    println!("rank {me}: survived rank {victim}");
    Ok(())
}

/// Leaves the job, with pauses instead of waiting.
fn finalize(dev: &mut Device) -> std::result::Result<(), Error> {
    dev.finalize_begin();
    while !dev.finalize_poll()? {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// The victim learns that all it has sent was received: a completed send may still lie in its
/// process, and be lost with it.
fn all_came(dev: &mut Device, victim: i32) -> Result<()> {
    let (me, n) = place(dev);
    let world = dev.world();
    if me != victim {
        dev.send(&[], victim, 3, world)?;
        return Ok(());
    }
    for peer in (0..n).filter(|r| *r != me) {
        dev.recv(&mut [], peer, 3, world)?;
    }
    Ok(())
}

/// Acts as the victim or as another rank at a stage. The victim never returns from the stages below
/// 8.
pub(super) fn kill(dev: &mut Device, args: &Args) -> Result<End> {
    let (stage, victim, random) = (args.get(0, 2), args.rank(1, 1, dev)?, mix(args.get(2, 1)));
    let (me, n) = place(dev);
    let world = dev.world();
    let dies = me == victim;
    if stage == 0 || stage == 1 {
        if dies {
            // The thread that kills it has been started.
            acquaint(dev, -1)?;
            std::thread::sleep(Duration::from_secs(60));
        }
        aftermath(dev, victim)?;
        return Ok(End::Finalize);
    }
    acquaint(dev, -1)?;
    dev.barrier(world)?;
    if dies && !matches!(stage, 7 | 8 | 11) {
        kill_after(random % 20_000)?;
    }
    let mut large = vec![0; 8 << 20];
    match stage {
        // Everybody waits for the victim, which does nothing.
        2 if dies => std::thread::sleep(Duration::from_secs(60)),
        2 => names(dev.recv(&mut [0], victim, 1, world), victim, "an idle receive")?,
        // In the middle of large messages, each way.
        3 if dies => {
            for peer in (0..n).filter(|r| *r != me).cycle() {
                dev.sendrecv(&large.clone(), peer, 1, &mut large, peer, 1, world)?;
            }
        }
        3 => loop {
            let data = large.clone();
            if let Err(e) = dev.sendrecv(&data, victim, 1, &mut large, victim, 1, world) {
                names::<()>(Err(e), victim, "a large message")?;
                break;
            }
        },
        4 if dies => std::thread::sleep(Duration::from_secs(60)),
        4 => pends(dev.recv(&mut [0], ANY_SOURCE, 1, world), victim, "a receive from any source")?,
        5 if dies => std::thread::sleep(Duration::from_secs(60)),
        5 if me % 2 == 0 => names(dev.probe(victim, 1, world), victim, "a probe")?,
        5 => pends(dev.mprobe(ANY_SOURCE, 1, world), victim, "a probe of any source")?,
        6 if dies => std::thread::sleep(Duration::from_secs(60)),
        6 => names(dev.disconnect(u32::try_from(victim)?), victim, "a disconnect")?,
        // The victim does not come to finalize, or dies on the way out.
        7 | 8 | 11 => {
            if stage == 11 {
                all_came(dev, victim)?;
            }
            if dies && stage != 8 {
                sys::kill_self();
            }
            if dies {
                kill_after(random % 3_000)?;
            }
            let begun = Instant::now();
            let left = finalize(dev);
            if dies {
                std::thread::sleep(Duration::from_secs(60));
            }
            if begun.elapsed() > DETECTION {
                return Err(format!("finalize took {:?}", begun.elapsed()).into());
            }
            match left {
                Err(Error::ProcessesFailed(f)) if f.len() == 1 && is_of(&f[0].cause, victim) => {}
                // It may have left before it died.
                Ok(()) if stage == 8 => {}
                other => return Err(format!("finalize: {other:?}").into()),
            }
            println!("rank {me}: survived rank {victim}");
            return Ok(End::Finalize);
        }
        // In a flood of small messages.
        9 => {
            let mut reqs: Vec<Request> = Vec::new();
            let outcome = loop {
                let peer = if dies { (me + 1) % n } else { victim };
                let started =
                    dev.irecv(vec![0; 40], peer, 1, world).map_err(ch3_shim::Error::from).and_then(|r| {
                        reqs.push(r);
                        dev.send(&[1; 40], peer, 1, world)
                    });
                if let Err(e) = started {
                    break e;
                }
            };
            names::<()>(Err(outcome), victim, "a flood")?;
            for req in reqs {
                if let Err(e) = dev.wait(req).map_err(ch3_shim::Error::from) {
                    names::<()>(Err(e), victim, "a receive in a flood")?;
                }
            }
        }
        // Large messages are announced and not received, each way.
        10 if dies => {
            for peer in (0..n).filter(|r| *r != me) {
                // Nobody ever waits for it.
                let _ = dev.isend(large.clone(), peer, 1, world)?;
            }
        }
        10 => {
            let send = dev.isend(large.clone(), victim, 1, world)?;
            names(dev.wait(send).map_err(ch3_shim::Error::from), victim, "a send that nobody receives")?;
            names(dev.recv(&mut large, victim, 1, world), victim, "a large message that was announced")?;
        }
        _ => return Err("stages are 0 to 11".into()),
    }
    if dies {
        std::thread::sleep(Duration::from_secs(60));
        return Err("the victim lives".into());
    }
    aftermath(dev, victim)?;
    Ok(End::Finalize)
}

/// A rank is killed that nobody has ever exchanged a message with, while the others wait for it in
/// different ways.
pub(super) fn unmet(dev: &mut Device, args: &Args) -> Result<End> {
    let (victim, random) = (args.rank(0, 1, dev)?, mix(args.get(1, 1)));
    let (me, world) = (dev.rank() as i32, dev.world());
    if me == victim {
        kill_after(random % 1_500_000)?;
        std::thread::sleep(Duration::from_secs(60));
        return Err("the victim lives".into());
    }
    match me % 4 {
        0 => names(dev.recv(&mut [0], victim, 1, world), victim, "a receive")?,
        1 => names(dev.probe(victim, 1, world), victim, "a probe")?,
        2 => pends(dev.recv(&mut [0], ANY_SOURCE, 1, world), victim, "a receive from any source")?,
        _ => loop {
            match dev.iprobe(victim, 1, world) {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                other => break names(other, victim, "a probe in a loop")?,
            }
        },
    }
    dev.ack_failures();
    println!("rank {me}: survived rank {victim}");
    Ok(End::Finalize)
}

/// Random traffic with one peer: one message each way at a time, each of a length and mode of its
/// own.
struct Lane {
    peer: i32,
    receive: Option<Request>,
    send: Option<Request>,
    received: u64,
    sent: u64,
    lost: bool,
}

/// The length of a message of random traffic.
fn length(word: u64) -> usize {
    let most = [17, 200, 5_000, 60_000, 300_000, 1_500_000][(word % 61 / 11) as usize];
    (word >> 8) as usize % most
}

struct Traffic {
    seed: u64,
    me: i32,
    victim: i32,
}

impl Traffic {
    fn of(&self, from: i32, to: i32, number: u64) -> (usize, u64) {
        let word = seed(&[self.seed, from as u64, to as u64, number]);
        (length(word), word)
    }

    /// Moves a lane on; an error may only be the victim's.
    fn step(&self, dev: &mut Device, lane: &mut Lane, most: u64) -> Result<()> {
        if lane.lost {
            return Ok(());
        }
        match self.try_step(dev, lane, most) {
            Ok(wrong) => wrong,
            Err(e) => {
                names::<()>(Err(e), self.victim, &format!("traffic with rank {}", lane.peer))?;
                if lane.peer != self.victim {
                    return Err(format!("rank {} is blamed for rank {}", self.victim, lane.peer).into());
                }
                // The other half must end as well.
                for left in [lane.send.take(), lane.receive.take()].into_iter().flatten() {
                    if let Err(e) = dev.wait(left).map_err(ch3_shim::Error::from) {
                        names::<()>(Err(e), self.victim, "the other half of the traffic")?;
                    }
                }
                lane.lost = true;
                Ok(())
            }
        }
    }

    fn try_step(
        &self,
        dev: &mut Device,
        lane: &mut Lane,
        most: u64,
    ) -> std::result::Result<Result<()>, Error> {
        let world = dev.world();
        if lane.receive.is_none() && lane.received < most {
            let (len, _) = self.of(lane.peer, self.me, lane.received);
            lane.receive = Some(dev.irecv(vec![0; len], lane.peer, 1, world)?);
        }
        if lane.send.is_none() && lane.sent < most {
            let (len, word) = self.of(self.me, lane.peer, lane.sent);
            let mode = if word >> 60 == 0 { Mode::Sync } else { Mode::Standard };
            lane.send = Some(dev.isend_mode(pattern::bytes(word, len).into(), lane.peer, 1, world, mode)?);
        }
        if let Some(req) = &mut lane.send
            && dev.test(req)?.is_ok()
        {
            lane.send = None;
            lane.sent += 1;
        }
        if let Some(req) = &mut lane.receive
            && let Ok(done) = dev.test(req)?
        {
            lane.receive = None;
            let (len, word) = self.of(lane.peer, self.me, lane.received);
            lane.received += 1;
            if done.status.len != len {
                return Ok(Err(
                    format!("{} bytes from rank {} and not {len}", done.status.len, lane.peer).into()
                ));
            }
            return Ok(pattern::check(word, &done.buffer));
        }
        Ok(Ok(()))
    }
}

/// Gossip: small messages that are received from any source, so many from each rank to each other.
const GOSSIP: u64 = 20;

/// Random traffic of all pairs; one random rank is killed at a random moment. What concerns it
/// fails, with its name, in time; all other traffic goes on to its end, byte for byte.
pub(super) fn mortal(dev: &mut Device, args: &Args) -> Result<End> {
    let (random, rounds) = (seed(&[args.get(0, 1), 7]), args.get(1, 60));
    let (me, n) = place(dev);
    let world = dev.world();
    let victim = (mix(random) % n as u64) as i32;
    let t = Traffic { seed: random, me, victim };
    if me == victim {
        kill_after(mix(random ^ 1) % args.get(2, 300_000))?;
    }
    let lane = |peer| Lane { peer, receive: None, send: None, received: 0, sent: 0, lost: false };
    let mut lanes: Vec<Lane> = (0..n).filter(|r| *r != me).map(lane).collect();
    let others: Vec<i32> = lanes.iter().map(|l| l.peer).collect();
    let mut heard = vec![0; n as usize];
    let mut told = 0;
    let mut wild = dev.irecv(vec![0; 8], ANY_SOURCE, 2, world)?;
    let (begun, mut pending) = (Instant::now(), false);
    loop {
        for lane in &mut lanes {
            // With the victim there is traffic until it dies.
            let most = if lane.peer == victim || me == victim { u64::MAX } else { rounds };
            t.step(dev, lane, most)?;
        }
        if told < GOSSIP {
            for to in &others {
                if let Err(e) = dev.send(&told.to_le_bytes(), *to, 2, world) {
                    names::<()>(Err(e), victim, "gossip")?;
                }
            }
            told += 1;
        }
        // Without any other rank left there is no gossip to wait for.
        let alone = pending && n == 2;
        match if alone { Ok(Err(&mut wild)) } else { dev.test(&mut wild) } {
            Ok(Err(_)) => {}
            Ok(Ok(done)) => {
                let from = done.status.source;
                let number = u64::from_le_bytes(done.buffer.try_into().map_err(|_| "half a message")?);
                if number != heard[from as usize] {
                    return Err(
                        format!("gossip {number} of rank {from} after {}", heard[from as usize]).into()
                    );
                }
                heard[from as usize] += 1;
                wild = dev.irecv(vec![0; 8], ANY_SOURCE, 2, world)?;
            }
            Err(e) => {
                pends::<()>(Err(e.into()), victim, "gossip from any source")?;
                if pending || dev.ack_failures().len() != 1 {
                    return Err(format!("rank {victim} has died twice").into());
                }
                pending = true;
            }
        }
        let done = lanes
            .iter()
            .all(|l| if l.peer == victim { l.lost } else { l.received == rounds && l.sent == rounds });
        let all_heard = others.iter().all(|r| *r == victim || heard[*r as usize] == GOSSIP);
        if done && pending && all_heard {
            break;
        }
        if begun.elapsed() > DETECTION * 4 {
            let (sent, received) =
                (lanes.iter().map(|l| l.sent).sum::<u64>(), lanes.iter().map(|l| l.received).sum::<u64>());
            return Err(format!(
                "no end: {sent} sent, {received} received, heard {heard:?}, rank {victim} pending-failed: {pending}, \
                 failed: {:?}",
                dev.failed()
            )
            .into());
        }
    }
    dev.cancel(&wild);
    if !dev.wait(wild)?.status.cancelled {
        return Err("gossip that nobody has told".into());
    }
    println!("rank {me}: survived rank {victim}");
    Ok(End::Finalize)
}
