//! `NETMOD_TCP_SECURITY=off`: what somebody between two processes achieves, with `NETMOD_CHECKSUM`
//! and without. The tests say what the setting does not promise.

use std::sync::{Arc, Mutex};

use ch3_shim::{Config, Device};
use netmod_tcp::{TcpReport, TcpStats};
use netmod_tests::board::{run_devices, run_job_with};
use netmod_tests::jobs::tap::{Meddler, Proxy, Tap};

/// Messages that the man in the middle looks for; they travel in their headers.
const MARK: [u8; 8] = *b"\x01a mark\x02";
const OTHER: [u8; 8] = *b"\x03another";
const NEXT: [u8; 8] = *b"the next";

/// Returns the position of a message in a piece of a connection.
fn find(piece: &[u8], message: &[u8; 8]) -> Option<usize> {
    piece.windows(8).position(|part| part == message)
}

/// All ranks listen behind proxies that do something to the piece with the mark.
fn at_mark(change: fn(&mut Vec<u8>, at: usize)) -> Tap {
    let meddler: Meddler = Arc::new(move |_, mut piece| {
        if let Some(at) = find(&piece, &MARK) {
            change(&mut piece, at);
        }
        piece
    });
    behind(2, &meddler)
}

fn behind(ranks: u32, meddler: &Meddler) -> Tap {
    let tap = Tap::default();
    for rank in 0..ranks {
        let meddler = Arc::clone(meddler);
        tap.detour(rank, move |home| Proxy::meddling(home, Arc::clone(&meddler)).addr);
    }
    tap
}

fn off(cfg: &mut Config) {
    cfg.set("NETMOD_TCP_SECURITY", "off").expect("a setting");
    // Bytes that were invented are acknowledged in sessions, which ends the VC.
    cfg.tcp.resume_local = false;
}

fn checked(cfg: &mut Config) {
    cfg.set("NETMOD_TCP_SECURITY", "off").expect("a setting");
    cfg.set("NETMOD_CHECKSUM", "on").expect("a setting");
}

fn take(dev: &mut Device, from: i32) -> ch3_shim::Result<[u8; 8]> {
    let (mut got, world) = ([0; 8], dev.world());
    dev.recv(&mut got, from, 1, world)?;
    Ok(got)
}

/// Rank 0 sends the mark, and then another message. Returns what rank 1 receives, so many messages.
fn received(tap: &Tap, tune: fn(&mut Config), messages: usize) -> (Vec<[u8; 8]>, TcpStats) {
    let all = run_job_with(tap, 2, tune, move |dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        let mut got = Vec::new();
        if dev.rank() == 0 {
            dev.send(&MARK, 1, 1, world).expect("the message");
            dev.barrier(world).expect("a barrier");
            dev.send(&NEXT, 1, 1, world).expect("the message");
        } else {
            got.push(take(dev, 0).expect("the message"));
            dev.barrier(world).expect("a barrier");
            for _ in 1..messages {
                got.push(take(dev, 0).expect("the message"));
            }
        }
        (got, dev.netmod_report::<TcpReport>().expect("a device over tcp").stats)
    });
    all.into_iter().nth(1).expect("rank 1")
}

#[test]
fn altered_bytes_arrive_as_they_are() {
    let tap = at_mark(|piece, at| piece[at] = b'!');
    let (got, stats) = received(&tap, off, 2);
    assert_eq!((&got[0], got[1]), (b"!a mark\x02", NEXT));
    assert_eq!(stats.altered, 0);
}

#[test]
fn checksums_notice_accidents() {
    // The mark comes again with the session, and is altered once.
    let done = Mutex::new(false);
    let meddler: Meddler = Arc::new(move |_, mut piece| {
        if let Some(at) = find(&piece, &MARK) {
            let mut done = done.lock().expect("nobody panics with it");
            piece[at] ^= u8::from(!*done);
            *done = true;
        }
        piece
    });
    let (got, stats) = received(&behind(2, &meddler), checked, 2);
    assert_eq!((got[0], got[1], stats.altered), (MARK, NEXT, 1));
}

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn checksums_do_not_notice_intent() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let tap = at_mark(|piece, at| {
        // The record is one message: a head of 12 bytes, and a header of 32 bytes.
        let record = (at - 12) / 44 * 44;
        piece[at] = b'!';
        let sum = crc32c(&piece[record + 12..record + 44]);
        piece[record + 8..record + 12].copy_from_slice(&sum.to_le_bytes());
    });
    let (got, stats) = received(&tap, checked, 2);
    assert_eq!((&got[0], got[1], stats.altered), (b"!a mark\x02", NEXT, 0));
}

#[test]
fn a_repeated_message_arrives_twice() {
    let tap = at_mark(|piece, at| {
        let message = piece[at / 32 * 32..][..32].to_vec();
        piece.extend(message);
    });
    let (got, stats) = received(&tap, off, 3);
    assert_eq!((got, stats.altered), (vec![MARK, MARK, NEXT], 0));
}

#[test]
fn a_forged_goodbye_ends_the_connection() {
    let tap = at_mark(|piece, _| {
        let mut goodbye = [0; 32];
        goodbye[..8].copy_from_slice(&[0xff, 1, 0, 0, 0x93, 0x4e, 0x4d, 0x54]);
        piece.extend(goodbye);
    });
    let results = run_devices(&tap, 2, off, |mut dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        if dev.rank() == 0 {
            return dev.send(&MARK, 1, 1, world).and_then(|()| take(&mut dev, 1));
        }
        take(&mut dev, 0).and_then(|_| take(&mut dev, 0))
    });
    assert!(results.iter().all(Result::is_err), "{results:?}");
}

/// It says whose it is, so it ends the connection if that is not changed, too.
#[test]
fn a_message_of_another_connection_ends_the_connection() {
    let kept = Mutex::new(Vec::new());
    let meddler: Meddler = Arc::new(move |_, mut piece| {
        let mut kept = kept.lock().expect("nobody panics with it");
        if let Some(at) = find(&piece, &MARK) {
            kept.extend_from_slice(&piece[at / 32 * 32..][..32]);
        }
        if find(&piece, &OTHER).is_some() {
            piece.append(&mut kept);
        }
        piece
    });
    let all = run_devices(&behind(3, &meddler), 3, off, |mut dev| {
        let world = dev.world();
        for rank in 0..2 {
            dev.barrier(world)?;
            match dev.rank() {
                2 => assert_eq!(take(&mut dev, rank)?, if rank == 0 { MARK } else { OTHER }),
                me if me == rank as u32 => dev.send(if me == 0 { &MARK } else { &OTHER }, 2, 1, world)?,
                _ => {}
            }
        }
        if dev.rank() == 2 { take(&mut dev, 1).map(|_| ()) } else { Ok(()) }
    });
    let error = all[2].as_ref().expect_err("the VC is down").to_string();
    assert!(error.contains("a message with source 0") && error.contains("connection of rank 1"), "{error}");
}
