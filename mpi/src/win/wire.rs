//! Messages between the processes of a window: requests to a target, and what describes its memory.

use std::sync::Arc;

use netmod_core::Datatype as Layout;

use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};

/// Tag of requests to a target.
pub(super) const REQUEST: i32 = 0;
/// Tag of the data of a request that does not fit into it.
pub(super) const DATA: i32 = 1;
/// Tag of a target's answers, which come in the order of the requests.
pub(super) const ANSWER: i32 = 2;

/// Bytes of a request with its data, at most.
pub(super) const ROOM: usize = 4096;
/// Bytes of a request's header.
pub(super) const HEADER: usize = 40;
/// Bytes of an answer that says how something has ended.
pub(super) const VERDICT: usize = 4;

/// Bit of [`Request::flags`]: data comes in a message of its own.
const APART: u8 = 1;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Writes data.
    Put = 1,
    /// Asks for data.
    Get,
    /// Combines data with the target's.
    Accumulate,
    /// Does so and asks for what was there.
    GetAccumulate,
    /// Asks for an element, and sets it if it has an expected value.
    CompareAndSwap,
    /// Asks how the requests before it have ended.
    Flush,
    /// Asks for the lock, exclusively.
    LockExclusive,
    /// Asks for the lock, shared.
    LockShared,
    /// Gives the lock back, and asks how the requests before it have ended.
    UnlockExclusive,
    /// The same for a shared lock.
    UnlockShared,
    /// The sender exposes its memory to the receiver.
    Post,
    /// The sender's accesses are over.
    Complete,
    /// Wakes the receiver.
    Wake,
    /// Asks for the key by which the network accesses the receiver's memory.
    Key,
}

const KINDS: [Kind; 14] = [
    Kind::Put,
    Kind::Get,
    Kind::Accumulate,
    Kind::GetAccumulate,
    Kind::CompareAndSwap,
    Kind::Flush,
    Kind::LockExclusive,
    Kind::LockShared,
    Kind::UnlockExclusive,
    Kind::UnlockShared,
    Kind::Post,
    Kind::Complete,
    Kind::Wake,
    Kind::Key,
];

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub kind: Kind,
    /// Number of the operation in its handle.
    pub op: u8,
    pub is_apart: bool,
    /// Handle of the predefined type of the elements.
    pub basic: u32,
    /// The place in the target's memory in bytes, or an address of a dynamic window.
    pub at: i64,
    /// Number of elements of the target's type.
    pub count: u64,
    /// Bytes that describe the target's type.
    pub described: u32,
    /// Bytes of data behind them.
    pub data: u64,
}

fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn eight(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cold]
fn malformed() -> Box<MpiError> {
    MpiError::new(Class::INTERN, "a process of the window has sent a request that is none")
}

impl Request {
    /// Creates a request without data.
    pub(super) fn bare(kind: Kind) -> Request {
        Request { kind, op: 0, is_apart: false, basic: 0, at: 0, count: 0, described: 0, data: 0 }
    }

    /// Appends it as bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.kind as u8, self.op, if self.is_apart { APART } else { 0 }, 0]);
        out.extend(self.basic.to_le_bytes());
        out.extend(self.at.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.described.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.data.to_le_bytes());
    }

    /// Reads what [`Request::write`] has written.
    ///
    /// # Errors
    /// Bytes that are no request.
    pub(super) fn read(bytes: &[u8]) -> Result<Request> {
        let read = || {
            let kind = *KINDS.get(usize::from(*bytes.first()?).checked_sub(1)?)?;
            Some(Request {
                kind,
                op: *bytes.get(1)?,
                is_apart: bytes.get(2)? & APART != 0,
                basic: u32::from_le_bytes(four(bytes, 4)?),
                at: i64::from_le_bytes(eight(bytes, 8)?),
                count: u64::from_le_bytes(eight(bytes, 16)?),
                described: u32::from_le_bytes(four(bytes, 24)?),
                data: u64::from_le_bytes(eight(bytes, 32)?),
            })
        };
        read().ok_or_else(malformed)
    }
}

/// Bytes of a row of blocks.
const ROW: usize = 32;

/// Blocks of one length at equal distances.
struct Row {
    at: i64,
    len: u64,
    stride: i64,
    count: u64,
}

/// Returns bytes that describe the elements of a type: its extent, and the rows of its blocks.
pub(super) fn describe(desc: &TypeDesc) -> Vec<u8> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, len) in desc.runs() {
        match rows.last_mut() {
            Some(row)
                if row.len == len && (row.count == 1 || at == row.at + row.stride * row.count as i64) =>
            {
                row.stride = if row.count == 1 { at - row.at } else { row.stride };
                row.count += 1;
            }
            _ => rows.push(Row { at, len, stride: 0, count: 1 }),
        }
    }
    let mut out = Vec::with_capacity(16 + rows.len() * ROW);
    out.extend(desc.lb().to_le_bytes());
    out.extend(desc.extent().to_le_bytes());
    for row in rows {
        out.extend(row.at.to_le_bytes());
        out.extend(row.len.to_le_bytes());
        out.extend(row.stride.to_le_bytes());
        out.extend(row.count.to_le_bytes());
    }
    out
}

/// Makes the layout that bytes describe.
///
/// # Errors
/// Bytes that describe none.
pub(super) fn layout(bytes: &[u8]) -> Result<Arc<Layout>> {
    let word = |at| eight(bytes, at).map(i64::from_le_bytes).ok_or_else(malformed);
    let (lb, extent) = (word(0)?, word(8)?);
    let wrong = |e: netmod_core::segment::DatatypeError| MpiError::new(Class::INTERN, e.to_string());
    let mut fields = Vec::new();
    for at in (16..bytes.len()).step_by(ROW) {
        let (place, len, stride, count) = (word(at)?, word(at + 8)?, word(at + 16)?, word(at + 24)?);
        let (len, count) = (usize::try_from(len), usize::try_from(count));
        let (Ok(len), Ok(count)) = (len, count) else { return Err(malformed()) };
        let block = Layout::contiguous(len).map_err(wrong)?;
        fields.push((place, 1, Layout::vector(count, 1, stride, &block).map_err(wrong)?));
    }
    let data = Layout::structure(&fields).map_err(wrong)?;
    Layout::resized(lb, extent, &data).map_err(wrong)
}

/// Returns the class that a verdict has; 0 is success.
pub(super) fn verdict(bytes: &[u8]) -> i32 {
    four(bytes, 0).map_or(Class::INTERN.0, i32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Form, Types};
    use crate::handle::Datatype;

    #[test]
    fn requests_are_read_as_they_were_written() {
        for kind in KINDS {
            let request = Request {
                kind,
                op: 3,
                is_apart: kind == Kind::Put,
                basic: 0x4c00_0405,
                at: -8,
                count: u64::MAX - 1,
                described: 48,
                data: 1 << 40,
            };
            let mut bytes = Vec::new();
            request.write(&mut bytes);
            assert_eq!(bytes.len(), HEADER);
            assert_eq!(Request::read(&bytes), Ok(request));
            for len in 0..HEADER {
                assert!(Request::read(&bytes[..len]).is_err(), "{len} bytes");
            }
        }
        assert!(Request::read(&[0; HEADER]).is_err() && Request::read(&[99; HEADER]).is_err());
    }

    #[test]
    fn a_type_is_rebuilt_from_its_description() {
        let types = Types::new();
        let int = types.desc(Datatype(0x4c00_0405)).unwrap();
        let vector = Arc::new(TypeDesc::vector(3, 2, 5, &int, Form::Int).unwrap());
        let all = [
            Arc::clone(&int),
            Arc::clone(&vector),
            Arc::new(TypeDesc::vector(4, 1, -3, &vector, Form::Int).unwrap()),
            Arc::new(TypeDesc::contiguous(0, &int, Form::Int).unwrap()),
        ];
        for desc in all {
            let bytes = describe(&desc);
            let made = layout(&bytes).unwrap();
            assert_eq!((made.size(), made.extent()), (desc.size(), desc.extent()));
            for count in [1, 3] {
                assert_eq!(made.span(count), desc.layout.span(count));
            }
            assert!(layout(&bytes[..bytes.len() - 1]).is_err(), "cut off");
        }
    }
}
