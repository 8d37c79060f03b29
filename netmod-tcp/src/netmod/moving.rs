//! Connections go over to a better pair of interfaces when there is one again.
//!
//! The new connection is made beside the old one, which is used until the peer has accepted the new
//! one ([`crate::link`]). If the better pair does not lead to the peer, nothing has happened.
//!
//! An interface that flaps does not move connections back and forth: it must have been up for a
//! while, longer after each time that it went down ([`crate::interfaces::Own::steady_at`]), and
//! attempts of one VC follow each other more and more slowly, whether they succeed or not.

use netmod_core::{Core, Time, VcId};

use super::TcpNetmod;
use crate::conn::{self, Conn, ConnId, Stage};
use crate::link::{Failure, LinkEvent};
use crate::sockets::connect;
use crate::sys::Interest;
use crate::vc::upgrade::Upgrade;

impl TcpNetmod {
    /// Plans to go over to a better pair of interfaces, if there is one. `risen`: an interface has
    /// come up.
    pub(crate) fn consider_moving(&mut self, vc: VcId, risen: bool) {
        let now = self.clock.now;
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        let pair = v.link.up().and_then(|c| self.sockets.conns.get(conn::id(c))).map(|c| c.pair);
        let better = pair
            .filter(|p| *p != (0, 0) && v.session.id != 0)
            .and_then(|p| v.routes.all.as_ref()?.paired.better_than(p)?.pair());
        let Some((mine, _)) = better else {
            if let Some(going) = &mut v.routes.upgrade {
                going.at = Time::NEVER;
            }
            return;
        };
        let going = v.routes.upgrade.get_or_insert_with(|| Box::new(Upgrade::new(now)));
        going.forget(now);
        if risen {
            going.tries = 0;
        }
        if going.frozen.is_some() {
            return;
        }
        going.at = (now + going.pause()).max(self.interfaces.steady_at(mine));
        self.clock.wake_by(going.at);
        self.sessions.work.movers.add(vc, &mut v.listed);
    }

    /// Plans the next attempt, after one that failed or could not be made.
    pub(crate) fn move_failed(&mut self, vc: VcId) {
        self.consider_moving(vc, false);
    }

    /// Begins the attempts that are due.
    pub(crate) fn move_timers(&mut self, core: &mut Core, now: Time) {
        let mut i = 0;
        while let Some(vc) = self.sessions.work.movers.get(i) {
            let mut v = self.sessions.vcs.get_mut(vc);
            let upgrade = v.as_mut().and_then(|v| v.routes.upgrade.as_deref_mut());
            let at = upgrade.as_ref().map_or(Time::NEVER, |u| u.at);
            if at > now && at != Time::NEVER {
                self.clock.wake_by(at);
                i += 1;
                continue;
            }
            let due = upgrade.filter(|_| at != Time::NEVER).map(|u| u.tried(now)).is_some();
            self.sessions.work.movers.remove(i, v.map(|v| &mut v.listed));
            if due {
                match self.try_to_move(core, vc) {
                    Ok(true) => {}
                    Ok(false) => self.move_failed(vc),
                    Err(e) => {
                        tracing::debug!(%e, "a connection by a better pair of interfaces");
                        self.move_failed(vc);
                    }
                }
            }
        }
    }

    /// Begins a connection by the best route. Returns false if the present one cannot be left now.
    ///
    /// # Errors
    /// If no connection can be begun by that route.
    fn try_to_move(&mut self, core: &mut Core, vc: VcId) -> std::io::Result<bool> {
        let heard = self.sessions.vcs.get(vc).is_some_and(|v| {
            v.link
                .up()
                .and_then(|c| self.sockets.conns.get(conn::id(c)))
                .is_some_and(|c| c.rx.position != v.session.rx)
        });
        if heard {
            self.link_event(core, vc, LinkEvent::Heard);
        }
        let Some(v) = self.sessions.vcs.get(vc).filter(|v| v.link.can_move()) else { return Ok(false) };
        let pair = v.link.conn().and_then(|c| self.sockets.conns.get(conn::id(c))).map(|c| c.pair);
        let (Some(routes), Some(pair)) = (&v.routes.all, pair) else { return Ok(false) };
        let Some(route) = routes.paired.better_than(pair) else { return Ok(false) };
        let socket = connect(&self.cfg, route, routes.port, true)?;
        self.stats.dialled += 1;
        let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
        conn.handshake.dial = self.stats.dialled;
        conn.pair = route.pair().unwrap_or_default();
        conn.moves = true;
        let id = self.sockets.enroll(conn, Interest::BOTH)?;
        self.sockets.expect_answer(&mut self.clock, id);
        Ok(true)
    }

    /// Takes note that a session goes on by another pair of interfaces, and why.
    pub(crate) fn note_route(&mut self, vc: VcId, id: ConnId, lost: Option<Failure>) {
        let (Some(v), Some(c)) = (self.sessions.vcs.get_mut(vc), self.sockets.conns.get(id)) else { return };
        let (from, to) = (std::mem::replace(&mut v.routes.pair, c.pair), c.pair);
        let Some(failure) = lost else { return };
        self.stats.moved += u64::from(c.moves);
        if from == to || from == (0, 0) || to == (0, 0) {
            return;
        }
        let weight = |pair| v.routes.all.as_ref().and_then(|w| w.paired.weight(pair));
        if c.moves || weight(from) < weight(to) {
            v.routes
                .upgrade
                .get_or_insert_with(|| Box::new(Upgrade::new(self.clock.now)))
                .moved(self.clock.now);
        }
        let why = if c.moves { Failure::Moved } else { failure };
        let name = |pair: (u32, u32)| self.interfaces.name_of(pair.0).unwrap_or("an interface that has gone");
        let mut text = format!("last went from {} to {}: {why}", name(from), name(to));
        let speed = |pair| v.routes.all.as_ref().and_then(|w| w.paired.weight(pair)).map(|w| w.speed);
        if let (Some(before), Some(now)) = (speed(from), speed(to))
            && before != now
        {
            text += &format!(" ({now} Mb/s instead of {before})");
        }
        tracing::info!(peer = v.peer.rank, "the connection {text}");
        v.routes.change = Some(text.into());
    }

    /// Goes on with a move when TCP has connected by the better route.
    pub(crate) fn moving(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let old = self.sessions.vcs.get(vc).and_then(|v| v.link.up()).map(conn::id);
        // Bytes that were read and not handed on yet do not count as read.
        if old.is_none_or(|old| self.sockets.unread.contains(&old)) {
            self.close(id);
            return self.move_failed(vc);
        }
        self.link_event(core, vc, LinkEvent::Moving { conn: conn::key(id) });
        // The handshake could not begin.
        if self.sockets.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Connecting)) {
            self.close(id);
            let failed =
                LinkEvent::DialFailed { conn: conn::key(id), failure: Failure::None, permanent: false };
            self.link_event(core, vc, failed);
        }
    }

    /// Offers a connection in place of the adopted one, which is not read from now on.
    pub(crate) fn offer(&mut self, vc: VcId, id: ConnId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        let Some(old) = v.link.up().map(conn::id) else { return };
        if let Some(going) = &mut v.routes.upgrade {
            going.frozen = Some(old);
        }
        if let Some(c) = self.sockets.conns.get_mut(old) {
            c.epoll.deaf = true;
            v.session.rx = c.rx.position;
        }
        let blocked = v.tx.blocked;
        self.sockets.demote(old);
        if blocked {
            self.sockets.watch_for_room(old)
        } else {
            self.sockets.watch_for_input(old)
        }
        if let Err(failure) = self.begin_handshake(vc, id) {
            tracing::debug!(%failure, "the handshake of a connection by a better pair of interfaces");
        }
    }

    /// Takes note of an offer that has lapsed: perhaps the peer makes no calls. The connection
    /// stays.
    pub(crate) fn note_lapse(&mut self, vc: VcId, id: ConnId) {
        let is_offer = self.sockets.conns.get(id).is_some_and(|c| c.moves);
        let Some(v) = self.sessions.vcs.get_mut(vc).filter(|v| is_offer && v.link.up().is_some()) else {
            return;
        };
        v.routes.upgrade.get_or_insert_with(|| Box::new(Upgrade::new(self.clock.now))).lapsed =
            self.clock.now;
        self.stats.lapsed += 1;
        tracing::info!(
            peer = v.peer.rank,
            "the peer has not answered the offer of a better pair of interfaces in time; the connection stays, and the offer is repeated later"
        );
    }

    /// Reads the old connection on if the new one has failed; called after each event of a link.
    pub(crate) fn settle_move(&mut self, vc: VcId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        if v.link.moving().is_some() {
            return;
        }
        let Some(old) = v.routes.upgrade.as_mut().and_then(|g| g.frozen.take()) else { return };
        let (up, blocked) = (v.link.up(), v.tx.blocked);
        if let Some(c) = self.sockets.conns.get_mut(old).filter(|_| up == Some(conn::key(old))) {
            c.epoll.deaf = false;
            if blocked {
                self.sockets.watch_for_room(old)
            } else {
                self.sockets.watch_for_input(old)
            }
            self.move_failed(vc);
        }
    }
}

#[cfg(test)]
mod tests;
