//! The sockets of a netmod: epoll, the listener, all connections, and the set that is read
//! directly.
//!
//! Nothing here knows VCs but by their handles, or what the bytes of a connection mean.

mod active;
mod listener;
mod options;
mod unauthenticated;

use std::collections::VecDeque;
use std::time::Duration;

use netmod_core::{DeviceError, Slab, Time, VcId};
use socket2::SockRef;

use crate::NAME;
use crate::clock::Clock;
use crate::config::TcpConfig;
use crate::conn::{Conn, ConnId, ConnKind, Stage};
use crate::pulse::{LOOKS, is_dead};
use crate::sys::{self, Epoll, Interest, RxArena};

pub(crate) use active::{ACTIVE, ActiveSet};
pub(crate) use listener::{LISTENER, Listener};
pub(crate) use options::{connect, prepare};
use unauthenticated::Unauthenticated;

/// Time in which the peer has to read last words.
const LINGER: Duration = Duration::from_secs(1);
/// Time in which a host has to answer by one pair of interfaces before another one is tried;
/// twice the time after which systems try again.
const CONNECT: Duration = Duration::from_secs(2);

/// Fewest bytes of the receive buffer: a handshake's piece fits.
const MIN_ARENA: usize = 4096;

/// The sockets of a netmod.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) epoll: Epoll,
    pub(crate) listener: Option<Listener>,
    /// Time at which accepting goes on after descriptors ran out, or `NEVER`.
    accept_again: Time,
    pub(crate) conns: Slab<Conn, ConnKind>,
    pub(crate) active: ActiveSet,
    pub(crate) arena: RxArena,
    /// Connections with checked bytes that had no room in the last poll.
    pub(crate) unread: Vec<ConnId>,
    unauthenticated: Unauthenticated,
    /// Dials between interfaces that no host has answered yet, with their deadlines.
    connecting: VecDeque<(Time, ConnId)>,
    lingering: Vec<ConnId>,
    /// Time at which the open connections are looked at, or `NEVER`.
    next_pulse: Time,
    /// Time in which a dead host is noticed; zero if it is not looked for.
    detect: Duration,
}

impl Sockets {
    /// Takes the listener, which stays unwatched before [`Sockets::watch_listener`].
    ///
    /// # Errors
    /// If the system has no epoll instance, or epoll no room.
    pub(crate) fn new(cfg: &TcpConfig, listener: Listener) -> Result<Sockets, DeviceError> {
        let mut sockets = Sockets {
            epoll: new_epoll()?,
            listener: None,
            accept_again: Time::NEVER,
            conns: Slab::new(),
            active: ActiveSet::default(),
            arena: RxArena::new(cfg.rx_buffer.max(MIN_ARENA)),
            unread: Vec::new(),
            unauthenticated: Unauthenticated::new(cfg.hello_max),
            connecting: VecDeque::new(),
            lingering: Vec::new(),
            next_pulse: Time::NEVER,
            detect: cfg.detect,
        };
        sockets.set_listener(listener)?;
        Ok(sockets)
    }

    /// Goes on with a new listener and a new epoll instance, after [`Sockets::let_go`].
    ///
    /// # Errors
    /// As of [`Sockets::new`].
    pub(crate) fn reopen(&mut self, listener: Listener) -> Result<(), DeviceError> {
        self.epoll = new_epoll()?;
        self.set_listener(listener)
    }

    /// Gives back the descriptors of epoll and of the listener.
    pub(crate) fn let_go(&mut self) {
        self.listener = None;
        self.accept_again = Time::NEVER;
        self.epoll.close();
        self.active = ActiveSet::default();
    }

    /// Puts a connection into the slab and into epoll.
    pub(crate) fn enroll(&mut self, conn: Conn, interest: Interest) -> std::io::Result<ConnId> {
        let fd = conn.fd();
        let id = self.conns.insert(conn);
        if let Err(e) = self.epoll.add(fd, id.to_wire(), interest) {
            self.conns.remove(id);
            return Err(e);
        }
        if let Some(c) = self.conns.get_mut(id) {
            c.epoll.interest = interest;
            c.epoll.joined = true;
        }
        Ok(id)
    }

    /// Closes and returns a connection.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let c = self.conns.remove(id)?;
        self.active.forget(id);
        if let Stage::Lingering { unauthenticated, .. } = c.stage {
            self.lingering.retain(|l| *l != id);
            if unauthenticated {
                self.unauthenticated.forget_refused(id);
            }
        }
        Some(c)
    }

    /// Returns all connections.
    pub(crate) fn all(&self) -> Vec<ConnId> {
        self.conns.iter().map(|(id, _)| id).collect()
    }

    /// Sets what epoll watches on a connection.
    pub(crate) fn watch(&mut self, id: ConnId, interest: Interest) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.epoll.interest == interest {
            return;
        }
        c.epoll.interest = interest;
        if !c.epoll.joined {
            if interest != Interest::READ {
                self.rejoin_epoll(id);
            }
            return;
        }
        let fd = c.fd();
        if let Err(e) = self.epoll.modify(fd, id.to_wire(), interest) {
            tracing::error!(%e, "epoll does not know a connection that is open");
        }
    }

    /// Has epoll report when the connection takes bytes again, besides what it reports anyhow.
    pub(crate) fn watch_for_room(&mut self, id: ConnId) {
        let deaf = self.conns.get(id).is_some_and(|c| c.epoll.deaf);
        self.watch(id, if deaf { Interest::WRITE } else { Interest::BOTH });
    }

    /// Has epoll report when the connection brings something.
    pub(crate) fn watch_for_input(&mut self, id: ConnId) {
        let deaf = self.conns.get(id).is_some_and(|c| c.epoll.deaf);
        self.watch(id, if deaf { Interest::NONE } else { Interest::READ });
    }

    /// Writes handshake or farewell bytes; what the kernel does not take waits in `out`.
    pub(crate) fn write_out(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(c) = self.conns.get_mut(id) else { return };
        c.out.extend_from_slice(bytes);
        // A failed write shows as end of file or error at the next read.
        if let Ok(Some(n)) = sys::send(c.fd(), &c.out) {
            c.out.drain(..n);
        }
        if !c.out.is_empty() {
            return self.watch_for_room(id);
        }
        let shut_now = match &mut c.stage {
            Stage::Open { parting: true } => true,
            Stage::Lingering { shut, .. } => !std::mem::replace(shut, true),
            _ => false,
        };
        if shut_now {
            // A peer that has reset the connection has no half to be shut any more.
            let _ = SockRef::from(&c.socket).shutdown(std::net::Shutdown::Write);
        }
    }

    /// Says last words on a connection without further use; it is closed when they were read.
    pub(crate) fn linger(&mut self, clock: &mut Clock, id: ConnId, words: &[u8]) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let until = clock.now + LINGER;
        let unauthenticated = matches!(c.stage, Stage::Unauthenticated(_));
        c.stage = Stage::Lingering { until, shut: false, unauthenticated };
        c.vc = None;
        c.epoll.deaf = false;
        if unauthenticated {
            self.unauthenticated.refuse(id);
        }
        self.demote(id);
        self.watch(id, Interest::READ);
        self.lingering.push(id);
        clock.wake_by(until);
        self.write_out(id, words);
    }

    /// Closes the connections whose last words were not read in time.
    pub(crate) fn expire_lingering(&mut self, clock: &mut Clock) {
        let due: Vec<ConnId> = self
            .lingering
            .iter()
            .copied()
            .filter(|id| match self.conns.get(*id).map(|c| &c.stage) {
                Some(Stage::Lingering { until, .. }) => {
                    clock.wake_by(*until);
                    *until <= clock.now
                }
                _ => true,
            })
            .collect();
        for id in due {
            self.remove(id);
        }
    }

    /// Bounds the time in which a host may answer a dial.
    pub(crate) fn expect_answer(&mut self, clock: &mut Clock, id: ConnId) {
        let until = clock.now + CONNECT;
        self.connecting.push_back((until, id));
        clock.wake_by(until);
    }

    /// Returns a dial that no host has answered in time, and forgets it.
    pub(crate) fn unanswered(&mut self, clock: &mut Clock) -> Option<ConnId> {
        while let Some(&(until, id)) = self.connecting.front() {
            let waiting = self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Connecting));
            if waiting && until > clock.now {
                clock.wake_by(until);
                return None;
            }
            self.connecting.pop_front();
            if waiting {
                return Some(id);
            }
        }
        None
    }

    /// Reads a connection directly from now on, because it has brought something.
    #[inline]
    pub(crate) fn activate(&mut self, id: ConnId) {
        if let Some(out) = self.active.insert(id) {
            self.rejoin_epoll(out);
        }
    }

    /// Removes a connection from the active set.
    #[cold]
    pub(crate) fn demote(&mut self, id: ConnId) {
        self.active.forget(id);
        self.rejoin_epoll(id);
    }

    /// Removes all connections from the active set.
    #[cold]
    pub(crate) fn demote_all(&mut self) {
        for id in self.active.take() {
            self.rejoin_epoll(id);
        }
    }

    /// Has epoll know of everything, because the process will block on it.
    pub(crate) fn rejoin_epoll_all(&mut self) {
        for i in 0..ACTIVE {
            let Some(id) = self.active.settle(i) else { break };
            self.rejoin_epoll(id);
        }
    }

    /// Puts a connection back into epoll, if it is out.
    fn rejoin_epoll(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.epoll.joined {
            return;
        }
        let (fd, interest) = (c.fd(), c.epoll.interest);
        match self.epoll.add(fd, id.to_wire(), interest) {
            Ok(()) => c.epoll.joined = true,
            Err(e) => {
                tracing::error!(%e, "epoll does not take a connection back; it is read by polling only")
            }
        }
    }

    /// Takes a connection of the active set out of epoll.
    #[cold]
    pub(crate) fn leave_epoll(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if !c.epoll.joined || c.epoll.interest != Interest::READ {
            return;
        }
        match self.epoll.remove(c.fd()) {
            Ok(()) => c.epoll.joined = false,
            Err(e) => tracing::error!(%e, "epoll does not know a connection that is open"),
        }
    }

    /// Has the open connections looked at from now on, because one was adopted.
    pub(crate) fn expect_pulse(&mut self, clock: &mut Clock) {
        if !self.detect.is_zero() && self.next_pulse == Time::NEVER {
            self.next_pulse = clock.now + self.detect / LOOKS;
            clock.wake_by(self.next_pulse);
        }
    }

    /// Returns the open connections whose peers' hosts are dead, if it is time to look, and when
    /// the next look is due.
    pub(crate) fn check_liveness(&mut self, now: Time) -> (Vec<(ConnId, VcId)>, Time) {
        let mut dead = Vec::new();
        if self.detect.is_zero() || now < self.next_pulse {
            return (dead, self.next_pulse);
        }
        let mut open = false;
        for (id, c) in self.conns.iter_mut() {
            let (Stage::Open { .. } | Stage::RailIn(_) | Stage::RailOut, Some(vc)) = (&c.stage, c.vc) else {
                continue;
            };
            open = true;
            match sys::pulse(c.fd()) {
                Ok(p) if is_dead(&mut c.silent_since, p, now, self.detect) => dead.push((id, vc)),
                Ok(_) => {}
                Err(e) => tracing::debug!(%e, "the kernel tells nothing of a connection"),
            }
        }
        self.next_pulse = if open { now + self.detect / LOOKS } else { Time::NEVER };
        (dead, self.next_pulse)
    }
}

fn new_epoll() -> Result<Epoll, DeviceError> {
    Epoll::new().map_err(|e| DeviceError::new(NAME, format!("cannot make an epoll instance: {e}")))
}
