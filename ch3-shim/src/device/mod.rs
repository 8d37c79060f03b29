//! The device: one MPI process.
//!
//! `levels` says which threads may use it; this file is its one engine with the queues. `init`
//! builds it from the environment, `wait` drives it, `waker` ends its sleeps, `leave` ends it or
//! one of its connections, `failure` is about peers that failed, `watch` about those whose end
//! nobody else would tell, `launcher` about what the process manager is asked; `status` and `serve`
//! tell what it is doing, `counters` gives figures to tools; `raw` is the interface for bindings,
//! `rma` that for one-sided operations, `owned`, `scope` and `blocking` are the safe ones, `probe`
//! looks at messages before they are received, `dynamic` meets other jobs.

mod blocking;
mod checkpoint;
mod contexts;
mod counters;
mod dropped;
mod dynamic;
mod failed;
mod failure;
mod forward;
mod init;
mod launcher;
mod leave;
mod levels;
mod multiple;
mod owned;
mod probe;
mod raw;
mod register;
mod rma;
mod scope;
mod serve;
mod shared_boot;
mod sharing;
mod staged;
mod status;
mod wait;
mod waker;
mod watch;
mod yielding;

use std::sync::Arc;

use crate::Config;
use forks::Origin;
use netmod_core::{Break, DeviceError, Diagnose, Engine, PollOrder, Pollers, Time, VcStats};

use crate::ch3::{Ch3, DeviceStats, FlowReport, Group, MOST_THREADS, WORLD, context_of, process_of, to_wire};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::netset::NetSet;
use crate::progress::Guarded;
use crate::tagmatch::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};

pub use contexts::Note;
pub use counters::Counters;
pub use dynamic::{InterComm, Link};
pub use failed::{Completion, Ended, Failed, SomeFailed};
pub use init::Builder;
pub use leave::Disconnecting;
pub use levels::{Device, Exclusive, Funneled, Level, Serialized};
pub use multiple::{Multiple, SharedMessage, SharedRequest};
pub use owned::{Request, Waitable};
pub use probe::Message;
pub use raw::RawReq;
pub use register::NetmodSetup;
pub use rma::RmaRefused;
pub use scope::Scope;
pub use waker::Waker;

use dropped::Dropped;
use leave::Departure;
use serve::Served;
use wait::Waiting;

/// A rank that stands for nobody: messages to and from it are done at once and empty
/// (`MPI_PROC_NULL`).
pub const PROC_NULL: i32 = -1;

/// Context ids that a layer above may agree upon.
const NAMED_CONTEXTS: u32 = 1 << 29;

/// A communicator: a context in which messages match, with the processes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Comm {
    context: u32,
    group: u32,
}

impl Comm {
    /// Its context id in this process.
    pub fn context(self) -> u32 {
        self.context
    }
}

/// A report on the VC with one peer.
#[derive(Clone, Debug)]
pub struct VcReport {
    /// The peer.
    pub rank: u32,
    /// State of the VC in the close protocol.
    pub state: &'static str,
    /// Netmod, and the reasons against the others.
    pub choice: String,
    /// Longest message that is sent without waiting for its receive, in bytes.
    pub eager_max: usize,
    /// Credit in both directions, and its use.
    pub flow: FlowReport,
    /// Connection, as the netmod describes it.
    pub netmod: String,
    /// Messages and bytes in both directions.
    pub stats: VcStats,
}

/// An engine with the queues and requests of its device: what MPICH calls a virtual communication
/// interface.
///
/// One thread uses it at a time. It is had through a [`Device`].
#[derive(Debug)]
pub struct Vci {
    /// Dropped before the queues: netmods take back the memory that peers reach, which the queues
    /// own.
    engine: Guarded<Engine<NetSet>>,
    ch3: Ch3,
    /// Requests whose handles were dropped.
    dropped: Arc<Dropped>,
    /// The process that made it. A forked child has a copy, by which it must do nothing that others
    /// see.
    origin: Origin,
    cfg: Config,
    ticks: Ticks,
    /// Time of the last look at the clock.
    now: Time,
    cores: Cores,
    waiting: Waiting,
    departure: Departure,
    asking: launcher::Asking,
    watching: watch::Watching,
    served: Served,
}

/// The clock, and the polls that read it.
#[derive(Debug)]
struct Ticks {
    clock: Clock,
    /// Polls since the device was made.
    polls: u32,
    /// A poll reads the clock if its number has none of these bits: every 64th poll, or each one
    /// with a virtual clock.
    mask: u32,
}

impl Ticks {
    /// Lets the next poll read the clock.
    fn expect(&mut self) {
        self.polls |= self.mask;
    }

    /// Counts a poll. Returns true if it is to read the clock.
    #[inline]
    fn count(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        self.polls & self.mask == 0
    }
}

/// The cores that this process may use, and the threads that poll on them.
#[derive(Clone, Copy, Debug)]
struct Cores {
    /// Polling threads of the job on this node.
    pollers: Pollers,
    /// Threads of the netmods' libraries in this process.
    threads: usize,
}

impl Cores {
    /// Returns true if more threads poll than there are cores.
    fn are_crowded(self) -> bool {
        self.pollers.are_crowded(self.threads)
    }
}

impl Vci {
    /// Returns an error in a forked child.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    fn check_origin(&self) -> Result<()> {
        if self.origin.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.ch3.groups.world.me
    }

    /// Number of processes of the job.
    pub fn size(&self) -> u32 {
        self.ch3.groups.world.size
    }

    /// The communicator of all processes.
    pub fn world(&self) -> Comm {
        Comm { context: 0, group: WORLD }
    }

    /// A communicator of the same processes whose messages match no other's. All processes must
    /// call this in the same order; nothing is sent.
    ///
    /// # Errors
    /// If the communicator was disconnected, or its group has no context left.
    pub fn dup(&mut self, comm: Comm) -> Result<Comm> {
        self.check_origin()?;
        if self.group(comm)?.are_contexts_named() {
            let text = "dup: the context ids of this device are agreed by the layer above (comm_of_context); ask that for a communicator";
            return Err(Error::Usage(text.into()));
        }
        let context = self.ch3.groups.get_mut(comm.group).and_then(Group::new_context).ok_or_else(|| {
            Error::Usage("dup: the group has no context id left; use its communicators longer".into())
        })?;
        Ok(Comm { context, ..comm })
    }

    /// Returns the communicator of all processes with a context id that the caller's layer has
    /// agreed upon and takes care of. Messages match if both sides name the same context.
    ///
    /// A device gives out context ids either by this or by [`Vci::dup`].
    ///
    /// # Errors
    /// If the id is 2^29 or more, or if the device has given out ids by [`Vci::dup`].
    pub fn comm_of_context(&mut self, context: u32) -> Result<Comm> {
        self.comm_with_jobs(context, &[])
    }

    /// Works like [`Vci::comm_of_context`] for a communicator that also has processes at these
    /// places of other jobs.
    ///
    /// # Errors
    /// As [`Vci::comm_of_context`].
    pub fn comm_with_jobs(&mut self, context: u32, places: &[u32]) -> Result<Comm> {
        self.check_origin()?;
        if context >= NAMED_CONTEXTS {
            let text = format!("context id {context} is too large: those of communicators are below 2^29");
            return Err(Error::Usage(text));
        }
        if !self.ch3.groups.world.name_contexts() {
            let text = "comm_of_context: this device has duplicated communicators by itself; agree on the ids of all, or of none";
            return Err(Error::Usage(text.into()));
        }
        self.ch3.groups.set_mixed(context, places);
        Ok(Comm { context, group: WORLD })
    }

    /// Returns what a thread of this process, by its index, has of a communicator of threads with a
    /// context id that the caller's layer has agreed upon. Its messages go to places of threads
    /// ([`crate::thread_place`]) and come from them.
    ///
    /// # Errors
    /// As [`Vci::comm_of_context`]; a context of more than 13 bits, an index of
    /// [`crate::MOST_THREADS`] or more.
    pub fn comm_of_thread(&mut self, context: u32, thread: u32) -> Result<Comm> {
        let comm = self.comm_of_context(context)?;
        let context = context_of(context, thread).ok_or_else(|| {
            let text = format!("thread {thread} in context {context}: contexts of threads are below 2^13, and a process has {MOST_THREADS} of them");
            Error::Usage(text)
        })?;
        Ok(Comm { context, ..comm })
    }

    /// Number of processes that messages of this communicator can go to.
    ///
    /// # Errors
    /// If the communicator was disconnected.
    pub fn comm_size(&self, comm: Comm) -> Result<u32> {
        Ok(self.group(comm)?.size)
    }

    /// The group that a communicator's messages go to.
    #[inline]
    fn group(&self, comm: Comm) -> Result<&Group> {
        match self.ch3.groups.get(comm.group) {
            Some(g) if g.space.owns(comm.context) => Ok(g),
            _ => Err(contexts::unusable(comm)),
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// Changes a setting that is read when it is used. The others hold as they were when the device
    /// was made.
    ///
    /// # Errors
    /// If the name is unknown, or the value is not accepted.
    pub fn change_setting(&mut self, name: &str, value: &str) -> Result<()> {
        self.cfg.set(name, value).map_err(|e| Error::Config(e.to_string()))
    }

    /// Returns true if more threads of the job's processes on this node want to poll than the cores
    /// that they share, as far as this process can use them.
    pub fn shares_cores(&self) -> bool {
        self.cores.are_crowded()
    }

    /// Counts of the device.
    pub fn stats(&self) -> DeviceStats {
        self.ch3.stats
    }

    /// Returns the figures of the netmod whose report has the type `R`, such as
    /// `netmod_tcp::TcpReport`; `None` if the device has no such netmod.
    ///
    /// A netmod of somebody else's gives a type of its own ([`Diagnose::report`]).
    pub fn netmod_report<R: 'static>(&self) -> Option<R> {
        self.engine.look(|e| e.netmod.report_of())
    }

    /// Breaks a connection with a rank of the job as a fault of the network would, for tests and
    /// drills. Returns false if there is none.
    ///
    /// # Errors
    /// Fails if the rank does not exist, or if the VC's netmod or the system cannot do it.
    pub fn break_connection(&mut self, rank: u32, how: Break) -> Result<bool> {
        self.check_origin()?;
        let rank = self.check_rank(i32::try_from(rank).unwrap_or(-1))?;
        match self.ch3.groups.world.vcs.get(rank) {
            Some(vc) => {
                let engine = &mut *self.engine;
                Ok(engine.netmod.break_connection(&mut engine.core, vc, how)?)
            }
            None => Ok(false),
        }
    }

    /// Requests that are not used up: under way, or finished and not yet waited for.
    pub fn live_requests(&self) -> usize {
        self.engine.look(|e| e.core.req_count())
    }

    /// VCs that exist, with processes of this job and of others.
    pub fn live_vcs(&self) -> usize {
        self.engine.look(|e| e.core.vc_count())
    }

    /// Messages that wait for a receive.
    pub fn unexpected_len(&self) -> usize {
        self.ch3.queues.unexpected.len()
    }

    /// Receives that wait for a message.
    pub fn posted_len(&self) -> usize {
        self.ch3.queues.posted.len()
    }

    /// The netmods in use, in order of preference.
    pub fn netmods(&self) -> Vec<&'static str> {
        self.engine.look(|e| e.netmod.netmods().map(|n| n.name()).collect())
    }

    /// Reports on the VCs with the peers of the job that have been used.
    pub fn report(&self) -> Vec<VcReport> {
        let vcs = self.ch3.groups.world.vcs.iter();
        self.engine.look(|engine| {
            vcs.filter_map(|(rank, vc)| {
                let v = engine.core.vc(vc)?;
                Some(VcReport {
                    rank,
                    state: v.state.name(),
                    choice: self.ch3.vcs.get(vc).map(|s| s.route.choice.to_string()).unwrap_or_default(),
                    eager_max: self
                        .ch3
                        .vcs
                        .get(vc)
                        .map_or(self.ch3.budget.eager_max, |s| s.eager_max as usize),
                    flow: self.ch3.flow_report(vc),
                    netmod: engine.netmod.describe(&engine.core, vc),
                    stats: v.stats,
                })
            })
            .collect()
        })
    }

    /// Makes progress once, without waiting. Whether anything happened.
    ///
    /// # Errors
    /// If a netmod fails as a whole.
    #[inline]
    pub fn progress(&mut self) -> Result<bool> {
        self.check_origin()?;
        let busy = self.poll(PollOrder::InFirst)?;
        // Answers of this step leave with it.
        if self.engine.core.is_staged() {
            self.flush();
        }
        self.end_call();
        Ok(busy)
    }

    /// Makes progress as [`Vci::progress`] does, with all that is due by the clock. It is for
    /// waits that call the device seldom, which would learn of failures late.
    ///
    /// # Errors
    /// As [`Vci::progress`].
    pub fn progress_by_clock(&mut self) -> Result<bool> {
        self.ticks.expect();
        self.progress()
    }

    #[inline]
    fn poll(&mut self, order: PollOrder) -> std::result::Result<bool, DeviceError> {
        // One poll in many also does what is due by the clock. A program that only calls progress
        // learns of failures in this way.
        let looks = self.ticks.count();
        if looks {
            self.look_at_clock()?;
        }
        self.engine.core.want(self.ch3.queues.posted.len());
        let p = self.engine.progress(&mut self.ch3, order, self.now)?;
        if looks && p.events == 0 {
            self.look_for_due_failures();
        }
        let copied = self.ch3.is_copying() && self.ch3.copy(&mut self.engine.io(self.now));
        let busy = p.events > 0 || copied;
        if busy {
            self.waiting.found();
        }
        Ok(busy)
    }

    #[cold]
    #[inline(never)]
    fn look_at_clock(&mut self) -> std::result::Result<(), DeviceError> {
        self.tick();
        self.free_dropped();
        if self.served.server.is_some() {
            self.serve_status(false);
        }
        if self.has_questions() {
            self.hear_launcher();
        }
        self.check_launcher()
    }

    #[cold]
    #[inline(never)]
    fn look_for_due_failures(&mut self) {
        if self.failure_deadline() <= self.now {
            self.look_for_failures();
        }
    }

    /// Reads the clock.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now = self.ticks.clock.now();
        self.ch3.reqs.now = self.now;
    }

    fn deadline_in(&mut self, after: std::time::Duration) -> Time {
        self.tick();
        self.now + after
    }

    fn abort_in_place(&mut self, code: i32, message: &str) -> ! {
        if !self.origin.is_here() {
            abort_child(code, message);
        }
        let exit = Exit::with(self.ch3.boot.abort(code, message));
        self.take_back();
        exit.now()
    }

    /// Ends the netmods at once, before exit handlers free what peers may still write to.
    fn take_back(&mut self) {
        self.engine.netmod = NetSet::with_missing(Vec::new());
    }

    fn check_rank(&self, rank: i32) -> Result<u32> {
        in_group(&self.ch3.groups.world, rank)
    }

    /// The envelope of a message of this process, and the group and rank it goes to.
    #[inline]
    fn outgoing(&self, dest: i32, tag: i32, comm: Comm) -> Result<((u32, u32), Envelope)> {
        let group = self.group(comm)?;
        if tag < 0 {
            return Err(Error::Tag(tag));
        }
        let (to, context) = match u32::try_from(dest) {
            Ok(rank) if rank < group.size => ((comm.group, rank), group.space.to_wire(comm.context)),
            _ => self.elsewhere(group, dest, comm)?,
        };
        Ok((to, Envelope::new(context, group.me as i32, tag)))
    }

    /// The group and rank of a place of another job or of a thread, which communicators of the
    /// job's space reach, and the context of messages to it, as packets carry it.
    #[cold]
    fn elsewhere(&self, group: &Group, place: i32, comm: Comm) -> Result<((u32, u32), u32)> {
        let nobody = Error::Rank { rank: place, size: group.size };
        let Some(place) = u32::try_from(place).ok().filter(|_| group.id == self.ch3.groups.world.id) else {
            return Err(nobody);
        };
        let (process, context) = match to_wire(comm.context, place) {
            Some(context) => (process_of(place), context),
            None => (place, group.space.to_wire(comm.context)),
        };
        let found = self.ch3.groups.at_place(process);
        found.map(|to| (to, context)).ok_or(nobody)
    }

    #[inline]
    fn incoming(&self, source: i32, tag: i32, comm: Comm) -> Result<Pattern> {
        let group = self.group(comm)?;
        if source != ANY_SOURCE && in_group(group, source).is_err() {
            self.elsewhere(group, source, comm)?;
        }
        if tag < 0 && tag != ANY_TAG {
            return Err(Error::Tag(tag));
        }
        Ok(Pattern::new(comm.context, source, tag))
    }
}

/// A rank that the caller gave, if the group has it.
#[inline]
fn in_group(group: &Group, rank: i32) -> Result<u32> {
    let size = group.size;
    match u32::try_from(rank) {
        Ok(r) if r < size => Ok(r),
        // Made only when it is needed: an error that is made is also dropped.
        _ => Err(Error::Rank { rank, size }),
    }
}

/// Ends a forked child that wants to abort the job: it is not the one to say so, nor to run what
/// its parent has registered for its exit.
#[cold]
fn abort_child(code: i32, message: &str) -> ! {
    netmod_core::tell::on_stderr(&format_args!("abort: {message}; {}, and the job goes on", Error::Forked));
    crate::sys::exit_now(code)
}

#[cold]
fn disconnected() -> Error {
    Error::Usage("the communicator was disconnected; its processes must be met again".into())
}
