//! The registrations of a netmod: a table, the limit of registered bytes, and the checks of an
//! operation's bounds.

use core::fmt;

use super::{Access, Atomics, RegionId, RmaAtomic, RmaCaps, RmaOp};
use crate::buf::{RmaBuf, RmaPart};
use crate::error::{VcError, VcErrorKind};
use crate::peer::PeerName;
use crate::slab::{Handle, Slab};

/// The kind of object that a [`RegionId`] of a [`Regions`] table names.
#[derive(Debug)]
pub enum RegionKind {}

/// Registered memory; `X` is what the netmod keeps with it.
#[derive(Debug)]
pub struct Region<X> {
    /// The memory; lent until the registration ends, so it is not given out.
    mem: RmaBuf,
    /// The purpose of the registration.
    pub access: Access,
    /// The netmod's own part.
    pub own: X,
}

impl<X> Region<X> {
    /// Returns the length in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.mem.len()
    }

    /// Returns `len` bytes at offset `at`; `None` if they are not all within the memory.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> Option<RmaPart<'_>> {
        self.mem.part(at, len)
    }

    /// Returns `len` bytes at offset `at` as [`Region::part`] does, and the netmod's own part.
    #[inline]
    pub fn part_and_own(&mut self, at: usize, len: usize) -> Option<(RmaPart<'_>, &mut X)> {
        Some((self.mem.part(at, len)?, &mut self.own))
    }
}

/// The reason why a registration or an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// More bytes than a setting permits would be registered.
    Full {
        /// Bytes that are registered for this purpose.
        used: usize,
        /// Bytes that were asked for.
        more: usize,
        /// The purpose is local use, not that of peers.
        local: bool,
        /// First part of the setting's name, which ends with `_REGISTER_MAX`.
        settings: &'static str,
        /// Value of the setting in bytes.
        max: usize,
    },
    /// The region of this side has ended, or is not for local use by this operation.
    NotRegistered,
    /// The operation exceeds the region of this side.
    OutsideLocal,
    /// The peer's key is malformed, or of another netmod or process.
    ForeignKey,
    /// The operation exceeds the peer's region, or is not of the kind that it is registered for.
    OutsideRemote,
    /// The region of this side ended while the operation was in flight.
    Ended,
}

impl RegionError {
    /// Returns the kind of error that this is to the user of a VC.
    pub fn kind(&self) -> VcErrorKind {
        match self {
            RegionError::Full { .. } => VcErrorKind::Resource,
            RegionError::NotRegistered | RegionError::OutsideLocal | RegionError::Ended => {
                VcErrorKind::Aborted
            }
            RegionError::ForeignKey | RegionError::OutsideRemote => VcErrorKind::Protocol,
        }
    }

    /// Returns it as an error of a VC with `peer`.
    pub fn of(&self, peer: Option<PeerName>) -> VcError {
        VcError::new(self.kind(), peer, self.to_string())
    }
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            RegionError::Full { used, more, local, settings, max } => {
                let whom = if *local { "local use" } else { "peers" };
                return write!(
                    f,
                    "{used} bytes are registered for {whom}, and {more} more than \
                     {settings}_REGISTER_MAX={max} permits"
                );
            }
            RegionError::NotRegistered => "this side's region is not registered for its connection",
            RegionError::OutsideLocal => "a transfer beyond this side's region",
            RegionError::ForeignKey => "the key of the peer's region is not one of this netmod and peer",
            RegionError::OutsideRemote => {
                "a transfer beyond the peer's region, or of another kind than that is for"
            }
            RegionError::Ended => "this side's region of a transfer has ended",
        };
        f.write_str(text)
    }
}

impl core::error::Error for RegionError {}

/// The peer's region, as its key describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address of its first byte, in the netmod's own terms.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// The purpose that the peer registered it for.
    pub access: Access,
}

impl Remote {
    /// Returns the address of `len` bytes at offset `at` for an operation of this kind.
    ///
    /// # Errors
    ///
    /// [`RegionError::OutsideRemote`], also if the region itself exceeds the addresses.
    pub fn at(&self, access: Access, at: usize, len: usize) -> Result<u64, RegionError> {
        let end = (at as u64).checked_add(len as u64);
        let is_inside = end.is_some_and(|end| end <= self.len) && self.base.checked_add(self.len).is_some();
        if !is_inside || !self.access.permits(access) {
            return Err(RegionError::OutsideRemote);
        }
        Ok(self.base + at as u64)
    }
}

/// All that a netmod has registered.
#[derive(Debug)]
pub struct Regions<X> {
    all: Slab<Region<X>, RegionKind>,
    /// Registered bytes: for peers, for local use.
    used: [usize; 2],
    /// Most bytes registered at once; 0: any.
    max: usize,
    settings: &'static str,
}

impl<X> Regions<X> {
    /// Creates a table that admits `max` bytes at once, or any number if that is 0.
    ///
    /// The setting that limits them is `settings` and `_REGISTER_MAX`.
    pub fn new(max: usize, settings: &'static str) -> Regions<X> {
        Regions { all: Slab::new(), used: [0; 2], max, settings }
    }

    /// Returns the capabilities of a netmod that has one device, whose operations may have any
    /// length and none of which is atomic.
    pub fn caps(&self, target_progress: bool) -> RmaCaps {
        let most = isize::MAX as usize;
        let max_registered = if self.max > 0 { self.max } else { most };
        RmaCaps { max_op: most, max_registered, target_progress, device: 0, atomics: Atomics::NONE }
    }

    /// Checks that `len` bytes more may be registered.
    ///
    /// # Errors
    ///
    /// [`RegionError::Full`]. Half of the limit is for [`Access::Local`], so that regions of peers
    /// never block the operations that use them up.
    pub fn admit(&self, len: usize, access: Access) -> Result<(), RegionError> {
        let local = access == Access::Local;
        let used = self.used[usize::from(local)];
        if self.max > 0 && used.saturating_add(len) > self.max / 2 {
            let (settings, max) = (self.settings, self.max);
            return Err(RegionError::Full { used, more: len, local, settings, max });
        }
        Ok(())
    }

    /// Adds a registration, and returns its handle.
    pub fn insert(&mut self, mem: RmaBuf, access: Access, own: X) -> RegionId {
        self.used[usize::from(access == Access::Local)] += mem.len();
        RegionId(self.all.insert(Region { mem, access, own }).to_wire())
    }

    /// Returns a registration.
    #[inline]
    pub fn get(&self, id: RegionId) -> Option<&Region<X>> {
        self.all.get(Handle::from_wire(id.0))
    }

    /// Returns a registration to change it.
    #[inline]
    pub fn get_mut(&mut self, id: RegionId) -> Option<&mut Region<X>> {
        self.all.get_mut(Handle::from_wire(id.0))
    }

    /// Ends a registration.
    ///
    /// # Errors
    ///
    /// Fails if the handle is not live.
    pub fn remove(&mut self, id: RegionId) -> Result<Region<X>, VcError> {
        let Some(region) = self.all.remove(Handle::from_wire(id.0)) else {
            return Err(VcError::new(VcErrorKind::Aborted, None, "the region is not registered"));
        };
        self.used[usize::from(region.access == Access::Local)] -= region.mem.len();
        Ok(region)
    }

    /// Ends all registrations, and returns them.
    pub fn take_all(&mut self) -> Vec<Region<X>> {
        self.used = [0; 2];
        let mut all = std::mem::take(&mut self.all);
        let ids: Vec<_> = all.iter().map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| all.remove(id)).collect()
    }

    /// Returns all registrations.
    pub fn iter(&self) -> impl Iterator<Item = &Region<X>> {
        self.all.iter().map(|(_, region)| region)
    }

    /// Returns true if nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Checks a put ([`Access::RemoteWrite`]) or get ([`Access::RemoteRead`]) against both regions.
    ///
    /// Returns its local memory, and its address at the peer. `is_usable` says whether this side's
    /// region belongs to the connection.
    ///
    /// # Errors
    ///
    /// Says which of the two regions does not permit it.
    pub fn check(
        &self,
        op: &RmaOp<'_>,
        access: Access,
        remote: &Remote,
        is_usable: impl FnOnce(&X) -> bool,
    ) -> Result<(RmaPart<'_>, u64), RegionError> {
        let address = remote.at(access, op.remote_at, op.len)?;
        let is_ours = |r: &&Region<X>| r.access == Access::Local && is_usable(&r.own);
        let region = self.get(op.local).filter(is_ours).ok_or(RegionError::NotRegistered)?;
        let local = region.part(op.at, op.len).ok_or(RegionError::OutsideLocal)?;
        Ok((local, address))
    }

    /// Checks an atomic operation against both regions as [`Regions::check`] does.
    ///
    /// # Errors
    ///
    /// Says which of the two regions does not permit it, also if a place in it is not a multiple of
    /// the word's size.
    pub fn check_atomic(
        &self,
        atomic: &RmaAtomic<'_>,
        remote: &Remote,
        is_usable: impl FnOnce(&X) -> bool,
    ) -> Result<u64, RegionError> {
        let &RmaAtomic { vc, local, at, key, remote_at, op, .. } = atomic;
        let size = atomic.args.word.size();
        let address = remote.at(Access::RemoteAll, remote_at, size)?;
        let whole = RmaOp { vc, local, at, key, remote_at, len: 0, op };
        self.check(&whole, Access::RemoteAll, remote, is_usable)?;
        let scratch = self.get(local).and_then(|region| region.part(at, RmaAtomic::LOCAL));
        if !scratch.is_some_and(|scratch| (scratch.as_ptr() as usize).is_multiple_of(8)) {
            return Err(RegionError::OutsideLocal);
        }
        // The device's addresses may begin at 0 in each region, so the offset counts, too.
        if !address.is_multiple_of(size as u64) || !remote_at.is_multiple_of(size) {
            return Err(RegionError::OutsideRemote);
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RemoteKey;
    use super::*;
    use crate::slab::VcId;

    const KEY: RemoteKey = RemoteKey::pack([], []);

    fn memory(len: usize) -> RmaBuf {
        RmaBuf::from_static(vec![0; len].leak())
    }

    fn op(local: RegionId, at: usize, remote_at: usize, len: usize) -> RmaOp<'static> {
        RmaOp { vc: VcId::from_wire(1 << 32), local, at, key: &KEY, remote_at, len, op: 0 }
    }

    #[test]
    fn each_half_of_the_limit_is_counted_by_itself() {
        let mut regions = Regions::new(200, "NETMOD_X");
        let (local, peers) = (Access::Local, [Access::RemoteRead, Access::RemoteWrite]);
        assert_eq!(regions.caps(true).max_registered, 200);
        let id = regions.insert(memory(60), peers[0], ());
        assert_eq!(regions.admit(41, peers[1]).map_err(|e| e.kind()), Err(VcErrorKind::Resource));
        assert!(regions.admit(usize::MAX, local).is_err() && regions.admit(100, local).is_ok());
        let why = regions.admit(101, local).expect_err("too much").to_string();
        assert!(why.contains("NETMOD_X_REGISTER_MAX=200") && why.contains("local use"), "{why}");
        assert!(regions.remove(id).is_ok() && regions.remove(id).is_err());
        assert_eq!(regions.admit(100, peers[1]), Ok(()));
        regions.insert(memory(90), local, ());
        regions.insert(memory(90), peers[1], ());
        assert_eq!(regions.take_all().len(), 2);
        assert!(regions.is_empty() && regions.admit(100, local).is_ok());
        assert_eq!(Regions::<()>::new(0, "").admit(usize::MAX, local), Ok(()));
    }

    #[test]
    fn an_operation_stays_within_both_regions() {
        let mut regions = Regions::new(0, "");
        let mem = memory(100);
        let base = mem.as_ptr();
        let id = regions.insert(mem, Access::Local, 7);
        let remote = Remote { base: 1000, len: 50, access: Access::RemoteWrite };
        let check = |op: RmaOp<'_>| regions.check(&op, Access::RemoteWrite, &remote, |own| *own == 7);
        let (ours, address) = check(op(id, 60, 10, 40)).expect("inside both");
        assert_eq!((ours.as_ptr(), ours.len(), address), (base.wrapping_add(60), 40, 1010));
        for (at, len) in [(100, 1), (61, 40), (usize::MAX, 1), (1, usize::MAX)] {
            let refused = check(op(id, at, 0, len)).map(|(_, address)| address);
            let outside = if len > 50 { RegionError::OutsideRemote } else { RegionError::OutsideLocal };
            assert_eq!(refused, Err(outside), "{at} {len}");
        }
        for (at, len) in [(50, 1), (11, 40), (usize::MAX, 1)] {
            assert!(matches!(check(op(id, 0, at, len)), Err(RegionError::OutsideRemote)), "{at} {len}");
        }
        let read = regions.check(&op(id, 0, 0, 1), Access::RemoteRead, &remote, |_| true);
        assert!(matches!(read, Err(RegionError::OutsideRemote)), "another kind");
        let high = Remote { base: u64::MAX - 10, ..remote };
        let beyond = regions.check(&op(id, 0, 0, 1), Access::RemoteWrite, &high, |_| true);
        assert!(matches!(beyond, Err(RegionError::OutsideRemote)), "beyond the addresses");
        let other = regions.check(&op(id, 0, 0, 1), Access::RemoteWrite, &remote, |own| *own == 8);
        assert!(matches!(other, Err(RegionError::NotRegistered)), "of another connection");
    }

    #[test]
    fn atomic_operations_need_a_window_and_aligned_places() {
        use super::super::{AtomicArgs, AtomicOp, Word};
        let mut regions = Regions::new(0, "");
        let mem = memory(71);
        let first = mem.as_ptr().align_offset(8);
        let id = regions.insert(mem, Access::Local, ());
        let check = |word, at, remote_at, access| {
            let args = AtomicArgs { op: AtomicOp::Add, word, operand: 1, comparand: 0, fetches: true };
            let vc = VcId::from_wire(1 << 32);
            let at = first.saturating_add(at);
            let op = RmaAtomic { vc, local: id, at, key: &KEY, remote_at, args, op: 0 };
            regions.check_atomic(&op, &Remote { base: 4096, len: 16, access }, |()| true)
        };
        assert_eq!(check(Word::U64, 40, 8, Access::RemoteAll), Ok(4104));
        assert_eq!(check(Word::U32, 0, 12, Access::RemoteAll), Ok(4108));
        for (word, remote_at) in [(Word::U64, 4), (Word::U32, 2), (Word::U64, 16), (Word::I64, 9)] {
            let refused = check(word, 0, remote_at, Access::RemoteAll);
            assert_eq!(refused, Err(RegionError::OutsideRemote), "{word:?} {remote_at}");
        }
        for at in [48, 4, usize::MAX - 7] {
            let refused = check(Word::U64, at, 0, Access::RemoteAll);
            assert_eq!(refused, Err(RegionError::OutsideLocal), "{at}");
        }
        for access in [Access::RemoteRead, Access::RemoteWrite, Access::Local] {
            let refused = check(Word::U64, 0, 0, access);
            assert_eq!(refused, Err(RegionError::OutsideRemote), "{access:?}");
        }
    }

    #[test]
    fn only_live_regions_for_local_use_are_moved_from() {
        let mut regions = Regions::new(0, "");
        let remote = Remote { base: 0, len: 10, access: Access::RemoteRead };
        for access in [Access::RemoteRead, Access::RemoteWrite, Access::Local] {
            let id = regions.insert(memory(10), access, ());
            let get = |regions: &Regions<()>| {
                regions.check(&op(id, 0, 0, 10), Access::RemoteRead, &remote, |()| true).is_ok()
            };
            assert_eq!(get(&regions), access == Access::Local, "{access:?}");
            assert!(regions.remove(id).is_ok());
            assert!(!get(&regions), "{access:?} after its end");
        }
    }
}
