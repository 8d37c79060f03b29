//! Cases in which a rank is late, gives up, or dies.

use std::time::{Duration, Instant};

use ch3_shim::{Device, Error, Mode};

use super::basic::{context, exchange, place};
use super::pattern::{self, seed};
use super::{Args, End, Result, sys};

/// The part before the body, of a rank that joins late, is the program's.
pub(super) fn late(dev: &mut Device, args: &Args) -> Result<End> {
    let world = dev.world();
    let (me, n) = place(dev);
    if me == 1 {
        // Everybody has joined and wants a connection, which this rank does not answer yet.
        std::thread::sleep(Duration::from_secs(args.get(0, 2)));
    }
    for round in 0..3 {
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        for i in 1..n {
            let (to, from) = ((me + i) % n, (me + n - i) % n);
            receives.push((from, dev.irecv(vec![0; 9000], from, 1, world)?));
            sends.push(dev.isend(pattern::bytes(seed(&[round, me as u64]), 9000), to, 1, world)?);
        }
        for (from, receive) in receives {
            let done = context(dev.wait(receive), || format!("message from rank {from}"))?;
            context(pattern::check(seed(&[round, from as u64]), &done.buffer), || {
                format!("message from rank {from}")
            })?;
        }
        dev.wait_all(sends)?;
    }
    Ok(End::Finalize)
}

/// Everybody has a connection with everybody.
fn acquaint(dev: &mut Device) -> Result<()> {
    let (me, n) = place(dev);
    let world = dev.world();
    for i in 1..n {
        let (to, from) = ((me + i) % n, (me + n - i) % n);
        let mut got = [0; 100];
        dev.sendrecv(&pattern::bytes(me as u64, 100), to, 0, &mut got, from, 0, world)?;
        pattern::check(from as u64, &got)?;
    }
    dev.barrier(world)?;
    Ok(())
}

/// Waits for a message that never comes; says so if the wait ends.
fn wait_in_vain(dev: &mut Device, from: i32) -> Result<End> {
    let world = dev.world();
    let outcome = dev.recv(&mut [0], from, 5, world);
    // A launcher that is slow to kill lets the loss of the rank be seen; that is no fault.
    if let Err(e @ Error::Peer(_)) = outcome {
        eprintln!("rank {}: {e}", dev.rank());
        std::thread::sleep(Duration::from_secs(60));
        return Err("this rank was not ended by the launcher".into());
    }
    Err(format!("a message that nobody has sent: {outcome:?}").into())
}

pub(super) fn abort(dev: &mut Device, args: &Args) -> Result<End> {
    let who = args.rank(0, 1, dev)?;
    let code = i32::try_from(args.get(1, 7))?;
    acquaint(dev)?;
    if dev.rank() as i32 == who {
        return Ok(End::Abort(code));
    }
    wait_in_vain(dev, who)
}

pub(super) fn leave(dev: &mut Device, args: &Args) -> Result<End> {
    let who = args.rank(0, 1, dev)?;
    acquaint(dev)?;
    if dev.rank() as i32 == who {
        return Ok(End::Leave);
    }
    wait_in_vain(dev, who)
}

/// An error must be that of the lost rank, and name it.
fn names_the_victim<T>(result: std::result::Result<T, Error>, victim: i32, what: &str) -> Result<()> {
    match result {
        Ok(_) => Err(format!("{what} succeeded although rank {victim} is dead").into()),
        Err(Error::Peer(e))
            if e.peer().is_some_and(|p| p.rank as i32 == victim)
                && e.to_string().contains(&format!("rank {victim}")) =>
        {
            Ok(())
        }
        Err(e) => Err(format!("{what} failed, but not with an error that names rank {victim}: {e}").into()),
    }
}

/// Hydra sends this signal to the others when a rank has died and the job is to go on.
pub(super) fn signalled(dev: &mut Device, _: &Args) -> Result<End> {
    acquaint(dev)?;
    sys::raise(libc::SIGUSR1)?;
    acquaint(dev)?;
    Ok(End::Finalize)
}

/// A launcher may end the job on a death, or leave that to those who notice: they do, and give up.
pub(super) fn lose(dev: &mut Device, args: &Args) -> Result<End> {
    let victim = args.rank(0, 1, dev)?;
    acquaint(dev)?;
    let world = dev.world();
    if dev.rank() as i32 == victim {
        sys::kill_self();
    }
    names_the_victim(dev.recv(&mut [0], victim, 5, world), victim, "a receive")?;
    Err(format!("rank {victim} is lost, as it should be").into())
}

/// The victim dies while it sends to, and receives from, everybody.
fn die_in_traffic(dev: &mut Device) -> Result<End> {
    let (me, n) = place(dev);
    let world = dev.world();
    for to in (0..n).filter(|r| *r != me) {
        // Dropped requests go on by themselves.
        let _ = dev.isend(vec![1; 8 << 20], to, 2, world)?;
        let _ = dev.isend(vec![2; 50_000], to, 2, world)?;
    }
    let first = dev.irecv(vec![0; 8 << 20], (me + 1) % n, 3, world)?;
    dev.wait(first)?;
    sys::kill_self()
}

/// One rank has failed, no other, and its host is known.
fn acknowledge(dev: &mut Device, victim: i32) -> Result<()> {
    let failed = dev.ack_failures();
    match &failed[..] {
        [f] if f.peer.rank as i32 == victim && f.cause.host().is_some() => Ok(()),
        _ => Err(format!("failed ranks: {failed:?}, and not {victim} alone").into()),
    }
}

pub(super) fn die(dev: &mut Device, args: &Args) -> Result<End> {
    let victim = args.rank(0, 1, dev)?;
    acquaint(dev)?;
    let (me, n) = place(dev);
    let world = dev.world();
    if me == victim {
        return die_in_traffic(dev);
    }
    // Sends that wait for their match or for CTS, receives posted and never served, a large message
    // that is cut off in the middle.
    let others: Vec<i32> = (0..n).filter(|r| *r != victim).collect();
    let at = others.iter().position(|r| *r == me).ok_or("no place among the others")?;
    let doomed = [
        ("a receive that nobody serves", dev.irecv(vec![0; 10], victim, 4, world)?),
        ("a rendezvous send without a receive", dev.isend(vec![3; 1 << 20], victim, 4, world)?),
        (
            "a synchronous send without a receive",
            dev.isend_mode(vec![4; 100].into(), victim, 4, world, Mode::Sync)?,
        ),
    ];
    let served = dev.isend(vec![5; 8 << 20], victim, 3, world)?;
    let cut_off = dev.irecv(vec![0; 8 << 20], victim, 2, world)?;
    // The others go on exchanging: before, while and after the rank dies.
    let ring = |dev: &mut Device, rounds: u64| -> Result<()> {
        for round in 0..rounds {
            let (next, prev) =
                (others[(at + 1) % others.len()], others[(at + others.len() - 1) % others.len()]);
            let len = [16, 3000, 200_000][(round % 3) as usize];
            let mut got = vec![0; len];
            let data = pattern::bytes(seed(&[round, me as u64]), len);
            context(dev.sendrecv(&data, next, 6, &mut got, prev, 6, world), || {
                format!("traffic of the others, round {round}")
            })?;
            pattern::check(seed(&[round, prev as u64]), &got)?;
        }
        Ok(())
    };
    ring(dev, 30)?;
    for (what, request) in doomed {
        names_the_victim(dev.wait(request).map_err(ch3_shim::Error::from), victim, what)?;
        ring(dev, 10)?;
    }
    // The rank that the victim waited for may have been served before its death, or not.
    for (what, request) in [("a send that was under way", served), ("a receive that was under way", cut_off)]
    {
        if let Err(e) = dev.wait(request).map_err(ch3_shim::Error::from) {
            names_the_victim::<()>(Err(e), victim, what)?;
        }
    }
    names_the_victim(dev.send(&[1], victim, 0, world), victim, "a new send")?;
    names_the_victim(dev.recv(&mut [1], victim, 9, world), victim, "a new receive")?;
    names_the_victim(dev.probe(victim, 9, world), victim, "a probe")?;
    ring(dev, 30)?;
    acknowledge(dev, victim)?;
    println!("rank {me}: survived rank {victim}");
    Ok(End::Finalize)
}

/// A rank is killed. Who waits for it is told in time, and nobody else is named; meanwhile the
/// others talk, and are not disturbed.
pub(super) fn widowed(dev: &mut Device, args: &Args) -> Result<End> {
    let victim = args.rank(0, 1, dev)?;
    let limit = Duration::from_secs(args.get(1, 20));
    let ((me, n), world) = (place(dev), dev.world());
    if n < 4 {
        return Err("this case is for 4 ranks or more".into());
    }
    exchange(dev, 1000, 0)?;
    // One that is posted when the death is known fails at once.
    let doomed = dev.irecv(vec![0], victim, 5, world)?;
    dev.barrier(world)?;
    if me == victim {
        sys::kill_self();
    }
    let start = Instant::now();
    let others: Vec<i32> = (0..n).filter(|r| *r != victim).collect();
    let (widow, talkers) = others.split_first().ok_or("nobody is left")?;
    if me != *widow {
        talk(dev, talkers, *widow)?;
    }
    names_the_victim(dev.wait(doomed).map_err(ch3_shim::Error::from), victim, "a receive")?;
    let took = start.elapsed();
    if took > limit {
        return Err(format!("told after {took:?}").into());
    }
    let failed = dev.ack_failures();
    let cause = failed.first().map(|f| f.cause.to_string()).unwrap_or_default();
    println!("rank {me}: told after {:.1} s: {cause}", took.as_secs_f64());
    if failed.len() != 1 {
        return Err(format!("failed ranks: {failed:?}, and not {victim} alone").into());
    }
    if me == *widow {
        dev.send(&[], talkers[0], 6, world)?;
    }
    Ok(End::Finalize)
}

/// A message goes round and round, until a rank has sent a word to the first of them.
fn talk(dev: &mut Device, ranks: &[i32], last_word_of: i32) -> Result<()> {
    let ((me, _), world) = (place(dev), dev.world());
    let at = ranks.iter().position(|r| *r == me).ok_or("no place among the others")?;
    let (next, prev) = (ranks[(at + 1) % ranks.len()], ranks[(at + ranks.len() - 1) % ranks.len()]);
    let mut over = if at == 0 { Some(dev.irecv(Vec::new(), last_word_of, 6, world)?) } else { None };
    for round in 0_u64.. {
        // The first byte says whether there is another round.
        let mut message = pattern::bytes(round, 3000);
        let lap = || format!("round {round} of the others");
        if let Some(request) = over.take() {
            over = dev.test(request)?.err();
        }
        if at == 0 {
            message[0] = u8::from(over.is_some());
            context(dev.send(&message, next, 4, world), lap)?;
        }
        let mut got = vec![0; 3000];
        context(dev.recv(&mut got, prev, 4, world), lap)?;
        if at != 0 {
            message[0] = got[0];
            context(dev.send(&got, next, 4, world), lap)?;
        }
        if got != message {
            return Err(format!("round {round}: other bytes").into());
        }
        if got[0] == 0 {
            break;
        }
    }
    Ok(())
}
