//! Links with known mistakes, which exploration must catch.
//!
//! All of them hang on one hook, [`Mutant::on`]: it alters an event or the link in front of the
//! real transition, or the actions behind it.

use netmod_connection::RejectReason;
use netmod_connection::establish::Event;
use netmod_core::Time;

use crate::link::machine::{ASLEEP, FRESH, Life, MUTUAL, PATIENT, PROVISIONAL, RESUMING, SHUTTING};
use crate::link::{ConnKey, DownCause, Failure, Link, LinkAction, LinkConfig, LinkEvent, Phase};

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mutant {
    /// The loser of crossing dials closes its dial without a word.
    SilentLoser,
    /// The loser promises before its own dial is resolved, and keeps that open.
    AcceptBeforeResolved,
    /// A responder takes its promise for an adoption.
    AdoptOnPromise,
    /// A promise survives the end of its connection.
    KeepPromise,
    /// After a REJECT because of finalize, the incoming connection is handled further.
    ContinueAfterReject,
    /// A promised connection that the peer gave up is adopted when there is something to send.
    AdoptDead,
    /// An end of file behind the own GOODBYE is read as the peer's death.
    PartingEofIsDeath,
    /// A promise is taken back with GOODBYE, which the initiator takes for an orderly end.
    GoodbyeForWithdrawn,
    /// Both sides think that the other one's dial survives.
    BothAccept,
    /// Both sides think that their own dial survives.
    BothReject,
    /// The winner refuses, and gives its own dial up too.
    RejectAndAbandon,
    /// The own dial survives, and the incoming one is accepted too.
    AcceptBoth,
    /// A responder forgets the session that it has promised when the connection is lost before
    /// READY.
    ForgetPromised,
    /// A session that was promised, and that the peer does not know, is insisted upon.
    InsistOnPromised,
    /// A session is refused as unknown while the ACCEPT that begins it may be under way.
    RefuseUnsure,
    /// A dial that was given up is taken for the peer's latest one.
    StaleDial,
    /// A responder does not say which of its dials it has given up.
    ForgetDials,
    /// A fresh dial is accepted though a session is to be resumed.
    FreshForLost,
    /// A lost connection takes the VC down though its session could go on.
    LostIsDown,
    /// A process that is being checkpointed dials.
    DialAsleep,
    /// A peer that is being checkpointed is taken for dead.
    DeadSleeper,
    /// A side that sleeps takes its promise back, and does not say why.
    MuteSleeper,
    /// Without a session, only the side that is to be checkpointed begins one.
    SleeperAlone,
    /// A process that has got the address of a checkpointed peer is taken for that peer.
    TakeTheFirst,
    /// The adopted connection is read on while another one is offered in its place.
    ReadWhileMoving,
    /// A connection that was offered is forgotten when the adopted one is lost or ends.
    ForgetMove,
    /// The greater side of two that move at once accepts, too, and keeps its offer.
    AcceptBothMoves,
    /// A connection is left for a better one before the peer is known to have adopted it.
    MoveUnheard,
}

/// The subject of a mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum About {
    /// Dials, crossing ones, promises and ends.
    Dials,
    /// Sessions that outlive a connection.
    Sessions,
    /// Sides that sleep.
    Checkpoints,
    /// Better ways.
    Moves,
}

impl Mutant {
    /// Returns what the mistake is about, which is where an exploration finds it soon.
    pub(super) fn is_about(self) -> About {
        match self {
            Mutant::ForgetPromised
            | Mutant::InsistOnPromised
            | Mutant::RefuseUnsure
            | Mutant::StaleDial
            | Mutant::ForgetDials
            | Mutant::FreshForLost
            | Mutant::LostIsDown => About::Sessions,
            Mutant::DialAsleep
            | Mutant::DeadSleeper
            | Mutant::MuteSleeper
            | Mutant::SleeperAlone
            | Mutant::TakeTheFirst => About::Checkpoints,
            Mutant::ReadWhileMoving | Mutant::ForgetMove | Mutant::AcceptBothMoves | Mutant::MoveUnheard => {
                About::Moves
            }
            _ => About::Dials,
        }
    }

    pub(super) const ALL: [Mutant; 28] = [
        Mutant::SilentLoser,
        Mutant::AcceptBeforeResolved,
        Mutant::AdoptOnPromise,
        Mutant::KeepPromise,
        Mutant::ContinueAfterReject,
        Mutant::AdoptDead,
        Mutant::PartingEofIsDeath,
        Mutant::GoodbyeForWithdrawn,
        Mutant::BothAccept,
        Mutant::BothReject,
        Mutant::RejectAndAbandon,
        Mutant::AcceptBoth,
        Mutant::ForgetPromised,
        Mutant::InsistOnPromised,
        Mutant::RefuseUnsure,
        Mutant::StaleDial,
        Mutant::ForgetDials,
        Mutant::FreshForLost,
        Mutant::LostIsDown,
        Mutant::DialAsleep,
        Mutant::DeadSleeper,
        Mutant::MuteSleeper,
        Mutant::SleeperAlone,
        Mutant::TakeTheFirst,
        Mutant::ReadWhileMoving,
        Mutant::ForgetMove,
        Mutant::AcceptBothMoves,
        Mutant::MoveUnheard,
    ];

    /// The link's transition, with the mistake in it.
    pub(super) fn on(
        self,
        link: &mut Link,
        mut event: LinkEvent,
        now: Time,
        cfg: &LinkConfig,
    ) -> Vec<LinkAction> {
        let before = link.clone();
        if !self.alter(link, &mut event) {
            return vec![];
        }
        let mut acts: Vec<_> = link.on(event, now, cfg).into_iter().collect();
        self.alter_actions(event, &before, &mut acts);
        self.go_on(&before, link, event, now, cfg, &mut acts);
        acts
    }

    /// Alters what is about to happen. Returns false if it does not.
    fn alter(self, link: &mut Link, event: &mut LinkEvent) -> bool {
        let promised = link.phase() == Phase::Promised;
        match (self, &mut *event) {
            (Mutant::KeepPromise | Mutant::AdoptDead, LinkEvent::Goodbye { .. } | LinkEvent::Lost { .. })
                if promised =>
            {
                return false;
            }
            (Mutant::AdoptDead, LinkEvent::WantSend) if promised => {
                let conn = link.conn().unwrap_or(ConnKey::NONE);
                *event = LinkEvent::Ready { conn };
            }
            (Mutant::PartingEofIsDeath, LinkEvent::Lost { .. }) if link.life == Life::Parting => {
                (link.life, link.session) = (Life::Up, 0);
            }
            (Mutant::InsistOnPromised, LinkEvent::Rejected { reason: RejectReason::NoSession, .. }) => {
                link.flags &= !PROVISIONAL;
            }
            (Mutant::TakeTheFirst, LinkEvent::Rejected { reason, .. }) if link.is_elsewhere(*reason) => {
                link.flags &= !PATIENT;
            }
            (Mutant::StaleDial, LinkEvent::Incoming { params, .. }) => params.dial = u64::MAX,
            (Mutant::ForgetDials, LinkEvent::Accepted { dials, .. }) => *dials = 0,
            (Mutant::FreshForLost, LinkEvent::Incoming { params, .. }) if params.session == 0 => {
                link.flags &= !RESUMING;
            }
            (Mutant::LostIsDown, LinkEvent::Lost { .. }) if link.life == Life::Up => link.session = 0,
            (Mutant::SleeperAlone, LinkEvent::BeginSession { .. }) if !link.has(ASLEEP) => return false,
            (Mutant::DialAsleep, LinkEvent::WantSend | LinkEvent::Goodbye { .. }) => link.flags &= !ASLEEP,
            (Mutant::AcceptBothMoves, LinkEvent::Incoming { .. }) if link.life == Life::Up => {
                link.next = ConnKey::NONE;
            }
            _ => {}
        }
        true
    }

    /// Alters what is done.
    fn alter_actions(self, event: LinkEvent, before: &Link, acts: &mut Vec<LinkAction>) {
        let accepts = acts.iter().any(|a| matches!(a, LinkAction::SendAccept(_)));
        let unsure = matches!(event, LinkEvent::Incoming { params, .. } if params.session != 0);
        for act in &mut *acts {
            *act = match (self, *act) {
                (Mutant::SilentLoser, LinkAction::Abandon(c)) if accepts => LinkAction::Close(c),
                (Mutant::GoodbyeForWithdrawn, LinkAction::Withdraw(c)) if event == LinkEvent::Timer => {
                    LinkAction::Abandon(c)
                }
                (Mutant::AcceptBoth, LinkAction::SendReject(c, RejectReason::Crossing)) => {
                    LinkAction::SendAccept(c)
                }
                (Mutant::RefuseUnsure, LinkAction::SendReject(c, RejectReason::Crossing))
                    if unsure && before.session == 0 =>
                {
                    LinkAction::SendReject(c, RejectReason::NoSession)
                }
                (Mutant::DeadSleeper, LinkAction::Suspend(Failure::Checkpoint)) => {
                    LinkAction::Down(DownCause::Lost(Failure::Checkpoint))
                }
                (_, act) => act,
            };
        }
        acts.retain(|act| match (self, *act) {
            (Mutant::AcceptBeforeResolved, LinkAction::Abandon(_)) => !accepts,
            (Mutant::ForgetMove, LinkAction::Abandon(c)) => c != before.next,
            _ => true,
        });
    }

    /// Does more than what is right.
    fn go_on(
        self,
        before: &Link,
        link: &mut Link,
        event: LinkEvent,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Vec<LinkAction>,
    ) {
        let did = acts.clone();
        let accepted = did.iter().find_map(|a| match a {
            LinkAction::SendAccept(c) => Some(*c),
            _ => None,
        });
        let rejected = |why| did.iter().any(|a| matches!(a, LinkAction::SendReject(_, r) if *r == why));
        let failed = |phase| {
            before.phase() == Phase::Promised
                && matches!(phase, Phase::Idle | Phase::Dialing | Phase::Backoff)
        };
        match self {
            Mutant::AdoptOnPromise => {
                if let Some(conn) = accepted {
                    acts.extend(link.on(LinkEvent::Ready { conn }, now, cfg));
                }
            }
            Mutant::ContinueAfterReject if rejected(RejectReason::Finalized) => {
                (link.life, link.flags) = (Life::Making, link.flags & !SHUTTING);
                acts.extend(link.on(event, now, cfg));
            }
            Mutant::RejectAndAbandon if rejected(RejectReason::Crossing) => {
                if let Some(conn) = link.conn() {
                    acts.push(LinkAction::Close(conn));
                    let (failure, permanent) = (Failure::Eof, false);
                    acts.extend(link.on(LinkEvent::DialFailed { conn, failure, permanent }, now, cfg));
                }
            }
            Mutant::ForgetPromised if failed(link.phase()) => {
                link.session = 0;
                link.flags &= !(PROVISIONAL | FRESH);
            }
            Mutant::DialAsleep => link.flags |= before.flags & ASLEEP,
            Mutant::MoveUnheard => link.flags |= MUTUAL,
            Mutant::DeadSleeper if did.iter().any(|a| matches!(a, LinkAction::Down(_))) => {
                let _ = link.on(LinkEvent::Abort, now, cfg);
            }
            Mutant::MuteSleeper if event == LinkEvent::Sleep && link.phase() == Phase::Promised => {
                acts.extend(link.conn().map(LinkAction::Withdraw));
                let mut more = crate::link::Actions::none();
                link.establish(Event::Forget, now, cfg, &mut more);
                link.establish(Event::Wait, now, cfg, &mut more);
                acts.extend(more);
            }
            Mutant::AcceptBothMoves if accepted.is_some() => link.next = before.next,
            _ => {}
        }
    }
}
