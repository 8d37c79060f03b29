//! The end of a netmod: in order, or abandoned.

use std::time::Duration;

use netmod_core::{Core, Finalize, Time, VcError, VcErrorKind, VcId};

use crate::device::{Device, Port};
use crate::netmod::FrameNetmod;
use crate::shutdown::Ending;

/// Time that `finalize` waits for peers: longer than connections wait for the answer to their FIN,
/// so that RESET still goes out.
const PARTING: Duration = Duration::from_secs(3);
/// Most checks of a process that ends for its last frames to leave.
const LAST_LOOKS: usize = 1000;

impl<D: Device> FrameNetmod<D> {
    /// Ends all connections in order, for a limited time; then closes everything.
    pub(crate) fn end(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.clock.now = self.clock.now.max(now);
        if self.shutdown.ending == Ending::Over {
            return Finalize::Done;
        }
        if self.shutdown.ending == Ending::No {
            self.shutdown.ending = Ending::Until(self.clock.now + PARTING);
            self.manage(core, |m, env| m.shut(env));
            let all: Vec<VcId> = self.by_peer.values().copied().collect();
            for vc in all {
                if let Some(l) = self.links.get_mut(vc) {
                    l.ready = false;
                    // Queued messages go out first; then the peer is told.
                    if l.open.is_some() && !l.terminating {
                        l.terminating = true;
                        self.pump(core, vc);
                    }
                }
            }
        }
        let under_way: usize = self.ports.iter().map(Port::sends_under_way).sum();
        let quiet = self.connections.manager.is_quiet() && !self.outbox.is_waiting() && under_way == 0;
        let late = matches!(self.shutdown.ending, Ending::Until(end) if self.clock.now >= end);
        if !quiet && !late {
            return Finalize::Pending;
        }
        if !quiet {
            tracing::info!("peers have not answered the end of their connections; the endpoints are closed");
        }
        self.shutdown.ending = Ending::Over;
        self.closed();
        Finalize::Done
    }

    /// Tells peers that their connections are gone, without waiting for any of them.
    fn abandon(&mut self) {
        let mut core = Core::default();
        self.shutdown.ending = Ending::Abandoned;
        for vc in std::mem::take(&mut self.by_peer).into_values() {
            let error = VcError::new(VcErrorKind::Aborted, None, "the process has given its netmod up");
            self.fail(&mut core, vc, error);
        }
        for _ in 0..LAST_LOOKS {
            let under_way: usize = self.ports.iter().map(Port::sends_under_way).sum();
            if under_way == 0 && !self.outbox.is_waiting() {
                break;
            }
            self.push_outbox(&mut core);
            self.work.backlog.clear();
            for port in 0..self.ports.len() {
                self.progress_transfers(port);
            }
        }
    }

    /// Closes every endpoint, registration and descriptor.
    fn closed(&mut self) {
        self.outbox.queue.clear();
        self.work.backlog.clear();
        self.addresses.clear_inbound();
        self.waiter = None;
        self.liveness.life = None;
        if self.transfers.are_running() {
            // The device must stop using memory before the memory is taken from it.
            self.ports.iter_mut().for_each(Port::quiesce);
        }
        self.transfers.close_all(&self.ports);
        self.ports.clear();
    }
}

impl<D: Device> Drop for FrameNetmod<D> {
    /// Tells the peers if the process has not finalized, and leaves nothing in the system.
    fn drop(&mut self) {
        if self.shutdown.ending != Ending::Over && !self.ports.is_empty() {
            self.abandon();
        }
        self.closed();
    }
}
