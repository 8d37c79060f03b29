//! Leaving a segment for a checkpoint, and coming back to it or to one that replaces it.
//!
//! A rank that is away holds neither the file nor a mapping. When it comes back, and another
//! process has the file, it opens it by that process's descriptor (`/proc`), and all is as it was.
//! If nobody has it any more, all ranks were away at once, and all rings are empty: then the first
//! one to come back makes a new segment with the same nonce, in which each rank takes the slot that
//! it had, so that cards stay true.
//!
//! All that come back meet at a name of their own. Who makes a file there, or finds one that is not
//! decided, locks it, and looks for the old one; so no two of them decide differently. The name
//! goes when the old segment was found, or when every rank is in the new one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::time::Instant;

use super::layout::Layout;
use super::raw::Map;
use super::{
    AWAY, FAILED, Found, LONGEST_NAP, MAGIC, MAKER, MAKING, NAP, PATIENCE, PROVEN, READY, RejoinError,
    Segment, allocate, find, load_bytes, make, remove,
};
use crate::sys;

/// Suffix of the name by which ranks that come back find each other.
const BACK: &str = ".back";

/// The knowledge that a rank keeps of its segment while it is away.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    path: PathBuf,
    device: u64,
    inode: u64,
    made: [u8; 16],
    nonce: [u8; 16],
    token: [u8; 16],
    ranks: u32,
    /// Ranks that have joined it, or the one that it has replaced.
    members: usize,
    me: usize,
    /// Rounds of checkpoints that this rank has begun.
    pub(crate) round: u32,
}

impl Parked {
    /// Ranks that have joined the segment, or the one that it has replaced.
    pub(crate) fn members(&self) -> usize {
        self.members
    }

    pub(crate) fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// The slot of this rank.
    pub(crate) fn me(&self) -> usize {
        self.me
    }
}

impl Segment {
    /// Returns true if some rank has, or had, a slot.
    pub(crate) fn has_joined(&self, slot: usize) -> bool {
        self.slot(slot).state.load(Acquire) != 0
    }

    /// Ranks that have joined.
    fn members(&self) -> usize {
        (0..self.ranks()).filter(|i| self.has_joined(*i)).count()
    }

    /// Returns true if the process of a slot is away, or has not come to this segment yet.
    pub(crate) fn is_away(&self, slot: usize) -> bool {
        matches!(self.slot(slot).state.load(Acquire), 0 | AWAY)
    }

    /// Like [`Segment::is_away`], where a ring to the rank was made before: it has seen that ring,
    /// or this says that it is away.
    pub(crate) fn is_surely_away(&self, slot: usize) -> bool {
        fence(SeqCst);
        self.is_away(slot)
    }

    /// The last round from which a rank has come back.
    pub(crate) fn back(&self, slot: usize) -> u32 {
        self.slot(slot).back.load(Acquire)
    }

    /// Says that this rank is away, or is not yet after all. Rings that are looked for afterwards
    /// and not found are empty until it comes back.
    pub(crate) fn set_away(&self, away: bool) {
        self.slot(self.me).state.store(if away { AWAY } else { PROVEN }, Release);
        fence(SeqCst);
    }

    /// This rank is back from a round. What it shares with others was put in order before.
    pub(crate) fn set_back(&self, round: u32) {
        self.slot(self.me).back.store(round, Release);
        self.slot(self.me).state.store(PROVEN, Release);
        fence(SeqCst);
    }

    /// Checks that a rank that comes back finds this file with the ranks that stay.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn can_be_found(&self) -> Result<(), RejoinError> {
        if self.has_other_namespaces() {
            return Err(RejoinError::OtherNamespace);
        }
        for slot in (0..self.ranks()).filter(|s| *s != self.me && !self.is_away(*s)) {
            let pid = self.slot(slot).pid.load(Relaxed);
            match std::fs::read_dir(format!("/proc/{pid}/fd")) {
                Err(source) if self.lives(slot) && !self.has_left(slot) => {
                    return Err(RejoinError::Descriptors { pid, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns what to keep of it while this rank is away.
    ///
    /// # Errors
    /// Of the system, which does not say what file it is.
    pub(crate) fn park(&self, round: u32, before: usize) -> io::Result<Parked> {
        let meta = self.file.metadata()?;
        let mut path = self.path.clone();
        if path.extension().is_some_and(|e| e == &BACK[1..]) {
            path.set_extension("");
        }
        Ok(Parked {
            path,
            device: meta.dev(),
            inode: meta.ino(),
            made: load_bytes(&self.map.header().made),
            nonce: self.nonce,
            token: *self.token,
            ranks: self.map.layout().ranks,
            members: self.members().max(before),
            me: self.me,
            round,
        })
    }

    /// Comes back as `rank` to the segment that this rank has left, or to the one that replaces it;
    /// which of the two, true if it is the same. Nobody is told before [`Segment::set_back`].
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn rejoin(parked: &Parked, rank: u32) -> Result<(Segment, bool), RejoinError> {
        let mut path = parked.path.clone().into_os_string();
        path.push(BACK);
        let path = PathBuf::from(path);
        let file = meet(parked, &path).map_err(|source| RejoinError::Meet { path: path.clone(), source })?;
        let map = Map::new(&file, Layout::of(parked.ranks)).map_err(RejoinError::Map)?;
        sys::lock_rank(&file, parked.me as u32)
            .map_err(|source| RejoinError::Lock { path: path.clone(), source })?;
        let (map, token) = (Arc::new(map), Box::new(parked.token));
        let segment = Segment { map, file, path, me: parked.me, token, nonce: parked.nonce };
        let same = load_bytes::<2, 16>(&segment.map.header().made) == parked.made;
        segment.introduce(rank);
        Ok((segment, same))
    }

    /// The name at which ranks meet goes when the last of them is there.
    pub(crate) fn all_are_back(&self, parked: &Parked) {
        if self.members() >= parked.members {
            self.remove_name();
        }
    }
}

/// The file that ranks that come back agree on, with a shared lock on it.
fn meet(parked: &Parked, path: &Path) -> io::Result<File> {
    let until = Instant::now() + PATIENCE;
    let layout = Layout::of(parked.ranks);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut nap = NAP;
    while Instant::now() < until {
        std::thread::sleep(if nap == NAP { std::time::Duration::ZERO } else { nap });
        nap = (nap * 2).min(LONGEST_NAP);
        let file = match find(path)? {
            Found::Joined(file) => file,
            Found::Again => continue,
            Found::Nothing => match make(folder, path, &layout, parked.nonce) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            },
        };
        let header = Map::new_header(&file)?;
        let words = header.words();
        if words.magic.load(Acquire) != MAGIC
            || words.ranks.load(Relaxed) != parked.ranks
            || load_bytes::<2, 16>(&words.nonce) != parked.nonce
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is another job's"));
        }
        match sys::lock_rank(&file, MAKER) {
            // The holder of the lock decides, or has decided, for this file.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && words.state.load(Acquire) == MAKING => {
                continue;
            }
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
            _ => {}
        }
        if words.state.load(Acquire) == MAKING {
            if file.metadata()?.nlink() == 0 {
                continue;
            }
            if let Some(old) = search(parked) {
                remove(&file, path)?;
                return Ok(old);
            }
            allocate(&file, &layout, words);
        }
        match words.state.load(Acquire) {
            READY => return Ok(file),
            FAILED => {
                let e = io::Error::from_raw_os_error(words.error.load(Relaxed) as i32);
                remove(&file, path)?;
                return Err(e);
            }
            _ => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "another rank that comes back does not go on"))
}

/// The file that was left, opened by a descriptor of some process that still has it, with a shared
/// lock on it.
fn search(parked: &Parked) -> Option<File> {
    let numbers = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok()))
    };
    for process in numbers(Path::new("/proc")) {
        for descriptor in numbers(&process.path().join("fd")) {
            let link = descriptor.path();
            let is_it = |m: std::fs::Metadata| (m.dev(), m.ino()) == (parked.device, parked.inode);
            if !std::fs::metadata(&link).is_ok_and(is_it) {
                continue;
            }
            // It may have been closed since, and a program's other file may have its number.
            let Ok(file) = OpenOptions::new().read(true).write(true).open(&link) else { continue };
            if file.metadata().is_ok_and(is_it) && is_same(&file, parked) && file.try_lock_shared().is_ok() {
                return Some(file);
            }
        }
    }
    None
}

/// Returns true if a file is the segment that was left, and none that has its inode's number now.
fn is_same(file: &File, parked: &Parked) -> bool {
    let Ok(header) = Map::new_header(file) else { return false };
    let words = header.words();
    words.magic.load(Acquire) == MAGIC && load_bytes::<2, 16>(&words.made) == parked.made
}
