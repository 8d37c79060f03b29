//! Checkpoints: the device lets go of the network, and goes on later.

use netmod_core::{CardError, Checkpoint, Finalize, Module, PollOrder, Time};

use super::Vci;
use super::init::card_of_node;
use crate::ch3::card_key;
use crate::error::{Error, Result};

impl Vci {
    /// Quiesces the netmods, in the middle of whatever traffic: peers are told, and when it returns
    /// no netmod holds a socket or another descriptor, or memory shared with others, so that the
    /// process can be saved by a checkpointer. Requests stay as they are; messages may be sent and
    /// received meanwhile, and wait. Peers need not do anything but make progress: what they send
    /// waits at their side, for `NETMOD_CKPT_TIMEOUT`. The process manager's connection stays
    /// open.
    ///
    /// Only [`Vci::ckpt_restart`] makes messages flow again, in this process or in one that was
    /// restored from an image of it. A restored process may have another address, which it tells
    /// the peers with which it was connected by TCP. Two processes that were saved at the same time
    /// and both have another address need [`Vci::ckpt_peer`] or [`Vci::ckpt_rejoin`]. Ranks that
    /// share memory all come back on the
    /// same node.
    ///
    /// # Errors
    /// A netmod that cannot be saved; of a netmod. [`Error::Timeout`] if a peer of this node makes
    /// no progress for `NETMOD_CLOSE_TIMEOUT`: while large messages are in the middle of shared
    /// memory nothing has changed then; behind that it may be called again, or taken back by
    /// [`Vci::ckpt_restart`]. The text says which.
    pub fn ckpt_shutdown(&mut self) -> Result<()> {
        self.check_origin()?;
        self.engine.netmod.can_ckpt()?;
        self.tick();
        self.ch3.rest_rings(&mut self.engine.io(self.now));
        let deadline = self.deadline_in(self.cfg.close_timeout);
        let busy = "large messages in shared memory, whose peers must make progress, did not end, so nothing has changed,";
        let emptied = self.poll_until(deadline, busy, |dev| Ok(dev.ch3.rings_are_empty()));
        if emptied.is_err() {
            self.ch3.resume_rings(false);
            return emptied;
        }
        // Its descriptors are about to go.
        self.waiting.wait_set = None;
        let left = self.poll_until(deadline, "the network did not come to rest", |dev| {
            let (now, engine) = (dev.now, &mut *dev.engine);
            Ok(engine.netmod.ckpt_shutdown(&mut engine.core, now)? == Finalize::Done)
        });
        // Behind a timeout the netmods go on asking, and hold back the packets by which a ring is
        // granted.
        if left.as_ref().is_err_and(|e| !matches!(e, Error::Timeout(_))) {
            self.ch3.resume_rings(false);
        }
        left
    }

    /// Polls until something is done. `busy` says what is not, if the deadline passes.
    fn poll_until(
        &mut self,
        deadline: Time,
        busy: &str,
        mut is_done: impl FnMut(&mut Vci) -> Result<bool>,
    ) -> Result<()> {
        let mut idle = false;
        loop {
            self.tick();
            if is_done(self)? {
                return Ok(());
            }
            if self.now >= deadline {
                return Err(Error::Timeout(format!(
                    "{busy} within {:?} (NETMOD_CLOSE_TIMEOUT)",
                    self.cfg.close_timeout
                )));
            }
            if idle {
                self.block(deadline)?;
            }
            idle = !self.poll(PollOrder::InFirst)?;
        }
    }

    /// Goes on after [`Vci::ckpt_shutdown`]: connections are made again, and go on where they were.
    /// An event loop asks for [`Vci::wait_fd`] anew. Returns this process's business card as it is
    /// now, for [`Vci::ckpt_peer`] in others.
    ///
    /// # Errors
    /// If it was not shut down; if the network cannot be opened again, after which it may be called
    /// again.
    pub fn ckpt_restart(&mut self) -> Result<Vec<u8>> {
        self.check_origin()?;
        self.tick();
        self.waiting.wait_set = None;
        let (now, engine) = (self.now, &mut *self.engine);
        engine.netmod.ckpt_restart(&mut engine.core, now)?;
        self.ch3.resume_rings(true);
        let broken = |e: CardError| Error::Config(format!("business card: {e}"));
        let mut card = card_of_node()?;
        engine.netmod.business_card(&mut card).map_err(broken)?;
        engine.netmod.offer().emit(&mut card).map_err(broken)?;
        let card = card.finish();
        self.ch3.lookups.own_card = card.clone().into();
        Ok(card)
    }

    /// Takes the card that [`Vci::ckpt_restart`] has returned in another rank of the job, however
    /// that comes here. Of two processes that have both moved, one at least needs the other's. So
    /// does a process that was never connected with one that has moved.
    ///
    /// # Errors
    /// A rank that is none, or is this one; a card that does not lead to it; if this process has
    /// been shut down and not restarted.
    pub fn ckpt_peer(&mut self, rank: i32, card: &[u8]) -> Result<()> {
        self.check_origin()?;
        let rank = self.check_rank(rank)?;
        if rank == self.ch3.groups.world.me {
            return Err(Error::Usage(format!("ckpt_peer: rank {rank} is this process")));
        }
        self.tick();
        let now = self.now;
        self.ch3.rank_is_back(&mut self.engine.io(now), rank, card)?;
        Ok(())
    }

    /// Exchanges the cards of all ranks by the process manager, whose connection must have been
    /// kept, and takes them as [`Vci::ckpt_peer`] does. All ranks of the job call it after some of
    /// them have moved, those that were not checkpointed, too. It returns when all have called it.
    /// Not to be called between [`Vci::ckpt_shutdown`] and [`Vci::ckpt_restart`].
    ///
    /// # Errors
    /// Those of the process manager; a rank that has failed, for which it would wait; cards as in
    /// [`Vci::ckpt_peer`].
    pub fn ckpt_rejoin(&mut self) -> Result<()> {
        self.check_origin()?;
        let world = &self.ch3.groups.world;
        let (me, ranks) = (world.me, 0..world.size);
        let rejoins = self.ch3.lookups.rejoins + 1;
        let boot = &mut self.ch3.boot;
        boot.put(&card_key(me, rejoins), &self.ch3.lookups.own_card)?;
        boot.barrier_begin()?;
        let mut idle = false;
        while !self.ch3.boot.barrier_poll()? {
            if let Some(failure) = self.ch3.failures.iter().next() {
                return Err(Error::Peer(failure.cause.clone()));
            }
            self.tick();
            if idle {
                self.block(Time::NEVER)?;
            }
            idle = !self.poll(PollOrder::InFirst)?;
        }
        self.ch3.all_are_back();
        for rank in ranks {
            if self.ch3.groups.world.vcs.get(rank).is_none() {
                // Its card is asked for when it is needed.
                continue;
            }
            let card = self.ch3.boot.get(&card_key(rank, rejoins))?;
            let card = card.ok_or_else(|| {
                Error::Launcher(format!("rank {rank} has published no card at rejoin {rejoins}"))
            })?;
            self.ckpt_peer(rank as i32, &card)?;
        }
        Ok(())
    }
}
