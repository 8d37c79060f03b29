//! Connections with known mistakes, which exploration must catch.
//!
//! All of them hang on one hook around each call of the machine: [`Mutant::before`] alters what is
//! called, [`Mutant::after`] what has come of it. Mistakes of the machine by which a connection
//! comes about are explored where that machine is; here are those that a netmod can make with it.

use netmod_connection::RejectReason;
use netmod_core::PeerName;

use super::frame::Frame;
use super::model::Side;
use crate::conn::link::Life;
use crate::conn::machine::Step;
use crate::conn::{Action, Env};
use crate::wire::Kind;

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mutant {
    /// Both sides think that their own dial survives.
    BothInsist,
    /// Both sides think that the other one's dial survives.
    BothYield,
    /// A side that gives its dial up does not say so.
    SilentLoser,
    /// The winner of crossing dials accepts, too.
    AcceptBoth,
    /// A responder takes its promise for an open connection.
    AdoptOnPromise,
    /// A promise survives the dial that it was given to.
    KeepPromise,
    /// A promise is taken back without a word.
    SilentWithdrawal,
    /// ACCEPT is not answered.
    NoReady,
    /// A dial that was given up is taken for the peer's latest one.
    StaleDial,
    /// The number of the last dial is not said in ACCEPT.
    ForgetDials,
    /// A peer that dials anew is not given the time to end its old connection.
    Impatient,
    /// A connection that is made while its end is wished for is ended though messages wait.
    ForgetWishes,
    /// A slot is not freed.
    KeepSlot,
    /// FIN is not answered.
    NoAck,
    /// FIN is not answered by a side that has said FIN itself.
    NoAckWhileParting,
    /// A VC fails, and its peer is not told.
    SilentAbort,
    /// ACCEPT is sent once, and may be late.
    AcceptOnce,
    /// A peer that accepts a dial which was given up is not told so again.
    VoidInSilence,
    /// A frame behind a READY that was lost is dropped in silence.
    IgnoreStray,
}

impl Mutant {
    pub(super) const ALL: [Mutant; 19] = [
        Mutant::BothInsist,
        Mutant::BothYield,
        Mutant::SilentLoser,
        Mutant::AcceptBoth,
        Mutant::AdoptOnPromise,
        Mutant::KeepPromise,
        Mutant::SilentWithdrawal,
        Mutant::NoReady,
        Mutant::StaleDial,
        Mutant::ForgetDials,
        Mutant::Impatient,
        Mutant::ForgetWishes,
        Mutant::KeepSlot,
        Mutant::NoAck,
        Mutant::NoAckWhileParting,
        Mutant::SilentAbort,
        Mutant::AcceptOnce,
        Mutant::VoidInSilence,
        Mutant::IgnoreStray,
    ];

    /// Alters the name by which a side believes to be known.
    pub(super) fn name(self, name: PeerName) -> PeerName {
        match self {
            Mutant::BothInsist => PeerName { rank: 9, ..name },
            Mutant::BothYield => PeerName { group: netmod_core::GroupId([0; 16]), ..name },
            _ => name,
        }
    }

    /// Alters a frame that a side is about to handle.
    pub(super) fn frame(self, frame: Frame) -> Frame {
        match (self, frame) {
            (Mutant::StaleDial, Frame::Dial { slot, incarnation, .. }) => {
                Frame::Dial { slot, dial: u64::MAX, incarnation }
            }
            (Mutant::ForgetDials, Frame::Accept { slot, own, incarnation, .. }) => {
                Frame::Accept { slot, own, incarnation, dials: 0 }
            }
            (_, frame) => frame,
        }
    }

    /// Returns false if the machine is not to be told `what`.
    pub(super) fn before(self, what: &'static str, side: &Side) -> bool {
        match self {
            Mutant::KeepPromise => what != "GOODBYE" || side.phase() != crate::conn::link::Phase::Promised,
            Mutant::VoidInSilence => what != "late ACCEPT",
            Mutant::IgnoreStray => what != "stray",
            _ => true,
        }
    }

    /// Alters what the machine asks for when it was told `what`, and goes on with it.
    pub(super) fn after(self, what: &'static str, before: (Life, usize), side: &mut Side, env: &mut Env<'_>) {
        let Some(vc) = side.vc else { return };
        let link = side.machine.links.get(vc);
        let (terminating, waits) = link.map_or((false, false), |l| (l.terminating, l.waiting.is_some()));
        let up = link.is_some_and(|l| l.life == Life::Up);
        let m = &mut side.machine;
        let is_control =
            |step: &Step, of: Kind| matches!(step, Step::Do(Action::Control { kind, .. }) if *kind == of);
        match self {
            Mutant::SilentLoser => {
                m.steps.retain(|s| what == "late ACCEPT" || !matches!(s, Step::Goodbye { .. }))
            }
            Mutant::NoReady => m.steps.retain(|s| !matches!(s, Step::Ready { .. })),
            Mutant::AcceptOnce => {
                m.steps.retain(|s| what == "again" || !matches!(s, Step::RetransmitAccept { .. }))
            }
            Mutant::SilentWithdrawal if before.0 == Life::Making => {
                m.steps.retain(|s| !is_control(s, Kind::Reset));
            }
            Mutant::SilentAbort if what == "abort" => m.steps.retain(|s| !is_control(s, Kind::Reset)),
            Mutant::NoAck if what == "settle" => m.steps.retain(|s| !is_control(s, Kind::FinAck)),
            Mutant::NoAckWhileParting if before.0 == Life::Parting => {
                m.steps.retain(|s| !is_control(s, Kind::FinAck));
            }
            Mutant::AcceptBoth => {
                let refused = m
                    .steps
                    .iter()
                    .position(|s| matches!(s, Step::Reject { reason: RejectReason::Crossing, .. }));
                if let (Some(at), Some(&Step::Reject { inbound, slot, .. })) =
                    (refused, refused.and_then(|at| m.steps.get(at)))
                {
                    let (terms, dials) = (super::frame::terms(0), m.dials);
                    // The address is kept, so that the answer can be sent.
                    m.steps[at] = Step::Accept { inbound, slot, terms, dials };
                }
            }
            Mutant::AdoptOnPromise => {
                let accepted = m.steps.iter().find_map(|s| match s {
                    Step::Accept { inbound, .. } => Some(*inbound),
                    _ => None,
                });
                if let Some(id) = accepted {
                    m.ready(id, env);
                }
            }
            Mutant::Impatient if up && waits => m.superseded(vc, ""),
            Mutant::ForgetWishes if up && terminating => m.part(vc, env),
            Mutant::KeepSlot if m.slots.len() < before.1 => drop(m.slots.take(vc, 77)),
            _ => {}
        }
    }
}
