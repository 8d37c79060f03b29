//! One-sided transfers of a scripted device: nothing is moved, it is about what is registered and
//! when.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use netmod_core::rma::{Access, Atomics, RegionId, RemoteKey, RmaAtomic, RmaCaps};
use netmod_core::{Core, Event, Rma, RmaBuf, RmaOp, RmaUse, VcError, VcErrorKind, VcId};

/// Registered regions and their purposes; shared with the test.
#[derive(Clone, Debug, Default)]
pub struct Regions(Arc<Mutex<Vec<(RegionId, Access)>>>);

impl Regions {
    fn change<R>(&self, f: impl FnOnce(&mut Vec<(RegionId, Access)>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of registered regions.
    pub fn live(&self) -> usize {
        self.change(|all| all.len())
    }
}

/// The registrations and moves of a device.
#[derive(Debug)]
pub struct Remote {
    regions: Regions,
    next: u64,
    /// Moves whose end the next poll finds.
    pub ends: VecDeque<Event>,
}

impl Remote {
    /// Without anything registered.
    pub fn new(regions: Regions) -> Remote {
        Remote { regions, next: 0, ends: VecDeque::new() }
    }

    /// Every fourth move fails, and so does one whose region is not registered.
    fn start(&mut self, op: &RmaOp<'_>) -> Result<(), VcError> {
        let RmaOp { vc, local, op, .. } = *op;
        if !self.regions.change(|all| all.contains(&(local, Access::Local))) {
            return Err(VcError::new(VcErrorKind::Aborted, None, "a region that is not registered"));
        }
        self.next += 1;
        let failed = || VcError::new(VcErrorKind::Lost, None, "the script lets it fail");
        let result = if self.next.is_multiple_of(4) { Err(failed()) } else { Ok(()) };
        self.ends.push_back(Event::RmaDone { vc, op, result });
        Ok(())
    }
}

impl Rma for Remote {
    fn usable(&mut self, _: &Core, _: VcId) -> Result<RmaUse, Cow<'static, str>> {
        Ok(RmaUse::ALL)
    }

    fn caps(&self, _: &Core, _: VcId) -> RmaCaps {
        let (max_op, max_registered) = (100_000, 1 << 20);
        RmaCaps { max_op, max_registered, target_progress: false, device: 0, atomics: Atomics::NONE }
    }

    fn register(
        &mut self,
        _: &mut Core,
        _: VcId,
        mem: RmaBuf,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError> {
        let most = if access == Access::Local { 1 << 18 } else { 40 };
        let full = match access {
            Access::Local => mem.len() > most,
            _ => self.regions.change(|all| all.len() >= most),
        };
        if full {
            return Err(VcError::new(VcErrorKind::Resource, None, "no room"));
        }
        self.next += 1;
        let id = RegionId(self.next);
        self.regions.change(|all| all.push((id, access)));
        Ok((id, RemoteKey::of(id.0.to_le_bytes())))
    }

    fn deregister(&mut self, _: &mut Core, region: RegionId) -> Result<(), VcError> {
        let before = self.regions.live();
        self.regions.change(|all| all.retain(|(id, _)| *id != region));
        assert_eq!(self.regions.live() + 1, before, "{region:?} is not registered");
        Ok(())
    }

    fn put(&mut self, _: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op)
    }

    fn get(&mut self, _: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op)
    }

    fn atomic(&mut self, _: &mut Core, _: &RmaAtomic<'_>) -> Result<(), VcError> {
        Err(VcError::new(VcErrorKind::Unsupported, None, "the script has no atomic operations"))
    }

    fn flush(&mut self, _: &mut Core, vc: Option<VcId>) -> Result<bool, VcError> {
        Ok(!self.ends.iter().any(|end| vc.is_none() || end.vc() == vc))
    }
}
