//! Moves to a connection by a better route, while the present one is whole.
//!
//! The session goes on, as after a loss, but the old connection is in use until the peer has
//! accepted the new one. If the peer does not accept it, nothing has happened. For the peer the new
//! connection is like one after a loss that only this side has noticed. Where both sides move at
//! once, the connection of the greater name survives, as with dials that cross.
//!
//! A connection can be left only once it is known to be the peer's, too: a peer that has not
//! adopted any connection of the session tells nobody when it is checkpointed.

use netmod_connection::establish::Event;
use netmod_core::Time;

use super::machine::{ASLEEP, Life, MUTUAL, PATIENT, PEER_LEFT, SHUTTING, TERMINATING};
use super::{Actions, ConnKey, Failure, Link, LinkAction, LinkConfig, LinkEvent};

impl Link {
    /// Returns true if the adopted connection may be given up for another one.
    pub fn can_move(&self) -> bool {
        self.life == Life::Up
            && self.session != 0
            && self.next == ConnKey::NONE
            && !self.has(TERMINATING | SHUTTING | PEER_LEFT | PATIENT | ASLEEP)
            && self.has(MUTUAL)
    }

    /// The connection that has been offered in place of the adopted one.
    pub fn moving(&self) -> Option<ConnKey> {
        (self.next != ConnKey::NONE).then_some(self.next)
    }

    /// There is a connection by a better way.
    pub(super) fn moving_to(&mut self, conn: ConnKey, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if !self.can_move() {
            acts.push(LinkAction::Close(conn));
            return;
        }
        self.next = conn;
        self.timer = now + cfg.move_timeout;
        acts.push(LinkAction::Offer(conn));
    }

    /// Handles what concerns an offer that is open. Returns true if nothing else is to be done
    /// about the event.
    pub(super) fn on_while_moving(
        &mut self,
        event: LinkEvent,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) -> bool {
        if self.next == ConnKey::NONE {
            return false;
        }
        match event {
            LinkEvent::DialFailed { conn, .. } if conn == self.next => self.stay(),
            LinkEvent::Rejected { conn, .. } if conn == self.next => {
                acts.push(LinkAction::Close(conn));
                self.stay();
            }
            LinkEvent::Accepted { conn, session, incarnation, dials } if conn == self.next => {
                if session == self.session {
                    self.move_on(incarnation, dials, now, cfg, acts);
                } else {
                    self.end_move(acts);
                }
            }
            LinkEvent::Timer => {
                if now >= self.timer {
                    self.end_move(acts);
                }
            }
            LinkEvent::Lost { conn, failure }
                if Some(conn) == self.conn() && failure != Failure::Protocol =>
            {
                self.dial_by_offer(failure, now, cfg, acts);
            }
            LinkEvent::Lost { conn, .. } | LinkEvent::Goodbye { conn, .. } if Some(conn) == self.conn() => {
                self.end_move(acts);
                return false;
            }
            LinkEvent::Terminate { .. }
            | LinkEvent::Shutdown { .. }
            | LinkEvent::Sleep
            | LinkEvent::SleepNow
            | LinkEvent::PeerSleeps
            | LinkEvent::Abort => {
                self.end_move(acts);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// The peer has accepted the new connection, and has closed the old one.
    fn move_on(&mut self, incarnation: u64, dials: u64, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        let conn = self.next;
        if let Some(old) = self.conn() {
            acts.push(LinkAction::Close(old));
        }
        self.dial_by_offer(Failure::Moved, now, cfg, acts);
        self.establish(Event::Accepted { conn, incarnation, dials }, now, cfg, acts);
    }

    /// The adopted connection is no more: the offer is the dial that resumes the session. Where it
    /// was lost, the peer has often just accepted the offer.
    fn dial_by_offer(&mut self, failure: Failure, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        let conn = self.next;
        self.stay();
        self.suspend(failure, now, cfg, acts);
        // The dial that is asked for has been made.
        self.establish(Event::Want, now, cfg, &mut Actions::none());
        self.establish(Event::Dialing { conn }, now, cfg, acts);
    }

    /// The connection that was offered is gone, or is the adopted one.
    fn stay(&mut self) {
        self.next = ConnKey::NONE;
        self.timer = Time::NEVER;
    }

    /// Gives up the connection that was offered, if there is one.
    pub(super) fn end_move(&mut self, acts: &mut Actions) {
        if self.next != ConnKey::NONE {
            acts.push(LinkAction::Abandon(self.next));
            self.stay();
        }
    }
}
