//! The XRC receiving QPs that this process holds: each held once, for as long as an endpoint needs
//! it.

use hca::{AhAttr, Hca, ModifyQp, Mtu, Qp as _, QpCap, QpInit, QpKind, QpNum, ToRtr};

use super::send_qp::{READS, RNR_TIMER};
use super::site::Site;
use crate::error::PortError;
use crate::wire::Address;

/// Identity of a peer's shared QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) address: Address,
    pub(super) ini: QpNum,
    pub(super) psn: u32,
}

struct Target<H: Hca> {
    qp: H::Qp,
    number: QpNum,
    /// The sender that it was made for, if this process has made it.
    made_for: Option<Sender>,
    users: u32,
}

/// The XRC receiving QPs that this process holds.
pub(super) struct Targets<H: Hca>(Vec<Target<H>>);

impl<H: Hca> Default for Targets<H> {
    fn default() -> Self {
        Targets(Vec::new())
    }
}

impl<H: Hca> Targets<H> {
    /// Makes a receiving QP for a shared QP, or holds the one that was made for it.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn make(
        &mut self,
        site: &Site<H>,
        sender: Sender,
        ah: AhAttr,
        mtu: Mtu,
    ) -> Result<QpNum, PortError> {
        if let Some(target) = self.0.iter_mut().find(|t| t.made_for == Some(sender)) {
            target.users += 1;
            return Ok(target.number);
        }
        let xrcd = site.xrcd().ok_or(PortError::NoDomain)?;
        let init = QpInit { kind: QpKind::XrcTgt { xrcd }, cap: QpCap::default(), signal_all: false };
        let qp = site.hca.create_qp(&init)?;
        let access = site.peers_access();
        let (port, pkey_index) = (site.options.port, site.options.pkey_index);
        qp.modify(&ModifyQp::Init { port, pkey_index, access })?;
        let rtr = ToRtr {
            path_mtu: mtu.min(site.attr.active_mtu),
            dest_qp: sender.ini,
            rq_psn: sender.psn,
            max_dest_rd_atomic: reads(site),
            min_rnr_timer: RNR_TIMER,
            ah,
            alt: None,
        };
        qp.modify(&ModifyQp::Rtr(rtr))?;
        let number = qp.number();
        self.0.push(Target { qp, number, made_for: Some(sender), users: 1 });
        Ok(number)
    }

    /// Holds a receiving QP that another process may have made.
    ///
    /// # Errors
    /// The device's error, for example because it is gone.
    pub(super) fn open(&mut self, site: &Site<H>, number: QpNum) -> Result<(), PortError> {
        if let Some(target) = self.0.iter_mut().find(|t| t.number == number) {
            target.users += 1;
            return Ok(());
        }
        let xrcd = site.xrcd().ok_or(PortError::NoDomain)?;
        let qp = site.hca.open_tgt(xrcd, number)?;
        self.0.push(Target { qp, number, made_for: None, users: 1 });
        Ok(())
    }

    /// Releases an endpoint's hold.
    pub(super) fn release(&mut self, number: QpNum) {
        let Some(at) = self.0.iter().position(|t| t.number == number) else { return };
        self.0[at].users -= 1;
        if self.0[at].users == 0 {
            // Messages received through it are in the receive queue, and stay there.
            drop(self.0.swap_remove(at).qp);
        }
    }

    /// Returns true if a queue pair is one of these.
    pub(super) fn knows(&self, number: QpNum) -> bool {
        self.0.iter().any(|t| t.number == number)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the number of reads that a receiving QP serves at once.
pub(super) fn reads<H: Hca>(site: &Site<H>) -> u8 {
    site.hca.device().max_qp_rd_atom.min(READS)
}
