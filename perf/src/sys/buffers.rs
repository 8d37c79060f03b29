//! The send buffer and receive buffer of an endpoint that is driven directly, with rules for
//! access: none while an operation is in flight, and none after a failed request, which may still
//! use the memory.

/// The two buffers. A region `R` is a buffer with its registration.
#[derive(Debug)]
pub(super) struct Buffers<R> {
    regions: Option<[R; 2]>,
    /// Total numbers of posted and completed receives.
    posted: u64,
    received: u64,
    failed: bool,
}

/// A buffer as its peer addresses it: address or offset, and key.
pub(super) type Remote = (u64, u64);

const IN_USE: &str = "the buffers are in use";

impl<R: AsMut<[u8]>> Buffers<R> {
    /// Makes an object without buffers.
    pub(super) fn none() -> Buffers<R> {
        Buffers { regions: None, posted: 0, received: 0, failed: false }
    }

    /// Counts a posted receive.
    #[inline]
    pub(super) fn posted(&mut self) {
        self.posted += 1;
    }

    /// Counts a completed receive.
    #[inline]
    pub(super) fn arrived(&mut self) {
        self.received += 1;
    }

    /// Records that a request has failed.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Returns the total number of posted receives.
    #[inline]
    pub(super) fn all_posted(&self) -> u64 {
        self.posted
    }

    /// Returns the total number of completed receives.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of receives in flight.
    #[inline]
    pub(super) fn receiving(&self) -> u64 {
        self.posted - self.received
    }

    /// Returns the send region and the receive region.
    #[inline]
    pub(super) fn regions(&mut self) -> Option<&mut [R; 2]> {
        self.regions.as_mut()
    }

    /// Takes the regions, for a caller that must keep them beyond this object's life.
    pub(super) fn take(&mut self) -> Option<[R; 2]> {
        self.regions.take()
    }

    /// Returns the bytes of both buffers. `sent`: no send, read or write is in flight.
    ///
    /// # Errors
    /// If they may be in use, or there are none yet.
    pub(super) fn bytes(&mut self, sent: bool) -> Result<(&mut [u8], &mut [u8]), String> {
        let free = self.is_free(sent);
        match &mut self.regions {
            Some([send, recv]) if free => Ok((send.as_mut(), recv.as_mut())),
            _ => Err(IN_USE.into()),
        }
    }

    /// Replaces the buffers. The old ones are dropped first. `make` gets the index of the region to
    /// make; 0 is the send region.
    ///
    /// # Errors
    /// If the old ones may be in use, or `make` fails; then there are none.
    pub(super) fn replace(
        &mut self,
        sent: bool,
        make: impl Fn(usize) -> Result<R, String>,
    ) -> Result<(), String> {
        if !self.is_free(sent) {
            return Err(IN_USE.into());
        }
        self.regions = None;
        self.regions = Some([make(0)?, make(1)?]);
        Ok(())
    }

    fn is_free(&self, sent: bool) -> bool {
        sent && self.receiving() == 0 && !self.failed
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    fn ready() -> Buffers<Vec<u8>> {
        let mut b = Buffers::none();
        b.replace(true, |which| Ok(vec![which as u8; 8])).expect("free buffers");
        b
    }

    fn is_free(b: &mut Buffers<Vec<u8>>, sent: bool) -> bool {
        let seen = b.bytes(sent).is_ok();
        assert_eq!(b.replace(sent, |which| Ok(vec![which as u8; 8])).is_ok(), seen);
        seen
    }

    #[test]
    fn buffers_are_inaccessible_in_flight_and_after_a_failure() {
        let mut b = ready();
        assert_eq!(b.bytes(true), Ok((&mut [0; 8][..], &mut [1; 8][..])));
        assert!(!is_free(&mut b, false));
        (0..2).for_each(|_| b.posted());
        b.arrived();
        assert_eq!((b.all_posted(), b.received(), b.receiving()), (2, 1, 1));
        assert!(!is_free(&mut b, true));
        b.arrived();
        assert!(is_free(&mut b, true));
        b.fail();
        assert!(!is_free(&mut b, true));
    }

    /// Counts live instances.
    struct Counted(Rc<Cell<usize>>);

    impl AsMut<[u8]> for Counted {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut []
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn old_ones_go_before_new_ones_are_made_and_none_is_left_of_a_pair_that_fails() {
        let there = Rc::new(Cell::new(0));
        let make = |last: usize| {
            let there = there.clone();
            move |which: usize| {
                assert_eq!(there.get(), which, "those before are gone");
                there.set(which + 1);
                let made = Counted(there.clone());
                if which < last { Ok(made) } else { Err("no more".to_owned()) }
            }
        };
        let mut b = Buffers::none();
        assert!(b.bytes(true).is_err(), "there are none yet");
        for _ in 0..2 {
            b.replace(true, make(2)).expect("two of them");
            assert_eq!(there.get(), 2);
        }
        assert_eq!(b.replace(true, make(1)), Err("no more".to_owned()));
        assert_eq!(there.get(), 0);
        assert!(b.bytes(true).is_err() && b.regions().is_none());
    }
}
