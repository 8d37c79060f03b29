//! Diagnoses and repairs problems of a port: its link, its GID, its datagram queue pair.
//!
//! A lost link is not reported: the device retries requests, and they fail if the link stays down
//! for longer. The source GID may disappear from the port's table while connections use it, when
//! the interface loses its address. These connections fail when they send next. When the table has
//! the GID again, new connections work.

use hca::{GidEntry, Hca, PortState, Status};

use super::Port;
use super::site::Site;
use crate::error::{PortError, gid_gone};
use crate::wire::Address;

impl<H: Hca> Site<H> {
    /// Returns a description of the port's current problem.
    fn trouble(&self) -> Option<String> {
        match self.hca.port(self.options.port) {
            Err(e) => return Some(e.to_string()),
            Ok(attr) if !matches!(attr.state, PortState::Active | PortState::ActiveDefer) => {
                return Some(format!(
                    "this host's port is not active ({:?}); is its cable plugged in, its interface up?",
                    attr.state
                ));
            }
            Ok(_) => {}
        }
        // The event may be unread yet.
        let ours = |g: &GidEntry| g.gid == self.location.gid && g.kind == self.health.kind;
        let there = self.hca.gids(self.options.port).is_ok_and(|gids| gids.iter().any(ours));
        (self.location.ethernet && !there).then(|| gid_gone(self.location.gid))
    }

    /// Finds the GID's index in the port's table, which may have changed. Returns true if it is
    /// there.
    fn look_for_gid(&mut self) -> bool {
        let gids = match self.hca.gids(self.options.port) {
            Ok(gids) => gids,
            Err(why) => {
                tracing::warn!(%why, "a port's table of GIDs has changed, and cannot be read");
                return true;
            }
        };
        let (port, gid) = (self.name(), self.location.gid);
        let ours = gids.iter().filter(|g| g.gid == gid && g.kind == self.health.kind);
        let Some(found) = ours.min_by_key(|g| (g.index != self.options.gid_index, g.index)) else {
            if !core::mem::replace(&mut self.health.gid_gone, true) {
                tracing::warn!(
                    port,
                    %gid,
                    "the GID that packets come from has gone; was the interface's address removed? Connections fail, and there are none \
                     before it is there again"
                );
            }
            return false;
        };
        if core::mem::replace(&mut self.health.gid_gone, false) {
            tracing::info!(port, %gid, index = found.index, "the GID that packets come from is there again");
        }
        self.options.gid_index = found.index;
        true
    }
}

impl<H: Hca> Port<H> {
    /// Describes a failure, with a possible cause on this side.
    #[cold]
    pub(super) fn reason(&self, status: Status) -> String {
        let name = self.site.name();
        match self.site.trouble() {
            Some(trouble) => format!("{name}: {}: {trouble}", short(status)),
            None => format!("{name}: {}", meaning(status)),
        }
    }

    /// Finds the GID again and marks routes as outdated, since the port's table of GIDs may have
    /// changed.
    pub(super) fn look_for_gid(&mut self) {
        if self.site.look_for_gid() {
            self.datagrams.outdated();
        }
    }

    /// Maintains the datagram queue pair.
    #[cold]
    pub(super) fn maintain_datagrams(&mut self) -> Result<(), PortError> {
        let site = &self.site;
        self.datagrams.maintain(|to: &Address| site.address_handle(&to.location))
    }
}

/// Returns the meaning of a status, as text.
fn meaning(status: Status) -> String {
    let ask = match status {
        Status::RetryExcErr => "; is its host up, and the fabric between?",
        _ => "",
    };
    format!("{}{ask}", short(status))
}

fn short(status: Status) -> String {
    match status {
        Status::RetryExcErr => "the peer's device does not answer (retry count exceeded)",
        Status::RnrRetryExcErr => "the peer has no receive buffer (RNR retry count exceeded)",
        Status::RemAccessErr => {
            "the peer's device permits no access to its memory there (remote access error)"
        }
        Status::RemInvReqErr => "the peer's device takes the request for invalid (remote invalid request)",
        Status::RemOpErr => "the peer's device could not do it (remote operation error)",
        Status::LocLenErr => "a message is too long for its memory (local length error)",
        Status::LocProtErr => "local memory is not registered for it (local protection error)",
        Status::LocQpOpErr => "the device could not send it (local queue pair operation error)",
        Status::WrFlushErr => "the queue pair has failed before (flushed)",
        Status::FatalErr => "the device has failed (fatal error)",
        other => return format!("the device reports an error ({other:?})"),
    }
    .into()
}
