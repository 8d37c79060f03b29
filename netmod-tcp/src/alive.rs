//! The heartbeat: whether the hosts of the peers are alive.
//!
//! A process that dies is announced by its kernel; a host that dies, or a network that parts, is not.
//! The heartbeat asks this host's kernel, not the peer's program, which may be computing for hours: on
//! an idle connection TCP's keepalive probes are answered by the peer's kernel; where bytes are under
//! way, [`Pulse`] looks at when they were last acknowledged. A peer that does not read for long is
//! thereby never taken for dead: its kernel answers the window probes.

use std::os::fd::AsRawFd;
use std::time::Duration;

use netmod_core::{Core, Time, VcId};
use socket2::{Socket, TcpKeepalive};

use crate::conn::{self, ConnId, Stage};
use crate::link::{Failure, LinkEvent};
use crate::netmod::TcpNetmod;
use crate::sys;

/// Looks within the detection time.
const LOOKS: u32 = 4;
/// The finest that the kernel's keepalive knows.
const SECOND: Duration = Duration::from_secs(1);

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// Bytes, or a window probe, are on their way and not acknowledged.
    pub(crate) waiting: bool,
    /// Time since the peer's kernel last acknowledged anything.
    pub(crate) since_ack: Duration,
}

/// Judges a connection that is looked at `LOOKS` times within `detect`: whether it is dead. `silent_since`
/// is when silence was first seen, or [`Time::NEVER`].
fn is_dead(silent_since: &mut Time, pulse: Pulse, now: Time, detect: Duration) -> bool {
    // What waits only since the last look has not been silent for long, however long ago the last
    // acknowledgement is.
    if !pulse.waiting || pulse.since_ack < detect / LOOKS {
        *silent_since = Time::NEVER;
    } else if *silent_since == Time::NEVER
        || pulse.since_ack < now.since(*silent_since) + detect / (2 * LOOKS)
    {
        // Silence that is seen is a quarter of `detect` old: what was acknowledged less long before has broken it,
        // and this is another one. A process that looks seldom may miss what was between.
        *silent_since = now;
    }
    *silent_since != Time::NEVER && now.since(*silent_since) >= detect / 2
}

/// Has the kernel ask an idle connection's peer, so that the answer is known within `detect`.
pub(crate) fn keep_alive(socket: &Socket, detect: Duration) -> std::io::Result<()> {
    let ka = TcpKeepalive::new()
        .with_time((detect / 2).max(SECOND))
        .with_interval((detect / 8).max(SECOND))
        .with_retries(3);
    socket.set_tcp_keepalive(&ka)?;
    // Otherwise window probes to a peer that has not read for long are up to two minutes apart. Older
    // kernels have no such option, and do without.
    sys::limit_retransmission_pause(socket.as_raw_fd(), (detect / LOOKS).max(SECOND));
    Ok(())
}

impl TcpNetmod {
    /// Looks at the open connections, if it is time to.
    pub(crate) fn feel_pulses(&mut self, core: &mut Core, now: Time) {
        let detect = self.cfg.detect;
        if detect.is_zero() || now < self.next_pulse {
            return;
        }
        let mut dead: Vec<(ConnId, VcId)> = Vec::new();
        let mut open = false;
        for (id, c) in self.conns.iter_mut() {
            let (Stage::Open { .. } | Stage::RailIn(_) | Stage::RailOut, Some(vc)) = (&c.stage, c.vc) else {
                continue;
            };
            open = true;
            match sys::pulse(c.fd()) {
                Ok(p) if is_dead(&mut c.silent_since, p, now, detect) => dead.push((id, vc)),
                Ok(_) => {}
                Err(e) => tracing::debug!(%e, "the kernel tells nothing of a connection"),
            }
        }
        self.next_pulse = if open { now + detect / LOOKS } else { Time::NEVER };
        for (id, vc) in dead {
            if self.rail_ended(id, Failure::Silent) {
                continue;
            }
            self.close(id);
            self.link_event(core, vc, LinkEvent::Lost { conn: conn::key(id), failure: Failure::Silent });
        }
    }

    /// A connection was adopted: it is looked at from now on.
    pub(crate) fn expect_pulse(&mut self) {
        if !self.cfg.detect.is_zero() && self.next_pulse == Time::NEVER {
            self.next_pulse = self.now + self.cfg.detect / LOOKS;
            self.next_timer = self.next_timer.min(self.next_pulse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETECT: Duration = Duration::from_secs(16);

    /// The look at which a connection is taken for dead, if at any; looks are 4 s apart.
    fn dead_at(pulses: impl IntoIterator<Item = (bool, u64)>) -> Option<usize> {
        let mut silent = Time::NEVER;
        pulses.into_iter().enumerate().find_map(|(i, (waiting, secs))| {
            let now = Time::ZERO + Duration::from_secs(100 + 4 * i as u64);
            let pulse = Pulse { waiting, since_ack: Duration::from_secs(secs) };
            is_dead(&mut silent, pulse, now, DETECT).then_some(i)
        })
    }

    #[test]
    fn silence_is_noticed_within_the_detection_time() {
        // Acknowledged until just before the second look: dead 13 s after that.
        assert_eq!(dead_at([(true, 0), (true, 1), (true, 5), (true, 9), (true, 13)]), Some(4));
        // Sent just after the first look into a connection that had been idle for an hour: dead 12 s after.
        assert_eq!(dead_at([(false, 3600), (true, 3604), (true, 3608), (true, 3612)]), Some(3));
    }

    /// A process that looks seldom, each time just after it has sent something: all else was acknowledged.
    #[test]
    fn looks_far_apart_do_not_make_one_silence_of_two() {
        let mut silent = Time::NEVER;
        for (at, since_ack) in [(1000, 900_000), (1100, 99_999), (1200, 100_000), (1300, 100_001)] {
            let now = Time::ZERO + Duration::from_secs(at);
            let pulse = Pulse { waiting: true, since_ack: Duration::from_millis(since_ack) };
            assert!(!is_dead(&mut silent, pulse, now, DETECT), "at {at} s");
        }
        // The last of it is never acknowledged.
        let pulse = Pulse { waiting: true, since_ack: Duration::from_millis(120_001) };
        assert!(is_dead(&mut silent, pulse, Time::ZERO + Duration::from_secs(1320), DETECT));
    }

    #[test]
    fn nobody_who_answers_is_dead() {
        // Idle for ever; sending again and again after long pauses; acknowledging slowly.
        assert_eq!(dead_at((0..100).map(|i| (false, 4 * i))), None);
        assert_eq!(dead_at((0..100).map(|i| (i % 3 == 0, 1000 + 4 * i))), None);
        assert_eq!(dead_at((0..100).map(|_| (true, 3))), None);
        assert_eq!(dead_at((0..100).map(|i| (true, if i % 2 == 0 { 7 } else { 1 }))), None);
    }
}
