//! Checkpoints: all of the shared memory is let go, and taken up again, perhaps in a process that
//! was restored from an image.
//!
//! Rings are emptied by agreement ([`crate::pause`]); streams, and messages of which a part has
//! gone, go on in the same ring or a new one. Nobody writes into the memory of a rank that is away,
//! since transfers with it wait.

use std::fmt::Display;
use std::io;

use netmod_core::{Card, Checkpoint, Core, DeviceError, Finalize, Time, VcError, VcErrorKind, VcId};

use crate::NAME;
use crate::channel::{Channel, Parting, Peer, Wake};
use crate::netmod::{NoSegment, ShmNetmod};
use crate::pause::{Note, ROUNDS};
use crate::ring::{Cell, Geometry, Kind, Producer, RingMem, TokenLine};
use crate::segment::raw::RawRing;
use crate::segment::{Parked, RingError, Segment};
use crate::stage::Stage;
use crate::sys::Pipe;
use crate::watched::Watch;

/// Returns the error of a checkpoint.
fn failed(why: impl Display) -> DeviceError {
    DeviceError::new(NAME, why.to_string())
}

fn no_pipe(e: io::Error) -> DeviceError {
    failed(format!("no pipe to be woken by: {e}"))
}

impl ShmNetmod {
    /// Returns true if nothing is to be written to a slot's rank, or done with its memory.
    #[inline]
    pub(crate) fn holds(&self, slot: usize) -> bool {
        matches!(self.ckpt.stage, Stage::Asking(_) | Stage::Away(_))
            || self.channels[slot].absence.pause.holds()
    }

    /// Writes what was sent; returns true if there is nothing left but for ranks that leave, too.
    fn flush_queues(&mut self, core: &mut Core) -> bool {
        let mut all = true;
        let vcs: Vec<_> = self.by_peer.values().copied().collect();
        for vc in vcs {
            self.pump(core, vc);
            let Some(l) = self.vcs.get(vc).filter(|l| l.down.is_none()) else { continue };
            let Some(channel) = l.slot.map(|slot| &self.channels[slot]) else { continue };
            let is_done = l.queue.is_empty() && !channel.owes();
            all &= is_done || channel.absence.pause.is_away() || channel.peer.is_gone();
        }
        all
    }

    /// Asks the ranks of all rings.
    fn ask(&mut self, core: &mut Core, round: u32) -> Result<(), DeviceError> {
        for slot in 0..self.channels.len() {
            self.find_ring(core, slot);
            let channel = &self.channels[slot];
            if channel.peer.is_gone() || channel.tx.is_none() && channel.rx.is_none() {
                continue;
            }
            self.make_ring(slot).map_err(failed)?;
            if let Some(l) = self.channels[slot].vc.and_then(|vc| self.vcs.get_mut(vc)) {
                l.ready = false;
            }
            self.channels[slot].absence.pause.ask(round);
            self.say_notes(core, slot);
        }
        Ok(())
    }

    /// Writes the notes about checkpoints for a slot's rank, if there is room. Returns true if none
    /// is left.
    pub(crate) fn say_notes(&mut self, core: &mut Core, slot: usize) -> bool {
        let channel = &mut self.channels[slot];
        let Some(tx) = &mut channel.tx else { return channel.absence.pause.next_note().is_none() };
        let mut wrote = false;
        while let Some(note) = channel.absence.pause.next_note() {
            let (kind, round) = match note {
                Note::Suspend(round) => (Kind::Suspend, round),
                Note::Suspended(round) => (Kind::Suspended, round),
            };
            match tx.reserve() {
                Ok(Some(place)) => tx.commit(place, kind, round as usize),
                Ok(None) => break,
                Err(broken) => {
                    self.broken(core, slot, broken);
                    return true;
                }
            }
            channel.absence.pause.said();
            wrote = true;
        }
        let all = channel.absence.pause.next_note().is_none();
        if wrote {
            self.touch(slot);
        }
        all
    }

    /// Handles a cell about a checkpoint.
    pub(crate) fn heard(&mut self, core: &mut Core, slot: usize, cell: Cell) {
        let Ok(segment) = &self.segment else { return };
        let note = match cell.kind {
            Kind::Suspend => Note::Suspend(cell.len),
            _ => Note::Suspended(cell.len),
        };
        let back = segment.back(slot);
        self.channels[slot].absence.pause.heard(note, back);
        if !self.channels[slot].absence.pause.is_away() {
            return;
        }
        self.note_absence(slot);
        // A peer that has only sent needs an answer, too; without a ring it waits, and asks again.
        if let Err(why) = self.make_ring(slot) {
            tracing::warn!(slot, %why, "a rank that is to be checkpointed cannot be answered");
        }
        self.say_notes(core, slot);
    }

    /// Lets sends to a rank that is away wait, for a limited time.
    pub(crate) fn note_absence(&mut self, slot: usize) {
        let channel = &mut self.channels[slot];
        channel.absence.until = self.clock.now + self.ckpt.patience;
        if let Some(l) = channel.vc.and_then(|vc| self.vcs.get_mut(vc)) {
            l.ready = false;
        }
        self.clock.next_check = self.clock.next_check.min(self.clock.now + crate::netmod::CHECK);
    }

    /// Checks whether the rank of a slot is back; if it is, waiting sends continue.
    pub(crate) fn look_for_return(&mut self, core: &mut Core, slot: usize) {
        let Ok(segment) = &self.segment else { return };
        let channel = &mut self.channels[slot];
        if !channel.absence.pause.look(segment.back(slot), segment.is_away(slot)) {
            return;
        }
        channel.wake = Wake::Unknown;
        if let Some(vc) = channel.vc {
            if let Some(l) = self.vcs.get_mut(vc) {
                l.attach = None;
            }
            self.pump(core, vc);
        }
    }

    /// Fails the VC of a rank that has not come back in time.
    pub(crate) fn give_up(&mut self, core: &mut Core, slot: usize) {
        self.channels[slot].absence.until = Time::NEVER;
        let Some(vc) = self.channels[slot].vc else { return };
        let peer = self.vcs.get(vc).map(|l| l.peer);
        let text = format!(
            "it has not come back from its checkpoint in {:?}; set NETMOD_CKPT_TIMEOUT higher if it will",
            self.ckpt.patience
        );
        self.fail(core, vc, VcError::new(VcErrorKind::Lost, peer, text));
    }

    /// Returns true if all ranks of rings know that this one leaves, and nothing is in their rings.
    fn have_all_agreed(&mut self) -> bool {
        let Ok(segment) = &self.segment else { return false };
        self.channels.iter_mut().enumerate().all(|(slot, l)| {
            let back = segment.back(slot);
            if l.absence.pause.look(back, segment.is_away(slot)) {
                l.wake = Wake::Unknown;
            }
            let ringless = l.tx.is_none() && l.rx.is_none();
            l.lent == 0 && (ringless || l.peer.is_gone() || l.absence.pause.is_agreed(back))
        })
    }

    /// Goes on to leave; `Pending` as long as peers have not agreed.
    fn try_to_leave(&mut self, core: &mut Core, round: u32) -> Result<Finalize, DeviceError> {
        // Rings that were full until now, or that were made since, are still to be asked.
        self.ask(core, round)?;
        self.settle();
        if self.have_all_agreed() { self.let_go(core, round) } else { Ok(Finalize::Pending) }
    }

    /// Cancels the departure of this rank: peers that have answered go on.
    fn stay(&mut self, round: u32) {
        self.ckpt.stage = Stage::No;
        if let Ok(segment) = &self.segment {
            segment.set_back(round);
        }
        self.end_round();
        self.tell_all();
    }

    /// Lets go of everything, unless a peer has begun to write meanwhile.
    fn let_go(&mut self, core: &mut Core, round: u32) -> Result<Finalize, DeviceError> {
        let Ok(segment) = &self.segment else { return Ok(Finalize::Pending) };
        segment.set_away(true);
        let new = |slot: usize| {
            let channel = &self.channels[slot];
            let known = channel.rx.is_some() || channel.peer == Peer::Condemned || slot == segment.me();
            !known && !matches!(segment.find_ring(slot), Ok(None))
        };
        // A peer that made a ring, or came back, before it could see that this rank is away may
        // write to it.
        if (0..self.channels.len()).any(new) || !self.have_all_agreed() {
            if let Ok(segment) = &self.segment {
                segment.set_away(false);
            }
            self.tell_all();
            self.ask(core, round)?;
            return Ok(Finalize::Pending);
        }
        let Ok(segment) = &self.segment else { return Ok(Finalize::Pending) };
        let before = self.ckpt.members;
        let parked = segment.park(round, before).map_err(|e| failed(format!("the segment's file: {e}")))?;
        self.transfers.running.iter_mut().for_each(|t| t.leave(segment));
        self.settle();
        if self.wakeup.armed {
            self.disarm();
        }
        // The thread waits for a word in the memory that goes.
        (self.wakeup.helper, self.wakeup.bells, self.wakeup.pipe) = (None, None, None);
        for channel in &mut self.channels {
            channel.part();
        }
        self.watch = Watch::new(self.channels.len());
        self.clock.next_check = Time::NEVER;
        self.segment = Err(NoSegment::Away);
        self.ckpt.stage = Stage::Away(Some(parked));
        Ok(Finalize::Done)
    }

    /// Takes everything up again.
    fn come_back(&mut self, parked: &Parked) -> Result<(), DeviceError> {
        let (segment, same) = Segment::rejoin(parked, self.me.rank).map_err(failed)?;
        self.ckpt.members = parked.members();
        if let Some(key) = &self.key {
            segment.store_proof(key, self.me.rank);
        }
        let pipe = Pipe::new().and_then(|p| p.name().map(|name| (p, name)));
        let (pipe, name) = pipe.map_err(no_pipe)?;
        segment.set_pipe(&name);
        self.transfers.publish(&segment);
        self.wakeup.bells = Some(segment.own_bells());
        self.wakeup.pipe = Some(pipe);
        for slot in 0..self.channels.len() {
            self.resume_channel(&segment, slot, same)?;
        }
        segment.set_back(parked.round);
        segment.all_are_back(parked);
        self.segment = Ok(segment);
        if same {
            self.end_round();
        }
        self.ckpt.stage = Stage::No;
        self.tell_all();
        Ok(())
    }

    /// Gives the two ends of a channel their memory again, or new ones.
    ///
    /// # Errors
    /// If a ring is not there; the ends are kept then.
    fn resume_channel(&mut self, segment: &Segment, slot: usize, same: bool) -> Result<(), DeviceError> {
        let channel = &mut self.channels[slot];
        let Some(Parting { tx, rx }) = &channel.absence.parting else { return Ok(()) };
        if !same {
            let ring = tx.is_some().then(|| segment.make_ring(slot)).transpose();
            let ring = ring.map_err(failed)?;
            channel.absence.parting = None;
            channel.absence.pause.anew();
            channel.token_line = TokenLine::none();
            channel.absence.until = self.clock.now + self.ckpt.patience;
            channel.tx = ring.map(|ring| {
                let geometry = ring.geometry();
                Producer::new(ring, geometry)
            });
            return Ok(());
        }
        let again = |found: Result<Option<RawRing>, RingError>, was: Geometry| {
            let is_it = found.map_err(failed)?.filter(|ring| ring.geometry() == was);
            is_it.ok_or_else(|| failed(format!("the ring with slot {slot} is not what it was")))
        };
        let out = tx.as_ref().map(|tx| again(segment.own_ring(slot), tx.geometry())).transpose()?;
        let inc = rx.as_ref().map(|rx| again(segment.find_ring(slot), rx.geometry())).transpose()?;
        let Some(Parting { tx, rx }) = channel.absence.parting.take() else { return Ok(()) };
        channel.tx = tx.zip(out).map(|(tx, ring)| tx.with(ring));
        channel.rx = rx.zip(inc).map(|(rx, ring)| rx.with(ring));
        channel.share_token_line(segment.me() < slot);
        Ok(())
    }

    /// This rank is where it was, as its slot says. Peers that have left since it asked them are
    /// not written to before what they have written is read.
    fn end_round(&mut self) {
        let Ok(segment) = &self.segment else { return };
        for (slot, channel) in
            self.channels.iter_mut().enumerate().filter(|(_, l)| l.tx.is_some() || l.rx.is_some())
        {
            channel.absence.pause.back(segment.is_away(slot));
            if channel.absence.pause.is_away() {
                channel.absence.until = self.clock.now + self.ckpt.patience;
            }
        }
    }

    /// Tells all ranks that this one is back, and looks at them.
    fn tell_all(&mut self) {
        let Ok(segment) = &self.segment else { return };
        let me = segment.me();
        let there: Vec<usize> = (0..segment.ranks()).filter(|s| *s != me && segment.has_joined(*s)).collect();
        for slot in there {
            self.ring_bell(slot);
            self.look_at(slot);
        }
        let waiting: Vec<_> = self.by_peer.values().copied().collect();
        for vc in waiting {
            self.out.queued.add(vc);
            if let Some(l) = self.vcs.get_mut(vc) {
                l.attach = None;
            }
        }
        self.clock.next_check = self.clock.now + crate::netmod::CHECK;
    }
}

impl Channel {
    /// Separates the endpoints of both rings from their memory.
    fn part(&mut self) {
        let tx = self.tx.take().map(|tx| tx.with(()));
        let rx = self.rx.take().map(|rx| {
            rx.mem.set_watched(false);
            rx.with(())
        });
        self.absence.parting = Some(Parting { tx, rx });
        self.wake = Wake::Unknown;
        self.watched = false;
        self.idle = 0;
    }
}

impl Checkpoint for ShmNetmod {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        self.segment.as_ref().map_or(Ok(()), Segment::can_be_found).map_err(failed)
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.clock.now = now;
        let round = match self.ckpt.stage {
            Stage::Away(_) => return Ok(Finalize::Done),
            Stage::Asking(round) => round,
            Stage::No | Stage::Flushing => {
                self.can_ckpt()?;
                if self.segment.is_err() {
                    self.wakeup.pipe = None;
                    self.ckpt.stage = Stage::Away(None);
                    return Ok(Finalize::Done);
                }
                self.ckpt.stage = Stage::Flushing;
                self.push_out(core);
                if !self.flush_queues(core) {
                    return Ok(Finalize::Pending);
                }
                self.ckpt.round = self.ckpt.round % ROUNDS + 1;
                self.ckpt.stage = Stage::Asking(self.ckpt.round);
                self.ckpt.round
            }
        };
        let left = self.try_to_leave(core, round);
        if left.is_err() {
            self.stay(round);
        }
        left
    }

    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.clock.now = now;
        match std::mem::take(&mut self.ckpt.stage) {
            Stage::No => return Err(DeviceError::new(NAME, "ckpt_restart without ckpt_shutdown")),
            Stage::Flushing => {}
            Stage::Asking(round) => self.stay(round),
            Stage::Away(None) => {
                let pipe = Pipe::new().map_err(no_pipe);
                match pipe {
                    Ok(pipe) => self.wakeup.pipe = Some(pipe),
                    Err(e) => {
                        self.ckpt.stage = Stage::Away(None);
                        return Err(e);
                    }
                }
            }
            Stage::Away(Some(parked)) => {
                if let Err(e) = self.come_back(&parked) {
                    self.wakeup.pipe = None;
                    self.wakeup.bells = None;
                    self.ckpt.stage = Stage::Away(Some(parked));
                    return Err(e);
                }
            }
        }
        self.push_out(core);
        Ok(())
    }

    /// Does nothing: a rank that shares memory comes back on this node, where the segment tells.
    fn ckpt_peer(&mut self, _: &mut Core, _: VcId, _: &Card) -> Result<(), VcError> {
        Ok(())
    }
}
