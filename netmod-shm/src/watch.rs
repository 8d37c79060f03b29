//! The choice of rings that are polled, doorbells, sleep, and liveness of peers.

use std::time::Duration;

use netmod_core::{Arm, Core, Event, Time, VcError, VcErrorKind, VcId};

use crate::bell;
use crate::channel::{Peer, Wake};
use crate::helper::Helper;
use crate::netmod::{CHECK, ShmNetmod};
use crate::ring::TokenLine;
use crate::segment::Segment;
use crate::sys::{self, Waker};

/// Most rings that are looked at in each poll.
const MOST: usize = 8;
/// Longest sleep of a rank that nobody can wake.
const NAP: Duration = Duration::from_millis(1);

impl ShmNetmod {
    /// Tells the rank of a slot to look at this one, and wakes it if it sleeps.
    #[inline(never)]
    pub(crate) fn ring_bell(&mut self, slot: usize) {
        let Ok(segment) = &self.segment else { return };
        self.stats.rings += 1;
        let theirs = segment.slot(slot);
        // One that is away need not be found: it looks at all when it is back.
        if let Wake::Unknown = self.channels[slot].wake
            && !segment.is_away(slot)
        {
            self.channels[slot].wake = find_waker(segment, slot);
        }
        if bell::ring(theirs, segment.me()) {
            self.stats.wakes += 1;
            match &self.channels[slot].wake {
                Wake::By(waker) => waker.wake(),
                _ => sys::wake_waiters(segment.sleep_word(slot).word()),
            }
        }
    }

    /// Makes this rank look at a slot.
    pub(crate) fn look_at(&mut self, slot: usize) {
        if let Some(bells) = &self.wakeup.bells {
            // Nobody need wake this rank: it is awake.
            let _ = bell::ring(bells, slot);
        }
    }

    /// Handles the peers that have rung.
    #[inline]
    pub(crate) fn answer_bells(&mut self, core: &mut Core) {
        if self.wakeup.bells.as_ref().is_some_and(bell::any) {
            self.answer(core);
        }
    }

    #[cold]
    #[inline(never)]
    fn answer(&mut self, core: &mut Core) {
        let Ok(segment) = &self.segment else { return };
        let (me, n) = (segment.me(), segment.ranks());
        let Some(bells) = &self.wakeup.bells else { return };
        let mut bits = [0u64; 8];
        bell::collect(bells, |slot| {
            if slot < n && slot != me {
                bits[slot / 64] |= 1 << (slot % 64);
            }
        });
        for (i, mut word) in bits.into_iter().enumerate() {
            while word != 0 {
                let slot = i * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                if self.segment.as_ref().is_ok_and(|s| s.has_left(slot)) {
                    self.channels[slot].peer.end();
                }
                self.find_ring(core, slot);
                self.watch(slot);
                self.look_for_return(core, slot);
                self.say_notes(core, slot);
                // There may be room now.
                if let Some(vc) = self.channels[slot].vc {
                    self.pump(core, vc);
                } else if let Err(broken) = self.channels[slot].settle_owed() {
                    self.broken(core, slot, broken);
                }
            }
        }
    }

    /// Adds a slot's ring to those that each poll looks at.
    fn watch(&mut self, slot: usize) {
        self.channels[slot].idle = 0;
        if let Some(rx) = &self.channels[slot].rx {
            rx.watch();
        }
        if std::mem::replace(&mut self.channels[slot].watched, true) {
            return;
        }
        self.watch.lately.remove(slot);
        if self.watch.active.len() >= MOST {
            let idlest =
                (0..self.watch.active.len()).max_by_key(|i| self.channels[self.watch.active[*i]].idle);
            if let Some(i) = idlest {
                self.unwatch(i);
            }
        }
        self.watch.active.push(slot);
    }

    /// Stops to look at the `i`-th watched ring, unless something is there.
    fn unwatch(&mut self, i: usize) {
        let slot = self.watch.active.swap_remove(i);
        let channel = &mut self.channels[slot];
        channel.watched = false;
        if channel.rx.as_ref().is_some_and(|rx| rx.unwatch(&channel.token_line)) {
            return self.look_at(slot);
        }
        self.watch.lately.add(slot, self.clock.now);
    }

    /// Looks a second time at rings that are not watched any more: see *Doorbells* in
    /// [`crate::ring`].
    #[cold]
    #[inline(never)]
    pub(crate) fn look_again(&mut self) {
        while let Some(slot) = self.watch.lately.take() {
            let channel = &self.channels[slot];
            if channel.rx.as_ref().is_some_and(|rx| rx.has_something(&channel.token_line)) {
                self.look_at(slot);
            }
        }
        self.watch.lately.turn(self.clock.now);
    }

    /// Stops reading a ring whose producer has violated the protocol.
    pub(crate) fn abandon(&mut self, slot: usize) {
        if let Some(i) = self.watch.active.iter().position(|s| *s == slot) {
            self.watch.active.swap_remove(i);
        }
        self.watch.lately.remove(slot);
        let channel = &mut self.channels[slot];
        channel.watched = false;
        channel.peer = Peer::Condemned;
        channel.rx = None;
        channel.token_line = TokenLine::none();
    }

    /// Stops to look at the ring of a slot, unless something is there.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(i) = self.watch.active.iter().position(|s| *s == slot) {
            self.unwatch(i);
        }
    }

    /// Prepares for sleep: whatever happens from now on is rung for.
    #[cold]
    pub(crate) fn go_to_sleep(&mut self, core: &mut Core) -> Arm {
        self.push_out(core);
        if !self.pending.is_empty() || self.has_transfers_to_do() {
            return Arm::Busy;
        }
        while !self.watch.active.is_empty() {
            self.unwatch(0);
        }
        // They come back with the bell that says that there is room.
        while let Some(vc) = self.out.queued.take() {
            let Some(slot) = self.vcs.get(vc).and_then(|l| l.slot) else { continue };
            match self.channels[slot].tx.as_mut().map(|tx| tx.want_space()) {
                Some(Ok(true)) => {}
                // There is room by now, or it is not the ring that it waits for.
                _ => self.look_at(slot),
            }
        }
        let Some(bells) = &self.wakeup.bells else { return Arm::Armed };
        if !bell::go_to_sleep(bells) {
            return Arm::Busy;
        }
        self.wakeup.armed = true;
        if self.segment.as_ref().is_ok_and(Segment::is_unwakeable) {
            self.ask_helper();
        }
        Arm::Armed
    }

    /// Lets a thread wait for peers that cannot find this rank's pipe.
    fn ask_helper(&mut self) {
        let (Ok(segment), Some(pipe)) = (&self.segment, &self.wakeup.pipe) else { return };
        if self.wakeup.helper.is_none() {
            let started = pipe.waker().and_then(|pipe| Helper::start(segment.sleep_word(segment.me()), pipe));
            self.wakeup.helper = started
                .inspect_err(
                    |e| tracing::warn!(%e, "no thread to be woken by: this rank looks every millisecond"),
                )
                .ok();
        }
        if let Some(helper) = &self.wakeup.helper {
            helper.arm();
        }
    }

    #[cold]
    pub(crate) fn disarm(&mut self) {
        self.wakeup.armed = false;
        if let (Some(bells), Some(pipe)) = (&self.wakeup.bells, &mut self.wakeup.pipe) {
            bell::wake_up(bells);
            // Also the byte of one who was slow to wake this rank last time.
            pipe.drain();
        }
    }

    /// Returns the time until which this rank may sleep because there are peers that cannot wake
    /// it, and no thread that could.
    pub(crate) fn nap_end(&self) -> Time {
        match &self.segment {
            Ok(s) if self.wakeup.armed && self.wakeup.helper.is_none() && s.is_unwakeable() => {
                self.clock.now + NAP
            }
            _ => Time::NEVER,
        }
    }

    /// Asks the kernel whether the peer of a VC lives that has no stream yet. What one that has
    /// ended had written is read first: the VC fails at the next call.
    #[cold]
    pub(crate) fn ask_after(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.vcs.get_mut(vc).filter(|l| !l.up && l.down.is_none() && l.queue.is_empty()) else {
            return;
        };
        let Some(slot) = l.slot else {
            if !std::mem::replace(&mut l.asked, true) {
                self.pending.push_back(Event::NeedCard { vc });
            }
            return;
        };
        let peer = l.peer;
        let ended = self.segment.as_ref().is_ok_and(|s| s.has_left(slot) || !s.lives(slot));
        if !ended {
            return;
        }
        if !self.channels[slot].peer.end() {
            let text = "the process has ended; has it failed?";
            return self.fail(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), text));
        }
        self.look_at(slot);
    }

    /// Asks the kernel whether the peers live with whom something is under way.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_peers(&mut self, core: &mut Core) {
        self.clock.next_check = Time::NEVER;
        for slot in 0..self.channels.len() {
            let Ok(segment) = &self.segment else { return };
            let channel = &self.channels[slot];
            let concerned =
                channel.vc.and_then(|vc| self.vcs.get(vc)).is_some_and(|l| l.up || !l.queue.is_empty());
            if !concerned || channel.peer.is_gone() {
                continue;
            }
            if channel.absence.pause.is_away() {
                if self.clock.now >= channel.absence.until {
                    self.give_up(core, slot);
                } else {
                    self.clock.next_check = self.clock.now + CHECK;
                }
                continue;
            }
            self.clock.next_check = self.clock.now + CHECK;
            if segment.has_left(slot) || !segment.lives(slot) {
                self.channels[slot].peer.end();
                // Messages that it has written are read first.
                if let Some(bells) = &self.wakeup.bells {
                    let _ = bell::ring(bells, slot);
                }
            }
        }
    }
}

fn find_waker(segment: &Segment, slot: usize) -> Wake {
    match Waker::open(&segment.pipe(slot)) {
        Ok(waker) => Wake::By(waker),
        Err(e) => {
            tracing::debug!(slot, %e, "a peer's pipe is not found: it is woken by a thread of its own");
            segment.set_unwakeable(slot);
            Wake::Cannot
        }
    }
}
