//! Frames of the handshake with wrong bytes: no panic, and no effect on anything but their
//! handshake.

use super::*;

/// Returns the number of handshakes to disturb; NETMOD_TEST_HANDSHAKES raises it.
fn handshakes() -> usize {
    std::env::var("NETMOD_TEST_HANDSHAKES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

/// Mutated frames for each.
const EACH: usize = 64;

fn mutate(rng: &mut Rng, frame: &Frame) -> Frame {
    let mut f = frame.clone();
    let mut bytes = f.bytes.to_vec();
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len());
        match rng.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.extend(std::iter::repeat_n(rng.next() as u8, rng.below(500))),
            2 if !bytes.is_empty() => bytes[at] = rng.next() as u8,
            3 => f.slot.token ^= 1 << rng.below(32),
            4 => f.slot.number = rng.next() as u32 >> rng.below(32),
            5 => f.kind = if f.kind == Kind::Dial { Kind::Answer } else { Kind::Dial },
            6 => f.port = rng.next() as u8,
            _ if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
            _ => {}
        }
    }
    f.bytes = bytes.into();
    f
}

#[test]
fn mutated_frames_disturb_nothing_but_their_own_handshake() {
    let mut rng = Rng(0x00c0_ffee_1234_5677);
    let mut disturbed = 0;
    for round in 0..handshakes() {
        // 1 and 2 are connected; 0 and 1 are about to be.
        let mut w = World::new(3);
        w.rng = Rng(rng.next() | 1);
        let (a, b) = (w.vc(0, 1), w.vc(1, 0));
        let (with2, of2) = (w.vc(1, 2), w.vc(2, 1));
        w.connect(2, of2);
        w.settle();
        (0..3).for_each(|at| drop(w.log(at)));
        w.connect(0, a);
        // HELLO, CHALLENGE, PROOF, ACCEPT, READY.
        let stage = round % 5;
        for step in 0..stage {
            let (from, to) = if step % 2 == 0 { (0, 1) } else { (1, 0) };
            assert!(w.deliver(from, to));
        }
        let (from, to) = if stage % 2 == 0 { (0, 1) } else { (1, 0) };
        let frame = w.wires[from][to].pop_front().unwrap();
        let was_up = [w.processes[0].manager.is_up(a), w.processes[1].manager.is_up(b)];
        for _ in 0..EACH {
            let bad = mutate(&mut rng, &frame);
            if (bad.kind, bad.slot, bad.port, &bad.bytes)
                == (frame.kind, frame.slot, frame.port, &frame.bytes)
            {
                continue;
            }
            disturbed += 1;
            // Also to who has nothing to do with it.
            w.hand(to, &bad);
            w.hand(2, &bad);
            let up = [w.processes[0].manager.is_up(a), w.processes[1].manager.is_up(b)];
            assert_eq!(up, was_up, "stage {stage}: {bad:?}");
            assert!(w.processes[to].met.len() <= 6, "they are bounded");
        }
        w.hand(to, &frame);
        // Connections that the wrong frames broke are made anew. Only a sender that knows the slot
        // and forges the frame behind ACCEPT can break one.
        w.settle();
        let mut logs = [w.log(0), w.log(1)];
        if stage == 4 && logs[0].last().is_some_and(|l| l.starts_with("down Lost rank 1: it has broken")) {
            logs[0].pop();
            w.run(0, |m, _| m.revive(a));
            w.connect(0, a);
        }
        w.pass(Duration::from_secs(19));
        assert!(w.processes[0].manager.is_up(a) && w.processes[1].manager.is_up(b), "stage {stage}");
        assert!(w.processes[1].manager.is_up(with2) && w.processes[2].manager.is_up(of2));
        assert_eq!(w.log(2), Vec::<String>::new(), "the connection of others was not touched");
        logs[0].extend(w.log(0));
        logs[1].extend(w.log(1));
        assert!(logs.iter().flatten().all(|l| l == OPENED || l == "left"), "stage {stage}: {logs:?}");
        for (at, vc) in [(0, a), (1, b), (1, with2), (2, of2)] {
            w.run(at, |m, env| m.remove(vc, env));
        }
        w.pass(Duration::from_secs(30));
        w.assert_quiet();
    }
    assert!(disturbed > handshakes() * EACH / 2);
}

#[test]
fn noise_is_dropped() {
    let mut rng = Rng(99);
    let (mut w, _) = World::pair();
    for _ in 0..20_000 {
        let mut bytes = vec![0; rng.below(700)];
        rng.fill(&mut bytes);
        if rng.below(2) == 0 && bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&netmod_connection::MAGIC);
            bytes[4] &= 7;
            bytes[5] = 0;
            let body = (bytes.len() - 8) as u16;
            bytes[6..8].copy_from_slice(&body.to_le_bytes());
        }
        let kind = if rng.below(2) == 0 { Kind::Dial } else { Kind::Answer };
        let slot = Slot { number: rng.below(3) as u32, token: rng.below(3) as u32 };
        w.hand(0, &Frame { kind, slot, port: 0, bytes: bytes.into() });
    }
    assert!(w.processes[0].manager.refused() > 1_000);
    w.pass(Duration::from_secs(10));
    assert!(w.log(0).is_empty() && w.log(1).is_empty());
    w.assert_quiet();
}
