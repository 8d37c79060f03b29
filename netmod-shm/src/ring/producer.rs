//! The producer's end of a ring.

use super::{
    Broken, Geometry, Kind, RingMem, TOKEN_LINE, TokenLine, control_word, fill_word, level_word, room_for,
};

/// Reserved room for the content of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// In the cell of this number.
    Cell(u32),
    /// In the bulk area, from this byte on.
    Bulk(u32),
}

/// Bytes of the bulk area that small messages fill together.
const BATCH: u32 = 512;
/// Period in cells in which each cell of the ring is written at least once. Numbers wrap: a cell
/// that was not written in all that time would be taken for a new one.
const REFRESH: u32 = 1 << 20;

/// A piece of the bulk area that is being filled: the open piece.
#[derive(Clone, Copy, Debug)]
struct Batch {
    at: u32,
    len: u32,
}

/// The producer's end.
#[derive(Debug)]
pub(crate) struct Producer<M> {
    pub(crate) mem: M,
    geometry: Geometry,
    mask: u32,
    /// Cells written; modulo 2^32, like all counts of cells.
    head: u32,
    /// Cells given back, as far as is known.
    tail: u32,
    /// Offsets in the bulk area: of the next piece, and of the oldest one that is still in use.
    bulk_head: u32,
    bulk_tail: u32,
    /// Bytes of the bulk area between them, so that full and empty differ.
    bulk_used: u32,
    /// For each cell, where the bulk area's use ended when it was written, and how much was used up
    /// to it in all.
    ends: Box<[(u32, u32)]>,
    /// All bytes of the bulk area ever used, and of them those that were given back; modulo 2^32.
    bulk_total: u32,
    bulk_freed: u32,
    /// Small messages that go together, and the most bytes of them.
    batch: Option<Batch>,
    longest_batch: u32,
    /// Something was published since [`Producer::needs_bell`].
    fresh: bool,
}

impl<M> Producer<M> {
    /// The same end with other memory, which has the same content.
    pub(crate) fn with<N>(self, mem: N) -> Producer<N> {
        let Producer { mem: _, geometry, mask, head, tail, bulk_head, bulk_tail, bulk_used, .. } = self;
        let Producer { ends, bulk_total, bulk_freed, batch, longest_batch, fresh, .. } = self;
        Producer {
            mem,
            geometry,
            mask,
            head,
            tail,
            bulk_head,
            bulk_tail,
            bulk_used,
            ends,
            bulk_total,
            bulk_freed,
            batch,
            longest_batch,
            fresh,
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl<M: RingMem> Producer<M> {
    /// Creates the producer of a ring that nobody has written to.
    pub(crate) fn new(mem: M, geometry: Geometry) -> Producer<M> {
        Producer {
            mem,
            geometry,
            mask: geometry.cells - 1,
            head: 0,
            tail: 0,
            bulk_head: 0,
            bulk_tail: 0,
            bulk_used: 0,
            ends: vec![(0, 0); geometry.cells as usize].into_boxed_slice(),
            bulk_total: 0,
            bulk_freed: 0,
            batch: None,
            longest_batch: BATCH.min(geometry.piece),
            fresh: false,
        }
    }

    /// Longest piece that [`Producer::reserve_bulk`] takes.
    pub(crate) fn piece(&self) -> usize {
        self.geometry.piece as usize
    }

    /// Cells that were written and not yet given back, as far as is known.
    pub(crate) fn in_flight(&self) -> u32 {
        self.head.wrapping_sub(self.tail)
    }

    /// Cells written.
    #[inline]
    pub(crate) fn written(&self) -> u32 {
        self.head
    }

    #[inline]
    fn has_cell(&self) -> bool {
        self.in_flight() < self.geometry.cells
    }

    /// Looks how many cells were given back.
    #[cold]
    #[inline(never)]
    pub(crate) fn refresh(&mut self) -> Result<(), Broken> {
        let tail = self.mem.tail();
        if tail.wrapping_sub(self.tail) > self.in_flight() {
            return Err(Broken("the peer gives back more of a ring than it was sent"));
        }
        if tail != self.tail {
            let (at, total) = self.ends[(tail.wrapping_sub(1) & self.mask) as usize];
            self.bulk_used -= total.wrapping_sub(self.bulk_freed);
            self.bulk_freed = total;
            self.bulk_tail = at;
            self.tail = tail;
        }
        Ok(())
    }

    /// A cell for up to [`super::INLINE`] bytes, or for an event. `None` if the ring is full.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<Option<Reserved>, Broken> {
        self.publish();
        if !self.has_cell() {
            self.refresh()?;
            if !self.has_cell() {
                return Ok(None);
            }
        }
        Ok(Some(Reserved::Cell(self.head & self.mask)))
    }

    /// Room for `len` bytes, at most [`Producer::piece`], in the bulk area. `None` if the ring is
    /// full.
    #[inline]
    pub(crate) fn reserve_bulk(&mut self, len: usize) -> Result<Option<Reserved>, Broken> {
        debug_assert!(len <= self.piece());
        self.publish();
        let len = room_for(len);
        if !self.has_cell() || self.find(len).is_none() {
            self.refresh()?;
        }
        if !self.has_cell() {
            return Ok(None);
        }
        Ok(self.find(len).map(Reserved::Bulk))
    }

    /// Returns the offset of `len` free bytes in one piece.
    #[inline]
    fn find(&self, len: u32) -> Option<u32> {
        let (head, tail, size) = (self.bulk_head, self.bulk_tail, self.geometry.bulk);
        if self.bulk_used + len > self.geometry.window {
            return None;
        }
        if head >= tail && (self.bulk_used == 0 || head > tail) {
            // Free: from the head to the end, and from the start to the tail.
            if len <= size - head {
                return Some(head);
            }
            return (len <= tail).then_some(0);
        }
        (head < tail && len <= tail - head).then_some(head)
    }

    /// The cell that will say what is in a place that was reserved in the bulk area.
    #[inline]
    pub(crate) fn next_cell(&self) -> u32 {
        self.head & self.mask
    }

    /// Returns the probable offset of the next piece of `len` bytes, if that is known to be free.
    #[inline]
    pub(crate) fn next_bulk(&self, len: usize) -> Option<u32> {
        self.find(len as u32)
    }

    /// Publishes reserved room, of which `len` bytes were written.
    #[inline]
    pub(crate) fn commit(&mut self, place: Reserved, kind: Kind, len: usize) {
        let cell = self.next_cell();
        if let Reserved::Bulk(at) = place {
            self.mem.set_bulk_at(cell, at);
        }
        self.mem.set_control(cell, control_word(self.head.wrapping_add(1), kind, len));
        self.account(place, len);
    }

    /// Returns true if the next cell may go with the token line, and its cell in the ring stay as
    /// it was.
    #[inline]
    pub(crate) fn may_use_token(&self, token_line: &TokenLine) -> bool {
        token_line.is_here() && self.head % REFRESH < REFRESH - self.geometry.cells
    }

    /// Lets the consumer see the first `len` bytes of the payload buffer, which go with the next
    /// cell: before that is committed.
    #[inline]
    pub(crate) fn begin_fill(&mut self, len: usize) {
        self.mem.set_fill(fill_word(self.head.wrapping_add(1), len));
    }

    /// The same after the cell was committed.
    #[inline]
    pub(crate) fn go_on_filling(&mut self, len: usize) {
        self.mem.set_fill(fill_word(self.head, len));
    }

    /// Publishes a cell that goes with the token line; see [`Producer::commit`].
    #[inline]
    pub(crate) fn commit_to(&mut self, token_line: &mut TokenLine, place: Reserved, kind: Kind, len: usize) {
        debug_assert!(self.may_use_token(token_line) && matches!(place, Reserved::Cell(_)));
        let word = token_line.send(control_word(self.head.wrapping_add(1), kind, len));
        self.mem.set_control(TOKEN_LINE, word);
        self.account(place, len);
    }

    /// A cell was published.
    #[inline]
    fn account(&mut self, place: Reserved, len: usize) {
        let cell = self.next_cell();
        self.head = self.head.wrapping_add(1);
        self.fresh = true;
        if let Reserved::Bulk(at) = place {
            let long = room_for(len);
            // A piece that begins at the start also uses up the gap at the end.
            let gap = if at == self.bulk_head { 0 } else { self.geometry.bulk - self.bulk_head };
            self.bulk_used += gap + long;
            self.bulk_total = self.bulk_total.wrapping_add(gap + long);
            self.bulk_head = at + long;
        }
        self.ends[cell as usize] = (self.bulk_head, self.bulk_total);
    }

    /// Longest batch of small messages.
    #[inline]
    pub(crate) fn batch(&self) -> usize {
        self.longest_batch as usize
    }

    /// Room for `len` bytes, at most [`Producer::batch`], in the bulk area: behind what is in the
    /// present batch, or in a new one; and whether the batch then has no room for `next` more. When
    /// they are written, [`Producer::show`] or [`Producer::publish`] makes them known. `None` if
    /// the ring is full.
    #[inline]
    pub(crate) fn append(&mut self, len: usize, next: usize) -> Result<Option<(u32, bool)>, Broken> {
        debug_assert!(len <= self.batch());
        let most = self.longest_batch;
        if let Some(batch) = &mut self.batch
            && batch.len + len as u32 <= most
        {
            let at = batch.at + batch.len;
            batch.len += len as u32;
            return Ok(Some((at, batch.len + next as u32 > most)));
        }
        let Some(Reserved::Bulk(at)) = self.reserve_bulk(most as usize)? else { return Ok(None) };
        self.batch = Some(Batch { at, len: len as u32 });
        Ok(Some((at, (len + next) as u32 > most)))
    }

    /// Lets the consumer see what is written of the present batch, which goes on.
    #[inline]
    pub(crate) fn show(&mut self) {
        if let Some(Batch { at, len }) = self.batch {
            self.mem.set_level(level_word(self.head.wrapping_add(1), at, len));
        }
    }

    /// Publishes the present batch by a cell.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if let Some(Batch { at, len }) = self.batch.take() {
            self.commit(Reserved::Bulk(at), Kind::Bulk, len as usize);
            // The numbers of cells come round: a level that was left would be taken for a new one.
            self.mem.set_level(0);
        }
    }

    /// Returns true if the consumer seems not to look at this ring. Without a fence: it may have
    /// begun or stopped to.
    #[inline]
    pub(crate) fn seems_unwatched(&self) -> bool {
        !self.mem.watched()
    }

    /// Publishes the present batch. Returns true if the consumer does not look at this ring, and
    /// must be told.
    #[inline]
    pub(crate) fn needs_bell(&mut self) -> bool {
        self.publish();
        if !std::mem::take(&mut self.fresh) {
            return false;
        }
        self.mem.fence();
        !self.mem.watched()
    }

    /// Asks to be told when there is room. False if there is some by now, and nobody need be asked.
    ///
    /// What there is must have been published, and the consumer told.
    pub(crate) fn want_space(&mut self) -> Result<bool, Broken> {
        self.mem.set_wants_space(true);
        self.mem.fence();
        let before = self.tail;
        self.refresh()?;
        if self.tail == before {
            return Ok(true);
        }
        self.mem.set_wants_space(false);
        Ok(false)
    }
}
