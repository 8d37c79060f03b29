//! The receiver's side.

use ch3_shim::{RawReq, Request as DeviceRequest, Vci};

use super::tags::{TagRange, Tags};
use super::{Answer, Channels, Offer, garbled, index, no_tags, other_length};
use crate::comm::CommCore;
use crate::consts::PROC_NULL;
use crate::datatype::Bound;
use crate::error::{Class, MpiError, Result};
use crate::objects::Objects;
use crate::status::{Status, failure, take};
use crate::target::OwnTarget;
use crate::task::{Partitions, Progress, Task};

/// The state of the agreement with the sender.
#[derive(Debug)]
enum Agreed {
    /// The receive of the offer.
    Not(DeviceRequest),
    /// The offer, the tags of its partitions, and the answer while it is under way.
    To(Offer, TagRange, Option<DeviceRequest>),
    /// Nobody sends.
    Nobody,
}

/// A receive in partitions.
#[derive(Debug)]
pub(crate) struct Receiving {
    target: OwnTarget,
    channels: Channels,
    room: Bound,
    /// Bytes of one of the program's partitions, and their number.
    bytes: u64,
    partitions: usize,
    agreed: Option<Agreed>,
    /// The receives of a run, one for each of the sender's partitions.
    parts: Vec<RawReq>,
    /// Those that are over, from the first one on.
    over: usize,
    is_running: bool,
    is_posted: bool,
    failed: Option<Box<MpiError>>,
}

impl Receiving {
    /// Posts the receive of the offer.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn new(
        vci: &mut Vci,
        (room, each, partitions): (Bound, usize, u32),
        target: OwnTarget,
    ) -> Result<Receiving> {
        let channels = Channels::inn(vci, &target.core)?;
        let bytes = (each * room.desc().size()) as u64;
        let agreed = if target.place == PROC_NULL {
            Agreed::Nobody
        } else {
            let offer = vci.irecv(vec![0; Offer::LEN], target.place, target.tag, channels.offers);
            Agreed::Not(offer.map_err(|e| failure(e.error, &target.core))?)
        };
        Ok(Receiving {
            target,
            channels,
            room,
            bytes,
            partitions: partitions as usize,
            agreed: Some(agreed),
            parts: Vec::new(),
            over: 0,
            is_running: false,
            is_posted: false,
            failed: None,
        })
    }

    /// Takes the offer, if it has come, and answers.
    fn agree(&mut self, vci: &mut Vci, tags: &Tags) -> Result<()> {
        let offer = match self.agreed.take() {
            Some(Agreed::Not(offer)) if vci.is_settled(offer.raw()) => offer,
            other => {
                self.agreed = other;
                return Ok(());
            }
        };
        let core = &self.target.core;
        let failed = |e: Box<ch3_shim::Failed>| failure(e.error, core);
        let came = vci.wait(offer).map_err(failed)?;
        let offer = Offer::from_bytes(&came.buffer).ok_or_else(|| core.raised(garbled("an offer")))?;
        let room = self.bytes * self.partitions as u64;
        let fits = offer.total() == Some(room);
        let range = if fits { tags.reserve(offer.partitions) } else { None };
        let answer = match &range {
            Some(range) => Answer::First(range.first()),
            None if fits => Answer::NoTags,
            None => Answer::Room(room),
        };
        let back = Channels::out(vci, core)?;
        let bytes = answer.to_bytes().to_vec();
        let sent = vci.isend(bytes, self.target.place, offer.answer_tag(), back.rest).map_err(failed)?;
        vci.flush();
        let Some(range) = range else {
            // The device keeps the answer until it has left.
            drop(sent);
            let refused =
                if fits { no_tags() } else { other_length(offer.total().unwrap_or(u64::MAX), room) };
            return Err(core.raised(refused));
        };
        self.agreed = Some(Agreed::To(offer, range, Some(sent)));
        Ok(())
    }

    /// Posts the receives of a run.
    fn post(&mut self, vci: &mut Vci) -> Result<()> {
        let Some(Agreed::To(offer, range, _)) = &self.agreed else { return Ok(()) };
        for at in 0..offer.partitions {
            let room = self.room.bytes(u64::from(at) * offer.bytes, offer.bytes);
            let tag = (range.first() + at).cast_signed();
            let raw = vci.irecv_raw(room, self.target.place, tag, self.channels.rest);
            self.parts.push(raw.map_err(|e| failure(e, &self.target.core))?);
        }
        self.is_posted = true;
        Ok(())
    }

    fn go_on(&mut self, vci: &mut Vci, tags: &Tags) -> Result<Option<Status>> {
        if matches!(self.agreed, Some(Agreed::Not(_))) {
            self.agree(vci, tags)?;
        }
        let offer = match &mut self.agreed {
            Some(Agreed::Not(_)) => return Ok(None),
            Some(Agreed::Nobody) => return Ok(Some(Status::OF_NOBODY)),
            Some(Agreed::To(offer, _, answer)) => {
                if let Some(sent) = answer.take_if(|sent| vci.is_settled(sent.raw())) {
                    vci.wait(sent).map_err(|e| failure(e.error, &self.target.core))?;
                }
                *offer
            }
            None => {
                let text = "the partitions did not fit the sender's in an earlier run: free this request";
                return Err(self.target.core.raised(MpiError::new(Class::REQUEST, text)));
            }
        };
        if !self.is_posted {
            self.post(vci)?;
        }
        while let Some(raw) = self.parts.get(self.over).copied().filter(|raw| vci.is_settled(*raw)) {
            self.over += 1;
            if let Err(e) = take(vci, raw, &self.target.core) {
                self.failed.get_or_insert(e);
            }
        }
        if self.over < self.parts.len() {
            return Ok(None);
        }
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        let source = u32::try_from(self.target.place).ok().and_then(|p| self.target.core.peers().rank(p));
        let source = source.map_or(PROC_NULL, u32::cast_signed);
        let count_bytes = offer.total().unwrap_or(0).cast_signed();
        Ok(Some(Status { source, tag: self.target.tag, count_bytes, ..Status::EMPTY }))
    }
}

impl Partitions for Receiving {
    fn ready(&mut self, _vci: &mut Vci, _partition: i32) -> Result<()> {
        let text = "the request is one of MPI_Precv_init: the sender says which partitions are ready";
        Err(MpiError::new(Class::REQUEST, text))
    }

    fn has_arrived(&self, vci: &Vci, partition: i32) -> Result<bool> {
        let at = index(partition, self.partitions)? as u64;
        if !self.is_running {
            return Ok(true);
        }
        let Some(Agreed::To(offer, ..)) = self.agreed.as_ref().filter(|_| self.is_posted) else {
            return Ok(false);
        };
        // Partitions without data arrive with all others.
        let (first, last) = match (self.bytes, offer.bytes) {
            (0, _) | (_, 0) => (0, self.parts.len()),
            (own, theirs) => ((at * own / theirs) as usize, ((at + 1) * own).div_ceil(theirs) as usize),
        };
        let wanted = self.parts.get(first.max(self.over)..last.max(self.over)).unwrap_or(&[]);
        Ok(wanted.iter().all(|raw| vci.is_settled(*raw)))
    }
}

impl Task for Receiving {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        let result = match self.go_on(vci, &objects.partitioned.tags) {
            Ok(None) => return Progress::Blocked,
            Ok(Some(status)) => Ok(status),
            Err(e) => {
                // Receives that are posted must not write to the program's memory any more.
                for raw in self.parts.drain(..).skip(self.over) {
                    vci.end_raw(raw);
                }
                Err(e)
            }
        };
        self.is_running = false;
        Progress::Done(result)
    }

    fn core(&self) -> Option<&CommCore> {
        Some(&self.target.core)
    }

    fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
        self.parts.clear();
        (self.over, self.is_posted, self.is_running) = (0, false, true);
        Ok(())
    }

    fn partitions(&mut self) -> Option<&mut dyn Partitions> {
        Some(self)
    }

    fn leave(&mut self, vci: &mut Vci) {
        // It would take the offer that a later receive waits for.
        if let Some(Agreed::Not(offer)) = &self.agreed {
            vci.cancel_raw(offer.raw());
        }
    }
}
