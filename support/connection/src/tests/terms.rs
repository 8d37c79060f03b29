//! Terms of every length, and what is known of an initiator before it has proved anything.

use super::*;
use crate::collector::Collector;

/// Offset of the terms in a HELLO.
const HELLO_TERMS: usize = HEADER_LEN + 96;

/// Different at every place and for every length.
fn terms(len: usize, salt: usize) -> Terms {
    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len * 13 + salt) as u8).collect();
    Terms::new(&bytes).unwrap()
}

/// An exchange up to PROOF in which the initiator says these terms.
fn up_to_proof(said: &Terms) -> (Initiator, Responder) {
    let params = InitiatorParams { terms: said.clone(), ..dial() };
    let (mut i, hello) = Initiator::new(params, [0xa1; 32]);
    assert_eq!(hello.as_bytes().len(), HEADER_LEN + 128 + said.as_bytes().len());
    let mut r = responder();
    let (_, ResponderStep::Challenge(c)) = r.on_bytes(hello.as_bytes(), &JOB).unwrap() else {
        panic!("no challenge")
    };
    let (_, InitiatorStep::Prove(p)) = i.on_bytes(c.as_bytes()).unwrap() else { panic!("no proof") };
    let (_, ResponderStep::Proved(proved)) = r.on_bytes(p.as_bytes(), &JOB).unwrap() else {
        panic!("not proved")
    };
    assert_eq!(&proved.claim.terms, said);
    (i, r)
}

#[test]
fn terms_of_every_length_arrive_both_ways() {
    for len in 0..=MAX_TERMS {
        // The two sides' lengths have nothing to do with each other.
        let (said, answered) = (terms(len, 1), terms(MAX_TERMS - len, 2));
        let (mut i, mut r) = up_to_proof(&said);
        let (mut j, mut s) = (i.clone(), r.clone());
        let accept = r.accept(8, 9, &answered).unwrap();
        let (used, step) = i.on_bytes(accept.as_bytes()).unwrap();
        let InitiatorStep::Accepted { terms, dials: 8, position: 9, .. } = step else { panic!("{step:?}") };
        assert_eq!((used, &terms), (accept.as_bytes().len(), &answered));
        let ready = i.ready().unwrap();
        assert_eq!(r.on_bytes(ready.as_bytes(), &JOB).unwrap().1, ResponderStep::Ready);

        let reject = s.reject(RejectReason::Busy, &answered).unwrap();
        let (_, step) = j.on_bytes(reject.as_bytes()).unwrap();
        let want = InitiatorStep::Rejected { reason: RejectReason::Busy, proved: true, terms: answered };
        assert_eq!(step, want);
    }
}

#[test]
fn more_terms_than_fit_are_none() {
    let error = Terms::new(&[1; MAX_TERMS + 1]).unwrap_err();
    assert_eq!(error, TermsTooLong { len: 401 });
    assert!(error.to_string().contains("401") && error.to_string().contains("400"), "{error}");
    assert_eq!(Terms::new(&[1; MAX_TERMS]).unwrap(), Terms::from([1; MAX_TERMS]));
    let longest = reject_unauthenticated(RejectReason::Busy, MAX_TERMS);
    assert_eq!(reject_unauthenticated(RejectReason::Busy, usize::MAX), longest);
}

/// The cost of any length that a header announces is bounded by the longest frame, and by the
/// header alone if the length is impossible.
#[test]
fn an_announced_length_costs_nothing_before_it_was_found_possible() {
    for (kind, least, most) in [
        (FrameType::Hello, 128, 528),
        (FrameType::Challenge, 88, 88),
        (FrameType::Proof, 32, 32),
        (FrameType::Accept, 48, 448),
        (FrameType::Reject, 40, 440),
        (FrameType::Ready, 32, 32),
        (FrameType::Goodbye, 0, 0),
    ] {
        for len in 0..=u16::MAX {
            let mut collector = Collector::new();
            let mut header = MAGIC.to_vec();
            header.extend([kind as u8, 0]);
            header.extend(len.to_le_bytes());
            header.push(0);
            let len = usize::from(len);
            let taken = collector.take(&header, &[kind]);
            if (least..=most).contains(&len) {
                let (used, frame) = taken.unwrap();
                assert_eq!((used, frame.is_some()), (HEADER_LEN + len.min(1), len == 0), "{kind:?} {len}");
                assert!(collector.bytes.capacity() <= MAX_FRAME, "{kind:?} {len}");
            } else {
                let want = if HEADER_LEN + len > MAX_FRAME {
                    HandshakeError::Oversized { kind, len }
                } else {
                    HandshakeError::BadLength { kind, len, least, most }
                };
                assert_eq!(taken, Err(want));
                assert!(collector.bytes.capacity() <= HEADER_LEN, "{kind:?} {len}");
            }
        }
    }
}

/// Other bytes, fewer or more of them: the MACs cover the terms and how many there are.
#[test]
fn no_terms_but_those_that_were_said_pass() {
    /// The frame with its terms made longer or shorter, and a length that says so.
    fn stretched(frame: &Frame, at: usize, terms: usize) -> Vec<u8> {
        let mut bytes = frame.as_bytes().to_vec();
        let old = 80;
        let tail = bytes.split_off(at + old);
        bytes.resize(at + terms, 0);
        bytes.extend(tail);
        let body = (bytes.len() - HEADER_LEN) as u16;
        bytes[6..8].copy_from_slice(&body.to_le_bytes());
        bytes
    }
    let x = exchange();
    let (start, _) = initiator();
    let mut proved = start.clone();
    proved.on_bytes(x.challenge.as_bytes()).unwrap();
    let mut undecided = responder();
    undecided.on_bytes(x.hello.as_bytes(), &JOB).unwrap();
    undecided.on_bytes(x.proof.as_bytes(), &JOB).unwrap();
    let reject = undecided.reject(RejectReason::Busy, &decided()).unwrap();
    for len in 0..=MAX_TERMS {
        let hello = stretched(&x.hello, HELLO_TERMS, len);
        let mut r = responder();
        let (used, ResponderStep::Challenge(c)) = r.on_bytes(&hello, &JOB).unwrap() else {
            panic!("no challenge")
        };
        assert_eq!((used, r.claimed().unwrap().terms.as_bytes().len()), (hello.len(), len));
        let answer = start.clone().on_bytes(c.as_bytes());
        let right = len == 80;
        assert_eq!(matches!(answer, Ok((_, InitiatorStep::Prove(_)))), right, "{len}");

        let answer = proved.clone().on_bytes(&stretched(&x.accept, HEADER_LEN + 8, len));
        let tampered = HandshakeError::Tampered { kind: FrameType::Accept };
        assert_eq!(answer.as_ref().err(), (!right).then_some(&tampered), "{len}");

        let answer = proved.clone().on_bytes(&stretched(&reject, HEADER_LEN + 8, len));
        let tampered = HandshakeError::Tampered { kind: FrameType::Reject };
        assert_eq!(answer.as_ref().err(), (!right).then_some(&tampered), "{len}");
    }
}

/// Up to the last one, and in frames of any length.
#[test]
fn every_byte_of_the_longest_hello_is_covered() {
    let params = InitiatorParams { terms: terms(MAX_TERMS, 3), ..dial() };
    let (start, hello) = Initiator::new(params, [0xa1; 32]);
    for at in HELLO_TERMS..hello.as_bytes().len() {
        let mut bytes = hello.as_bytes().to_vec();
        bytes[at] ^= 1;
        let (_, ResponderStep::Challenge(c)) = responder().on_bytes(&bytes, &JOB).unwrap() else {
            panic!("no challenge")
        };
        let answer = start.clone().on_bytes(c.as_bytes());
        assert_eq!(answer, Err(HandshakeError::ResponderKey { peer: name(2) }), "byte {at}");
    }
}

#[test]
fn an_unproved_reject_has_no_terms_whatever_its_length() {
    let reason = RejectReason::WrongPeer;
    for len in 0..=MAX_TERMS {
        let reject = reject_unauthenticated(reason, len);
        assert_eq!(reject.as_bytes().len(), HEADER_LEN + 40 + len);
        let step = initiator().0.on_bytes(reject.as_bytes()).unwrap().1;
        assert_eq!(step, InitiatorStep::Rejected { reason, proved: false, terms: Terms::default() });
        for at in 0..len {
            let mut bytes = reject.as_bytes().to_vec();
            bytes[HEADER_LEN + 8 + at] = 1;
            let error = initiator().0.on_bytes(&bytes).unwrap_err();
            assert_eq!(error, HandshakeError::Reserved { kind: FrameType::Reject }, "{at} of {len}");
        }
    }
}

#[test]
fn what_is_claimed_is_known_before_it_is_proved() {
    let (_, hello) = initiator();
    let mut r = responder();
    let (last, most) = hello.as_bytes().split_last().unwrap();
    r.on_bytes(most, &JOB).unwrap();
    assert_eq!(r.claimed(), None, "the HELLO is not whole");
    r.on_bytes(&[*last], &JOB).unwrap();
    assert_eq!((r.claimed(), r.sender()), (Some(&claim()), Sender::Unauthenticated));
    // Nothing but a PROOF makes more of it.
    assert!(r.accept(0, 0, &decided()).is_none() && r.reject(RejectReason::Busy, &decided()).is_none());
    r.on_bytes(exchange().proof.as_bytes(), &JOB).unwrap();
    assert_eq!((r.claimed(), r.sender()), (Some(&claim()), Sender::Peer));
}

/// A refused HELLO says where the reason goes; what is no HELLO says nothing.
#[test]
fn a_refused_hello_has_claimed_something_and_nonsense_has_not() {
    let newer = Versions { min: 2, max: 3 };
    for params in [
        InitiatorParams { versions: newer, ..dial() },
        InitiatorParams { peer: name(3), ..dial() },
        InitiatorParams { purpose: Purpose::Root { port: 78 }, ..dial() },
        InitiatorParams { peer: PeerName { group: GroupId([9; 16]), rank: 2 }, ..dial() },
    ] {
        let want = Claim { purpose: params.purpose, ..claim() };
        let mut r = responder();
        let error = r.on_bytes(Initiator::new(params, [1; 32]).1.as_bytes(), &JOB).unwrap_err();
        assert!(error.reject_reason().is_some(), "{error}");
        assert_eq!((r.claimed(), r.sender()), (Some(&want), Sender::Unauthenticated));
        // It stays unauthenticated, whatever comes.
        assert_eq!(r.on_bytes(exchange().proof.as_bytes(), &JOB), Ok((0, ResponderStep::NeedMore)));
        assert!(r.accept(0, 0, &decided()).is_none());
    }
    let mut unknown_purpose = initiator().1.as_bytes().to_vec();
    unknown_purpose[HEADER_LEN + 4] = 3;
    let mut r = responder();
    assert_eq!(r.on_bytes(&unknown_purpose, &JOB), Err(HandshakeError::Reserved { kind: FrameType::Hello }));
    assert_eq!(r.claimed(), None);
}
