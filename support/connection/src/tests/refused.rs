//! Everything that is refused, with its error and the class of its sender.

use super::*;

fn responder_error(bytes: &[u8]) -> (HandshakeError, Sender) {
    let mut r = responder();
    let error = r.on_bytes(bytes, &JOB).unwrap_err();
    assert_eq!(r.on_bytes(&[0], &JOB), Ok((0, ResponderStep::NeedMore)), "it goes on after {error}");
    (error, r.sender())
}

fn initiator_error(bytes: &[u8]) -> (HandshakeError, Sender) {
    let (mut i, _) = initiator();
    let error = i.on_bytes(bytes).unwrap_err();
    (error, i.sender())
}

#[test]
fn other_programs_are_recognised_by_their_first_bytes() {
    for (bytes, guess) in [
        (&b"GET / HTTP/1.1\r\n"[..], "(HTTP)"),
        (b"SSH-2.0-nmap", "(SSH)"),
        (b"\x16\x03\x01\x02\x00", "(TLS)"),
        (b"\0\0\0\0", "port scanner"),
        (b"\n", "port scanner"),
        (b"\x93NMX", "port scanner"),
    ] {
        let (error, sender) = responder_error(bytes);
        assert!(matches!(error, HandshakeError::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains(guess), "{error}");
        assert_eq!((sender, error.reject_reason()), (Sender::Unauthenticated, None));
        assert!(matches!(initiator_error(bytes).0, HandshakeError::NotOurs { .. }));
    }
}

#[test]
fn wrong_headers_are_refused_before_their_bodies_are_read() {
    let header = |kind: u8, zero: u8, len: u16| {
        let mut h = MAGIC.to_vec();
        h.extend([kind, zero]);
        h.extend(len.to_le_bytes());
        h
    };
    let kind = FrameType::Hello;
    assert_eq!(responder_error(&header(9, 0, 208)).0, HandshakeError::UnknownType { code: 9 });
    let out_of_turn = HandshakeError::Unexpected { kind: FrameType::Proof };
    assert_eq!(responder_error(&header(3, 0, 32)).0, out_of_turn);
    assert_eq!(responder_error(&header(1, 0, 529)).0, HandshakeError::Oversized { kind, len: 529 });
    let huge = HandshakeError::Oversized { kind, len: 65535 };
    assert_eq!(responder_error(&header(1, 0, u16::MAX)).0, huge);
    for len in [0, 127] {
        let want = HandshakeError::BadLength { kind, len: len.into(), least: 128, most: 528 };
        assert_eq!(responder_error(&header(1, 0, len)).0, want);
        assert!(want.to_string().contains("instead of 128 to 528"), "{want}");
    }
    for len in [87, 89, 528] {
        let want =
            HandshakeError::BadLength { kind: FrameType::Challenge, len: len.into(), least: 88, most: 88 };
        assert_eq!(initiator_error(&header(2, 0, len)).0, want);
        assert!(want.to_string().ends_with("instead of 88"), "{want}");
    }
    assert_eq!(responder_error(&header(1, 1, 208)).0, HandshakeError::Reserved { kind });
}

fn hello(change: impl FnOnce(&mut InitiatorParams)) -> Frame {
    let mut params = dial();
    change(&mut params);
    Initiator::new(params, [3; 32]).1
}

#[test]
fn a_hello_for_or_from_somebody_else_is_refused_with_a_reason() {
    let other = GroupId([0x22; 16]);
    let ours = Versions::OURS;
    let newer = Versions { min: 2, max: 3 };
    let older = Versions { min: 0, max: 0 };
    let cases = [
        (
            hello(|p| p.versions = newer),
            HandshakeError::Version { theirs: newer, ours },
            RejectReason::Version,
        ),
        (
            hello(|p| p.versions = older),
            HandshakeError::Version { theirs: older, ours },
            RejectReason::Version,
        ),
        (
            hello(|p| p.peer.group = other),
            HandshakeError::UnknownGroup { name: PeerName { group: other, rank: 2 } },
            RejectReason::UnknownGroup,
        ),
        (
            hello(|p| p.me.group = other),
            HandshakeError::UnknownGroup { name: PeerName { group: other, rank: 1 } },
            RejectReason::UnknownGroup,
        ),
        (
            hello(|p| p.peer.rank = 3),
            HandshakeError::WrongPeer { wanted: name(3), me: name(2) },
            RejectReason::WrongPeer,
        ),
        (hello(|p| p.me.rank = 4), HandshakeError::BadRank { name: name(4), size: 4 }, RejectReason::BadRank),
    ];
    for (frame, want, reason) in cases {
        let (error, sender) = responder_error(frame.as_bytes());
        assert_eq!((error, sender), (want, Sender::Unauthenticated));
        assert_eq!(error.reject_reason(), Some(reason));
        // The reason reaches the dialler, as hearsay.
        let (mut i, _) = initiator();
        let (_, step) = i.on_bytes(reject_unauthenticated(reason, 80).as_bytes()).unwrap();
        assert_eq!(step, InitiatorStep::Rejected { reason, proved: false, terms: Terms::default() });
    }
}

#[test]
fn a_wrong_key_is_noticed_by_both_sides() {
    let wrong = Job { key: JobKey([0x5b; 32]), ..JOB };
    let (mut i, hello) = initiator();
    let mut r = responder();
    let (_, ResponderStep::Challenge(challenge)) = r.on_bytes(hello.as_bytes(), &wrong).unwrap() else {
        panic!("no challenge")
    };
    let error = i.on_bytes(challenge.as_bytes()).unwrap_err();
    assert_eq!(
        (error, i.sender()),
        (HandshakeError::ResponderKey { peer: name(2) }, Sender::Unauthenticated)
    );
    // A PROOF made with the responder's own key is right only for the initiator that made it.
    let error = r.on_bytes(exchange().proof.as_bytes(), &wrong).unwrap_err();
    assert_eq!(
        (error, r.sender()),
        (HandshakeError::InitiatorKey { name: name(1) }, Sender::Unauthenticated)
    );
}

#[test]
fn a_recorded_exchange_is_worthless() {
    let x = exchange();
    let params = ResponderParams { me: name(2), versions: Versions::OURS, caps: 0b0111, incarnation: 2 };
    let mut r = Responder::new(params, [0xb3; 32]);
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    let error = r.on_bytes(x.proof.as_bytes(), &JOB).unwrap_err();
    assert_eq!(error, HandshakeError::InitiatorKey { name: name(1) });
    assert!(error.to_string().contains("replays"), "{error}");
    // And the other way round: recorded answers against a fresh initiator.
    let (mut i, _) = Initiator::new(dial(), [0xa2; 32]);
    let error = i.on_bytes(x.challenge.as_bytes()).unwrap_err();
    assert_eq!(error, HandshakeError::ResponderKey { peer: name(2) });
}

#[test]
fn what_one_side_said_means_nothing_coming_back_to_it() {
    let x = exchange();
    assert_eq!(initiator_error(x.hello.as_bytes()).0, HandshakeError::Reflected);
    let mut r = responder();
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    assert_eq!(r.on_bytes(x.challenge.as_bytes(), &JOB), Err(HandshakeError::Reflected));
    // The responder's MAC does not pass for the initiator's.
    let mut mirrored = x.proof.as_bytes().to_vec();
    mirrored[HEADER_LEN..].copy_from_slice(&x.challenge.as_bytes()[64..]);
    let mut r = responder();
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    let error = r.on_bytes(&mirrored, &JOB).unwrap_err();
    assert_eq!(error, HandshakeError::InitiatorKey { name: name(1) });
    // A process that dials itself, or is made to.
    let own = hello(|p| p.me = name(2));
    assert_eq!(responder_error(own.as_bytes()).0, HandshakeError::Reflected);
    // An honest responder that happens to use the initiator's nonce.
    let params = ResponderParams { me: name(2), versions: Versions::OURS, caps: 0, incarnation: 2 };
    let mut r = Responder::new(params, [0xa1; 32]);
    let (mut i, hello) = initiator();
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    assert_eq!(i.on_bytes(c.as_bytes()), Err(HandshakeError::Reflected));
}

#[test]
fn a_peer_that_knows_the_key_is_held_to_the_rules_too() {
    // It chooses what nobody offered: its MAC is right, so it is a peer.
    let (mut i, hello) = initiator();
    let mut transcript = crate::key::Transcript::new();
    transcript.add(&hello);
    let choice = Frame::new(FrameType::Challenge, 0)
        .put(&2u16.to_le_bytes())
        .put(&[0; 6])
        .put(&1u64.to_le_bytes())
        .put(&9u64.to_le_bytes())
        .put(&[5; 32]);
    let choice = transcript.seal(&KEY, crate::key::Label::Responder, choice);
    let error = i.on_bytes(choice.as_bytes()).unwrap_err();
    assert_eq!((error, i.sender()), (HandshakeError::NotOffered { version: 2, caps: 1 }, Sender::Peer));
    // An offer that was altered under way.
    let params = ResponderParams { me: name(2), versions: Versions::OURS, caps: 0b1111, incarnation: 2 };
    let mut r = Responder::new(params, [7; 32]);
    let (mut i, _) = initiator();
    let cheat = hello_of_other_offer();
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(cheat.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    // The transcripts differ, so that even a right key does not hide an altered offer.
    assert_eq!(i.on_bytes(c.as_bytes()), Err(HandshakeError::ResponderKey { peer: name(2) }));
    // READY before ACCEPT.
    let x = exchange();
    let mut r = responder();
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    r.on_bytes(x.proof.as_bytes(), &JOB).unwrap();
    let error = r.on_bytes(x.ready.as_bytes(), &JOB).unwrap_err();
    assert_eq!(error, HandshakeError::Unexpected { kind: FrameType::Ready });
    assert_eq!(r.sender(), Sender::Peer);
}

fn hello_of_other_offer() -> Frame {
    Initiator::new(InitiatorParams { caps: u64::MAX, ..dial() }, [0xa1; 32]).1
}

#[test]
fn a_proved_reject_is_authentic_and_a_forged_one_is_not() {
    let x = exchange();
    let mut r = responder();
    r.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    r.on_bytes(x.proof.as_bytes(), &JOB).unwrap();
    let reject = r.reject(RejectReason::Closing, &decided()).unwrap();
    assert!(r.accept(0, 0, &decided()).is_none());
    let (mut i, _) = initiator();
    i.on_bytes(x.challenge.as_bytes()).unwrap();
    let mut forged = reject.as_bytes().to_vec();
    forged[HEADER_LEN] = RejectReason::Finalized.to_wire();
    let tampered = HandshakeError::Tampered { kind: FrameType::Reject };
    assert_eq!(i.clone().on_bytes(&forged), Err(tampered));
    // Before the responder has proved itself nothing it says can be.
    assert_eq!(initiator_error(reject.as_bytes()).0, tampered);
    let (_, step) = i.on_bytes(reject.as_bytes()).unwrap();
    assert_eq!(
        step,
        InitiatorStep::Rejected { reason: RejectReason::Closing, proved: true, terms: decided() }
    );

    let mut unknown = reject_unauthenticated(RejectReason::Busy, 80).as_bytes().to_vec();
    unknown[HEADER_LEN] = 200;
    let want = HandshakeError::UnknownReason { code: 200, proved: false };
    assert_eq!(initiator_error(&unknown).0, want);
}
