//! The sender's side.

use ch3_shim::{Mode, RawReq, Request as DeviceRequest, Vci};

use super::{Answer, Channels, Offer, garbled, index, no_tags, other_length};
use crate::comm::CommCore;
use crate::consts::PROC_NULL;
use crate::datatype::Bound;
use crate::error::{Class, MpiError, Result};
use crate::objects::Objects;
use crate::status::{Status, failure, take};
use crate::target::OwnTarget;
use crate::task::{Partitions, Progress, Task};

/// A partition in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The program has not said that it is ready.
    Wanted,
    /// It leaves once the answer is there.
    Ready,
    Sent(RawReq),
    Over,
}

/// The state of the answer.
#[derive(Debug)]
enum Agreed {
    /// The receive of the answer, and the offer, as long as they are under way.
    Not(DeviceRequest, DeviceRequest),
    /// The tag of the first partition.
    First(u32),
    /// Nobody receives.
    Nobody,
}

/// A send in partitions.
#[derive(Debug)]
pub(crate) struct Sending {
    target: OwnTarget,
    channels: Channels,
    data: Bound,
    /// Elements of a partition.
    each: usize,
    offer: Offer,
    agreed: Option<Agreed>,
    is_running: bool,
    parts: Vec<Part>,
    /// Partitions from the first on that are over.
    over: usize,
    failed: Option<Box<MpiError>>,
}

impl Sending {
    /// Makes the offer.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn new(
        vci: &mut Vci,
        number: u32,
        (data, each, partitions): (Bound, usize, u32),
        target: OwnTarget,
    ) -> Result<Sending> {
        let channels = Channels::out(vci, &target.core)?;
        let bytes = (each * data.desc().size()) as u64;
        let offer = Offer { number, partitions, bytes };
        let agreed = if target.place == PROC_NULL {
            Agreed::Nobody
        } else {
            let back = Channels::inn(vci, &target.core)?;
            let failed = |e: Box<ch3_shim::Failed>| failure(e.error, &target.core);
            let answer = vci.irecv(vec![0; Answer::LEN], target.place, offer.answer_tag(), back.rest);
            let answer = answer.map_err(failed)?;
            let sent = vci.isend(offer.to_bytes().to_vec(), target.place, target.tag, channels.offers);
            Agreed::Not(answer, sent.map_err(failed)?)
        };
        let parts = vec![Part::Over; partitions as usize];
        let (agreed, is_running, failed) = (Some(agreed), false, None);
        Ok(Sending { target, channels, data, each, offer, agreed, is_running, parts, over: 0, failed })
    }

    /// Sends a partition that is ready, if the receiver has answered.
    fn send(&mut self, vci: &mut Vci, at: usize) {
        let first = match self.agreed {
            Some(Agreed::First(first)) => first,
            Some(Agreed::Nobody) => {
                self.parts[at] = Part::Over;
                return;
            }
            _ => return,
        };
        let data = self.data.slice(at * self.each, self.each);
        let tag = (first + at as u32).cast_signed();
        match vci.isend_raw(data, self.target.place, tag, self.channels.rest, Mode::Standard) {
            Ok(raw) => self.parts[at] = Part::Sent(raw),
            Err(e) => {
                self.parts[at] = Part::Over;
                self.failed.get_or_insert(failure(e, &self.target.core));
            }
        }
    }

    /// Takes the answer, if it has come.
    fn agree(&mut self, vci: &mut Vci) -> Result<()> {
        match self.agreed.take() {
            Some(Agreed::Not(answer, sent)) if vci.is_settled(answer.raw()) => {
                let failed = |e: Box<ch3_shim::Failed>| failure(e.error, &self.target.core);
                let answer = vci.wait(answer).map_err(failed)?;
                vci.wait(sent).map_err(failed)?;
                let total = self.offer.total().unwrap_or(u64::MAX);
                let refused = match Answer::from_bytes(&answer.buffer) {
                    Some(Answer::First(first)) => {
                        self.agreed = Some(Agreed::First(first));
                        return Ok(());
                    }
                    Some(Answer::Room(room)) => other_length(total, room),
                    Some(Answer::NoTags) => no_tags(),
                    None => garbled("an answer"),
                };
                Err(self.target.core.raised(refused))
            }
            other => {
                self.agreed = other;
                Ok(())
            }
        }
    }

    fn go_on(&mut self, vci: &mut Vci) -> Result<bool> {
        if matches!(self.agreed, Some(Agreed::Not(..))) {
            self.agree(vci)?;
            if !matches!(self.agreed, Some(Agreed::Not(..))) {
                for at in 0..self.parts.len() {
                    if self.parts[at] == Part::Ready {
                        self.send(vci, at);
                    }
                }
                vci.flush();
            }
        }
        if self.agreed.is_none() {
            let text = "the receiver has refused the partitions in an earlier run: free this request";
            return Err(self.target.core.raised(MpiError::new(Class::REQUEST, text)));
        }
        while let Some(part) = self.parts.get_mut(self.over) {
            match *part {
                Part::Sent(raw) if vci.is_settled(raw) => {
                    *part = Part::Over;
                    if let Err(e) = take(vci, raw, &self.target.core) {
                        self.failed.get_or_insert(e);
                    }
                }
                Part::Over => {}
                _ => break,
            }
            self.over += 1;
        }
        Ok(self.over == self.parts.len())
    }
}

impl Partitions for Sending {
    fn ready(&mut self, vci: &mut Vci, partition: i32) -> Result<()> {
        if !self.is_running {
            let text = "the request is not active: start it before its partitions are ready";
            return Err(MpiError::new(Class::REQUEST, text));
        }
        let at = index(partition, self.parts.len())?;
        if self.parts[at] != Part::Wanted {
            let text = format!("partition {partition} is ready already: say so once in each run");
            return Err(MpiError::new(Class::ARG, text));
        }
        self.parts[at] = Part::Ready;
        self.send(vci, at);
        vci.flush();
        Ok(())
    }

    fn has_arrived(&self, _vci: &Vci, _partition: i32) -> Result<bool> {
        let text = "the request is one of MPI_Psend_init: only the partitions of a receive arrive";
        Err(MpiError::new(Class::REQUEST, text))
    }
}

impl Task for Sending {
    fn advance(&mut self, vci: &mut Vci, _objects: &mut Objects) -> Progress {
        let result = match self.go_on(vci) {
            Ok(false) => return Progress::Blocked,
            Ok(true) => self.failed.take().map_or(Ok(Status::EMPTY), Err),
            Err(e) => Err(e),
        };
        self.is_running = false;
        Progress::Done(result)
    }

    fn core(&self) -> Option<&CommCore> {
        Some(&self.target.core)
    }

    fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
        self.parts.fill(Part::Wanted);
        (self.over, self.is_running) = (0, true);
        Ok(())
    }

    fn partitions(&mut self) -> Option<&mut dyn Partitions> {
        Some(self)
    }

    fn leave(&mut self, vci: &mut Vci) {
        // The answer to an offer that is made has a tag that nobody else uses, and may still come.
        if let Some(Agreed::Not(answer, _)) = &self.agreed {
            vci.cancel_raw(answer.raw());
        }
    }
}
