//! Incoming connections whose peers have proved nothing: bounded in number and time.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use netmod_connection::Responder;
use netmod_core::Time;
use socket2::Socket;

use crate::clock::Clock;
use crate::conn::{Conn, ConnId, Stage};
use crate::stats::TcpStats;
use crate::sys::{self, Interest};

use super::{Sockets, prepare};

/// Part of the process's descriptors that unauthenticated connections take at most: one in this
/// many.
const UNPROVED_SHARE: usize = 4;
/// Descriptors that they leave to the program: one in `RESERVE_SHARE`, and at most `RESERVE`.
const RESERVE_SHARE: usize = 4;
const RESERVE: usize = 64;

/// Connections of unauthenticated peers.
#[derive(Debug)]
pub(super) struct Unauthenticated {
    /// Those in the handshake, oldest first, with their deadlines.
    waiting: VecDeque<(Time, ConnId)>,
    /// Those that linger because they were refused, oldest first.
    refused: VecDeque<ConnId>,
    /// Most connections of both kinds.
    most: usize,
}

impl Unauthenticated {
    pub(super) fn new(most: usize) -> Unauthenticated {
        Unauthenticated { waiting: VecDeque::new(), refused: VecDeque::new(), most }
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.refused.len()
    }

    pub(super) fn refuse(&mut self, id: ConnId) {
        self.waiting.retain(|(_, s)| *s != id);
        self.refused.push_back(id);
    }

    pub(super) fn forget_refused(&mut self, id: ConnId) {
        self.refused.retain(|l| *l != id);
    }
}

impl Sockets {
    /// Takes an incoming connection, whose peer has until a deadline to prove its name.
    pub(crate) fn take_in(
        &mut self,
        clock: &mut Clock,
        stats: &mut TcpStats,
        socket: Socket,
        responder: Box<Responder>,
        until: Time,
    ) -> std::io::Result<()> {
        prepare(&socket, self.detect)?;
        self.make_room_for(stats, socket.as_raw_fd());
        let id = self.enroll(Conn::new(socket, Stage::Unauthenticated(responder), None), Interest::READ)?;
        self.unauthenticated.waiting.push_back((until, id));
        clock.wake_by(until);
        Ok(())
    }

    fn is_unauthenticated(&self, id: ConnId) -> bool {
        self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Unauthenticated(_)))
    }

    /// Makes room for an incoming connection with this descriptor.
    ///
    /// Unauthenticated connections are bounded together. When few descriptors are left to the
    /// program the oldest of them goes: a new descriptor is the lowest that is free.
    fn make_room_for(&mut self, stats: &mut TcpStats, fd: i32) {
        let limit = usize::try_from(sys::descriptor_limit()).unwrap_or(usize::MAX);
        let most = self.unauthenticated.most.min(limit / UNPROVED_SHARE).max(1);
        let scarce = usize::try_from(fd).is_ok_and(|fd| fd >= limit - (limit / RESERVE_SHARE).min(RESERVE));
        if scarce || self.unauthenticated.len() >= most {
            // Peers that have proved their names since do not count any more.
            let conns = &self.conns;
            self.unauthenticated.waiting.retain(|(_, id)| {
                conns.get(*id).is_some_and(|c| matches!(c.stage, Stage::Unauthenticated(_)))
            });
        }
        if scarce {
            self.evict(stats);
        }
        while self.unauthenticated.len() >= most && self.evict(stats) {}
    }

    /// Closes the oldest connection that lingers because it was refused, or else the one that has
    /// had most time for its handshake. Returns false if there is none.
    fn evict(&mut self, stats: &mut TcpStats) -> bool {
        if let Some(id) = self.unauthenticated.refused.pop_front() {
            self.remove(id);
            return true;
        }
        let Some((_, id)) = self.unauthenticated.waiting.pop_front() else { return false };
        self.end_silent(stats, id);
        true
    }

    /// Closes an unauthenticated connection that has used up its time.
    fn end_silent(&mut self, stats: &mut TcpStats, id: ConnId) {
        if self.is_unauthenticated(id) {
            stats.unauthenticated += 1;
            stats.silent += 1;
            self.remove(id);
        }
    }

    /// Closes the unauthenticated connections that have used up their time.
    pub(crate) fn expire_unauthenticated(&mut self, clock: &mut Clock, stats: &mut TcpStats) {
        while let Some(&(until, id)) = self.unauthenticated.waiting.front() {
            if self.is_unauthenticated(id) && until > clock.now {
                clock.wake_by(until);
                break;
            }
            self.unauthenticated.waiting.pop_front();
            self.end_silent(stats, id);
        }
    }

    /// Returns a connection that is, or was, unauthenticated, and forgets it.
    pub(crate) fn pop_unauthenticated(&mut self) -> Option<ConnId> {
        self.unauthenticated.waiting.pop_front().map(|(_, id)| id)
    }
}
