//! The authenticated handshake, from both sides. The peer's bytes come in two pieces.

use netmod_connection::{
    Identity, Initiator, InitiatorParams, InitiatorStep, JobKey, Purpose, Responder, ResponderParams,
    ResponderStep, Terms, Versions,
};
use netmod_core::{GroupId, PeerName};

use crate::Outcome;

const KEY: JobKey = JobKey([9; 32]);
const NONCES: [[u8; 32]; 2] = [[1; 32], [2; 32]];
const CAPS: u64 = 3;

fn process(rank: u32) -> PeerName {
    PeerName { group: GroupId([4; 16]), rank }
}

fn identity() -> Identity {
    let mut identity = Identity::new(process(0), 2, 50);
    identity.set_job_key(KEY);
    identity
}

fn start_responder() -> Responder {
    let params = ResponderParams { me: process(0), versions: Versions::OURS, caps: CAPS, incarnation: 50 };
    Responder::new(params, NONCES[0])
}

fn start_initiator() -> (Initiator, Vec<u8>) {
    let params = InitiatorParams {
        me: process(1),
        peer: process(0),
        purpose: Purpose::Vc,
        versions: Versions::OURS,
        caps: CAPS,
        incarnation: 60,
        dial: 1,
        session: 0,
        position: 0,
        terms: Terms::from(*b"terms"),
        key: KEY,
    };
    let (initiator, hello) = Initiator::new(params, NONCES[1]);
    (initiator, hello.as_bytes().to_vec())
}

/// Plays a handshake, and returns what each side has sent: initiator and responder.
fn play() -> [Vec<u8>; 2] {
    let (mut initiator, mut sent) = start_initiator();
    let (mut responder, mut answered) = (start_responder(), Vec::new());
    let (_, step) = responder.on_bytes(&sent, &identity()).expect("a sound HELLO");
    let ResponderStep::Challenge(challenge) = step else { panic!("{step:?}") };
    answered.extend_from_slice(challenge.as_bytes());
    let (_, step) = initiator.on_bytes(challenge.as_bytes()).expect("a sound CHALLENGE");
    let InitiatorStep::Prove(proof) = step else { panic!("{step:?}") };
    sent.extend_from_slice(proof.as_bytes());
    let (_, step) = responder.on_bytes(proof.as_bytes(), &identity()).expect("a sound PROOF");
    assert!(matches!(step, ResponderStep::Proved(_)), "{step:?}");
    let accept = responder.accept(1, 0, &Terms::default()).expect("an ACCEPT");
    answered.extend_from_slice(accept.as_bytes());
    initiator.on_bytes(accept.as_bytes()).expect("a sound ACCEPT");
    sent.extend_from_slice(initiator.ready().expect("a READY").as_bytes());
    [sent, answered]
}

pub(super) fn hello_seeds() -> Vec<Vec<u8>> {
    let [sent, _] = play();
    vec![start_initiator().1, sent]
}

pub(super) fn answer_seeds() -> Vec<Vec<u8>> {
    vec![play()[1].clone()]
}

/// Splits an input in two at a place that depends on it.
fn pieces(input: &[u8]) -> [&[u8]; 2] {
    let at = input.first().map_or(0, |b| usize::from(*b) % input.len());
    [&input[..at], &input[at..]]
}

/// The side that is dialled. Who does not know the key proves nothing: no input but a copy of what
/// the key's owner has sent leads to an adopted connection.
pub(super) fn responder(input: &[u8]) -> Outcome {
    let (mut responder, identity) = (start_responder(), identity());
    let mut last = Ok("nothing");
    for mut piece in pieces(input) {
        while !piece.is_empty() {
            match responder.on_bytes(piece, &identity) {
                Ok((used, step)) => {
                    assert!(used <= piece.len());
                    last = Ok(match step {
                        ResponderStep::NeedMore => "need more",
                        ResponderStep::Challenge(_) => "challenge",
                        ResponderStep::Proved(_) => {
                            assert!(input.starts_with(&play()[0][..input.len().min(PROVED_LEN)]));
                            assert!(responder.accept(1, 0, &Terms::default()).is_some());
                            "proved"
                        }
                        ResponderStep::Ready => "ready",
                        ResponderStep::Goodbye => "goodbye",
                    });
                    if used == 0 {
                        return Outcome::of(&last.map_err(|e: String| e));
                    }
                    piece = &piece[used..];
                }
                Err(error) => return Outcome::of(&Err::<(), _>(error)),
            }
        }
    }
    Outcome::of(&last.map_err(|e: String| e))
}

/// Bytes of HELLO and PROOF whose change a MAC must notice: the header of HELLO and its first
/// fields.
const PROVED_LEN: usize = 32;

/// The side that dials.
pub(super) fn initiator(input: &[u8]) -> Outcome {
    let (mut initiator, _) = start_initiator();
    let mut last = Ok("nothing");
    for mut piece in pieces(input) {
        while !piece.is_empty() {
            match initiator.on_bytes(piece) {
                Ok((used, step)) => {
                    assert!(used <= piece.len());
                    last = Ok(match step {
                        InitiatorStep::NeedMore => "need more",
                        InitiatorStep::Prove(_) => "prove",
                        InitiatorStep::Accepted { .. } => {
                            assert!(input.starts_with(&play()[1]), "accepted what nobody has proved");
                            "accepted"
                        }
                        InitiatorStep::Rejected { proved, .. } => {
                            assert!(!proved, "believed a REJECT that nobody has proved");
                            "rejected"
                        }
                    });
                    if used == 0 {
                        return Outcome::of(&last.map_err(|e: String| e));
                    }
                    piece = &piece[used..];
                }
                Err(error) => return Outcome::of(&Err::<(), _>(error)),
            }
        }
    }
    Outcome::of(&last.map_err(|e: String| e))
}
