//! The segment: the memory that the ranks of one node share, how they find it, and how it
//! disappears.
//!
//! # Layout
//!
//! | part | bytes |
//! |---|---|
//! | header: what it is, how many slots are given out, how much of the pool | 4096 |
//! | a slot for each rank: who it is, its doorbells | 256 each |
//! | for each ordered pair of ranks, where its ring is | 8 each |
//! | for each rank, the regions of its memory that peers may read or write | 512 each |
//! | for each rank, which of these are read by both sides, and how far | 4160 each |
//! | the pool of rings | the rest |
//!
//! All of it together is at most 2 MiB for each rank of the node ([`layout`]); for two ranks it is
//! 0.5 MiB. A pair gets its ring from the pool when it is first used: 64 to 256 KiB, or 4 KiB when
//! the pool has hardly more left than that for every other pair. So memory is bounded, and nothing
//! waits for a ring.
//!
//! # Finding it
//!
//! The name follows from the user, the job, and the node as the launcher numbers it: ranks that it
//! puts on different nodes share nothing, unless `NETMOD_SHM_RANKS` says that those in one folder
//! belong together. A rank that finds no such file makes one without a name (`O_TMPFILE`, mode
//! 0600), prepares its header, holds a lock on it, and gives it the name; only one rank can do
//! that. It then allocates all of the memory, so that a small `/dev/shm` is an error here and never
//! a signal later, and says in the header how that went. The others wait for this word; it holds a
//! second lock until it has given it, so that when it dies before that, one of them does the rest.
//! All ranks of a job have done this when the barrier that follows ends; the first to know that
//! removes the name. From then on nothing is left when the last process ends, however it ends. If
//! the job does not start, the last process to give up removes it. A file whose makers died before
//! that has no lock: nmrun removes it after a job that has failed, or whoever makes a segment next.
//!
//! A rank's card has the segment's nonce and the token of its slot. So who has the same boot id but
//! another `/dev/shm` is told apart, and a slot that is somebody else's is not taken for the
//! peer's.

mod error;
pub(crate) mod layout;
pub(crate) mod raw;
mod rejoin;
#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use netmod_core::PeerName;
use sha2::Sha256;

use crate::joint::Joint;
use crate::sys::{self, PipeName};
use error::{RejoinError, SegmentError};
use layout::{Layout, MAX_RANKS};
use raw::{Map, OwnBells, RawRing, SleepWord};
pub(crate) use rejoin::Parked;

/// `nmshm` and the version of the layout and of what rings carry.
const MAGIC: u64 = u64::from_le_bytes(*b"nmshm\0\0\x08");
/// States of a segment: memory is being allocated; it is there; it cannot be had.
const MAKING: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;
/// States of a slot: given out; its owner has proved to be of the job; its owner has left.
const CLAIMED: u32 = 1;
const PROVEN: u32 = 2;
const LEFT: u32 = 3;
/// Its owner is away for a checkpoint.
const AWAY: u32 = 4;

/// The number of the lock of the process that allocates the memory: no rank's.
const MAKER: u32 = MAX_RANKS;

/// Time that a rank waits for the one that makes the segment.
const PATIENCE: Duration = Duration::from_secs(20);
/// First pause between two looks; each pause is twice the one before. Hundreds of ranks that look
/// every millisecond keep the one that allocates the memory from doing so.
const NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(32);

/// Bytes of a MAC.
const PROOF: usize = 32;
/// Bytes of the pool taken are the lower bits of its word, pairs served the upper ones.
const POOL_BITS: u32 = 40;

/// This rank's part of the node's memory.
#[derive(Debug)]
pub(crate) struct Segment {
    map: Arc<Map>,
    /// Holds the locks: shared on the file, and that of the slot.
    file: File,
    path: PathBuf,
    /// This rank's slot.
    me: usize,
    /// At an address that does not change: peers read it to see whether they may.
    token: Box<[u8; 16]>,
    nonce: [u8; 16],
}

fn name_of(me: &PeerName, node: Option<u32>) -> String {
    let job: String = me.group.0.iter().map(|b| format!("{b:02x}")).collect();
    let node = node.map_or_else(String::new, |n| format!("-{n}"));
    format!("netmod-{}-{job}{node}", sys::user())
}

fn random<const N: usize>() -> Result<[u8; N], SegmentError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(SegmentError::Random)?;
    Ok(bytes)
}

fn store_bytes<const N: usize>(to: &[AtomicU64; N], bytes: &[u8]) {
    for (word, bytes) in to.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
    }
}

fn load_bytes<const N: usize, const B: usize>(from: &[AtomicU64; N]) -> [u8; B] {
    let mut out = [0; B];
    for (word, bytes) in from.iter().zip(out.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    out
}

/// The reason why there is no ring to or from a rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RingError {
    /// There is no segment.
    #[error("{0}")]
    NoSegment(String),
    /// A rank has taken more than its rings.
    #[error("the pool of rings has been used up, which correct ranks cannot do")]
    UsedUp,
    /// The peer describes memory outside of the pool.
    #[error("the ring of slot {slot} does not lie in the pool")]
    Outside { slot: usize },
}

/// The outcome of opening the file that has the name.
enum Found {
    Joined(File),
    Nothing,
    /// It is just being removed, or replaced.
    Again,
}

impl Segment {
    /// Joins the segment of `me`'s job and `node` in `folder`, which is made for `ranks` ranks if
    /// it is not there.
    ///
    /// Waits for the rank that makes it, at most 20 seconds.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn join(
        folder: &Path,
        me: PeerName,
        node: Option<u32>,
        ranks: u32,
    ) -> Result<Segment, SegmentError> {
        let ranks = ranks.max(2);
        if ranks > MAX_RANKS {
            return Err(SegmentError::TooManyRanks { ranks });
        }
        let path = folder.join(name_of(&me, node));
        let until = Instant::now() + PATIENCE;
        let cannot = |action, source| SegmentError::File { action, path: path.clone(), source };
        loop {
            match find(&path).map_err(|e| cannot("open", e))? {
                Found::Joined(file) => return Segment::enter(file, path, me, until),
                Found::Nothing => {}
                Found::Again if Instant::now() < until => {
                    std::thread::sleep(NAP);
                    continue;
                }
                Found::Again => return Err(SegmentError::Locked { path }),
            }
            sweep(folder);
            let layout = Layout::of(ranks);
            let file = match make(folder, &path, &layout, random()?) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(cannot("make", e)),
            };
            // With the name, and before the word is given: only the header is there for sure.
            let header = Map::new_header(&file).map_err(|e| cannot("map", e))?;
            allocate(&file, &layout, header.words());
            return Segment::enter(file, path, me, until);
        }
    }

    /// Takes a slot of a segment that was found or made.
    fn enter(file: File, path: PathBuf, me: PeerName, until: Instant) -> Result<Segment, SegmentError> {
        let cannot = |action, source| SegmentError::File { action, path: path.clone(), source };
        let header = Map::new_header(&file).map_err(|e| cannot("map", e))?;
        let words = header.words();
        if words.magic.load(Acquire) != MAGIC {
            return Err(SegmentError::Version { path });
        }
        let ranks = words.ranks.load(Relaxed);
        if !(2..=MAX_RANKS).contains(&ranks) {
            return Err(SegmentError::Ranks { path, ranks });
        }
        let layout = Layout::of(ranks);
        let mut nap = NAP;
        loop {
            match words.state.load(Acquire) {
                READY => break,
                FAILED => {
                    let source = io::Error::from_raw_os_error(words.error.load(Relaxed) as i32);
                    let _ = remove(&file, &path);
                    return Err(SegmentError::NoMemory { kib: layout.total() >> 10, ranks, path, source });
                }
                _ if Instant::now() >= until => return Err(SegmentError::Unfinished { path }),
                _ => match sys::lock_rank(&file, MAKER) {
                    // The maker is dead. It may have published the word before it died.
                    Ok(()) if words.state.load(Acquire) == MAKING => allocate(&file, &layout, words),
                    Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
                        return Err(cannot("lock a byte of", e));
                    }
                    _ => {
                        std::thread::sleep(nap);
                        nap = (nap * 2).min(LONGEST_NAP);
                    }
                },
            }
        }
        let map = Arc::new(Map::new(&file, layout).map_err(|e| cannot("map", e))?);
        let words = map.header();
        let me_at = words.claimed.fetch_add(1, AcqRel);
        if me_at >= ranks {
            words.claimed.fetch_sub(1, AcqRel);
            return Err(SegmentError::Full { path, ranks });
        }
        sys::lock_rank(&file, me_at).map_err(|e| cannot("lock a byte of", e))?;
        let token: Box<[u8; 16]> = Box::new(random()?);
        let nonce = load_bytes(&words.nonce);
        let segment = Segment { map, file, path, me: me_at as usize, token, nonce };
        segment.introduce(me.rank);
        segment.slot(segment.me).state.store(CLAIMED, Release);
        Ok(segment)
    }

    /// Says in the slot who and where its rank is.
    fn introduce(&self, rank: u32) {
        let slot = self.slot(self.me);
        slot.rank.store(rank, Relaxed);
        store_bytes(&slot.token, &*self.token);
        slot.pid.store(std::process::id(), Relaxed);
        slot.pid_namespace.store(sys::pid_namespace(), Relaxed);
        slot.probe_at.store(self.token.as_ptr() as u64, Relaxed);
    }

    /// Describes it for human readers.
    pub(crate) fn describe(&self) -> String {
        format!(
            "slot {} of {} of a segment of {} KiB",
            self.me,
            self.ranks(),
            self.map.layout().total() >> 10
        )
    }

    /// Number of this rank's slot.
    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Number of slots.
    pub(crate) fn ranks(&self) -> usize {
        self.map.layout().ranks as usize
    }

    pub(crate) fn slot(&self, i: usize) -> &raw::Slot {
        self.map.slot(i)
    }

    /// This rank's own doorbells.
    pub(crate) fn own_bells(&self) -> OwnBells {
        self.map.bells(self.me)
    }

    pub(crate) fn token(&self) -> &[u8; 16] {
        &self.token
    }

    pub(crate) fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// Says where this rank's pipe is.
    pub(crate) fn set_pipe(&self, name: &PipeName) {
        let slot = self.slot(self.me);
        slot.pid.store(name.pid, Relaxed);
        slot.pipe_fd.store(name.fd, Relaxed);
        slot.pipe_inode.store(name.inode, Relaxed);
        slot.pipe_device.store(name.device, Release);
    }

    /// Returns the name of a rank's pipe.
    pub(crate) fn pipe(&self, slot: usize) -> PipeName {
        let slot = self.slot(slot);
        let device = slot.pipe_device.load(Acquire);
        PipeName {
            pid: slot.pid.load(Relaxed),
            fd: slot.pipe_fd.load(Relaxed),
            inode: slot.pipe_inode.load(Relaxed),
            device,
        }
    }

    /// The token of a slot, where it is in its process's memory, and the process.
    pub(crate) fn probe(&self, slot: usize) -> ([u8; 16], u64, u32) {
        let slot = self.slot(slot);
        (load_bytes(&slot.token), slot.probe_at.load(Relaxed), slot.pid.load(Relaxed))
    }

    /// The `i`-th word of a rank's regions, if there are so many; see `region`.
    pub(crate) fn region(&self, slot: usize, i: usize) -> Option<&AtomicU64> {
        (slot < self.ranks() && i < layout::REGIONS).then(|| self.map.region(slot, i))
    }

    /// Bits of this rank's regions that a reader wants to be helped with.
    pub(crate) fn wanted(&self) -> &AtomicU64 {
        self.map.wanted(self.me)
    }

    /// Tells a rank that the reader of a region wants to be helped.
    pub(crate) fn want(&self, slot: usize, i: usize) {
        self.map.wanted(slot).fetch_or(1 << i, AcqRel);
    }

    /// The joint get of a rank's `i`-th region, if there are so many; see `joint`.
    pub(crate) fn joint(&self, slot: usize, i: usize) -> Option<&Joint> {
        (slot < self.ranks() && i < layout::REGIONS).then(|| self.map.joint(slot, i))
    }

    /// Returns true if a slot is that of a process with this token.
    pub(crate) fn has_token(&self, slot: usize, token: &[u8; 16]) -> bool {
        slot < self.ranks()
            && self.slot(slot).state.load(Acquire) != 0
            && load_bytes::<2, 16>(&self.slot(slot).token) == *token
    }

    fn mac(&self, key: &[u8; 32], slot: usize, rank: u32) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        mac.update(b"netmod shm slot ");
        mac.update(&self.nonce);
        mac.update(&(slot as u32).to_le_bytes());
        mac.update(&rank.to_le_bytes());
        Some(mac)
    }

    /// Proves that this rank is of the job, before it sends anything.
    pub(crate) fn prove(&self, key: &[u8; 32], rank: u32) {
        self.store_proof(key, rank);
        self.slot(self.me).state.store(PROVEN, Release);
    }

    /// Puts the proof into the slot, where nobody looks for it before the slot says so.
    pub(crate) fn store_proof(&self, key: &[u8; 32], rank: u32) {
        let Some(mac) = self.mac(key, self.me, rank) else { return };
        store_bytes(&self.slot(self.me).proof, &mac.finalize().into_bytes());
    }

    /// The rank of a slot whose owner has proved to be of the job.
    pub(crate) fn proven_rank(&self, key: &[u8; 32], i: usize) -> Option<u32> {
        let slot = self.slot(i);
        if !matches!(slot.state.load(Acquire), PROVEN | LEFT | AWAY) {
            return None;
        }
        let rank = slot.rank.load(Relaxed);
        let proof: [u8; PROOF] = load_bytes(&slot.proof);
        self.mac(key, i, rank)?.verify_slice(&proof).is_ok().then_some(rank)
    }

    /// This rank sends and receives no more.
    pub(crate) fn leave(&self) {
        self.slot(self.me).state.store(LEFT, Release);
    }

    /// Returns true if the process of a slot has announced that it leaves.
    pub(crate) fn has_left(&self, slot: usize) -> bool {
        self.slot(slot).state.load(Acquire) == LEFT
    }

    /// The word by which a slot's rank says that it sleeps.
    pub(crate) fn sleep_word(&self, slot: usize) -> SleepWord {
        self.map.sleep_word(slot)
    }

    /// Returns true if a rank is in another PID namespace than this one, so that they cannot find
    /// each other's pipes.
    pub(crate) fn has_other_namespaces(&self) -> bool {
        let namespace = |i: usize| self.slot(i).pid_namespace.load(Relaxed);
        let joined = |i: &usize| self.slot(*i).state.load(Acquire) != 0;
        (0..self.ranks()).filter(joined).any(|i| namespace(i) != namespace(self.me))
    }

    /// Tells a rank that some peer cannot wake it.
    pub(crate) fn set_unwakeable(&self, slot: usize) {
        self.slot(slot).unwakeable.store(1, Release);
    }

    /// Returns true if some peer cannot wake this rank.
    pub(crate) fn is_unwakeable(&self) -> bool {
        self.slot(self.me).unwakeable.load(Relaxed) != 0
    }

    /// Returns true if the process of a slot lives: the kernel releases its lock when it ends.
    /// One that is away lives.
    pub(crate) fn lives(&self, slot: usize) -> bool {
        let locked = || sys::is_rank_locked(&self.file, slot as u32).unwrap_or(true);
        // It may come back between two of the looks.
        locked() || self.is_away(slot) || locked()
    }

    /// All ranks of the job that ever will have joined: the name goes. Asking again does no harm.
    pub(crate) fn remove_name(&self) {
        if let Err(e) = remove(&self.file, &self.path) {
            tracing::warn!(path = %self.path.display(), %e, "the name of the shared memory cannot be removed");
        }
    }

    /// Makes the ring from this rank to another; once.
    pub(crate) fn make_ring(&self, to: usize) -> Result<RawRing, RingError> {
        let layout = self.map.layout();
        let pool = &self.map.header().pool;
        let mut word = pool.load(Relaxed);
        loop {
            let (used, nth) = ((word & ((1 << POOL_BITS) - 1)) as usize, (word >> POOL_BITS) as u32);
            let Some(bytes) = layout.ring_bytes(nth, used) else {
                return Err(RingError::UsedUp);
            };
            let next = u64::from(nth + 1) << POOL_BITS | (used + bytes) as u64;
            match pool.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => {
                    let ring = self.map.ring(used, bytes).ok_or(RingError::Outside { slot: self.me })?;
                    let described = (used as u64) << 32 | bytes as u64;
                    self.map.pair(self.me, to).store(described, Release);
                    return Ok(ring);
                }
                Err(now) => word = now,
            }
        }
    }

    /// The ring from another rank to this one, if it was made.
    ///
    /// # Errors
    /// If what is said of it cannot be.
    pub(crate) fn find_ring(&self, from: usize) -> Result<Option<RawRing>, RingError> {
        self.ring_between(from, self.me)
    }

    /// The ring from this rank to another one, if it was made.
    ///
    /// # Errors
    /// If what is said of it cannot be.
    pub(crate) fn own_ring(&self, to: usize) -> Result<Option<RawRing>, RingError> {
        self.ring_between(self.me, to)
    }

    fn ring_between(&self, from: usize, to: usize) -> Result<Option<RawRing>, RingError> {
        let word = self.map.pair(from, to).load(Acquire);
        if word == 0 {
            return Ok(None);
        }
        let bytes = (word & 0xffff_ffff) as usize;
        let at = usize::try_from(word >> 32).unwrap_or(usize::MAX);
        match self.map.ring(at, bytes) {
            Some(ring) => Ok(Some(ring)),
            None => Err(RingError::Outside { slot: from }),
        }
    }
}

impl Drop for Segment {
    /// Leaves the name, if the job has not started, to those who still may come; the last process
    /// removes it.
    fn drop(&mut self) {
        // This gives up the shared lock that the file had.
        if self.file.try_lock().is_ok() {
            self.remove_name();
        }
    }
}

/// Opens the file of this name, if it is in use, with a shared lock on it; removes it if it is not.
fn find(path: &Path) -> io::Result<Found> {
    let file = match sys::open_existing(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(e),
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.uid() != sys::user() || meta.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a private file of this user"));
    }
    match file.try_lock() {
        // Its maker locks it before it has a name, so nobody uses it any more.
        Ok(()) => {
            remove(&file, path)?;
            return Ok(Found::Again);
        }
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(e)) => return Err(e),
    }
    match file.try_lock_shared() {
        Ok(()) if file.metadata()?.nlink() > 0 => Ok(Found::Joined(file)),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(Found::Again),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Makes a segment whose memory is not allocated yet, with a shared lock on it, the maker's, and a
/// name.
fn make(folder: &Path, path: &Path, layout: &Layout, nonce: [u8; 16]) -> io::Result<File> {
    let file = sys::create_unnamed(folder)?;
    sys::allocate(&file, layout::HEADER as u64)?;
    let header = Map::new_header(&file)?;
    let made = random::<16>().map_err(io::Error::other)?;
    let words = header.words();
    words.ranks.store(layout.ranks, Relaxed);
    store_bytes(&words.nonce, &nonce);
    store_bytes(&words.made, &made);
    words.magic.store(MAGIC, Release);
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    sys::lock_rank(&file, MAKER)?;
    sys::name(&file, path)?;
    Ok(file)
}

/// Allocates all of the memory, some of which may be there, and says how that went.
fn allocate(file: &File, layout: &Layout, words: &raw::HeaderWords) {
    let failed = sys::allocate(file, layout.total() as u64).err();
    settle(words, failed.map(|e| e.raw_os_error().unwrap_or(libc::EIO)));
}

/// Says whether memory could be had.
fn settle(words: &raw::HeaderWords, error: Option<i32>) {
    words.error.store(error.unwrap_or(0) as u32, Relaxed);
    words.state.store(if error.is_some() { FAILED } else { READY }, Release);
}

/// Removes a name, if it is this file's.
fn remove(file: &File, path: &Path) -> io::Result<()> {
    let ours = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) if (named.ino(), named.dev()) == (ours.ino(), ours.dev()) => {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            }
        }
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Removes what jobs of this user have left behind that died while they were starting.
fn sweep(folder: &Path) {
    let prefix = format!("netmod-{}-", sys::user());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|n| n.starts_with(&prefix)) {
            // It is removed if nobody uses it; a lock that was taken goes with the file.
            let _ = find(&entry.path());
        }
    }
}
