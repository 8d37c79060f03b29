//! The floor within a node: two processes on shared memory, and memcpy.
//!
//! - *Cache lines*: a word that one process writes while the other waits for it. No message is
//!   faster, whatever its size.
//! - *Cells*: slots of a ring, each with a small message and a sequence number that shows its
//!   arrival.
//! - *Copies in and out*: messages of any size, copied in pieces through a ring that fits into a
//!   cache.
//! - *memcpy*: from one buffer of a process into another, by one core. Hot: always the same
//!   buffers. Cold: different ones each time, from more memory than the caches hold.

use std::hint::{black_box, spin_loop};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use ch3_shim::{Comm, Device};

use super::{TAG, spins};
use crate::error::{During, Failure, Result};
use crate::sys::{PageBuf, Shared};

/// Maximum length of a cell's message, in bytes.
pub(crate) const CELL: usize = LINE - 8;
const LINE: usize = 64;
/// Number of cells in the ring; the reader reports its position after every quarter.
const CELLS: u64 = 256;
/// Length of each process's ring for longer messages, in bytes.
const RING: u64 = 256 << 10;
const PIECE: usize = 32 << 10;
/// Cache size assumed where the system does not tell, in bytes.
const CACHE: usize = 64 << 20;
/// Memory used by cold copies per direction, in bytes; exceeded only by longer messages.
const COLD_MAX: usize = 256 << 20;
/// Silence of the other process after which it is presumed dead.
const LOST: Duration = Duration::from_secs(600);

/// Indices of the words: each process writes those with its own number added and reads the other's.
const TURN: usize = 0;
const TAIL: usize = 2;
const HEAD: usize = 4;
/// Index of the number of cells that rank 1 has read.
const CELLS_READ: usize = 6;
const WORDS: usize = 7;
/// Offset of the cells, behind both rings. Rank 0 writes them.
const CELLS_AT: usize = 2 * RING as usize;
const BYTES: usize = CELLS_AT + CELLS as usize * LINE;

/// Cache state of a memcpy's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// In a cache, if it fits.
    Hot,
    /// In main memory.
    Cold,
}

/// Buffers that no cache holds.
#[derive(Debug)]
struct Cold {
    from: PageBuf,
    to: PageBuf,
    at: usize,
}

/// Shared memory between ranks 0 and 1.
#[derive(Debug)]
pub(crate) struct RawMemory {
    shared: Shared,
    /// Number of this process; 0 is the one that starts.
    me: usize,
    spins: u32,
    /// Number of turns that both have taken.
    turn: u64,
    /// Positions in this process's ring and in the other's.
    out: u64,
    inc: u64,
    /// Number of cells written or read, and the limit up to which cells may be written.
    cell: u64,
    cell_room: u64,
    cold: Option<Cold>,
}

impl RawMemory {
    /// Connects ranks 0 and 1, which both call this. `crowded`: ranks share cores.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<RawMemory> {
        let me = dev.rank() as usize;
        let path = |token: [u8; 8]| {
            PathBuf::from(format!("/dev/shm/netmod-perf-{:016x}", u64::from_le_bytes(token)))
        };
        let shared = if me == 0 {
            let mut token = [0; 8];
            dev.recv(&mut token, 1, TAG, comm)?;
            let path = path(token);
            let opened = Shared::open(&path, WORDS, BYTES);
            let opened = opened.during(format!("map {}, which rank 1 has made", path.display()))?;
            std::fs::remove_file(&path).during(format!("remove {}", path.display()))?;
            opened
        } else {
            // Not a secret: it separates measurements that run at the same time.
            let number = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
            let path = path(number.to_le_bytes());
            let made = Shared::create(&path, WORDS, BYTES)
                .during(format!("make {} for the floor; is /dev/shm full (df /dev/shm)?", path.display()))?;
            dev.send(&number.to_le_bytes(), 0, TAG, comm)?;
            made
        };
        let spins = spins(crowded);
        Ok(RawMemory { shared, me, spins, turn: 0, out: 0, inc: 0, cell: 0, cell_room: CELLS, cold: None })
    }

    /// Waits until a word has at least the value `least`, and returns its value.
    #[inline]
    fn wait(&self, word: &AtomicU64, least: u64) -> Result<u64> {
        for _ in 0..self.spins {
            let v = word.load(Acquire);
            if v >= least {
                return Ok(v);
            }
            spin_loop();
        }
        self.wait_longer(word, least)
    }

    #[cold]
    fn wait_longer(&self, word: &AtomicU64, least: u64) -> Result<u64> {
        let start = Instant::now();
        while start.elapsed() < LOST {
            std::thread::yield_now();
            for _ in 0..self.spins {
                let v = word.load(Acquire);
                if v >= least {
                    return Ok(v);
                }
                spin_loop();
            }
        }
        Err(Failure::new(format!(
            "rank {} has not written to the shared memory for {} s; is it still there?",
            1 - self.me,
            LOST.as_secs()
        )))
    }

    /// Signals a turn to the other process.
    #[inline]
    fn signal(&self) {
        self.shared.word(TURN + self.me).store(self.turn, Release);
    }

    /// Waits for the other process's signal.
    #[inline]
    fn await_signal(&self) -> Result<()> {
        self.wait(self.shared.word(TURN + 1 - self.me), self.turn).map(drop)
    }

    /// Does `iters` round trips of messages as long as the buffers. Messages that fit into a cache
    /// line use one; longer ones are copied in and out.
    pub(crate) fn ping_pong(&mut self, send: &[u8], recv: &mut [u8], iters: usize) -> Result<()> {
        let lead = self.me == 0;
        for _ in 0..iters {
            if send.len() <= CELL {
                self.turn += 1;
                if lead {
                    self.signal();
                    self.await_signal()?;
                } else {
                    self.await_signal()?;
                    self.signal();
                }
            } else if lead {
                self.copy_in(send)?;
                self.copy_out(recv)?;
            } else {
                self.copy_out(recv)?;
                self.copy_in(send)?;
            }
        }
        Ok(())
    }

    /// Sends `windows` times `window` messages, with an acknowledgement after each window.
    pub(crate) fn messages(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        window: usize,
        windows: usize,
    ) -> Result<()> {
        let recv = &mut recv[..send.len()];
        for _ in 0..windows {
            for _ in 0..window {
                match (send.len() <= CELL, self.me) {
                    (true, 0) => self.put_cell(send)?,
                    (true, _) => self.take_cell(recv)?,
                    (false, 0) => self.copy_in(send)?,
                    (false, _) => self.copy_out(recv)?,
                }
            }
            self.turn += 1;
            if self.me == 0 {
                self.await_signal()?;
            } else {
                self.signal();
            }
        }
        Ok(())
    }

    #[inline]
    fn put_cell(&mut self, data: &[u8]) -> Result<()> {
        if self.cell == self.cell_room {
            let read = self.wait(self.shared.word(CELLS_READ), self.cell + 1 - CELLS)?;
            self.cell_room = read + CELLS;
        }
        let at = CELLS_AT + (self.cell % CELLS) as usize * LINE;
        self.shared.put(at + 8, data);
        self.cell += 1;
        self.shared.word_at(at).store(self.cell, Release);
        Ok(())
    }

    #[inline]
    fn take_cell(&mut self, data: &mut [u8]) -> Result<()> {
        let at = CELLS_AT + (self.cell % CELLS) as usize * LINE;
        self.wait(self.shared.word_at(at), self.cell + 1)?;
        self.shared.get(at + 8, data);
        self.cell += 1;
        if self.cell.is_multiple_of(CELLS / 4) {
            self.shared.word(CELLS_READ).store(self.cell, Release);
        }
        Ok(())
    }

    /// Copies a message into this process's ring.
    #[inline]
    fn copy_in(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let at = (self.out % RING) as usize;
            let n = data.len().min(PIECE).min(RING as usize - at);
            let (piece, rest) = data.split_at(n);
            self.out += n as u64;
            self.wait(self.shared.word(HEAD + 1 - self.me), self.out.saturating_sub(RING))?;
            self.shared.put(self.me * RING as usize + at, piece);
            self.shared.word(TAIL + self.me).store(self.out, Release);
            data = rest;
        }
        Ok(())
    }

    /// Copies a message out of the other process's ring.
    #[inline]
    fn copy_out(&mut self, mut data: &mut [u8]) -> Result<()> {
        let peer = 1 - self.me;
        while !data.is_empty() {
            let tail = self.wait(self.shared.word(TAIL + peer), self.inc + 1)?;
            let at = (self.inc % RING) as usize;
            let n = data.len().min(PIECE).min(RING as usize - at).min((tail - self.inc) as usize);
            let (piece, rest) = std::mem::take(&mut data).split_at_mut(n);
            self.shared.get(peer * RING as usize + at, piece);
            self.inc += n as u64;
            self.shared.word(HEAD + self.me).store(self.inc, Release);
            data = rest;
        }
        Ok(())
    }

    /// Copies `count` times from `send` to `recv`, or within cold memory, in rank 0; rank 1 waits.
    pub(crate) fn memcpy(&mut self, cache: Cache, send: &[u8], recv: &mut [u8], count: usize) -> Result<()> {
        self.turn += 1;
        if self.me != 0 {
            return self.await_signal();
        }
        match cache {
            Cache::Hot => copies(send, recv, count),
            Cache::Cold => self.cold_copies(send.len(), count),
        }
        self.signal();
        Ok(())
    }

    /// Copies `count` times from `send` to `recv` in both processes at the same time.
    pub(crate) fn memcpy_both(&mut self, send: &[u8], recv: &mut [u8], count: usize) -> Result<()> {
        self.turn += 1;
        copies(send, recv, count);
        self.signal();
        self.await_signal()
    }

    fn cold_copies(&mut self, bytes: usize, count: usize) {
        let all = (2 * cache_bytes()).min(COLD_MAX).max(bytes);
        if self.cold.as_ref().is_none_or(|c| c.from.len() < all) {
            // Writing every byte makes all pages resident.
            self.cold = Some(Cold { from: PageBuf::new(all), to: PageBuf::new(all), at: 0 });
        }
        let Some(c) = &mut self.cold else { return };
        for _ in 0..count {
            if c.at + bytes > all {
                c.at = 0;
            }
            let place = c.at..c.at + bytes;
            c.to[place.clone()].copy_from_slice(black_box(&c.from[place]));
            black_box(&mut c.to);
            c.at += bytes;
        }
    }
}

fn copies(send: &[u8], recv: &mut [u8], count: usize) {
    let recv = &mut recv[..send.len()];
    for _ in 0..count {
        recv.copy_from_slice(black_box(send));
        black_box(&mut *recv);
    }
}

/// Returns the size of the largest cache in bytes.
fn cache_bytes() -> usize {
    let size = |i: u32| {
        let text =
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    (0..5).filter_map(size).max().unwrap_or(CACHE)
}
