//! Objects needed for making queue pairs: the device, its port, the completion queue, and the XRC
//! domain if there is one.

use hca::{AhAttr, GidKind, Hca, PortAttr};

use super::Options;
use crate::domain::Member;
use crate::wire::{Domain, PortLocation};

/// An XRC domain and this process's membership in it. Fields are in order of destruction.
pub(super) struct Xrc<H: Hca> {
    pub(super) xrcd: H::Xrcd,
    pub(super) member: Member,
}

/// Health of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    /// Type of the GID.
    pub(super) kind: GidKind,
    /// True if the port's table lacks the GID.
    pub(super) gid_gone: bool,
}

/// Objects needed for making queue pairs. Fields are in order of destruction.
pub(super) struct Site<H: Hca> {
    pub(super) xrc: Option<Xrc<H>>,
    pub(super) cq: H::Cq,
    pub(super) channel: Option<H::Channel>,
    pub(super) hca: H,
    pub(super) options: Options,
    pub(super) attr: PortAttr,
    pub(super) location: PortLocation,
    pub(super) health: Health,
}

impl<H: Hca> Site<H> {
    /// Returns device and port as settings name them.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.hca.name(), self.options.port)
    }

    /// Returns the text that says that the port's GID is gone.
    pub(super) fn without_gid(&self) -> String {
        let gid = self.location.gid;
        format!("this host's port has no GID {gid} any more; was the interface's address removed?")
    }

    /// Returns the route to a port.
    ///
    /// # Errors
    /// The reason why there is none, as text.
    pub(super) fn route(&self, to: &PortLocation) -> Result<AhAttr, String> {
        if self.health.gid_gone && self.location.ethernet {
            return Err(format!("{}: {}", self.name(), self.without_gid()));
        }
        to.route(&self.location, self.options.port, self.options.gid_index)
    }

    pub(super) fn xrcd(&self) -> Option<&H::Xrcd> {
        self.xrc.as_ref().map(|xrc| &xrc.xrcd)
    }

    /// Returns the domain's name.
    pub(super) fn domain(&self) -> Option<Domain> {
        let xrc = self.xrc.as_ref()?;
        Some(Domain { location: self.location, file: xrc.member.name() })
    }
}
