//! Over a million altered frames: no panic, and nothing accepted that was not made with the key.

use super::*;

/// A small generator (splitmix64); the seed is in the test, so a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    /// One to three changes: a bit, a byte, a cut, a doubled or an inserted part.
    fn alter(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut out = frame.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(out.len().max(1));
            match self.below(5) {
                0 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                1 if !out.is_empty() => out[at] = self.roll() as u8,
                2 => out.truncate(at),
                3 => out.extend_from_within(at.min(out.len())..),
                _ => out.insert(at.min(out.len()), self.roll() as u8),
            }
        }
        out
    }
}

#[test]
fn a_million_altered_frames_are_refused() {
    let x = exchange();
    let mut dice = Dice(20_240_607);
    let (start, _) = initiator();
    let mut proved = start.clone();
    proved.on_bytes(x.challenge.as_bytes()).unwrap();
    let mut waiting = responder();
    waiting.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    let mut accepted = waiting.clone();
    accepted.on_bytes(x.proof.as_bytes(), &JOB).unwrap();
    assert_eq!(accepted.accept(9, 0, &decided()), Some(x.accept.clone()));

    let mut stepped = 0u32;
    for round in 0..260_000u32 {
        // HELLO: everything may be claimed, and a changed one leads to a CHALLENGE that the real
        // initiator does not accept.
        let bytes = dice.alter(x.hello.as_bytes());
        if let Ok((_, ResponderStep::Challenge(c))) = responder().on_bytes(&bytes, &JOB) {
            stepped += 1;
            let answer = start.clone().on_bytes(c.as_bytes());
            let same = bytes.starts_with(x.hello.as_bytes());
            assert_eq!(matches!(answer, Ok((_, InitiatorStep::Prove(_)))), same, "round {round}");
        }
        let bytes = dice.alter(x.challenge.as_bytes());
        if let Ok((_, InitiatorStep::Prove(p))) = start.clone().on_bytes(&bytes) {
            assert!(bytes.starts_with(x.challenge.as_bytes()), "round {round}");
            assert_eq!(p, x.proof);
        }
        let bytes = dice.alter(x.proof.as_bytes());
        if let Ok((_, ResponderStep::Proved(_))) = waiting.clone().on_bytes(&bytes, &JOB) {
            assert!(bytes.starts_with(x.proof.as_bytes()), "round {round}");
        }
        let (frame, bytes) = if round % 2 == 0 {
            (&x.accept, dice.alter(x.accept.as_bytes()))
        } else {
            (&x.ready, dice.alter(x.ready.as_bytes()))
        };
        let is_accept = round % 2 == 0;
        let through = if is_accept {
            matches!(proved.clone().on_bytes(&bytes), Ok((_, InitiatorStep::Accepted { .. })))
        } else {
            matches!(accepted.clone().on_bytes(&bytes, &JOB), Ok((_, ResponderStep::Ready)))
        };
        assert!(!through || bytes.starts_with(frame.as_bytes()), "round {round}");
    }
    assert!(stepped > 1_000, "only {stepped} altered hellos were answered: too little was explored");
}

#[test]
fn every_single_bit_of_every_authenticated_frame_counts() {
    let x = exchange();
    let flips = |frame: &Frame| {
        let bytes = frame.as_bytes().to_vec();
        (0..bytes.len() * 8).map(move |bit| {
            let mut b = bytes.clone();
            b[bit / 8] ^= 1 << (bit % 8);
            b
        })
    };
    for bytes in flips(&x.challenge) {
        assert!(initiator().0.on_bytes(&bytes).is_err());
    }
    let mut r = responder();
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    for bytes in flips(&x.proof) {
        assert!(r.clone().on_bytes(&bytes, &JOB).is_err());
    }
    r.on_bytes(x.proof.as_bytes(), &JOB).unwrap();
    assert!(r.accept(0, 0, &decided()).is_some());
    for bytes in flips(&x.ready) {
        let through = matches!(r.clone().on_bytes(&bytes, &JOB), Ok((_, ResponderStep::Ready)));
        assert!(!through);
    }
    let (mut i, _) = initiator();
    i.on_bytes(x.challenge.as_bytes()).unwrap();
    for bytes in flips(&x.accept) {
        let step = i.clone().on_bytes(&bytes);
        assert!(!matches!(step, Ok((_, InitiatorStep::Accepted { .. }))));
    }
}
