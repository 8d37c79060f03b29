//! Finding, sharing and removing segments.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use netmod_core::GroupId;

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Relaxed);
        let path = PathBuf::from(format!("/dev/shm/test-netmod-shm-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.0).expect("the folder").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn me(job: u8, rank: u32) -> PeerName {
    PeerName { group: GroupId([job; 16]), rank }
}

fn join(f: &Folder, job: u8, rank: u32) -> Segment {
    Segment::join(&f.0, me(job, rank), None, 3).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn ranks_of_one_job_share_a_segment_and_others_do_not() {
    let f = Folder::new();
    let (a, b, c) = (join(&f, 1, 0), join(&f, 1, 1), join(&f, 2, 0));
    assert_eq!(a.nonce(), b.nonce());
    assert_ne!(a.nonce(), c.nonce());
    assert_ne!(a.me(), b.me());
    assert!(a.has_token(b.me(), b.token()) && b.has_token(a.me(), a.token()));
    assert!(!a.has_token(b.me(), a.token()) && !a.has_token(99, b.token()));
    assert_eq!(f.files(), 2);
    a.remove_name();
    b.remove_name();
    c.remove_name();
    assert_eq!(f.files(), 0);
}

#[test]
fn a_proof_is_of_one_slot_rank_and_key() {
    let f = Folder::new();
    let (a, b) = (join(&f, 1, 0), join(&f, 1, 1));
    assert_eq!(a.proven_rank(&[5; 32], b.me()), None);
    b.prove(&[5; 32], 1);
    assert_eq!(a.proven_rank(&[5; 32], b.me()), Some(1));
    assert_eq!(a.proven_rank(&[6; 32], b.me()), None);
    b.slot(b.me()).rank.store(0, Relaxed);
    assert_eq!(a.proven_rank(&[5; 32], b.me()), None);
}

#[test]
fn a_rank_too_many_is_told_so() {
    let f = Folder::new();
    let all: Vec<_> = (0..3).map(|r| join(&f, 1, r)).collect();
    let e = Segment::join(&f.0, me(1, 3), None, 3).unwrap_err().to_string();
    assert!(e.contains("room for 3 ranks"), "{e}");
    assert_eq!(all.len(), 3);
    assert!(Segment::join(&f.0, me(2, 0), None, MAX_RANKS + 1).is_err());
}

/// A process that is gone has no lock, and the last one to leave in good order removes the name.
#[test]
fn a_rank_that_is_gone_is_noticed_and_the_last_one_removes_the_name() {
    let f = Folder::new();
    let (a, b) = (join(&f, 1, 0), join(&f, 1, 1));
    assert!(a.lives(b.me()) && b.lives(a.me()));
    let at = b.me();
    drop(b);
    assert!(!a.lives(at));
    assert_eq!(f.files(), 1, "others may still come");
    drop(a);
    assert_eq!(f.files(), 0, "no job has started, and all have left");
}

#[test]
fn what_the_dead_leave_is_removed_by_the_next() {
    let f = Folder::new();
    let dies =
        |job| drop(make(&f.0, &f.0.join(name_of(&me(job, 0), None)), &Layout::of(3), [5; 16]).unwrap());
    dies(1);
    dies(2);
    assert_eq!(f.files(), 2, "nobody could remove the names");
    // The same job again gets a new segment, and another job's goes.
    let again = join(&f, 1, 0);
    assert_eq!(again.me(), 0);
    assert_eq!(f.files(), 1);
}

/// Many at once: one makes the segment, and all find it.
#[test]
fn all_that_come_at_once_find_the_same() {
    let f = Folder::new();
    for job in 0..20 {
        let all: Vec<Segment> = std::thread::scope(|s| {
            let each = |rank| {
                s.spawn({
                    let f = &f;
                    move || Segment::join(&f.0, me(job, rank), None, 8).unwrap()
                })
            };
            let threads: Vec<_> = (0..8).map(each).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let mut slots: Vec<_> = all.iter().map(Segment::me).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(all.iter().all(|s| s.nonce() == all[0].nonce()));
        all[0].remove_name();
    }
}

#[test]
fn rings_are_given_out_once_and_checked_when_they_are_found() {
    let f = Folder::new();
    let (a, b) = (join(&f, 1, 0), join(&f, 1, 1));
    assert!(b.find_ring(a.me()).unwrap().is_none());
    let ring = a.make_ring(b.me()).unwrap();
    let other = b.make_ring(a.me()).unwrap();
    assert_eq!(b.find_ring(a.me()).unwrap().unwrap().geometry(), ring.geometry());
    assert_eq!(ring.geometry(), other.geometry());
    for nonsense in
        [1, 255, 4095, 4097, 4 << 20, 1 << 60 | 4096, (1 << 30) << 32 | 4096, 3 << 32 | 4096, u64::MAX]
    {
        b.map.pair(a.me(), b.me()).store(nonsense, Release);
        assert!(b.find_ring(a.me()).is_err(), "{nonsense:#x}");
    }
}

/// A rank that dies after it has given the name, and before the memory is there: somebody who waits
/// for it does the rest.
#[test]
fn what_a_dead_maker_has_begun_is_finished() {
    let f = Folder::new();
    let path = f.0.join(name_of(&me(1, 0), None));
    let maker = make(&f.0, &path, &Layout::of(3), [5; 16]).unwrap();
    let waits = || match find(&path).unwrap() {
        Found::Joined(file) => file,
        _ => panic!("nobody has made it"),
    };
    let (b, c) = (waits(), waits());
    let soon = || Instant::now() + Duration::from_millis(40);
    let e = Segment::enter(waits(), path.clone(), me(1, 1), soon()).unwrap_err().to_string();
    assert!(e.contains("has not finished it"), "{e}");
    drop(maker);
    let b = Segment::enter(b, path.clone(), me(1, 1), soon()).unwrap();
    let c = Segment::enter(c, path.clone(), me(1, 2), soon()).unwrap();
    assert_eq!((b.me(), c.me()), (0, 1));
    let allocated = b.file.metadata().unwrap().len();
    assert_eq!(allocated, Layout::of(3).total() as u64);
    b.make_ring(c.me()).unwrap();
    assert!(c.find_ring(b.me()).unwrap().is_some());
}

/// A file system without room: an error, with what can be done about it.
#[test]
fn a_folder_without_room_is_an_error() {
    let f = Folder::new();
    let path = f.0.join(name_of(&me(1, 0), None));
    let file = make(&f.0, &path, &Layout::of(4), [5; 16]).unwrap();
    settle(Map::new_header(&file).unwrap().words(), Some(libc::ENOSPC));
    let e = Segment::join(&f.0, me(1, 0), None, 4).unwrap_err().to_string();
    assert!(e.contains("No space left") && e.contains("NETMOD_SHM_DIR"), "{e}");
    assert_eq!(f.files(), 0);
}
