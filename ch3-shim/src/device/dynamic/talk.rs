//! Messages of the collective calls on two groups: said and heard within deadlines, among the
//! members of a job and between two roots.

use netmod_core::{Time, VcId};

use super::super::{Comm, RawReq, Vci};
use super::Call;
use super::word::{MAX_WORD, Plan, Roster, Word};
use crate::ch3::{Cards, INTERNAL, WORLD};
use crate::error::{Error, Result};
use crate::tagmatch::Pattern;
use netmod_core::{PeerName, RemoteGroup};

/// A group that was met, as its members know it here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    /// Its number.
    pub(super) group: u32,
    /// The rank that speaks for it.
    pub(super) root: u32,
    pub(super) size: u32,
}

impl Vci {
    /// Says something to a process. Whether it arrives shows in the answer.
    pub(super) fn say(&mut self, word: &[u8], to: u32, tag: i32, comm: Comm) -> Result<()> {
        let request = self.isend(word.to_vec(), to as i32, tag, comm)?;
        self.free_raw(request.raw());
        Ok(())
    }

    /// Says something to all other members. One that cannot be reached misses it, and fails by
    /// itself.
    pub(super) fn tell_all(&mut self, call: &Call, word: &Word) {
        let bytes = bytes::Bytes::from(word.emit());
        let (me, size) = (self.rank(), self.size());
        for rank in (0..size).filter(|r| *r != me) {
            match self.isend(bytes.clone(), rank as i32, call.down, call.comm) {
                Ok(request) => self.free_raw(request.raw()),
                Err(e) => tracing::warn!(rank, word = word.name(), %e, "a member of the job was not told"),
            }
        }
        self.flush();
    }

    /// The next message of a process, or `None` if none has come until the deadline.
    pub(super) fn hear(&mut self, from: u32, tag: i32, comm: Comm, deadline: Time) -> Result<Option<Word>> {
        let pattern = self.incoming(from as i32, tag, comm)?;
        let message = loop {
            if let Some(m) = self.improbe(from as i32, tag, comm)? {
                break m;
            }
            if self.now >= deadline {
                return Ok(None);
            }
            let news = |d: &Vci| (d.ch3.stats.unexpected, d.ch3.budget.wants);
            let seen = news(self);
            self.wait_until(deadline, |d| news(d) != seen || d.check_source(&pattern).is_err())?;
        };
        let len = message.status().len;
        if len > MAX_WORD {
            return Err(Error::Meet(format!("rank {from} sent {len} bytes where at most {MAX_WORD} may be")));
        }
        let request = self.imrecv(vec![0; len], message);
        let raw: RawReq = request.raw();
        self.wait_until(deadline, |d| d.is_finished(raw))?;
        if !self.is_finished(raw) {
            self.reclaim(raw);
            return Ok(None);
        }
        let bytes = self.wait(request)?.buffer;
        let word = Word::parse(&bytes);
        word.map(Some).map_err(|e| Error::Meet(format!("rank {from} sent a broken message: {e}")))
    }

    /// Returns true if a message of a process waits to be heard.
    pub(super) fn has_spoken(&mut self, from: u32, tag: i32, comm: Comm) -> bool {
        let pattern = Pattern::new(comm.context, from as i32, tag);
        self.ch3.queues.unexpected.peek_match(&pattern).is_some()
    }

    /// The root hears what all other members say, in the order of their ranks.
    fn hear_members(
        &mut self,
        call: &Call,
        deadline: Time,
        mut each: impl FnMut(u32, Word) -> Result<()>,
    ) -> Result<()> {
        for rank in (0..self.size()).filter(|r| *r != call.root) {
            let heard = self
                .hear(rank, call.up, call.comm, deadline)
                .map_err(|e| Error::Meet(format!("{}: rank {rank} of this job: {e}", call.what)))?;
            let Some(word) = heard else {
                return Err(Error::Timeout(format!(
                    "{}: rank {rank} of this job did not join in within {:?}; do all its processes make the call?",
                    call.what, call.timeout
                )));
            };
            each(rank, word)?;
        }
        Ok(())
    }

    /// The root collects the business cards of the members, which shows that all have come.
    pub(super) fn gather(&mut self, call: &Call) -> Result<Roster> {
        let mut roster: Roster = vec![Box::default(); self.size() as usize];
        roster[call.root as usize] = self.ch3.lookups.own_card.clone();
        self.hear_members(call, call.deadline, |rank, word| match word {
            Word::Card(card) => {
                roster[rank as usize] = card;
                Ok(())
            }
            other => Err(out_of_turn(call, rank, &other)),
        })?;
        Ok(roster)
    }

    /// The root hears from all members whether they agree.
    pub(super) fn hear_agreement(&mut self, call: &Call, deadline: Time) -> Result<()> {
        // All are heard, so that no answer is left over.
        let mut refused = None;
        self.hear_members(call, deadline, |rank, word| {
            match word {
                Word::Ack | Word::Done => {}
                Word::Nack(text) => {
                    refused.get_or_insert(Error::Meet(format!(
                        "{}: rank {rank} of this job: {text}",
                        call.what
                    )));
                }
                other => return Err(out_of_turn(call, rank, &other)),
            }
            Ok(())
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Meets a group as it was planned.
    pub(super) fn install(&mut self, plan: Plan) -> Result<Met> {
        let Plan { id, ours, key, party } = plan;
        let size = party.roster.len() as u32;
        let met = RemoteGroup { id, size, me: PeerName { group: ours, rank: self.rank() }, key };
        let now = self.now;
        let group = self.ch3.join(&mut self.engine.io(now), &met, Cards::Given(party.roster))?;
        Ok(Met { group, root: party.root, size })
    }

    /// The root has all members meet a group; if one cannot, none has.
    pub(super) fn propose(&mut self, call: &Call, plan: Plan) -> Result<Met> {
        let word = Word::Plan(plan.clone());
        let met = self.install(plan)?;
        self.tell_all(call, &word);
        match self.hear_agreement(call, call.deadline + self.cfg.close_timeout) {
            Ok(()) => Ok(met),
            Err(e) => {
                self.retract(call, met);
                Err(e)
            }
        }
    }

    /// The root takes a plan back.
    pub(super) fn retract(&mut self, call: &Call, met: Met) {
        self.forget_group(met.group);
        self.tell_all(call, &Word::Drop);
    }

    /// Forgets a group at once.
    pub(super) fn forget_group(&mut self, group: u32) {
        let now = self.now;
        self.ch3.leave(&mut self.engine.io(now), group);
    }

    /// Follows the root, as a member, until it says how the call has ended.
    pub(super) fn follow(&mut self, call: &Call) -> Result<Met> {
        let card = Word::Card(self.ch3.lookups.own_card.clone()).emit();
        self.say(&card, call.root, call.up, call.comm)?;
        // The root waits for all the others, which may be late, and then for the other job.
        let deadline = call.deadline + 2 * self.cfg.close_timeout;
        let mut met: Option<Met> = None;
        let outcome = self.follow_until(call, deadline, &mut met);
        if outcome.is_err()
            && let Some(met) = met
        {
            self.forget_group(met.group);
        }
        outcome
    }

    fn follow_until(&mut self, call: &Call, deadline: Time, met: &mut Option<Met>) -> Result<Met> {
        loop {
            match self.hear(call.root, call.down, call.comm, deadline) {
                Ok(Some(Word::Plan(plan))) if met.is_none() => {
                    let answer = match self.install(plan) {
                        Ok(group) => {
                            *met = Some(group);
                            Word::Ack
                        }
                        Err(e) => Word::Nack(e.to_string()),
                    };
                    self.say(&answer.emit(), call.root, call.up, call.comm)?;
                }
                Ok(Some(Word::Drop)) => {
                    if let Some(met) = met.take() {
                        self.forget_group(met.group);
                    }
                }
                Ok(Some(word)) => {
                    return met.filter(|_| word == Word::Commit).ok_or_else(|| failure(call, word));
                }
                Ok(None) => return Err(silent(call)),
                Err(e) => {
                    return Err(Error::Meet(format!("{}: its root, rank {}: {e}", call.what, call.root)));
                }
            }
        }
    }

    /// Closes the VCs of a group by agreement. The VCs that were not closed in time, if there are
    /// any.
    pub(super) fn close_group(&mut self, group: u32, deadline: Time) -> Result<Vec<String>> {
        let Some(g) = self.ch3.groups.get(group) else { return Ok(Vec::new()) };
        let vcs: Vec<VcId> = g.vcs.iter().map(|(_, vc)| vc).collect();
        let now = self.now;
        for vc in &vcs {
            self.ch3.vc_close(&mut self.engine.io(now), *vc);
        }
        self.wait_until(deadline, |d| vcs.iter().all(|vc| d.at_rest(*vc)))?;
        let open = vcs.iter().filter(|vc| !self.at_rest(**vc)).filter_map(|vc| self.engine.core.vc(*vc));
        Ok(open.map(|v| format!("rank {} ({})", v.peer.rank, v.state)).collect())
    }

    /// The start of a collective call on a communicator of the job.
    pub(super) fn begin(
        &mut self,
        what: &'static str,
        comm: Comm,
        root: u32,
        timeout: std::time::Duration,
    ) -> Result<Call> {
        self.group(comm)?;
        if comm.group != WORLD {
            return Err(Error::Usage(format!(
                "{what}: it takes a communicator of this job, not one with another job"
            )));
        }
        self.check_rank(i32::try_from(root).unwrap_or(-1))?;
        let world = &mut self.ch3.groups.world;
        // Two tags for each call; zero is the barrier's.
        let n = (world.calls & 0x1fff_ffff) as i32;
        world.calls = world.calls.wrapping_add(1);
        let deadline = self.deadline_in(timeout);
        let comm = Comm { context: comm.context | INTERNAL, ..comm };
        Ok(Call { what, comm, root, up: 1 + 2 * n, down: 2 + 2 * n, deadline, timeout })
    }
}

/// An answer of a root that ends a call.
pub(super) fn failure(call: &Call, word: Word) -> Error {
    match word {
        Word::Fail { timeout: true, text } => Error::Timeout(text),
        Word::Fail { timeout: false, text } => Error::Meet(text),
        other => out_of_turn(call, call.root, &other),
    }
}

/// A root that does not say how a call has ended.
pub(super) fn silent(call: &Call) -> Error {
    Error::Timeout(format!(
        "{}: its root, rank {}, did not say within {:?} and twice NETMOD_CLOSE_TIMEOUT how it ended; does it make the call?",
        call.what, call.root, call.timeout
    ))
}

fn out_of_turn(call: &Call, rank: u32, word: &Word) -> Error {
    Error::Meet(format!(
        "{}: rank {rank} of this job said {word:?} out of turn; do all its processes make the same calls?",
        call.what
    ))
}
