//! Objects needed for making queue pairs: the device, its port, the completion queue, and the XRC
//! domain if there is one.

use hca::{Access, AhAttr, AtomicCap, GidKind, Hca, PortAttr};

use super::Options;
use crate::domain::Member;
use crate::error::PortError;
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

    /// Returns the most that peers may do with this process's memory: all that the device can.
    pub(super) fn peers_access(&self) -> Access {
        Access { remote_atomic: self.hca.device().atomics != AtomicCap::None, ..Access::ALL }
    }

    /// Returns the route to a port.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn route(&self, to: &PortLocation) -> Result<AhAttr, PortError> {
        if self.health.gid_gone && self.location.ethernet {
            return Err(PortError::GidGone { port: self.name(), gid: self.location.gid });
        }
        to.route(&self.location, self.options.port, self.options.gid_index)
    }

    /// Makes the handle by which datagrams reach a port.
    ///
    /// # Errors
    /// If there is no route, or the device fails.
    pub(super) fn address_handle(&self, to: &PortLocation) -> Result<H::Ah, PortError> {
        Ok(self.hca.create_ah(&self.route(to)?)?)
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
