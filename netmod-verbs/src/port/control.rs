//! Control messages: datagrams by which ports agree on shared QPs of XRC.

use hca::{Hca, Sge};
use netmod_framed::device::Port as _;

use super::Port;
use super::datagrams::GRH;
use super::endpoint::Results;
use super::join::Control;
use crate::wire::Address;

/// Buffers reserved for control messages. Frames that wait for another QP keep their buffers, and
/// need control messages to get one.
pub(super) const RESERVED: usize = 4;

impl<H: Hca> Port<H> {
    /// Advances the endpoints that wait for something, as far as possible.
    #[cold]
    pub(super) fn settle_endpoints(&mut self) {
        let mut outgoing = Vec::new();
        let results = &mut Results { found: &mut self.found, free: &mut self.tx.free };
        self.endpoints.settle(&self.site, &mut outgoing, results);
        for (to, message) in outgoing {
            self.send_control(&to, message);
        }
    }

    /// Handles a received datagram if it is a control message; returns true if so.
    pub(super) fn take_control(&mut self, buffer: u32, len: usize) -> bool {
        let bytes = self.frame(self.receives.count() + buffer, GRH as u32, len as u32);
        if !bytes.first::<1>().is_some_and(|[first]| Control::is_one(first)) {
            return false;
        }
        let mut body = Vec::new();
        bytes.append_to(&mut body);
        match Control::parse(&body) {
            Some(Control::Join(join)) => {
                if let Some(answer) = self.endpoints.asked(&self.site, &join) {
                    self.send_control(&join.address, Control::Answer(answer));
                }
            }
            Some(Control::Answer(answer)) => {
                let results = &mut Results { found: &mut self.found, free: &mut self.tx.free };
                self.endpoints.answered(&self.site, &answer, results);
            }
            None => self.oddities.no_frames += 1,
        }
        true
    }

    /// Sends a control message. One that cannot be sent now is lost: the peer asks again.
    fn send_control(&mut self, to: &Address, message: Control) {
        let ah = match self.site.address_handle(&to.location) {
            Ok(ah) => ah,
            Err(why) => {
                return tracing::debug!(%why, "a control message is not sent: there is no route to the port");
            }
        };
        if self.dead.is_some() {
            return;
        }
        let Some(buffer) = self.tx.free.pop() else { return };
        let bytes = message.to_bytes();
        self.buffer(buffer)[..bytes.len()].copy_from_slice(&bytes);
        let addr = self.block().at(buffer as usize).expose_provenance() as u64;
        let sge = Sge { addr, len: bytes.len() as u32, lkey: self.tx_lkey() };
        if let Err(why) = self.datagrams.send_control(sge, buffer, ah, to) {
            tracing::debug!(?why, "a control message is not sent");
            self.give_back(buffer);
        }
    }
}
