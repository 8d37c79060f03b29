//! Memory that is registered: what peers may put to, and what is put from.

use netmod_core::rma::{Access, RegionId, RemoteKey};
use netmod_core::{IoVec, VcId};

/// Bytes of a key.
const KEY: usize = 16;

/// Registered memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Never used twice, and no other process's business unless it was told.
    pub(crate) number: u64,
    /// Whose peer may use it.
    pub(crate) vc: VcId,
    pub(crate) mem: IoVec,
    pub(crate) access: Access,
}

/// Where the data of a chunk belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Here.
    At(IoVec),
    /// The region has ended, or never was.
    Gone,
    /// It is not all within its region, or the region is not to be put to.
    Outside,
}

/// All that is registered; there are few at once.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    list: Vec<Region>,
    last: u64,
}

impl Regions {
    /// Registers memory, to be used with the peer of a VC.
    pub(crate) fn add(&mut self, vc: VcId, mem: IoVec, access: Access) -> (RegionId, RemoteKey) {
        self.last += 1;
        let number = self.last;
        self.list.push(Region { number, vc, mem, access });
        let mut key = [0; KEY];
        key.as_chunks_mut().0.copy_from_slice(&[number, mem.len as u64].map(u64::to_le_bytes));
        (RegionId(number), RemoteKey::of(key))
    }

    /// Ends a registration.
    pub(crate) fn remove(&mut self, region: RegionId) -> Option<Region> {
        let at = self.list.iter().position(|r| r.number == region.0)?;
        Some(self.list.swap_remove(at))
    }

    /// Memory of this side's that is registered for its own puts on a VC.
    pub(crate) fn local(&self, vc: VcId, region: RegionId) -> Option<IoVec> {
        let r = self.list.iter().find(|r| r.number == region.0 && r.vc == vc)?;
        (r.access == Access::Local).then_some(r.mem)
    }

    /// Where `len` bytes at `at` of a region belong that the peer of a VC puts.
    pub(crate) fn place(&self, vc: VcId, number: u64, at: u64, len: usize) -> Place {
        // A region of another peer's is none for this one.
        let Some(r) = self.list.iter().find(|r| r.number == number && r.vc == vc) else { return Place::Gone };
        let end = at.checked_add(len as u64);
        if r.access != Access::RemoteWrite || end.is_none_or(|end| end > r.mem.len as u64) {
            return Place::Outside;
        }
        Place::At(IoVec { base: r.mem.base.wrapping_add(at as usize), len })
    }

    /// Whether nothing is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Number and length of the region that a key of the peer's names.
pub(crate) fn read_key(key: &RemoteKey) -> Option<(u64, u64)> {
    let (number, len) = key.bytes().split_first_chunk::<8>()?;
    let len: &[u8; 8] = len.try_into().ok()?;
    Some((u64::from_le_bytes(*number), u64::from_le_bytes(*len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(n: u64) -> VcId {
        VcId::from_wire(n | 1 << 32)
    }

    #[test]
    fn nothing_is_reached_outside_a_region() {
        let mut memory = [0u8; 100];
        let mem = IoVec { base: memory.as_mut_ptr(), len: 100 };
        let mut regions = Regions::default();
        let (id, key) = regions.add(vc(1), mem, Access::RemoteWrite);
        let (number, len) = read_key(&key).expect("a key");
        assert_eq!((number, len), (id.0, 100));
        let place = |at, len| regions.place(vc(1), number, at, len);
        for (at, len) in [(0, 100), (0, 1), (99, 1), (40, 60)] {
            let Place::At(iov) = place(at, len) else { panic!("{at} {len}") };
            assert_eq!((iov.base, iov.len), (mem.base.wrapping_add(at as usize), len));
        }
        for (at, len) in [(0, 101), (100, 1), (99, 2), (u64::MAX, 1), (u64::MAX - 10, 20), (1 << 40, 1)] {
            assert!(matches!(place(at, len), Place::Outside), "{at} {len}");
        }
        assert!(matches!(regions.place(vc(2), number, 0, 1), Place::Gone), "of another VC");
        assert!(matches!(regions.place(vc(1), number + 1, 0, 1), Place::Gone));
        assert!(regions.remove(id).is_some() && regions.remove(id).is_none());
        assert!(matches!(regions.place(vc(1), number, 0, 1), Place::Gone));
        assert!(regions.is_empty());
    }

    #[test]
    fn only_what_is_for_puts_is_put_to() {
        let mem = IoVec { base: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 100 };
        let mut regions = Regions::default();
        for access in [Access::Local, Access::RemoteRead] {
            let (id, _) = regions.add(vc(1), mem, access);
            assert!(matches!(regions.place(vc(1), id.0, 0, 1), Place::Outside), "{access:?}");
            assert_eq!(regions.local(vc(1), id).is_some(), access == Access::Local);
            assert!(regions.local(vc(2), id).is_none());
        }
    }

    #[test]
    fn odd_keys_are_none() {
        for len in [0, 8, KEY - 1, KEY + 1] {
            assert_eq!(read_key(&RemoteKey::new(&vec![1; len]).expect("a key")), None, "{len}");
        }
    }
}
