//! The PMI-1 server of one job, without I/O: lines in, lines and events out.
//!
//! [`Server`] gets the lines of each rank, and is told when a rank is gone. Lines to send go to a
//! sink, so sockets or a test can drive it.

mod command;
mod kvs;
mod names;
#[cfg(test)]
mod tests;

pub use command::{Command, CommandError};
pub use kvs::{KEY_MAX, Kvs, KvsError, VALUE_MAX};
pub use names::Names;

use crate::Spawn;
use crate::spawn::{ENDED, SpawnLines};

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

/// Longest name of a key-value space that is announced, in bytes.
const KVSNAME_MAX: usize = 256;

/// The effect of a rank's line beyond replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more.
    Continue,
    /// The rank requests the end of the job.
    Abort {
        /// The requested exit code.
        code: i32,
    },
    /// The rank asks for programs; [`Server::spawned`] answers it.
    Spawn(Spawn),
}

/// A rank's violation of the protocol; nothing it sends can be trusted any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("said \"{line}\" over PMI: {why}")]
pub struct Fault {
    /// The line (its beginning, escaped).
    pub line: String,
    /// The error in it.
    pub why: String,
}

/// A line that is not allowed at this point of a rank's conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Misplaced {
    #[error("it comes before cmd=init")]
    BeforeInit,
    #[error("it is the second cmd=init")]
    SecondInit,
    #[error("it comes between barrier_in and barrier_out")]
    InBarrier,
    #[error("it comes after cmd=finalize")]
    AfterFinalize,
}

/// The progress of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has not sent `init`.
    Started,
    /// It has sent `init`.
    Initialized,
    /// It has sent `finalize`.
    Finalized,
}

/// The receiver of data to send to ranks.
pub trait Sink {
    /// Appends a line, newline included, to what is sent to the rank.
    fn send(&mut self, rank: u32, line: &str);
}

/// The server's state for one job.
#[derive(Debug)]
pub struct Server {
    name: String,
    kvs: Kvs,
    stages: Vec<Stage>,
    in_barrier: Vec<bool>,
    /// Number of ranks in the current barrier.
    waiting: usize,
    /// Ranks that will never enter a barrier again.
    gone: Vec<bool>,
    gone_count: usize,
    /// The ranks among them that failed.
    dead: BTreeSet<u32>,
    /// True if barriers continue without the ranks that are gone.
    tolerant: bool,
    mapping: String,
    /// The number of each rank's program.
    programs: Vec<u32>,
    universe: u32,
    names: Names,
    /// The requests for programs that are under way, by ranks.
    spawns: Vec<SpawnLines>,
    reply: String,
}

impl Server {
    /// Creates a server for the ranks `0 .. size` of the job `name`, all on this node.
    ///
    /// With `tolerant`, barriers wait only for the ranks that are not gone.
    pub fn new(name: String, size: u32, tolerant: bool) -> Server {
        let ranks = size as usize;
        Server {
            name,
            kvs: Kvs::new(size),
            stages: vec![Stage::Started; ranks],
            in_barrier: vec![false; ranks],
            waiting: 0,
            gone: vec![false; ranks],
            gone_count: 0,
            dead: BTreeSet::new(),
            tolerant,
            mapping: format!("(vector,(0,1,{}))", size.max(1)),
            programs: vec![0; ranks],
            universe: size,
            names: Names::default(),
            spawns: (0..ranks).map(|_| SpawnLines::default()).collect(),
            reply: String::new(),
        }
    }

    /// Shares published names with other jobs.
    #[must_use]
    pub fn names(mut self, names: Names) -> Server {
        self.names = names;
        self
    }

    /// Gives the key-value space these values from the beginning.
    #[must_use]
    pub fn values(mut self, values: &[(String, String)]) -> Server {
        values.iter().for_each(|(key, value)| self.kvs.preset(key, value));
        self
    }

    /// Reports nodes of `ranks` ranks each, one block after the other.
    #[must_use]
    pub fn per_node(mut self, ranks: u32) -> Server {
        let ranks = ranks.max(1);
        self.mapping = format!("(vector,(0,{},{ranks}))", self.size().div_ceil(ranks).max(1));
        self
    }

    /// Reports these numbers of the ranks' programs instead of 0. Ranks beyond have 0.
    #[must_use]
    pub fn programs(mut self, mut numbers: Vec<u32>) -> Server {
        numbers.resize(self.stages.len(), 0);
        self.programs = numbers;
        self
    }

    /// Reports this universe size instead of the number of ranks.
    #[must_use]
    pub fn universe(mut self, ranks: u32) -> Server {
        self.universe = ranks;
        self
    }

    /// Returns the name of the job's key-value space.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u32 {
        // `new` got it as a u32.
        self.stages.len() as u32
    }

    /// Returns the progress of a rank.
    pub fn stage(&self, rank: u32) -> Stage {
        self.stages[rank as usize]
    }

    /// Returns a rank whose barrier cannot end because another rank is gone, and that rank.
    ///
    /// `None` with a tolerant server.
    pub fn stuck_barrier(&self) -> Option<(u32, u32)> {
        if self.tolerant || self.waiting == 0 || self.gone_count == 0 {
            return None;
        }
        let waiting = self.in_barrier.iter().position(|b| *b)?;
        let gone = (0..self.gone.len()).find(|r| self.gone[*r] && !self.in_barrier[*r])?;
        Some((waiting as u32, gone as u32))
    }

    /// Handles one line of a rank.
    ///
    /// # Errors
    ///
    /// Fails if the rank has violated the protocol; call [`rank_gone`](Self::rank_gone) when it is
    /// ended.
    pub fn line(&mut self, rank: u32, line: &[u8], sink: &mut dyn Sink) -> Result<Outcome, Fault> {
        let fault = |why: String| Fault { line: crate::wire::quote(line), why };
        if let Some(taken) = self.spawns[rank as usize].take(line) {
            if self.stages[rank as usize] != Stage::Initialized {
                return Err(fault(Misplaced::BeforeInit.to_string()));
            }
            if self.in_barrier[rank as usize] {
                return Err(fault(Misplaced::InBarrier.to_string()));
            }
            let request = taken.map_err(|e| fault(e.to_string()))?;
            return Ok(request.map_or(Outcome::Continue, Outcome::Spawn));
        }
        let command = Command::parse(line).map_err(|e| fault(e.to_string()))?;
        let stage = self.stages[rank as usize];
        match command {
            Command::Init { .. } | Command::Initack { .. } | Command::Abort { .. } => {}
            _ if stage == Stage::Initialized => {}
            _ if stage == Stage::Started => return Err(fault(Misplaced::BeforeInit.to_string())),
            _ => return Err(fault(Misplaced::AfterFinalize.to_string())),
        }
        if self.in_barrier[rank as usize] && !matches!(command, Command::Abort { .. }) {
            return Err(fault(Misplaced::InBarrier.to_string()));
        }
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        let outcome = self.execute(rank, command, &mut reply, sink).map_err(|e| fault(e.to_string()));
        if !reply.is_empty() {
            reply.push('\n');
            sink.send(rank, &reply);
        }
        self.reply = reply;
        outcome
    }

    fn execute(
        &mut self,
        rank: u32,
        command: Command<'_>,
        reply: &mut String,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, Misplaced> {
        // Writing to a String cannot fail, so the results of write! below are ignored.
        match command {
            Command::Initack { .. } => {
                let size = self.size();
                let _ =
                    write!(reply, "cmd=initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0");
            }
            Command::Init { version } => {
                if self.stages[rank as usize] != Stage::Started {
                    return Err(Misplaced::SecondInit);
                }
                let rc = if version == 1 { 0 } else { -1 };
                if rc == 0 {
                    self.stages[rank as usize] = Stage::Initialized;
                }
                let _ = write!(reply, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={rc}");
            }
            Command::GetMaxes => {
                let _ = write!(
                    reply,
                    "cmd=maxes kvsname_max={KVSNAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"
                );
            }
            Command::GetAppnum => {
                let _ = write!(reply, "cmd=appnum appnum={}", self.programs[rank as usize]);
            }
            Command::GetUniverseSize => {
                let _ = write!(reply, "cmd=universe_size size={}", self.universe);
            }
            Command::GetMyKvsname => {
                let _ = write!(reply, "cmd=my_kvsname kvsname={}", self.name);
            }
            Command::Put { kvsname, key, value } => {
                let stored = if kvsname == self.name {
                    self.kvs.put(rank, key, value)
                } else {
                    Err(KvsError::OtherSpace)
                };
                match stored {
                    Ok(()) => reply.push_str("cmd=put_result rc=0 msg=success"),
                    Err(e) => {
                        let _ = write!(reply, "cmd=put_result rc=-1 msg={}", e.word());
                    }
                }
            }
            Command::Get { kvsname, key } => self.get(kvsname, key, reply),
            Command::BarrierIn => {
                self.in_barrier[rank as usize] = true;
                self.waiting += 1;
                self.end_barrier(sink);
            }
            Command::Finalize => {
                self.stages[rank as usize] = Stage::Finalized;
                reply.push_str("cmd=finalize_ack");
            }
            Command::Abort { code } => return Ok(Outcome::Abort { code }),
            Command::PublishName { service, port } => {
                let _ = match self.names.publish(service, port) {
                    Ok(()) => write!(reply, "cmd=publish_result info=ok rc=0 msg=success"),
                    Err(why) => write!(reply, "cmd=publish_result info=failed rc=-1 msg={why}"),
                };
            }
            Command::UnpublishName { service } => {
                reply.push_str(if self.names.unpublish(service) {
                    "cmd=unpublish_result info=ok rc=0 msg=success"
                } else {
                    "cmd=unpublish_result info=failed rc=-1 msg=the_name_is_not_published"
                });
            }
            Command::LookupName { service } => {
                let _ = match self.names.lookup(service) {
                    Some(port) => write!(reply, "cmd=lookup_result info=ok rc=0 port={port}"),
                    None => {
                        write!(reply, "cmd=lookup_result info=failed rc=-1 msg=the_name_is_not_published")
                    }
                };
            }
        }
        Ok(Outcome::Continue)
    }

    /// Answers a rank that has asked for programs: with the name of their job, or the reason for
    /// which they were not started.
    pub fn spawned<E: Display>(&mut self, rank: u32, result: Result<String, E>, sink: &mut dyn Sink) {
        let reply = match result {
            Ok(job) => format!("cmd=spawn_result rc=0 jobid={job} nerrs=0\n"),
            Err(why) => {
                // A reply is one line of printable words without other keys.
                let why: String = why
                    .to_string()
                    .chars()
                    .map(|c| if c.is_ascii_graphic() && c != '=' { c } else { ' ' })
                    .collect();
                format!("cmd=spawn_result rc=-1 msg={why}\n")
            }
        };
        sink.send(rank, &reply);
    }

    fn get(&self, kvsname: &str, key: &str, reply: &mut String) {
        let (dead, ended);
        let value = match key {
            ENDED => {
                ended = self.names.end_of(kvsname).map(|code| code.to_string());
                ended.as_deref()
            }
            _ if kvsname != self.name => None,
            "PMI_process_mapping" => Some(self.mapping.as_str()),
            // Hydra's key for the ranks that died, when the job continues without them.
            "PMI_dead_processes" if !self.dead.is_empty() => {
                let ranks: Vec<String> = self.dead.iter().map(u32::to_string).collect();
                dead = ranks.join(",");
                Some(dead.as_str())
            }
            _ => self.kvs.get(key),
        };
        let _ = match value {
            Some(value) => write!(reply, "cmd=get_result rc=0 msg=success value={value}"),
            None => write!(reply, "cmd=get_result rc=-1 msg=key_not_found value=unknown"),
        };
    }

    /// Notes that a rank has ended; `failed` if it did not end properly.
    pub fn rank_gone(&mut self, rank: u32, failed: bool, sink: &mut dyn Sink) {
        let index = rank as usize;
        if std::mem::replace(&mut self.gone[index], true) {
            return;
        }
        self.gone_count += 1;
        if failed {
            self.dead.insert(rank);
        }
        if self.tolerant {
            if std::mem::take(&mut self.in_barrier[index]) {
                self.waiting -= 1;
            }
            self.end_barrier(sink);
        }
    }

    fn end_barrier(&mut self, sink: &mut dyn Sink) {
        let excused = if self.tolerant { self.gone_count } else { 0 };
        if self.waiting == 0 || self.waiting + excused < self.gone.len() {
            return;
        }
        self.waiting = 0;
        for (rank, waits) in self.in_barrier.iter_mut().enumerate() {
            if std::mem::take(waits) {
                sink.send(rank as u32, "cmd=barrier_out\n");
            }
        }
    }
}
