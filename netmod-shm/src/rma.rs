//! One-sided transfers by cross-memory attach: the kernel copies between two processes, once.
//!
//! A region is an address, and a number in this rank's table in the segment, which a peer looks up
//! before and after each part of a transfer, and which it holds while it writes ([`region`]). So a
//! region that was deregistered is written no more, even if the peer was in the middle of a part.
//! The table does not keep a peer of the same user from this process's memory, which the kernel's
//! rules let it reach anyway.
//!
//! Whether the kernel permits it is tried out for each peer: its token is read at the address that
//! its slot names. That also tells that the number of the process means the same one here. It is
//! read again before each part that is written, and by the same call with each part that is read:
//! another process that has got the number since is never written to, and what was read from it is
//! never taken for the peer's.

mod both;

use std::borrow::Cow;

use netmod_core::rma::{Access, RegionError, RegionId, Remote, RemoteKey, RmaAtomic, RmaCaps};
use netmod_core::{Core, Event, IoVec, Rma, RmaBuf, RmaOp, RmaUse, VcError, VcErrorKind, VcId};

use crate::netmod::ShmNetmod;
use crate::reach::{permitted, read, write};
use crate::region;
use crate::segment::layout::REGIONS;
use crate::stage::Stage;
use crate::sys::Attach;
use crate::transfers::{Entry, Key, Transfer, share};
use crate::vc::ShmVc;

/// Bytes that one poll moves at most.
const PART: usize = 1 << 20;
/// The state of a transfer after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Some bytes were moved, and there are more.
    Moved,
    /// The rest is the other side's.
    Waits,
    /// All is there.
    Ended,
}

impl ShmNetmod {
    /// Returns true if some transfer need not wait for a rank that is away.
    pub(crate) fn has_transfers_to_do(&self) -> bool {
        self.transfers.running.iter().any(|t| !self.holds(t.slot))
    }

    /// Returns the peer's slot, if transfers with it are permitted.
    pub(crate) fn transfer_peer(&mut self, vc: VcId) -> Result<usize, VcError> {
        let Some(l) = self.vcs.get(vc) else {
            return Err(VcError::new(
                VcErrorKind::Aborted,
                None,
                "the VC is not in the charge of netmod shm",
            ));
        };
        let error = |kind, text: String| VcError::new(kind, Some(l.peer), text);
        if let Some(e) = &l.down {
            return Err(e.clone());
        }
        let (Some(slot), Ok(segment)) = (l.slot, &self.segment) else {
            return Err(error(VcErrorKind::Unsupported, "its slot in the segment is not known yet".into()));
        };
        let peer = l.peer;
        if l.attach.is_none() {
            let presence = || (segment.back(slot), segment.is_away(slot));
            let before = presence();
            let found = permitted(segment, slot).map(|_| ());
            // A rank that is away, or has come back meanwhile, is another time to be looked for.
            if found.is_err() && (before.1 || before != presence()) {
                return Err(error(VcErrorKind::Unsupported, "it is away for a checkpoint".into()));
            }
            if let Err(why) = &found {
                tracing::info!(peer = peer.rank, %why, "no one-sided transfers with a rank of this node");
            }
            if let Some(l) = self.vcs.get_mut(vc) {
                l.attach = Some(found);
            }
        }
        match self.vcs.get(vc).and_then(|l| l.attach.as_ref()) {
            Some(Err(why)) => Err(VcError::new(VcErrorKind::Unsupported, Some(peer), why.to_string())),
            _ => Ok(slot),
        }
    }

    fn start(&mut self, op: &RmaOp<'_>, how: Attach) -> Result<(), VcError> {
        let slot = self.transfer_peer(op.vc)?;
        let peer = self.vcs.get(op.vc).map(|l| l.peer);
        let key = Key::parse(op.key).filter(|k| k.slot as usize == slot);
        let key = key.ok_or_else(|| RegionError::ForeignKey.of(peer))?;
        let access = match how {
            Attach::Read => Access::RemoteRead,
            Attach::Write => Access::RemoteWrite,
        };
        let checked = self.transfers.regions.check(op, access, &key.remote, |_| true);
        let (local, remote) = checked.map_err(|e| e.of(peer))?;
        let t = Transfer {
            vc: op.vc,
            slot,
            how,
            region: op.local,
            local: local.as_iovec(),
            key,
            remote,
            done: 0,
            op: op.op,
            asked: how == Attach::Write || op.len < self.transfers.joint,
            joint: None,
        };
        self.transfers.running.push(t);
        Ok(())
    }

    /// Moves a part of the operations in flight. Returns true if anything was moved.
    #[cold]
    pub(crate) fn transfer(&mut self) -> bool {
        let mut budget = PART;
        let mut i = 0;
        while i < self.transfers.running.len() && budget > 0 {
            let before = self.transfers.running[i].done;
            let step = self.step_transfer(i, budget);
            budget = budget.saturating_sub(self.transfers.running[i].done - before);
            match step {
                Ok(Step::Moved) => {}
                Ok(Step::Waits) => i += 1,
                ended => {
                    if let Ok(segment) = &self.segment {
                        self.transfers.running[i].leave(segment);
                    }
                    let t = self.transfers.running.remove(i);
                    self.pending.push_back(Event::RmaDone { vc: t.vc, op: t.op, result: ended.map(|_| ()) });
                }
            }
        }
        budget < PART
    }

    fn step_transfer(&mut self, i: usize, most: usize) -> Result<Step, VcError> {
        let t = &self.transfers.running[i];
        let state = self.vcs.get(t.vc);
        let lost = |text: String| VcError::new(VcErrorKind::Lost, state.map(|l| l.peer), text);
        match state {
            None => return Err(lost("the VC of a transfer is no more".into())),
            Some(ShmVc { down: Some(e), .. }) => return Err(e.clone()),
            Some(_) if self.holds(t.slot) => return Ok(Step::Waits),
            Some(_) => {}
        }
        let segment = self.segment.as_ref().map_err(|e| lost(e.to_string()))?;
        if self.transfers.regions.get(t.region).is_none() {
            return Err(RegionError::Ended.of(state.map(|l| l.peer)));
        }
        let number = t.key.number;
        let ended = |when: &str| lost(format!("the peer's region of a transfer has ended {when}"));
        let word = segment.region(t.slot, t.key.place as usize);
        let Some(word) = word.filter(|w| region::is_live(w, number)) else { return Err(ended("before it")) };
        let upto = match share::upto(&mut self.transfers, i, segment).map_err(|text| lost(text.into()))? {
            Some(upto) => upto,
            None if self.transfers.running[i].joint.is_some() => return Ok(Step::Waits),
            None => return Ok(Step::Ended),
        };
        let t = &mut self.transfers.running[i];
        let n = most.min(upto - t.done);
        if n > 0 {
            let local = IoVec { base: t.local.base.wrapping_add(t.done), len: n };
            let at = t.remote + t.done as u64;
            let (result, still) = match t.how {
                Attach::Read => (read(segment, t.slot, at, local), region::is_live(word, number)),
                Attach::Write if !region::enter(word, number) => return Err(ended("before it")),
                Attach::Write => (write(segment, t.slot, at, local), region::leave(word, number)),
            };
            let moved = result.map_err(|e| lost(e.to_string()))?;
            if moved == 0 || !still {
                return Err(ended("within it"));
            }
            t.done += moved;
            if t.done < t.local.len {
                return Ok(Step::Moved);
            }
        }
        Ok(Step::Ended)
    }

    /// Describes the transfers with a slot's process, for human readers.
    pub(crate) fn describe_transfers(&self, slot: usize) -> String {
        match self.segment.as_ref().map(|s| permitted(s, slot)) {
            Ok(Ok(_)) => match self.transfers.joint {
                usize::MAX => "cross-memory attach permitted".into(),
                from => format!(
                    "cross-memory attach permitted, gets from {} KiB on by both sides at once",
                    from >> 10
                ),
            },
            Ok(Err(why)) => format!("no cross-memory attach ({why})"),
            Err(why) => why.to_string(),
        }
    }
}

impl Rma for ShmNetmod {
    fn usable(&mut self, _core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        let joint = self.transfers.joint;
        let tested = self.transfer_peer(vc);
        let is_away = matches!(self.ckpt.stage, Stage::Away(_));
        let is_open = |l: &ShmVc| l.down.is_none() && (l.attach.is_none() || is_away);
        if tested.is_err() && (self.segment.is_ok() || is_away) && self.vcs.get(vc).is_some_and(is_open) {
            // It was not found out yet.
            return Ok(RmaUse::SOON);
        }
        tested.map(|_| RmaUse { joint, ..RmaUse::ALL }).map_err(|e| e.to_string().into())
    }

    fn caps(&self, _core: &Core, vc: VcId) -> RmaCaps {
        // A registration is for one peer.
        RmaCaps { device: vc.index() as u32, ..self.transfers.regions.caps(false) }
    }

    fn register(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        mem: RmaBuf,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError> {
        let peer_slot = self.transfer_peer(vc)?;
        let Ok(segment) = &self.segment else { return Err(ShmNetmod::no_segment()) };
        let transfers = &mut self.transfers;
        transfers.regions.admit(mem.len(), access).map_err(|e| e.of(None))?;
        let free = transfers.places.trailing_ones() as usize;
        let is_local = access == Access::Local;
        if !is_local && free == REGIONS {
            let text = format!("{REGIONS} regions are registered, which is all that there can be");
            return Err(VcError::new(VcErrorKind::Resource, None, text));
        }
        let mut number = 0;
        if !is_local {
            transfers.numbers += 1;
            number = transfers.numbers;
            transfers.places |= 1 << free;
            transfers.read |= u64::from(access.permits(Access::RemoteRead)) << free;
            if let Some(word) = segment.region(segment.me(), free) {
                region::open(word, number);
            }
        }
        let entry = Entry { index: free, number, peer: peer_slot };
        let remote = Remote { base: mem.as_ptr() as u64, len: mem.len() as u64, access };
        let id = transfers.regions.insert(mem, access, (!is_local).then_some(entry));
        let key = Key { place: free as u32, slot: segment.me() as u32, number, remote };
        Ok((id, key.emit()))
    }

    fn deregister(&mut self, _core: &mut Core, region: RegionId) -> Result<(), VcError> {
        let found = self.transfers.regions.remove(region)?;
        self.transfers.close(self.segment.as_ref().ok(), &found);
        let Ok(segment) = &self.segment else { return Ok(()) };
        self.transfers.running.iter_mut().filter(|t| t.region == region).for_each(|t| t.leave(segment));
        Ok(())
    }

    fn put(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Attach::Write)
    }

    fn get(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Attach::Read)
    }

    fn atomic(&mut self, _core: &mut Core, op: &RmaAtomic<'_>) -> Result<(), VcError> {
        let text = "cross-memory attach has no atomic operations; map the memory into both processes instead";
        Err(VcError::new(VcErrorKind::Unsupported, self.vcs.get(op.vc).map(|l| l.peer), text))
    }

    fn flush(&mut self, _core: &mut Core, vc: Option<VcId>) -> Result<bool, VcError> {
        let Some(vc) = vc else { return Ok(self.transfers.running.is_empty()) };
        self.transfer_peer(vc)?;
        Ok(!self.transfers.running.iter().any(|t| t.vc == vc))
    }
}

#[cfg(test)]
mod tests;
