//! What is wrong with a port, in words, and what is done about it: its link, its GID, its queue pair of datagrams.
//!
//! Of a link that is down nobody needs to be told: requests are repeated by the device, and fail if it stays down for longer than
//! that takes. The GID that packets come from may lose its place in the port's table while connections use it, with the interface's address.
//! Those that do fail when they send next; as soon as the table has it again, there are new ones.

use hca::{GidEntry, GidKind, Hca, PortState, Status};

use super::Port;
use super::site::Site;
use crate::words::Address;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    /// What the GID is used for.
    pub(super) kind: GidKind,
    /// The port's table has it no more.
    pub(super) gid_gone: bool,
}

impl<H: Hca> Site<H> {
    /// Device and port, as in settings.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.hca.name(), self.options.port)
    }

    /// What is wrong with the port now.
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
        // The event may not have been read yet.
        let ours = |g: &GidEntry| g.gid == self.place.gid && g.kind == self.health.kind;
        let there = self.hca.gids(self.options.port).is_ok_and(|gids| gids.iter().any(ours));
        (self.place.ethernet && !there).then(|| self.without_gid())
    }

    pub(super) fn without_gid(&self) -> String {
        let gid = self.place.gid;
        format!("this host's port has no GID {gid} any more; was the interface's address removed?")
    }

    /// The port's table of GIDs may have changed, and with it the place of the GID. Whether it is there.
    fn look_for_gid(&mut self) -> bool {
        let gids = match self.hca.gids(self.options.port) {
            Ok(gids) => gids,
            Err(why) => {
                tracing::warn!(%why, "a port's table of GIDs has changed, and cannot be read");
                return true;
            }
        };
        let (port, gid) = (self.name(), self.place.gid);
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
    /// What a failure means, and what of this side may be its cause.
    #[cold]
    pub(super) fn reason(&self, status: Status) -> String {
        let name = self.site.name();
        match self.site.trouble() {
            Some(trouble) => format!("{name}: {}: {trouble}", short(status)),
            None => format!("{name}: {}", meaning(status)),
        }
    }

    /// The port has another table of GIDs, perhaps: ways that were made before may be of use no more.
    pub(super) fn look_for_gid(&mut self) {
        if self.site.look_for_gid() {
            self.datagrams.outdated();
        }
    }

    /// What is due for the queue pair of datagrams.
    #[cold]
    pub(super) fn look_after_datagrams(&mut self) -> Result<(), String> {
        let site = &self.site;
        self.datagrams.look_after(|to: &Address| {
            site.way(&to.place).and_then(|way| site.hca.create_ah(&way).map_err(|e| e.to_string()))
        })
    }
}

/// What a status means to a person who looks for the cause.
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
