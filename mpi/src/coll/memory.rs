//! The memory that a schedule runs against: the caller's buffers and its own.

#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr;
use core::slice;
use std::sync::Arc;

use netmod_core::copy::copy_within;
use netmod_core::{RxBytes, Segment};

use super::node_blocks::HEAD;
use super::node_memory::{NodeMemory, Place};
use super::schedule::{Base, Data, Elem, Entry, Room, Schedule, TypeId};
use crate::datatype::{Buf, TypeDesc};
use crate::error::{Class, MpiError, Result};
use crate::guest;
use crate::handle::Datatype;
use crate::op::{Kernel, UserOp};

/// Memory of a schedule's own, aligned for every basic type.
#[derive(Debug)]
struct Block {
    memory: Vec<u128>,
    /// Bytes from the memory's start to the address of the first element.
    origin: isize,
}

/// The buffers and types of one run.
#[derive(Debug)]
pub struct Memory {
    send: *mut u8,
    recv: *mut u8,
    scratch: Vec<Block>,
    types: Vec<Arc<TypeDesc>>,
    /// The memory that the processes share, and the place of the operation in it.
    node: Option<(Arc<NodeMemory>, Place)>,
}

/// Bytes that are copied at once, which is less than a core's own caches hold: C libraries copy
/// more than that by other instructions, which read the lines that they write.
const PIECE: usize = 256 * 1024;
/// Most words of a room that is kept for the next run.
pub(super) const KEPT: usize = 4096;

// SAFETY: the addresses are used as those of a segment are, which is `Send` for the same reason:
// the contract of `Memory::new` does not depend on threads.
unsafe impl Send for Memory {}

/// A call of a user's operation, which is made while nothing of the library is locked.
pub struct Work {
    function: Arc<dyn UserOp>,
    input: *const u8,
    inout: *mut u8,
    count: usize,
    datatype: Datatype,
}

// SAFETY: as for `Memory`, whose buffers it points into.
unsafe impl Send for Work {}

impl Work {
    /// Gives the operation another handle of its datatype.
    pub(crate) fn set_datatype(&mut self, datatype: Datatype) {
        self.datatype = datatype;
    }

    /// Calls the operation.
    pub fn run(&self) {
        guest::call("an operation of the program", || {
            // SAFETY: `Memory::work` made it of two spans of a schedule, which are elements of the
            // type and do not overlap. The memory is the run's until the run goes on.
            unsafe { self.function.combine(self.input, self.inout, self.count, self.datatype) }
        });
    }
}

impl core::fmt::Debug for Work {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "user operation on {} elements of {:?}", self.count, self.datatype)
    }
}

impl Memory {
    /// Creates the memory of a run: the caller's buffers, the types by their [`TypeId`]s, rooms.
    ///
    /// # Errors
    /// Elements that no address space holds, or more memory than there is.
    ///
    /// # Safety
    /// All elements that the schedule's steps name in the buffers must be memory under the contract
    /// of [`netmod_core::buf`] until the run has ended. Elements that are named in the receive
    /// buffer must be writable. Steps must keep within their rooms.
    pub unsafe fn new(
        send: *mut u8,
        recv: *mut u8,
        types: Vec<Arc<TypeDesc>>,
        rooms: &[Room],
    ) -> Result<Memory> {
        let mut scratch = Vec::new();
        make_rooms(&mut scratch, rooms, &types)?;
        Ok(Memory { send, recv, scratch, types, node: None })
    }

    /// Creates memory without buffers.
    pub(super) fn empty() -> Memory {
        let (send, recv) = (ptr::null_mut(), ptr::null_mut());
        Memory { send, recv, scratch: Vec::new(), types: Vec::new(), node: None }
    }

    /// Prepares it for a call's schedule.
    ///
    /// The schedule's steps must keep within the blocks of the call's buffers, which are lent by
    /// [`Buf::new`], within its rooms, and within the slots of shared memory.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub(super) fn prepare(
        &mut self,
        send: Buf,
        recv: Buf,
        types: Vec<Arc<TypeDesc>>,
        schedule: &Schedule,
    ) -> Result<()> {
        (self.send, self.recv, self.types) = (send.base(), recv.base(), types);
        self.node = None;
        make_rooms(&mut self.scratch, &schedule.rooms, &self.types)
    }

    /// Sets the addresses of the call's buffers anew.
    pub(super) fn move_to(&mut self, send: Buf, recv: Buf) {
        (self.send, self.recv) = (send.base(), recv.base());
    }

    /// Takes the list of types, of which the first alone is left of a call that is over.
    pub(super) fn take_types(&mut self) -> Vec<Arc<TypeDesc>> {
        core::mem::take(&mut self.types)
    }

    /// Sets the memory that the processes share, and the place of the operation in it.
    #[inline]
    pub(super) fn use_node(&mut self, node: &Arc<NodeMemory>, place: Place) {
        match &mut self.node {
            Some((last, at)) if Arc::ptr_eq(last, node) => *at = place,
            other => *other = Some((Arc::clone(node), place)),
        }
    }

    /// The memory that the processes share, and the place of the operation in it.
    #[inline]
    pub(super) fn node(&self) -> Option<(&NodeMemory, Place)> {
        self.node.as_ref().map(|(node, place)| (&**node, *place))
    }

    /// Keeps what the next run can use: all if that `repeats` this one, else the first type, which
    /// is that of bytes, and small rooms.
    pub(super) fn leave(&mut self, repeats: bool) {
        if !repeats {
            self.node = None;
            (self.send, self.recv) = (ptr::null_mut(), ptr::null_mut());
            self.types.truncate(1);
            self.scratch.retain(|block| block.memory.len() <= KEPT);
        }
    }

    /// Returns the words of its rooms.
    pub(super) fn room(&self) -> usize {
        self.scratch.iter().map(|block| block.memory.len()).sum()
    }

    fn desc(&self, ty: TypeId) -> &Arc<TypeDesc> {
        &self.types[ty.0 as usize]
    }

    fn address(&mut self, data: &Data) -> *mut u8 {
        let base = match data.base {
            Base::Send => self.send,
            Base::Recv => self.recv,
            Base::Scratch(i) => {
                let block = &mut self.scratch[usize::from(i)];
                block.memory.as_mut_ptr().cast::<u8>().wrapping_offset(block.origin)
            }
            Base::Slot { rank, short, slot } => match &self.node {
                Some((node, place)) => node.data(place.lane, rank.into(), place.slot(slot), short),
                None => panic!("steps of an operation without shared memory name slots"),
            },
        };
        base.wrapping_offset(data.at as isize)
    }

    /// Returns the data as a segment.
    pub fn segment(&mut self, data: &Data) -> Segment {
        let at = self.address(data);
        // SAFETY: by `Memory::new`. The span of a type's elements was checked when the call's
        // arguments were, and that of a room when it was made.
        unsafe {
            if data.elem.plain {
                Segment::contig(at, data.bytes())
            } else {
                Segment::typed(at, &self.desc(data.elem.ty).layout, data.count)
            }
        }
    }

    /// Copies data of one signature, whatever the types.
    pub fn copy(&mut self, from: &Data, into: &Data) {
        let (src, dst) = (self.address(from), self.address(into));
        let bytes = from.bytes().min(into.bytes());
        match (from.elem.plain, into.elem.plain) {
            // SAFETY: both are so many bytes, by `Memory::new`.
            (true, true) => unsafe { copy_run(src, dst, bytes) },
            (true, false) => {
                // SAFETY: so many readable bytes, which the steps of a schedule do not let overlap
                // those that are written.
                let packed = unsafe { slice::from_raw_parts(src, bytes) };
                self.segment(into).unpack(RxBytes::from_slice(packed));
            }
            (false, true) => {
                // SAFETY: as above, writable.
                let room = unsafe { slice::from_raw_parts_mut(dst, bytes) };
                self.segment(from).pack(room);
            }
            (false, false) => {
                let mut packed = Vec::with_capacity(bytes);
                self.segment(from).pack_vec(bytes, &mut packed);
                self.segment(into).unpack(RxBytes::from_slice(&packed));
            }
        }
    }

    /// Packs elements, from a byte on, into a run of bytes.
    pub(super) fn pack(&mut self, from: &Data, at: usize, into: &Data) {
        let (mut elements, room) = (self.segment(from), self.address(into));
        elements.seek(at);
        // SAFETY: so many writable bytes, by `Memory::new`.
        elements.pack(unsafe { slice::from_raw_parts_mut(room, into.bytes()) });
    }

    /// Unpacks a run of bytes into elements, from a byte on.
    pub(super) fn unpack(&mut self, from: &Data, into: &Data, at: usize) {
        let (mut elements, packed) = (self.segment(into), self.address(from));
        elements.seek(at);
        // SAFETY: so many readable bytes, by `Memory::new`.
        elements.unpack(RxBytes::from_slice(unsafe { slice::from_raw_parts(packed, from.bytes()) }));
    }

    /// Puts a block into an entry of this process's slot, or the length alone of a longer one.
    pub(super) fn give(&mut self, slot: u32, entry: Entry, from: &Data) {
        let bytes = from.bytes();
        let (short, range) = entry.place(bytes);
        let Some((node, place)) = &self.node else { return };
        let me = node.me();
        node.set_entry(place.lane, place.slot(slot), (short, range.start), bytes);
        if entry.holds(bytes) {
            self.copy(from, &beside(me, slot, (short, range), bytes));
        }
    }

    /// Takes a block out of an entry of a posted slot, if it is there, after a look at its length.
    ///
    /// # Errors
    /// The process has given a block of another length, or none.
    pub(super) fn take(&mut self, rank: usize, slot: u32, entry: Entry, into: &Data) -> Result<()> {
        let wanted = into.bytes();
        let (short, range) = entry.place(wanted);
        let Some((node, place)) = &self.node else { return Ok(()) };
        match node.entry(place.lane, rank, place.slot(slot), (short, range.start)) {
            Some(bytes) if bytes == wanted => {}
            Some(bytes) => return Err(other_length(bytes, wanted)),
            None => return Err(no_block(rank, wanted)),
        }
        if entry.holds(wanted) {
            self.copy(&beside(rank, slot, (short, range), wanted), into);
        }
        Ok(())
    }

    /// Does a predefined operation.
    pub fn reduce(&mut self, kernel: Kernel, from: &Data, into: &Data) {
        let (input, inout, len) = (self.address(from), self.address(into), self.span(into));
        // SAFETY: both are so many elements of a predefined type, by `Memory::new`, and the
        // operands of a step do not overlap.
        let (input, inout) =
            unsafe { (slice::from_raw_parts(input, len), slice::from_raw_parts_mut(inout, len)) };
        kernel.combine(input, inout);
    }

    /// Does a predefined operation whose result is elsewhere.
    pub fn reduce_apart(&mut self, kernel: Kernel, left: &Data, right: &Data, into: &Data) {
        let (left, right, len) = (self.address(left), self.address(right), self.span(into));
        let result = self.address(into);
        // SAFETY: as for `reduce`; the result overlaps neither operand.
        let (left, right, result) = unsafe {
            let operands = (slice::from_raw_parts(left, len), slice::from_raw_parts(right, len));
            (operands.0, operands.1, slice::from_raw_parts_mut(result, len))
        };
        kernel.combine_into(left, right, result);
    }

    /// Returns the bytes from the first to the last of elements of a predefined type.
    fn span(&self, data: &Data) -> usize {
        let desc = self.desc(data.elem.ty);
        let gap = (desc.extent() - desc.true_extent()).max(0) as usize;
        (data.count * desc.extent() as usize).saturating_sub(gap)
    }

    /// Returns the call of a user's operation.
    pub fn work(&mut self, function: Arc<dyn UserOp>, datatype: Datatype, from: &Data, into: &Data) -> Work {
        let (input, inout) = (self.address(from).cast_const(), self.address(into));
        Work { function, input, inout, count: into.count, datatype }
    }

    /// Gives the memory up that others may still write to.
    pub fn leak(&mut self) {
        core::mem::forget(core::mem::take(&mut self.scratch));
    }
}

/// Copies a run of bytes, a long one in pieces: a short copy writes lines without a look at what
/// they are, a long one does not.
///
/// # Safety
/// `bytes` must be readable at `src` and writable at `dst`.
unsafe fn copy_run(src: *const u8, dst: *mut u8, bytes: usize) {
    let apart = src.addr().abs_diff(dst.addr()) >= bytes;
    let piece = if apart { PIECE } else { bytes.max(1) };
    for at in (0..bytes).step_by(piece) {
        let len = piece.min(bytes - at);
        // SAFETY: as demanded; pieces of what overlaps are not copied.
        unsafe { copy_within(src.add(at), dst.add(at), len) };
    }
}

/// The block beside an entry, as bytes of a slot.
fn beside(rank: usize, slot: u32, (short, range): (bool, Range<usize>), bytes: usize) -> Data {
    let base = Base::Slot { rank: rank as u16, short, slot };
    Data { at: (range.start + HEAD) as i64, ..Data::new(base, bytes, Elem::BYTE) }
}

#[cold]
pub(super) fn other_length(got: usize, wanted: usize) -> Box<MpiError> {
    if got == 1 {
        // A process that has lost another one sends it in place of data.
        let text = format!(
            "the operation has failed at a process that has lost another one, or that has sent 1 byte where {wanted} \
             are expected"
        );
        return MpiError::new(Class::PROC_FAILED, text);
    }
    let text = format!(
        "a process has sent {got} bytes where {wanted} are expected: it has given another count or datatype, or the \
         operation has failed there"
    );
    MpiError::new(Class::TRUNCATE, text)
}

#[cold]
fn no_block(rank: usize, wanted: usize) -> Box<MpiError> {
    let text = format!(
        "rank {rank} has given no block of {wanted} bytes, which this process expects of it: counts and datatypes must \
         agree"
    );
    MpiError::new(Class::TRUNCATE, text)
}

/// Makes the rooms of a schedule, of those of another one if there are some.
fn make_rooms(scratch: &mut Vec<Block>, rooms: &[Room], types: &[Arc<TypeDesc>]) -> Result<()> {
    scratch.truncate(rooms.len());
    for (i, room) in rooms.iter().enumerate() {
        match scratch.get_mut(i) {
            Some(block) => make_room(block, room, types)?,
            None => {
                let mut block = Block { memory: Vec::new(), origin: 0 };
                make_room(&mut block, room, types)?;
                scratch.push(block);
            }
        }
    }
    Ok(())
}

fn make_room(block: &mut Block, room: &Room, types: &[Arc<TypeDesc>]) -> Result<()> {
    let layout = &types[room.ty.0 as usize].layout;
    let span = layout.span(room.count).map_err(|e| MpiError::new(Class::COUNT, e.to_string()))?;
    let len = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
    // The first element has the alignment that it would have at an aligned address.
    let skip = (span.start.rem_euclid(16)) as usize;
    let words = len.saturating_add(skip).div_ceil(16);
    if words > isize::MAX as usize / 16 {
        let text = format!("a collective operation needs {len} bytes of memory, more than there can be");
        return Err(MpiError::new(Class::NO_MEM, text));
    }
    if block.memory.len() < words {
        // Pages of zeros, which cost nothing until they are used.
        block.memory = vec![0; words];
    }
    block.origin = skip as isize - span.start as isize;
    Ok(())
}
