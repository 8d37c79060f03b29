//! Independent accesses: data of a view in the memory of one process.

use std::ops::Range;

use netmod_core::Segment;

use super::hints::Hints;
use super::memory;
use super::storage::Disk;
use super::sys::Lock;
use super::view::{Part, View};
use crate::error::Result;

/// Parts of a file are read one by one if there are so many bytes for each.
const LONG: u64 = 64 << 10;
/// They are read together with the holes if at least one byte in so many is wanted.
const DENSE: u64 = 16;

/// A place in a view: the number of a byte of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub view: &'a View,
    pub data: u64,
}

/// Writes memory to a file.
///
/// # Errors
/// Those of the file system.
pub(super) fn write(disk: &Disk, at: At<'_>, hints: &Hints, atomic: bool, data: &mut Segment) -> Result<()> {
    let span = at.view.span(at.data, data.remaining() as u64)?;
    let mut access = || {
        let mut place = at.data;
        memory::for_each_out(data, |bytes| {
            write_bytes(disk, At { data: place, ..at }, hints, bytes)?;
            place += bytes.len() as u64;
            Ok(())
        })
    };
    if atomic { disk.locked(Lock::Exclusive, &span, &mut access) } else { access() }
}

/// Works like [`write`] for data that was packed.
///
/// # Errors
/// As [`write`].
pub(super) fn write_packed(disk: &Disk, at: At<'_>, hints: &Hints, atomic: bool, bytes: &[u8]) -> Result<()> {
    let span = at.view.span(at.data, bytes.len() as u64)?;
    let access = || write_bytes(disk, at, hints, bytes);
    if atomic { disk.locked(Lock::Exclusive, &span, access) } else { access() }
}

/// Writes bytes to the parts that a view shows.
fn write_bytes(disk: &Disk, at: At<'_>, hints: &Hints, bytes: &[u8]) -> Result<()> {
    let len = bytes.len() as u64;
    let span = at.view.span(at.data, len)?;
    let dense = span.end - span.start <= len.saturating_mul(DENSE);
    if hints.sieve_writes && dense && span.end - span.start > len {
        return sieve(disk, at, hints, bytes);
    }
    let mut rest = bytes;
    for (start, len) in at.view.parts(at.data, len) {
        let (part, behind) = rest.split_at(len as usize);
        disk.write(part, start)?;
        rest = behind;
    }
    Ok(())
}

/// Writes bytes together with what the holes between them hold, window by window, each of which is
/// locked from the read to the write.
fn sieve(disk: &Disk, at: At<'_>, hints: &Hints, bytes: &[u8]) -> Result<()> {
    let (mut rest, mut room) = (bytes, Vec::new());
    for window in windows(at.view.parts(at.data, bytes.len() as u64), hints.write_buffer) {
        let span = span_of(&window);
        disk.locked(Lock::Exclusive, &span, || {
            room.clear();
            room.resize((span.end - span.start) as usize, 0);
            if window.len() > 1 {
                disk.read(&mut room, span.start)?;
            }
            for (start, len) in &window {
                let (part, behind) = rest.split_at(*len as usize);
                room[(start - span.start) as usize..][..part.len()].copy_from_slice(part);
                rest = behind;
            }
            disk.write(&room, span.start)
        })?;
    }
    Ok(())
}

/// Reads from a file to memory. Returns the bytes that were there.
///
/// # Errors
/// Those of the file system.
pub(super) fn read(
    disk: &Disk,
    at: At<'_>,
    hints: &Hints,
    atomic: bool,
    data: &mut Segment,
) -> Result<usize> {
    let span = at.view.span(at.data, data.remaining() as u64)?;
    let mut access = || {
        let mut place = at.data;
        memory::for_each_in(data, |room| {
            let got = read_bytes(disk, At { data: place, ..at }, hints, room)?;
            place += got as u64;
            Ok(got)
        })
    };
    if atomic { disk.locked(Lock::Shared, &span, &mut access) } else { access() }
}

/// Works like [`read`] for data that is unpacked later.
///
/// # Errors
/// As [`read`].
pub(super) fn read_packed(
    disk: &Disk,
    at: At<'_>,
    hints: &Hints,
    atomic: bool,
    room: &mut [u8],
) -> Result<usize> {
    let span = at.view.span(at.data, room.len() as u64)?;
    let mut access = || read_bytes(disk, at, hints, room);
    if atomic { disk.locked(Lock::Shared, &span, &mut access) } else { access() }
}

/// Reads bytes of the parts that a view shows. Returns their number, which is less at the end of
/// the file.
fn read_bytes(disk: &Disk, at: At<'_>, hints: &Hints, room: &mut [u8]) -> Result<usize> {
    let len = room.len() as u64;
    let mut done = 0;
    let mut buffer = Vec::new();
    for window in windows(at.view.parts(at.data, len), hints.read_buffer) {
        let span = span_of(&window);
        let wanted: u64 = window.iter().map(|part| part.1).sum();
        let alone = !hints.sieve_reads
            || wanted / window.len() as u64 >= LONG
            || span.end - span.start > wanted.saturating_mul(DENSE);
        let before = done;
        if window.len() == 1 || alone {
            for (start, len) in &window {
                let got = disk.read(&mut room[done..][..*len as usize], *start)?;
                done += got;
                if (got as u64) < *len {
                    return Ok(done);
                }
            }
        } else {
            buffer.resize((span.end - span.start) as usize, 0);
            let got = disk.read(&mut buffer, span.start)?;
            for (start, len) in &window {
                let from = ((start - span.start) as usize).min(got);
                let part = &buffer[from..(from + *len as usize).min(got)];
                room[done..][..part.len()].copy_from_slice(part);
                done += part.len();
            }
        }
        if ((done - before) as u64) < wanted {
            break;
        }
    }
    Ok(done)
}

/// Returns the bytes from the first to behind the last of a window.
fn span_of(window: &[Part]) -> Range<u64> {
    // Parts that overlap may end behind the last one.
    let end = window.iter().map(|part| part.0 + part.1).max();
    window.first().map_or(0, |part| part.0)..end.unwrap_or(0)
}

/// Divides parts into windows that span at most so many bytes, unless a part is longer: such a one
/// is alone.
fn windows(parts: impl Iterator<Item = Part>, most: u64) -> impl Iterator<Item = Vec<Part>> {
    let mut parts = parts.peekable();
    std::iter::from_fn(move || {
        let first = parts.next()?;
        let mut window = vec![first];
        while let Some(next) = parts.next_if(|next| next.0 + next.1 - first.0 <= most) {
            window.push(next);
        }
        Some(window)
    })
}
