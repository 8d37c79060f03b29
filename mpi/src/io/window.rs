//! A window of an aggregator: what all processes write to a range of the file, or read from it.

use std::ops::Range;

use super::hints::Hints;
use super::storage::Disk;
use super::sys::Lock;
use super::view::Part;
use crate::error::Result;

/// Holes are read, too, if at least one byte in so many is wanted.
const DENSE: u64 = 16;

/// The parts of all processes in a window.
#[derive(Debug)]
pub(super) struct Window {
    /// Those of each rank, in the order of the file.
    parts: Vec<Vec<Part>>,
}

/// Returns the ranges that parts cover, in order and without neighbours.
fn covered(parts: &[Vec<Part>]) -> Vec<Range<u64>> {
    // Those of one process are sorted already, which the sort makes use of.
    let mut all: Vec<Part> = parts.iter().flatten().copied().collect();
    all.sort();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (at, len) in all {
        match ranges.last_mut() {
            Some(last) if at <= last.end => last.end = last.end.max(at + len),
            _ => ranges.push(at..at + len),
        }
    }
    ranges
}

impl Window {
    /// Creates a window of the parts of each rank.
    pub(super) fn new(parts: Vec<Vec<Part>>) -> Window {
        Window { parts }
    }

    /// Returns the ranks that have parts in it, and their bytes.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (usize, usize)> {
        let bytes = |parts: &Vec<Part>| parts.iter().map(|part| part.1 as usize).sum();
        self.parts.iter().map(bytes).enumerate().filter(|(_, bytes)| *bytes > 0)
    }

    /// Writes what the ranks of [`Window::wanted`] have sent. Where they overlap, the highest rank
    /// counts.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn write(&self, disk: &Disk, hints: &Hints, data: &[Vec<u8>]) -> Result<()> {
        let ranges = covered(&self.parts);
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
        let span = first.start..last.end;
        let mut buffer = vec![0; (span.end - span.start) as usize];
        let place = |buffer: &mut [u8]| {
            let senders = self.parts.iter().filter(|parts| !parts.is_empty());
            for (parts, bytes) in senders.zip(data) {
                let mut rest = &bytes[..];
                for (at, len) in parts {
                    let (part, behind) = rest.split_at(*len as usize);
                    buffer[(at - span.start) as usize..][..part.len()].copy_from_slice(part);
                    rest = behind;
                }
            }
        };
        if ranges.len() > 1 && hints.sieve_writes {
            return disk.locked(Lock::Exclusive, &span, || {
                disk.read(&mut buffer, span.start)?;
                place(&mut buffer);
                disk.write(&buffer, span.start)
            });
        }
        place(&mut buffer);
        ranges.iter().try_for_each(|range| {
            let bytes = (range.start - span.start) as usize..(range.end - span.start) as usize;
            disk.write(&buffer[bytes], range.start)
        })
    }

    /// Reads what the ranks of [`Window::wanted`] want. Each gets its bytes up to the end of the
    /// file.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn read(&self, disk: &Disk, hints: &Hints) -> Result<Vec<(usize, Vec<u8>)>> {
        let ranges = covered(&self.parts);
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        let span = first.start..last.end;
        let wanted: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let dense = hints.sieve_reads && span.end - span.start <= wanted.saturating_mul(DENSE);
        let mut buffer = vec![0; (span.end - span.start) as usize];
        // The file ends where a read does.
        let mut end = span.end;
        if dense {
            end = span.start + disk.read(&mut buffer, span.start)? as u64;
        } else {
            for range in &ranges {
                let bytes = (range.start - span.start) as usize..(range.end - span.start) as usize;
                let got = range.start + disk.read(&mut buffer[bytes], range.start)? as u64;
                if got < range.end {
                    end = got;
                    break;
                }
            }
        }
        let mut all = Vec::new();
        for (rank, bytes) in self.wanted() {
            let mut data = Vec::with_capacity(bytes);
            for (at, len) in &self.parts[rank] {
                let (from, to) = ((*at).min(end), (at + len).min(end));
                data.extend_from_slice(&buffer[(from - span.start) as usize..(to - span.start) as usize]);
            }
            all.push((rank, data));
        }
        Ok(all)
    }
}
