//! Where queue pairs are made: the device, its port, the completion queue, and the XRC domain if there is one.

use hca::{AhAttr, Hca, PortAttr};

use super::Options;
use super::health::Health;
use crate::domain::Member;
use crate::words::{Domain, Place};

/// A domain, and how the processes of the node have found it. The domain goes first.
pub(super) struct Xrc<H: Hca> {
    pub(super) xrcd: H::Xrcd,
    pub(super) member: Member,
}

/// See the module. Objects go in the order of the fields.
pub(super) struct Site<H: Hca> {
    pub(super) xrc: Option<Xrc<H>>,
    pub(super) cq: H::Cq,
    pub(super) channel: Option<H::Channel>,
    pub(super) hca: H,
    pub(super) options: Options,
    pub(super) attr: PortAttr,
    pub(super) place: Place,
    pub(super) health: Health,
}

impl<H: Hca> Site<H> {
    /// The way to a port.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(super) fn way(&self, to: &Place) -> Result<AhAttr, String> {
        if self.health.gid_gone && self.place.ethernet {
            return Err(format!("{}: {}", self.name(), self.without_gid()));
        }
        to.way(&self.place, self.options.port, self.options.gid_index)
    }

    pub(super) fn xrcd(&self) -> Option<&H::Xrcd> {
        self.xrc.as_ref().map(|xrc| &xrc.xrcd)
    }

    /// The domain's name.
    pub(super) fn domain(&self) -> Option<Domain> {
        let xrc = self.xrc.as_ref()?;
        Some(Domain { place: self.place, file: xrc.member.name() })
    }
}
