//! Joint gets between two netmods of this process: contents, owners who do nothing or cannot,
//! endings on both sides, and nonsense.

use netmod_core::rma::{Access, RegionId, RemoteKey};
use netmod_core::{Event, Events, Netmod, PollOrder, Rma, Time, VcError};

use crate::joint::{Job, Joint, WORTH};
use crate::tests::Pair;
use crate::transfers::Key;

/// Bytes of a get, and of its parts: the last one is shorter.
const LEN: usize = 3_000_000;
const PART: u64 = 512 << 10;
const PARTS: u32 = LEN.div_ceil(PART as usize) as u32;

/// Rank 0 is about to read rank 1's memory.
struct Get {
    p: Pair,
    theirs: Vec<u8>,
    mine: Vec<u8>,
    /// Rank 1's region, and rank 0's.
    region: RegionId,
    local: RegionId,
    key: RemoteKey,
}

impl Get {
    fn new(name: &str) -> Get {
        let mut p = Pair::new(name);
        p.nets.iter_mut().for_each(|net| net.transfers.joint = WORTH);
        let mut theirs: Vec<u8> = (0..LEN as u32 + 1000).map(|i| (i % 251) as u8).collect();
        let mut mine = vec![0; LEN];
        let (region, key) = p.register(1, &mut theirs, Access::RemoteRead);
        let (local, _) = p.register(0, &mut mine, Access::Local);
        Get { p, theirs, mine, region, local, key }
    }

    fn start(&mut self) {
        self.p.get(self.local, &self.key, 1000, LEN).expect("started");
    }

    /// One poll of a rank; how the get has ended, if it has.
    fn poll(&mut self, rank: usize) -> Option<Result<(), VcError>> {
        let mut events = Events::default();
        let p = &mut self.p;
        p.nets[rank].poll(&mut p.cores[rank], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        match events.pop() {
            Some(Event::RmaDone { op: 7, result, .. }) => Some(result),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    fn is_there(&self) -> bool {
        self.mine == self.theirs[1000..]
    }

    fn helped(&self) -> u64 {
        self.p.nets[1].stats().helped
    }

    fn place(&self) -> usize {
        Key::parse(&self.key).expect("a key of its own").place as usize
    }

    /// Returns the words of the get that both sides write.
    fn joint(&self) -> &Joint {
        let segment = self.p.nets[1].segment.as_ref().expect("a segment");
        segment.joint(segment.me(), self.place()).expect("a line")
    }

    fn deregister(&mut self, rank: usize, region: RegionId) {
        let p = &mut self.p;
        p.nets[rank].deregister(&mut p.cores[rank], region).expect("a region");
    }
}

#[test]
fn both_sides_copy_until_all_is_there() {
    let mut get = Get::new("joint");
    // Again and again, with the same memory.
    for round in 1..4 {
        get.mine.fill(0);
        get.start();
        let end = loop {
            if let Some(end) = get.poll(0) {
                break end;
            }
            assert!(get.poll(1).is_none());
        };
        assert_eq!(end, Ok(()));
        assert!(get.is_there());
        // The reader's first poll had two parts, and then they had one each.
        assert_eq!(get.helped(), round * 2, "of {PARTS} parts");
        assert!(get.joint().enter().is_none(), "there is no job any more");
    }
}

#[test]
fn an_owner_that_does_not_poll_is_not_waited_for() {
    let mut get = Get::new("joint-alone");
    get.start();
    assert_eq!(get.p.end().1, Ok(()));
    assert!(get.is_there());
    // The transfer that a poll announces is over.
    assert!(get.poll(1).is_none());
    assert_eq!(get.helped(), 0);
}

#[test]
fn short_gets_and_those_where_it_is_off_have_one_side() {
    for (name, joint, len) in [("joint-short", WORTH, WORTH - 1), ("joint-off", usize::MAX, LEN)] {
        let mut get = Get::new(name);
        get.p.nets[0].transfers.joint = joint;
        get.p.get(get.local, &get.key.clone(), 0, len).expect("started");
        let _ = get.poll(0);
        assert!(get.joint().enter().is_none());
        assert!(get.poll(1).is_none());
        assert_eq!(get.helped(), 0);
    }
    // An owner that does not want to help lets the reader do it all.
    let mut get = Get::new("joint-unwilling");
    get.p.nets[1].transfers.joint = usize::MAX;
    get.start();
    while get.poll(0).is_none() {
        assert!(get.poll(1).is_none());
    }
    assert!(get.is_there());
    assert_eq!(get.helped(), 0);
}

#[test]
fn what_the_owner_cannot_write_the_reader_reads() {
    let mut get = Get::new("joint-fails");
    get.start();
    assert!(get.poll(0).is_none());
    // Acts as an owner without permission to write.
    let (number, _) = get.joint().enter().expect("a job");
    assert_eq!(get.joint().claim_back(PARTS), Some(PARTS - 1));
    get.joint().fail();
    // It is waited for until it is out.
    for _ in 0..5 {
        assert!(get.poll(0).is_none());
    }
    get.joint().leave(number);
    assert_eq!(get.p.end().1, Ok(()));
    assert!(get.is_there());
}

#[test]
fn a_reader_that_gives_up_is_not_written_to() {
    let mut get = Get::new("joint-reader-ends");
    get.start();
    assert!(get.poll(0).is_none());
    assert!(get.poll(1).is_none());
    assert_eq!(get.helped(), 1);
    let local = get.local;
    get.deregister(0, local);
    get.mine.fill(9);
    for _ in 0..5 {
        assert!(get.poll(1).is_none());
    }
    assert!(get.poll(0).expect("its end").is_err());
    assert_eq!(get.helped(), 1);
    assert!(get.mine.iter().all(|byte| *byte == 9));
}

#[test]
fn an_owner_that_gives_up_helps_no_more() {
    let mut get = Get::new("joint-owner-ends");
    get.start();
    assert!(get.poll(0).is_none());
    let region = get.region;
    get.deregister(1, region);
    assert!(get.poll(1).is_none());
    assert!(get.poll(0).expect("its end").is_err());
    assert_eq!(get.helped(), 0);
    assert!(get.joint().enter().is_none(), "the reader has its memory back");
    // The next region has the same place, and a get of its own.
    let mut theirs = std::mem::take(&mut get.theirs);
    (get.region, get.key) = get.p.register(1, &mut theirs, Access::RemoteRead);
    get.theirs = theirs;
    get.start();
    while get.poll(0).is_none() {
        assert!(get.poll(1).is_none());
    }
    assert!(get.is_there() && get.helped() > 0);
}

#[test]
fn jobs_that_cannot_be_are_not_done() {
    let mut get = Get::new("joint-nonsense");
    let number = Key::parse(&get.key).expect("a key of its own").number;
    let good = Job { region: number, from: 0, to: get.mine.as_mut_ptr() as u64, len: 1000, part: 1000 };
    let all = LEN as u64 + 1000;
    let bad = [
        Job { region: number + 1, ..good },
        Job { len: all + 1, part: PART, ..good },
        Job { from: all - 999, ..good },
        Job { from: u64::MAX, ..good },
        Job { to: u64::MAX, ..good },
        Job { part: 0, ..good },
        Job { len: u64::MAX, part: 1, ..good },
        Job { len: 0, ..good },
    ];
    for (i, job) in bad.iter().chain([&good]).enumerate() {
        assert!(get.joint().begin(i as u64 + 1, job));
        let segment = get.p.nets[0].segment.as_ref().expect("a segment");
        segment.want(get.p.nets[1].segment.as_ref().expect("a segment").me(), get.place());
        assert!(get.poll(1).is_none());
        assert_eq!(get.helped(), u64::from(*job == good), "{job:?}");
        crate::region::end(get.joint().word());
        assert!(crate::region::is_quiet(get.joint().word()));
        crate::region::close(get.joint().word());
    }
    // Requests for places that hold nothing are refused, too.
    let segment = get.p.nets[0].segment.as_ref().expect("a segment");
    (0..crate::segment::layout::REGIONS)
        .for_each(|i| segment.want(get.p.nets[1].segment.as_ref().expect("a segment").me(), i));
    for _ in 0..100 {
        assert!(get.poll(1).is_none());
    }
    assert!(get.mine[..1000] == get.theirs[..1000] && get.mine[1000..].iter().all(|byte| *byte == 0));
}

/// Memory that peers may write is not theirs to read.
#[test]
fn nobody_is_helped_to_read_what_is_there_to_be_written() {
    let mut get = Get::new("joint-write");
    let mut theirs = std::mem::take(&mut get.theirs);
    (get.region, get.key) = get.p.register(1, &mut theirs, Access::RemoteWrite);
    let number = Key::parse(&get.key).expect("a key of its own").number;
    let job = Job { region: number, from: 0, to: get.mine.as_mut_ptr() as u64, len: 1000, part: 1000 };
    assert!(get.joint().begin(1, &job));
    let segment = get.p.nets[0].segment.as_ref().expect("a segment");
    segment.want(get.p.nets[1].segment.as_ref().expect("a segment").me(), get.place());
    for _ in 0..5 {
        assert!(get.poll(1).is_none());
    }
    assert_eq!(get.helped(), 0);
    assert!(get.mine.iter().all(|byte| *byte == 0));
}

#[test]
fn an_owner_that_claims_for_the_reader_is_found_out() {
    let mut get = Get::new("joint-claims");
    get.start();
    assert!(get.poll(0).is_none());
    assert_eq!(get.joint().claim_front(PARTS), Some(2));
    let error = loop {
        if let Some(end) = get.poll(0) {
            break end.expect_err("it is not complete");
        }
    };
    assert!(error.to_string().contains("has claimed for this side"), "{error}");
}

/// A reader that has died leaves its job behind.
#[test]
fn a_place_that_is_taken_leaves_the_reader_alone() {
    let mut get = Get::new("joint-taken");
    let old = Job { region: 1 << 40, from: 0, to: 0, len: 10, part: 10 };
    assert!(get.joint().begin(1 << 40, &old));
    get.start();
    while get.poll(0).is_none() {
        assert!(get.poll(1).is_none());
    }
    assert!(get.is_there());
    assert_eq!(get.helped(), 0);
}
