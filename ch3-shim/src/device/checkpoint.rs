//! Checkpoints: the device lets go of the network, and goes on later.

use netmod_core::{Checkpoint, Finalize, PollOrder};

use super::Vci;
use crate::error::{Error, Result};

impl Vci {
    /// Quiesces the netmods, in the middle of whatever traffic: peers are told, and when it returns no netmod holds a
    /// socket or another descriptor, or memory shared with others, so that the process can be saved by a checkpointer. Requests stay as they are;
    /// messages may be sent and received meanwhile, and wait. Peers need not do anything but make progress: what they
    /// send waits at their side, for `NETMOD_TCP_CKPT_TIMEOUT`. The process manager's connection stays open.
    ///
    /// Only [`Vci::ckpt_restart`] makes messages flow again, in this process or in one that was restored from an image
    /// of it. A restored process may have another address, which it tells the peers with which it was connected by TCP.
    /// Of two processes that are saved at the same time, one at least must come back where it was. Ranks that share
    /// memory all come back on the same node.
    ///
    /// # Errors
    /// A netmod that cannot be saved; rings of large messages; a peer of this node that has not answered within
    /// `NETMOD_CLOSE_TIMEOUT`, after which it may be called again, or taken back by [`Vci::ckpt_restart`]; of a netmod.
    pub fn ckpt_shutdown(&mut self) -> Result<()> {
        self.check_origin()?;
        if self.ch3.has_rings() {
            return Err(Error::Usage(
                "checkpoint: large messages go through memory shared with other processes, which no image holds; \
                 set NETMOD_LMT=null, or get within a node, in jobs that are checkpointed"
                    .into(),
            ));
        }
        self.ch3.rest_rings(true);
        let done = self.quiesce();
        if done.is_err() {
            self.ch3.rest_rings(false);
        }
        done
    }

    fn quiesce(&mut self) -> Result<()> {
        let deadline = self.deadline_in(self.cfg.close_timeout);
        // Its descriptors are about to go.
        self.wait_set = None;
        let mut idle = false;
        loop {
            self.tick();
            let now = self.now;
            let engine = &mut *self.engine;
            if engine.netmod.ckpt_shutdown(&mut engine.core, now)? == Finalize::Done {
                return Ok(());
            }
            if now >= deadline {
                return Err(Error::Timeout(format!(
                    "the network did not come to rest within {:?} (NETMOD_CLOSE_TIMEOUT)",
                    self.cfg.close_timeout
                )));
            }
            if idle {
                self.block(deadline)?;
            }
            idle = !self.poll(PollOrder::InFirst)?;
        }
    }

    /// Goes on after [`Vci::ckpt_shutdown`]: connections are made again, and go on where they were. An event loop asks
    /// for [`Vci::wait_fd`] anew.
    ///
    /// # Errors
    /// If it was not shut down; if the network cannot be opened again, after which it may be called again.
    pub fn ckpt_restart(&mut self) -> Result<()> {
        self.check_origin()?;
        self.tick();
        self.wait_set = None;
        let (now, engine) = (self.now, &mut *self.engine);
        engine.netmod.ckpt_restart(&mut engine.core, now)?;
        self.ch3.rest_rings(false);
        Ok(())
    }
}
