//! Notes: datagrams by which ports agree on lanes of XRC.

use hca::{Hca, Sge};
use netmod_framed::device::Port as _;

use super::Port;
use super::datagrams::GRH;
use super::end::Told;
use super::join::Note;
use crate::words::Address;

/// Buffers that frames leave to notes: without those frames that are to go by another lane would keep their buffers for ever.
pub(super) const RESERVED: usize = 4;

impl<H: Hca> Port<H> {
    /// Does for ends what they wait for, as far as that can be done now.
    #[cold]
    pub(super) fn settle_ends(&mut self) {
        let mut say = Vec::new();
        let told = &mut Told { found: &mut self.found, free: &mut self.tx_free };
        self.ends.settle(&self.site, &mut say, told);
        for (to, note) in say {
            self.say(&to, note);
        }
    }

    /// Looks whether a datagram that came is a note; if so it is handled.
    pub(super) fn note(&mut self, buffer: u32, len: usize) -> bool {
        let bytes = self.frame(self.receives.count() + buffer, GRH as u32, len as u32);
        if !bytes.first::<1>().is_some_and(|[first]| Note::is_one(first)) {
            return false;
        }
        let mut body = Vec::new();
        bytes.append_to(&mut body);
        match Note::parse(&body) {
            Some(Note::Join(join)) => {
                if let Some(answer) = self.ends.asked(&self.site, &join) {
                    self.say(&join.address, Note::Answer(answer));
                }
            }
            Some(Note::Answer(answer)) => {
                let told = &mut Told { found: &mut self.found, free: &mut self.tx_free };
                self.ends.answered(&self.site, &answer, told);
            }
            None => self.oddities.no_frames += 1,
        }
        true
    }

    /// Sends a note. What does not go now is lost: who has asked asks again.
    fn say(&mut self, to: &Address, note: Note) {
        let way =
            self.site.way(&to.place).and_then(|ah| self.site.hca.create_ah(&ah).map_err(|e| e.to_string()));
        let ah = match way {
            Ok(ah) => ah,
            Err(why) => return tracing::debug!(why, "a note is not sent: there is no way to the port"),
        };
        if self.dead.is_some() {
            return;
        }
        let Some(buffer) = self.tx_free.pop() else { return };
        let bytes = note.to_bytes();
        self.buffer(buffer)[..bytes.len()].copy_from_slice(&bytes);
        let addr = self.block().at(buffer as usize).expose_provenance() as u64;
        let sge = Sge { addr, len: bytes.len() as u32, lkey: self.tx_lkey() };
        if let Err(why) = self.datagrams.send_note(sge, buffer, ah, to) {
            tracing::debug!(?why, "a note is not sent");
            self.give_back(buffer);
        }
    }
}
