use super::*;

const ME: PeerName = PeerName { group: GroupId([9; 16]), rank: 0 };

#[test]
fn a_context_belongs_to_one_group() {
    let spaces = [Space::WORLD, Space::remote(0), Space::remote(1), Space::remote(SPACES - 1)];
    for (i, s) in spaces.iter().enumerate() {
        for n in [0, 1, 7, (1 << REMOTE_BITS) - 1] {
            for bit in [0, INTERNAL] {
                let local = s.of_wire(n | bit).expect("a context of the group");
                assert_eq!(s.to_wire(local), n | bit);
                assert_eq!(local & INTERNAL, bit);
                for (j, other) in spaces.iter().enumerate() {
                    assert_eq!(other.owns(local), i == j, "{n} of {s:?} in {other:?}");
                }
            }
        }
        // Contexts that a peer may not name.
        for wire in [REMOTE, REMOTE | 5, REMOTE | INTERNAL] {
            assert_eq!(s.of_wire(wire), None, "{s:?}");
        }
    }
    assert_eq!(Space::remote(3).of_wire(1 << REMOTE_BITS), None);
    assert_eq!(Space::WORLD.of_wire(1 << REMOTE_BITS), Some(1 << REMOTE_BITS));
}

#[test]
fn contexts_run_out_in_order() {
    let mut g = Group::new(GroupId::default(), ME, 1, Space::remote(2), Cards::Unknown);
    let mut last = g.space.of_wire(0).unwrap();
    for _ in 1..1 << REMOTE_BITS {
        let c = g.new_context().expect("there are 2^16");
        assert!(c > last && g.space.owns(c));
        last = c;
    }
    assert_eq!(g.new_context(), None);
    assert_eq!(g.new_context(), None);
}

#[test]
fn groups_are_found_by_number_id_and_context() {
    let groups = Groups::new(Group::world(GroupId([1; 16]), 2, 5));
    assert_eq!(groups.get(WORLD).map(|g| (g.me, g.size)), Some((2, 5)));
    assert!(groups.get(1).is_none());
    assert_eq!(groups.find(&GroupId([1; 16])), Some(WORLD));
    assert_eq!(groups.find(&GroupId([2; 16])), None);
    assert_eq!(groups.senders(9).map(|(_, g)| g.id).next(), Some(GroupId([1; 16])));
    assert!(groups.senders(REMOTE).next().is_none());
}

/// Jobs share the job's contexts, and are told apart by places, which nobody else gets.
#[test]
fn processes_of_jobs_that_were_met_have_places() {
    use crate::ch3::JobName;
    let mut groups = Groups::new(Group::world(GroupId([1; 16]), 0, 2));
    let meet = |groups: &mut Groups, id, size| {
        let job = JobName::new(GroupId([id; 16]), size, [id; 32]);
        groups.add_job(job.id, ME, job, Cards::Unknown).expect("a group")
    };
    let (a, b) = (meet(&mut groups, 2, 3), meet(&mut groups, 3, 1));
    let places: Vec<_> = (0..7).map(|place| groups.at_place(place)).collect();
    let places_of = |g, n: u32| (0..n).map(move |rank| Some((g, rank)));
    let wanted: Vec<_> = places_of(WORLD, 2).chain(places_of(a, 3)).chain(places_of(b, 1)).collect();
    assert_eq!((&places[..6], places[6]), (&wanted[..], None));
    assert_eq!(groups.name_of(9, 4), Some(PeerName { group: GroupId([2; 16]), rank: 2 }));
    assert_eq!(groups.name_of(9, 1), Some(PeerName { group: GroupId([1; 16]), rank: 1 }));
    assert_eq!(groups.name_of(9, -2), None);
    groups.set_mixed(9, &[4, 3, 0]);
    let senders = |groups: &Groups, context| groups.senders(context).map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!((senders(&groups, 9), senders(&groups, 8)), (vec![WORLD, a], vec![WORLD]));
    groups.remove(a);
    assert_eq!((groups.at_place(4), groups.at_place(5)), (None, Some((b, 0))));
    let c = meet(&mut groups, 4, 1);
    assert_eq!((c, groups.at_place(6), senders(&groups, 9)), (a, Some((c, 0)), vec![WORLD]));
}

#[test]
fn a_group_that_is_met_takes_a_free_place_and_contexts_that_rested() {
    let mut groups = Groups::new(Group::world(GroupId([1; 16]), 0, 1));
    let a = groups.add(GroupId([2; 16]), ME, 3, Cards::Unknown).expect("a group");
    let b = groups.add(GroupId([3; 16]), ME, 4, Cards::Unknown).expect("a group");
    assert_eq!((a, b), (1, 2));
    assert_eq!(groups.get(a).map(Group::own_name), Some(ME));
    assert_eq!(groups.world.own_name(), PeerName { group: GroupId([1; 16]), rank: 0 });
    let old = groups.get(a).unwrap().space;
    assert_eq!(groups.remove(a).map(|g| g.size), Some(3));
    assert!(groups.remove(a).is_none() && groups.remove(WORLD).is_none() && groups.get(a).is_none());
    let c = groups.add(GroupId([4; 16]), ME, 5, Cards::Unknown).expect("a group");
    assert_eq!(c, a, "a free slot");
    assert!(!groups.get(c).unwrap().space.owns(old.of_wire(0).unwrap()), "a stale communicator is told");
    for i in 2..SPACES {
        assert!(groups.add(GroupId([5; 16]), ME, 1, Cards::Unknown).is_some(), "{i}");
    }
    assert!(groups.add(GroupId([6; 16]), ME, 1, Cards::Unknown).is_none(), "there are 2^14");
    let last = groups.get(b).unwrap().space;
    groups.remove(b);
    let d = groups.add(GroupId([6; 16]), ME, 1, Cards::Unknown).expect("the one that was freed");
    assert_eq!((d, groups.get(d).unwrap().space), (b, last));
}
