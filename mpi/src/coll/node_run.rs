//! The part of a run in memory that the processes share: it posts, waits, sleeps and wakes.

use super::node_memory::{Awaited, NodeMemory, Place, Posted};
use super::schedule::Step;
use super::signature;
use super::wire::Wire;
use crate::error::{Class, MpiError, Result};

/// A receive whose message ends the sleep of this process.
#[derive(Clone, Copy, Debug)]
struct Nap<R> {
    req: R,
    awaited: Awaited,
    /// The message comes: whoever sends it has taken the note.
    is_noticed: bool,
}

/// The state of a run in shared memory.
#[derive(Debug)]
pub(super) struct NodeRun<R> {
    nap: Option<Nap<R>>,
    /// Ranks that are waited for no more, since they have failed or do something else.
    lost: Vec<usize>,
}

impl<R> Default for NodeRun<R> {
    fn default() -> NodeRun<R> {
        NodeRun { nap: None, lost: Vec::new() }
    }
}

/// The outcome of a step.
pub(super) enum Outcome {
    /// It waits.
    Blocked,
    /// It is done.
    Done,
    /// It is done, and the operation has failed.
    Failed(Box<MpiError>),
}

impl<R: Copy> NodeRun<R> {
    /// Returns true if no receive is under way.
    pub(super) fn is_awake(&self) -> bool {
        self.nap.is_none()
    }

    /// Forgets the processes that were lost.
    pub(super) fn restart(&mut self) {
        self.lost.clear();
    }

    /// Waits no more for what a process posts.
    pub(super) fn lose(&mut self, rank: usize) {
        self.lost.push(rank);
    }

    /// Makes a step that waits.
    #[inline]
    pub(super) fn wait<W: Wire<Req = R>>(
        &mut self,
        (node, place): (&NodeMemory, Place),
        step: Step,
        signature: u64,
        wire: &mut W,
    ) -> Outcome {
        let lane = place.lane;
        match step {
            Step::AwaitPost { rank, slot } => {
                let (rank, slot) = (rank as usize, place.slot(slot));
                let posted = node.soon_posted(lane, rank, slot, wire.shares_cores());
                let waited = if posted.is_some() && self.nap.is_none() && self.lost.is_empty() {
                    Outcome::Done
                } else {
                    self.wait_for(
                        node,
                        place,
                        Awaited::Post { rank, slot },
                        posted.is_some(),
                        signature,
                        wire,
                    )
                };
                match (waited, posted) {
                    (Outcome::Done, Some(posted)) => self.judge(rank, posted, signature),
                    (waited, _) => waited,
                }
            }
            Step::AwaitRoom { slot } => {
                match (node.awaited_release(lane, place.slot(slot)), self.nap) {
                    (None, None) => Outcome::Done,
                    // The note is taken back first.
                    (None, Some(nap)) => self.wait_for(node, place, nap.awaited, true, signature, wire),
                    (Some(awaited), _) => self.wait_for(node, place, awaited, false, signature, wire),
                }
            }
            _ => Outcome::Done,
        }
    }

    /// Compares what was posted with this process's operation.
    #[inline]
    fn judge(&mut self, rank: usize, posted: Posted, signature: u64) -> Outcome {
        if posted == (Posted { signature, failed: false, is_later: false }) || self.lost.contains(&rank) {
            return Outcome::Done;
        }
        self.lost.push(rank);
        Outcome::Failed(differs(rank, Some(posted), signature))
    }

    /// Waits for something that has happened or not. If the process sleeps next, it leaves a note.
    #[cold]
    #[inline(never)]
    fn wait_for<W: Wire<Req = R>>(
        &mut self,
        node: &NodeMemory,
        place: Place,
        awaited: Awaited,
        has_happened: bool,
        signature: u64,
        wire: &mut W,
    ) -> Outcome {
        let (lane, rank) = (place.lane, awaited.rank());
        if let Some(nap) = &mut self.nap {
            let over = wire.take(nap.req);
            if over.is_none() && (!node.has_happened(lane, nap.awaited) || nap.is_noticed) {
                return Outcome::Blocked;
            }
            if !nap.is_noticed && node.wake_up(lane) && over.is_none() {
                nap.is_noticed = true;
                return Outcome::Blocked;
            }
            let Nap { req, awaited, .. } = *nap;
            self.nap = None;
            match over {
                None => wire.withdraw(req),
                Some(Ok(_)) => {}
                Some(Err(e)) => {
                    self.lost.push(awaited.rank());
                    return Outcome::Failed(e);
                }
            }
        }
        if has_happened || self.lost.contains(&rank) {
            return Outcome::Done;
        }
        if let Some(e) = wire.given_up() {
            self.lost.push(rank);
            return Outcome::Failed(e);
        }
        if wire.is_going_to_sleep() {
            if let Awaited::Post { rank, slot } = awaited
                && node.is_past(lane, rank, slot)
                && !node.has_happened(lane, awaited)
            {
                self.lost.push(rank);
                return Outcome::Failed(differs(rank, None, signature));
            }
            match wire.await_wake(lane, rank as u32) {
                Ok(req) => self.nap = Some(Nap { req, awaited, is_noticed: false }),
                Err(e) => {
                    self.lost.push(rank);
                    return Outcome::Failed(e);
                }
            }
            if !node.go_to_sleep(lane, awaited) {
                wire.stay_awake();
            }
        }
        Outcome::Blocked
    }
}

/// Makes a step that others may wait for. Returns the messages that wake them.
#[inline]
pub(super) fn tell<W: Wire>(
    (node, place): (&NodeMemory, Place),
    step: Step,
    (signature, failed): (u64, bool),
    wire: &mut W,
) -> Vec<Result<W::Req>> {
    let (lane, mut woken) = (place.lane, Vec::new());
    let wake = |rank: usize| woken.push(wire.wake(lane, rank as u32));
    match step {
        Step::Post { slot } => {
            let slot = place.slot(slot);
            node.post(lane, slot, signature, failed);
            node.sleepers_for_post(lane, slot, wake);
        }
        Step::Release { slot } => {
            let slot = place.slot(slot);
            node.release(lane, slot);
            node.sleepers_for_release(lane, slot, wake);
        }
        _ => {}
    }
    woken
}

/// The error of a process that has posted something else, or nothing, and has gone on.
#[cold]
fn differs(rank: usize, posted: Option<Posted>, signature: u64) -> Box<MpiError> {
    let mine = signature::name(signature);
    let text = match posted {
        Some(Posted { signature: signature::LOST, is_later: false, .. }) => {
            let text = format!("{mine} has failed at rank {rank}, which has lost another process");
            return MpiError::new(Class::PROC_FAILED, text);
        }
        Some(Posted { signature: theirs, is_later: false, failed }) if theirs == signature => {
            debug_assert!(failed, "nothing differs");
            format!("{mine} has failed at rank {rank}, whose error says why")
        }
        Some(Posted { signature: theirs, is_later: false, .. }) => {
            let theirs = signature::name(theirs);
            format!(
                "rank {rank} has called {theirs} where this process has called {mine}: operation, root, count and \
                 datatype must agree"
            )
        }
        _ => format!(
            "rank {rank} has taken no part in {mine} and has gone on to another operation: all must call the same \
             ones in the same order, with the same root, count and datatype"
        ),
    };
    MpiError::new(Class::TRUNCATE, text)
}
