//! The table of slots: what this process calls its connections.

use netmod_core::VcId;

use crate::wire::Slot;

/// No slot: the token is that of no live one.
pub(super) const NONE: Slot = Slot { number: 0, token: 0 };

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    /// Zero: free.
    token: u32,
    /// DATA may come.
    open: bool,
    vc: VcId,
}

/// Slots in use. A place is used again, with another token.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Slots {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Slots {
    /// A slot for a connection that is under way. `token` must be random; it is zero in none.
    pub(super) fn take(&mut self, vc: VcId, token: u32) -> Slot {
        let place = Place { token: token.max(1), open: false, vc };
        let number = match self.free.pop() {
            Some(n) => {
                self.places[n as usize] = place;
                n
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        Slot { number, token: place.token }
    }

    fn place(&mut self, slot: Slot) -> Option<&mut Place> {
        self.places.get_mut(slot.number as usize).filter(|p| p.token == slot.token && p.token != 0)
    }

    /// The connection is made.
    pub(super) fn open(&mut self, slot: Slot) {
        if let Some(p) = self.place(slot) {
            p.open = true;
        }
    }

    /// The connection is gone; frames that are still on their way find nobody.
    pub(super) fn free(&mut self, slot: Slot) {
        if let Some(p) = self.place(slot) {
            p.token = 0;
            self.free.push(slot.number);
        }
    }

    /// The VC of a connection that is made.
    #[inline]
    pub(super) fn opened(&self, slot: Slot) -> Option<VcId> {
        match self.places.get(slot.number as usize) {
            Some(p) if p.token == slot.token && p.open && p.token != 0 => Some(p.vc),
            _ => None,
        }
    }

    /// The VC of a connection that is not made yet.
    pub(super) fn under_way(&self, slot: Slot) -> Option<VcId> {
        let place = self.places.get(slot.number as usize)?;
        (place.token == slot.token && !place.open && place.token != 0).then_some(place.vc)
    }

    /// The tokens of those in use.
    #[cfg(test)]
    pub(super) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|p| p.token)
    }

    /// Returns the number of slots in use.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_old_names_find_nobody() {
        let vc = VcId::from_wire(1 << 32);
        let mut slots = Slots::default();
        let a = slots.take(vc, 7);
        assert_eq!((slots.opened(a), slots.under_way(a)), (None, Some(vc)));
        slots.open(a);
        assert_eq!((slots.opened(a), slots.under_way(a), slots.len()), (Some(vc), None, 1));
        slots.free(a);
        slots.free(a);
        assert_eq!((slots.opened(a), slots.under_way(a), slots.len()), (None, None, 0));
        let b = slots.take(vc, 9);
        assert_eq!(b.number, a.number);
        slots.open(b);
        slots.free(a);
        assert_eq!((slots.opened(a), slots.opened(b)), (None, Some(vc)));
        let zero = slots.take(vc, 0);
        assert_ne!(zero.token, 0);
        assert_eq!(slots.opened(Slot { number: 99, token: 1 }), None);
        slots.free(b);
        assert_eq!(slots.opened(Slot { number: b.number, token: 0 }), None, "zero names a free place");
        assert_eq!(slots.opened(NONE), None);
    }
}
