//! Joint gets, on the reader's side: the part that the owner of the memory copies.

use super::{Transfer, Transfers};
use crate::joint::{Job, Rest, part_of};
use crate::reach::take_back;
use crate::segment::Segment;

/// A get of this side's that the owner of the memory may have a part in.
#[derive(Debug)]
pub(crate) struct Share {
    job: Job,
    parts: u32,
    /// End of what this side has claimed, in bytes of the transfer.
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
            take_back(segment, joint.word(), self.slot);
        }
    }
}

/// Returns the end of what this side is to copy, in bytes of the transfer, all of which may be
/// copied already. `None` if the rest is the other side's; that ends the share once it has arrived.
///
/// # Errors
/// The peer breaks the rules.
pub(crate) fn upto(
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
