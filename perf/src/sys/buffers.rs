//! The two buffers of an endpoint that is called directly, what is sent and what is received into, and who may look at them: nobody while
//! something is under way, and nobody any more once a request has failed, for what it uses may still be in use then.

/// See the module. A region is a buffer with what a device needs to use it.
#[derive(Debug)]
pub(super) struct Buffers<R> {
    regions: Option<[R; 2]>,
    /// Receives that were posted, and that have completed; of all time.
    posted: u64,
    received: u64,
    failed: bool,
}

/// Where a peer finds a buffer: address or offset, and key.
pub(super) type Remote = (u64, u64);

const IN_USE: &str = "the buffers are in use";

impl<R: AsMut<[u8]>> Buffers<R> {
    /// There are none yet.
    pub(super) fn none() -> Buffers<R> {
        Buffers { regions: None, posted: 0, received: 0, failed: false }
    }

    /// A receive is under way.
    #[inline]
    pub(super) fn posted(&mut self) {
        self.posted += 1;
    }

    /// A receive has completed.
    #[inline]
    pub(super) fn arrived(&mut self) {
        self.received += 1;
    }

    /// A request has failed.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// How many receives were posted, of all time.
    #[inline]
    pub(super) fn all_posted(&self) -> u64 {
        self.posted
    }

    /// How many have completed, of all time.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// How many are under way.
    #[inline]
    pub(super) fn receiving(&self) -> u64 {
        self.posted - self.received
    }

    /// What is sent, and what is received into.
    #[inline]
    pub(super) fn regions(&mut self) -> Option<&mut [R; 2]> {
        self.regions.as_mut()
    }

    /// The regions, for whoever must keep them although their owner goes.
    pub(super) fn take(&mut self) -> Option<[R; 2]> {
        self.regions.take()
    }

    /// The bytes of both. `sent`: nothing is under way that sends, reads or writes.
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

    /// Puts others in the place of the old ones, which go first; `make` is told which it makes: 0 is what is sent.
    ///
    /// # Errors
    /// If these may be in use, or what `make` says; then there are none.
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
    fn nobody_looks_while_something_is_under_way_or_after_a_failure() {
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

    /// Counts those that there are.
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
