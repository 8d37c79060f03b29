//! The way of two groups to an intercommunicator: their leaders talk over a link, and each tells
//! its group what to do.
//!
//! ```text
//!  members   root that connects         root that accepts   members
//!                 Offer  roster      →
//!                                    ←  Terms  roster
//!   ← Plan                                  Plan →
//!   all agree                               all agree
//!                 Ready              →
//!                                    ←  Go
//!   ← Commit                                Commit →
//! ```
//!
//! All of a group meet the other one's jobs before either says so, since a process refuses those
//! that it has not met. A guest that fails is no failure of the side that accepts, which serves the
//! next one (Drop). Any other failure is told to all (Fail), so that nobody waits.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ch3_shim::{Link, PortName, Vci};

use super::link::{Word, group_fault};
use super::roster::Roster;
use crate::comm::CommCore;
use crate::context::Agreement;
use crate::error::{Class, MpiError, Result};
use crate::exchange::{AndAll, Party};
use crate::handle::Comm;
use crate::instance::Mpi;
use crate::ranks::Ranks;
use crate::status::failure;

/// Longest silence of a leader that has begun to talk.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two questions whether a job that was started has ended.
const QUESTIONS: Duration = Duration::from_millis(100);

/// The way to the leader of the other group.
#[derive(Debug)]
pub(super) enum Way {
    /// This side accepts at its port.
    Accept(PortName),
    /// This side connects to a port.
    Connect(PortName),
    /// This side accepts at a port that was opened for a job that it has started, whose name may be
    /// known.
    Spawned(PortName, Option<String>),
}

/// The way to the other group, which counts at the root, and the time at which it is given up.
#[derive(Debug)]
pub(super) struct Plan {
    pub way: Way,
    pub limit: Option<Duration>,
}

/// A group that is met: its context id and the places of its processes.
#[derive(Debug)]
struct Other {
    id: u32,
    remote: Ranks,
    own_first: bool,
    /// Keeps the jobs of the group from being left before the communicator is made.
    held: Arc<[u32]>,
}

/// The word of a root to the members of its group.
enum Told {
    /// Meet the group of this roster.
    Plan(Vec<u8>),
    /// Forget the group.
    Drop,
    /// The groups have met.
    Commit,
    /// The attempt is over, in which the root has asked for so many processes to be started.
    Fail(Class, u32, String),
}

impl Told {
    fn emit(self) -> Vec<u8> {
        match self {
            Told::Plan(roster) => [&[0], &roster[..]].concat(),
            Told::Drop => vec![1],
            Told::Commit => vec![2],
            Told::Fail(class, asked, text) => {
                [&[3], &class.0.to_le_bytes()[..], &asked.to_le_bytes(), text.as_bytes()].concat()
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Told> {
        let (kind, body) = bytes.split_first()?;
        Some(match kind {
            0 => Told::Plan(body.to_vec()),
            1 => Told::Drop,
            2 => Told::Commit,
            3 => {
                let (class, body) = body.split_first_chunk()?;
                let (asked, text) = body.split_first_chunk()?;
                let text = String::from_utf8_lossy(text).into_owned();
                Told::Fail(Class(i32::from_le_bytes(*class)), u32::from_le_bytes(*asked), text)
            }
            _ => return None,
        })
    }
}

/// The reason for which a guest is not served.
enum NotServed {
    Guest(Box<MpiError>),
    Host(Box<MpiError>),
}

/// A group under way to an intercommunicator.
struct Meeting<'a> {
    core: &'a Arc<CommCore>,
    /// The context id of this group.
    id: u32,
}

impl Mpi {
    /// Makes an intercommunicator of this group and the one to which the root finds the way. All
    /// processes of the group call it, and all have the same success.
    ///
    /// # Errors
    /// A bad communicator or root; what keeps the two groups from each other.
    pub(super) fn meet_over(
        &self,
        comm: Comm,
        root: i32,
        plan: impl FnOnce() -> Result<Plan>,
    ) -> Result<Comm> {
        self.meet_asked(comm, root, &Cell::new(0), plan)
    }

    /// Works like [`Mpi::meet_over`]. `asked` is the number of processes that the root has asked
    /// for, which all know if the attempt fails.
    pub(super) fn meet_asked(
        &self,
        comm: Comm,
        root: i32,
        asked: &Cell<u32>,
        plan: impl FnOnce() -> Result<Plan>,
    ) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        let root = self.checked_root(&core, root)?;
        // One that has failed goes on, since others that have not may wait for it.
        let (id, fault) = match self.agree(Agreement::new(Party::of_all(&core), true)) {
            Ok(agreed) => (Some(agreed.id), None),
            Err(e) => (None, Some(e)),
        };
        let meeting = Meeting { core: &core, id: id.unwrap_or(0) };
        let met = if core.rank() == root {
            let ready = fault.map_or(Ok(()), Err);
            let outcome = ready.and_then(|()| plan()).and_then(|plan| self.lead(&meeting, plan));
            let told = match &outcome {
                Ok(_) => Told::Commit,
                Err(e) => Told::Fail(e.class, asked.get(), e.text.clone()),
            };
            // One that is lost needs to know nothing.
            let _ = self.tell_group(&core, told);
            outcome
        } else {
            self.follow(&meeting, root, asked, fault)
        };
        let made = met.and_then(|other| self.inter_of(comm, &meeting, other));
        if made.is_err() {
            self.with(|s| {
                id.into_iter().for_each(|id| s.objects.contexts.release(id));
                Ok(())
            })?;
            self.leave_unused_jobs()?;
        }
        made
    }

    /// Returns the rank of the root.
    ///
    /// # Errors
    /// A number that is no rank of the communicator.
    pub(super) fn checked_root(&self, core: &CommCore, root: i32) -> Result<u32> {
        u32::try_from(root).ok().filter(|rank| *rank < core.size()).ok_or_else(|| {
            let text = format!("root is {root}; ranks are 0 to {}", core.size() - 1);
            core.raised(MpiError::new(Class::ROOT, text))
        })
    }

    fn inter_of(&self, comm: Comm, meeting: &Meeting<'_>, other: Other) -> Result<Comm> {
        let Meeting { core, id } = *meeting;
        let Other { id: other, remote, own_first, held: _held } = other;
        let group = (Arc::clone(core.group()), core.rank());
        self.make_first_inter(comm, [id, other], group, Arc::new(remote), own_first)
    }

    fn lead(&self, meeting: &Meeting<'_>, plan: Plan) -> Result<Other> {
        let deadline = plan.limit.map(|limit| Instant::now() + limit);
        // A job that was left a moment ago may be met again.
        self.wait_until_time(None, |vci, _| vci.has_left().then_some(Ok(())))?;
        match plan.way {
            Way::Accept(port) => self.accept_at(meeting, &port, None, deadline),
            Way::Spawned(port, job) => {
                let met = self.accept_at(meeting, &port, job.as_deref(), deadline);
                self.with(|s| Ok(s.dev.close_port(&port)?))?;
                met
            }
            Way::Connect(port) => self.connect_to(meeting, &port, deadline),
        }
    }

    /// Accepts at a port; `job` is the only one that can come, if it is known.
    fn accept_at(
        &self,
        meeting: &Meeting<'_>,
        port: &PortName,
        job: Option<&str>,
        deadline: Option<Instant>,
    ) -> Result<Other> {
        let mut asked = Instant::now();
        loop {
            let link = self.wait_until_time(deadline, |vci, _| {
                if let Some(fault) = group_fault(vci, meeting.core) {
                    return Some(Err(fault));
                }
                let link = vci.link_at(port).map_err(|e| MpiError::new(Class::PORT, e.to_string()));
                let (Ok(None), Some(job)) = (&link, job.filter(|_| asked.elapsed() > QUESTIONS)) else {
                    return link.transpose();
                };
                asked = Instant::now();
                match vci.end_of_job(job) {
                    Ok(None) => None,
                    Ok(Some(code)) => Some(Err(ended(code))),
                    Err(e) => Some(Err(e.into())),
                }
            })?;
            let Some(link) = link else {
                let text = "nobody has connected to the port in time; has the other side its right name?";
                return Err(MpiError::new(Class::TIMEOUT, text));
            };
            let served = self.serve(meeting, link);
            if let Err(NotServed::Host(e)) = &served {
                let refusal = format!("the other side could not accept: {e}");
                // A guest that has gone needs no answer.
                let _ = self.say(link, Word::Refuse(refusal), Some(Instant::now() + SILENCE));
            }
            self.hang_up(link)?;
            match served {
                Ok(other) => return Ok(other),
                Err(NotServed::Host(e)) => return Err(e),
                Err(NotServed::Guest(e)) => {
                    tracing::info!(port = port.tag(), %e, "who came to the port was not accepted");
                }
            }
        }
    }

    /// Meets the group of a guest.
    fn serve(&self, meeting: &Meeting<'_>, link: Link) -> std::result::Result<Other, NotServed> {
        let silence = || Some(Instant::now() + SILENCE);
        let heard =
            self.hear_word(meeting.core, link, silence()).and_then(spoken).map_err(NotServed::Guest)?;
        let Word::Offer(roster) = heard else { return Err(NotServed::Guest(out_of_turn(heard))) };
        let terms = self.own_roster(meeting).map_err(NotServed::Host)?;
        self.say(link, Word::Terms(terms), silence()).map_err(NotServed::Guest)?;
        let other = self.propose(meeting, roster).map_err(NotServed::Host)?;
        let agreed = self
            .hear_word(meeting.core, link, silence())
            .and_then(spoken)
            .and_then(|word| if word == Word::Ready { Ok(()) } else { Err(out_of_turn(word)) })
            .and_then(|()| self.say(link, Word::Go, silence()));
        match agreed {
            Ok(()) => Ok(other),
            Err(e) => {
                self.tell_group(meeting.core, Told::Drop).map_err(NotServed::Host)?;
                Err(NotServed::Guest(e))
            }
        }
    }

    fn connect_to(&self, meeting: &Meeting<'_>, port: &PortName, deadline: Option<Instant>) -> Result<Other> {
        let of_port = |e: ch3_shim::Error| MpiError::new(Class::PORT, format!("the port: {e}"));
        let link = self.with(|s| s.dev.link_to(port).map_err(of_port))?;
        let met = self.ask(meeting, link, deadline);
        let connected = self.with(|s| Ok(s.dev.is_linked(link)))?;
        self.hang_up(link)?;
        met.map_err(|mut e| {
            if e.class == Class::TIMEOUT {
                e.text = if connected {
                    "nobody has accepted at the port in time; does the job that has opened it call MPI_Comm_accept?"
                } else {
                    "the port was not reached in time; does the job that has opened it still run?"
                }
                .into();
            }
            e
        })
    }

    /// Asks for the group at a port.
    fn ask(&self, meeting: &Meeting<'_>, link: Link, deadline: Option<Instant>) -> Result<Other> {
        let offer = self.own_roster(meeting)?;
        self.say(link, Word::Offer(offer), deadline)?;
        let roster = match self.hear_word(meeting.core, link, deadline)? {
            Some(Word::Terms(roster)) => roster,
            Some(word) => return Err(out_of_turn(word)),
            None => return Err(MpiError::new(Class::TIMEOUT, "")),
        };
        let silence = || Some(Instant::now() + SILENCE);
        let other = match self.propose(meeting, roster) {
            Ok(other) => other,
            Err(e) => {
                let refusal = format!("the other side could not connect: {e}");
                self.say(link, Word::Refuse(refusal), silence())?;
                return Err(e);
            }
        };
        self.say(link, Word::Ready, silence())?;
        match self.hear_word(meeting.core, link, silence()).and_then(spoken)? {
            Word::Go => Ok(other),
            word => Err(out_of_turn(word)),
        }
    }

    fn own_roster(&self, meeting: &Meeting<'_>) -> Result<Vec<u8>> {
        let Meeting { core, id } = meeting;
        self.with(|s| Ok(Roster::of(&mut s.dev, *id, core.group().places(), true)?.emit()))
    }

    /// Has all of the group meet another one.
    fn propose(&self, meeting: &Meeting<'_>, roster: Vec<u8>) -> Result<Other> {
        let told = self.tell_group(meeting.core, Told::Plan(roster.clone()));
        let own = self.meet_group(meeting, &roster);
        let all = self.all_agree(meeting.core, own.is_ok());
        let other = own?;
        told?;
        if all? {
            return Ok(other);
        }
        if let Some(fault) = self.with(|s| Ok(group_fault(&s.dev, meeting.core)))? {
            return Err(fault);
        }
        let text = "a process of the group could not meet the other group; its own error tells why";
        Err(MpiError::new(Class::OTHER, text))
    }

    /// Meets a group, as one of the processes of this one.
    fn meet_group(&self, meeting: &Meeting<'_>, roster: &[u8]) -> Result<Other> {
        let Meeting { core, id } = *meeting;
        let other = Roster::parse(roster)?;
        self.wait_until_time(None, |vci, _| vci.has_left().then_some(Ok(())))?;
        self.with(|s| {
            let own = Roster::of(&mut s.dev, id, core.group().places(), false)?;
            let remote = Ranks::new(other.meet(&mut s.dev)?);
            if core.group().places().iter().any(|place| remote.rank(*place).is_some()) {
                let text = "a process is in both groups; they must have none in common";
                return Err(MpiError::new(Class::COMM, text));
            }
            let held = s.objects.contexts.hold(remote.places());
            Ok(Other { id: other.id, own_first: own.is_before(&other), remote, held })
        })
    }

    /// Returns true if all processes of a group say so.
    fn all_agree(&self, core: &Arc<CommCore>, own: bool) -> Result<bool> {
        let mut all = AndAll::new(Party::of_all(core), vec![u64::from(own)]);
        self.wait_until(|vci, _, _| all.advance(vci).map(|words| words.map(|w| w[0] != 0)).transpose())
    }

    /// Follows the root, as a member, until it says how the attempt has ended. `fault` is the error
    /// of a member that cannot meet anybody.
    fn follow(
        &self,
        meeting: &Meeting<'_>,
        root: u32,
        asked: &Cell<u32>,
        mut fault: Option<Box<MpiError>>,
    ) -> Result<Other> {
        let core = meeting.core;
        let place = core.group().place(root).unwrap_or(0).cast_signed();
        let mut met = None;
        let mut why = None;
        loop {
            let bytes = self.take_from(core, place, core.next_tag())?;
            match Told::parse(&bytes) {
                Some(Told::Plan(roster)) => {
                    let own = fault.take().map_or_else(|| self.meet_group(meeting, &roster), Err);
                    // The root has the same result, and says how it goes on.
                    let _ = self.all_agree(core, own.is_ok());
                    met = own.map_err(|e| why = Some(e)).ok();
                }
                Some(Told::Drop) => met = None,
                Some(Told::Commit) if met.is_some() => {
                    return met.ok_or_else(|| MpiError::new(Class::INTERN, "no group was met"));
                }
                Some(Told::Fail(class, number, text)) => {
                    asked.set(number);
                    return Err(why.or(fault).unwrap_or_else(|| MpiError::new(class, text)));
                }
                Some(Told::Commit) | None => {
                    let text = "the root says what fits no call; do all processes call the same function?";
                    return Err(MpiError::new(Class::OTHER, text));
                }
            }
        }
    }

    /// Tells the other processes of the group something; all that can be told are.
    fn tell_group(&self, core: &Arc<CommCore>, told: Told) -> Result<()> {
        let (tag, bytes) = (core.next_tag(), bytes::Bytes::from(told.emit()));
        let mut failed = None;
        let others = core.group().places().iter().zip(0..).filter(|(_, rank)| *rank != core.rank());
        let mut sends = Vec::new();
        for (place, _) in others {
            let sent = self.with(|s| {
                let sent = s.dev.isend(bytes.clone(), place.cast_signed(), tag, core.coll);
                sent.map_err(|e| failure(e.error, core))
            });
            match sent {
                Ok(send) => sends.push(send),
                Err(e) => failed = Some(e),
            }
        }
        for send in sends {
            let raw = send.raw();
            self.wait_until(|vci, _, _| vci.is_settled(raw).then_some(Ok(())))?;
            let sent = self.with(|s| {
                let vci: &mut Vci = &mut s.dev;
                vci.wait(send).map(|_| ()).map_err(|e| failure(e.error, core))
            });
            failed = failed.or(sent.err());
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Returns the error of a job that has ended before it has connected.
fn ended(code: i32) -> Box<MpiError> {
    let text = format!(
        "the processes that were started have ended, with exit code {code}, before all of them had called MPI_Init; what \
         they have printed may tell why"
    );
    MpiError::new(Class::SPAWN, text)
}

/// Returns the error of a leader that says what does not fit.
fn out_of_turn(word: Word) -> Box<MpiError> {
    match word {
        Word::Refuse(why) => MpiError::new(Class::PORT, format!("refused: {why}")),
        _ => MpiError::new(Class::PORT, "the other side of the port speaks out of turn"),
    }
}

/// Returns what a leader has said, which has begun to talk.
fn spoken(word: Option<Word>) -> Result<Word> {
    word.ok_or_else(|| {
        let text = format!("the other side of the port has said nothing for {SILENCE:?}; does it still run?");
        MpiError::new(Class::PORT, text)
    })
}
