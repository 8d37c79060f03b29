//! Pairs as terms of the handshake, and the frames that carry them.

use netmod_connection::{
    Directory, HEADER_LEN, Initiator, InitiatorParams, InitiatorStep, JobKey, Purpose, RejectReason,
    Responder, ResponderParams, ResponderStep, Versions, reject_unauthenticated,
};
use netmod_core::{GroupId, PeerName};

use super::*;

const GROUP: GroupId = GroupId([0x11; 16]);
const KEY: JobKey = JobKey([0x5a; 32]);

fn name(rank: u32) -> PeerName {
    PeerName { group: GROUP, rank }
}

struct Job;

impl Directory for Job {
    fn key(&self, _: &GroupId) -> Option<JobKey> {
        Some(KEY)
    }
    fn group_size(&self, _: &GroupId) -> Option<u32> {
        Some(4)
    }
    fn port_is_open(&self, _: u64) -> bool {
        false
    }
    fn name_for(&self, _: &GroupId, _: Purpose, me: PeerName) -> Option<PeerName> {
        Some(me)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of TCP's frames: other releases of it speak so.
#[test]
fn the_bytes_are_these() {
    let params = InitiatorParams {
        me: name(1),
        peer: name(2),
        purpose: Purpose::Vc,
        versions: Versions::OURS,
        caps: 0b1110,
        incarnation: 0x0102_0304_0506_0708,
        dial: 3,
        session: 0,
        position: 0,
        terms: Pairs::new(0x2122_2324_2526_2728, [(3, 5), (4, 6)]).terms(),
        key: KEY,
    };
    let (mut i, hello) = Initiator::new(params, [0xa1; 32]);
    let want = "934e4d540100d8000100010000000000".to_owned()
        + "0e00000000000000"
        + &"11".repeat(16)
        + "01000000"
        + &"11".repeat(16)
        + "02000000"
        + "0000000000000000"
        + "0807060504030201"
        + "0300000000000000"
        + &"00".repeat(16)
        + "2827262524232221"
        + "0200000000000000"
        + "03000000050000000400000006000000"
        + &"00".repeat(56)
        + &"a1".repeat(32);
    assert_eq!(hex(hello.as_bytes()), want);
    let ours = ResponderParams {
        me: name(2),
        versions: Versions::OURS,
        caps: 0,
        incarnation: 0x1112_1314_1516_1718,
    };
    let mut r = Responder::new(ours, [0xb2; 32]);
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(hello.as_bytes(), &Job).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(p)) = i.on_bytes(c.as_bytes()).unwrap() else { panic!("no proof") };
    r.on_bytes(p.as_bytes(), &Job).unwrap();
    let terms = "2827262524232221".to_owned() + "01000000000000000500000003000000" + &"00".repeat(64);
    let decided = Pairs::new(0x2122_2324_2526_2728, [(5, 3)]).terms();
    let reject = r.clone().reject(RejectReason::OtherPair, &decided).unwrap();
    let head = "934e4d5405008000".to_owned() + "0a01000000000000";
    assert_eq!(hex(&reject.as_bytes()[..HEADER_LEN + 8 + PAIRS_LEN]), head + &terms);
    let accept = r.accept(0, 0, &decided).unwrap();
    let head = "934e4d5404008800".to_owned() + &"00".repeat(16);
    assert_eq!(hex(&accept.as_bytes()[..HEADER_LEN + 16 + PAIRS_LEN]), head + &terms);
    let reject = reject_unauthenticated(RejectReason::WrongPeer, PAIRS_LEN);
    let want = "934e4d54050080001200000000000000".to_owned() + &"00".repeat(120);
    assert_eq!(hex(reject.as_bytes()), want);
}

#[test]
fn pairs_survive_the_wire_turned_round() {
    let many: Vec<(u32, u32)> = (0..20).map(|i| (i + 1, 100 - i)).collect();
    for n in 0..=20 {
        let pairs = Pairs::new(n as u64, many[..n].iter().copied());
        assert_eq!(pairs.as_slice(), &many[..n.min(MAX_PAIRS)]);
        let turned = Pairs::new(n as u64, many[..n].iter().map(|(mine, yours)| (*yours, *mine)));
        assert_eq!(Pairs::read(&pairs.terms(), FrameType::Accept), Ok(turned));
    }
    assert_eq!(Pairs::read(&Pairs::default().terms(), FrameType::Hello), Ok(Pairs::default()));
    let offer = Pairs::new(7, [(3, 5)]).offered(true);
    let turned = Pairs::new(7, [(5, 3)]).offered(true);
    assert_eq!(Pairs::read(&offer.terms(), FrameType::Hello), Ok(turned));
}

#[test]
fn other_terms_than_pairs_are_refused() {
    let kind = FrameType::Hello;
    let good = Pairs::new(7, [(3, 5), (4, 6)]).terms().as_bytes().to_vec();
    // Too many, reserved bytes, something behind the last.
    for (byte, value) in
        [(8, 10), (8, 255), (9, 2), (10, 1), (15, 1), (16 + 2 * 8, 1), (16 + 9 * 8 - 1, 1), (8, 1)]
    {
        let mut bad = good.clone();
        bad[byte] = value;
        let got = Pairs::read(&Terms::new(&bad).unwrap(), kind);
        assert_eq!(got, Err(HandshakeError::BadTerms { kind }), "byte {byte}");
    }
    for len in 0..=netmod_connection::MAX_TERMS {
        let mut other = good.clone();
        other.resize(len, 0);
        let got = Pairs::read(&Terms::new(&other).unwrap(), kind);
        assert_eq!(got.is_ok(), len == PAIRS_LEN, "{len}");
    }
}

/// An unproved frame says nothing of interfaces; a proved one says pairs or is refused.
#[test]
fn answers_say_pairs_as_far_as_they_are_proved() {
    let pairs = Pairs::new(7, [(3, 5)]);
    let turned = Pairs::new(7, [(5, 3)]);
    let accepted = |terms| InitiatorStep::Accepted {
        version: 1,
        caps: 0,
        incarnation: 1,
        dials: 0,
        session: 1,
        position: 0,
        terms,
    };
    let reason = RejectReason::OtherPair;
    let rejected = |proved, terms| InitiatorStep::Rejected { reason, proved, terms };
    let other = || Terms::from([0; PAIRS_LEN - 1]);
    for (step, want) in [
        (accepted(pairs.terms()), Ok(turned)),
        (accepted(other()), Err(HandshakeError::BadTerms { kind: FrameType::Accept })),
        (rejected(true, pairs.terms()), Ok(turned)),
        (rejected(true, other()), Err(HandshakeError::BadTerms { kind: FrameType::Reject })),
        (rejected(false, Terms::default()), Ok(Pairs::default())),
        (InitiatorStep::NeedMore, Ok(Pairs::default())),
    ] {
        assert_eq!(answered(&step), want, "{step:?}");
    }
}
