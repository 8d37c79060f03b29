//! Memory for unexpected messages: what this process grants its peers, lends them and uses itself.

use netmod_core::VcId;

use crate::Config;

use super::credit::{self, ENTRY, Terms};

/// The share of memory for unexpected messages, and the peers that want more of it.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Longest message that is sent eagerly on a new VC, in bytes.
    pub eager_max: usize,
    /// Terms that the processes of the job grant each other.
    pub terms: Terms,
    /// Slots that can be lent beyond the terms.
    loans: u32,
    /// The log has told that no slots are left to lend.
    warned: bool,
    /// VCs whose peers wait for slots.
    wanting: Vec<VcId>,
    /// Requests for slots that peers have made.
    pub wants: u64,
    /// Bytes charged for copies of this process's messages to itself.
    own_held: u64,
    /// Most that `own_held` may be.
    own_max: u64,
}

impl Budget {
    /// Makes the budget of a device in a job with these terms.
    pub(crate) fn new(cfg: &Config, terms: Terms) -> Budget {
        Budget {
            eager_max: cfg.eager_max,
            terms,
            loans: u32::try_from(cfg.unexpected_max / 4).unwrap_or(u32::MAX) / ENTRY,
            warned: false,
            wanting: Vec::new(),
            wants: 0,
            own_held: 0,
            own_max: cfg.unexpected_max as u64 / 4,
        }
    }

    /// Returns the longest message that may be sent eagerly under these terms, in bytes.
    #[inline]
    pub(crate) fn most_eager(&self, terms: Terms) -> usize {
        self.eager_max.min(terms.eager_max())
    }

    /// Charges a copy of a message of this process to itself. Returns false and charges nothing if
    /// it must not be copied.
    pub(super) fn take_own(&mut self, len: usize) -> bool {
        let held = self.own_held + u64::from(credit::charge(len.min(self.eager_max) as u32));
        let fits = len <= self.eager_max && held <= self.own_max;
        if fits {
            self.own_held = held;
        }
        fits
    }

    /// Ends the charge of such a copy.
    pub(super) fn give_own(&mut self, charge: u32) {
        self.own_held -= u64::from(charge);
    }

    /// Takes up to `n` slots to be lent to a peer.
    pub(super) fn lend(&mut self, n: u32) -> u32 {
        let n = n.min(self.loans);
        self.loans -= n;
        n
    }

    /// Takes lent slots back.
    pub(super) fn repaid(&mut self, n: u32) {
        self.loans += n;
    }

    /// Returns true the first time that it is called: the log is to tell that no slots are left.
    pub(super) fn is_first_warning(&mut self) -> bool {
        !std::mem::replace(&mut self.warned, true)
    }

    /// Adds a VC whose peer waits for slots.
    pub(super) fn add_wanting(&mut self, vc: VcId) {
        self.wanting.push(vc);
    }

    /// Removes a VC whose peer waits for slots no more.
    pub(super) fn remove_wanting(&mut self, vc: VcId) {
        self.wanting.retain(|w| *w != vc);
    }

    /// Returns true if a peer waits for slots.
    #[inline]
    pub(crate) fn has_wanting(&self) -> bool {
        !self.wanting.is_empty()
    }
}
