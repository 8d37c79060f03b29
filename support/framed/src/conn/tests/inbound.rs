//! Unauthenticated peers: limits, and the refusal of those that may not connect.

use super::*;

#[test]
fn a_port_has_its_own_names_and_key() {
    let mut w = World::new(2);
    let (port, key) = (77, JobKey([5; 32]));
    w.processes[1].manager.identity_mut().open_port(port, key);
    let root = PeerName { group: netmod_core::port_group(port), rank: 0 };
    let guest = PeerName { group: GroupId([8; 16]), rank: 0 };
    let met = netmod_core::RemoteGroup { id: root.group, size: 1, me: guest, key: [5; 32] };
    w.processes[0].manager.identity_mut().meet(met);
    // In this world ranks are addresses, and the port's root is at that of rank 1.
    let a = w.processes[0].vcs.insert(Vc::new(name(1), 0));
    w.run(0, |m, env| m.add(a, root, Purpose::Root { port }, env));
    w.connect(0, a);
    w.settle();
    assert_eq!(w.log(1), ["port 77"]);
    let met = netmod_core::RemoteGroup { id: guest.group, size: 1, me: root, key: [5; 32] };
    w.processes[1].manager.identity_mut().meet(met);
    let b = w.processes[1].vcs.insert(Vc::new(name(0), 0));
    w.run(1, |m, env| m.add(b, guest, Purpose::Vc, env));
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
    // A peer with another key learns nothing; one that names a port which is not there learns that.
    for (p, k, text) in [(port, 6, "key"), (78, 5, "nobody accepts on that port")] {
        let mut w2 = World::new(2);
        w2.processes[1].manager.identity_mut().open_port(port, key);
        let root = PeerName { group: netmod_core::port_group(p), rank: 0 };
        let met = netmod_core::RemoteGroup { id: root.group, size: 1, me: guest, key: [k; 32] };
        w2.processes[0].manager.identity_mut().meet(met);
        let a = w2.processes[0].vcs.insert(Vc::new(name(1), 0));
        w2.run(0, |m, env| m.add(a, root, Purpose::Root { port: p }, env));
        w2.connect(0, a);
        w2.pass(Duration::from_secs(30));
        let log = w2.log(0);
        assert!(log.len() == 1 && log[0].contains(text), "{log:?}");
        assert_eq!(w2.log(1), Vec::<String>::new());
        w2.assert_quiet();
    }
}

#[test]
fn who_has_another_key_or_name_or_release_is_told_and_changes_nothing() {
    // Another key.
    let (mut w, [a, b]) = World::pair();
    w.processes[0] = process(0, 2, 5, 10, Params::new(TIMEOUT, 4, 4, Words::SAMPLE));
    let a2 = w.vc(0, 1);
    assert_eq!(a, a2);
    w.connect(0, a);
    w.pass(Duration::from_secs(30));
    let log = w.log(0);
    assert!(
        log.len() == 1 && log[0].contains("down Unreachable") && log[0].contains("earlier job"),
        "{log:?}"
    );
    assert!(w.log(1).is_empty() && !w.processes[1].manager.is_up(b));
    w.assert_quiet();
    // A rank that the group has not, a process that is another one.
    for (me, size, wanted, text) in
        [(3, 9, 1, "the dialling rank is not in its group"), (0, 2, 5, "another process")]
    {
        let (mut w, _) = World::pair();
        w.processes[0] = process(me, size, 5, 9, Params::new(TIMEOUT, 4, 4, Words::SAMPLE));
        w.processes[0].rank = 0;
        let a = w.processes[0].vcs.insert(Vc::new(name(1), 0));
        w.run(0, |m, env| m.add(a, name(wanted), Purpose::Vc, env));
        w.connect(0, a);
        w.pass(Duration::from_secs(30));
        let log = w.log(0);
        assert!(log.len() == 1 && log[0].contains(text), "{log:?}");
        assert!(w.log(1).is_empty() && w.processes[1].manager.refused() > 0);
        w.assert_quiet();
    }
}

#[test]
fn unauthenticated_peers_are_few_and_the_oldest_makes_way() {
    let mut w = World::new(9);
    w.vc(8, 0);
    let dials: Vec<VcId> = (0..8).map(|r| w.vc(r, 8)).collect();
    for (r, vc) in dials.iter().enumerate() {
        w.connect(r, *vc);
        w.now = w.now + Duration::from_millis(1);
        w.deliver(r, 8);
    }
    assert_eq!(w.processes[8].met.len(), 4, "of eight peers four are kept");
    w.pass(Duration::from_secs(1));
    let log = w.log(8);
    assert!((1..8).all(|r| log.contains(&format!("new {r}"))), "all came through in the end: {log:?}");
    assert_eq!(w.log(0), [OPENED]);
    // A peer that sends no more than HELLO is forgotten.
    let mut w = World::new(2);
    let a = w.vc(0, 1);
    w.connect(0, a);
    w.deliver(0, 1);
    assert!(!w.processes[1].manager.is_quiet());
    w.processes.swap_remove(0);
    w.processes.insert(0, process(0, 2, 1, 9, Params::new(TIMEOUT, 4, 4, Words::SAMPLE)));
    w.pass(Duration::from_secs(6));
    w.assert_quiet();
}

#[test]
fn a_hello_in_a_frame_with_another_slot_than_its_own_is_dropped() {
    let (mut w, [a, _]) = World::pair();
    w.connect(0, a);
    let mut hello = w.wires[0][1].pop_front().unwrap();
    hello.slot.token ^= 1;
    w.hand(1, &hello);
    assert!(w.processes[1].met.is_empty() && w.wires[1][0].is_empty());
    hello.slot.token ^= 1;
    w.hand(1, &hello);
    assert_eq!(w.processes[1].met.len(), 1);
}
