//! The doorbells: how a rank learns which peers have something for it, and is woken.
//!
//! Each rank has one bit for each peer, and a word that says whether it sleeps. Who has published
//! something that is not being watched sets its bit, and, behind a full fence, looks whether the
//! rank sleeps; a rank that is going to sleep says so, and looks behind a full fence whether a bit
//! is set. So one of the two sees the other. A bit says "look at this peer": at its ring, at the
//! room in the ring towards it, and whether it has left.
//!
//! The bits of a rank are at most eight words, which is one cache line; while nobody rings it stays
//! in the cache of the rank that looks at it. Anybody may set any bit: that costs the rank a look,
//! and nothing else.

/// The memory of one rank's doorbells, which both sides share.
pub(crate) trait BellMem {
    /// Number of words.
    fn words(&self) -> usize;
    /// Relaxed.
    fn word(&self, i: usize) -> u64;
    /// Acquire and release.
    fn set_bit(&self, i: usize, bit: u64);
    /// Takes all bits; acquire and release.
    fn take(&self, i: usize) -> u64;
    /// Relaxed.
    fn sleeps(&self) -> bool;
    /// Sets it and says what it was; acquire and release.
    fn swap_sleeps(&self, sleeps: bool) -> bool;
    /// A full fence.
    fn fence(&self);
}

/// Rings: peer number `me` has something. Whatever that is was published before, and a full fence
/// is between. True if the rank sleeps and is to be woken by the caller.
#[must_use]
pub(crate) fn ring(mem: &impl BellMem, me: usize) -> bool {
    let (i, bit) = (me / 64, 1 << (me % 64));
    // A bit that is still there stands for this, too: whoever takes it looks afterwards.
    if mem.word(i) & bit != 0 {
        return false;
    }
    mem.set_bit(i, bit);
    mem.fence();
    mem.sleeps() && mem.swap_sleeps(false)
}

/// Returns true if a bit is set.
#[inline]
pub(crate) fn any(mem: &impl BellMem) -> bool {
    (0..mem.words()).any(|i| mem.word(i) != 0)
}

/// Takes the bits and calls `peer` for each.
#[cold]
#[inline(never)]
pub(crate) fn collect(mem: &impl BellMem, mut peer: impl FnMut(usize)) {
    for i in 0..mem.words() {
        if mem.word(i) == 0 {
            continue;
        }
        let mut bits = mem.take(i);
        // A bit that was found set already says that more was published, which is visible from here
        // on.
        mem.fence();
        while bits != 0 {
            peer(i * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// The rank is going to sleep. False if a bit is set: then it is not.
///
/// What the rank looks at without doorbells must be looked at after this.
#[must_use]
pub(crate) fn go_to_sleep(mem: &impl BellMem) -> bool {
    mem.swap_sleeps(true);
    mem.fence();
    if any(mem) {
        mem.swap_sleeps(false);
        return false;
    }
    true
}

/// The rank is awake. Somebody may have set out to wake it, and do so later.
pub(crate) fn wake_up(mem: &impl BellMem) {
    mem.swap_sleeps(false);
}
