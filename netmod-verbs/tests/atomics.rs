//! Atomic operations on a peer's memory, and flushes, over simulated devices.

mod world;

use hca::AtomicCap;
use netmod_core::rma::{Access, AtomicArgs, AtomicOp, Coherence, RegionId, RemoteKey, RmaAtomic, Word};
use netmod_core::{Rma as _, RmaOp, VcErrorKind, VcId};
use netmod_harness::schedules::memory::Area;
use world::{Setting, World};

/// Offset of the word in the peer's memory.
const WORD: usize = 16;

/// Two ranks: rank 1 exposes memory, rank 0 changes it.
struct Pair {
    world: World,
    vc: VcId,
    local: (RegionId, Area),
    there: (RegionId, Area, RemoteKey),
    number: u64,
}

impl Pair {
    fn new(setting: &Setting) -> Pair {
        let mut world = World::new(setting);
        world.send(0, 1, 8);
        world.until("connected", World::all_came);
        let (there, here) = (world.area(vec![0; 4096]), world.area(vec![0; 64]));
        let vc = world.ranks[0].vcs[1].expect("its VC");
        let vc1 = world.ranks[1].vcs[0].expect("its VC");
        let e = &mut world.ranks[1].engine;
        let registered = e.netmod.register(&mut e.core, vc1, there.rma_buf(), Access::RemoteAll);
        let (region, key) = registered.expect("memory");
        let e = &mut world.ranks[0].engine;
        let (local, _) = e.netmod.register(&mut e.core, vc, here.rma_buf(), Access::Local).expect("memory");
        Pair { world, vc, local: (local, here), there: (region, there, key), number: 0 }
    }

    fn first(area: &Area) -> usize {
        let mem = area.rma_buf();
        mem.as_ptr().align_offset(8)
    }

    fn value(&self) -> u64 {
        let at = Pair::first(&self.there.1) + WORD;
        u64::from_ne_bytes(self.there.1.bytes()[at..at + 8].try_into().expect("eight bytes"))
    }

    fn start(&mut self, args: AtomicArgs) -> Result<u64, netmod_core::VcError> {
        self.number += 1;
        let op = RmaAtomic {
            vc: self.vc,
            local: self.local.0,
            at: Pair::first(&self.local.1),
            key: &self.there.2,
            remote_at: Pair::first(&self.there.1) + WORD,
            args,
            op: self.number,
        };
        let e = &mut self.world.ranks[0].engine;
        e.netmod.atomic(&mut e.core, &op).map(|()| op.op)
    }

    /// Does an operation, and returns the old value.
    fn run(&mut self, op: AtomicOp, operand: u64, comparand: u64) -> u64 {
        let number = self.start(args(op, operand, comparand)).expect("an operation");
        self.world.until("it has ended", |w| w.ranks[0].layer.ended.contains_key(&number));
        assert_eq!(self.world.ranks[0].layer.ended[&number], Ok(()));
        let at = Pair::first(&self.local.1);
        u64::from_ne_bytes(self.local.1.bytes()[at..at + 8].try_into().expect("eight bytes"))
    }

    fn flushed(&mut self, vc: Option<VcId>) -> Result<bool, netmod_core::VcError> {
        let e = &mut self.world.ranks[0].engine;
        e.netmod.flush(&mut e.core, vc)
    }

    fn end(mut self) {
        for (rank, region) in [(0, self.local.0), (1, self.there.0)] {
            let e = &mut self.world.ranks[rank].engine;
            e.netmod.deregister(&mut e.core, region).expect("an end of the registration");
        }
        self.world.end();
    }
}

fn args(op: AtomicOp, operand: u64, comparand: u64) -> AtomicArgs {
    AtomicArgs { op, word: Word::U64, operand, comparand, fetches: true }
}

fn setting(xrc: bool, atomics: AtomicCap) -> Setting {
    let mut setting = Setting::new(2, 1);
    setting.without_xrc = if xrc { Vec::new() } else { vec![0, 1] };
    setting.device.attr.atomics = atomics;
    setting
}

#[test]
fn words_are_added_to_and_compared_and_swapped() {
    for xrc in [false, true] {
        let mut pair = Pair::new(&setting(xrc, AtomicCap::Device));
        assert_eq!(pair.run(AtomicOp::Add, 5, 0), 0);
        assert_eq!(pair.run(AtomicOp::Add, u64::MAX, 0), 5);
        assert_eq!(pair.run(AtomicOp::CompareSwap, 100, 5), 4);
        assert_eq!(pair.value(), 4);
        assert_eq!(pair.run(AtomicOp::CompareSwap, 100, 4), 4);
        assert_eq!((pair.run(AtomicOp::Add, 1, 0), pair.value()), (100, 101));
        pair.end();
    }
}

#[test]
fn capabilities_are_the_devices() {
    for (cap, coherence) in [
        (AtomicCap::None, None),
        (AtomicCap::Device, Some(Coherence::Device)),
        (AtomicCap::Global, Some(Coherence::Processor)),
    ] {
        let mut pair = Pair::new(&setting(true, cap));
        let e = &pair.world.ranks[0].engine;
        let atomics = e.netmod.caps(&e.core, pair.vc).atomics;
        assert_eq!((!atomics.is_empty()).then_some(atomics.coherence), coherence);
        for op in AtomicOp::ALL {
            for word in Word::ALL {
                let has = coherence.is_some()
                    && word.size() == 8
                    && matches!(op, AtomicOp::Add | AtomicOp::CompareSwap);
                assert_eq!(atomics.has(op, word), has, "{op:?} {word:?}");
                let started = pair.start(AtomicArgs { word, ..args(op, 0, 0) });
                match started {
                    Ok(number) => {
                        assert!(has, "{op:?} {word:?}");
                        pair.world.until("it has ended", |w| w.ranks[0].layer.ended.contains_key(&number));
                    }
                    Err(e) => {
                        assert!(!has && e.kind() == VcErrorKind::Unsupported, "{op:?} {word:?}: {e}");
                        assert!(e.to_string().contains("send a message to the owner"), "{e}");
                    }
                }
            }
        }
        pair.end();
    }
}

#[test]
fn a_flush_waits_for_everything_that_was_started() {
    let mut pair = Pair::new(&setting(true, AtomicCap::Device));
    assert_eq!((pair.flushed(Some(pair.vc)), pair.flushed(None)), (Ok(true), Ok(true)));
    let number = pair.start(args(AtomicOp::Add, 3, 0)).expect("an operation");
    let put = RmaOp {
        vc: pair.vc,
        local: pair.local.0,
        at: 40,
        key: &pair.there.2,
        remote_at: 1000,
        len: 8,
        op: number + 1,
    };
    let e = &mut pair.world.ranks[0].engine;
    e.netmod.put(&mut e.core, &put).expect("a put");
    assert_eq!((pair.flushed(Some(pair.vc)), pair.flushed(None)), (Ok(false), Ok(false)));
    let mut polls = 0;
    while pair.flushed(Some(pair.vc)) != Ok(true) {
        pair.world.poll();
        polls += 1;
        assert!(polls < 10_000, "{:?}", pair.world.state());
    }
    assert_eq!((pair.flushed(None), pair.value()), (Ok(true), 3));
    assert_eq!(pair.world.ranks[0].layer.ended.len(), 2);
    pair.end();
}

#[test]
fn a_dead_peer_ends_operations_and_flushes_with_errors() {
    let mut pair = Pair::new(&setting(false, AtomicCap::Device));
    pair.world.kill(1);
    let number = pair.start(args(AtomicOp::Add, 3, 0)).expect("an operation");
    pair.world.until("it has ended", |w| w.ranks[0].layer.ended.contains_key(&number));
    assert!(pair.world.ranks[0].layer.ended[&number].is_err());
    pair.world.until("its VC is down", |w| !w.ranks[0].layer.downs.is_empty());
    assert!(pair.flushed(Some(pair.vc)).is_err());
    assert_eq!(pair.flushed(None), Ok(true));
}

#[test]
fn memory_for_other_purposes_is_not_changed() {
    let mut pair = Pair::new(&setting(true, AtomicCap::Device));
    let vc1 = pair.world.ranks[1].vcs[0].expect("its VC");
    for access in [Access::RemoteRead, Access::RemoteWrite] {
        let area = pair.there.1.rma_buf();
        let e = &mut pair.world.ranks[1].engine;
        let (region, key) = e.netmod.register(&mut e.core, vc1, area, access).expect("memory");
        let window = std::mem::replace(&mut pair.there.2, key);
        let refused = pair.start(args(AtomicOp::Add, 1, 0)).expect_err("another purpose");
        assert_eq!(refused.kind(), VcErrorKind::Protocol, "{refused}");
        pair.there.2 = window;
        let e = &mut pair.world.ranks[1].engine;
        e.netmod.deregister(&mut e.core, region).expect("an end of the registration");
    }
    assert_eq!((pair.run(AtomicOp::Add, 1, 0), pair.value()), (0, 1));
    pair.end();
}
