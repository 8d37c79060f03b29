//! `NETMOD_TCP_SECURITY`: somebody between two processes alters, repeats, invents and reads bytes.
//! What they send each other arrives as it was, and he is noticed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ch3_shim::{Config, Device};
use netmod_connection::Initiator;
use netmod_tcp::{TcpReport, TcpStats};
use netmod_tests::board::{run_devices, run_job_with};
use netmod_tests::jobs::pattern::{Random, bytes, check, seed};
use netmod_tests::jobs::tap::{Flips, Meddler, Proxy, Tap, talk};

/// More bytes than the handshakes of two dials that cross have, either way.
const HANDSHAKE: u64 = 1024;
/// The settings that protect the stream.
const KEYED: [&str; 2] = ["auth", "encrypt"];

fn set(cfg: &mut Config, security: &str) {
    cfg.set("NETMOD_TCP_SECURITY", security).expect("a setting");
}

/// Both ranks listen behind proxies, either of which may get the connection.
fn behind(proxy: impl Fn() -> Meddler) -> Tap {
    let tap = Tap::default();
    for rank in 0..2 {
        let meddler = proxy();
        tap.detour(rank, move |home| Proxy::meddling(home, Arc::clone(&meddler)).addr);
    }
    tap
}

fn altered(stats: &[TcpStats]) -> u64 {
    stats.iter().map(|s| s.altered).sum()
}

#[test]
fn nothing_is_reported_if_nobody_meddles() {
    for security in KEYED {
        let tap = behind(|| Arc::new(|_, piece| piece));
        let tune = move |cfg: &mut Config| set(cfg, security);
        let stats = run_job_with(&tap, 2, tune, |dev| talk(dev, 3).expect("the traffic"));
        assert!(stats.iter().all(|s| (s.altered, s.resumes) == (0, 0)), "{security}");
    }
}

#[test]
fn altered_bytes_are_noticed_and_sent_again() {
    let mut random = Random::new(11);
    for run in 0..16 {
        let (tap, flips) = (Tap::default(), Flips::default());
        for rank in 0..2 {
            let flips = flips.clone();
            tap.detour(rank, move |home| Proxy::flipping(home, flips.clone()).addr);
        }
        let bit = 8 * HANDSHAKE + random.below(if run < 4 { 400 } else { 8_000_000 }) as u64;
        let tune = move |cfg: &mut Config| set(cfg, KEYED[run % 2]);
        let flipped = flips.clone();
        let stats = run_job_with(&tap, 2, tune, move |dev| {
            if dev.rank() == 0 {
                flipped.flip(run % 4 < 2, bit);
            }
            let world = dev.world();
            dev.barrier(world).expect("a barrier");
            talk(dev, 2).expect("the traffic")
        });
        assert_eq!((altered(&stats), flips.left()), (1, 0), "run {run}");
    }
}

/// Inserts bytes once, behind so many others of one direction.
fn inserting(after: usize, what: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Meddler {
    let seen = Mutex::new(Some(Vec::new()));
    Arc::new(move |towards, mut piece| {
        let mut seen = seen.lock().expect("nobody panics with it");
        if let Some(before) = seen.as_mut().filter(|_| towards) {
            before.extend_from_slice(&piece);
            if before.len() > after {
                piece.extend(what(before));
                *seen = None;
            }
        }
        piece
    })
}

#[test]
fn repeated_bytes_are_noticed() {
    for security in KEYED {
        for (i, after) in [3_000, 50_000, 400_000].into_iter().enumerate() {
            // The last bytes, or the first ones, come once more.
            let tap = behind(|| {
                inserting(after, move |before| match i % 2 {
                    0 => before[before.len() - 1000..].to_vec(),
                    _ => before[HANDSHAKE as usize..HANDSHAKE as usize + 900].to_vec(),
                })
            });
            let tune = move |cfg: &mut Config| set(cfg, security);
            let stats = run_job_with(&tap, 2, tune, |dev| talk(dev, 2).expect("the traffic"));
            assert!(altered(&stats) > 0, "{security}, behind {after} bytes");
        }
    }
}

#[test]
fn a_forged_goodbye_ends_nothing() {
    for security in KEYED {
        for after in [3_000, 200_000] {
            let tap = behind(|| inserting(after, |_| Initiator::goodbye().as_bytes().repeat(20)));
            let tune = move |cfg: &mut Config| set(cfg, security);
            let stats = run_job_with(&tap, 2, tune, |dev| talk(dev, 2).expect("the traffic"));
            assert!(altered(&stats) > 0, "{security}, behind {after} bytes");
        }
    }
}

/// Bytes of one connection are put into another one of the same job.
#[test]
fn bytes_of_another_connection_are_noticed() {
    for security in KEYED {
        let other = Arc::new(Mutex::new(Vec::<u8>::new()));
        let tap = Tap::default();
        for rank in 0..3 {
            let other = Arc::clone(&other);
            tap.detour(rank, move |home| {
                let other = Arc::clone(&other);
                // Ranks 0 and 1 dial rank 2, or are dialled by it.
                let meddler: Meddler = match rank {
                    0 => Arc::new(move |_, piece| {
                        other.lock().expect("nobody panics with it").extend_from_slice(&piece);
                        piece
                    }),
                    _ => inserting(30_000, move |_| {
                        let other = other.lock().expect("nobody panics with it");
                        other[other.len().saturating_sub(2000)..].to_vec()
                    }),
                };
                Proxy::meddling(home, meddler).addr
            });
        }
        let tune = move |cfg: &mut Config| set(cfg, security);
        let stats = run_job_with(&tap, 3, tune, |dev| {
            let (world, me, n) = (dev.world(), dev.rank(), 3);
            for round in 0..20 {
                for by in 1..n {
                    let (to, from) = ((me + by) % n, (me + n - by) % n);
                    let name = |rank: u32| seed(&[round, u64::from(rank)]);
                    let mut got = vec![0; 9000];
                    let sent = bytes(name(me), 9000);
                    dev.sendrecv(&sent, to as i32, 1, &mut got, from as i32, 1, world).expect("the traffic");
                    check(name(from), &got).expect("no wrong byte arrives");
                }
            }
            dev.netmod_report::<TcpReport>().expect("a device over tcp").stats
        });
        assert!(altered(&stats) > 0, "{security}");
    }
}

#[test]
fn encryption_hides_what_authentication_shows() {
    const TEXT: &[u8] = b"what they say to each other is nobody's business";
    for (security, shown) in [("auth", true), ("encrypt", false)] {
        let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
        let listener = Arc::clone(&heard);
        let tap = behind(|| {
            let listener = Arc::clone(&listener);
            Arc::new(move |_, piece| {
                listener.lock().expect("nobody panics with it").extend_from_slice(&piece);
                piece
            })
        });
        let tune = move |cfg: &mut Config| set(cfg, security);
        run_job_with(&tap, 2, tune, |dev| {
            let (world, other) = (dev.world(), 1 - dev.rank() as i32);
            let (data, mut got) = (TEXT.repeat(100), vec![0; TEXT.len() * 100]);
            dev.sendrecv(&data, other, 1, &mut got, other, 1, world).expect("the message");
            assert_eq!(got, data);
        });
        let heard = heard.lock().expect("nobody panics with it");
        assert_eq!(heard.windows(TEXT.len()).any(|part| part == TEXT), shown, "{security}");
    }
}

#[test]
fn a_connection_that_is_cut_is_resumed_with_new_keys() {
    for security in KEYED {
        let tap = Tap::default();
        for rank in 0..2 {
            tap.detour(rank, move |home| {
                let proxy = Proxy::new(home);
                proxy.cut_after(700_000);
                proxy.addr
            });
        }
        let tune = move |cfg: &mut Config| set(cfg, security);
        let stats = run_job_with(&tap, 2, tune, |dev| talk(dev, 2).expect("the traffic"));
        assert_eq!(altered(&stats), 0, "{security}");
        assert!(stats.iter().map(|s| s.resumes).sum::<u64>() > 0, "{security}");
    }
}

#[test]
fn processes_with_other_settings_refuse_each_other_and_say_why() {
    for (one, other) in [("off", "auth"), ("auth", "off"), ("auth", "encrypt"), ("encrypt", "off")] {
        let tap = Tap::default();
        tap.tune(1, move |cfg| set(cfg, other));
        let tune = move |cfg: &mut Config| {
            set(cfg, one);
            // One of them may be gone when the other dials.
            cfg.set("NETMOD_TCP_CONNECT_TIMEOUT", "1s").expect("a setting");
        };
        let errors = run_devices(&tap, 2, tune, |mut dev| talk(&mut dev, 1).map(|_| ()));
        let texts: Vec<String> = errors.into_iter().filter_map(|e| e.err().map(|e| e.to_string())).collect();
        assert!(texts.iter().any(|text| text.contains("NETMOD_TCP_SECURITY")), "{one}, {other}: {texts:?}");
    }
}

/// A change of a piece of a rail, which is told the bytes before it in its direction, and those of
/// another rail.
type OnRail = fn(before: &[u8], other: &[u8], piece: &mut Vec<u8>);

/// Bytes of a rail's handshake, either way, and more.
const RAIL_HANDSHAKE: usize = 600;

/// Both ranks listen behind proxies that do something to a few rails, once to each, and to nothing
/// else; `towards` says to which direction.
fn behind_on_rails(towards: bool, times: usize, attack: OnRail) -> Tap {
    let tap = Tap::default();
    let (left, last) = (Arc::new(AtomicUsize::new(times)), Arc::new(Mutex::new(Vec::<u8>::new())));
    for rank in 0..2 {
        let (left, last) = (Arc::clone(&left), Arc::clone(&last));
        let make = move || -> Meddler {
            let (left, last) = (Arc::clone(&left), Arc::clone(&last));
            let seen = Mutex::new((None, false, Vec::<u8>::new()));
            Arc::new(move |to, mut piece| {
                let mut seen = seen.lock().expect("nobody panics with it");
                let (is_rail, done, before) = &mut *seen;
                // The purpose in HELLO, behind the head of the frame and two versions.
                if to && is_rail.is_none() {
                    *is_rail = Some(piece.get(12) == Some(&2));
                }
                if *is_rail != Some(true) || to != towards || *done {
                    return piece;
                }
                before.extend_from_slice(&piece);
                if before.len() > RAIL_HANDSHAKE + if towards { 100_000 } else { 64 } {
                    *done = true;
                    let mut last = last.lock().expect("nobody panics with it");
                    let due = !last.is_empty() && left.load(Ordering::SeqCst) > 0;
                    if due {
                        left.fetch_sub(1, Ordering::SeqCst);
                        attack(before, &last, &mut piece);
                    }
                    *last = std::mem::take(before);
                }
                piece
            })
        };
        tap.detour(rank, move |home| Proxy::with_meddlers(home, make.clone()).addr);
    }
    tap
}

/// The settings by which large messages go by rails.
fn by_rails(cfg: &mut Config, security: &str) {
    set(cfg, security);
    (cfg.lmt, cfg.lmt_min, cfg.eager_max) = ("put", 1, 24 << 10);
    cfg.tcp.rails_loopback = 3;
}

fn bulk(dev: &mut Device) -> TcpStats {
    let (me, other, world) = (u64::from(dev.rank()), 1 - dev.rank() as i32, dev.world());
    for round in 0..15 {
        let name = |rank: u64| seed(&[round, rank]);
        let (sent, mut got) = (bytes(name(me), 1_500_000), vec![0; 1_500_000]);
        dev.sendrecv(&sent, other, 1, &mut got, other, 1, world).expect("the message");
        check(name(1 - me), &got).expect("no wrong byte arrives");
    }
    dev.netmod_report::<TcpReport>().expect("a device over tcp").stats
}

/// An attack on a rail is noticed and counted, the rail ends, and its chunks go again.
#[test]
fn meddling_with_rails_is_noticed_and_nothing_is_lost() {
    let attacks: [(&str, bool, OnRail); 6] = [
        ("alters data", true, |_, _, piece| piece[0] ^= 1),
        ("alters acknowledgements", false, |_, _, piece| piece[0] ^= 1),
        ("repeats data", true, |before, _, piece| piece.extend_from_slice(&before[before.len() - 1000..])),
        ("repeats all", true, |before, _, piece| piece.extend_from_slice(&before[RAIL_HANDSHAKE..])),
        ("puts bytes of another rail in", true, |_, other, piece| {
            piece.extend_from_slice(&other[other.len() - 5000..]);
        }),
        ("puts acknowledgements of another rail in", false, |_, other, piece| {
            piece.extend_from_slice(&other[other.len() - 52..]);
        }),
    ];
    for security in KEYED {
        for (what, towards, attack) in attacks {
            let tap = behind_on_rails(towards, 2, attack);
            let stats = run_job_with(&tap, 2, move |cfg| by_rails(cfg, security), bulk);
            let sum = |of: fn(&TcpStats) -> u64| stats.iter().map(of).sum::<u64>();
            assert_eq!(altered(&stats), 2, "{security}: {what}: {stats:?}");
            assert_eq!((sum(|s| s.rail_faults), sum(|s| s.resumes)), (2, 0), "{security}: {what}: {stats:?}");
            assert!(sum(|s| s.rail_tx_bytes) > 10 << 20, "{security}: {what}: {stats:?}");
        }
    }
}

/// A text that large messages consist of.
const TEXT: &[u8] = b"a long message, and whose business it is";

/// Without protection what a rail carries is taken as it comes; checksums notice accidents.
#[test]
fn unprotected_rails_carry_what_somebody_makes_of_it() {
    for (checksum, wrong, faults) in [("off", 2, 0), ("on", 0, 2)] {
        let tap = behind_on_rails(true, 2, |_, _, piece| {
            let at = piece.windows(TEXT.len()).position(|part| part == TEXT);
            piece[at.expect("more than one text in a piece")] = b'A';
        });
        let tune = move |cfg: &mut Config| {
            by_rails(cfg, "off");
            cfg.set("NETMOD_CHECKSUM", checksum).expect("a setting");
        };
        let seen = run_job_with(&tap, 2, tune, |dev| {
            let (world, other) = (dev.world(), 1 - dev.rank() as i32);
            let (data, mut got) = (TEXT.repeat(40_000), vec![0; TEXT.len() * 40_000]);
            let mut wrong = 0;
            for _ in 0..15 {
                dev.sendrecv(&data, other, 1, &mut got, other, 1, world).expect("the message");
                wrong += got.iter().zip(&data).filter(|(got, sent)| got != sent).count();
            }
            (wrong, dev.netmod_report::<TcpReport>().expect("a device over tcp").stats)
        });
        let (counts, stats): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
        assert_eq!(counts.iter().sum::<usize>(), wrong, "checksums {checksum}: {stats:?}");
        assert_eq!(
            stats.iter().map(|s| s.rail_faults).sum::<u64>(),
            faults,
            "checksums {checksum}: {stats:?}"
        );
        assert_eq!(altered(&stats), faults, "checksums {checksum}: {stats:?}");
    }
}

#[test]
fn encryption_hides_what_rails_carry() {
    for (security, shown) in [("auth", true), ("encrypt", false)] {
        let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
        let tap = Tap::default();
        for rank in 0..2 {
            let heard = Arc::clone(&heard);
            let listener: Meddler = Arc::new(move |_, piece| {
                heard.lock().expect("nobody panics with it").extend_from_slice(&piece);
                piece
            });
            tap.detour(rank, move |home| Proxy::meddling(home, Arc::clone(&listener)).addr);
        }
        let stats = run_job_with(
            &tap,
            2,
            move |cfg| by_rails(cfg, security),
            |dev| {
                let (world, other) = (dev.world(), 1 - dev.rank() as i32);
                let (data, mut got) = (TEXT.repeat(25_000), vec![0; TEXT.len() * 25_000]);
                for _ in 0..20 {
                    dev.sendrecv(&data, other, 1, &mut got, other, 1, world).expect("the message");
                    assert!(got == data);
                }
                dev.netmod_report::<TcpReport>().expect("a device over tcp").stats
            },
        );
        assert!(stats.iter().all(|s| s.rail_tx_bytes > 1 << 20), "{security}: {stats:?}");
        let heard = heard.lock().expect("nobody panics with it");
        assert_eq!(heard.windows(TEXT.len()).any(|part| part == TEXT), shown, "{security}");
    }
}
