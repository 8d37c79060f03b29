//! Tests of reads, writes and registrations: correct in every mode, with each misuse detected.

mod common;

use core::ptr::null_mut;

use common::*;
use libfabric_sys::attr::fi_rma_iov;
use libfabric_sys::consts::*;
use libfabric_sys::fid::fid_mr;
use netmod_fake_fabric::{MrDialect, Settings, World};

const MR_BITS: [i32; 5] = [FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT];

fn complains(world: &World, words: &str) {
    let all = world.violations();
    assert!(all.len() == 1 && all[0].contains(words), "{words:?} expected: {all:#?}");
}

/// Returns a peer's address of a region's byte.
fn at(settings: &Settings, memory: &[u8], offset: usize) -> u64 {
    let first = if settings.mr_mode & FI_MR_VIRT_ADDR != 0 { memory.as_ptr().addr() } else { 0 };
    (first + offset) as u64
}

/// Two sides; the second has memory that the first may access.
struct Scene {
    settings: Settings,
    world: World,
    a: Side,
    to_b: u64,
    b: Side,
    mine: Vec<u8>,
    theirs: Vec<u8>,
    /// Registrations of both sides.
    regions: [*mut fid_mr; 2],
    contexts: Contexts,
}

fn scene(settings: Settings) -> Scene {
    let (library, world) = world(settings.clone());
    let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
    let (mine, theirs) = (vec![1; 256], (0..=255).collect::<Vec<u8>>());
    let regions = [a.register_for(&settings, &mine, 1), b.register_for(&settings, &theirs, 1)];
    Scene { settings, world, a, to_b, b, mine, theirs, regions, contexts: Contexts::new(4) }
}

impl Scene {
    /// Reads `len` bytes from `offset` with the right key, and returns the error of the completion.
    fn read(&mut self, offset: usize, len: usize) -> i32 {
        let key = key_of(self.regions[1]);
        self.read_with(at(&self.settings, &self.theirs, offset), len, key)
    }

    fn read_with(&mut self, addr: u64, len: usize, key: u64) -> i32 {
        let desc = desc_of(self.regions[0]);
        let rc = self.a.read(&mut self.mine[..len], desc, self.to_b, addr, key, self.contexts.at(0));
        assert_eq!(rc, 0);
        self.outcome()
    }

    fn outcome(&self) -> i32 {
        for _ in 0..100 {
            if let [done] = self.a.poll()[..] {
                assert_eq!(done.context, self.contexts.at(0).addr());
                return done.err;
            }
            assert_eq!(self.b.poll(), []);
        }
        panic!("no completion");
    }

    fn write(&self, offset: usize, len: usize) -> i32 {
        let (desc, key) = (desc_of(self.regions[0]), key_of(self.regions[1]));
        let addr = at(&self.settings, &self.theirs, offset);
        let rc = self.a.write(&self.mine[..len], desc, self.to_b, addr, key, self.contexts.at(0));
        assert_eq!(rc, 0);
        self.outcome()
    }

    fn close(self) {
        self.regions.into_iter().for_each(|region| assert_eq!(close(region.cast()), 0));
        self.a.close();
        self.b.close();
        assert!(self.world.close().is_none());
    }
}

#[test]
fn every_mode_of_registration_works() {
    for subset in 0..1 << MR_BITS.len() {
        let bits = (0..MR_BITS.len()).filter(|bit| subset >> bit & 1 != 0).map(|bit| MR_BITS[bit]);
        let mr_mode = bits.fold(0, |all, bit| all | bit);
        for key_size in [1, 4, 8] {
            let settings = Settings::default().mr_mode(mr_mode).mr_key_size(key_size).mode(ALL_MODES);
            let mut scene = scene(settings.complete_early(false));
            assert_eq!(scene.read(0, 256), 0);
            assert_eq!(scene.mine, scene.theirs);
            assert_eq!(scene.read(200, 56), 0);
            assert_eq!(scene.mine[..56], scene.theirs[200..]);
            assert_eq!(scene.write(5, 50), 0);
            assert_eq!(scene.theirs[5..55], (200..250).collect::<Vec<u8>>());
            let key = key_of(scene.regions[1]);
            assert_eq!(key == 1, mr_mode & FI_MR_PROV_KEY == 0, "{key}");
            assert!(key_size == 8 || key < 1 << (8 * key_size));
            assert_eq!(scene.world.violations(), [""; 0], "{mr_mode:#x}");
            scene.close();
        }
    }
}

#[test]
fn access_outside_is_refused_and_touches_nothing() {
    for mr_mode in [0, FI_MR_VIRT_ADDR] {
        let new = || scene(Settings::default().mr_mode(mr_mode).complete_early(false));
        for (offset, len) in [(0, 256), (255, 1)] {
            let mut scene = new();
            assert_eq!((scene.read(offset, len), scene.write(offset, len)), (0, 0));
            scene.close();
        }
        for (offset, len) in [(1, 256), (256, 1), (usize::MAX, 1)] {
            let mut scene = new();
            let addr = at(&scene.settings, &scene.theirs, 0).wrapping_add(offset as u64);
            let key = key_of(scene.regions[1]);
            assert_eq!(scene.read_with(addr, len, key), libc::EACCES);
            assert_eq!(scene.mine, [1; 256]);
            complains(&scene.world, "leaves the region");
            let rc = scene.a.write(&[9; 256][..len], null_mut(), scene.to_b, addr, key, scene.contexts.at(0));
            assert_eq!((rc, scene.outcome()), (0, libc::EACCES));
            assert_eq!(scene.theirs, (0..=255).collect::<Vec<u8>>());
        }
        // The wrong kind of address.
        let mut scene = new();
        let (key, addr) = (key_of(scene.regions[1]), scene.theirs.as_ptr().addr() as u64);
        assert_eq!(scene.read_with(if mr_mode == 0 { addr } else { 0 }, 1, key), libc::EACCES);
        complains(&scene.world, "leaves the region");
        // An unknown key.
        let mut scene = new();
        assert_eq!(scene.read_with(addr, 1, key + 1), libc::EACCES);
        complains(&scene.world, "no live region has that key");
        // The key of a closed region.
        let mut scene = new();
        assert_eq!(close(scene.regions[1].cast()), 0);
        assert_eq!(scene.read_with(addr, 1, key), libc::EACCES);
        complains(&scene.world, "no live region has that key");
        // A region without the access.
        let mut scene = new();
        let region = scene.b.register(&scene.theirs, FI_REMOTE_WRITE, 2).unwrap();
        let addr = at(&scene.settings, &scene.theirs, 0);
        assert_eq!(scene.read_with(addr, 1, key_of(region)), libc::EACCES);
        complains(&scene.world, "does not permit it");
    }
}

#[test]
fn local_memory_is_registered_where_demanded() {
    let new = || {
        let (library, world) = world(Settings::default().mr_mode(FI_MR_LOCAL));
        let (a, to_b, b, _) = Side::pair(&library, &world, &Requested::default());
        (world, a, to_b, b, vec![0u8; 100])
    };
    let refused = -(libc::EACCES as isize);
    let (world, a, to_b, b, mut memory) = new();
    assert_eq!(a.inject(&memory[..8], to_b), 0);
    assert_eq!(a.send(&memory[..8], null_mut(), to_b, null_mut()), refused);
    complains(&world, "has no descriptor");
    assert_eq!(b.recv(&mut memory, null_mut(), null_mut()), refused);
    assert_eq!(a.read(&mut memory, null_mut(), to_b, 0, 0, null_mut()), refused);
    assert_eq!(a.write(&memory, null_mut(), to_b, 0, 0, null_mut()), refused);
    assert_eq!(world.violations().len(), 4);

    let (world, a, to_b, _, memory) = new();
    let region = a.register(&memory[..50], FI_SEND, 0).unwrap();
    assert_eq!(a.send(&memory[..50], desc_of(region), to_b, null_mut()), 0);
    assert_eq!(a.send(&memory[1..51], desc_of(region), to_b, null_mut()), refused);
    complains(&world, "not within its region");
    let region = a.register(&memory[51..], FI_SEND, 1).unwrap();
    assert_eq!(a.send(&memory[50..], desc_of(region), to_b, null_mut()), refused);
    assert!(world.violations()[1].contains("not within its region"));

    // Each operation needs its own access.
    for access in [FI_SEND, FI_RECV, FI_READ, FI_WRITE] {
        let (world, a, to_b, _, mut memory) = new();
        let region = a.register(&memory, access, 0).unwrap();
        let desc = desc_of(region);
        let answers = [
            a.send(&memory, desc, to_b, null_mut()),
            a.recv(&mut memory, desc, null_mut()),
            a.read(&mut memory, desc, to_b, 0, 0, null_mut()),
            a.write(&memory, desc, to_b, 0, 0, null_mut()),
        ];
        for (answer, needs) in answers.into_iter().zip([FI_SEND, FI_RECV, FI_READ, FI_WRITE]) {
            assert_eq!(answer == 0, needs == access, "{access:#x} {needs:#x}");
        }
        let all = world.violations();
        assert!(all.len() == 3 && all.iter().all(|text| text.contains("without that access")), "{all:?}");
    }

    let (world, a, to_b, b, memory) = new();
    let region = b.register(&memory, FI_SEND, 0).unwrap();
    assert_eq!(a.send(&memory, desc_of(region), to_b, null_mut()), refused);
    complains(&world, "registered in another domain");

    let (world, a, to_b, _, memory) = new();
    let region = a.register(&memory, FI_SEND, 0).unwrap();
    let desc = desc_of(region);
    assert_eq!(close(region.cast()), 0);
    assert_eq!(a.send(&memory, desc, to_b, null_mut()), refused);
    complains(&world, "no live region");
}

#[test]
fn regions_stay_while_they_are_used() {
    // A receive, a send whose message waits, and a waiting read are cut off, so that the memory is
    // really free.
    for kind in 0..3 {
        let settings = Settings::default().mr_mode(FI_MR_LOCAL).complete_early(false).delivery_delay(1000);
        let mut scene = scene(settings);
        let desc = desc_of(scene.regions[0]);
        let context = scene.contexts.at(0);
        let rc = match kind {
            0 => scene.a.recv(&mut scene.mine, desc, context),
            1 => scene.a.send(&scene.mine, desc, scene.to_b, context),
            _ => {
                let key = key_of(scene.regions[1]);
                scene.a.read(&mut scene.mine, desc, scene.to_b, 0, key, context)
            }
        };
        assert_eq!((rc, close(scene.regions[0].cast())), (0, 0));
        complains(&scene.world, "was closed while 1 operations used it");
        if kind != 1 {
            assert_eq!(scene.outcome(), libc::ECANCELED);
        }
        let to_itself = scene.a.insert(&scene.a.name);
        assert_eq!(scene.a.inject(b"x", to_itself), 0);
        for _ in 0..1000 {
            let _ = (scene.a.poll(), scene.b.poll());
        }
        assert_eq!(scene.mine, [1; 256]);
    }
    // Also after the operation has ended, until its completion was read.
    let settings = Settings::default().mr_mode(FI_MR_LOCAL).complete_early(false);
    let scene = scene(settings);
    let (desc, key) = (desc_of(scene.regions[0]), key_of(scene.regions[1]));
    assert_eq!(scene.a.write(&scene.mine, desc, scene.to_b, 0, key, scene.contexts.at(0)), 0);
    assert_eq!(scene.b.poll(), []);
    assert_eq!(scene.theirs, [1; 256]);
    assert_eq!(close(scene.regions[0].cast()), 0);
    complains(&scene.world, "was closed while 1 operations used it");
}

#[test]
fn keys_are_checked() {
    let (library, world_) = world(Settings::default().mr_key_size(2));
    let (a, b) = (
        Side::open(&library, &world_, &Requested::default()),
        Side::open(&library, &world_, &Requested::default()),
    );
    let memory = vec![0; 10];
    assert_eq!(a.register(&memory, ALL_ACCESS, 0x1_0000).err(), Some(-libc::EINVAL));
    complains(&world_, "longer than 2 bytes");
    let region = a.register(&memory, ALL_ACCESS, 0xffff).unwrap();
    assert_eq!(a.register(&memory, ALL_ACCESS, 0xffff).err(), Some(-266));
    assert!(world_.violations()[1].contains("is in use"));
    assert!(b.register(&memory, ALL_ACCESS, 0xffff).is_ok());
    assert_eq!(close(region.cast()), 0);
    assert!(a.register(&memory, ALL_ACCESS, 0xffff).is_ok());
    assert_eq!(a.register(&memory[..0], ALL_ACCESS, 3).err(), Some(-libc::EINVAL));
    assert_eq!(world_.violations().len(), 3);
    // Keys chosen by the provider are not checked.
    let (library, world_) = world(Settings::default().mr_key_size(2).mr_mode(FI_MR_PROV_KEY).mr_count(3));
    let a = Side::open(&library, &world_, &Requested::default());
    let regions: Vec<_> = (0..3).map(|_| a.register(&memory, ALL_ACCESS, u64::MAX).unwrap()).collect();
    let keys: Vec<u64> = regions.iter().map(|region| key_of(*region)).collect();
    assert!(keys.iter().all(|key| *key <= 0xffff) && keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
    // The maximum number; exceeding it is no violation.
    assert_eq!(a.register(&memory, ALL_ACCESS, 0).err(), Some(-libc::ENOMEM));
    assert_eq!(world_.violations(), [""; 0]);
}

#[test]
fn memory_is_there_where_demanded() {
    let (library, world_) = world(Settings::default().mr_mode(FI_MR_ALLOCATED));
    let a = Side::open(&library, &world_, &Requested::default());
    let memory = vec![0u8; 3 << 20];
    assert!(a.register(&memory, ALL_ACCESS, 1).is_ok());
    assert_eq!(world_.violations(), [""; 0]);
    // SAFETY: the address of unmapped memory is only passed on; the provider asks the kernel before
    // any access.
    #[allow(unsafe_code)]
    let nowhere = unsafe { core::slice::from_raw_parts(core::ptr::without_provenance::<u8>(4096), 10) };
    assert_eq!(a.register(nowhere, FI_REMOTE_READ, 2).err(), Some(-libc::EINVAL));
    complains(&world_, "not all are mapped");
}

#[test]
fn regions_are_bound_and_enabled_where_demanded() {
    let settings = Settings::default().mr_mode(FI_MR_ENDPOINT | FI_MR_LOCAL);
    let (library, world_) = world(settings.clone());
    let (a, to_b, b, _) = Side::pair(&library, &world_, &Requested::default());
    let memory = vec![0; 10];
    let region = a.register(&memory, ALL_ACCESS, 5).unwrap();
    assert_eq!(key_of(region), u64::MAX);
    assert_eq!(enable(region.cast()), -libc::EINVAL);
    complains(&world_, "fi_mr_enable");
    assert_eq!(bind(region.cast(), b.ep.cast(), 0), -libc::EINVAL);
    assert_eq!(world_.violations().len(), 2);
    assert_eq!(bind(region.cast(), a.ep.cast(), 0), 0);
    assert_eq!(a.send(&memory, desc_of(region), to_b, null_mut()), -(libc::EACCES as isize));
    assert!(world_.violations()[2].contains("not enabled"));
    let mut into = vec![0; 10];
    let local = b.register_for(&settings, &into, 6);
    let to_a = b.insert(&a.name);
    assert_eq!(b.read(&mut into, desc_of(local), to_a, 0, 5, null_mut()), 0);
    assert_eq!(b.poll()[0].err, libc::EACCES);
    assert!(world_.violations()[3].contains("is not enabled"));
    assert_eq!(enable(region.cast()), 0);
    assert_eq!(key_of(region), 5);
    assert_eq!(a.send(&memory, desc_of(region), to_b, null_mut()), 0);
    assert_eq!(world_.violations().len(), 4);
    // Without the requirement it is not checked.
    let (library, world_) = world(Settings::default());
    let a = Side::open(&library, &world_, &Requested::default());
    let region = a.register(&memory, ALL_ACCESS, 5).unwrap();
    assert_eq!((bind(region.cast(), a.ep.cast(), 0), enable(region.cast())), (-FI_ENOSYS, -FI_ENOSYS));
}

#[test]
fn hints_must_allow_what_is_demanded() {
    let asks = |settings: Settings, requested: Requested| {
        let (library, world) = world(settings);
        info(&library, &world, &requested).map(|list| {
            // SAFETY: what was found has its parts.
            #[allow(unsafe_code)]
            let mode = unsafe { ((*list).mode, (*(*list).domain_attr).mr_mode) };
            domains(&library, list);
            mode
        })
    };
    let none = Err(-FI_ENODATA);
    for bit in MR_BITS {
        let settings = Settings::default().mr_mode(bit);
        assert_eq!(asks(settings.clone(), Requested { mr_mode: bit, ..Requested::default() }), Ok((0, bit)));
        assert_eq!(asks(settings, Requested { mr_mode: ALL_MR & !bit, ..Requested::default() }), none);
    }
    for bit in [FI_CONTEXT, FI_CONTEXT2, FI_ASYNC_IOV] {
        let settings = Settings::default().mode(bit);
        assert_eq!(asks(settings.clone(), Requested { mode: bit, ..Requested::default() }), Ok((bit, 0)));
        assert_eq!(asks(settings, Requested { mode: ALL_MODES & !bit, ..Requested::default() }), none);
    }
    // The modes from before 1.5.
    for (dialect, word) in [(MrDialect::Basic, FI_MR_BASIC), (MrDialect::Scalable, FI_MR_SCALABLE)] {
        let settings = Settings::default().mr_dialect(dialect);
        assert_eq!(
            asks(settings.clone(), Requested { mr_mode: word, ..Requested::default() }),
            Ok((0, word))
        );
        assert_eq!(asks(settings, Requested::default()), none);
    }
    // Missing capabilities.
    let caps = |caps| Requested { caps, ..Requested::default() };
    assert_eq!(asks(Settings::default(), caps(FI_MSG | FI_RMA | FI_MULTI_RECV)), Ok((0, 0)));
    assert_eq!(asks(Settings::default(), caps(FI_MSG | FI_TAGGED)), none);
    assert_eq!(asks(Settings::default(), caps(FI_MSG | FI_NAMED_RX_CTX)), none);
    assert_eq!(asks(Settings::default().rma(false), caps(FI_MSG | FI_RMA)), none);
    assert_eq!(asks(Settings::default().multi_recv(false), caps(FI_MSG | FI_MULTI_RECV)), none);
    assert_eq!(asks(Settings::default().rma(false).multi_recv(false), caps(FI_MSG)), Ok((0, 0)));
}

#[test]
fn the_words_of_before_mean_what_they_meant() {
    for (dialect, word) in [(MrDialect::Basic, FI_MR_BASIC), (MrDialect::Scalable, FI_MR_SCALABLE)] {
        let (library, world) = world(Settings::default().mr_dialect(dialect));
        let requested = Requested { mr_mode: word, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let (theirs, mut mine) = (vec![3; 10], vec![0; 10]);
        let region = b.register(&theirs, FI_REMOTE_READ, 77).unwrap();
        let basic = dialect == MrDialect::Basic;
        assert_eq!(key_of(region) == 77, !basic);
        let addr = if basic { theirs.as_ptr().addr() as u64 } else { 0 };
        assert_eq!(a.read(&mut mine, null_mut(), to_b, addr, key_of(region), null_mut()), 0);
        assert_eq!((a.poll().len(), &mine), (1, &theirs));
        assert_eq!(world.violations(), [""; 0]);
    }
}

#[test]
fn transfers_need_the_capability_and_keep_their_limits() {
    let (library, world_) = world(Settings::default());
    let a = Side::open(&library, &world_, &Requested { caps: FI_MSG, ..Requested::default() });
    let to = a.insert(&a.name);
    assert_eq!(a.write(b"x", null_mut(), to, 0, 0, null_mut()), -(libc::EINVAL as isize));
    complains(&world_, "without FI_RMA");

    let scene = scene(Settings::default().max_msg_size(100).rma_iov_limit(2).complete_early(false));
    let (to_b, key, context) = (scene.to_b, key_of(scene.regions[1]), scene.contexts.at(0));
    assert_eq!(scene.a.write(&[0; 101], null_mut(), to_b, 0, key, context), -(libc::EMSGSIZE as isize));
    let remote = |addr, len| fi_rma_iov { addr, len, key };
    let three = [remote(0, 1), remote(1, 1), remote(2, 1)];
    let data = piece(b"abc");
    assert_eq!(scene.a.writemsg(&[data], &three, to_b, context, 0), -(libc::EINVAL as isize));
    assert_eq!(scene.a.writemsg(&[data], &[remote(0, 4)], to_b, context, 0), -(libc::EINVAL as isize));
    assert_eq!(scene.world.violations().len(), 3);
    let pieces = [piece(b"ab"), piece(b"cde")];
    assert_eq!(scene.a.writemsg(&pieces, &[remote(0, 1), remote(100, 4)], to_b, context, 0), 0);
    assert_eq!(scene.outcome(), 0);
    assert_eq!((scene.theirs[0], &scene.theirs[100..105]), (b'a', &b"bcde\x68"[..]));
    assert_eq!(scene.world.violations().len(), 3);
}
