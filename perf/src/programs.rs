//! `programs`: what MPI programs do most, to measure a mechanism where a user would see it.
//!
//! Each program runs by itself until what adapts has settled, and is then measured in rounds. All
//! values are times, so that smaller ones are better.

use std::time::{Duration, Instant};

use ch3_shim::{ANY_SOURCE, Comm, Device};

use crate::barrier::agree;
use crate::cli::ProgramsArgs;
use crate::error::{Failure, Result};
use crate::launch;
use crate::report::{Row, median, rounded};

/// Tag of data; a halo exchange adds the direction.
const TAG: i32 = 10;
/// Tag of the root's acknowledgement.
const ACK: i32 = 9;
/// Messages in flight from each sender of many to one.
const WINDOW: usize = 64;
/// Message size of the programs with one size, in bytes.
const SMALL: usize = 8;
/// Largest message of a halo exchange, in bytes.
const LARGEST: usize = 64 << 10;
/// Durations of a run that ends the calibration, of the warm-up and of a round.
const CALIBRATED: Duration = Duration::from_millis(2);
const WARM_UP: Duration = Duration::from_millis(60);
const ROUND: Duration = Duration::from_millis(10);

/// A program; all ranks run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// Pairs of ranks with ping-pongs; each computes for so long before it sends.
    PingPong(Duration),
    /// Each rank exchanges so many bytes with its four neighbours in a torus.
    Halo(usize),
    /// Sum over all ranks by recursive doubling.
    Allreduce,
    /// All other ranks send windows of messages to rank 0.
    ManyToOne,
}

/// The programs and their names in the field `kind`.
const ALL: [(Program, &str); 8] = [
    (Program::PingPong(Duration::ZERO), "ping-pong"),
    (Program::PingPong(Duration::from_micros(1)), "ping-pong, 1 us"),
    (Program::PingPong(Duration::from_micros(5)), "ping-pong, 5 us"),
    (Program::Halo(SMALL), "halo"),
    (Program::Halo(1 << 10), "halo"),
    (Program::Halo(LARGEST), "halo"),
    (Program::Allreduce, "allreduce"),
    (Program::ManyToOne, "many to one"),
];

/// One rank's view of the job.
struct Job<'d> {
    dev: &'d mut Device,
    comm: Comm,
    me: i32,
    ranks: i32,
    send: Vec<u8>,
    recv: Vec<u8>,
}

impl Program {
    /// Returns the message size in bytes.
    fn bytes(self) -> usize {
        if let Program::Halo(bytes) = self { bytes } else { SMALL }
    }

    /// Returns the number of steps of one repetition that a value is divided by: half round trips,
    /// or messages that the root receives.
    fn steps(self, ranks: i32) -> f64 {
        match self {
            Program::PingPong(_) => 2.0,
            Program::Halo(_) | Program::Allreduce => 1.0,
            Program::ManyToOne => WINDOW as f64 * f64::from(ranks - 1),
        }
    }

    /// Runs `n` repetitions; all ranks call this alike.
    fn run(self, job: &mut Job<'_>, n: u32) -> Result<()> {
        (0..n).try_for_each(|_| match self {
            Program::PingPong(computing) => job.ping_pong(computing),
            Program::Halo(bytes) => job.halo(bytes),
            Program::Allreduce => job.allreduce(),
            Program::ManyToOne => job.many_to_one(),
        })
    }
}

impl Job<'_> {
    fn ping_pong(&mut self, computing: Duration) -> Result<()> {
        let peer = self.me ^ 1;
        let (send, recv) = (&self.send[..SMALL], &mut self.recv[..SMALL]);
        if self.me < peer {
            compute(computing);
            self.dev.send(send, peer, TAG, self.comm)?;
        }
        self.dev.recv(recv, peer, TAG, self.comm)?;
        if self.me > peer {
            compute(computing);
            self.dev.send(send, peer, TAG, self.comm)?;
        }
        Ok(())
    }

    /// Exchanges with the neighbours that are other ranks.
    fn halo(&mut self, bytes: usize) -> Result<()> {
        let Job { comm, me, .. } = *self;
        let around = neighbours(me, self.ranks);
        let (send, recv) = (&self.send[..bytes], self.recv.chunks_exact_mut(bytes));
        self.dev.scope(|s| {
            // Data sent in one direction arrives from the neighbour in the opposite one.
            for (direction, buf) in recv.take(4).enumerate() {
                let from = around[direction ^ 1];
                if from != me {
                    s.irecv(buf, from, TAG + direction as i32, comm)?;
                }
            }
            for (direction, to) in around.into_iter().enumerate() {
                if to != me {
                    s.isend(send, to, TAG + direction as i32, comm)?;
                }
            }
            Ok(())
        })?;
        for (direction, got) in self.recv.chunks_exact(bytes).take(4).enumerate() {
            let from = around[direction ^ 1];
            if from != me && [got[0], got[bytes - 1]] != [from as u8; 2] {
                return Err(Failure::new(format!("wrong data from rank {from} in a halo exchange")));
            }
        }
        Ok(())
    }

    fn allreduce(&mut self) -> Result<()> {
        let (mut sum, mut mask) = (self.me as u64, 1);
        while mask < self.ranks {
            let (peer, mine, mut theirs) = (self.me ^ mask, sum.to_le_bytes(), [0; 8]);
            self.dev.sendrecv(&mine, peer, TAG, &mut theirs, peer, TAG, self.comm)?;
            sum += u64::from_le_bytes(theirs);
            mask *= 2;
        }
        let right = (self.ranks * (self.ranks - 1) / 2) as u64;
        let wrong = || Failure::new(format!("the sum of all ranks is {right}, but {sum} was computed"));
        if sum == right { Ok(()) } else { Err(wrong()) }
    }

    fn many_to_one(&mut self) -> Result<()> {
        let (comm, send) = (self.comm, &self.send[..SMALL]);
        if self.me > 0 {
            self.dev.scope(|s| (0..WINDOW).try_for_each(|_| s.isend(send, 0, TAG, comm).map(drop)))?;
            self.dev.recv(&mut [0; 1], 0, ACK, comm)?;
            return Ok(());
        }
        for _ in 0..WINDOW * (self.ranks - 1) as usize {
            let recv = &mut self.recv[..SMALL];
            let status = self.dev.recv(recv, ANY_SOURCE, TAG, comm)?;
            if recv != [status.source as u8; SMALL] {
                return Err(Failure::new(format!("wrong data from rank {}", status.source)));
            }
        }
        for rank in 1..self.ranks {
            self.dev.send(&[0], rank, ACK, comm)?;
        }
        Ok(())
    }
}

/// Keeps this core busy.
fn compute(computing: Duration) {
    if computing > Duration::ZERO {
        let start = Instant::now();
        while start.elapsed() < computing {
            std::hint::spin_loop();
        }
    }
}

/// Returns the left, right, upper and lower neighbour of a rank in a torus; `ranks` is a power of
/// two.
fn neighbours(me: i32, ranks: i32) -> [i32; 4] {
    let columns = 1 << ranks.ilog2().div_ceil(2);
    let (row, column) = (me / columns, me % columns);
    let rows = ranks / columns;
    let at = |row: i32, column: i32| row.rem_euclid(rows) * columns + column.rem_euclid(columns);
    [at(row, column - 1), at(row, column + 1), at(row - 1, column), at(row + 1, column)]
}

/// Measures a program. Returns the microseconds per step in each round.
fn measure(job: &mut Job<'_>, program: Program, args: &ProgramsArgs) -> Result<Vec<f64>> {
    let timed = |job: &mut Job<'_>, n| {
        let start = Instant::now();
        program.run(job, n).map(|()| start.elapsed())
    };
    // A few repetitions make the connections and fault the pages in.
    let (mut n, mut each) = (8, Duration::MAX);
    while agree(job.dev, job.comm, u32::from(each == Duration::MAX))? != 0 {
        n = agree(job.dev, job.comm, n)?;
        let took = timed(job, n)?;
        if took >= CALIBRATED || n > 1 << 24 || args.iters.is_some() {
            each = (took / n).max(Duration::from_nanos(1));
        }
        n *= 4;
    }
    let fits = |wanted: Duration| (wanted.as_nanos() / each.as_nanos()).clamp(1, 1 << 24) as u32;
    let (warm, round) = args.iters.map_or_else(|| (fits(WARM_UP), fits(ROUND)), |n| (1, n));
    let warm = agree(job.dev, job.comm, warm)?;
    program.run(job, warm)?;
    let n = agree(job.dev, job.comm, round)?;
    let steps = f64::from(n) * program.steps(job.ranks);
    (0..args.rounds).map(|_| Ok(timed(job, n)?.as_secs_f64() * 1e6 / steps)).collect()
}

/// Runs one rank. Rank 0 returns the rows.
pub(crate) fn rank(args: &ProgramsArgs) -> Result<Vec<Row>> {
    let mut dev = launch::join((&args.job).into())?.dev;
    let (me, ranks, comm) = (dev.rank() as i32, dev.size() as i32, dev.world());
    let netmod = dev.netmods().first().map(ToString::to_string);
    let mut job =
        Job { dev: &mut dev, comm, me, ranks, send: vec![me as u8; LARGEST], recv: vec![0; 4 * LARGEST] };
    let measured = (u32::try_from(ranks).is_ok_and(u32::is_power_of_two) && ranks > 1)
        .then_some(())
        .ok_or_else(|| Failure::new(format!("this job has {ranks} ranks; the programs need 2, 4, 8 or so")))
        .and_then(|()| {
            ALL.iter().map(|(program, _)| measure(&mut job, *program, args)).collect::<Result<Vec<_>>>()
        });
    let measured = match measured {
        Ok(measured) => measured,
        Err(e) => crate::fail_as_rank(dev, &e),
    };
    dev.finalize()?;
    let rows = ALL.iter().zip(measured).map(|((program, kind), took)| Row {
        test: "programs".into(),
        kind: Some((*kind).into()),
        netmod: netmod.clone(),
        ranks: Some(ranks as u32),
        bytes: Some(program.bytes()),
        value: rounded(median(&took)),
        best: Some(rounded(took.iter().copied().fold(f64::INFINITY, f64::min))),
        unit: "us".into(),
        rounds: Some(took.len()),
        ..Row::default()
    });
    Ok(if me == 0 { rows.collect() } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_each_other() {
        assert_eq!(neighbours(0, 2), [1, 1, 0, 0]);
        assert_eq!(neighbours(3, 4), [2, 2, 1, 1]);
        assert_eq!(neighbours(0, 8), [3, 1, 4, 4]);
        for ranks in [2, 4, 8, 16, 32] {
            for me in 0..ranks {
                let around = neighbours(me, ranks);
                for (direction, next) in around.into_iter().enumerate() {
                    assert_eq!(neighbours(next, ranks)[direction ^ 1], me);
                }
            }
        }
    }
}
