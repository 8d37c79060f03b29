//! State that the ranks of an in-memory job share: a FIFO of byte streams for each ordered pair.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Options;

/// State of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More may come.
    Open,
    /// It was closed: the bytes in it are the last.
    Fin,
    /// Its sender has given it up.
    Reset,
}

/// The bytes of one connection in one direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) bytes: VecDeque<u8>,
    pub(super) end: End,
}

/// One direction between two ranks: connections, oldest first. Only the last can be open.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) streams: VecDeque<Stream>,
    /// The receiving rank has gone: nobody will read.
    pub(super) unread: bool,
}

impl Lane {
    /// The stream that is being written, if there is one.
    pub(super) fn writing(&mut self) -> Option<&mut Stream> {
        self.streams.back_mut().filter(|s| s.end == End::Open)
    }

    /// Ends the stream that is being written.
    pub(super) fn end(&mut self, end: End) {
        if let Some(s) = self.writing() {
            s.end = end;
        }
    }
}

/// The network of an in-memory job.
#[derive(Debug)]
pub struct Fabric {
    size: u32,
    id: u64,
    pub(super) options: Options,
    lanes: Vec<Mutex<Lane>>,
    gone: Vec<AtomicBool>,
}

impl Fabric {
    /// A network for `size` ranks.
    pub fn new(size: u32, options: Options) -> Arc<Fabric> {
        static FABRICS: AtomicU64 = AtomicU64::new(1);
        let n = size as usize;
        Arc::new(Fabric {
            size,
            id: FABRICS.fetch_add(1, Ordering::Relaxed),
            options,
            lanes: (0..n * n).map(|_| Mutex::default()).collect(),
            gone: (0..n).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A number that no other fabric of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes that one direction between two ranks holds at most.
    pub fn capacity(&self) -> usize {
        self.options.capacity
    }

    pub(super) fn lane(&self, from: u32, to: u32) -> MutexGuard<'_, Lane> {
        let at = (from * self.size + to) as usize;
        self.lanes[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a rank has left.
    pub(super) fn is_gone(&self, rank: u32) -> bool {
        self.gone[rank as usize].load(Ordering::Acquire)
    }

    /// A rank leaves: what it was writing ends, and nobody reads what is written to it.
    pub(super) fn leave(&self, rank: u32) {
        for other in 0..self.size {
            self.lane(rank, other).end(End::Reset);
            let mut lane = self.lane(other, rank);
            lane.unread = true;
            lane.streams.clear();
        }
        self.gone[rank as usize].store(true, Ordering::Release);
    }

    /// Returns what is in flight, as human-readable text.
    pub fn describe(&self) -> String {
        let mut out = String::from("in flight:");
        for from in 0..self.size {
            for to in 0..self.size {
                let lane = self.lane(from, to);
                if !lane.streams.is_empty() {
                    let each: Vec<String> = lane
                        .streams
                        .iter()
                        .map(|s| format!("{} bytes, {:?}", s.bytes.len(), s.end))
                        .collect();
                    out.push_str(&format!("\n  {from} to {to}: {}", each.join("; ")));
                }
            }
            if self.is_gone(from) {
                out.push_str(&format!("\n  rank {from} has left"));
            }
        }
        out
    }
}
