//! Slabs with generation-checked handles, and side tables keyed by the same handles.

use core::fmt;
use core::marker::PhantomData;

/// A handle: 32-bit index, 32-bit generation. `K` is the kind of object.
///
/// A handle may travel to a peer and come back. One that is stale, or invented by the peer, is
/// simply not found.
pub struct Handle<K> {
    /// Both parts in one word, since they are stored and soon read together.
    word: u64,
    _kind: PhantomData<fn() -> K>,
}

/// The kind of a [`VcId`].
#[derive(Debug)]
pub enum VcKind {}
/// The kind of a [`ReqId`].
#[derive(Debug)]
pub enum ReqKind {}

/// Handle of a virtual connection.
pub type VcId = Handle<VcKind>;
/// Handle of a request.
pub type ReqId = Handle<ReqKind>;

impl<K> Handle<K> {
    #[inline]
    const fn new(index: u32, generation: u32) -> Self {
        Handle::from_wire(index as u64 | (generation as u64) << 32)
    }

    /// Returns the index of the slot in the slab.
    #[inline]
    pub const fn index(self) -> usize {
        self.word as u32 as usize
    }

    /// Returns how often the slot had been used before.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.word >> 32) as u32
    }

    /// Returns the wire form.
    #[inline]
    pub const fn to_wire(self) -> u64 {
        self.word
    }

    /// Creates a handle from its wire form; any number is a handle, possibly of nothing.
    #[inline]
    pub const fn from_wire(word: u64) -> Self {
        Handle { word, _kind: PhantomData }
    }
}

impl<K> Clone for Handle<K> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Handle<K> {}
impl<K> PartialEq for Handle<K> {
    #[inline]
    fn eq(&self, o: &Self) -> bool {
        self.word == o.word
    }
}
impl<K> Eq for Handle<K> {}
impl<K> core::hash::Hash for Handle<K> {
    fn hash<H: core::hash::Hasher>(&self, h: &mut H) {
        self.to_wire().hash(h);
    }
}
impl<K> PartialOrd for Handle<K> {
    fn partial_cmp(&self, o: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl<K> Ord for Handle<K> {
    fn cmp(&self, o: &Self) -> core::cmp::Ordering {
        (self.index(), self.generation()).cmp(&(o.index(), o.generation()))
    }
}
impl<K> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index(), self.generation())
    }
}
impl<K> fmt::Display for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const NO_FREE: u32 = u32::MAX;
/// A word that is the handle of no slot: its index is invalid.
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
struct Slot<T> {
    /// Occupied: its own handle (odd generation). Free: index of the next free slot, or
    /// [`NO_FREE`], and an even generation.
    ///
    /// The word of a free slot never equals a handle by which this slot is looked up: a slot does
    /// not follow itself.
    word: u64,
    /// The value; in a free slot nothing, or the value left by [`Slab::retire_if`].
    value: Option<T>,
}

impl<T> Slot<T> {
    /// Occupies a free slot; returns its handle, and the next free slot.
    #[inline]
    fn take<K>(&mut self, index: u32) -> (Handle<K>, u32) {
        let free = Handle::<K>::from_wire(self.word);
        let handle = Handle::new(index, free.generation().wrapping_add(1));
        self.word = handle.word;
        (handle, free.index() as u32)
    }

    /// Frees an occupied slot.
    #[inline]
    fn free<K>(&mut self, h: Handle<K>, next: u32) {
        self.word = Handle::<K>::new(next, h.generation().wrapping_add(1)).word;
    }
}

/// Number of slots from which on a table grows by an eighth instead of doubling.
///
/// The system moves the memory of large tables without copies, and an unused half would be much.
const LARGE: usize = 4096;

/// Makes room for one more, at constant amortized cost.
#[cold]
fn make_room<T>(slots: &mut Vec<T>, len: usize) {
    let more = len - slots.len();
    if slots.len() >= LARGE {
        slots.reserve_exact(more.max(slots.len() / 8));
    } else {
        slots.reserve(more);
    }
}

/// Creates the first value of a slot.
#[cold]
#[inline(never)]
fn fill<T: Default>(place: &mut Option<T>) {
    *place = Some(T::default());
}

/// A growing array of `T` whose slots are reused, last freed first.
#[derive(Debug)]
pub struct Slab<T, K> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    _kind: PhantomData<fn() -> K>,
}

impl<T, K> Default for Slab<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, K> Slab<T, K> {
    /// Creates an empty slab.
    pub const fn new() -> Self {
        Slab { slots: Vec::new(), free: NO_FREE, len: 0, _kind: PhantomData }
    }

    /// Makes room for `n` values without further allocation.
    pub fn reserve(&mut self, n: usize) {
        self.slots.reserve(n.saturating_sub(self.slots.len()));
    }

    /// Stores a value in the slot freed last, or in a new one.
    ///
    /// # Panics
    ///
    /// At 2^32 - 1 live values, for which no memory suffices.
    #[inline]
    pub fn insert(&mut self, value: T) -> Handle<K> {
        // The only store of the value, whose address is not taken elsewhere: its parts go from
        // registers to the slot, without a copy in between.
        if self.free == NO_FREE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let (h, next) = slot.take(index);
        self.free = next;
        self.len += 1;
        slot.value = Some(value);
        h
    }

    /// Occupies a slot and returns its value to be set in place, which avoids moving a large one.
    ///
    /// The value is `T::default()`, or what [`Slab::retire_if`] has left.
    ///
    /// # Panics
    ///
    /// As [`Slab::insert`].
    #[inline]
    pub fn renew(&mut self) -> (Handle<K>, &mut T)
    where
        T: Default,
    {
        if self.free == NO_FREE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let (h, next) = slot.take(index);
        self.free = next;
        self.len += 1;
        if slot.value.is_none() {
            fill(&mut slot.value);
        }
        (h, slot.value.get_or_insert_default())
    }

    /// Frees the slot if `is_so` holds for the value, and leaves the value in it for
    /// [`Slab::renew`].
    ///
    /// Returns true if it did; the handle is dead then.
    #[inline]
    pub fn retire_if(&mut self, h: Handle<K>, is_so: impl FnOnce(&T) -> bool) -> bool {
        let Some(slot) = self.slots.get_mut(h.index()).filter(|slot| slot.word == h.word) else {
            return false;
        };
        if !slot.value.as_ref().is_some_and(is_so) {
            return false;
        }
        slot.free(h, self.free);
        self.free = h.index() as u32;
        self.len -= 1;
        true
    }

    /// Adds a free slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let index = u32::try_from(self.slots.len()).unwrap_or(NO_FREE);
        assert!(index != NO_FREE, "slab full");
        if self.slots.len() == self.slots.capacity() {
            make_room(&mut self.slots, index as usize + 1);
        }
        self.slots.push(Slot { word: NO_FREE.into(), value: None });
        self.free = index;
    }

    /// Returns the value, if the handle is live.
    #[inline]
    pub fn get(&self, h: Handle<K>) -> Option<&T> {
        let slot = self.slots.get(h.index())?;
        if slot.word == h.word { slot.value.as_ref() } else { None }
    }

    /// Returns the value, if the handle is live.
    #[inline]
    pub fn get_mut(&mut self, h: Handle<K>) -> Option<&mut T> {
        let slot = self.slots.get_mut(h.index())?;
        if slot.word == h.word { slot.value.as_mut() } else { None }
    }

    /// Removes and returns the value; the handle is dead from now on.
    #[inline]
    pub fn remove(&mut self, h: Handle<K>) -> Option<T> {
        let slot = self.slots.get_mut(h.index()).filter(|slot| slot.word == h.word)?;
        let value = slot.value.take()?;
        slot.free(h, self.free);
        self.free = h.index() as u32;
        self.len -= 1;
        Some(value)
    }

    /// Returns the number of live values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no live value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over all live values, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<K>, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| {
            let h = Handle::from_wire(s.word);
            s.value.as_ref().filter(|_| h.index() == i).map(|v| (h, v))
        })
    }

    /// Iterates mutably over all live values, by index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle<K>, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(i, s)| {
            let h = Handle::from_wire(s.word);
            s.value.as_mut().filter(|_| h.index() == i).map(|v| (h, v))
        })
    }
}

/// A layer's own part of objects that live in a slab: `T` by handle.
///
/// The value belongs to one generation of the handle; another one does not find it.
#[derive(Debug)]
pub struct SideTable<T, K> {
    /// Handle and value. [`NOBODY`]: none, or what [`SideTable::retire_if`] has left.
    slots: Vec<(u64, Option<T>)>,
    _kind: PhantomData<fn() -> K>,
}

impl<T, K> Default for SideTable<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, K> SideTable<T, K> {
    /// Creates an empty table.
    pub const fn new() -> Self {
        SideTable { slots: Vec::new(), _kind: PhantomData }
    }

    /// Sets the value of a handle; returns what an earlier generation may have left there.
    #[inline]
    pub fn insert(&mut self, h: Handle<K>, value: T) -> Option<T> {
        if h.index() >= self.slots.len() {
            self.extend(h.index() + 1);
        }
        let slot = &mut self.slots[h.index()];
        slot.0 = h.word;
        slot.1.replace(value)
    }

    /// Does the same as [`SideTable::insert`], but drops what an earlier generation may have left.
    ///
    /// Large values are created in place and need not be moved.
    #[inline(always)]
    pub fn set(&mut self, h: Handle<K>, value: T) {
        if h.index() >= self.slots.len() {
            self.extend(h.index() + 1);
        }
        let slot = &mut self.slots[h.index()];
        slot.0 = h.word;
        slot.1 = Some(value);
    }

    /// Returns the value of a handle to be set in place, which avoids moving a large one.
    ///
    /// The value is `T::default()`, or what [`SideTable::retire_if`] or an earlier generation has
    /// left.
    #[inline]
    pub fn renew(&mut self, h: Handle<K>) -> &mut T
    where
        T: Default,
    {
        if h.index() >= self.slots.len() {
            self.extend(h.index() + 1);
        }
        let slot = &mut self.slots[h.index()];
        slot.0 = h.word;
        if slot.1.is_none() {
            fill(&mut slot.1);
        }
        slot.1.get_or_insert_default()
    }

    /// Removes the handle's value if `is_so` holds for it, and leaves the value in place for
    /// [`SideTable::renew`].
    ///
    /// Returns whether it did, or `None` if there is no value.
    #[inline]
    pub fn retire_if(&mut self, h: Handle<K>, is_so: impl FnOnce(&T) -> bool) -> Option<bool> {
        let (of, value) = self.slots.get_mut(h.index()).filter(|(of, _)| *of == h.word)?;
        let so = is_so(value.as_ref()?);
        if so {
            *of = NOBODY;
        }
        Some(so)
    }

    #[cold]
    #[inline(never)]
    fn extend(&mut self, len: usize) {
        if len > self.slots.capacity() {
            make_room(&mut self.slots, len);
        }
        self.slots.resize_with(len, || (NOBODY, None));
    }

    /// Returns the value of a handle.
    #[inline]
    pub fn get(&self, h: Handle<K>) -> Option<&T> {
        match self.slots.get(h.index()) {
            Some((of, v)) if *of == h.word => v.as_ref(),
            _ => None,
        }
    }

    /// Returns the value of a handle.
    #[inline]
    pub fn get_mut(&mut self, h: Handle<K>) -> Option<&mut T> {
        match self.slots.get_mut(h.index()) {
            Some((of, v)) if *of == h.word => v.as_mut(),
            _ => None,
        }
    }

    /// Removes and returns the value of a handle.
    #[inline]
    pub fn remove(&mut self, h: Handle<K>) -> Option<T> {
        match self.slots.get_mut(h.index()) {
            Some((of, v)) if *of == h.word => v.take(),
            _ => None,
        }
    }

    /// Drops the value of a handle, after `f` has taken what it needs; large values are not moved.
    #[inline]
    pub fn remove_with<R>(&mut self, h: Handle<K>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        match self.slots.get_mut(h.index()) {
            Some((of, place)) if *of == h.word => {
                let result = f(place.as_mut()?);
                *place = None;
                Some(result)
            }
            _ => None,
        }
    }

    /// Drops the value of a handle, if it has one.
    #[inline]
    pub fn clear(&mut self, h: Handle<K>) {
        if let Some((of, v)) = self.slots.get_mut(h.index())
            && *of == h.word
        {
            *v = None;
        }
    }

    /// Iterates over all values with their handles, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<K>, &T)> {
        let values = self.slots.iter().filter(|(h, _)| *h != NOBODY);
        values.filter_map(|(h, v)| v.as_ref().map(|v| (Handle::from_wire(*h), v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_forged_handles_find_nothing() {
        let mut s: Slab<&str, ReqKind> = Slab::new();
        let a = s.insert("a");
        assert_eq!(s.remove(a), Some("a"));
        let b = s.insert("b");
        assert_eq!(a.index(), b.index());
        assert_eq!(s.get(a), None);
        assert_eq!(s.get(b), Some(&"b"));
        assert_eq!(s.remove(a), None);
        for word in [0, u64::MAX, b.to_wire() ^ 1 << 40, 77] {
            assert_eq!(s.get(ReqId::from_wire(word)), None);
        }
        assert_eq!(ReqId::from_wire(b.to_wire()), b);
        assert_eq!(s.len(), 1);
        assert_eq!(s.iter().count(), 1);
    }

    #[test]
    fn the_handle_of_a_free_slot_is_not_live() {
        let mut s: Slab<u8, ReqKind> = Slab::new();
        let a = s.insert(1);
        s.remove(a);
        let free = ReqId::from_wire(a.to_wire() + (1 << 32));
        assert_eq!(s.get(free), None);
        assert_eq!(s.remove(free), None);
    }

    #[test]
    fn what_was_retired_is_not_live_and_is_used_again() {
        let mut s: Slab<u32, ReqKind> = Slab::new();
        let mut t: SideTable<u32, ReqKind> = SideTable::new();
        let (a, value) = s.renew();
        assert_eq!(std::mem::replace(value, 5), 0);
        assert_eq!(std::mem::replace(t.renew(a), 6), 0);
        assert_eq!((s.get(a), t.get(a), s.len()), (Some(&5), Some(&6), 1));
        assert!(!s.retire_if(a, |n| *n != 5) && s.retire_if(a, |n| *n == 5));
        assert_eq!((t.retire_if(a, |n| *n != 6), t.get(a)), (Some(false), Some(&6)));
        assert_eq!((t.retire_if(a, |n| *n == 6), t.get(a)), (Some(true), None));
        assert_eq!(t.retire_if(a, |_| true), None);
        // The second one is the free slot's own number, which a peer may invent.
        for h in [a, ReqId::from_wire(a.to_wire() + (1 << 32)), ReqId::from_wire(0)] {
            assert!(s.get(h).is_none() && s.get_mut(h).is_none() && s.remove(h).is_none());
            assert!(t.get(h).is_none() && t.get_mut(h).is_none() && t.remove(h).is_none());
            assert!(!s.retire_if(h, |_| true));
        }
        assert_eq!((s.iter().count(), t.iter().count(), s.len()), (0, 0, 0));
        let (b, value) = s.renew();
        assert_eq!((b.index(), *value, *t.renew(b)), (a.index(), 5, 6));
        assert_eq!((s.get(a), t.get(a)), (None, None));
        assert_eq!((s.remove(b), t.remove(b)), (Some(5), Some(6)));
        let (c, value) = s.renew();
        assert_eq!((*value, *t.renew(c), s.len()), (0, 0, 1));
    }

    #[test]
    fn large_tables_do_not_double() {
        let mut s: Slab<u64, VcKind> = Slab::new();
        let mut t: SideTable<u64, VcKind> = SideTable::new();
        let mut moved = 0;
        for i in 0..40_000 {
            let before = (s.slots.capacity(), t.slots.capacity());
            let h = s.insert(i);
            t.insert(h, i);
            let after = (s.slots.capacity(), t.slots.capacity());
            moved += u32::from(before.0 != after.0) + u32::from(before.1 != after.1);
            let most = (2 * LARGE).max(i as usize * 9 / 8 + 2);
            assert!(after.0.max(after.1) <= most, "{after:?} for {i}");
        }
        assert!(moved < 100, "{moved}");
        assert!(s.iter().zip(t.iter()).all(|((a, x), (b, y))| a == b && x == y));
        assert_eq!(t.iter().count(), 40_000);
    }

    #[test]
    fn side_tables_know_generations() {
        let mut s: Slab<u8, VcKind> = Slab::new();
        let mut t: SideTable<u32, VcKind> = SideTable::new();
        let a = s.insert(1);
        t.insert(a, 10);
        s.remove(a);
        let b = s.insert(2);
        assert_eq!(t.get(b), None);
        assert_eq!(t.insert(b, 15), Some(10));
        t.set(b, 20);
        assert_eq!(t.get(a), None);
        assert_eq!(t.remove_with(a, |n| *n), None);
        assert_eq!(t.remove_with(b, |n| *n), Some(20));
        assert_eq!(t.remove_with(b, |n| *n), None);
        t.set(b, 20);
        *t.get_mut(b).unwrap() += 1;
        assert_eq!(t.remove(b), Some(21));
        assert_eq!(t.iter().count(), 0);
    }
}
