use super::*;
use crate::{
    HandshakeError, Initiator, InitiatorParams, InitiatorStep, Responder, ResponderParams, ResponderStep,
    Terms, Versions,
};

const WORLD: GroupId = GroupId([1; 16]);
/// The two ends of a meeting.
const OURS: GroupId = GroupId([2; 16]);
const THEIRS: GroupId = GroupId([3; 16]);
/// Those of another one.
const TOWARDS_OTHERS: GroupId = GroupId([4; 16]);
const OTHERS: GroupId = GroupId([5; 16]);
const PORT: u64 = 77;

fn name(group: GroupId, rank: u32) -> PeerName {
    PeerName { group, rank }
}

fn key(n: u8) -> JobKey {
    JobKey([n; 32])
}

/// Rank 1 of a job of 4, which has met a job of 3, and has a port.
fn identity() -> Identity {
    let mut id = Identity::new(name(WORLD, 1), 4, 5);
    id.set_job_key(key(1));
    id.meet(RemoteGroup { id: THEIRS, size: 3, me: name(OURS, 1), key: [2; 32] });
    id.meet(RemoteGroup { id: OTHERS, size: 3, me: name(TOWARDS_OTHERS, 1), key: [4; 32] });
    id.open_port(PORT, key(7));
    id
}

/// Returns the outcome of a dial with these names, purpose and key.
fn dial(
    id: &Identity,
    me: PeerName,
    peer: PeerName,
    purpose: Purpose,
    key: JobKey,
) -> Result<(), HandshakeError> {
    let params = InitiatorParams {
        me,
        peer,
        purpose,
        versions: Versions::OURS,
        caps: 0,
        dial: 1,
        incarnation: 1,
        session: 0,
        position: 0,
        terms: Terms::default(),
        key,
    };
    let (mut dialler, hello) = Initiator::new(params, [1; 32]);
    let ours = ResponderParams { me: id.me(), versions: Versions::OURS, caps: 0, incarnation: 5 };
    let mut responder = Responder::new(ours, [2; 32]);
    let (_, step) = responder.on_bytes(hello.as_bytes(), id)?;
    let ResponderStep::Challenge(challenge) = step else { panic!("{step:?}") };
    let (_, step) = dialler.on_bytes(challenge.as_bytes())?;
    let InitiatorStep::Prove(proof) = step else { panic!("{step:?}") };
    let (_, step) = responder.on_bytes(proof.as_bytes(), id)?;
    let ResponderStep::Proved(p) = step else { panic!("{step:?}") };
    assert_eq!((p.claim.peer, p.claim.purpose), (me, purpose));
    Ok(())
}

#[test]
fn each_group_knocks_with_its_own_name_and_key() {
    let id = identity();
    assert_eq!(dial(&id, name(WORLD, 3), name(WORLD, 1), Purpose::Vc, key(1)), Ok(()));
    assert_eq!(dial(&id, name(THEIRS, 2), name(OURS, 1), Purpose::Vc, key(2)), Ok(()));
    assert_eq!(id.name_towards(&THEIRS), name(OURS, 1));
    assert_eq!(id.key_towards(&THEIRS), Some(key(2)));
    assert_eq!(id.name_towards(&WORLD), name(WORLD, 1));
    assert_eq!(id.key_towards(&WORLD), Some(key(1)));
    assert_eq!(id.key_towards(&GroupId([9; 16])), None);
}

/// A key opens the group that it is of, and no other: a met job cannot pose as a rank of this one,
/// nor somebody who knows a port as either.
#[test]
fn no_key_opens_another_group() {
    let id = identity();
    let root = Purpose::Root { port: PORT };
    let at_port = name(port_group(PORT), 0);
    for (me, peer, purpose) in [
        (name(WORLD, 3), name(WORLD, 1), Purpose::Vc),
        (name(WORLD, 3), name(OURS, 1), Purpose::Vc),
        (name(THEIRS, 2), name(WORLD, 1), Purpose::Vc),
        (name(THEIRS, 2), name(OURS, 1), Purpose::Vc),
        (name(THEIRS, 2), name(TOWARDS_OTHERS, 1), Purpose::Vc),
        (name(OTHERS, 2), name(OURS, 1), Purpose::Vc),
        (name(THEIRS, 2), at_port, Purpose::Vc),
        (name(GroupId([9; 16]), 0), at_port, root),
        (name(GroupId([9; 16]), 0), name(WORLD, 1), root),
        (name(GroupId([9; 16]), 0), name(OURS, 1), root),
        (name(WORLD, 3), name(OURS, 1), root),
        (name(OURS, 1), name(OURS, 1), Purpose::Vc),
    ] {
        for k in [1, 2, 4, 7] {
            let right = (me.group == WORLD && peer.group == WORLD && k == 1)
                || (me.group == THEIRS && peer.group == OURS && k == 2)
                || (peer == at_port && purpose == root && k == 7);
            let got = dial(&id, me, peer, purpose, key(k));
            assert_eq!(got.is_ok(), right, "{me} to {peer} with key {k}: {got:?}");
        }
    }
}

#[test]
fn what_was_closed_is_unknown() {
    let mut id = identity();
    let root = Purpose::Root { port: PORT };
    let (me, at_port) = (name(GroupId([9; 16]), 0), name(port_group(PORT), 0));
    assert_eq!(dial(&id, me, at_port, root, key(7)), Ok(()));
    id.close_port(PORT);
    assert_eq!(dial(&id, me, at_port, root, key(7)), Err(HandshakeError::NoSuchPort { port: PORT }));
    id.part(&THEIRS);
    let met = dial(&id, name(THEIRS, 2), name(OURS, 1), Purpose::Vc, key(2));
    assert_eq!(met, Err(HandshakeError::UnknownGroup { name: name(OURS, 1) }));
}

#[test]
fn a_rank_that_the_met_group_does_not_have_is_refused() {
    let id = identity();
    let got = dial(&id, name(THEIRS, 3), name(OURS, 1), Purpose::Vc, key(2));
    assert_eq!(got, Err(HandshakeError::BadRank { name: name(THEIRS, 3), size: 3 }));
}
