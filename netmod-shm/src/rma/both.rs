//! Joint gets, on the side of the memory's owner: parts that it writes for readers.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::joint::{Job, Joint};
use crate::netmod::ShmNetmod;
use crate::reach::write;
use crate::segment::Segment;
use crate::transfers::{Entry, Region};

/// Writes a part of a region for its reader. Returns true if there was one.
fn write_part(segment: &Segment, joint: &Joint, job: &Job, (region, entry): (&Region, Entry)) -> bool {
    let reader = entry.peer;
    let inside = job.from.checked_add(job.len).is_some_and(|end| end <= region.size() as u64);
    let to = job.to.checked_add(job.len).map(|_| job.to);
    let (Some(parts), Some(to)) = (job.parts().filter(|_| inside && job.region == entry.number), to) else {
        return false;
    };
    let Some(part) = joint.claim_back(parts) else { return false };
    let (at, len) = job.nth(part);
    let local = region.part((job.from + at) as usize, len as usize);
    let written = local.map(|local| write(segment, reader, to + at, local.as_iovec()));
    if !matches!(written, Some(Ok(n)) if n as u64 == len) {
        tracing::debug!(?written, slot = reader, "a part could not be written for its reader");
        joint.fail();
    }
    true
}

impl ShmNetmod {
    /// Returns true if a reader may want help with a region of this side.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let t = &self.transfers;
        t.read != 0 && t.joint != usize::MAX && t.running.is_empty() && self.has_readers()
    }

    fn has_readers(&self) -> bool {
        self.transfers.helped != 0 || self.segment.as_ref().is_ok_and(|s| s.wanted().load(Relaxed) != 0)
    }

    /// Writes a part of what a reader reads. Returns true if there was one.
    #[cold]
    pub(crate) fn help(&mut self) -> bool {
        let Ok(segment) = &self.segment else { return false };
        let transfers = &mut self.transfers;
        // Transfers that remain behind this one are announced again.
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
