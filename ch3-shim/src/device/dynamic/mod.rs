//! Dynamic processes: two jobs that were started apart meet at a port, talk, and part.
//!
//! Each job has a root that speaks for it. The roots talk over a VC of their own
//! (`connect_to_root`), which only who knows the port's key can make, in a group of one process
//! each:
//!
//! ```text
//!  members    root that connects            root that accepts    members
//!    Card →                                                       ← Card
//!                  Offer  roster, root        →
//!                                   ←  Terms  meeting, key, roster, root
//!    ← Plan
//!    Ack →
//!                  Ready                      →
//!                                                                 Plan →
//!                                                                 ← Ack
//!                                             ←  Go
//!    ← Commit                                                     Commit →
//! ```
//!
//! Nobody has met before all have agreed; whoever fails earlier makes all fail, with `Refuse`,
//! `Drop` and `Fail`. A guest that fails is no failure of the accepting side, which serves the next
//! one. What remains is the loss of the very last word: a side that has not heard `Go` in time
//! fails while the other has succeeded, and finds that its peers are gone.
//!
//! To part, all processes of both groups say `Done`, through their roots. After that nobody sends
//! any more, so the close protocol can run on each VC, and everything that was made for the group
//! goes.

mod jobs;
mod talk;
mod word;

use std::time::Duration;

use netmod_core::{Card, GroupId, PeerName, RemoteGroup, Time, port_group};

use super::{Comm, Vci};
use crate::ch3::{Cards, INTERNAL, ROOT};
use crate::error::{Error, Result};
use crate::port::{KEY_LEN, PortName};
use crate::tagmatch::Pattern;
use talk::{Met, failure, silent};
use word::{Party, Plan, Roster, Word};

/// The tag of what roots say to each other.
const ROOT_TAG: i32 = 1;
/// Time limit for the close of the roots' VC, on which nobody depends.
const PATIENCE: Duration = Duration::from_secs(1);

/// A collective call under way.
#[derive(Debug)]
struct Call {
    what: &'static str,
    /// The communicator, in its context for the device's own messages.
    comm: Comm,
    root: u32,
    /// Tags of what members say to the root, and of what it says to them.
    up: i32,
    down: i32,
    deadline: Time,
    timeout: Duration,
}

/// A communicator with the processes of another job: messages go to, and come from, ranks of that
/// job.
///
/// Ends with [`Vci::disconnect_comm`]. A dropped one stays connected until the device is finalized,
/// which then needs the other job to finalize too.
#[derive(Debug)]
#[must_use = "disconnect it when it is of no more use"]
pub struct InterComm {
    comm: Comm,
    /// The local communicator, in its context for the device's own messages.
    local: Comm,
    local_root: u32,
    remote_root: u32,
    remote_size: u32,
}

impl InterComm {
    /// The communicator for sends, receives, probes and [`Vci::dup`]. All communicators made of it
    /// end with this one.
    pub fn comm(&self) -> Comm {
        self.comm
    }

    /// Number of processes of the other job.
    pub fn remote_size(&self) -> u32 {
        self.remote_size
    }
}

/// A connection of two processes that have met at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    group: u32,
}

impl Link {
    /// Rank of the other process in the link's communicator.
    pub const PEER: i32 = ROOT.cast_signed();
    /// Tag of the first message, which the process that connects sends.
    pub const TAG: i32 = ROOT_TAG;
}

/// Random bytes.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::Meet(format!("no random numbers for a key: {e}")))?;
    Ok(bytes)
}

/// The group ids of a meeting: of who accepts, and of who connects.
fn ends(meeting: [u8; 16]) -> (GroupId, GroupId) {
    let (mut accepts, mut connects) = (meeting, meeting);
    accepts[0] &= !1;
    connects[0] |= 1;
    (GroupId(accepts), GroupId(connects))
}

/// The reason for which a guest was not served.
enum NotServed {
    /// The guest's fault.
    Guest(String),
    /// This job's fault.
    Host(Error),
}

impl Vci {
    /// Opens a port at which other jobs can connect to this one (`MPI_Open_port`). Whoever knows
    /// its name can.
    ///
    /// # Errors
    /// No netmod that can be reached from other jobs.
    pub fn open_port(&mut self) -> Result<PortName> {
        self.check_origin()?;
        let (tag, key) = (u64::from_le_bytes(random()?), random::<KEY_LEN>()?);
        let card = Card::parse(&self.ch3.lookups.own_card)
            .map_err(|e| Error::Meet(format!("open_port: this process's {e}")))?;
        let now = self.now;
        self.ch3.open_port(&mut self.engine.io(now), tag, key)?;
        Ok(PortName { tag, key, card })
    }

    /// Closes a port (`MPI_Close_port`). Who waits at it is sent away; who was accepted stays
    /// connected.
    ///
    /// # Errors
    /// If it is not open in this process.
    pub fn close_port(&mut self, port: &PortName) -> Result<()> {
        self.check_origin()?;
        let now = self.now;
        if self.ch3.close_port(&mut self.engine.io(now), port.tag) {
            return Ok(());
        }
        Err(Error::Usage(format!("close_port: port {:016x} is not open in this process", port.tag)))
    }

    /// Accepts the job that connects to a port, the first one if there are several
    /// (`MPI_Comm_accept`). Collective over `comm`, a communicator of this job; the port counts at
    /// its rank `root`, where it was opened, and may be `None` elsewhere.
    ///
    /// # Errors
    /// The same at all processes: nobody came within `timeout`; a process of this job did not join
    /// in, or was lost. Nothing is left of the attempt then, and the port stays open.
    pub fn accept(
        &mut self,
        port: Option<&PortName>,
        comm: Comm,
        root: u32,
        timeout: Duration,
    ) -> Result<InterComm> {
        self.check_origin()?;
        let call = self.begin("accept", comm, root, timeout)?;
        let met = if self.rank() == root {
            let served = self.accept_as_root(port, &call);
            self.conclude(&call, served)?
        } else {
            self.follow(&call)?
        };
        self.intercomm(&call, met)
    }

    /// Connects to the job that accepts at a port (`MPI_Comm_connect`). Collective over `comm`, a
    /// communicator of this job; the port counts at its rank `root`, and may be `None` elsewhere.
    ///
    /// # Errors
    /// The same at all processes: a port that cannot be reached, at which nobody accepted within
    /// `timeout`, or whose key is another; a process of either job that did not join in, or was
    /// lost.
    pub fn connect(
        &mut self,
        port: Option<&PortName>,
        comm: Comm,
        root: u32,
        timeout: Duration,
    ) -> Result<InterComm> {
        self.check_origin()?;
        let call = self.begin("connect", comm, root, timeout)?;
        let met = if self.rank() == root {
            let met = self.connect_as_root(port, &call);
            self.conclude(&call, met)?
        } else {
            self.follow(&call)?
        };
        self.intercomm(&call, met)
    }

    fn intercomm(&mut self, call: &Call, met: Met) -> Result<InterComm> {
        let context = self.ch3.groups.get(met.group).map(|g| g.first_context());
        let context = context.ok_or_else(|| Error::Meet(format!("{}: the group is gone", call.what)))?;
        Ok(InterComm {
            comm: Comm { context, group: met.group },
            local: call.comm,
            local_root: call.root,
            remote_root: met.root,
            remote_size: met.size,
        })
    }

    /// The root's result is that of all.
    fn conclude<T>(&mut self, call: &Call, result: Result<T>) -> Result<T> {
        let word = match &result {
            Ok(_) => Word::Commit,
            Err(e) => Word::Fail { timeout: matches!(e, Error::Timeout(_)), text: e.to_string() },
        };
        self.tell_all(call, &word);
        result
    }

    fn accept_as_root(&mut self, port: Option<&PortName>, call: &Call) -> Result<Met> {
        let roster = self.gather(call)?;
        let port = port.ok_or_else(|| Error::Usage("accept: the root must name the port".into()))?;
        if !self.ch3.ports.contains_key(&port.tag) {
            return Err(Error::Usage(format!(
                "accept: port {:016x} is not open at the root, rank {}; open_port opens one",
                port.tag, call.root
            )));
        }
        let mut failed = String::new();
        loop {
            let Some(guest) = self.next_guest(port.tag, call.deadline)? else {
                return Err(Error::Timeout(format!(
                    "accept: nobody has connected to port {:016x} within {:?}{failed}; has the other job its right name?",
                    port.tag, call.timeout
                )));
            };
            match self.serve(guest, &roster, call) {
                Ok(met) => return Ok(met),
                Err(NotServed::Host(e)) => return Err(e),
                Err(NotServed::Guest(why)) => {
                    tracing::info!(port = port.tag, %why, "a job that came to the port was not accepted");
                    failed = format!(" (the last one that tried: {why})");
                }
            }
        }
    }

    /// The first guest of a port that has said what it wants. A silent one holds up nobody.
    fn next_guest(&mut self, tag: u64, deadline: Time) -> Result<Option<u32>> {
        loop {
            if let Some(guest) = self.first_guest(tag) {
                return Ok(Some(guest));
            }
            if self.now >= deadline {
                return Ok(None);
            }
            let seen = self.ch3.stats.unexpected;
            self.wait_until(deadline, |d| d.ch3.stats.unexpected != seen)?;
        }
    }

    /// Takes the first guest of a port that has said what it wants.
    fn first_guest(&mut self, tag: u64) -> Option<u32> {
        let now = self.now;
        self.ch3.forget_lost_arrivals(&mut self.engine.io(now), tag);
        let guests: Vec<u32> = self.ch3.ports.get(&tag)?.waiting.iter().copied().collect();
        let spoken = guests
            .into_iter()
            .find(|g| self.root_comm(*g).is_some_and(|comm| self.has_spoken(ROOT, ROOT_TAG, comm)))?;
        if let Some(port) = self.ch3.ports.get_mut(&tag) {
            port.waiting.retain(|g| *g != spoken);
        }
        Some(spoken)
    }

    /// The communicator in which two roots talk.
    fn root_comm(&self, group: u32) -> Option<Comm> {
        let context = self.ch3.groups.get(group)?.first_context();
        Some(Comm { context, group })
    }

    /// Meets the job of a guest, and parts from the guest.
    fn serve(&mut self, guest: u32, roster: &Roster, call: &Call) -> std::result::Result<Met, NotServed> {
        let outcome = self.negotiate(guest, roster, call);
        if let Err(NotServed::Host(e)) = &outcome
            && let Some(comm) = self.root_comm(guest)
        {
            let refusal = Word::Refuse(format!("the other job could not accept: {e}"));
            // A guest that has gone needs no answer.
            let _ = self.say(&refusal.emit(), ROOT, ROOT_TAG, comm);
        }
        self.leave_root(guest, true);
        outcome
    }

    fn negotiate(&mut self, guest: u32, roster: &Roster, call: &Call) -> std::result::Result<Met, NotServed> {
        let by_guest = |e: Error| NotServed::Guest(e.to_string());
        let late = || NotServed::Guest("it stopped talking".into());
        let other = |w: Word| match w {
            Word::Refuse(why) => NotServed::Guest(why),
            w => NotServed::Guest(format!("it said {w:?} out of turn")),
        };
        let Some(comm) = self.root_comm(guest) else { return Err(late()) };
        let party = match self.hear(ROOT, ROOT_TAG, comm, call.deadline).map_err(by_guest)? {
            Some(Word::Offer(party)) => party,
            Some(w) => return Err(other(w)),
            None => return Err(late()),
        };
        let (meeting, key) = (random().map_err(NotServed::Host)?, random().map_err(NotServed::Host)?);
        let ours = Party { root: call.root, roster: roster.clone() };
        let terms = Word::Terms { meeting, key, party: ours };
        self.say(&terms.emit(), ROOT, ROOT_TAG, comm).map_err(by_guest)?;
        match self.hear(ROOT, ROOT_TAG, comm, call.deadline).map_err(by_guest)? {
            Some(Word::Ready) => {}
            Some(w) => return Err(other(w)),
            None => return Err(late()),
        }
        let (accepts, connects) = ends(meeting);
        let plan = Plan { id: connects, ours: accepts, key, party };
        let met = self.propose(call, plan).map_err(NotServed::Host)?;
        // The guest may have gone while the members agreed.
        let told = match self.ch3.source_lost(&Pattern::new(comm.context, ROOT as i32, ROOT_TAG)) {
            None => self.say(&Word::Go.emit(), ROOT, ROOT_TAG, comm),
            Some(cause) => Err(cause.into()),
        };
        if let Err(e) = told {
            self.retract(call, met);
            return Err(by_guest(e));
        }
        self.flush();
        Ok(met)
    }

    fn connect_as_root(&mut self, port: Option<&PortName>, call: &Call) -> Result<Met> {
        let roster = self.gather(call)?;
        let port = port.ok_or_else(|| Error::Usage("connect: the root must name the port".into()))?;
        let me = PeerName { group: GroupId(random()?), rank: ROOT };
        let met = RemoteGroup { id: port_group(port.tag), size: 1, me, key: port.key };
        let now = self.now;
        let host = self.ch3.join(&mut self.engine.io(now), &met, Cards::Unknown)?;
        let outcome = self.apply(port, host, roster, call);
        // A root that has not been answered needs no goodbye.
        self.leave_root(host, !matches!(outcome, Err(Error::Timeout(_))));
        outcome
    }

    /// Asks for the group at a port.
    fn apply(&mut self, port: &PortName, host: u32, roster: Roster, call: &Call) -> Result<Met> {
        let at_port = |e: Error| Error::Meet(format!("connect to port {:016x}: {e}", port.tag));
        let now = self.now;
        let vc = self.ch3.connect_to_root(&mut self.engine.io(now), host, &port.card, port.tag);
        let vc = vc.map_err(|e| at_port(e.into()))?;
        let Some(comm) = self.root_comm(host) else { return Err(self.not_accepted(port, vc, call)) };
        let offer = Word::Offer(Party { root: call.root, roster });
        self.say(&offer.emit(), ROOT, ROOT_TAG, comm).map_err(at_port)?;
        let (meeting, key, party) = match self.hear(ROOT, ROOT_TAG, comm, call.deadline).map_err(at_port)? {
            Some(Word::Terms { meeting, key, party }) => (meeting, key, party),
            Some(w) => return Err(refused(port, &w)),
            None => return Err(self.not_accepted(port, vc, call)),
        };
        let (accepts, connects) = ends(meeting);
        let plan = Plan { id: accepts, ours: connects, key, party };
        let met = match self.propose(call, plan) {
            Ok(met) => met,
            Err(e) => {
                let refusal = Word::Refuse(format!("the other job could not connect: {e}"));
                self.say(&refusal.emit(), ROOT, ROOT_TAG, comm)?;
                return Err(e);
            }
        };
        let outcome = self.await_go(port, comm, call);
        if outcome.is_err() {
            self.retract(call, met);
        }
        outcome.map(|()| met)
    }

    /// Says that this side is ready, and waits until the other is.
    fn await_go(&mut self, port: &PortName, comm: Comm, call: &Call) -> Result<()> {
        let at_port = |e: Error| Error::Meet(format!("connect to port {:016x}: {e}", port.tag));
        self.say(&Word::Ready.emit(), ROOT, ROOT_TAG, comm).map_err(at_port)?;
        // The other side's members have as long to agree.
        let until = call.deadline + 2 * self.cfg.close_timeout;
        match self.hear(ROOT, ROOT_TAG, comm, until).map_err(at_port)? {
            Some(Word::Go) => Ok(()),
            Some(w) => Err(refused(port, &w)),
            None => Err(Error::Timeout(format!(
                "connect to port {:016x}: the other job agreed, and then said nothing for {:?} and twice NETMOD_CLOSE_TIMEOUT; does it still run?",
                port.tag, call.timeout
            ))),
        }
    }

    /// Nobody has answered at a port.
    fn not_accepted(&self, port: &PortName, vc: netmod_core::VcId, call: &Call) -> Error {
        let core = &self.engine.core;
        let connected = core.vc(vc).is_some_and(|v| v.state.can_send() && v.stats.connects > 0);
        let (tag, waited) = (port.tag, call.timeout);
        Error::Timeout(if connected {
            format!(
                "connect to port {tag:016x}: connected, but nobody has accepted for {waited:?}; does the other job call accept on it?"
            )
        } else {
            let state = netmod_core::Diagnose::describe(&self.engine.netmod, core, vc);
            format!(
                "connect to port {tag:016x}: no connection within {waited:?} ({state}); does the job that opened it still run, and is the port still open?"
            )
        })
    }

    /// Ends the talk with another root, by agreement if that makes sense.
    fn leave_root(&mut self, group: u32, by_agreement: bool) {
        if by_agreement {
            let until = self.deadline_in(PATIENCE.min(self.cfg.close_timeout));
            if let Err(e) = self.close_group(group, until) {
                tracing::warn!(%e, "closing the connection between two roots");
            }
        }
        self.forget_group(group);
    }

    /// Parts from another job (`MPI_Comm_disconnect`): waits until all sends and receives with it
    /// that are under way are finished, and all processes of both jobs have come to this call;
    /// closes the connections by agreement; and forgets the other job with all communicators made
    /// of this one. Receives that have matched nothing fail, messages that were not received are
    /// lost.
    ///
    /// # Errors
    /// A process of either job that did not join in within `NETMOD_CLOSE_TIMEOUT`, or was lost, or
    /// has something under way that does not finish. Everything local is released all the same.
    pub fn disconnect_comm(&mut self, inter: InterComm) -> Result<()> {
        self.check_origin()?;
        let group = inter.comm.group;
        self.group(inter.comm)?;
        let timeout = self.cfg.close_timeout;
        let local = Comm { context: inter.local.context & !INTERNAL, ..inter.local };
        let call = self.begin("disconnect_comm", local, inter.local_root, timeout)?;
        let mut outcome = self.say_done(&inter, &call);
        if outcome.is_ok() {
            let until = self.deadline_in(timeout);
            outcome = self.close_group(group, until).and_then(|open| {
                if open.is_empty() {
                    return Ok(());
                }
                Err(Error::Timeout(format!(
                    "disconnect_comm: {} connections were not closed by the other job within {timeout:?} (NETMOD_CLOSE_TIMEOUT): {}",
                    open.len(),
                    open.join(", ")
                )))
            });
        }
        self.forget_group(group);
        outcome
    }

    /// Waits until all processes of both groups have finished what they had under way.
    fn say_done(&mut self, inter: &InterComm, call: &Call) -> Result<()> {
        let own = self.finish_pending(inter.comm.group, call);
        if self.rank() != call.root {
            let word = own.as_ref().map_or_else(|e| Word::Nack(e.to_string()), |()| Word::Done);
            self.say(&word.emit(), call.root, call.up, call.comm)?;
            let deadline = call.deadline + 2 * self.cfg.close_timeout;
            return match self.hear(call.root, call.down, call.comm, deadline)? {
                Some(Word::Commit) => Ok(()),
                Some(word) => Err(failure(call, word)),
                None => Err(silent(call)),
            };
        }
        let members = self.hear_agreement(call, call.deadline + self.cfg.close_timeout);
        let all = own.and(members);
        let outcome = self.done_at_roots(inter, call, all);
        self.conclude(call, outcome)
    }

    /// The roots tell each other whether their groups have finished.
    fn done_at_roots(&mut self, inter: &InterComm, call: &Call, here: Result<()>) -> Result<()> {
        let comm = Comm { context: inter.comm.context | INTERNAL, ..inter.comm };
        let word = here.as_ref().map_or_else(|e| Word::Refuse(e.to_string()), |()| Word::Done);
        let there = |e: Error| Error::Meet(format!("disconnect_comm: the other job: {e}"));
        self.say(&word.emit(), inter.remote_root, ROOT_TAG, comm).map_err(there)?;
        self.flush();
        here?;
        let deadline = call.deadline + self.cfg.close_timeout;
        match self.hear(inter.remote_root, ROOT_TAG, comm, deadline).map_err(there)? {
            Some(Word::Done) => Ok(()),
            Some(Word::Refuse(why)) => Err(Error::Meet(format!("disconnect_comm: the other job: {why}"))),
            Some(w) => Err(Error::Meet(format!("disconnect_comm: the other job said {w:?} out of turn"))),
            None => Err(Error::Timeout(format!(
                "disconnect_comm: the other job did not come to it within {:?} (NETMOD_CLOSE_TIMEOUT); do all its processes call it?",
                call.timeout
            ))),
        }
    }

    /// Waits for the requests that are bound to VCs of a group.
    fn finish_pending(&mut self, group: u32, call: &Call) -> Result<()> {
        let pending = |d: &Vci| {
            let space = d.ch3.groups.get(group).map(|g| g.space);
            let bound = |vc| d.ch3.vcs.get(vc).is_some_and(|s| Some(s.space) == space);
            d.engine.core.reqs().filter(|(_, r)| !r.is_finished() && r.vc.is_some_and(bound)).count()
        };
        self.wait_until(call.deadline, |d| pending(d) == 0)?;
        match pending(self) {
            0 => Ok(()),
            n => Err(Error::Timeout(format!(
                "disconnect_comm: {n} sends or receives of rank {} were not finished within {:?} (NETMOD_CLOSE_TIMEOUT); are all of them received?",
                self.rank(),
                call.timeout
            ))),
        }
    }
}

/// An answer of a root that ends the call.
fn refused(port: &PortName, word: &Word) -> Error {
    Error::Meet(match word {
        Word::Refuse(why) => format!("connect to port {:016x}: refused: {why}", port.tag),
        w => format!("connect to port {:016x}: the other side said {w:?} out of turn", port.tag),
    })
}

#[cfg(test)]
mod tests;
