//! Messages of all lengths from a byte on, contiguous or in pieces on either side, byte by byte.

use std::sync::Arc;

use ch3_shim::{Device, Mode};
use netmod_core::{Datatype, RxBytes, Segment};

use super::basic::context;
use super::{Args, End, Result, pattern};
use crate::sys::Area;

/// Bytes after which the content comes again: a prime number, so that no displacement by a round
/// number goes unnoticed.
const PERIOD: usize = 1_048_573;
/// In pieces: so many bytes, and a gap.
const BLOCK: usize = 4000;
const STRIDE: usize = 4096;
/// Byte in the gaps.
const GAP: u8 = 0xE5;

/// Memory for messages of one layout.
struct Memory {
    area: Area,
    /// True if the message is in pieces.
    blocks: Option<Arc<Datatype>>,
}

impl Memory {
    fn new(len: usize, in_pieces: bool) -> Result<Memory> {
        let blocks = in_pieces.then(|| -> Result<_> {
            let byte = Datatype::contiguous(1)?;
            Ok(Datatype::vector(len.div_ceil(BLOCK), BLOCK, STRIDE as i64, &byte)?)
        });
        let room = if in_pieces { len.div_ceil(BLOCK) * STRIDE } else { len };
        Ok(Memory { area: Area::new(vec![GAP; room.max(1)]), blocks: blocks.transpose()? })
    }

    fn segment(&self, len: usize) -> Segment {
        let mut seg = match &self.blocks {
            Some(ty) => self.area.typed(0, ty, 1),
            None => self.area.contig(),
        };
        seg.truncate(len);
        seg
    }
}

/// The content of messages, from any place on.
struct Tile(Vec<u8>);

impl Tile {
    fn new() -> Tile {
        Tile(pattern::bytes(3, PERIOD))
    }

    /// Pieces of the content, with where they begin.
    fn pieces(&self, len: usize) -> impl Iterator<Item = (usize, &[u8])> {
        (0..len).step_by(PERIOD).map(move |at| (at, &self.0[..PERIOD.min(len - at)]))
    }

    fn put(&self, mut to: Segment) {
        for (_, piece) in self.pieces(to.total()) {
            to.unpack(RxBytes::from_slice(piece));
        }
    }

    fn check(&self, mut from: Segment) -> Result<()> {
        let mut here = vec![0; PERIOD];
        for (at, piece) in self.pieces(from.total()) {
            let n = from.pack(&mut here[..piece.len()]);
            if here[..n] != *piece {
                let wrong = here.iter().zip(piece).position(|(a, b)| a != b).unwrap_or(n);
                return Err(format!("byte {} of {} is wrong", at + wrong, from.total()).into());
            }
        }
        Ok(())
    }
}

/// Lengths up to the longest: each power of two and its neighbours up to a mebibyte, then each
/// fourth.
fn lengths(longest: usize) -> Vec<usize> {
    let small = (0..=20).flat_map(|i| [(1 << i) - 1, 1 << i, (1 << i) + 1]);
    let large = (11..).map(|i| 1 << (2 * i)).take_while(|len| *len < longest);
    let mut all: Vec<usize> = small.chain(large).filter(|len| (1..longest).contains(len)).collect();
    all.push(longest);
    all
}

/// Rank 0 sends, rank 1 receives.
pub(super) fn span(dev: &mut Device, args: &Args) -> Result<End> {
    let (longest, layouts, world) = (usize::try_from(args.get(0, 8 << 20))?, args.get(1, 0), dev.world());
    let me = dev.rank();
    let in_pieces = if me == 0 { layouts & 1 != 0 } else { layouts & 2 != 0 };
    if me < 2 {
        let (memory, tile) = (Memory::new(longest, in_pieces)?, Tile::new());
        if me == 0 {
            tile.put(memory.segment(longest));
        }
        for len in lengths(longest) {
            let what = || format!("{len} bytes");
            if me == 0 {
                let req = dev.isend_raw(memory.segment(len), 1, 3, world, Mode::Standard)?;
                context(dev.wait_raw(req), what)?;
                continue;
            }
            tile_over(memory.segment(len));
            let req = dev.irecv_raw(memory.segment(len), 0, 3, world)?;
            let status = context(dev.wait_raw(req), what)?;
            if status.len != len {
                return Err(format!("{} bytes and not {len}", status.len).into());
            }
            tile.check(memory.segment(len))?;
        }
        let stats = dev.stats();
        println!(
            "rank {me}: {} one-sided, {} through rings, {} in windows",
            stats.one_sided, stats.through_rings, stats.rekeys
        );
    }
    dev.barrier(world)?;
    Ok(End::Finalize)
}

/// Overwrites what came last.
fn tile_over(mut seg: Segment) {
    let zeros = vec![0; PERIOD];
    while !seg.is_done() {
        let n = seg.remaining().min(PERIOD);
        seg.unpack(RxBytes::from_slice(&zeros[..n]));
    }
}
