//! Joint gets, as the netmod drives them: what the reader leaves to the owner of the memory, and what the owner does for readers.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use netmod_core::IoVec;

use super::{Entry, Region, Transfer, Transfers, write};
use crate::joint::{Job, Joint, Rest, part_of};
use crate::netmod::ShmNetmod;
use crate::segment::Segment;

/// A get of this side's that the owner of the memory may have a part in.
#[derive(Debug)]
pub(super) struct Share {
    job: Job,
    parts: u32,
    /// What this side has claimed ends here, in bytes of the transfer.
    upto: usize,
}

impl Transfer {
    fn place(&self) -> usize {
        self.key.place as usize
    }

    /// Asks the owner of the memory to copy its part.
    fn ask(&mut self, number: u64, segment: &Segment) {
        self.asked = true;
        let job = Job {
            region: self.key.number,
            from: self.remote - self.key.remote.base,
            to: self.local.base.expose_provenance() as u64,
            len: self.local.len as u64,
            part: part_of(self.local.len) as u64,
        };
        let (Some(joint), Some(parts)) = (segment.joint(self.slot, self.place()), job.parts()) else {
            return;
        };
        // A job that is there may be that of a reader who has died.
        if joint.begin(number, &job) {
            segment.want(self.slot, self.place());
            self.joint = Some(Share { job, parts, upto: 0 });
        }
    }

    /// The owner of the memory has no part in it any more. If it is writing, this waits.
    pub(crate) fn leave(&mut self, segment: &Segment) {
        if self.joint.take().is_some()
            && let Some(joint) = segment.joint(self.slot, self.place())
        {
            ShmNetmod::take_back(segment, joint.word(), self.slot);
        }
    }
}

/// Up to where this side is to copy, in bytes of the transfer, of which it may have copied all; `None` if the rest is the other side's, which ends
/// the share if it is there.
///
/// # Errors
/// The peer breaks the rules.
pub(super) fn upto(
    transfers: &mut Transfers,
    i: usize,
    segment: &Segment,
) -> Result<Option<usize>, &'static str> {
    let Transfers { running, numbers, .. } = transfers;
    let t = &mut running[i];
    if !t.asked {
        *numbers += 1;
        t.ask(*numbers, segment);
    }
    let (slot, place) = (t.slot, t.place());
    let (Some(share), Some(joint)) = (&mut t.joint, segment.joint(slot, place)) else {
        return Ok(Some(t.local.len));
    };
    if t.done < share.upto {
        return Ok(Some(share.upto));
    }
    if let Some(part) = joint.claim_front(share.parts) {
        let (at, len) = share.job.nth(part);
        if at != t.done as u64 {
            return Err("the owner of the memory has claimed for this side what it has not");
        }
        share.upto = t.done + len as usize;
        return Ok(Some(share.upto));
    }
    match joint.rest() {
        Rest::Busy => return Ok(None),
        Rest::Written => {
            t.leave(segment);
            return Ok(None);
        }
        Rest::Missing => t.leave(segment),
    }
    Ok(Some(t.local.len))
}

/// Writes a part of a region for its reader; whether there was one.
fn write_part(segment: &Segment, joint: &Joint, job: &Job, (region, entry): (&Region, Entry)) -> bool {
    let reader = entry.peer;
    let inside = job.from.checked_add(job.len).is_some_and(|end| end <= region.mem.len as u64);
    let to = job.to.checked_add(job.len).map(|_| job.to);
    let (Some(parts), Some(to)) = (job.parts().filter(|_| inside && job.region == entry.number), to) else {
        return false;
    };
    let Some(part) = joint.claim_back(parts) else { return false };
    let (at, len) = job.nth(part);
    let local = IoVec { base: region.mem.base.wrapping_add((job.from + at) as usize), len: len as usize };
    let written = write(segment, reader, to + at, local);
    if !matches!(written, Ok(n) if n == local.len) {
        tracing::debug!(?written, slot = reader, "a part could not be written for its reader");
        joint.fail();
    }
    true
}

impl ShmNetmod {
    /// Whether a reader may want to be helped with a region of this side's.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let t = &self.transfers;
        t.read != 0 && t.joint != usize::MAX && t.running.is_empty() && self.has_readers()
    }

    fn has_readers(&self) -> bool {
        self.transfers.helped != 0 || self.segment.as_ref().is_ok_and(|s| s.wanted().load(Relaxed) != 0)
    }

    /// Writes a part of what a reader reads; whether there was one.
    #[cold]
    pub(crate) fn help(&mut self) -> bool {
        let Ok(segment) = &self.segment else { return false };
        let transfers = &mut self.transfers;
        // Whatever is left behind it is told again.
        transfers.helped |= segment.wanted().swap(0, AcqRel) & transfers.read;
        let place = transfers.helped.trailing_zeros() as usize;
        let (Some(region), Some(joint)) = (transfers.at(place), segment.joint(segment.me(), place)) else {
            transfers.helped = 0;
            return false;
        };
        let mut wrote = false;
        if let Some((number, job)) = joint.enter() {
            wrote = write_part(segment, joint, &job, region);
            joint.leave(number);
        }
        self.stats.helped += u64::from(wrote);
        if !wrote {
            transfers.helped &= !(1 << place);
        }
        wrote
    }
}

#[cfg(test)]
mod tests;
