//! Connections go over to a better pair of interfaces when there is one again.
//!
//! The new connection is made beside the old one, which is used until the peer has accepted the new
//! one ([`crate::link`]). If the better pair does not lead to the peer, nothing has happened.
//!
//! An interface that flaps does not move connections back and forth: it must have been up for a while,
//! longer after each time that it went down ([`crate::own::Own::steady_at`]), and attempts of one VC
//! follow each other more and more slowly, whether they succeed or not.

use std::time::Duration;

use netmod_core::{Core, Time, VcId};

use crate::conn::{self, Conn, ConnId, Stage};
use crate::dial::CONNECT;
use crate::link::{Failure, LinkEvent};
use crate::netmod::TcpNetmod;
use crate::own::HOLD;
use crate::sys::Interest;

/// Attempts with doubled pauses.
const TRIES: u8 = 7;
/// Pause between later attempts. After so long without one, earlier attempts do not count.
const SELDOM: Duration = Duration::from_secs(300);

/// Time after the lapse of an offer in which the end of the connection may be the peer's answer to
/// it, which crossed the end of the offer on the way.
const CROSSING: Duration = Duration::from_secs(1);

/// A VC's way to a better pair of interfaces.
#[derive(Debug)]
pub(crate) struct Move {
    /// When the next attempt is due, or `NEVER`.
    at: Time,
    /// Attempts since there was news of the interfaces, or success.
    tries: u8,
    /// Times that the connection went over to a better pair, whoever of the two began it.
    moves: u8,
    /// When the last attempt or move was.
    last: Time,
    /// The connection that is not read while the new one is offered.
    frozen: Option<ConnId>,
    /// Time when the peer had last not answered an offer in time; `NEVER` if it always has.
    lapsed: Time,
}

impl Move {
    fn new(now: Time) -> Move {
        Move { at: Time::NEVER, tries: 0, moves: 0, last: now, frozen: None, lapsed: Time::NEVER }
    }

    /// After a long time without an attempt earlier ones do not count.
    fn forget(&mut self, now: Time) {
        if now.since(self.last) > SELDOM {
            (self.tries, self.moves) = (0, 0);
        }
    }

    /// Returns the pause before the next attempt.
    fn pause(&self) -> Duration {
        let before = self.tries.max(self.moves);
        if before < TRIES { HOLD * (1 << before) } else { SELDOM }
    }

    /// An attempt begins.
    fn tried(&mut self, now: Time) {
        self.at = Time::NEVER;
        self.tries = (self.tries + 1).min(TRIES);
        self.last = now;
    }

    /// The connection has gone over to a better pair.
    fn moved(&mut self, now: Time) {
        self.forget(now);
        self.tries = 0;
        self.moves = (self.moves + 1).min(TRIES);
        self.last = now;
    }
}

impl TcpNetmod {
    /// Plans to go over to a better pair of interfaces, if there is one. `risen`: an interface has
    /// come up.
    pub(crate) fn consider_moving(&mut self, vc: VcId, risen: bool) {
        let now = self.now;
        let Some(v) = self.vcs.get_mut(vc) else { return };
        let pair = v.link.up().and_then(|c| self.conns.get(conn::id(c))).map(|c| c.pair);
        let better = pair
            .filter(|p| *p != (0, 0) && v.session != 0)
            .and_then(|p| v.ways.as_ref()?.paired.better_than(p)?.pair());
        let Some((mine, _)) = better else {
            if let Some(going) = &mut v.going {
                going.at = Time::NEVER;
            }
            return;
        };
        let going = v.going.get_or_insert_with(|| Box::new(Move::new(now)));
        going.forget(now);
        if risen {
            going.tries = 0;
        }
        if going.frozen.is_some() {
            return;
        }
        going.at = (now + going.pause()).max(self.own.steady_at(mine));
        self.next_timer = self.next_timer.min(going.at);
        if !self.movers.contains(&vc) {
            self.movers.push(vc);
        }
    }

    /// An attempt has come to nothing, or could not be made.
    pub(crate) fn move_failed(&mut self, vc: VcId) {
        self.consider_moving(vc, false);
    }

    /// Begins the attempts that are due.
    pub(crate) fn move_timers(&mut self, core: &mut Core, now: Time) {
        let mut i = 0;
        while let Some(&vc) = self.movers.get(i) {
            match self.vcs.get_mut(vc).and_then(|v| v.going.as_deref_mut()).filter(|g| g.at != Time::NEVER) {
                Some(going) if going.at > now => {
                    self.next_timer = self.next_timer.min(going.at);
                    i += 1;
                }
                Some(going) => {
                    going.tried(now);
                    self.movers.swap_remove(i);
                    match self.try_to_move(core, vc) {
                        Ok(true) => {}
                        Ok(false) => self.move_failed(vc),
                        Err(e) => {
                            tracing::debug!(%e, "a connection by a better pair of interfaces");
                            self.move_failed(vc);
                        }
                    }
                }
                None => drop(self.movers.swap_remove(i)),
            }
        }
    }

    /// Begins a connection by the best way. Returns false if the present one cannot be left now.
    ///
    /// # Errors
    /// If no connection can be begun that way.
    fn try_to_move(&mut self, core: &mut Core, vc: VcId) -> std::io::Result<bool> {
        let heard = self.vcs.get(vc).is_some_and(|v| {
            v.link.up().and_then(|c| self.conns.get(conn::id(c))).is_some_and(|c| c.rx != v.rx)
        });
        if heard {
            self.link_event(core, vc, LinkEvent::Heard);
        }
        let Some(v) = self.vcs.get(vc).filter(|v| v.link.can_move()) else { return Ok(false) };
        let pair = v.link.conn().and_then(|c| self.conns.get(conn::id(c))).map(|c| c.pair);
        let (Some(ways), Some(pair)) = (&v.ways, pair) else { return Ok(false) };
        let Some(way) = ways.paired.better_than(pair) else { return Ok(false) };
        let socket = self.connect(way, ways.port)?;
        self.stats.dialled += 1;
        let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
        conn.dial = self.stats.dialled;
        conn.pair = way.pair().unwrap_or_default();
        conn.moves = true;
        let id = self.enroll(conn, Interest::BOTH)?;
        let until = self.now + CONNECT;
        self.connecting.push_back((until, id));
        self.next_timer = self.next_timer.min(until);
        Ok(true)
    }

    /// Takes note that a session goes on by another pair of interfaces, and why.
    pub(crate) fn note_route(&mut self, vc: VcId, id: ConnId, failure: Failure) {
        let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get(id)) else { return };
        self.stats.moved += u64::from(c.moves);
        let (from, to) = (v.route.pair, c.pair);
        if from == to || from == (0, 0) || to == (0, 0) {
            return;
        }
        let weight = |pair| v.ways.as_ref().and_then(|w| w.paired.weight(pair));
        if c.moves || weight(from) < weight(to) {
            v.going.get_or_insert_with(|| Box::new(Move::new(self.now))).moved(self.now);
        }
        let why = if c.moves { Failure::Moved } else { failure };
        let name = |pair: (u32, u32)| self.own.name_of(pair.0).unwrap_or("an interface that has gone");
        let mut text = format!("last went from {} to {}: {why}", name(from), name(to));
        let speed = |pair| v.ways.as_ref().and_then(|w| w.paired.weight(pair)).map(|w| w.speed);
        if let (Some(before), Some(now)) = (speed(from), speed(to))
            && before != now
        {
            text += &format!(" ({now} Mb/s instead of {before})");
        }
        tracing::info!(peer = v.peer.rank, "the connection {text}");
        v.route.change = Some(text.into());
    }

    /// TCP has connected by the better way.
    pub(crate) fn moving(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let old = self.vcs.get(vc).and_then(|v| v.link.up()).map(conn::id);
        // What was read of it and not handed on yet does not count as read.
        if old.is_none_or(|old| self.unread.contains(&old)) {
            self.close(id);
            return self.move_failed(vc);
        }
        self.link_event(core, vc, LinkEvent::Moving { conn: conn::key(id) });
        // The hello could not be said.
        if self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Connecting)) {
            self.close(id);
            let failed =
                LinkEvent::DialFailed { conn: conn::key(id), failure: Failure::None, permanent: false };
            self.link_event(core, vc, failed);
        }
    }

    /// Offers a connection in place of the adopted one, which is not read from now on.
    pub(crate) fn offer(&mut self, vc: VcId, id: ConnId) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        let Some(old) = v.link.up().map(conn::id) else { return };
        if let Some(going) = &mut v.going {
            going.frozen = Some(old);
        }
        if let Some(c) = self.conns.get_mut(old) {
            c.deaf = true;
            v.rx = c.rx;
        }
        let blocked = v.blocked;
        self.chill(old);
        if blocked {
            self.watch_for_room(old)
        } else {
            self.watch_for_input(old)
        }
        if let Err(failure) = self.say_hello(vc, id) {
            tracing::debug!(%failure, "the hello of a connection by a better pair of interfaces");
        }
    }

    /// An offer has lapsed: the peer makes no calls, perhaps. The connection stays.
    pub(crate) fn note_lapse(&mut self, vc: VcId, id: ConnId) {
        let is_offer = self.conns.get(id).is_some_and(|c| c.moves);
        let Some(v) = self.vcs.get_mut(vc).filter(|v| is_offer && v.link.up().is_some()) else { return };
        v.going.get_or_insert_with(|| Box::new(Move::new(self.now))).lapsed = self.now;
        self.stats.lapsed += 1;
        tracing::info!(
            peer = v.peer.rank,
            "the peer has not answered the offer of a better pair of interfaces in time; the connection stays, and the offer is repeated later"
        );
    }

    /// Returns true if the peer may have closed the connection because it has taken an offer just
    /// as that lapsed.
    pub(crate) fn took_what_lapsed(&self, vc: VcId, failure: Failure) -> bool {
        let closed = matches!(failure, Failure::Eof | Failure::Errno(libc::ECONNRESET));
        let going = self.vcs.get(vc).and_then(|v| v.going.as_deref());
        closed && going.is_some_and(|g| g.lapsed <= self.now && self.now.since(g.lapsed) < CROSSING)
    }

    /// After a link's event: reads the old connection on if the new one has come to nothing.
    pub(crate) fn settle_move(&mut self, vc: VcId) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if v.link.moving().is_some() {
            return;
        }
        let Some(old) = v.going.as_mut().and_then(|g| g.frozen.take()) else { return };
        let (up, blocked) = (v.link.up(), v.blocked);
        if let Some(c) = self.conns.get_mut(old).filter(|_| up == Some(conn::key(old))) {
            c.deaf = false;
            if blocked {
                self.watch_for_room(old)
            } else {
                self.watch_for_input(old)
            }
            self.move_failed(vc);
        }
    }
}

#[cfg(test)]
mod tests;
