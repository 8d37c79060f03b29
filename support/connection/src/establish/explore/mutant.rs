//! Machines with known mistakes, which exploration must catch.
//!
//! All of them hang on one hook, [`transition`]: it alters an event or the machine in front of the
//! real transition, or the actions behind it.

use netmod_core::Time;

use super::model::{Fail, Peer};
use crate::RejectReason;
use crate::establish::{Action, Event, Phase, Rules};

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Mutant {
    /// Both sides think that their own dial survives.
    BothInsist,
    /// Both sides think that the other one's dial survives.
    BothYield,
    /// The loser of crossing dials closes its dial without a word.
    SilentLoser,
    /// The loser accepts, and keeps its own dial.
    KeepOwnDial,
    /// The winner refuses, and gives its own dial up, too.
    RejectAndAbandon,
    /// The winner accepts, too.
    AcceptBoth,
    /// A responder takes its promise for a made connection.
    AdoptOnPromise,
    /// A promise survives the end of its dial.
    KeepPromise,
    /// A promise that has come to nothing is adopted when there is something to send.
    AdoptDead,
    /// A promise is taken back with GOODBYE, which is taken for an orderly end.
    GoodbyeForWithdrawn,
    /// A promise is taken back without a word.
    SilentWithdrawal,
    /// The READY of a promise that was taken back is not answered.
    LateReadyInSilence,
    /// ACCEPT is not answered.
    NoReady,
    /// A dial that was given up is taken for the peer's latest one.
    StaleDial,
    /// The number of the peer's last dial, in ACCEPT, is not kept.
    ForgetDials,
    /// The dials of a new incarnation are counted with those of the old one.
    OneIncarnation,
    /// HELLO is sent once.
    HelloOnce,
    /// ACCEPT is sent once.
    AcceptOnce,
    /// A peer that accepts a dial which was given up is not told so again.
    VoidInSilence,
    /// Nothing limits the wait for READY.
    EndlessPromise,
    /// Nothing limits the wait for ACCEPT.
    EndlessDial,
    /// A message that waits when the connection ends is forgotten.
    ForgetWishes,
    /// A dial begins while the process is being checkpointed.
    DialHeld,
    /// The next dial follows the failed one at once.
    RedialAtOnce,
    /// A dial that has failed before insists, too.
    InsistAlways,
}

impl Mutant {
    /// Mistakes that exploration finds. The others are matters of time, or of an owner that reads
    /// from a connection which it has closed: the tests of the machine find these.
    pub(in super::super) const EXPLORED: [Mutant; 22] = [
        Mutant::BothInsist,
        Mutant::BothYield,
        Mutant::SilentLoser,
        Mutant::KeepOwnDial,
        Mutant::RejectAndAbandon,
        Mutant::AcceptBoth,
        Mutant::AdoptOnPromise,
        Mutant::KeepPromise,
        Mutant::AdoptDead,
        Mutant::GoodbyeForWithdrawn,
        Mutant::SilentWithdrawal,
        Mutant::NoReady,
        Mutant::StaleDial,
        Mutant::ForgetDials,
        Mutant::OneIncarnation,
        Mutant::HelloOnce,
        Mutant::AcceptOnce,
        Mutant::VoidInSilence,
        Mutant::EndlessPromise,
        Mutant::EndlessDial,
        Mutant::ForgetWishes,
        Mutant::DialHeld,
    ];
}

/// The machine's transition, with a mistake in it.
pub(in super::super) fn transition(
    mutant: Option<Mutant>,
    m: &mut Peer,
    mut event: Event<u8, Fail>,
    now: Time,
    rules: &Rules,
) -> Vec<Action<u8>> {
    let Some(mutant) = mutant else { return m.on(event, now, rules).into_iter().collect() };
    let mut rules = *rules;
    match (mutant, &mut event) {
        (Mutant::BothInsist, _) => m.survives = true,
        (Mutant::BothYield, _) => m.survives = false,
        (Mutant::InsistAlways, Event::Incoming(_)) => m.attempts = 0,
        (Mutant::StaleDial, Event::Incoming(_)) => m.settled = 0,
        (Mutant::ForgetDials, Event::Accepted { dials, .. }) => *dials = 0,
        (Mutant::OneIncarnation, Event::Incoming(dial)) if m.peer != 0 => dial.incarnation = m.peer,
        (Mutant::KeepPromise | Mutant::AdoptDead, Event::Goodbye { .. } | Event::Failed { .. })
            if m.phase == Phase::Promised =>
        {
            return vec![];
        }
        (Mutant::AdoptDead, Event::Want) if m.phase == Phase::Promised => {
            event = m.conn.map_or(Event::Want, |conn| Event::Ready { conn });
        }
        (Mutant::ForgetWishes, Event::Ended) => m.wanted = false,
        (Mutant::DialHeld, _) => rules.held = false,
        _ => {}
    }
    let was = event.clone();
    let mut acts: Vec<_> = m.on(event, now, &rules).into_iter().collect();
    let accepts = acts.iter().any(|a| matches!(a, Action::Accept(_)));
    let late = matches!(was, Event::Accepted { .. } | Event::Ready { .. });
    for act in &mut acts {
        *act = match (mutant, *act) {
            (Mutant::SilentLoser, Action::Abandon(c)) if accepts => Action::Close(c),
            (Mutant::AcceptBoth, Action::Reject(c, RejectReason::Crossing)) => Action::Accept(c),
            (Mutant::GoodbyeForWithdrawn, Action::Withdraw(c)) => Action::Abandon(c),
            (Mutant::SilentWithdrawal, Action::Withdraw(c)) if !late => Action::Close(c),
            (Mutant::LateReadyInSilence, Action::Withdraw(c)) if late => Action::Close(c),
            (Mutant::VoidInSilence, Action::Abandon(c)) if late => Action::Close(c),
            (Mutant::NoReady, Action::Made { conn, .. }) => Action::Made { conn, dialed: false },
            (_, act) => act,
        };
    }
    acts.retain(|act| match (mutant, act) {
        (Mutant::KeepOwnDial, Action::Abandon(_)) => !accepts,
        (Mutant::HelloOnce, Action::Retransmit(_)) => m.phase != Phase::Dialing,
        (Mutant::AcceptOnce, Action::Retransmit(_)) => m.phase != Phase::Promised,
        _ => true,
    });
    match (mutant, acts.first()) {
        (Mutant::AdoptOnPromise, Some(Action::Accept(_) | Action::Abandon(_))) if accepts => {
            let conn = m.conn.expect("what was accepted");
            acts.extend(m.on(Event::Ready { conn }, now, &rules));
        }
        (Mutant::RejectAndAbandon, Some(Action::Reject(_, RejectReason::Crossing))) => {
            acts.extend(m.conn.take().map(Action::Close));
        }
        _ => {}
    }
    match (mutant, m.phase) {
        (Mutant::EndlessPromise, Phase::Promised) | (Mutant::EndlessDial, Phase::Dialing) => {
            m.timer = Time::NEVER;
        }
        (Mutant::RedialAtOnce, Phase::Backoff) => m.timer = now,
        _ => {}
    }
    acts
}
