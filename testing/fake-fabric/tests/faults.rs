//! Tests of faults: they occur as requested, everything else works, and a seed reproduces a run.

mod common;

use core::ptr::null_mut;

use common::*;
use libfabric_sys::consts::*;
use netmod_fake_fabric::{Again, Failure, Node, Operation, Progress, Settings, Stats, ToTheDead};

const AGAIN: isize = -(FI_EAGAIN as isize);

/// Result of a run in which several sides send, write and read at random.
struct Run {
    stats: Stats,
    /// Messages of each receiver in order: sender and number.
    got: Vec<Vec<(u8, u32)>>,
    /// Contexts and errors of each sender's completions, in order.
    ended: Vec<Vec<(usize, i32)>>,
    violations: Vec<String>,
    leaks: netmod_fake_fabric::Leaks,
    /// Number of messages that arrived before the data written before them.
    overtaken: usize,
}

const SIDES: usize = 3;
const MESSAGES: u32 = 120;

/// Runs three sides, each sending numbered messages to all. Before each message it writes the
/// number to the receiver's memory.
fn run(settings: Settings) -> Run {
    let (library, world) = world(settings.clone());
    let sides: Vec<Side> = (0..SIDES).map(|_| Side::open(&library, &world, &Requested::default())).collect();
    let peers: Vec<Vec<u64>> =
        sides.iter().map(|side| sides.iter().map(|peer| side.insert(&peer.name)).collect()).collect();
    const RX: usize = 512;
    let mut receives: Vec<Vec<Vec<u8>>> = vec![vec![vec![0; RX]; 4]; SIDES];
    // Destination of writes: a word per writer.
    let boards: Vec<Vec<u8>> = vec![vec![0; 8 * SIDES]; SIDES];
    let contexts: Vec<Contexts> = (0..SIDES).map(|_| Contexts::new(4 + 1000)).collect();
    let local = |side: usize, memory: &[u8], key| sides[side].register_for(&settings, memory, key);
    let mut regions = Vec::new();
    let (mut board_keys, mut rx_descs) = (Vec::new(), Vec::new());
    for side in 0..SIDES {
        let region = local(side, &boards[side], 1);
        board_keys.push(key_of(region));
        regions.push(region);
        let mut descs = Vec::new();
        for (number, buffer) in receives[side].iter().enumerate() {
            let region = local(side, buffer, 10 + number as u64);
            descs.push(desc_of(region));
            regions.push(region);
        }
        rx_descs.push(descs);
    }
    // Sent and written data, never reused.
    let outs: Vec<Vec<u8>> = (0..SIDES)
        .map(|side| {
            (0..MESSAGES)
                .flat_map(|number| [u64::from(number).to_le_bytes(), [side as u8; 8]].concat())
                .collect()
        })
        .collect();
    let out_descs: Vec<_> = (0..SIDES)
        .map(|side| {
            let region = local(side, &outs[side], 99);
            regions.push(region);
            desc_of(region)
        })
        .collect();
    let mut posted = [[false; 4]; SIDES];
    // Messages reported in each receive buffer.
    let mut reported = [[0; 4]; SIDES];
    let mut run = Run {
        stats: Stats::default(),
        got: vec![Vec::new(); SIDES],
        ended: vec![Vec::new(); SIDES],
        violations: Vec::new(),
        leaks: netmod_fake_fabric::Leaks::default(),
        overtaken: 0,
    };
    // Next step of each side: the number, the receiver, and whether its write is done.
    let mut next = [(0u32, 0usize, false); SIDES];
    let mut under_way = [0usize; SIDES];
    let mut quiet = 0;
    while quiet < 200 {
        quiet += 1;
        for side in 0..SIDES {
            for number in 0..4 {
                if !posted[side][number] {
                    let buffer = &mut receives[side][number];
                    let rc =
                        sides[side].recv_multi(buffer, rx_descs[side][number], contexts[side].at(number));
                    assert!(rc == 0 || rc == AGAIN, "{rc}");
                    posted[side][number] = rc == 0;
                }
            }
            let (number, to, written) = next[side];
            if number < MESSAGES && under_way[side] < 900 {
                let at = 16 * number as usize;
                let (word, message) = (&outs[side][at..at + 8], &outs[side][at..at + 16]);
                let peer = peers[side][to];
                let slot = 4 + ((number as usize * SIDES + to) * 2 + usize::from(written)) % 1000;
                let rc = if !written {
                    let addr =
                        if settings.mr_mode & FI_MR_VIRT_ADDR != 0 { boards[to].as_ptr().addr() } else { 0 };
                    let (addr, key) = ((addr + 8 * side) as u64, board_keys[to]);
                    sides[side].write(word, out_descs[side], peer, addr, key, contexts[side].at(slot))
                } else if number % 3 == 0 && settings.inject_size >= 16 {
                    sides[side].inject(message, peer)
                } else {
                    sides[side].send(message, out_descs[side], peer, contexts[side].at(slot))
                };
                assert!(rc == 0 || rc == AGAIN, "{rc}");
                if rc == 0 {
                    under_way[side] += 1;
                    next[side] = match (written, to + 1 == SIDES) {
                        (false, _) => (number, to, true),
                        (true, false) => (number, to + 1, false),
                        (true, true) => (number + 1, 0, false),
                    };
                }
                quiet = 0;
            }
            for done in sides[side].poll() {
                if done.context == 0 {
                    continue;
                }
                quiet = 0;
                let slot = contexts[side].find(done.context).unwrap();
                if slot >= 4 {
                    under_way[side] -= 1;
                    run.ended[side].push((slot, done.err));
                    continue;
                }
                if done.err == 0 && done.flags & FI_MSG != 0 {
                    let at = done.buf - receives[side][slot].as_ptr().addr();
                    assert_eq!(done.len, 16);
                    let message = &receives[side][slot][at..at + 16];
                    let (number, from) = (u32::from_le_bytes(message[..4].try_into().unwrap()), message[8]);
                    let board = &std::hint::black_box(&boards)[side][8 * from as usize..];
                    if u32::from_le_bytes(board[..4].try_into().unwrap()) < number {
                        run.overtaken += 1;
                    }
                    run.got[side].push((from, number));
                    reported[side][slot] += 1;
                }
                if done.flags & FI_MULTI_RECV != 0 {
                    // This is the last entry of the buffer: less than 64 of 512 bytes are left.
                    let whole = settings.failure.recv == 0.0;
                    assert!(!whole || reported[side][slot] == 29, "{}", reported[side][slot]);
                    reported[side][slot] = 0;
                    posted[side][slot] = false;
                }
            }
        }
    }
    for (side, contexts) in sides.iter().zip(&contexts) {
        for number in 0..4 {
            cancel(side.ep, contexts.at(number));
        }
        for _ in 0..50 {
            let _ = side.poll();
        }
    }
    run.stats = world.stats();
    run.violations = world.violations();
    for region in regions {
        assert_eq!(close(region.cast()), 0);
    }
    sides.into_iter().for_each(Side::close);
    run.leaks = world.close();
    run
}

impl Run {
    /// Checks that nothing is lost, duplicated or reordered between one sender and one receiver,
    /// and that there are no violations.
    fn is_right(&self) {
        assert_eq!(self.violations, [""; 0]);
        for got in &self.got {
            for from in 0..SIDES as u8 {
                let numbers: Vec<u32> =
                    got.iter().filter(|(other, _)| *other == from).map(|(_, n)| *n).collect();
                assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
            }
        }
        assert!(self.leaks.is_none(), "{:?}", self.leaks);
    }

    /// Returns true if messages of different senders arrived in another order than they were sent.
    fn mixed(&self) -> bool {
        self.got.iter().any(|got| !got.is_sorted_by_key(|(_, number)| *number))
    }
}

#[test]
fn without_faults_all_goes_in_order() {
    let run = run(Settings::default().complete_early(false));
    run.is_right();
    assert_eq!((run.overtaken, run.mixed()), (0, false));
    let stats = &run.stats;
    assert_eq!((stats.again, stats.failed, stats.errors, stats.short, stats.spurious), (0, 0, 12, 0, 0));
    assert_eq!(stats.delivered, u64::from(MESSAGES) * 9);
}

#[test]
fn everything_strange_at_once_loses_nothing() {
    let asked = std::env::var("NETMOD_FAKE_RUNS").map(|runs| runs.parse().expect("a number"));
    let most: u64 = asked.unwrap_or(25);
    let (mut overtaken, mut mixed, mut traces) = (0, false, Vec::new());
    for seed in 0..most {
        let bits = [FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT];
        let mr_mode =
            bits.iter().enumerate().filter(|(bit, _)| seed >> bit & 1 != 0).map(|(_, bit)| bit).sum();
        let progress = [Progress::Auto, Progress::Manual, Progress::ClaimsAuto][seed as usize % 3];
        let settings = Settings::default()
            .seed(seed)
            .mr_mode(mr_mode)
            .mode(if seed % 2 == 0 { FI_CONTEXT } else { FI_CONTEXT2 | FI_ASYNC_IOV })
            .progress(progress)
            .again(Again::all(0.3))
            .delivery_delay(20)
            .completion_delay(20)
            .reorder(true)
            .short_length(0.5)
            .release_alone(0.5)
            .spurious(0.1)
            .tx_size(16)
            .inject_size(if seed % 4 == 0 { 0 } else { 64 });
        let one = run(settings.clone());
        one.is_right();
        let stats = &one.stats;
        assert!(
            stats.again > 100 && stats.short > 10 && stats.spurious > 10 && stats.releases > 5,
            "{stats:?}"
        );
        assert!(stats.early > 10, "{stats:?}");
        overtaken += one.overtaken;
        mixed |= one.mixed();
        traces.push(stats.trace);
        // The same again.
        if seed < 3 {
            let other = run(settings);
            assert_eq!((&one.stats, &one.got, &one.ended), (&other.stats, &other.got, &other.ended));
        }
    }
    assert!(overtaken > 100 && mixed, "{overtaken} {mixed}");
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), most as usize);
}

#[test]
fn completions_overtake_each_other_only_where_asked_for() {
    for reorder in [false, true] {
        let settings = Settings::default().delivery_delay(20).completion_delay(20).reorder(reorder);
        let run = run(settings.complete_early(false));
        run.is_right();
        let in_order = run.ended.iter().all(|ended| ended.is_sorted());
        assert_eq!((in_order, run.overtaken > 0), (!reorder, reorder));
    }
}

#[test]
fn operations_fail_where_asked_for() {
    let failure = Failure { send: 0.1, recv: 0.1, write: 0.1, read: 0.0 };
    for negative in [false, true] {
        let run = run(Settings::default().failure(failure).negative_errors(negative).complete_early(false));
        assert_eq!(run.violations, [""; 0]);
        assert!(run.leaks.is_none(), "{:?}", run.leaks);
        let failed = run.ended.iter().flatten().filter(|(_, err)| *err != 0).count() as u64;
        let lost = run.got.iter().map(Vec::len).sum::<usize>() as u64;
        let lost = 9 * u64::from(MESSAGES) - lost;
        // Some failed sends have arrived; failed receives count as errors, too.
        assert!(failed > 50 && run.stats.failed > failed, "{failed} {:?}", run.stats);
        assert!(lost == run.stats.lost && lost < run.stats.failed && lost > 50, "{lost} {:?}", run.stats);
        let sign = if negative { -libc::EIO } else { libc::EIO };
        assert!(run.ended.iter().flatten().all(|(_, err)| *err == 0 || *err == sign));
        // Arrived messages are in order.
        for (side, got) in run.got.iter().enumerate() {
            let mine =
                |from: u8| got.iter().filter(move |(other, _)| *other == from).map(|(_, number)| *number);
            assert!((0..SIDES as u8).all(|from| mine(from).is_sorted()), "{side}");
        }
    }
    // Without contexts failures are not identified, except sends, whose slots are odd.
    let run = run(Settings::default().failure(failure).anonymous_errors(true).complete_early(false));
    let known = |(slot, err): &(usize, i32)| *err != 0 && slot % 2 == 1;
    assert!(run.ended.iter().flatten().all(|end| end.1 == 0 || known(end)));
    assert!(run.ended.iter().flatten().any(known));
    assert!(run.stats.failed > 100 && run.stats.errors >= run.stats.failed);
}

#[test]
fn what_is_injected_and_fails_is_reported_without_a_context() {
    let (library, world) = world(Settings::default());
    let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
    let (contexts, mut into) = (Contexts::new(1), vec![0; 1000]);
    assert_eq!(b.recv_multi(&mut into, null_mut(), contexts.at(0)), 0);
    let mut arrived = 0;
    for _ in 0..40 {
        world.fail_next(Operation::Send, 1);
        assert_eq!(a.inject(&[1; 10], to_b), 0);
        let done = a.poll();
        assert_eq!((done.len(), done[0].err, done[0].context), (1, libc::EIO, 0));
        assert_eq!(done[0].flags & (FI_SEND | FI_RECV), FI_SEND);
        arrived += b.poll().len();
    }
    assert!((1..40).contains(&arrived), "some arrive nevertheless, and some do not: {arrived}");
    assert_eq!(world.violations(), [""; 0]);
    a.close();
    b.close();
    assert!(world.close().is_none());
}

#[test]
fn the_next_operations_fail_to_order() {
    let (library, world) = world(Settings::default());
    let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
    let (contexts, memory, mut into) = (Contexts::new(8), vec![1; 10], vec![0; 10]);
    let key = key_of(b.register(&memory, ALL_ACCESS, 1).unwrap());
    world.fail_next(Operation::Read, 2);
    world.fail_next(Operation::Write, 1);
    let mut ended = Vec::new();
    for number in 0..3 {
        assert_eq!(a.read(&mut into, null_mut(), to_b, 0, key, contexts.at(number)), 0);
        ended.extend(a.poll().iter().map(|done| done.err));
        assert_eq!(into[0], u8::from(number == 2));
    }
    assert_eq!(ended, [libc::EIO, libc::EIO, 0]);
    for number in 0..2u8 {
        assert_eq!(a.write(&[9 + number; 10], null_mut(), to_b, 0, key, contexts.at(0)), 0);
        let done = a.poll();
        assert_eq!((done.len(), done[0].err), (1, if number == 0 { libc::EIO } else { 0 }));
        assert_eq!(std::hint::black_box(&memory)[0], if number == 0 { 1 } else { 10 });
    }
    world.fail_next(Operation::Recv, 1);
    assert_eq!(b.recv(&mut into, null_mut(), contexts.at(1)), 0);
    assert_eq!((a.inject(b"1", to_b), b.poll()[0].err), (0, libc::EIO));
    world.fail_next(Operation::Send, 1);
    assert_eq!(a.send(b"1", null_mut(), to_b, contexts.at(2)), 0);
    assert_eq!(a.poll()[0].err, libc::EIO);
    assert_eq!((world.stats().failed, world.violations().len()), (5, 0));
}

#[test]
fn receives_are_taken_back() {
    for multi in [false, true] {
        // A missing context is no excuse here: the buffer could never be freed.
        let (library, world) = world(Settings::default().mode(FI_CONTEXT2).anonymous_errors(true));
        let a = Side::open(&library, &world, &Requested::default());
        let (contexts, mut buffer) = (Contexts::new(2), vec![0; 100]);
        for _ in 0..20 {
            let rc = if multi {
                a.recv_multi(&mut buffer, null_mut(), contexts.at(0))
            } else {
                a.recv(&mut buffer, null_mut(), contexts.at(0))
            };
            assert_eq!(rc, 0);
            assert_eq!(cancel(a.ep, contexts.at(1)), -(libc::ENOENT as isize));
            assert_eq!(cancel(a.ep, contexts.at(0)), 0);
            assert_eq!(cancel(a.ep, contexts.at(0)), -(libc::ENOENT as isize));
            let done = a.poll();
            assert_eq!((done.len(), done[0].err, done[0].context), (1, FI_ECANCELED, contexts.at(0).addr()));
            assert_eq!(done[0].flags & FI_RECV, FI_RECV);
        }
        assert_eq!(world.violations(), [""; 0]);
        a.close();
        assert!(world.close().is_none());
    }
}

#[test]
fn the_dead_are_as_settings_say() {
    for way in [ToTheDead::Silence, ToTheDead::Again, ToTheDead::Error] {
        for by_closing in [false, true] {
            let settings =
                Settings::default().to_the_dead(way).complete_early(false).progress(Progress::Manual);
            let (library, world) = world(settings);
            let (a, to_b, b, to_a) = Side::pair(&library, &world, &Requested::default());
            let (contexts, mut into, mut memory) = (Contexts::new(8), vec![0; 10], vec![0; 10]);
            assert_eq!(b.recv(&mut memory, null_mut(), contexts.at(7)), 0);
            let region = b.register(&memory, ALL_ACCESS, 1).unwrap();
            // In flight: a message, a read, and a message of the process about to die.
            assert_eq!(a.send(b"x", null_mut(), to_b, contexts.at(0)), 0);
            assert_eq!(a.read(&mut into, null_mut(), to_b, 0, 1, contexts.at(1)), 0);
            assert_eq!(b.inject(b"x", to_a), 0);
            if by_closing {
                assert_eq!((close(region.cast()), close(b.ep.cast())), (0, 0));
            } else {
                world.kill(Node::Address(b.name.clone()));
            }
            assert_eq!((world.nodes()[1].dead, world.nodes()[1].closed), (!by_closing, by_closing));
            let answers = [
                a.send(b"x", null_mut(), to_b, contexts.at(2)),
                a.read(&mut into, null_mut(), to_b, 0, 1, contexts.at(3)),
            ];
            let mut got = vec![0; 10];
            assert_eq!(a.recv(&mut got, null_mut(), contexts.at(4)), 0);
            let mut ended: Vec<(usize, i32)> = Vec::new();
            for _ in 0..10 {
                ended.extend(a.poll().iter().map(|done| (contexts.find(done.context).unwrap(), done.err)));
            }
            ended.sort_unstable();
            let gone = libc::ENOTCONN;
            let mut expected = match way {
                ToTheDead::Silence => vec![(0, 0), (2, 0)],
                ToTheDead::Again => vec![],
                ToTheDead::Error => (0..4).map(|number| (number, gone)).collect(),
            };
            // Messages of a closed endpoint arrive; those of a dead process do not.
            if by_closing {
                expected.push((4, 0));
            }
            assert_eq!(ended, expected, "{way:?} {by_closing}");
            assert_eq!(answers, [if way == ToTheDead::Again { AGAIN } else { 0 }; 2]);
            assert_eq!(memory, [0; 10]);
            a.close();
            let leaks = world.close();
            assert_eq!(leaks.domains, usize::from(by_closing));
            assert_eq!(leaks.endpoints + leaks.operations, 0, "{leaks:?}");
            assert_eq!(leaks.fabrics, usize::from(by_closing));
        }
    }
}

#[test]
fn the_dead_give_up_what_they_hold() {
    let settings =
        Settings::default().mr_mode(FI_MR_LOCAL).to_the_dead(ToTheDead::Again).complete_early(false);
    let (library, world) = world(settings);
    let (a, to_b, mut b, _) = Side::pair(&library, &world, &Requested::default());
    let memory = vec![1; 16];
    let (mine, _theirs) =
        (a.register(&memory, ALL_ACCESS, 1).unwrap(), b.register(&memory, ALL_ACCESS, 1).unwrap());
    assert_eq!(a.send(&memory, desc_of(mine), to_b, null_mut()), 0);
    world.kill(Node::Number(1));
    // The send will never complete, and nobody needs to wait for it.
    assert_eq!(close(mine.cast()), 0);
    assert_eq!(world.violations(), [""; 0]);
    // Another endpoint of the dead process's domain exposes no memory either.
    // SAFETY: live objects, and the result has room.
    #[allow(unsafe_code)]
    let name = unsafe {
        assert_eq!(libfabric_sys::call::fi_endpoint(b.domain, b.info, &raw mut b.ep, null_mut()), 0);
        assert_eq!(
            (bind(b.ep.cast(), b.av.cast(), 0), bind(b.ep.cast(), b.cq.cast(), FI_TRANSMIT | FI_RECV)),
            (0, 0)
        );
        assert_eq!(enable(b.ep.cast()), 0);
        let (mut name, mut len) = ([0u8; 16], 16);
        assert_eq!(libfabric_sys::call::fi_getname(b.ep, name.as_mut_ptr().cast(), &raw mut len), 0);
        name
    };
    let to = a.insert(&name);
    let mut into = vec![0; 16];
    let local = a.register(&into, ALL_ACCESS, 2).unwrap();
    assert_eq!(a.read(&mut into, desc_of(local), to, 0, 1, null_mut()), 0);
    assert_eq!((a.poll()[0].err, into), (libc::EACCES, vec![0; 16]));
}

#[test]
fn delivery_is_waited_for_where_asked_for() {
    let (library, world) = world(Settings::default());
    let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
    let mut buffer = vec![0; 8];
    for _ in 0..20 {
        assert_eq!(sendmsg(a.ep, &[piece(b"x")], to_b, null_mut(), FI_DELIVERY_COMPLETE), 0);
        assert_eq!(a.poll(), []);
        assert_eq!(b.recv(&mut buffer, null_mut(), null_mut()), 0);
        assert_eq!((b.poll().len(), a.poll().len()), (1, 1));
    }
    assert_eq!(world.stats().early, 0);
}

#[test]
fn senders_overtake_each_other_without_any_delay() {
    let (library, world) = world(Settings::default().reorder(true));
    let sides: Vec<Side> = (0..4).map(|_| Side::open(&library, &world, &Requested::default())).collect();
    let (mut buffers, contexts) = (vec![vec![0; 1]; 4], Contexts::new(4));
    let mut orders = std::collections::BTreeSet::new();
    let to: Vec<u64> = sides.iter().map(|side| side.insert(&sides[0].name)).collect();
    for _ in 0..50 {
        for (number, side) in sides.iter().enumerate() {
            assert_eq!(side.inject(&[number as u8], to[number]), 0);
            assert_eq!(sides[0].recv(&mut buffers[number], null_mut(), contexts.at(number)), 0);
        }
        assert_eq!(sides[0].poll().len(), 4);
        orders.insert(std::hint::black_box(&buffers).concat());
    }
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn closing_may_lose_messages() {
    for loses in [false, true] {
        let (library, world) = world(Settings::default().close_loses(loses));
        let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
        let (context, mut buffer) = (Contexts::new(1), vec![0; 10]);
        assert_eq!(a.inject(b"x", to_b), 0);
        assert_eq!(close(a.ep.cast()), 0);
        assert_eq!(b.recv(&mut buffer, null_mut(), context.at(0)), 0);
        assert_eq!(b.poll().len(), usize::from(!loses));
        // The same for writes, if they have been reported as complete.
        let (library, world) = common::world(Settings::default().close_loses(loses).delivery_delay(50));
        let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
        let memory = vec![0; 40];
        b.register(&memory, ALL_ACCESS, 1).unwrap();
        for at in 0..40 {
            assert_eq!(a.write(b"x", null_mut(), to_b, at, 1, null_mut()), 0);
        }
        assert_eq!(close(a.ep.cast()), 0);
        (0..100).for_each(|_| drop(b.poll()));
        let written = std::hint::black_box(&memory).iter().filter(|byte| **byte != 0).count();
        assert_eq!(written, if loses { 0 } else { 40 });
    }
}

#[test]
fn operations_that_were_under_way_are_told() {
    let (library, world) = world(Settings::default().complete_early(false));
    let (a, to_b, _b, _) = Side::pair(&library, &world, &Requested::default());
    assert_eq!(a.send(b"x", null_mut(), to_b, null_mut()), 0);
    assert_eq!(close(a.ep.cast()), 0);
    let leaks = world.close();
    assert_eq!((leaks.abandoned, leaks.operations), (1, 0));
}

#[test]
fn a_stalled_target_moves_nothing() {
    let (library, world) = world(Settings::default().complete_early(false));
    let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
    let (contexts, mut buffer, mut into) = (Contexts::new(4), vec![0; 10], vec![0; 10]);
    let memory = vec![1; 10];
    b.register(&memory, ALL_ACCESS, 1).unwrap();
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
    world.stall(Node::Number(1), true);
    assert_eq!(a.send(b"x", null_mut(), to_b, contexts.at(1)), 0);
    assert_eq!(a.read(&mut into, null_mut(), to_b, 0, 1, contexts.at(2)), 0);
    for _ in 0..100 {
        assert_eq!((a.poll(), b.poll()), (vec![], vec![]));
    }
    world.stall(Node::Number(1), false);
    assert_eq!((b.poll().len(), a.poll().len(), into[0]), (1, 2, 1));
}

#[test]
fn a_target_that_does_not_poll_is_waited_for_where_progress_is_manual() {
    for (progress, claims, waits) in [
        (Progress::Auto, FI_PROGRESS_AUTO, false),
        (Progress::Manual, FI_PROGRESS_MANUAL, true),
        (Progress::ClaimsAuto, FI_PROGRESS_AUTO, true),
    ] {
        let (library, world) = world(Settings::default().progress(progress));
        let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
        // SAFETY: an info has its parts.
        #[allow(unsafe_code)]
        let claimed = unsafe { (*(*a.info).domain_attr).data_progress };
        assert_eq!(claimed, claims);
        let (contexts, memory, mut into) = (Contexts::new(1), vec![1; 10], vec![0; 10]);
        b.register(&memory, ALL_ACCESS, 1).unwrap();
        assert_eq!(a.read(&mut into, null_mut(), to_b, 0, 1, contexts.at(0)), 0);
        let before = (0..100).map(|_| a.poll().len()).sum::<usize>();
        assert_eq!(before, usize::from(!waits));
        let _ = b.poll();
        assert_eq!(a.poll().len(), usize::from(waits));
    }
}
