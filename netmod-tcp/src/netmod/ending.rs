//! The end of the netmod.

use netmod_core::{Core, Finalize, Time, VcId};

use super::TcpNetmod;
use crate::conn::ConnId;
use crate::life::Ending;
use crate::link::LinkEvent;

impl TcpNetmod {
    /// Closes everything; `Pending` until done.
    pub(crate) fn end(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.clock.now = now;
        if self.life.ending == Ending::No {
            self.life.ending = Ending::Until(now + self.link_cfg.parting_timeout);
            let vcs: Vec<VcId> = self.sessions.all();
            for vc in vcs {
                self.part_rails(vc);
                self.sessions.acknowledge(&mut self.sockets, &mut self.stats, vc, 1);
                self.flush_vc(core, vc);
                let pending = self.sessions.vcs.get(vc).is_some_and(|v| !v.is_settled());
                self.link_event(core, vc, LinkEvent::Shutdown { pending });
            }
            self.sockets.close_listener();
            while let Some(conn) = self.sockets.pop_unauthenticated() {
                self.close(conn);
            }
        }
        let late = matches!(self.life.ending, Ending::Until(t) if now >= t);
        if late {
            let left: Vec<ConnId> = self.sockets.all();
            for id in left {
                self.close(id);
            }
        }
        if self.sockets.conns.is_empty() {
            self.life.ending = Ending::Over;
            self.interfaces.let_go();
            return Finalize::Done;
        }
        if let Ending::Until(t) = self.life.ending {
            self.clock.wake_by(t);
        }
        Finalize::Pending
    }
}
