//! Jobs of several processes: the cases of the program `netmod-job`, and how tests start them.
//!
//! A case is run by every rank under some launcher. It checks each byte it receives, and its error
//! makes the process exit with 1. [`launch`] starts jobs under a watchdog and keeps what they say.

mod asleep;
mod basic;
mod broken;
mod checkpoint;
mod ending;
mod failing;
mod flood;
mod forks;
mod hanging;
pub mod kills;
pub mod launch;
pub mod matrix;
pub mod meeting;
mod moves;
pub mod mpi;
mod orphans;
pub mod outage;
pub mod pattern;
mod random;
pub mod slurm;
mod span;
mod starving;
pub mod sys;
pub mod tap;
pub mod threads;
pub mod unplugged;
mod waiting;

use ch3_shim::Device;

pub use hanging::GO;

/// Result of a case: its error says what was wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Action of a rank after its case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Finalizes.
    Finalize,
    /// Ends the whole job with this code.
    Abort(i32),
    /// Exits with 0 without finalizing.
    Leave,
    /// A forked child: drops the device, and exits with 0.
    Child,
}

/// Numbers behind the name of a case.
#[derive(Clone, Debug)]
pub struct Args(Vec<u64>);

impl Args {
    /// From the command line.
    ///
    /// # Errors
    /// An argument that is not a number.
    pub fn parse(texts: impl IntoIterator<Item = String>) -> Result<Args> {
        let number = |t: String| t.parse().map_err(|_| format!("argument \"{t}\" is not a number").into());
        texts.into_iter().map(number).collect::<Result<_>>().map(Args)
    }

    /// The argument at a place, or a default.
    pub fn get(&self, at: usize, default: u64) -> u64 {
        self.0.get(at).copied().unwrap_or(default)
    }

    /// The argument at a place as a rank of the job.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn rank(&self, at: usize, default: u64, dev: &Device) -> Result<i32> {
        let rank = self.get(at, default);
        match i32::try_from(rank) {
            Ok(r) if rank < u64::from(dev.size()) => Ok(r),
            _ => Err(format!("rank {rank} is not in a job of {}", dev.size()).into()),
        }
    }
}

/// A case: what each rank does between joining the job and leaving it.
pub type Body = fn(&mut Device, &Args) -> Result<End>;

/// One case of the program.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Its arguments with their defaults, and what it is.
    pub help: &'static str,
    /// Function of the case.
    pub body: Body,
}

/// All cases.
pub const CASES: &[Case] = &[
    Case { name: "ring", help: "[LAPS=200] [BYTES=1000]: a message goes round", body: basic::ring },
    Case {
        name: "alltoall",
        help: "[LONGEST=200000]: every pair, sizes 8, 4096, LONGEST",
        body: basic::alltoall,
    },
    Case {
        name: "choices",
        help: "every pair; each rank says what it has opened, which netmod it has for each other one, and why",
        body: basic::choices,
    },
    Case {
        name: "many-to-one",
        help: "[MESSAGES=200]: from each rank to rank 0, with wildcards",
        body: basic::many_to_one,
    },
    Case {
        name: "flood",
        help: "[MESSAGES=1000] [MS=300]: from each rank to rank 0, which receives none before its room is used up",
        body: flood::flood,
    },
    Case {
        name: "random",
        help: "[SEED=1] [ROUNDS=12] [MESSAGES=12]: of each rank and round",
        body: random::random,
    },
    Case {
        name: "barriers",
        help: "[COUNT=500]: nobody leaves one before all are in it",
        body: basic::barriers,
    },
    Case {
        name: "reuse",
        help: "[ROUNDS=10]: disconnect from each rank, and use the connection again",
        body: basic::reuse,
    },
    Case {
        name: "broken",
        help: "[SEED=1] [ROUNDS=25] [MESSAGES=5]: connections break, and nothing is lost",
        body: broken::broken,
    },
    Case {
        name: "moving",
        help: "[RANKS=1]: rank 0, or both, is checkpointed and comes back with another address",
        body: outage::moving,
    },
    Case {
        name: "checkpoint",
        help: "[SEED=1] [ROUNDS=10]: ranks are checkpointed in the middle of traffic",
        body: checkpoint::checkpoint,
    },
    Case {
        name: "moves",
        help: "[SEED=1] [ROUNDS=4]: all ranks are checkpointed at once, and come back at other ports",
        body: moves::moves,
    },
    Case { name: "large", help: "[BYTES=2214592525]: one message from rank 0 to rank 1", body: basic::large },
    Case {
        name: "span",
        help: "[LONGEST=8388608] [PIECES=0]: messages of all lengths from rank 0 to rank 1; PIECES: 1 of the sender, 2 of \
               the receiver, 3 of both are not contiguous",
        body: span::span,
    },
    Case {
        name: "idle",
        help: "[MILLISECONDS=3000] [PERCENT=1]: all but rank 0 wait that long",
        body: waiting::idle,
    },
    Case {
        name: "asleep",
        help: "[MILLISECONDS=1500]: rank 1 sleeps while rank 0 puts or gets, and sends; with 0, until rank 0 has put or got",
        body: asleep::asleep,
    },
    Case {
        name: "crush",
        help: "[BYTES=65536] [ROUNDS=2]: all-to-all; rank 0 says what it took of memory and processors",
        body: waiting::crush,
    },
    Case {
        name: "cores",
        help: "SHARED: whether ranks share cores is found out; 1: they do",
        body: waiting::cores,
    },
    Case { name: "crowd", help: "[BARRIERS=20]: all-to-all and barriers", body: basic::crowd },
    Case {
        name: "late",
        help: "[SECONDS=2]: rank 1 joins late, and is late again with its first progress",
        body: failing::late,
    },
    Case { name: "silent", help: "nobody sends anything", body: basic::silent },
    Case { name: "abort", help: "[RANK=1] [CODE=7]: a rank ends the job", body: failing::abort },
    Case {
        name: "abort-late",
        help: "2 ranks: one aborts while the other writes into its memory, and the launcher is stopped",
        body: ending::abort,
    },
    Case { name: "leave", help: "[RANK=1]: a rank exits with 0 without finalizing", body: failing::leave },
    Case { name: "signalled", help: "each rank gets SIGUSR1, and goes on", body: failing::signalled },
    Case {
        name: "lose",
        help: "[RANK=1]: a rank is killed; the others notice, and give up",
        body: failing::lose,
    },
    Case {
        name: "widowed",
        help: "[RANK=1] [SECONDS=20]: a rank is killed; one that waits for it is told in time, the others talk and are not disturbed",
        body: failing::widowed,
    },
    Case {
        name: "stopped",
        help: "[ROUNDS=20]: 4 ranks: the launcher is stopped while a ring goes on",
        body: orphans::stopped,
    },
    Case {
        name: "orphaned",
        help: "[GO_ON=0]: 3 ranks: the launcher is killed; the ranks end with it, or go on if they were told to",
        body: orphans::orphaned,
    },
    Case { name: "forks", help: "[ROUNDS=6] [BYTES=1048576]: ranks fork in mid-traffic", body: forks::forks },
    Case {
        name: "children",
        help: "[ROUNDS=3] [BYTES=1048576]: ranks fork; the children's calls are refused, and they drop the device",
        body: forks::children,
    },
    Case {
        name: "unplugged",
        help: "[MS_OF_SILENCE=1000] [MS=1000]: the port of 2 ranks goes away, and comes back",
        body: unplugged::unplugged,
    },
    Case { name: "starve-dial", help: "4 ranks: rank 0 has no descriptor for a dial", body: starving::dial },
    Case {
        name: "starve-accept",
        help: "3 ranks: rank 1 has no descriptor for a connection, for a while",
        body: starving::accept,
    },
    Case {
        name: "silence",
        help: "[SENDING=0] [SECONDS=30]: the network between two hosts goes for good",
        body: outage::silence,
    },
    Case {
        name: "pause",
        help: "[MILLISECONDS=1500]: the network between two hosts goes for a while",
        body: outage::pause,
    },
    Case {
        name: "strays",
        help: "[LAPS=40] [BYTES=50000] [DIALLER]: traffic; each rank says how many connections came by another interface than was meant",
        body: outage::strays,
    },
    Case {
        name: "departed",
        help: "[LAPS=40] [BYTES=300000]: an interface of one of two hosts goes down in mid-traffic",
        body: outage::departed,
    },
    Case {
        name: "returned",
        help: "[LAPS=40] [BYTES=300000]: an interface goes down in mid-traffic and comes up again, twice",
        body: outage::returned,
    },
    Case {
        name: "host",
        help: "[ROUNDS=20] [BYTES=50000]: accepts a `guest` again and again",
        body: meeting::host,
    },
    Case {
        name: "guest",
        help: "[ROUNDS=20] [BYTES=50000]: another job, which connects to a `host`",
        body: meeting::guest,
    },
    Case { name: "widow", help: "accepts a `victim`, which dies, and then an `heir`", body: meeting::widow },
    Case { name: "victim", help: "another job, which dies when it is connected", body: meeting::victim },
    Case { name: "patient", help: "accepts jobs until one does not die", body: meeting::patient },
    Case {
        name: "hasty",
        help: "[milliseconds]: another job, which dies so long after it has begun to connect",
        body: meeting::hasty,
    },
    Case { name: "heir", help: "another job, which comes after a `victim`", body: meeting::heir },
    Case {
        name: "stood-up",
        help: "accepts a `quitter`, and waits for its first message",
        body: meeting::stood_up,
    },
    Case {
        name: "quitter",
        help: "another job, which ends when it is connected, without a message",
        body: meeting::quitter,
    },
    Case {
        name: "hang",
        help: "rank 0 leaves the others waiting until the file NETMOD_TEST_GO exists",
        body: hanging::hang,
    },
    Case {
        name: "die",
        help: "[RANK=1]: a rank is killed in mid-traffic; the others go on",
        body: failing::die,
    },
    Case {
        name: "kill",
        help: "[STAGE=2] [RANK=1] [SEED=1]: a rank is killed at a stage; the others go on",
        body: kills::kill,
    },
    Case {
        name: "unmet",
        help: "[RANK=1] [SEED=1]: a rank is killed before its first message; the others go on",
        body: kills::unmet,
    },
    Case {
        name: "mortal",
        help: "[SEED=1] [ROUNDS=60] [MICROSECONDS=300000]: a rank is killed at any moment of random traffic",
        body: kills::mortal,
    },
];

/// The case of a name.
pub fn case(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|c| c.name == name)
}

/// The environment variable with the seconds after which a rank gives up and says so.
pub const LIMIT: &str = "NETMOD_TEST_JOB_LIMIT";
