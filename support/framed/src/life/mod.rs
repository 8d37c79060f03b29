//! Liveness checks of peers: devices do not say when one has died.
//!
//! Every process listens on a TCP socket, its *life line*, and accepts nothing for good. The kernel
//! answers any connection, even while the process computes for hours, and refuses it when the
//! process has ended. If a peer has been silent for the device's `DETECT` setting, this process
//! asks the peer's kernel so.
//!
//! A verdict of death needs every address of the peer to refuse: one that does not answer may be
//! the one that would. Processes that share a network namespace ask by the loopback address. Of
//! others, addresses that this host has, too (a bridge of containers has the same one everywhere),
//! are not asked: they lead back here.
//!
//! A child that the process has forked, and that has not called `exec`, holds the line, and the
//! dead parent is taken to live. So is one whose port another process has got since.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netmod_core::slab::VcKind;
use netmod_core::{SideTable, Time, VcId};
use socket2::{Domain, Protocol, Socket, Type};

mod endpoints;
mod schedule;
#[cfg(test)]
mod tests;

use schedule::Schedule;

/// Time that a probe waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// First pause between two looks at a probe; the pause doubles up to the greatest.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Time between two closings of probers' connections, and how many are closed at a time.
const CLEAN: Duration = Duration::from_millis(100);
const CLEAN_MOST: usize = 64;
/// Connections that the kernel may keep until then.
const BACKLOG: i32 = 1024;

/// The outcome of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// The process lives.
    Alive,
    /// It has ended.
    Dead,
    /// No answer came, or there is no route.
    Unknown,
}

/// A peer that is asked at one address.
#[derive(Debug)]
enum Line {
    Waiting(Socket),
    Refused,
    Unknown,
}

/// A peer that is asked.
#[derive(Debug)]
struct Probe {
    vc: VcId,
    lines: Vec<Line>,
    until: Time,
    look: Time,
    pause: Duration,
}

/// The life line of this process, and what it knows of others' lives.
#[derive(Debug)]
pub struct Life {
    listener: Socket,
    port: u16,
    own: Vec<IpAddr>,
    schedule: Schedule,
    peers: SideTable<Box<[SocketAddr]>, VcKind>,
    probes: Vec<Probe>,
    clean: Time,
}

impl Life {
    /// Listens at any address. `own` are the addresses of this host, `detect` how long a peer may
    /// be silent before it is asked after (zero: for ever).
    ///
    /// # Errors
    /// Of socket, bind and listen.
    pub fn listen(own: &[IpAddr], detect: Duration) -> io::Result<Life> {
        let listener = listener(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
            .or_else(|_| listener(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))?;
        let address = listener.local_addr()?.as_socket();
        let port = address.ok_or_else(|| io::Error::other("a life line without a port"))?.port();
        let left_out: Vec<String> = endpoints::left_out(own).map(ToString::to_string).collect();
        if !left_out.is_empty() {
            tracing::warn!(
                addresses = left_out.join(", "),
                "this host has more addresses than peers ask at whether this process lives: a peer that reaches only these \
                 notices its death by what it sends"
            );
        }
        Ok(Life {
            listener,
            port,
            own: own.to_vec(),
            schedule: Schedule::new(detect),
            peers: SideTable::new(),
            probes: Vec::new(),
            clean: Time::ZERO,
        })
    }

    /// Returns the endpoints that answer probes of this process, for its card.
    pub fn endpoints(&self) -> Vec<u8> {
        endpoints::emit(self.port, &self.own)
    }

    /// Begins to watch the peer of a VC. `endpoints` are from its card; `near` says that it shares
    /// the network namespace of this process. False if it cannot be asked after.
    pub fn watch(&mut self, vc: VcId, endpoints: &[u8], near: bool, now: Time) -> bool {
        let Some((port, ips)) = endpoints::parse(endpoints) else { return false };
        let lines: Box<[SocketAddr]> = if near {
            [SocketAddr::from((Ipv4Addr::LOCALHOST, port))].into()
        } else {
            let elsewhere = ips.iter().filter(|ip| !self.own.contains(ip));
            elsewhere.map(|ip| SocketAddr::from((*ip, port))).collect()
        };
        if lines.is_empty() {
            return false;
        }
        self.unwatch(vc);
        self.peers.set(vc, lines);
        self.schedule.watch(vc, now);
        true
    }

    /// Ends the watch of a VC's peer.
    pub fn unwatch(&mut self, vc: VcId) {
        self.peers.clear(vc);
        self.schedule.unwatch(vc);
        self.probes.retain(|p| p.vc != vc);
    }

    /// Returns true if the peer of the VC is watched.
    pub fn is_watching(&self, vc: VcId) -> bool {
        self.peers.get(vc).is_some()
    }

    /// Notes a sign of life of the peer.
    #[inline]
    pub fn heard(&mut self, vc: VcId, now: Time) {
        self.schedule.heard(vc, now);
    }

    /// Notes whether something is expected of the peer: then it is probed before others.
    #[inline]
    pub fn owes(&mut self, vc: VcId, owes: bool) {
        self.schedule.owes(vc, owes);
    }

    /// Begins probes that are due, and adds the verdicts reached since.
    pub fn poll(&mut self, now: Time, out: &mut Vec<(VcId, Verdict)>) {
        if now >= self.clean {
            self.clean = now + CLEAN;
            self.hang_up();
        }
        self.look(now, out);
        if let Some(vc) = self.schedule.due(now) {
            let lines = self.peers.get(vc).map_or(vec![], |a| a.iter().map(ask).collect());
            self.probes.push(Probe { vc, lines, until: now + PATIENCE, look: now, pause: LOOK });
            // Within a host the answer is there at once.
            self.look(now, out);
        }
    }

    /// Closes accepted connections of probers: they have their answer.
    #[cold]
    fn hang_up(&mut self) {
        for _ in 0..CLEAN_MOST {
            match self.listener.accept() {
                Ok(asked) => drop(asked),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // None waits, or this one has gone, or there is no descriptor for it: the kernel
                // answers all the same.
                Err(_) => return,
            }
        }
    }

    fn look(&mut self, now: Time, out: &mut Vec<(VcId, Verdict)>) {
        let schedule = &mut self.schedule;
        self.probes.retain_mut(|p| {
            if now < p.look.min(p.until) {
                return true;
            }
            p.look = now + p.pause;
            p.pause = (p.pause * 2).min(LOOK_MAX);
            let Some(verdict) = p.verdict(now) else { return true };
            schedule.verdict(p.vc, verdict, now);
            out.push((p.vc, verdict));
            false
        });
    }

    /// Returns the time when [`Life::poll`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let probes = self.probes.iter().map(|p| p.look.min(p.until));
        let next = probes.min().unwrap_or(Time::NEVER).min(self.schedule.deadline());
        (next != Time::NEVER).then_some(next)
    }
}

impl Probe {
    /// Returns the verdict as of now; `None` if an answer may still come.
    fn verdict(&mut self, now: Time) -> Option<Verdict> {
        for line in &mut self.lines {
            let Line::Waiting(socket) = line else { continue };
            match socket.take_error() {
                Ok(Some(e)) => *line = judge(&e),
                Ok(None) if socket.peer_addr().is_ok() => return Some(Verdict::Alive),
                Ok(None) => {}
                Err(_) => *line = Line::Unknown,
            }
        }
        let any = |f: fn(&Line) -> bool| self.lines.iter().any(f);
        if any(|l| matches!(l, Line::Waiting(_))) {
            return (now >= self.until).then_some(Verdict::Unknown);
        }
        let dead = !self.lines.is_empty() && !any(|l| matches!(l, Line::Unknown));
        Some(if dead { Verdict::Dead } else { Verdict::Unknown })
    }
}

/// Classifies an error of a probe: only a refusal is an answer.
fn judge(e: &io::Error) -> Line {
    if e.kind() == io::ErrorKind::ConnectionRefused { Line::Refused } else { Line::Unknown }
}

/// Begins to connect.
fn ask(address: &SocketAddr) -> Line {
    let begin = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // The connection carries no data and leaves no state (TIME_WAIT) behind.
        socket.set_linger(Some(Duration::ZERO))?;
        match socket.connect(&(*address).into()) {
            Err(e)
                if e.raw_os_error() == Some(libc::EINPROGRESS) || e.kind() == io::ErrorKind::WouldBlock => {}
            other => other?,
        }
        Ok(socket)
    };
    begin().map_or_else(|e| judge(&e), Line::Waiting)
}

fn listener(any: IpAddr) -> io::Result<Socket> {
    let address = SocketAddr::from((any, 0));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if any.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}
