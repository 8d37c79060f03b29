//! Buffers of calls: an address, a number of elements and their type.

#![allow(unsafe_code)]

use core::ptr;
use core::slice;
use std::sync::Arc;

use netmod_core::buf::IoVec;
use netmod_core::{Datatype as Layout, RxBytes, Segment};

use super::basic::plain_size;
use super::{TypeDesc, Types};
use crate::accelerator;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;

/// The buffer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buf {
    at: *mut u8,
    count: i64,
    datatype: Datatype,
}

// SAFETY: a buffer is an address and numbers, and the contract of `Buf::new` does not depend on
// threads.
unsafe impl Send for Buf {}

// SAFETY: as above.
unsafe impl Sync for Buf {}

impl Buf {
    /// The marker of data that is in the other buffer already (`MPI_IN_PLACE`).
    pub const IN_PLACE: Buf =
        Buf { at: ptr::without_provenance_mut(usize::MAX), count: 0, datatype: Datatype::NULL };

    /// Creates the buffer of `count` elements at an address.
    ///
    /// Neither is looked at before the buffer is used.
    ///
    /// # Safety
    /// The bytes that the elements describe must be memory under the contract of
    /// [`netmod_core::buf`] until the operation that gets the buffer is over; for one that has as
    /// many elements for each process, the bytes of all of them.
    #[inline]
    pub const unsafe fn new(at: *mut u8, count: i64, datatype: Datatype) -> Buf {
        Buf { at, count, datatype }
    }

    /// Returns true if this is [`Buf::IN_PLACE`].
    #[inline]
    pub fn is_in_place(&self) -> bool {
        self.at.addr() == usize::MAX
    }

    /// Returns another number of elements of a type at the same address.
    ///
    /// The maker of the buffer has lent all that its call describes: as many elements as there are
    /// processes, or as counts of the call say.
    pub(crate) fn elements(&self, count: i64, datatype: Datatype) -> Buf {
        Buf { at: self.at, count, datatype }
    }

    /// Returns the buffer so many bytes further.
    pub(super) fn moved(&self, bytes: i64) -> Buf {
        Buf { at: self.at.wrapping_offset(bytes as isize), ..*self }
    }

    /// Returns another number of elements, as [`Buf::elements`].
    pub(crate) fn with_count(&self, count: i64) -> Buf {
        self.elements(count, self.datatype)
    }

    /// Returns the data, if the elements are of a predefined type without gaps, and nothing is to
    /// be said against the buffer; [`Types::typed_segment`] serves all buffers.
    #[inline]
    pub(crate) fn plain(&self) -> Option<Segment> {
        let size = plain_size(self.datatype)?;
        let count = u32::try_from(self.count).ok()? as usize;
        // SAFETY: the memory is lent by `Buf::new`, and elements of this type are so long.
        self.address().map(|at| unsafe { Segment::contig(at, count * size) })
    }

    /// Returns the address.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.at
    }

    /// Returns the address, if nothing is to be said against it as that of a buffer with elements.
    #[inline]
    pub(crate) fn address(&self) -> Option<*mut u8> {
        let is_address = !self.at.is_null() && !self.is_in_place() && accelerator::is_accessible(self.at);
        is_address.then_some(self.at)
    }

    /// Returns the number of elements.
    #[inline]
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Returns the type of the elements.
    #[inline]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }
}

/// A buffer that was checked, with its type, for requests that are started again and again.
#[derive(Clone, Debug)]
pub struct Bound {
    at: *mut u8,
    count: usize,
    desc: Arc<TypeDesc>,
}

// SAFETY: as for `Buf`; the type is immutable.
unsafe impl Send for Bound {}

// SAFETY: as above.
unsafe impl Sync for Bound {}

impl Bound {
    /// Returns the type of the elements.
    #[inline]
    pub fn desc(&self) -> &Arc<TypeDesc> {
        &self.desc
    }

    /// Returns the number of elements.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count as u64
    }

    /// Returns the address, and the number of elements.
    #[inline]
    pub(crate) fn raw(&self) -> (*mut u8, i64) {
        (self.at, self.count as i64)
    }

    /// Returns the data of some elements, as far as they are there.
    pub(crate) fn slice(&self, first: usize, count: usize) -> Segment {
        let first = first.min(self.count);
        let at = self.at.wrapping_offset(first as isize * self.desc.extent() as isize);
        self.elements_at(at, count.min(self.count - first))
    }

    /// Returns a part of the data: `len` bytes from byte `from` on, as far as they are there.
    pub(crate) fn bytes(&self, from: u64, len: u64) -> Segment {
        let size = self.desc.size() as u64;
        if size > 0 && from.is_multiple_of(size) && len.is_multiple_of(size) {
            return self.slice((from / size) as usize, (len / size) as usize);
        }
        let mut rest = self.segment();
        rest.truncate(from.saturating_add(len) as usize);
        rest.seek(from as usize);
        let (mut all, mut some) = (Vec::new(), [IoVec::EMPTY; 64]);
        while !rest.is_done() {
            let (n, bytes) = rest.next_iovecs(usize::MAX, &mut some);
            all.extend_from_slice(&some[..n]);
            rest.advance(bytes);
        }
        // SAFETY: the pieces are the program's memory, lent by `Buf::new`; those of one element do
        // not overlap in a receive, by MPI's rules.
        unsafe { Segment::iovecs(all) }
    }

    /// Returns the data.
    #[inline]
    pub fn segment(&self) -> Segment {
        self.elements_at(self.at, self.count)
    }

    /// Returns the data of elements of the buffer, from the address of one of them on.
    #[inline]
    fn elements_at(&self, at: *mut u8, count: usize) -> Segment {
        // SAFETY: the memory is lent by `Buf::new`, and so many elements exist: only `Types::bound`
        // creates it, which has checked that, and callers name elements that are in it.
        unsafe {
            if self.desc.is_plain() {
                Segment::contig(at, count * self.desc.size())
            } else {
                Segment::typed(at, &self.desc.layout, count)
            }
        }
    }
}

impl Types {
    /// Returns a buffer with its type.
    ///
    /// # Errors
    /// As [`Types::checked`].
    #[inline]
    pub fn bound(&self, buf: &Buf) -> Result<Bound> {
        let desc = Arc::clone(self.checked(buf)?);
        Ok(Bound { at: buf.at, count: buf.count as usize, desc })
    }

    /// Returns the type of a buffer whose elements may be moved.
    ///
    /// # Errors
    /// As [`Types::committed`]; [`Class::BUFFER`] if the address is null though there is data, if
    /// it is `MPI_IN_PLACE`, or if the first byte is an accelerator's.
    #[inline]
    pub fn checked(&self, buf: &Buf) -> Result<&Arc<TypeDesc>> {
        if buf.is_in_place() {
            return Err(in_place());
        }
        let desc = self.committed(buf.datatype, buf.count)?;
        if buf.at.is_null() && buf.count > 0 && desc.size() > 0 && desc.is_plain() {
            return Err(no_address(buf));
        }
        if buf.count > 0 && desc.size() > 0 {
            accelerator::check(buf.at.wrapping_offset(desc.true_lb() as isize))?;
        }
        Ok(desc)
    }

    /// Returns the data of a buffer.
    ///
    /// # Errors
    /// As [`Types::checked`].
    #[inline]
    pub fn segment(&self, buf: &Buf) -> Result<Segment> {
        match buf.plain() {
            Some(data) => Ok(data),
            None => self.typed_segment(buf).map(|(data, _)| data),
        }
    }

    /// Returns the data of a buffer, and its type.
    ///
    /// # Errors
    /// As [`Types::checked`].
    pub fn typed_segment(&self, buf: &Buf) -> Result<(Segment, &Arc<TypeDesc>)> {
        let desc = self.checked(buf)?;
        // Not negative, by the check.
        let count = buf.count as usize;
        // SAFETY: the memory is lent by `Buf::new`, and so many elements exist, by the check.
        let data = unsafe {
            if desc.is_plain() {
                Segment::contig(buf.at, count * desc.size())
            } else {
                Segment::typed(buf.at, &desc.layout, count)
            }
        };
        Ok((data, desc))
    }

    /// Returns the layout and the number of a buffer's elements, which exist.
    #[inline]
    fn elements(&self, buf: &Buf) -> Result<(&Layout, usize)> {
        Ok((&self.checked(buf)?.layout, buf.count as usize))
    }

    /// Packs a buffer behind the first `position` of `size` bytes at `out`, and returns the
    /// position behind it (`MPI_Pack`).
    ///
    /// # Errors
    /// As [`Types::checked`]; [`Class::TRUNCATE`] if there is too little room, [`Class::ARG`] for a
    /// position that is not in it.
    ///
    /// # Safety
    /// `size` bytes at `out` must be writable and no part of the buffer.
    pub unsafe fn pack(&self, buf: &Buf, out: *mut u8, size: i64, position: i64) -> Result<i64> {
        let (layout, count) = self.elements(buf)?;
        let n = layout.size() * count;
        let at = room("the pack buffer", n, size, position)?;
        if n > 0 {
            // SAFETY: by the contracts of this function and of `Buf::new`, and the checks.
            unsafe {
                layout.pack(buf.at, count, slice::from_raw_parts_mut(out.wrapping_add(at), n));
            }
        }
        Ok((at + n) as i64)
    }

    /// Unpacks a buffer from what is behind the first `position` of `size` bytes at `input`, and
    /// returns the position behind it (`MPI_Unpack`).
    ///
    /// # Errors
    /// As [`Types::pack`].
    ///
    /// # Safety
    /// `size` bytes at `input` must be readable and no part of the buffer.
    pub unsafe fn unpack(&self, input: *const u8, size: i64, position: i64, buf: &Buf) -> Result<i64> {
        let (layout, count) = self.elements(buf)?;
        let n = layout.size() * count;
        let at = room("the packed data", n, size, position)?;
        if n > 0 {
            // SAFETY: by the contracts of this function and of `Buf::new`, and the checks.
            unsafe {
                layout.unpack(buf.at, count, slice::from_raw_parts(input.wrapping_add(at), n));
            }
        }
        Ok((at + n) as i64)
    }

    /// Returns the bytes that `count` elements need when they are packed (`MPI_Pack_size`).
    ///
    /// # Errors
    /// As [`Types::committed`].
    pub fn pack_size(&self, count: i64, datatype: Datatype) -> Result<i64> {
        Ok(self.committed(datatype, count)?.size() as i64 * count)
    }
}

impl Types {
    /// Packs a buffer in the external representation, as [`Types::pack`] (`MPI_Pack_external`).
    ///
    /// # Errors
    /// As [`Types::pack`]; [`Class::CONVERSION`] for a value that has no room.
    ///
    /// # Safety
    /// As for [`Types::pack`].
    pub unsafe fn pack_external(&self, buf: &Buf, out: *mut u8, size: i64, position: i64) -> Result<i64> {
        let mut data = self.segment(buf)?;
        let mut native = Vec::with_capacity(data.total());
        data.pack_vec(data.total(), &mut native);
        let external = self.checked(buf)?.signature.emit(buf.count as u64, &native)?;
        let at = room("the pack buffer", external.len(), size, position)?;
        if !external.is_empty() {
            // SAFETY: by the contract of this function, and the check.
            unsafe { ptr::copy_nonoverlapping(external.as_ptr(), out.wrapping_add(at), external.len()) };
        }
        Ok((at + external.len()) as i64)
    }

    /// Unpacks a buffer from the external representation, as [`Types::unpack`]
    /// (`MPI_Unpack_external`).
    ///
    /// # Errors
    /// As [`Types::unpack`].
    ///
    /// # Safety
    /// As for [`Types::unpack`].
    pub unsafe fn unpack_external(
        &self,
        input: *const u8,
        size: i64,
        position: i64,
        buf: &Buf,
    ) -> Result<i64> {
        let mut data = self.segment(buf)?;
        let n = self.pack_external_size(buf.count, buf.datatype)? as usize;
        let at = room("the packed data", n, size, position)?;
        if n > 0 {
            // SAFETY: by the contract of this function, and the check.
            let external = unsafe { slice::from_raw_parts(input.wrapping_add(at), n) };
            let native = self.checked(buf)?.signature.parse(buf.count as u64, external);
            data.unpack(RxBytes::from_slice(&native));
        }
        Ok((at + n) as i64)
    }

    /// Returns the bytes that `count` elements need in the external representation
    /// (`MPI_Pack_external_size`).
    ///
    /// # Errors
    /// As [`Types::committed`].
    pub fn pack_external_size(&self, count: i64, datatype: Datatype) -> Result<i64> {
        let desc = self.committed(datatype, count)?;
        let size = desc.signature.external_size(count as u64);
        size.map(|n| n as i64).ok_or_else(|| {
            let text = format!("{count} elements have more bytes in external32 than an address space has");
            MpiError::new(Class::COUNT, text)
        })
    }
}

/// Returns the place of `n` bytes in a packed buffer.
fn room(what: &str, n: usize, size: i64, position: i64) -> Result<usize> {
    if position < 0 || size < 0 || position > size {
        let text = format!("position {position} is not within the {size} bytes of {what}");
        return Err(MpiError::new(Class::ARG, text));
    }
    if n as u64 > (size - position) as u64 {
        let text = format!("{what} has {size} bytes, of which {position} are used: {n} more do not fit");
        return Err(MpiError::new(Class::TRUNCATE, text));
    }
    Ok(position as usize)
}

#[cold]
fn in_place() -> Box<MpiError> {
    MpiError::new(Class::BUFFER, "MPI_IN_PLACE is not allowed for this buffer; give its address")
}

#[cold]
fn no_address(buf: &Buf) -> Box<MpiError> {
    let text = format!("the buffer of {} elements is a null pointer; give its address", buf.count);
    MpiError::new(Class::BUFFER, text)
}

/// Runs that are asked for at once.
const RUNS: usize = 256;

impl TypeDesc {
    /// Returns the runs of data of one element in packed order, neighbours joined: displacements
    /// and bytes.
    pub(crate) fn runs(&self) -> Vec<(i64, u64)> {
        let mut all = Vec::new();
        self.each_run(|at, len| {
            all.push((at, len));
            true
        });
        all
    }

    /// Tells of such a run after the other, until that returns false.
    pub(crate) fn each_run(&self, mut tell: impl FnMut(i64, u64) -> bool) {
        // SAFETY: the segment's memory is never accessed: its addresses, which count from 0, are
        // the displacements.
        let mut data = unsafe { Segment::typed(ptr::without_provenance_mut(0), &self.layout, 1) };
        let mut last: Option<(i64, u64)> = None;
        let mut some = [IoVec::EMPTY; RUNS];
        while !data.is_done() {
            let (n, bytes) = data.next_iovecs(usize::MAX, &mut some);
            for iov in &some[..n] {
                let (at, len) = (iov.base.addr() as i64, iov.len as u64);
                last = match last {
                    Some((first, before)) if first + before as i64 == at => Some((first, before + len)),
                    Some((first, before)) if !tell(first, before) => return,
                    _ => Some((at, len)),
                };
            }
            data.advance(bytes);
        }
        if let Some((at, len)) = last {
            tell(at, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Form;

    const INT: Datatype = Datatype(0x4c00_0405);

    #[test]
    fn no_elements_have_any_type() {
        let types = Types::new();
        assert!(types.committed(Datatype::NULL, 0).is_ok());
        assert_eq!(types.committed(Datatype::NULL, 1).unwrap_err().class, Class::TYPE);
        assert_eq!(types.committed(Datatype(0x4c00_0000), 0).unwrap_err().class, Class::TYPE);
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut types = Types::new();
        let every_other = TypeDesc::vector(3, 1, 2, &types.desc(INT).unwrap(), Form::Int).unwrap();
        let t = types.add(every_other).unwrap();
        types.commit(t).unwrap();
        let mut from: Vec<i32> = (0..6).collect();
        let mut into = vec![-1; 6];
        let mut packed = [0u8; 20];
        assert_eq!(types.pack_size(5, t), Ok(60));
        // SAFETY: the vectors have six integers each, and live until the end of the test.
        let (from, target) =
            unsafe { (Buf::new(from.as_mut_ptr().cast(), 1, t), Buf::new(into.as_mut_ptr().cast(), 1, t)) };
        // SAFETY: the array has 20 bytes.
        unsafe {
            assert_eq!(types.pack(&from, packed.as_mut_ptr(), 20, 8), Ok(20));
            assert_eq!(types.pack(&from, packed.as_mut_ptr(), 20, 9).unwrap_err().class, Class::TRUNCATE);
            assert_eq!(types.pack(&from, packed.as_mut_ptr(), 20, 21).unwrap_err().class, Class::ARG);
            assert_eq!(types.unpack(packed.as_ptr(), 20, 8, &target), Ok(20));
            assert_eq!(types.unpack(packed.as_ptr(), 19, 8, &target).unwrap_err().class, Class::TRUNCATE);
        }
        assert_eq!(into, [0, -1, 2, -1, 4, -1]);
        let bound = types.bound(&from).unwrap();
        types.remove(t).unwrap();
        let mut again = [0u8; 12];
        assert_eq!(bound.segment().pack(&mut again), 12, "a freed type lives on");
        assert_eq!(again, packed[8..]);
    }

    #[test]
    fn buffers_are_checked() {
        let types = Types::new();
        // SAFETY: these are never used.
        let buf = |at: usize, count| unsafe { Buf::new(ptr::without_provenance_mut(at), count, INT) };
        let class = |b: Buf| types.segment(&b).map(|s| s.total()).map_err(|e| e.class);
        assert_eq!(class(buf(0, 0)), Ok(0));
        assert_eq!(class(buf(0, 1)), Err(Class::BUFFER));
        assert_eq!(class(buf(4096, -1)), Err(Class::COUNT));
        assert_eq!(class(buf(4096, i64::MAX)), Err(Class::COUNT));
        assert_eq!(class(Buf::IN_PLACE), Err(Class::BUFFER));
        assert!(Buf::IN_PLACE.is_in_place() && !buf(0, 0).is_in_place());
    }
}
