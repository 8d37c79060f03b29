//! Slabs with generation-checked handles, and side tables keyed by the same handles.

use core::fmt;
use core::marker::PhantomData;

/// A handle: 32-bit index, 32-bit generation. `K` says what it is a handle of.
///
/// A handle may travel to a peer and come back. One that is stale, or that the peer made up, is
/// simply not found.
pub struct Handle<K> {
    /// In one word, because that is how it is stored, and read again a moment later.
    word: u64,
    _kind: PhantomData<fn() -> K>,
}

/// What a [`VcId`] is a handle of.
#[derive(Debug)]
pub enum VcKind {}
/// What a [`ReqId`] is a handle of.
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

    /// Place in the slab.
    #[inline]
    pub const fn index(self) -> usize {
        self.word as u32 as usize
    }

    /// How often that place had been given away before.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.word >> 32) as u32
    }

    /// The form that travels on the wire.
    #[inline]
    pub const fn to_wire(self) -> u64 {
        self.word
    }

    /// From the wire: any number is a handle, though perhaps of nothing.
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
/// No handle of a place: its index is that of none.
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
struct Slot<T> {
    /// Taken: its handle, whose generation is odd. Free: an even generation, and in the index's stead that of the next free slot, or [`NO_FREE`].
    /// No handle equals that by which this slot is looked up, whatever its generation: a slot does not come after itself.
    word: u64,
    /// In a free slot: nothing, or what [`Slab::retire_if`] has left.
    value: Option<T>,
}

impl<T> Slot<T> {
    /// Takes a free slot; returns its handle, and the next free slot.
    #[inline]
    fn take<K>(&mut self, index: u32) -> (Handle<K>, u32) {
        let free = Handle::<K>::from_wire(self.word);
        let handle = Handle::new(index, free.generation().wrapping_add(1));
        self.word = handle.word;
        (handle, free.index() as u32)
    }

    /// Frees a slot that is taken.
    #[inline]
    fn free<K>(&mut self, h: Handle<K>, next: u32) {
        self.word = Handle::<K>::new(next, h.generation().wrapping_add(1)).word;
    }
}

/// Slots from which on a table grows by an eighth and not to the double: the memory of large tables is moved
/// by the system, without copies, and half of it unused is much.
const LARGE: usize = 4096;

/// Room for one more, so that a row of calls costs constant time each.
#[cold]
fn make_room<T>(slots: &mut Vec<T>, len: usize) {
    let more = len - slots.len();
    if slots.len() >= LARGE {
        slots.reserve_exact(more.max(slots.len() / 8));
    } else {
        slots.reserve(more);
    }
}

/// The first value of a place.
#[cold]
#[inline(never)]
fn fill<T: Default>(place: &mut Option<T>) {
    *place = Some(T::default());
}

/// A growing array of `T` whose places are used again, last freed first.
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
    /// An empty slab.
    pub const fn new() -> Self {
        Slab { slots: Vec::new(), free: NO_FREE, len: 0, _kind: PhantomData }
    }

    /// Room for `n` values without allocating.
    pub fn reserve(&mut self, n: usize) {
        self.slots.reserve(n.saturating_sub(self.slots.len()));
    }

    /// Puts a value in the place freed last, or in a new one.
    ///
    /// # Panics
    /// At 2^32 - 1 live values, which no memory holds.
    #[inline]
    pub fn insert(&mut self, value: T) -> Handle<K> {
        // The one store of the value, to which nothing else gets its address: so its parts go from registers to
        // their place, without a copy of it in between.
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

    /// Takes a place and lets its new value be made there, which spares a large one the way through memory elsewhere:
    /// it is `T::default()`, or what [`Slab::retire_if`] has left.
    ///
    /// # Panics
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

    /// If the value is so, frees the place and leaves the value in it, for [`Slab::renew`]: the handle is dead from now on. Whether
    /// it was.
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

    /// One more free slot.
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

    /// The value, if the handle is live.
    #[inline]
    pub fn get(&self, h: Handle<K>) -> Option<&T> {
        let slot = self.slots.get(h.index())?;
        if slot.word == h.word { slot.value.as_ref() } else { None }
    }

    /// The value, if the handle is live.
    #[inline]
    pub fn get_mut(&mut self, h: Handle<K>) -> Option<&mut T> {
        let slot = self.slots.get_mut(h.index())?;
        if slot.word == h.word { slot.value.as_mut() } else { None }
    }

    /// Takes the value out; the handle is dead from now on.
    #[inline]
    pub fn remove(&mut self, h: Handle<K>) -> Option<T> {
        let slot = self.slots.get_mut(h.index()).filter(|slot| slot.word == h.word)?;
        let value = slot.value.take()?;
        slot.free(h, self.free);
        self.free = h.index() as u32;
        self.len -= 1;
        Some(value)
    }

    /// Number of live values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no live value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All live values, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<K>, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| {
            let h = Handle::from_wire(s.word);
            s.value.as_ref().filter(|_| h.index() == i).map(|v| (h, v))
        })
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle<K>, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(i, s)| {
            let h = Handle::from_wire(s.word);
            s.value.as_mut().filter(|_| h.index() == i).map(|v| (h, v))
        })
    }
}

/// A layer's own part of something that lives in a slab: `T` by handle.
///
/// The value belongs to one generation of the handle; asked with another it is not there.
#[derive(Debug)]
pub struct SideTable<T, K> {
    /// By handle. [`NOBODY`]: nothing, or what [`SideTable::retire_if`] has left.
    slots: Vec<(u64, Option<T>)>,
    _kind: PhantomData<fn() -> K>,
}

impl<T, K> Default for SideTable<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, K> SideTable<T, K> {
    /// An empty table.
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

    /// As [`SideTable::insert`], but drops what an earlier generation may have left: large values need not be
    /// moved out, and are made in their place.
    #[inline(always)]
    pub fn set(&mut self, h: Handle<K>, value: T) {
        if h.index() >= self.slots.len() {
            self.extend(h.index() + 1);
        }
        let slot = &mut self.slots[h.index()];
        slot.0 = h.word;
        slot.1 = Some(value);
    }

    /// Lets the value of a handle be made in its place, which spares a large one the way through memory elsewhere: it
    /// is `T::default()`, or what [`SideTable::retire_if`] or an earlier generation has left.
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

    /// If the value is so, the handle has none from now on, and what it had stays where it is, for [`SideTable::renew`]; whether it
    /// was, or `None` if there is none.
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

    /// The value of a handle.
    #[inline]
    pub fn get(&self, h: Handle<K>) -> Option<&T> {
        match self.slots.get(h.index()) {
            Some((of, v)) if *of == h.word => v.as_ref(),
            _ => None,
        }
    }

    /// The value of a handle.
    #[inline]
    pub fn get_mut(&mut self, h: Handle<K>) -> Option<&mut T> {
        match self.slots.get_mut(h.index()) {
            Some((of, v)) if *of == h.word => v.as_mut(),
            _ => None,
        }
    }

    /// Takes the value of a handle out.
    #[inline]
    pub fn remove(&mut self, h: Handle<K>) -> Option<T> {
        match self.slots.get_mut(h.index()) {
            Some((of, v)) if *of == h.word => v.take(),
            _ => None,
        }
    }

    /// Drops the value of a handle, after `f` has taken out of it what is wanted: in its place, because large
    /// values are not moved for nothing.
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

    /// All values with their handles, by index.
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
        // The second is the free place's own number, which a peer may make up.
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
