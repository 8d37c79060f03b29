//! Memory that schedules lend to requests and one-sided transfers.

#![allow(unsafe_code)]

use std::rc::Rc;

use netmod_core::{Datatype, RmaBuf, Segment, SendBuf};

/// Value of bytes that must not be written.
const GAP: u8 = 0xA5;

#[derive(Debug)]
struct Block {
    base: *mut u8,
    len: usize,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: pointer and length are those of the box that `Area::new` took apart, and this is
        // its only owner.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.base, self.len)) });
    }
}

/// Memory accessed only by its address. The lender keeps a clone for as long as there are netmods
/// that know the address.
#[derive(Clone, Debug)]
pub struct Area(Rc<Block>);

impl Area {
    /// Makes memory with these bytes.
    pub fn new(bytes: Vec<u8>) -> Area {
        let len = bytes.len();
        let base = Box::into_raw(bytes.into_boxed_slice()).cast::<u8>();
        Area(Rc::new(Block { base, len }))
    }

    /// Copies all bytes. Nobody may write to them meanwhile.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.0.len];
        // SAFETY: `len` bytes that live as long as the block; netmods write to them on this thread
        // only, and not now.
        unsafe { std::ptr::copy_nonoverlapping(self.0.base, out.as_mut_ptr(), self.0.len) };
        out
    }

    /// Overwrites all bytes, as an owner may who has taken the memory back.
    pub fn fill(&self, byte: u8) {
        // SAFETY: as in `bytes`.
        unsafe { std::ptr::write_bytes(self.0.base, byte, self.0.len) };
    }

    /// Returns the whole memory, for one-sided transfers.
    pub fn rma_buf(&self) -> RmaBuf {
        // SAFETY: the lender keeps the block while there are netmods that know it, and accesses it
        // only between transfers.
        unsafe { RmaBuf::new(self.0.base, self.0.len) }
    }

    /// Returns the whole memory, for a send.
    pub fn send_buf(&self) -> SendBuf {
        // SAFETY: the lender keeps the block, and does not write to it before the send has ended.
        unsafe { SendBuf::new(self.0.base, self.0.len) }
    }
}

/// Memory with data in pieces, and gaps between them.
#[derive(Clone, Debug)]
pub struct Pieces {
    area: Area,
    /// Offsets and lengths of the pieces.
    at: Vec<(usize, usize)>,
}

impl Pieces {
    /// Allocates memory for `len` bytes in pieces of `piece` with gaps of `gap`; in one piece if
    /// `gap` is 0.
    pub fn new(len: usize, piece: usize, gap: usize) -> Pieces {
        let piece = if gap == 0 { len.max(1) } else { piece.max(1) };
        let mut at = Vec::new();
        let (mut offset, mut left) = (gap, len);
        while left > 0 {
            let n = piece.min(left);
            at.push((offset, n));
            offset += n + gap;
            left -= n;
        }
        Pieces { area: Area::new(vec![GAP; offset.max(1)]), at }
    }

    /// Allocates memory and stores data in its pieces.
    pub fn with(data: &[u8], piece: usize, gap: usize) -> Pieces {
        let mut this = Pieces::new(data.len(), piece, gap);
        let mut bytes = this.area.bytes();
        let mut from = 0;
        for (at, n) in &this.at {
            bytes[*at..at + n].copy_from_slice(&data[from..from + n]);
            from += n;
        }
        this.area = Area::new(bytes);
        this
    }

    /// Returns the pieces in order.
    pub fn segment(&self) -> Segment {
        let base = self.area.0.base;
        match self.at[..] {
            [] => Segment::empty(),
            // SAFETY: a piece of the block, which the lender keeps until the request has ended.
            [(at, n)] => unsafe { Segment::contig(base.wrapping_add(at), n) },
            _ => {
                let byte = Datatype::contiguous(1).expect("a byte");
                let blocks: Vec<_> = self.at.iter().map(|(at, n)| (*at as i64, *n)).collect();
                let ty = Datatype::indexed(&blocks, &byte).expect("pieces within a block");
                // SAFETY: all pieces are within the block, which the lender keeps until the request
                // has ended.
                unsafe { Segment::typed(base, &ty, 1) }
            }
        }
    }

    /// Returns the data. Nobody may write to it meanwhile.
    ///
    /// # Panics
    /// If a gap was written to.
    pub fn data(&self) -> Vec<u8> {
        let bytes = self.area.bytes();
        let mut out = Vec::new();
        let mut from = 0;
        for (at, n) in &self.at {
            assert!(bytes[from..*at].iter().all(|b| *b == GAP), "something was written between the pieces");
            out.extend_from_slice(&bytes[*at..at + n]);
            from = at + n;
        }
        assert!(bytes[from..].iter().all(|b| *b == GAP), "something was written behind the pieces");
        out
    }

    /// Returns the memory.
    pub fn area(&self) -> &Area {
        &self.area
    }
}
