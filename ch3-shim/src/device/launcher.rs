//! Questions to the process manager: who has failed, and the cards of peers. They are asked without
//! waiting, and no message waits for an answer but those to the peer whose card it is.
//!
//! It is asked for failed ranks when a wait has nothing to do, once in `NETMOD_FAILURE_CHECK`. When
//! it is gone, the process ends with it: each call that makes progress fails, unless the job was
//! told to go on.

use netmod_core::card::NodeSection;
use netmod_core::{Card, DeviceError, Time, VcError};
use netmod_pmi::Spawn;

use super::Vci;
use crate::bootstrap::{Answer, Asked, Silence};
use crate::ch3::{Found, WORLD, rank_of_key};
use crate::error::{Error, Result};

/// The questions to the process manager.
#[derive(Debug)]
pub(super) struct Asking {
    next: Time,
    /// It is not asked for failed ranks.
    mute: bool,
    /// The question for failed ranks has not been answered.
    open: bool,
    /// It will not answer any more.
    silent: bool,
    /// It is gone, and this process ends with it.
    gone: Option<DeviceError>,
}

impl Asking {
    /// Not before the first interval is over.
    pub(super) fn new() -> Asking {
        Asking { next: Time::ZERO, mute: false, open: false, silent: false, gone: None }
    }

    /// Returns true if the process manager tells of no failed ranks.
    pub(super) fn is_mute(&self) -> bool {
        self.mute || self.silent
    }
}

fn gone(rank: u32, why: &str) -> DeviceError {
    let text = format!(
        "the process manager is gone, and rank {rank} ends with it: {why}; a job that is to go on without its \
         launcher is started by nmrun --no-kill, or as a recoverable one under PMIx"
    );
    DeviceError::of_all(text)
}

impl Vci {
    /// Returns the time at which a wait looks at failures although nothing arrives.
    pub(super) fn failure_deadline(&self) -> Time {
        let ask = if self.asking.silent { Time::NEVER } else { self.asking.next };
        let ask = ask.min(self.watch_deadline());
        self.ch3.next_give_up().map_or(ask, |at| at.min(ask))
    }

    /// Looks at failures if it is time: asks the process manager, and gives up who it has called
    /// dead. Only called when there is nothing else to do.
    #[cold]
    pub(super) fn look_for_failures(&mut self) {
        let now = self.now;
        if self.ch3.next_give_up().is_some_and(|at| at <= now) {
            self.ch3.give_up_due(&mut self.engine.io(now));
        }
        self.watch_awaited();
        if self.asking.silent || now < self.asking.next {
            return;
        }
        // The first time it is not asked: nobody has waited for long.
        let first = self.asking.next == Time::ZERO;
        let interval = self.cfg.failure_check;
        let alone = self.size() == 1 && self.ch3.boot.fd().is_none();
        if interval.is_zero() || alone {
            self.asking.next = Time::NEVER;
            self.asking.mute = true;
            return;
        }
        self.asking.next = now + interval;
        if !first {
            self.hear_launcher();
            self.ask_for_failures();
        }
    }

    /// Asks the process manager who has failed, unless it still owes the last answer.
    pub(super) fn ask_for_failures(&mut self) {
        let asking = &self.asking;
        if asking.mute || asking.silent || asking.open || self.cfg.failure_check.is_zero() || self.size() == 1
        {
            return;
        }
        match self.ch3.boot.ask_failed() {
            Ok(Asked::Now(ranks)) => self.told_of_failed(&ranks),
            Ok(Asked::Later) => {
                self.asking.open = true;
                self.ch3.lookups.open += 1;
            }
            // The call of `answer`, which comes next, reports the error.
            Err(error) => tracing::debug!(%error, "the process manager was not asked"),
        }
    }

    fn told_of_failed(&mut self, ranks: &[u32]) {
        let now = self.now;
        self.ch3.told_of_failed(&mut self.engine.io(now), ranks);
    }

    /// Returns true if the process manager owes an answer.
    #[inline]
    pub(super) fn has_questions(&self) -> bool {
        self.ch3.lookups.open > 0
    }

    /// Takes the answers that have come, and notices if the process manager is gone. Returns true
    /// if there was anything.
    #[cold]
    #[inline(never)]
    pub(super) fn hear_launcher(&mut self) -> bool {
        let mut heard = false;
        while !self.asking.silent {
            match self.ch3.boot.answer() {
                Ok(None) => break,
                Ok(Some(answer)) => {
                    self.ch3.lookups.open = self.ch3.lookups.open.saturating_sub(1);
                    self.take_answer(answer);
                }
                Err(silence) => self.fall_silent(silence),
            }
            heard = true;
        }
        heard
    }

    fn take_answer(&mut self, answer: Answer) {
        let now = self.now;
        match answer {
            Answer::Failed(ranks) => {
                self.asking.open = false;
                self.told_of_failed(&ranks);
            }
            Answer::Value(key, value) => {
                if let Some(rank) = rank_of_key(&key) {
                    self.ch3.card_came(&mut self.engine.io(now), rank, value);
                }
            }
        }
    }

    fn fall_silent(&mut self, silence: Silence) {
        self.asking.silent = true;
        let why = match silence {
            Silence::Gone(why) => {
                let error = gone(self.rank(), &why);
                tracing::error!(%error, "this process ends");
                self.asking.gone = Some(error);
                why
            }
            Silence::Mute(why) => {
                tracing::warn!(%why, "the process manager answers no more; this process goes on");
                why
            }
        };
        let now = self.now;
        self.ch3.no_more_cards(&mut self.engine.io(now), &why);
    }

    /// Fails if the process manager is gone and this process ends with it.
    #[inline]
    pub(super) fn check_launcher(&self) -> std::result::Result<(), DeviceError> {
        self.asking.gone.clone().map_or(Ok(()), Err)
    }

    /// The error of a message: that of the process manager if that is gone, of which a peer's end
    /// is a consequence.
    #[cold]
    pub(super) fn blame(&mut self, error: VcError) -> Error {
        self.hear_launcher();
        match self.check_launcher() {
            Err(gone) => gone.into(),
            Ok(()) => self.explain(error),
        }
    }

    /// Returns a number that is the same for two ranks exactly if they run on one node.
    ///
    /// It is the process manager's. If that does not tell, it is made of the business card, for
    /// which this may wait and make progress.
    ///
    /// # Errors
    /// A bad rank; a peer without a usable business card.
    pub fn node_of(&mut self, rank: u32) -> Result<u64> {
        self.check_origin()?;
        let rank = self.check_rank(i32::try_from(rank).unwrap_or(-1))?;
        let own = rank == self.rank();
        let told = if own { self.ch3.boot.node() } else { self.ch3.boot.node_of(rank) };
        if let Some(node) = told {
            return Ok(node.into());
        }
        if self.ch3.boot.local_size() == self.size() {
            return Ok(0);
        }
        let node = if own {
            NodeSection::of_this_process().map_err(|e| Error::Config(e.to_string()))?
        } else {
            let card = self.wait_for_card(rank)?;
            card.node().map_err(|e| Error::Config(format!("business card of rank {rank}: {e}")))?
        };
        // A boot id is random, and so is any part of it.
        let [a, b, c, d, e, f, g, h, ..] = node.boot_id;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Returns true if this process talks to others of its node through memory that they share:
    /// `NETMOD` has `shm`, and it is there.
    pub fn shares_memory(&self) -> bool {
        self.engine.netmod.netmods().any(|m| m.name() == "shm")
    }

    /// Publishes a port under the name of a service, for all jobs of the launcher.
    ///
    /// # Errors
    /// A name that is published already; a launcher that does not serve it.
    pub fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        self.check_origin()?;
        Ok(self.ch3.boot.publish_name(service, port)?)
    }

    /// Returns the port of a service; `None` if none is published.
    ///
    /// # Errors
    /// A launcher that does not serve it.
    pub fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        self.check_origin()?;
        Ok(self.ch3.boot.lookup_name(service)?)
    }

    /// Takes back the name of a service.
    ///
    /// # Errors
    /// A name that is not published; a launcher that does not serve it.
    pub fn unpublish_name(&mut self, service: &str) -> Result<()> {
        self.check_origin()?;
        Ok(self.ch3.boot.unpublish_name(service)?)
    }

    /// Starts programs as a job of their own. Returns its name, if the launcher tells.
    ///
    /// # Errors
    /// Programs that cannot be started; a launcher that starts none.
    pub fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>> {
        self.check_origin()?;
        Ok(self.ch3.boot.spawn(spawn)?)
    }

    /// Returns the exit code of a job that was started by [`Vci::spawn`], if the launcher says that
    /// it has ended.
    ///
    /// # Errors
    /// What the launcher says.
    pub fn end_of_job(&mut self, job: &str) -> Result<Option<i32>> {
        Ok(self.ch3.boot.end_of_job(job)?)
    }

    /// The card of a rank of the job; makes progress until it is here.
    pub(super) fn wait_for_card(&mut self, rank: u32) -> Result<Card> {
        match self.ch3.card_for_call(rank).map_err(|e| self.explain(e))? {
            Found::Now(card) => Ok(card),
            Found::Later => {
                let mut card = None;
                self.wait_until(Time::NEVER, |dev| {
                    card = card.take().or_else(|| dev.ch3.take_card(rank));
                    card.is_some()
                })?;
                match card {
                    Some(Ok(card)) => Ok(card),
                    Some(Err(e)) => Err(self.explain(e)),
                    None => Err(Error::Launcher(format!("no card of rank {rank} has come"))),
                }
            }
        }
    }

    /// Sets the threshold between eager and rendezvous for messages to one rank; for all others it
    /// is `NETMOD_EAGER_MAX`. It is never more than half of `NETMOD_EAGER_WINDOW`; messages of at
    /// most 16 bytes are always below it. The first call for a rank may have to wait for its
    /// business card, and makes progress meanwhile.
    ///
    /// # Errors
    /// A bad rank; a peer without a usable business card.
    pub fn set_eager_max(&mut self, rank: u32, bytes: usize) -> Result<()> {
        self.check_origin()?;
        let rank = self.check_rank(i32::try_from(rank).unwrap_or(-1))?;
        if rank == self.rank() {
            return Ok(());
        }
        let vc = match self.ch3.known_vc(WORLD, rank) {
            Some(vc) => vc,
            None => {
                let card = self.wait_for_card(rank)?;
                let now = self.now;
                self.ch3.vc_by_card(&mut self.engine.io(now), rank, &card)?
            }
        };
        self.ch3.set_eager_max(vc, bytes);
        Ok(())
    }
}
