//! Tests of atomic operations: words change as they should, and each misuse is detected.

mod common;

use common::*;
use libfabric_sys::consts::*;
use libfabric_sys::fid::fid_mr;
use netmod_fake_fabric::{Settings, World};

/// Two sides; the second has words that the first may change.
struct Scene {
    world: World,
    a: Side,
    to_b: u64,
    b: Side,
    theirs: Vec<u8>,
    region: *mut fid_mr,
    contexts: Contexts,
}

impl Scene {
    fn new(caps: u64, access: u64) -> Scene {
        let (library, world) = world(Settings::default());
        let requested = Requested { caps, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let theirs = vec![0; 64];
        let region = b.register(&theirs, access, 1).expect("a region");
        Scene { world, a, to_b, b, theirs, region, contexts: Contexts::new(2) }
    }

    /// Does an operation with operand 5 on the word at an offset; returns the call's result, the
    /// completion's error and the old value.
    fn run(&self, datatype: i32, op: i32, offset: u64) -> (isize, i32, u64) {
        let mut old = 0;
        let remote = (offset, key_of(self.region));
        let context = self.contexts.at(0);
        let rc = self.a.fetch_atomic((datatype, op), &5, &mut old, self.to_b, remote, context);
        let error = if rc == 0 { self.outcome() } else { 0 };
        (rc, error, old)
    }

    fn outcome(&self) -> i32 {
        for _ in 0..100 {
            if let [done] = self.a.poll()[..] {
                return done.err;
            }
            assert_eq!(self.b.poll(), []);
        }
        panic!("no completion");
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.theirs[at..at + 8].try_into().expect("eight bytes"))
    }

    fn complains(&self, words: &str) {
        let all = self.world.violations();
        assert!(all.len() == 1 && all[0].contains(words), "{words:?} expected: {all:#?}");
    }
}

const CAPS: u64 = FI_MSG | FI_RMA | FI_ATOMIC;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

#[test]
fn words_change_with_and_without_a_result() {
    let scene = Scene::new(CAPS, ALL);
    assert_eq!(scene.run(FI_UINT64, FI_SUM, 8), (0, 0, 0));
    assert_eq!((scene.word(8), scene.run(FI_UINT64, FI_SUM, 8)), (5, (0, 0, 5)));
    let mut operand = 0xff00;
    let remote = (8, key_of(scene.region));
    let context = scene.contexts.at(0);
    let rc = scene.a.atomicmsg((FI_UINT64, FI_BOR), &mut operand, scene.to_b, remote, context);
    assert_eq!((rc, scene.outcome(), scene.word(8)), (0, 0, 0xff0a));
    assert_eq!(scene.run(FI_INT32, FI_MIN, 12), (0, 0, 0));
    assert_eq!((scene.word(8), scene.word(0), scene.word(16)), (0xff0a, 0, 0));
    assert_eq!((scene.world.violations().len(), scene.world.stats().atomics), (0, 4));
}

#[test]
fn valid_operations_are_told() {
    let scene = Scene::new(CAPS, ALL);
    for op in 0..20 {
        let plain = [FI_MIN, FI_MAX, FI_SUM, FI_BOR, FI_BAND, FI_BXOR, FI_ATOMIC_WRITE].contains(&op);
        for datatype in 0..12 {
            let word = [FI_INT32, FI_UINT32, FI_INT64, FI_UINT64].contains(&datatype);
            let compares = word && op == FI_CSWAP;
            let expected = [plain && word, plain && word, compares];
            assert_eq!(scene.a.valid(datatype, op), expected, "{op} {datatype}");
        }
    }
}

#[test]
fn misuse_is_detected() {
    let scene = Scene::new(FI_MSG | FI_RMA, ALL);
    assert_eq!(scene.run(FI_UINT64, FI_SUM, 0).0, -(libc::EINVAL as isize));
    scene.complains("was opened without FI_ATOMIC");
    let scene = Scene::new(CAPS, ALL);
    assert_eq!(scene.run(FI_UINT64, FI_SUM, 4).0, -(libc::EINVAL as isize));
    scene.complains("not one aligned word of 8 bytes");
    let scene = Scene::new(CAPS, ALL);
    assert_eq!(scene.run(FI_UINT64, FI_CSWAP + 1, 0).0, -(libc::EOPNOTSUPP as isize));
    scene.complains("is not valid");
    for access in [FI_REMOTE_READ, FI_REMOTE_WRITE] {
        let scene = Scene::new(CAPS, access);
        assert_eq!(scene.run(FI_INT64, FI_SUM, 0), (0, libc::EACCES, 0));
        scene.complains("the region does not permit it");
        assert_eq!(scene.word(0), 0);
    }
}
