//! The heartbeat: whether the hosts of the peers are alive.
//!
//! A process that dies is announced by its kernel; a host that dies, or a network that parts, is
//! not. The heartbeat asks this host's kernel, not the peer's program, which may be computing for
//! hours: on an idle connection TCP's keepalive probes are answered by the peer's kernel; where
//! bytes are under way, [`Pulse`] looks at when they were last acknowledged. A peer that does not
//! read for long is thereby never taken for dead: its kernel answers the window probes.

use std::time::Duration;

use netmod_core::Time;

use crate::sys::Pulse;

/// Looks within the detection time.
pub(crate) const LOOKS: u32 = 4;

/// Judges a connection that is looked at `LOOKS` times within `detect`: whether it is dead.
/// `silent_since` is when silence was first seen, or [`Time::NEVER`].
pub(crate) fn is_dead(silent_since: &mut Time, pulse: Pulse, now: Time, detect: Duration) -> bool {
    // Data that waits only since the last check does not make the peer silent, however old the last
    // acknowledgement is.
    if !pulse.waiting || pulse.since_ack < detect / LOOKS {
        *silent_since = Time::NEVER;
    } else if *silent_since == Time::NEVER
        || pulse.since_ack < now.since(*silent_since) + detect / (2 * LOOKS)
    {
        // Silence that is seen is a quarter of `detect` old: what was acknowledged less long before
        // has broken it, and this is another one. A process that looks seldom may miss what was
        // between.
        *silent_since = now;
    }
    *silent_since != Time::NEVER && now.since(*silent_since) >= detect / 2
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
        // Sent just after the first look into a connection that had been idle for an hour: dead 12
        // s after.
        assert_eq!(dead_at([(false, 3600), (true, 3604), (true, 3608), (true, 3612)]), Some(3));
    }

    /// A process that looks seldom, each time just after it has sent something: all else was
    /// acknowledged.
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
