//! Transfers between two netmods of this process: contents, bounds, ends of regions, and whether
//! they are permitted.

use netmod_core::rma::Regions;
use netmod_core::{Diagnose, Events, Netmod, PollOrder, Time};

use super::*;
use crate::netmod::NoSegment;
use crate::tests::Pair;
use crate::transfers::SETTINGS;

/// Lends memory to a registration.
#[allow(unsafe_code)]
fn lent(mem: &mut [u8]) -> RmaBuf {
    // SAFETY: the tests keep the memory beyond their last poll, and both netmods move data in polls
    // only, on this thread.
    unsafe { RmaBuf::new(mem.as_mut_ptr(), mem.len()) }
}

impl Pair {
    pub(super) fn register(&mut self, i: usize, mem: &mut [u8], access: Access) -> (RegionId, RemoteKey) {
        let mem = lent(mem);
        self.nets[i].register(&mut self.cores[i], self.vcs[i], mem, access).expect("a region")
    }

    /// Polls rank 0 until an operation has ended.
    pub(super) fn end(&mut self) -> (u64, Result<(), VcError>) {
        let mut events = Events::default();
        loop {
            self.nets[0]
                .poll(&mut self.cores[0], PollOrder::InFirst, Time::ZERO, &mut events)
                .expect("a poll");
            while let Some(ev) = events.pop() {
                if let Event::RmaDone { op, result, .. } = ev {
                    return (op, result);
                }
            }
        }
    }

    pub(super) fn get(
        &mut self,
        local: RegionId,
        key: &RemoteKey,
        at: usize,
        len: usize,
    ) -> Result<(), VcError> {
        let vc = self.vcs[0];
        let op = RmaOp { vc, local, at: 0, key, remote_at: at, len, op: 7 };
        self.nets[0].get(&mut self.cores[0], &op)
    }

    fn put(&mut self, local: RegionId, key: &RemoteKey, at: usize, len: usize) -> Result<(), VcError> {
        let vc = self.vcs[0];
        let op = RmaOp { vc, local, at: 0, key, remote_at: at, len, op: 8 };
        self.nets[0].put(&mut self.cores[0], &op)
    }
}

#[test]
fn gets_and_puts_move_what_they_should() {
    let mut p = Pair::new("move");
    let mut theirs: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let want = theirs.clone();
    let mut mine = vec![0u8; 2_500_000];
    let (_, read) = p.register(1, &mut theirs, Access::RemoteRead);
    let (local, _) = p.register(0, &mut mine, Access::Local);
    p.get(local, &read, 400_000, 2_500_000).expect("started");
    let (op, result) = p.end();
    assert_eq!((op, result), (7, Ok(())));
    assert!(mine == want[400_000..2_900_000]);
    // And back, elsewhere.
    let (_, write) = p.register(1, &mut theirs, Access::RemoteWrite);
    p.put(local, &write, 10, 2_500_000).expect("started");
    assert_eq!(p.end(), (8, Ok(())));
    assert!(theirs[..10] == want[..10] && theirs[10..2_500_010] == mine[..]);
    // Nothing at all is a transfer, too.
    p.get(local, &read, 3_000_000, 0).expect("started");
    assert_eq!(p.end(), (7, Ok(())));
}

#[test]
fn transfers_beyond_or_of_another_kind_do_not_start() {
    let mut p = Pair::new("bounds");
    let (mut theirs, mut mine) = (vec![1u8; 100], vec![0u8; 50]);
    let (_, read) = p.register(1, &mut theirs, Access::RemoteRead);
    let (local, _) = p.register(0, &mut mine, Access::Local);
    assert!(p.get(local, &read, 60, 41).is_err());
    assert!(p.get(local, &read, 0, 51).is_err());
    assert!(p.get(local, &read, usize::MAX, 2).is_err());
    assert!(p.put(local, &read, 0, 1).is_err());
    assert!(p.get(RegionId(99), &read, 0, 1).is_err());
    for n in 0..read.bytes().len() {
        assert!(p.get(local, &RemoteKey::new(&read.bytes()[..n]).expect("a key"), 0, 1).is_err());
    }
    assert!(p.get(local, &read, 50, 50).is_ok());
    assert_eq!(p.end().1, Ok(()));
    assert_eq!(mine, [1; 50]);
}

#[test]
fn a_region_that_has_ended_is_out_of_reach() {
    let mut p = Pair::new("ended");
    let (mut theirs, mut mine) = (vec![1u8; 100], vec![0u8; 100]);
    let (region, read) = p.register(1, &mut theirs, Access::RemoteRead);
    let (local, _) = p.register(0, &mut mine, Access::Local);
    // Begun before, and looked at when it moves.
    p.get(local, &read, 0, 100).expect("started");
    p.nets[1].deregister(&mut p.cores[1], region).expect("a region");
    assert!(p.end().1.is_err());
    assert!(p.nets[1].deregister(&mut p.cores[1], region).is_err());
    // Its place is used again, and its key is not.
    let (_, again) = p.register(1, &mut theirs, Access::RemoteRead);
    p.get(local, &read, 0, 100).expect("started");
    assert!(p.end().1.is_err());
    p.get(local, &again, 0, 100).expect("started");
    p.nets[0].deregister(&mut p.cores[0], local).expect("a region");
    assert!(p.end().1.is_err(), "this side's region has ended");
    assert_eq!(mine, [0; 100]);
}

#[test]
fn there_are_only_so_many_regions() {
    let mut p = Pair::new("many");
    let mut mem = vec![0u8; 8];
    let all: Vec<RegionId> = (0..REGIONS).map(|_| p.register(0, &mut mem, Access::RemoteRead).0).collect();
    let e = p.nets[0].register(&mut p.cores[0], p.vcs[0], lent(&mut mem), Access::RemoteRead);
    assert_eq!(e.expect_err("no room").kind(), VcErrorKind::Resource);
    // Memory for local use takes no entry of the table.
    p.register(0, &mut mem, Access::Local);
    p.nets[0].deregister(&mut p.cores[0], all[5]).expect("a region");
    p.register(0, &mut mem, Access::RemoteWrite);
}

/// Regions for peers and those for local use keep to a half each.
#[test]
fn only_so_many_bytes_are_registered() {
    let mut p = Pair::new("bytes");
    p.nets[0].transfers.regions = Regions::new(100, SETTINGS);
    let mut mem = [0u8; 51];
    let mut try_register = |p: &mut Pair, len: usize, access| {
        p.nets[0].register(&mut p.cores[0], p.vcs[0], lent(&mut mem[..len]), access).map(|(id, _)| id)
    };
    assert_eq!(p.nets[0].caps(&p.cores[0], p.vcs[0]).max_registered, 100);
    for access in [Access::RemoteRead, Access::Local] {
        let e = try_register(&mut p, 51, access).expect_err("too much");
        assert_eq!(e.kind(), VcErrorKind::Resource);
        assert!(e.to_string().contains("NETMOD_SHM_REGISTER_MAX=100"), "{e}");
        let first = try_register(&mut p, 30, access).expect("room");
        try_register(&mut p, 20, access).expect("room");
        try_register(&mut p, 1, access).expect_err("too much");
        p.nets[0].deregister(&mut p.cores[0], first).expect("a region");
        try_register(&mut p, 30, access).expect("room");
    }
}

/// The owner of a region that a peer is writing into gets it back when the peer is through, or
/// dead.
#[test]
fn a_region_is_taken_back_from_its_writer() {
    let mut p = Pair::new("take-back");
    let mut mem = vec![0u8; 8];
    for dies in [false, true] {
        let (region, key) = p.register(1, &mut mem, Access::RemoteWrite);
        let key = Key::parse(&key).expect("a key of its own");
        let number = key.number;
        let [writer, owner] = &mut p.nets;
        fn word(net: &ShmNetmod, (slot, place): (usize, usize)) -> &std::sync::atomic::AtomicU64 {
            let segment = net.segment.as_ref().expect("a segment");
            segment.region(slot, place).expect("a word")
        }
        let at = (key.slot as usize, key.place as usize);
        assert!(crate::region::enter(word(writer, at), number));
        let through = std::sync::atomic::AtomicBool::new(false);
        let untroubled = std::thread::scope(|s| {
            let writer = s.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                through.store(true, std::sync::atomic::Ordering::Release);
                if dies {
                    // The kernel closes all that holds the file, and so drops its lock.
                    writer.wakeup.bells = None;
                    writer.segment = Err(NoSegment::Away);
                    return None;
                }
                Some(crate::region::leave(word(writer, at), number))
            });
            owner.deregister(&mut p.cores[1], region).expect("a region");
            assert!(through.load(std::sync::atomic::Ordering::Acquire), "given back while it was written");
            writer.join().expect("no panic")
        });
        // The one that lives hears of it.
        assert_eq!(untroubled, (!dies).then_some(false));
        let word = word(owner, at);
        assert!(!crate::region::is_live(word, number) && !crate::region::enter(word, number));
    }
}

/// Another process has the peer's number by the time that a transfer moves: nothing of it counts,
/// and nothing is written.
#[test]
fn who_the_peer_is_is_known_with_each_part() {
    let mut p = Pair::new("parts");
    let (mut theirs, mut mine) = (vec![1u8; 100], vec![2u8; 100]);
    let (_, read) = p.register(1, &mut theirs, Access::RemoteRead);
    let (_, written) = p.register(1, &mut theirs, Access::RemoteWrite);
    let (local, _) = p.register(0, &mut mine, Access::Local);
    let elsewhere = [0u8; 16];
    for (at, why) in [(elsewhere.as_ptr() as u64, "another one here"), (16, "cross-memory attach to process")]
    {
        for gets in [true, false] {
            if gets {
                p.get(local, &read, 0, 100).expect("started");
            } else {
                p.put(local, &written, 0, 100).expect("started");
            }
            let segment = p.nets[1].segment.as_ref().expect("a segment");
            segment.slot(segment.me()).probe_at.store(at, std::sync::atomic::Ordering::Relaxed);
            let e = p.end().1.expect_err("it is not the peer");
            assert!(e.kind() == VcErrorKind::Lost && e.to_string().contains(why), "{e}");
        }
    }
    assert_eq!(theirs, [1; 100]);
}

/// A slot that names an address where its token is not: another process has that number here.
#[test]
fn where_the_token_is_not_found_nothing_is_touched() {
    let mut p = Pair::new("probe");
    let mut mem = [0u8; 8];
    // Sets where rank 1 says that its token is, and returns what it has said before. Rank 0 has not
    // looked yet.
    let say = |p: &mut Pair, at: u64| {
        let vc = p.vcs[0];
        p.nets[0].vcs.get_mut(vc).expect("a VC").attach = None;
        let segment = p.nets[1].segment.as_ref().expect("a segment");
        segment.slot(segment.me()).probe_at.swap(at, std::sync::atomic::Ordering::Relaxed)
    };
    let good = say(&mut p, mem.as_ptr() as u64);
    let mut register =
        |p: &mut Pair| p.nets[0].register(&mut p.cores[0], p.vcs[0], lent(&mut mem[..8]), Access::Local);
    let e = register(&mut p).expect_err("not permitted");
    assert_eq!(e.kind(), VcErrorKind::Unsupported);
    let text = p.nets[0].describe(&p.cores[0], p.vcs[0]);
    assert!(text.contains("no cross-memory attach (process"), "{text}");
    // Nor where nothing is mapped.
    say(&mut p, 16);
    assert!(register(&mut p).is_err());
    say(&mut p, good);
    assert!(register(&mut p).is_ok());
    assert!(p.nets[0].describe(&p.cores[0], p.vcs[0]).contains("cross-memory attach permitted"));
}
