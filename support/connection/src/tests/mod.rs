//! The handshake between two objects: right, cut up, altered, recorded, reflected.

mod altered;
mod refused;
mod terms;

use netmod_core::{GroupId, PeerName};

use super::*;

pub(super) const KEY: JobKey = JobKey([0x5a; 32]);
pub(super) const GROUP: GroupId = GroupId([0x11; 16]);

pub(super) fn name(rank: u32) -> PeerName {
    PeerName { group: GROUP, rank }
}

/// The incarnation of the responder.
const THEIRS: u64 = 0x1112_1314_1516_1718;

pub(super) struct Job {
    pub(super) key: JobKey,
    pub(super) size: u32,
    pub(super) port: u64,
}

pub(super) const JOB: Job = Job { key: KEY, size: 4, port: 77 };

impl Directory for Job {
    fn key(&self, group: &GroupId) -> Option<JobKey> {
        (*group == GROUP).then_some(self.key)
    }
    fn group_size(&self, group: &GroupId) -> Option<u32> {
        (*group == GROUP).then_some(self.size)
    }
    fn port_is_open(&self, port: u64) -> bool {
        port == self.port
    }
    fn name_for(&self, _group: &GroupId, _purpose: Purpose, me: PeerName) -> Option<PeerName> {
        Some(me)
    }
}

/// 80 bytes: these and zeroes.
fn padded(numbers: &[u8]) -> Terms {
    let mut terms = [0; 80];
    terms[..numbers.len()].copy_from_slice(numbers);
    Terms::from(terms)
}

/// The initiator's proposal; the responder decides, as in the TCP netmod.
pub(super) fn proposed() -> Terms {
    padded(&[
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 4, 0,
        0, 0, 6,
    ])
}

pub(super) fn decided() -> Terms {
    padded(&[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3])
}

pub(super) fn dial() -> InitiatorParams {
    InitiatorParams {
        me: name(1),
        peer: name(2),
        purpose: Purpose::Vc,
        versions: Versions::OURS,
        caps: 0b1110,
        incarnation: 0x0102_0304_0506_0708,
        dial: 3,
        session: 0,
        position: 0,
        terms: proposed(),
        key: KEY,
    }
}

pub(super) fn initiator() -> (Initiator, Frame) {
    Initiator::new(dial(), [0xa1; 32])
}

pub(super) fn responder() -> Responder {
    let params = ResponderParams { me: name(2), versions: Versions::OURS, caps: 0b0111, incarnation: THEIRS };
    Responder::new(params, [0xb2; 32])
}

/// The description of itself in [`dial`].
fn claim() -> Claim {
    Claim {
        peer: name(1),
        purpose: Purpose::Vc,
        offers: 0b1110,
        incarnation: 0x0102_0304_0506_0708,
        dial: 3,
        session: 0,
        position: 0,
        terms: proposed(),
    }
}

/// Everything that a right exchange puts on the wire, by its author and in order.
pub(super) struct Exchange {
    pub(super) hello: Frame,
    pub(super) challenge: Frame,
    pub(super) proof: Frame,
    pub(super) accept: Frame,
    pub(super) ready: Frame,
}

pub(super) fn exchange() -> Exchange {
    let (mut i, hello) = initiator();
    let mut r = responder();
    let (_, ResponderStep::Challenge(challenge)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(proof)) = i.on_bytes(challenge.as_bytes()).unwrap() else {
        panic!("no proof")
    };
    let (_, ResponderStep::Proved(proved)) = r.on_bytes(proof.as_bytes(), &JOB).unwrap() else {
        panic!("not proved")
    };
    assert_eq!(proved, Proved { claim: claim(), version: 1, caps: 0b0110, fresh: SESSION });
    assert_eq!(r.sender(), Sender::Peer);
    let accept = r.accept(9, 0, &decided()).unwrap();
    let (_, step) = i.on_bytes(accept.as_bytes()).unwrap();
    let want = InitiatorStep::Accepted {
        version: 1,
        caps: 0b0110,
        incarnation: THEIRS,
        dials: 9,
        session: SESSION,
        position: 0,
        terms: decided(),
    };
    assert_eq!(step, want);
    assert_eq!(i.sender(), Sender::Peer);
    let ready = i.ready().unwrap();
    assert_eq!(r.on_bytes(ready.as_bytes(), &JOB).unwrap().1, ResponderStep::Ready);
    Exchange { hello, challenge, proof, accept, ready }
}

/// Feeds a responder pieces; returns what it stepped through and how many bytes it took.
fn feed_responder(pieces: &[&[u8]]) -> (Vec<ResponderStep>, usize) {
    let mut r = responder();
    let (mut steps, mut taken) = (vec![], 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (used, step) = r.on_bytes(rest, &JOB).unwrap();
            taken += used;
            rest = &rest[used..];
            if let ResponderStep::Proved(_) = step {
                assert!(r.accept(9, 0, &decided()).is_some());
            }
            if step != ResponderStep::NeedMore {
                steps.push(step);
            }
            if used == 0 || rest.is_empty() {
                break;
            }
        }
    }
    (steps, taken)
}

fn feed_initiator(pieces: &[&[u8]]) -> (Vec<InitiatorStep>, usize) {
    let (mut i, _) = initiator();
    let (mut steps, mut taken) = (vec![], 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (used, step) = i.on_bytes(rest).unwrap();
            taken += used;
            rest = &rest[used..];
            if step != InitiatorStep::NeedMore {
                steps.push(step);
            }
            if used == 0 || rest.is_empty() {
                break;
            }
        }
    }
    (steps, taken)
}

#[test]
fn any_fragmentation_gives_the_same_and_nothing_behind_the_hello_is_taken() {
    let x = exchange();
    let to_responder = [x.hello.as_bytes(), x.proof.as_bytes(), x.ready.as_bytes()].concat();
    let to_initiator = [x.challenge.as_bytes(), x.accept.as_bytes()].concat();
    let junk = [0xee; 40];
    let with = |bytes: &[u8]| [bytes, &junk[..]].concat();
    let (all_r, all_i) = (with(&to_responder), with(&to_initiator));
    let right_r = feed_responder(&[&all_r]);
    let right_i = feed_initiator(&[&all_i]);
    assert_eq!((right_r.0.len(), right_r.1), (3, to_responder.len()));
    assert_eq!((right_i.0.len(), right_i.1), (2, to_initiator.len()));
    for cut in 0..=all_r.len() {
        let (a, b) = all_r.split_at(cut);
        assert_eq!(feed_responder(&[a, b]), right_r, "cut at {cut}");
    }
    for cut in 0..=all_i.len() {
        let (a, b) = all_i.split_at(cut);
        assert_eq!(feed_initiator(&[a, b]), right_i, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = all_r.chunks(1).collect();
    assert_eq!(feed_responder(&bytes), right_r);
    let bytes: Vec<&[u8]> = all_i.chunks(1).collect();
    assert_eq!(feed_initiator(&bytes), right_i);
    for size in 2..60 {
        let pieces: Vec<&[u8]> = all_r.chunks(size).collect();
        assert_eq!(feed_responder(&pieces), right_r, "pieces of {size}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_bytes_are_these() {
    let x = exchange();
    let hello = "934e4d540100d0000100010000000000".to_owned()
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
        + &"00".repeat(48)
        + &"a1".repeat(32);
    assert_eq!(hex(x.hello.as_bytes()), hello);
    let challenge = "934e4d54020058000100000000000000".to_owned()
        + "0600000000000000"
        + "1817161514131211"
        + &"b2".repeat(32);
    assert_eq!(hex(&x.challenge.as_bytes()[..64]), challenge);
    assert_eq!(hex(&x.challenge.as_bytes()[64..]), GOLDEN[0]);
    assert_eq!(hex(x.proof.as_bytes()), "934e4d5403002000".to_owned() + GOLDEN[1]);
    let accept = "934e4d5404008000".to_owned()
        + "0900000000000000"
        + &"00".repeat(8)
        + "2827262524232221"
        + "0100000000000000"
        + "0500000003000000"
        + &"00".repeat(56);
    assert_eq!(hex(x.accept.as_bytes()), accept + GOLDEN[2]);
    assert_eq!(hex(x.ready.as_bytes()), "934e4d5406002000".to_owned() + GOLDEN[3]);
    assert_eq!(hex(Initiator::goodbye().as_bytes()), "934e4d5407000000");
    let reject = reject_unauthenticated(RejectReason::WrongPeer, 80);
    let want = "934e4d54050078001200000000000000".to_owned() + &"00".repeat(112);
    assert_eq!(hex(reject.as_bytes()), want);
}

/// Computed outside of this program, by Python's `hmac`, from the layout above.
const GOLDEN: [&str; 4] = [
    "15c59df5a1e931aae6f27c731e0e3857dac7cb1f59bc4f5d38c1f662c427e1e9",
    "d94916eb753b1ea4d03ed7db1a1b5c7e31121b50882dd3c9a1d2cfe7043e2f5c",
    "5c0e2b4b0ab634d3a3e8b13725ba9453b774df35b4ab4a6be70fcde87ad3e3e3",
    "68276bae713dcabb8fb594c2ccbc9917d871ce2fcafa2d34396e74a06d26a350",
];

/// The name of the session that begins with that exchange, from the same source.
const SESSION: u64 = 0xcf1a_fb92_721d_7a0c;

#[test]
fn connect_to_root_needs_an_open_port_and_no_known_group() {
    let root = PeerName { group: GroupId([9; 16]), rank: 1000 };
    let params = InitiatorParams { me: root, purpose: Purpose::Root { port: 77 }, ..dial() };
    let (mut i, hello) = Initiator::new(params.clone(), [1; 32]);
    let mut r = responder();
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(p)) = i.on_bytes(c.as_bytes()).unwrap() else { panic!("no proof") };
    let (_, ResponderStep::Proved(proved)) = r.on_bytes(p.as_bytes(), &JOB).unwrap() else {
        panic!("not proved")
    };
    assert_eq!((proved.claim.peer, proved.claim.purpose), (root, Purpose::Root { port: 77 }));

    let params = InitiatorParams { purpose: Purpose::Root { port: 78 }, ..params };
    let (_, hello) = Initiator::new(params, [1; 32]);
    let error = responder().on_bytes(hello.as_bytes(), &JOB).unwrap_err();
    assert_eq!(error, HandshakeError::NoSuchPort { port: 78 });
    assert_eq!(error.reject_reason(), Some(RejectReason::NoSuchPort));
}

#[test]
fn a_session_is_resumed_by_name_and_position() {
    let params = InitiatorParams { session: 0xfeed, position: 1 << 33, ..dial() };
    let (mut i, hello) = Initiator::new(params, [0xa1; 32]);
    let mut r = responder();
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(p)) = i.on_bytes(c.as_bytes()).unwrap() else { panic!("no proof") };
    let (_, ResponderStep::Proved(proved)) = r.on_bytes(p.as_bytes(), &JOB).unwrap() else {
        panic!("not proved")
    };
    assert_eq!((proved.claim.session, proved.claim.position), (0xfeed, 1 << 33));
    let accept = r.accept(78, 77, &decided()).unwrap();
    let (_, step) = i.on_bytes(accept.as_bytes()).unwrap();
    let InitiatorStep::Accepted { session, dials, position, incarnation, .. } = step else {
        panic!("{step:?}")
    };
    assert_eq!((session, dials, position, incarnation), (0xfeed, 78, 77, THEIRS));

    let params = InitiatorParams { session: 0, position: 1, ..dial() };
    let error = responder().on_bytes(Initiator::new(params, [1; 32]).1.as_bytes(), &JOB).unwrap_err();
    assert_eq!(error, HandshakeError::Reserved { kind: FrameType::Hello });
}

#[test]
fn a_goodbye_is_heard_at_every_stage() {
    let x = exchange();
    let goodbye = Initiator::goodbye();
    for (before, accept) in [(vec![&x.hello], false), (vec![&x.hello, &x.proof], true)] {
        let mut r = responder();
        for frame in before {
            r.on_bytes(frame.as_bytes(), &JOB).unwrap();
        }
        let mut undecided = r.clone();
        let (used, step) = undecided.on_bytes(goodbye.as_bytes(), &JOB).unwrap();
        assert_eq!((used, step), (8, ResponderStep::Goodbye));
        assert!(
            undecided.accept(0, 0, &decided()).is_none()
                && undecided.reject(RejectReason::Busy, &decided()).is_none()
        );
        if accept {
            assert!(r.accept(0, 0, &decided()).is_some());
            assert_eq!(r.on_bytes(goodbye.as_bytes(), &JOB).unwrap().1, ResponderStep::Goodbye);
        }
    }
}

#[test]
fn reasons_survive_the_wire_and_keys_are_not_printed() {
    for reason in RejectReason::ALL {
        assert_eq!(RejectReason::from_wire(reason.to_wire()), Some(*reason));
        assert!(!reason.to_string().is_empty());
    }
    assert_eq!(RejectReason::from_wire(0), None);
    let shown = format!("{KEY:?} {:?} {:?}", dial(), initiator().0);
    assert!(shown.contains("JobKey(..)") && !shown.contains("90, 90"), "{shown}");
}

/// Runs a handshake with these nonces, and returns what both sides have as the connection's key.
fn keys_of(initiator: Nonce, responder: Nonce) -> [Option<JobKey>; 2] {
    let (mut i, hello) = Initiator::new(dial(), initiator);
    let params = ResponderParams { me: name(2), versions: Versions::OURS, caps: 0b0111, incarnation: THEIRS };
    let mut r = Responder::new(params, responder);
    let (_, ResponderStep::Challenge(challenge)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(proof)) = i.on_bytes(challenge.as_bytes()).unwrap() else {
        panic!("no proof")
    };
    assert!(matches!(r.on_bytes(proof.as_bytes(), &JOB).unwrap().1, ResponderStep::Proved(_)));
    [i.key(), r.key()]
}

#[test]
fn both_ends_have_one_key_that_no_other_handshake_has() {
    let nonce = |fill: u8| Nonce::of_exchange([fill; 32], 0b0100);
    let [first, same] = keys_of(nonce(1), nonce(2));
    assert!(first.is_some() && first == same);
    let [other, same] = keys_of(nonce(1), nonce(3));
    assert!(other.is_some() && other == same && other != first);
    // The capability is one that they have not agreed on.
    let unwanted = |fill: u8| Nonce::of_exchange([fill; 32], 0b1000);
    assert_eq!(keys_of(unwanted(1), unwanted(2)), [None, None]);
    assert_eq!(keys_of([1; 32].into(), [2; 32].into()), [None, None]);
    // With such a key everybody has the secret zero.
    assert_eq!(keys_of([0; 32].into(), nonce(2)), [None, None]);
}
