//! The directory of a dynamic window: what the processes of a node have attached, in memory that
//! they share.
//!
//! A process enters memory that it attaches and strikes out what it detaches, then counts the
//! change. The others read its entries when the count is not the one that they know. An entry is
//! valid while its length is not 0, which is written last and taken away first. So a reader that
//! finds the same count before and after has read whole entries, and nobody waits for another
//! process, which may be dead. What has no entry is accessed by requests.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use ch3_shim::shared_memory::{SharedMemory, Ticket};

use super::memory::{SharedParts, Span};
use super::reach::{self, Reach, Told};
use crate::allocated::Place;

/// Most entries of a process.
const ENTRIES: usize = 4096;
/// Words of an entry: length, address, and what is told of the memory.
const ENTRY: usize = 8;
const LEN: usize = 0;
const ADDRESS: usize = 1;
const TOLD: usize = 2;
/// Words before the entries: the count of changes, and the number of entries that were ever used.
const HEAD: usize = 8;
const CHANGES: usize = 0;
const USED: usize = 1;

/// Words of a process.
const BLOCK: usize = HEAD + ENTRIES * ENTRY;
/// Bytes of the words of a process, which cost memory only where they were written.
pub(super) const BYTES: usize = BLOCK * 8;

/// An entry: attached memory, as the others are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    address: u64,
    len: u64,
    told: [i64; reach::WORDS],
}

/// Memory that this process has attached.
#[derive(Debug)]
pub(super) struct Attached {
    pub span: Span,
    /// Its place in a segment of `MPI_Alloc_mem`, which is kept.
    pub place: Option<Place>,
    /// Its entry in the directory.
    pub entry: Option<usize>,
}

/// The memory that this process has attached to a window.
#[derive(Debug)]
pub(super) struct Attachments {
    pub all: Vec<Attached>,
    /// The directories of the node, if the window is dynamic and there are others.
    pub directory: Option<Directory>,
}

/// The directories of the processes of a node.
#[derive(Debug)]
pub(super) struct Directory {
    memory: Arc<SharedMemory>,
    /// Place of the first one in the memory, in bytes.
    at: usize,
    /// Free entries of this process among those that were used.
    free: Vec<usize>,
}

impl Directory {
    /// Returns the directories at a place of memory.
    pub(super) fn new(memory: Arc<SharedMemory>, at: usize) -> Directory {
        Directory { memory, at, free: Vec::new() }
    }

    fn word(&self, process: usize, word: usize) -> &AtomicU64 {
        self.memory.word(self.at + (process * BLOCK + word) * 8)
    }

    /// Enters memory of process `me` of the node. Returns the entry; `None` if there is no room.
    pub(super) fn enter(&mut self, me: usize, (address, len): (u64, u64), told: Told) -> Option<usize> {
        let used = self.word(me, USED).load(SeqCst) as usize;
        let entry = self.free.pop().or_else(|| (used < ENTRIES).then_some(used))?;
        let first = HEAD + entry * ENTRY;
        self.word(me, first + ADDRESS).store(address, SeqCst);
        for (i, word) in Told::words(Some(told)).into_iter().enumerate() {
            self.word(me, first + TOLD + i).store(word.cast_unsigned(), SeqCst);
        }
        self.word(me, first + LEN).store(len, SeqCst);
        self.word(me, USED).fetch_max(entry as u64 + 1, SeqCst);
        self.word(me, CHANGES).fetch_add(1, SeqCst);
        Some(entry)
    }

    /// Strikes out an entry of process `me`.
    pub(super) fn strike(&mut self, me: usize, entry: usize) {
        self.word(me, HEAD + entry * ENTRY + LEN).store(0, SeqCst);
        self.word(me, CHANGES).fetch_add(1, SeqCst);
        self.free.push(entry);
    }

    /// Returns the entries of a process, and its count of changes then.
    fn read(&self, process: usize) -> (u64, Vec<Entry>) {
        let mut changes = self.word(process, CHANGES).load(SeqCst);
        loop {
            let used = (self.word(process, USED).load(SeqCst) as usize).min(ENTRIES);
            let all = (0..used).filter_map(|entry| self.entry(process, entry)).collect();
            match self.word(process, CHANGES).load(SeqCst) {
                same if same == changes => return (changes, all),
                other => changes = other,
            }
        }
    }

    fn entry(&self, process: usize, entry: usize) -> Option<Entry> {
        let word = |word| self.word(process, HEAD + entry * ENTRY + word).load(SeqCst);
        let len = word(LEN);
        let read = || Entry {
            address: word(ADDRESS),
            len,
            told: std::array::from_fn(|i| word(TOLD + i).cast_signed()),
        };
        (len > 0).then(read)
    }
}

/// The memory that another process of the node has attached, as this one knows it.
#[derive(Debug)]
pub(super) struct Parts {
    /// Place of the process in the node, and its rank.
    process: usize,
    rank: u32,
    /// Its count of changes when the entries were read.
    changes: u64,
    /// The entries by their addresses, and the ways there.
    all: BTreeMap<u64, (Entry, Reach)>,
    /// The segments that some of it is in.
    segments: Vec<(Ticket, Arc<SharedMemory>)>,
    kept: SharedParts,
}

impl Parts {
    /// Nothing is known of a process.
    pub(super) fn of(process: usize, rank: u32) -> Parts {
        let (all, segments) = (BTreeMap::new(), Vec::new());
        Parts { process, rank, changes: 0, all, segments, kept: SharedParts::default() }
    }

    /// Returns the way to memory that holds `len` bytes from an address on, and the address where
    /// that memory begins.
    #[inline]
    pub(super) fn find(&mut self, directory: &Directory, address: u64, len: u64) -> Option<(Reach, u64)> {
        if directory.word(self.process, CHANGES).load(SeqCst) != self.changes {
            self.read(directory);
        }
        let (entry, reach) = self.all.range(..=address).next_back()?.1;
        let is_within = (address - entry.address).checked_add(len)? <= entry.len;
        is_within.then_some((*reach, entry.address))
    }

    /// The segments, which are to be kept while memory is accessed.
    pub(super) fn kept(&self) -> SharedParts {
        Arc::clone(&self.kept)
    }

    /// Reads the entries. What is entered as before is reached as before.
    #[cold]
    fn read(&mut self, directory: &Directory) {
        let (changes, entries) = directory.read(self.process);
        let mut old = std::mem::take(&mut self.all);
        for entry in entries {
            let known = old.remove(&entry.address).filter(|(of, _)| *of == entry);
            let reach = known.map_or_else(|| self.reach(&entry), |(_, reach)| reach);
            self.all.insert(entry.address, (entry, reach));
        }
        let told = |(entry, _): &(Entry, Reach)| match Told::read(&entry.told) {
            Some(Told::Segment { ticket, .. }) => Some(ticket),
            _ => None,
        };
        let used: Vec<Ticket> = self.all.values().filter_map(told).collect();
        self.segments.retain(|(ticket, _)| used.contains(ticket));
        self.kept = self.segments.iter().map(|(_, memory)| Arc::clone(memory)).collect();
        self.changes = changes;
    }

    fn reach(&mut self, entry: &Entry) -> Reach {
        let Some(told) = Told::read(&entry.told) else { return Reach::Requests };
        let segments = &mut self.segments;
        let open = |ticket: Ticket, len| -> io::Result<Arc<SharedMemory>> {
            if let Some((_, memory)) = segments.iter().find(|(of, _)| *of == ticket) {
                return Ok(Arc::clone(memory));
            }
            let memory = reach::open(ticket, len)?;
            segments.push((ticket, Arc::clone(&memory)));
            Ok(memory)
        };
        told.reach(self.rank, entry.len, open).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ch3_shim::shared_memory::PeerMemory;

    fn directory() -> Directory {
        Directory::new(Arc::new(SharedMemory::create(64 + 2 * BYTES).unwrap()), 64)
    }

    fn elsewhere(address: u64) -> Told {
        Told::Address(PeerMemory::of_this_process().unwrap(), address)
    }

    #[test]
    fn what_is_attached_is_found_until_it_is_detached() {
        let (mut all, mut parts) = (directory(), Parts::of(1, 1));
        assert!(parts.find(&all, 5000, 1).is_none());
        let segment = Arc::new(SharedMemory::create(1000).unwrap());
        let told = |at| Told::of(4096, Some(&Place { memory: Arc::clone(&segment), at })).unwrap();
        let first = all.enter(1, (4096, 100), told(64)).unwrap();
        all.enter(1, (8192, 100), told(512)).unwrap();
        all.enter(0, (100, 100), elsewhere(100)).unwrap();
        let mut find = |all: &Directory, at, len| parts.find(all, at, len);
        let Some((Reach::Memory(span), 4096)) = find(&all, 4106, 90) else { panic!("no memory") };
        assert_eq!(span.len(), 100);
        assert!(
            find(&all, 4106, 91).is_none() && find(&all, 100, 1).is_none() && find(&all, 4000, 1).is_none()
        );
        all.strike(1, first);
        assert!(find(&all, 4106, 90).is_none() && find(&all, 8192, 100).is_some());
        assert_eq!(all.enter(1, (4200, 8), elsewhere(4200)), Some(first), "the entry is used again");
        assert!(
            matches!(find(&all, 4200, 8), Some((Reach::Attach(_, span), 4200)) if span.address() == 4200)
        );
        assert_eq!(parts.segments.len(), 1, "both were in one segment");
        all.strike(1, 1);
        assert!(parts.find(&all, 8192, 1).is_none() && parts.segments.is_empty() && parts.kept().is_empty());
    }

    #[test]
    fn a_full_directory_takes_no_more() {
        let mut all = directory();
        assert!((0..ENTRIES as u64).all(|i| all.enter(0, (8 * i + 8, 8), elsewhere(8 * i + 8)).is_some()));
        assert_eq!(all.enter(0, (1 << 40, 8), elsewhere(1 << 40)), None);
        all.strike(0, 17);
        assert_eq!(all.enter(0, (1 << 40, 8), elsewhere(1 << 40)), Some(17));
    }

    #[test]
    fn readers_see_whole_entries_while_they_change() {
        let mut all = directory();
        let reader = Directory::new(Arc::clone(&all.memory), all.at);
        let address = |told: &[i64]| match Told::read(told) {
            Some(Told::Address(_, at)) => at,
            other => panic!("{other:?}"),
        };
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let mut seen = 0u64;
                while seen < 2000 {
                    let (changes, entries) = reader.read(0);
                    for entry in entries {
                        assert_eq!((entry.address, entry.len), (address(&entry.told), entry.address));
                    }
                    seen = changes;
                }
            });
            for i in 1..=1000 {
                let entry = all.enter(0, (i, i), elsewhere(i)).unwrap();
                all.strike(0, entry);
            }
            reads.join().unwrap();
        });
    }
}
