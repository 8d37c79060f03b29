//! Atomic operations on a peer's memory, and flushes, over the fake provider.

use std::time::Duration;

use libfabric_sys::consts::{
    FI_CONTEXT2, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR,
};
use netmod_core::rma::{Access, AtomicArgs, AtomicOp, Coherence, RegionId, RemoteKey, RmaAtomic, Word};
use netmod_core::{Rma as _, RmaOp, VcError, VcErrorKind};
use netmod_fake_fabric::{Again, Node, Operation, Settings, ToTheDead};
use netmod_harness::schedules::memory::Area;

use pair::Pair;

mod pair;

/// Offset of the word in the peer's memory, after the first multiple of 8.
const WORD: usize = 16;

/// Two processes: the second exposes memory, the first changes it.
struct Scene {
    pair: Pair,
    local: (RegionId, Area),
    there: (RegionId, Area, RemoteKey),
    number: u64,
}

fn first(area: &Area) -> usize {
    area.rma_buf().as_ptr().align_offset(8)
}

fn word_at(area: &Area, at: usize) -> u64 {
    u64::from_ne_bytes(area.bytes()[at..at + 8].try_into().expect("eight bytes"))
}

fn args(op: AtomicOp, operand: u64) -> AtomicArgs {
    AtomicArgs { op, word: Word::U64, operand, comparand: 0, fetches: true }
}

impl Scene {
    fn new(settings: Settings) -> Scene {
        let mut pair = Pair::new(settings, |_| ());
        pair.send(0, &[]);
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.ranks[1].layer.got, 1);
        let (local, there) = (Area::new(vec![0; 64]), Area::new(vec![0; 512]));
        let mut register = |rank: usize, area: &Area, access| {
            let r = &mut pair.ranks[rank];
            r.engine.netmod.register(&mut r.engine.core, r.vc, area.rma_buf(), access).expect("memory")
        };
        let (region, key) = register(1, &there, Access::RemoteAll);
        let (own, _) = register(0, &local, Access::Local);
        Scene { pair, local: (own, local), there: (region, there, key), number: 0 }
    }

    fn set(&mut self, value: u64) {
        self.run(args(AtomicOp::Swap, value));
    }

    fn value(&self) -> u64 {
        word_at(&self.there.1, first(&self.there.1) + WORD)
    }

    fn start(&mut self, args: AtomicArgs) -> Result<u64, VcError> {
        self.number += 1;
        let r = &mut self.pair.ranks[0];
        let op = RmaAtomic {
            vc: r.vc,
            local: self.local.0,
            at: first(&self.local.1),
            key: &self.there.2,
            remote_at: first(&self.there.1) + WORD,
            args,
            op: self.number,
        };
        r.engine.netmod.atomic(&mut r.engine.core, &op).map(|()| op.op)
    }

    fn put(&mut self) {
        self.number += 1;
        let r = &mut self.pair.ranks[0];
        let op = RmaOp {
            vc: r.vc,
            local: self.local.0,
            at: 40,
            key: &self.there.2,
            remote_at: 300,
            len: 16,
            op: self.number,
        };
        r.engine.netmod.put(&mut r.engine.core, &op).expect("a put");
    }

    /// Waits for the end of an operation.
    fn end_of(&mut self, number: u64) -> Result<(), VcError> {
        for _ in 0..2000 {
            let ended = &self.pair.ranks[0].layer.ended;
            if let Some((_, result)) = ended.iter().find(|(op, _)| *op == number) {
                return result.clone();
            }
            self.pair.run(Duration::from_micros(500));
        }
        panic!("operation {number} has not ended");
    }

    /// Does an operation; returns the old value.
    fn run(&mut self, args: AtomicArgs) -> u64 {
        let number = self.start(args).expect("an operation");
        assert_eq!(self.end_of(number), Ok(()), "{args:?}");
        let old = word_at(&self.local.1, first(&self.local.1));
        if args.word.size() == 4 { u64::from(old as u32) } else { old }
    }

    fn flush(&mut self, of_vc: bool) -> Result<bool, VcError> {
        let r = &mut self.pair.ranks[0];
        r.engine.netmod.flush(&mut r.engine.core, of_vc.then_some(r.vc))
    }

    fn close(mut self) {
        for (rank, region) in [(0, self.local.0), (1, self.there.0)] {
            let r = &mut self.pair.ranks[rank];
            r.engine.netmod.deregister(&mut r.engine.core, region).expect("an end of the registration");
        }
        assert_eq!(self.pair.world.violations(), [""; 0]);
    }
}

#[test]
fn every_operation_on_every_word_is_what_the_contract_says() {
    let all = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    for mr_mode in [0, all, FI_MR_LOCAL, FI_MR_VIRT_ADDR | FI_MR_PROV_KEY] {
        let mut scene = Scene::new(Settings::default().mr_mode(mr_mode).mode(FI_CONTEXT2));
        let r = &scene.pair.ranks[0];
        let atomics = r.engine.netmod.caps(&r.engine.core, r.vc).atomics;
        assert_eq!(atomics.coherence, Coherence::Device);
        for op in AtomicOp::ALL {
            for word in Word::ALL {
                assert!(atomics.has(op, word), "{op:?} {word:?}");
                for (old, operand, comparand) in
                    [(5, 9, 5), (9, 5, 4), (u64::MAX, 1, 1), (0x1_0000_0003, 0x2_0000_0004, 3)]
                {
                    for fetches in [true, false] {
                        scene.set(old);
                        let args = AtomicArgs { op, word, operand, comparand, fetches };
                        let before = scene.run(args);
                        let mut new = word.apply(op, old, operand, comparand);
                        if word.size() == 4 {
                            // The other half of the memory is not touched.
                            let [mut bytes, half] = [old, new].map(u64::to_ne_bytes);
                            bytes[..4].copy_from_slice(&(u64::from_ne_bytes(half) as u32).to_ne_bytes());
                            new = u64::from_ne_bytes(bytes);
                        }
                        assert_eq!(scene.value(), new, "{args:?} of {old:#x}");
                        if fetches {
                            let low = if word.size() == 4 { u64::from(old as u32) } else { old };
                            assert_eq!(before, low, "{args:?}");
                        }
                    }
                }
            }
        }
        scene.close();
    }
}

#[test]
fn a_provider_without_atomic_operations_is_used_without_them() {
    let mut scene = Scene::new(Settings::default().atomics(false));
    let r = &scene.pair.ranks[0];
    assert!(r.engine.netmod.caps(&r.engine.core, r.vc).atomics.is_empty());
    let refused = scene.start(args(AtomicOp::Add, 1)).expect_err("none");
    assert_eq!(refused.kind(), VcErrorKind::Unsupported);
    assert!(refused.to_string().contains("libfabric has no atomic operation Add"), "{refused}");
    scene.put();
    assert_eq!(scene.end_of(2), Ok(()));
    scene.close();
}

#[test]
fn a_flush_is_over_when_the_peers_memory_has_changed() {
    let delays = |seed| Settings::default().seed(seed).delivery_delay(20).completion_delay(20);
    for seed in 0..20 {
        let mut scene = Scene::new(delays(seed).again(Again::all(0.2)));
        assert_eq!((scene.flush(true), scene.flush(false)), (Ok(true), Ok(true)));
        for _ in 0..10 {
            scene.start(AtomicArgs { fetches: false, ..args(AtomicOp::Add, 1) }).expect("an operation");
            scene.put();
        }
        assert_eq!((scene.flush(true), scene.flush(false)), (Ok(false), Ok(false)));
        let mut steps = 0;
        while scene.flush(true) != Ok(true) {
            scene.pair.run(Duration::from_micros(500));
            steps += 1;
            assert!(steps < 10_000);
        }
        assert_eq!((scene.value(), scene.flush(false)), (10, Ok(true)));
        assert_eq!(scene.pair.ranks[0].layer.ended.len(), 20);
        scene.close();
    }
}

#[test]
fn a_failed_operation_says_so() {
    let mut scene = Scene::new(Settings::default());
    scene.pair.world.fail_next(Operation::Atomic, 1);
    let number = scene.start(args(AtomicOp::Add, 1)).expect("an operation");
    let failed = scene.end_of(number).expect_err("a failure").to_string();
    assert!(failed.contains("a one-sided transfer failed, libfabric says"), "{failed}");
    assert_eq!((scene.run(args(AtomicOp::Add, 1)), scene.value()), (0, 1));
    scene.close();
}

#[test]
fn operations_with_a_dead_peer_end_with_errors() {
    let mut scene = Scene::new(Settings::default().to_the_dead(ToTheDead::Error));
    scene.pair.world.kill(Node::Number(1));
    let number = scene.start(args(AtomicOp::Add, 1)).expect("an operation");
    assert!(scene.end_of(number).is_err());
    assert!(scene.pair.try_send(0, &[]).is_err());
    assert!(scene.flush(true).is_err());
    assert_eq!(scene.flush(false), Ok(true));
}
