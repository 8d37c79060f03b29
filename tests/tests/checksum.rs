//! `NETMOD_CHECKSUM=on`: whichever bit is flipped on the way, it is reported with its place, and no
//! wrong byte arrives.

use ch3_shim::Config;
use ch3_shim::Error;
use netmod_tests::board::{run_devices, run_job_with};
use netmod_tests::jobs::pattern::Random;
use netmod_tests::jobs::tap::{Flips, Proxy, Tap, talk};

/// More bytes than the handshakes of two dials that cross have, either way: what is flipped behind
/// them is a message's.
const HANDSHAKE: u64 = 1024;

fn on(cfg: &mut Config) {
    cfg.set("NETMOD_CHECKSUM", "on").expect("a setting");
}

/// Both ranks listen behind proxies. Either of those may get the connection, so that they share
/// what they flip.
fn behind_proxies() -> (Tap, Flips) {
    let (tap, flips) = (Tap::default(), Flips::default());
    for rank in 0..2 {
        let flips = flips.clone();
        tap.detour(rank, move |home| Proxy::flipping(home, flips.clone()).addr);
    }
    (tap, flips)
}

#[test]
fn nothing_is_reported_if_nothing_is_altered() {
    let (tap, _) = behind_proxies();
    for stats in run_job_with(&tap, 2, on, |dev| talk(dev, 3).expect("the traffic")) {
        assert_eq!((stats.altered, stats.resumes), (0, 0));
    }
}

/// One at a time: what is flipped on a connection that another one has replaced meanwhile is
/// nobody's to report.
#[test]
fn a_flipped_bit_is_reported_and_what_it_was_part_of_is_sent_again() {
    let mut random = Random::new(7);
    for run in 0..24 {
        let (tap, flips) = behind_proxies();
        // Some at the very start, some anywhere in the first messages.
        let bit = 8 * HANDSHAKE + random.below(if run < 8 { 400 } else { 8_000_000 }) as u64;
        let stats = run_job_with(&tap, 2, on, {
            let flips = flips.clone();
            move |dev| {
                if dev.rank() == 0 {
                    flips.flip(run % 2 == 0, bit);
                }
                let world = dev.world();
                dev.barrier(world).expect("a barrier");
                talk(dev, 2).expect("the traffic")
            }
        });
        let altered: u64 = stats.iter().map(|s| s.altered).sum();
        let resumes: u64 = stats.iter().map(|s| s.resumes).sum();
        assert_eq!((altered, flips.left()), (1, 0), "run {run}: reported, and not flipped");
        // Both sides notice, and both may dial: one of the dials makes the connection, once.
        assert_eq!(resumes, 2, "run {run}");
    }
}

#[test]
fn without_sessions_it_takes_the_vc_down_and_the_error_says_where() {
    let (tap, flips) = behind_proxies();
    let tune = |cfg: &mut Config| {
        on(cfg);
        cfg.set("NETMOD_TCP_RESUME_TIMEOUT", "0s").expect("a setting");
    };
    let errors = run_devices(&tap, 2, tune, move |mut dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        if dev.rank() == 0 {
            flips.flip(true, 8 * 50_000);
        }
        talk(&mut dev, 2).map(|_| ())
    });
    let texts: Vec<String> = errors
        .into_iter()
        .map(|e| match e {
            Err(e @ Error::Peer(_)) => e.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    let told =
        |t: &&String| t.contains("altered on the way") && t.contains("of the stream") && t.contains("rank");
    assert_eq!(texts.iter().filter(told).count(), 1, "{texts:?}");
}

/// Messages flow without checks if one side has them off.
#[test]
fn it_holds_where_both_sides_have_it_on() {
    let tap = Tap::default();
    tap.tune(1, on);
    for stats in run_job_with(&tap, 2, |_| {}, |dev| talk(dev, 1).expect("the traffic")) {
        assert_eq!(stats.altered, 0);
    }
}
