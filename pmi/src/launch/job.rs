//! The launcher's event loop: one epoll set for PMI connections, ends of ranks, output and signals.

mod asked;
mod streams;

use super::binding::Bound;
use super::children::Children;
use super::connection::{Input, Outbox};
use super::doorman::{Caller, Doorman};
use super::group::Grouping;
use super::rank::Rank;
use super::writer::Target;
use super::{ExitReport, Failure, LaunchError, Launcher, RankExit};
use crate::server::{Fault, Names, Outcome, Server, Stage};
use crate::sys::{self, Epoll, Interest, Ready, Sender, SignalPipe};
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use streams::Streams;

/// Time from SIGTERM to SIGKILL when the launcher ends the job.
const GRACE: Duration = Duration::from_secs(1);

/// The same when a rank has aborted the job, which is urgent.
const ABORT_GRACE: Duration = Duration::from_millis(250);

/// Time from the first rank that a forwarded signal ended to SIGKILL for the others, which may be
/// saving their work.
const SIGNAL_GRACE: Duration = Duration::from_secs(10);

/// Interval of checks for ended ranks on kernels without pidfds.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// Descriptors that the launcher needs per rank.
const FILES_PER_RANK: u64 = 6;
const FILES_BESIDE: u64 = 64;

/// The meaning of a number in the epoll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End(u32),
    Pmi(u32),
    Stdout(u32),
    Stderr(u32),
    Caller(u32),
    Listener,
    Signal,
    Written,
    /// A job that a rank has asked for has ended.
    Child,
    /// The job is to end.
    Cancel,
}

impl Token {
    fn number(self) -> u64 {
        let (sort, index) = match self {
            Token::End(rank) => (0, rank),
            Token::Pmi(rank) => (1, rank),
            Token::Stdout(rank) => (2, rank),
            Token::Stderr(rank) => (3, rank),
            Token::Caller(number) => (4, number),
            Token::Listener => (5, 0),
            Token::Signal => (6, 0),
            Token::Written => (7, 0),
            Token::Child => (8, 0),
            Token::Cancel => (9, 0),
        };
        sort << 32 | u64::from(index)
    }

    fn from_number(number: u64) -> Option<Token> {
        // The lower half.
        let index = number as u32;
        Some(match number >> 32 {
            0 => Token::End(index),
            1 => Token::Pmi(index),
            2 => Token::Stdout(index),
            3 => Token::Stderr(index),
            4 => Token::Caller(index),
            5 => Token::Listener,
            6 => Token::Signal,
            7 => Token::Written,
            8 => Token::Child,
            9 => Token::Cancel,
            _ => return None,
        })
    }
}

struct Job<'a> {
    launcher: &'a Launcher,
    epoll: Epoll,
    server: Server,
    outbox: Outbox,
    ranks: Vec<Rank>,
    living: usize,
    children: Children,
    doorman: Option<Doorman>,
    signals: Option<SignalPipe>,
    grouping: Grouping,
    streams: Streams,
    failure: Option<Failure>,
    /// Time of SIGKILL, once the launcher is ending the job.
    kill_at: Option<Instant>,
    ending: bool,
    /// True if a signal was forwarded.
    interrupted: bool,
    time_limit: Option<Instant>,
}

/// Starts and serves a job.
pub(super) fn run(launcher: &Launcher) -> Result<ExitReport, LaunchError> {
    let size = launcher.size();
    let binding = Bound::plan(launcher.binding, size as usize)?;
    let wanted = u64::from(size) * FILES_PER_RANK + FILES_BESIDE;
    let open_files =
        sys::raise_open_files(wanted).map_err(LaunchError::system("raising the limit of open files"))?;
    close_outer_descriptors();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fresh = || format!("{}{}_{}", super::JOB_NAME, std::process::id(), since_epoch.as_nanos());
    let nested = launcher.nested.as_ref();
    let name = nested.map_or_else(fresh, |nested| nested.name.clone());
    let names = nested.map_or_else(Names::default, |nested| nested.names.clone());
    let values = nested.map_or(&[][..], |nested| &nested.values);
    let grouping = Grouping::of_this_process(&name);
    let mut job = Job {
        launcher,
        epoll: Epoll::new().map_err(LaunchError::system("making an epoll set"))?,
        server: Server::new(name, size, launcher.no_kill)
            .per_node(launcher.ranks_per_node())
            .programs(launcher.program_numbers().collect())
            .universe(launcher.universe.unwrap_or(size))
            .names(names.clone())
            .values(values),
        outbox: Outbox::new(size),
        ranks: Vec::new(),
        living: 0,
        children: Children::new(names, run).map_err(LaunchError::system("making an eventfd"))?,
        doorman: if launcher.port { Some(Doorman::new(size)?) } else { None },
        signals: None,
        grouping,
        streams: Streams::new().map_err(LaunchError::system("making an eventfd"))?,
        failure: None,
        kill_at: None,
        ending: false,
        interrupted: false,
        time_limit: launcher.timeout.and_then(|limit| Instant::now().checked_add(limit)),
    };
    if launcher.signals {
        job.signals =
            Some(SignalPipe::new(launcher.passed_on).map_err(LaunchError::system("catching signals"))?);
    }
    for rank in 0..size {
        // If it fails, dropping `job` kills the ranks started so far.
        let cpus = binding.mask(rank as usize);
        let started = Rank::spawn(launcher, rank, job.doorman.as_ref(), open_files, &job.grouping, cpus)?;
        job.ranks.push(started);
    }
    job.living = job.ranks.len();
    if launcher.verbose {
        job.say(&binding.to_string());
    }
    if let Some(started) = launcher.started {
        let programs = launcher.programs.iter().flat_map(|p| (0..p.ranks).map(|_| p.path.as_os_str()));
        started(&programs.zip(job.ranks.iter().map(Rank::pid)).collect::<Vec<_>>());
    }
    job.watch_all().map_err(LaunchError::system("watching the ranks"))?;
    if let Some(nested) = nested {
        // The rank that has asked may have gone.
        let _ = nested.started.send(());
    }
    job.serve()?;
    Ok(job.report())
}

/// Keeps an outer launcher's descriptors from this launcher's ranks.
fn close_outer_descriptors() {
    for name in ["PMI_FD", "HYDI_CONTROL_FD"] {
        if let Some(fd) = std::env::var(name).ok().and_then(|fd| fd.parse().ok()) {
            // One that is not open needs no closing.
            let _ = sys::set_close_on_exec(fd);
        }
    }
}

impl Job<'_> {
    fn watch_all(&mut self) -> io::Result<()> {
        for (rank, state) in (0..).zip(&self.ranks) {
            if let Some(pidfd) = &state.pidfd {
                self.epoll.add(pidfd.as_fd(), Token::End(rank).number(), Interest::Read)?;
            }
            if let Some(connection) = &state.connection {
                self.epoll.add(connection.fd(), Token::Pmi(rank).number(), Interest::Read)?;
            }
            if let Some(output) = &state.stdout {
                self.epoll.add(output.fd(), Token::Stdout(rank).number(), Interest::Read)?;
            }
            if let Some(output) = &state.stderr {
                self.epoll.add(output.fd(), Token::Stderr(rank).number(), Interest::Read)?;
            }
        }
        if let Some(doorman) = &self.doorman {
            self.epoll.add(doorman.fd(), Token::Listener.number(), Interest::Read)?;
        }
        if let Some(signals) = &self.signals {
            self.epoll.add(signals.fd(), Token::Signal.number(), Interest::Read)?;
        }
        if let Some(nested) = &self.launcher.nested {
            self.epoll.add(nested.cancel.as_fd(), Token::Cancel.number(), Interest::Read)?;
        }
        self.epoll.add(self.children.ended.as_fd(), Token::Child.number(), Interest::Read)?;
        self.epoll.add(self.streams.written.as_fd(), Token::Written.number(), Interest::Read)
    }

    fn serve(&mut self) -> Result<(), LaunchError> {
        let without_pidfd = self.ranks.iter().any(|rank| rank.pidfd.is_none());
        let mut ready = Vec::new();
        let mut ended = Vec::new();
        while self.living > 0 || !self.children.is_empty() {
            let look_after = without_pidfd.then(|| Instant::now() + LOOK_AFTER);
            let deadline = [self.time_limit, self.kill_at, look_after].into_iter().flatten().min();
            self.epoll.wait(&mut ready, deadline).map_err(LaunchError::system("waiting for the ranks"))?;
            // A rank's messages are handled before its end.
            for event in &ready {
                if let Some(token) = Token::from_number(event.token) {
                    self.handle(token, *event, &mut ended)?;
                }
            }
            if without_pidfd {
                ended.clear();
                ended.extend((0..).zip(&self.ranks).filter(|(_, r)| r.has_ended()).map(|(i, _)| i));
            }
            if !ended.is_empty() {
                self.grouping.kill_leftovers(&self.ranks, &ended);
            }
            for rank in ended.drain(..) {
                self.rank_ended(rank)?;
            }
            self.check_barrier();
            self.check_time();
            self.flush().map_err(LaunchError::system("answering the ranks"))?;
        }
        self.drain()
    }

    fn handle(&mut self, token: Token, event: Ready, ended: &mut Vec<u32>) -> Result<(), LaunchError> {
        match token {
            Token::End(rank) => ended.push(rank),
            Token::Pmi(rank) => {
                let index = rank as usize;
                if self.ranks[index].connection.as_ref().is_some_and(|c| c.watched_for_room) {
                    self.flush_rank(rank).map_err(LaunchError::system("answering a rank"))?;
                }
                self.hear_rank(rank, event.hung_up);
            }
            Token::Stdout(rank) => {
                self.pass(rank, Target::Stdout).map_err(LaunchError::system("passing on output"))?;
            }
            Token::Stderr(rank) => {
                self.pass(rank, Target::Stderr).map_err(LaunchError::system("passing on output"))?;
            }
            Token::Child => self.children_ended(),
            Token::Cancel => {
                if let Some(nested) = &self.launcher.nested {
                    nested.cancel.consume();
                }
                self.end(Some(libc::SIGTERM), GRACE);
            }
            Token::Written => self.written().map_err(LaunchError::system("passing on output"))?,
            Token::Listener => self.accept()?,
            Token::Caller(number) => self.hear_caller(number)?,
            Token::Signal => {
                while let Some((signal, by)) = self.signals.as_ref().and_then(SignalPipe::take) {
                    if self.launcher.passed_on == Some(signal) {
                        self.pass_on(signal);
                    } else {
                        self.forward(signal, by);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads from a rank's connection, once or to its end.
    fn hear_rank(&mut self, rank: u32, to_the_end: bool) {
        loop {
            let Some(connection) = &mut self.ranks[rank as usize].connection else { return };
            let input = connection.fill();
            self.answer(rank);
            match input {
                Input::Some if to_the_end => {}
                Input::Some | Input::Nothing => return,
                Input::Closed => {
                    // Closing removes it from the epoll set. The end of the process decides what it
                    // means.
                    self.ranks[rank as usize].connection = None;
                    self.outbox.clear(rank);
                    return;
                }
            }
        }
    }

    /// Passes the received lines to the server.
    fn answer(&mut self, rank: u32) {
        loop {
            let Some(connection) = &mut self.ranks[rank as usize].connection else { return };
            let fault = match connection.next_line() {
                Ok(None) if !self.outbox.overflows(rank) => return,
                Ok(None) => Fault {
                    line: String::new(),
                    why: "it asks and asks but does not read the answers".to_owned(),
                },
                Ok(Some(line)) => match self.server.line(rank, line, &mut self.outbox) {
                    Ok(Outcome::Continue) => continue,
                    Ok(Outcome::Spawn(spawn)) => {
                        self.start_child(rank, spawn);
                        continue;
                    }
                    Ok(Outcome::Abort { code }) => {
                        self.abort(rank, code);
                        continue;
                    }
                    Err(fault) => fault,
                },
                Err(why) => Fault { line: crate::wire::quote(connection.unfinished()), why: why.to_string() },
            };
            self.condemn(rank, &fault);
        }
    }

    /// Ends a rank that has violated the protocol.
    fn condemn(&mut self, rank: u32, fault: &Fault) {
        let state = &mut self.ranks[rank as usize];
        state.connection = None;
        self.outbox.clear(rank);
        if state.exit.is_none() {
            state.condemned = true;
            self.grouping.signal(std::slice::from_ref(state), libc::SIGKILL);
        }
        self.fail(Failure { rank: Some(rank), code: 1, what: fault.to_string() });
    }

    fn abort(&mut self, rank: u32, code: i32) {
        // An aborted job is no success, whatever the code.
        let shown = if code & 0xff == 0 { 1 } else { code & 0xff };
        let what = format!("aborted the job with code {code}");
        self.record(Failure { rank: Some(rank), code: shown, what }, true);
        // Ranks that are being ended already get no extra time.
        let at = Instant::now() + ABORT_GRACE;
        self.end(Some(libc::SIGTERM), ABORT_GRACE);
        self.kill_at = self.kill_at.map(|planned| planned.min(at));
    }

    /// Handles the end of a rank's process.
    fn rank_ended(&mut self, rank: u32) -> Result<(), LaunchError> {
        let index = rank as usize;
        if self.ranks[index].exit.is_some() || !self.ranks[index].has_ended() {
            return Ok(());
        }
        if self.doorman.is_some() {
            self.accept()?;
            let callers = self.doorman.as_ref().map(Doorman::pending).unwrap_or_default();
            for caller in callers {
                self.hear_caller(caller)?;
            }
        }
        self.hear_rank(rank, true);
        let exit = self.ranks[index].reap()?;
        self.living -= 1;
        if let Some(pidfd) = &self.ranks[index].pidfd {
            self.epoll.remove(pidfd.as_fd()).map_err(LaunchError::system("forgetting a rank"))?;
        }
        let failure = match exit {
            RankExit::Signal(signal) => {
                let name = sys::signal_name(signal);
                Some((128 + signal, format!("was killed by signal {signal} ({name})")))
            }
            RankExit::Status(0) if self.server.stage(rank) == Stage::Initialized => Some((
                1,
                "exited with status 0 after PMI init, but without PMI finalize (MPI_Finalize)".to_owned(),
            )),
            RankExit::Status(0) => None,
            RankExit::Status(code) => Some((code, format!("exited with status {code}"))),
        };
        self.server.rank_gone(rank, failure.is_some(), &mut self.outbox);
        if let Some((code, what)) = failure
            && !self.ranks[index].condemned
        {
            self.fail(Failure { rank: Some(rank), code, what });
        }
        Ok(())
    }

    /// Fails the job if a rank waits in a barrier that an ended rank cannot enter, in whichever
    /// order they came.
    fn check_barrier(&mut self) {
        if !self.ending
            && let Some((waiting, gone)) = self.server.stuck_barrier()
        {
            let what = format!("waits in a barrier that rank {gone}, which has ended, cannot enter");
            self.fail(Failure { rank: Some(waiting), code: 1, what });
        }
    }

    /// Records a failure, and ends the job unless it is to continue.
    fn fail(&mut self, failure: Failure) {
        let kill = !self.launcher.no_kill;
        self.record(failure, kill);
        if kill && self.interrupted {
            self.end(None, SIGNAL_GRACE);
        } else if kill {
            self.end(Some(libc::SIGTERM), GRACE);
        }
    }

    /// Records a failure. Failures while the launcher ends the job are its own doing.
    fn record(&mut self, failure: Failure, kill: bool) {
        if self.ending {
            return;
        }
        let others = self.living - usize::from(self.living_rank(failure.rank));
        let then = match others {
            0 => String::new(),
            _ if !kill => "; the others go on (--no-kill)".to_owned(),
            1 => "; ending the other rank".to_owned(),
            n => format!("; ending the other {n} ranks"),
        };
        self.say(&format!("{failure}{then}"));
        self.failure.get_or_insert(failure);
    }

    fn living_rank(&self, rank: Option<u32>) -> bool {
        rank.is_some_and(|rank| self.ranks[rank as usize].exit.is_none())
    }

    fn signal_all(&self, signal: i32) {
        self.grouping.signal(&self.ranks, signal);
    }

    /// Ends the job: `signal` now, SIGKILL after `grace`.
    fn end(&mut self, signal: Option<i32>, grace: Duration) {
        if self.ending {
            return;
        }
        self.ending = true;
        self.children.cancel();
        if let Some(signal) = signal {
            self.signal_all(signal);
            // A stopped process acts on SIGTERM only when it is continued.
            self.signal_all(libc::SIGCONT);
        }
        self.kill_at = Some(Instant::now() + grace);
    }

    /// Forwards a signal; the second one ends the job.
    ///
    /// A signal from the terminal has reached the ranks in the launcher's process group already.
    fn forward(&mut self, signal: i32, by: Sender) {
        if self.interrupted {
            let name = sys::signal_name(signal);
            if self.failure.is_none() {
                let what = format!("ended by the second {name}");
                self.failure = Some(Failure { rank: None, code: 128 + signal, what });
            }
            self.say(&format!("second {name}; killing {} ranks", self.living));
            self.ending = true;
            self.kill_at = None;
            self.children.cancel();
            self.signal_all(libc::SIGKILL);
        } else {
            self.interrupted = true;
            if by == Sender::Other || !self.grouping.is_shared() {
                self.signal_all(signal);
            }
            if signal == libc::SIGHUP {
                // A stopped process acts on the signal only when it is continued.
                self.signal_all(libc::SIGCONT);
            }
        }
    }

    /// Forwards a signal to the ranks that catch it.
    ///
    /// Reports those that do not, as it may have been meant for them.
    fn pass_on(&mut self, signal: i32) {
        let reached = self.grouping.pass_on(&self.ranks, signal);
        if reached < self.living {
            let name = sys::signal_name(signal);
            self.say(&format!(
                "{name} passed on to {reached} of {} ranks; the others do not catch it, or not yet",
                self.living
            ));
        }
    }

    fn check_time(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.signal_all(libc::SIGKILL);
        }
        if self.time_limit.is_some_and(|at| now >= at) {
            self.time_limit = None;
            if !self.ending {
                let limit = self.launcher.timeout.unwrap_or_default().as_secs_f64();
                let what = format!("the time limit of {limit} s has passed");
                self.record(Failure { rank: None, code: 124, what }, true);
                self.end(Some(libc::SIGTERM), GRACE);
            }
        }
    }

    fn accept(&mut self) -> Result<(), LaunchError> {
        let Some(doorman) = &mut self.doorman else { return Ok(()) };
        let failed = "accepting a PMI connection";
        while let Some(number) = doorman.accept().map_err(LaunchError::system(failed))? {
            if let Some(fd) = doorman.pending_fd(number) {
                self.epoll
                    .add(fd, Token::Caller(number).number(), Interest::Read)
                    .map_err(LaunchError::system(failed))?;
            }
        }
        Ok(())
    }

    fn hear_caller(&mut self, number: u32) -> Result<(), LaunchError> {
        let Some(doorman) = &mut self.doorman else { return Ok(()) };
        let Caller::Rank(rank, connection) = doorman.hear(number) else { return Ok(()) };
        let state = &mut self.ranks[rank as usize];
        if state.exit.is_some() {
            return Ok(());
        }
        self.epoll
            .change(connection.fd(), Token::Pmi(rank).number(), Interest::Read)
            .map_err(LaunchError::system("accepting a PMI connection"))?;
        state.connection = Some(connection);
        // The introduction is consumed already; the server replies to it, and to what came with it.
        let introduction = format!("cmd=initack pmiid={rank}");
        if let Err(fault) = self.server.line(rank, introduction.as_bytes(), &mut self.outbox) {
            self.condemn(rank, &fault);
        }
        self.answer(rank);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for rank in self.outbox.take_dirty() {
            self.flush_rank(rank)?;
        }
        Ok(())
    }

    fn flush_rank(&mut self, rank: u32) -> io::Result<()> {
        let Some(connection) = &mut self.ranks[rank as usize].connection else {
            self.outbox.clear(rank);
            return Ok(());
        };
        let wants_room = !self.outbox.flush(rank, connection);
        if wants_room != connection.watched_for_room {
            connection.watched_for_room = wants_room;
            let interest = if wants_room { Interest::ReadWrite } else { Interest::Read };
            self.epoll.change(connection.fd(), Token::Pmi(rank).number(), interest)?;
        }
        Ok(())
    }

    fn report(mut self) -> ExitReport {
        let (stdout, stdout_truncated) = self.streams.captured.take().unwrap_or_default();
        ExitReport {
            code: self.failure.as_ref().map_or(0, |failure| failure.code),
            failure: self.failure.take(),
            ranks: self.ranks.iter().filter_map(|rank| rank.exit).collect(),
            stdout,
            stdout_truncated,
        }
    }
}
