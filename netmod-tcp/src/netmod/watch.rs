//! Asking after processes to which there is no connection: a receive waits for what they have not
//! sent yet.
//!
//! The kernel of the peer's host answers a connect for a process that computes, or is stopped, and
//! refuses one for a process that has ended. So a probe is a connect that is closed at once:
//! nothing is said on it, and the peer's program need not look. An answer ends the probe. Refusals
//! are a verdict when there has been nothing else for the detection time, since a process that is
//! checkpointed does not listen for a while; silence, when a dial would be given up for it too.

use core::time::Duration;

use netmod_core::{Core, Event, Time, VcError, VcErrorKind, VcId};
use socket2::Socket;

use super::TcpNetmod;
use crate::life::Ending;
use crate::link::Phase;
use crate::sockets::connect;
use crate::vc::TcpVc;

/// Most processes that are asked after at once; each takes a descriptor.
const MOST: usize = 64;
/// First pause between two looks at a connect under way; it doubles up to the greatest.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Pause after an attempt that was no answer, and refusals in a row that are needed.
const AGAIN: Duration = Duration::from_millis(200);
const REFUSALS: u32 = 3;
/// Silence is no verdict if nobody has asked for the probe within this time.
const FORGET: Duration = Duration::from_millis(2500);

/// A process that is asked after.
#[derive(Debug)]
struct Probe {
    vc: VcId,
    /// A connect under way.
    socket: Option<Socket>,
    /// Attempts so far: each goes by the next route to the peer.
    attempts: usize,
    /// Time at which the probe began.
    since: Time,
    asked: Time,
    look: Time,
    pause: Duration,
    /// Refusals in a row, and when the first one came.
    refused: u32,
    refused_since: Time,
}

/// The processes that are asked after.
#[derive(Debug, Default)]
pub(crate) struct Watching(Vec<Probe>);

/// The result of an attempt.
enum Answer {
    /// Nothing yet.
    Awaited,
    /// Somebody listens.
    Alive,
    /// Nobody listens at an address of the host.
    Refused,
    /// There is no route, or the host does not answer.
    None,
    /// This side cannot ask.
    Unable,
}

fn judge(e: &std::io::Error) -> Answer {
    match e.raw_os_error() {
        Some(libc::ECONNREFUSED) => Answer::Refused,
        Some(
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL | libc::EACCES,
        ) => Answer::Unable,
        _ => Answer::None,
    }
}

fn look(socket: &Socket) -> Answer {
    match socket.take_error() {
        Ok(Some(e)) | Err(e) => judge(&e),
        Ok(None) if socket.peer_addr().is_ok() => Answer::Alive,
        Ok(None) => Answer::Awaited,
    }
}

/// Returns true if neither a connection nor a dial, which have deadlines of their own, tells of the
/// peer's end.
fn is_unwatched(v: &TcpVc) -> bool {
    v.link.phase() == Phase::Idle && v.is_drained()
}

impl TcpNetmod {
    /// Asks after the process of a VC, unless its connection tells of its end. False if too many
    /// are asked after.
    pub(crate) fn ask_after(&mut self, core: &Core, vc: VcId, now: Time) -> bool {
        if self.cfg.detect.is_zero() || !self.life.is_running() {
            return true;
        }
        self.clock.now = now;
        let Ok(v) = self.first_use(core, vc) else { return true };
        if !is_unwatched(v) {
            return true;
        }
        if v.routes.all.is_none() {
            if !v.routes.asked_card {
                v.routes.asked_card = true;
                self.events.push_back(Event::NeedCard { vc });
            }
            return true;
        }
        if let Some(p) = self.watching.0.iter_mut().find(|p| p.vc == vc) {
            p.asked = now;
            return true;
        }
        if self.watching.0.len() >= MOST {
            return false;
        }
        self.watching.0.push(Probe {
            vc,
            socket: None,
            attempts: 0,
            since: now,
            asked: now,
            look: now,
            pause: LOOK,
            refused: 0,
            refused_since: Time::NEVER,
        });
        self.clock.wake_by(now);
        true
    }

    /// Goes on with the probes that are due.
    pub(crate) fn look_after_watched(&mut self, core: &mut Core, now: Time) {
        let mut i = 0;
        while i < self.watching.0.len() {
            if self.watching.0[i].look > now {
                self.clock.wake_by(self.watching.0[i].look);
                i += 1;
                continue;
            }
            let mut p = self.watching.0.swap_remove(i);
            if self.go_on(core, &mut p, now) {
                self.clock.wake_by(p.look);
                self.watching.0.push(p);
                // The one that took its place is next; it itself comes again, and is not due.
            }
        }
    }

    /// Takes a step of a probe. Returns false if it has ended.
    fn go_on(&mut self, core: &mut Core, p: &mut Probe, now: Time) -> bool {
        let Some(v) = self.sessions.vcs.get(p.vc).filter(|v| is_unwatched(v)) else { return false };
        if self.life.ending != Ending::No {
            return false;
        }
        let routes = v.routes.all.as_ref().map_or(1, |w| w.paired.list.len().max(1));
        let answer = match &p.socket {
            Some(socket) => look(socket),
            None => {
                let Some((route, port)) = v.routes.route_by(p.attempts) else { return false };
                p.attempts += 1;
                p.pause = LOOK;
                match connect(&self.cfg, &route, port, false) {
                    // Within a host the answer is there at once.
                    Ok(socket) => look(p.socket.insert(socket)),
                    Err(e) => judge(&e),
                }
            }
        };
        match answer {
            Answer::Alive | Answer::Unable => return false,
            Answer::Awaited => {
                p.look = now + p.pause;
                p.pause = (p.pause * 2).min(LOOK_MAX);
            }
            Answer::Refused => {
                if p.refused == 0 {
                    p.refused_since = now;
                }
                p.refused = p.refused.saturating_add(1);
                (p.socket, p.look) = (None, now + AGAIN);
            }
            Answer::None => {
                p.refused = 0;
                (p.socket, p.look) = (None, now + AGAIN);
            }
        }
        let refused = now.since(p.refused_since);
        let (silent, limit) = (now.since(p.since), self.cfg.connect_timeout.max(self.cfg.detect));
        let (peer, address) = (v.peer, v.routes.address());
        let text = if p.refused >= REFUSALS.max(routes as u32) && refused >= self.cfg.detect {
            format!("the process that listened at {address} has ended, as its host says; has it failed?")
        } else if silent >= limit && now.since(p.asked) > FORGET {
            return false;
        } else if silent >= limit {
            format!("its host, at {address}, does not answer; has it failed, or is a firewall in between?")
        } else {
            return true;
        };
        let error = VcError::new(VcErrorKind::Lost, Some(peer), text).after(silent);
        netmod_core::VcLife::vc_abort(self, core, p.vc, error);
        false
    }
}
