//! Memory that is registered: what peers may put to, and what is put from.

use netmod_core::rma::{self, Access, Region, RegionError, RegionId, Remote, RemoteKey, RmaCaps};
use netmod_core::{IoVec, RmaBuf, RmaOp, VcError, VcId};

/// The memory that the data of a chunk belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Here.
    At(IoVec),
    /// The region has ended, or never was.
    Gone,
    /// It is not all within its region, or the region is not to be put to.
    Outside,
}

/// All that is registered, each for the VC of one peer; there are few at once.
#[derive(Debug)]
pub(crate) struct Regions(rma::Regions<VcId>);

impl Default for Regions {
    fn default() -> Regions {
        Regions(rma::Regions::new(0, "NETMOD_TCP"))
    }
}

impl Regions {
    /// Registers memory, to be used with the peer of a VC.
    pub(crate) fn add(&mut self, vc: VcId, mem: RmaBuf, access: Access) -> (RegionId, RemoteKey) {
        let len = mem.len() as u64;
        let id = self.0.insert(mem, access, vc);
        (id, RemoteKey::pack([id.0, len], []))
    }

    /// Ends a registration.
    ///
    /// # Errors
    ///
    /// Fails if the handle is not live.
    pub(crate) fn remove(&mut self, region: RegionId) -> Result<Region<VcId>, VcError> {
        self.0.remove(region)
    }

    /// Returns what puts can do: any length, and any number of registered bytes.
    pub(crate) fn caps(&self) -> RmaCaps {
        self.0.caps(true)
    }

    /// Checks a put; returns the peer's region, the offset there, and the local memory.
    ///
    /// # Errors
    ///
    /// Says which of the two regions does not permit it.
    pub(crate) fn put(&self, op: &RmaOp<'_>) -> Result<(u64, u64, IoVec), RegionError> {
        let (region, len) = read_key(op.key).ok_or(RegionError::ForeignKey)?;
        let remote = Remote { base: 0, len, access: Access::RemoteWrite };
        let (mem, at) = self.0.check(op, Access::RemoteWrite, &remote, |vc| *vc == op.vc)?;
        Ok((region, at, mem.as_iovec()))
    }

    /// Returns the memory for `len` bytes at `at` of a region that the peer of a VC puts to.
    pub(crate) fn target(&self, vc: VcId, number: u64, at: u64, len: usize) -> Target {
        // A region of another peer's is none for this one.
        let Some(r) = self.0.get(RegionId(number)).filter(|r| r.own == vc) else { return Target::Gone };
        if r.access != Access::RemoteWrite {
            return Target::Outside;
        }
        r.part(at as usize, len).map_or(Target::Outside, |part| Target::At(part.as_iovec()))
    }

    /// Returns true if nothing is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the number and the length of the region that a key of the peer names.
pub(crate) fn read_key(key: &RemoteKey) -> Option<(u64, u64)> {
    key.unpack::<2, 0>().map(|([number, len], [])| (number, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(n: u64) -> VcId {
        VcId::from_wire(n | 1 << 32)
    }

    fn memory() -> RmaBuf {
        RmaBuf::from_static(Box::leak(Box::new([0; 100])))
    }

    #[test]
    fn nothing_is_reached_outside_a_region() {
        let mem = memory();
        let base = mem.as_ptr();
        let mut regions = Regions::default();
        let (id, key) = regions.add(vc(1), mem, Access::RemoteWrite);
        let (number, len) = read_key(&key).expect("a key");
        assert_eq!((number, len), (id.0, 100));
        let target = |at, len| regions.target(vc(1), number, at, len);
        for (at, len) in [(0, 100), (0, 1), (99, 1), (40, 60)] {
            let Target::At(iov) = target(at, len) else { panic!("{at} {len}") };
            assert_eq!((iov.base, iov.len), (base.wrapping_add(at as usize), len));
        }
        for (at, len) in [(0, 101), (100, 1), (99, 2), (u64::MAX, 1), (u64::MAX - 10, 20), (1 << 40, 1)] {
            assert!(matches!(target(at, len), Target::Outside), "{at} {len}");
        }
        assert!(matches!(regions.target(vc(2), number, 0, 1), Target::Gone), "of another VC");
        assert!(matches!(regions.target(vc(1), number + 1, 0, 1), Target::Gone));
        assert!(regions.remove(id).is_ok() && regions.remove(id).is_err());
        assert!(matches!(regions.target(vc(1), number, 0, 1), Target::Gone));
        assert!(regions.is_empty());
    }

    #[test]
    fn only_what_is_for_puts_is_put_to() {
        let mut regions = Regions::default();
        for access in [Access::Local, Access::RemoteRead] {
            let (id, _) = regions.add(vc(1), memory(), access);
            assert!(matches!(regions.target(vc(1), id.0, 0, 1), Target::Outside), "{access:?}");
            let key = RemoteKey::pack([1, 100], []);
            let put = |vc| {
                let op = RmaOp { vc, local: id, at: 0, key: &key, remote_at: 0, len: 100, op: 0 };
                regions.put(&op).is_ok()
            };
            assert_eq!(put(vc(1)), access == Access::Local, "{access:?}");
            assert!(!put(vc(2)), "of another VC");
        }
    }

    #[test]
    fn odd_keys_are_none() {
        for len in [0, 8, 15, 17] {
            assert_eq!(read_key(&RemoteKey::new(&vec![1; len]).expect("a key")), None, "{len}");
        }
    }
}
