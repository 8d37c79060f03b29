//! The consumer's end of a ring.

use super::{
    Broken, Geometry, INLINE, KINDS, Kind, LINE, RingMem, TOKEN_LINE, TokenLine, WHOLE_PAYLOAD, room_for,
};

/// A cell that was written, or the part of its content that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    /// Bytes of its content; of [`Kind::Headed`], of the part in the bulk area.
    pub(crate) len: u32,
    /// First byte in the bulk area, for those that have any there; that with the token line: in the
    /// payload buffer.
    pub(crate) at: u32,
    /// Bytes of the content that are not written yet.
    pub(crate) missing: u32,
    /// Its number.
    pub(crate) number: u32,
}

/// The consumer's end.
#[derive(Debug)]
pub(crate) struct Consumer<M> {
    pub(crate) mem: M,
    geometry: Geometry,
    mask: u32,
    /// Cells consumed.
    pos: u32,
    /// Cells given back.
    pub(super) given: u32,
    /// Bytes of the bulk area consumed and not given back.
    owed: u32,
    /// Bytes of the open piece that were consumed before its cell was published, and where it
    /// begins; or those of the payload buffer that were consumed before all was there.
    taken: u32,
    open_at: u32,
    /// Cells in a row that came with the token line, up to 2.
    carried: u8,
}

impl<M> Consumer<M> {
    /// The same end with other memory, which has the same content.
    pub(crate) fn with<N>(self, mem: N) -> Consumer<N> {
        let Consumer { mem: _, geometry, mask, pos, given, owed, taken, open_at, carried } = self;
        Consumer { mem, geometry, mask, pos, given, owed, taken, open_at, carried }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl<M: RingMem> Consumer<M> {
    /// Creates the consumer of a ring from which nothing has been taken.
    pub(crate) fn new(mem: M, geometry: Geometry) -> Consumer<M> {
        let mask = geometry.cells - 1;
        Consumer { mem, geometry, mask, pos: 0, given: 0, owed: 0, taken: 0, open_at: 0, carried: 0 }
    }

    /// Returns the next cell, if it was written, in the ring or with the token line. It stays the
    /// next until [`Consumer::advance`].
    #[inline(always)]
    pub(crate) fn peek(&self, token_line: &TokenLine) -> Result<Option<Cell>, Broken> {
        let cell = self.pos & self.mask;
        let word = self.mem.control(cell);
        if self.is_next(word) {
            return self.rest_of(cell, word);
        }
        if !token_line.is_here() {
            let word = self.mem.control(TOKEN_LINE);
            if self.is_next(word) && token_line.has_brought(word) {
                let cell = self.decode(TOKEN_LINE, word)?;
                let in_parts = cell.kind == Kind::Headed && cell.len as usize > WHOLE_PAYLOAD;
                return if in_parts || self.taken > 0 { self.filled(cell) } else { Ok(Some(cell)) };
            }
        }
        Ok(None)
    }

    /// Decodes the next cell, without the part that was taken while its piece was open.
    #[inline(always)]
    fn rest_of(&self, cell: u32, word: u64) -> Result<Option<Cell>, Broken> {
        let cell = self.decode(cell, word)?;
        if self.taken == 0 { Ok(Some(cell)) } else { self.without_taken(cell) }
    }

    #[cold]
    fn without_taken(&self, cell: Cell) -> Result<Option<Cell>, Broken> {
        let same = cell.kind == Kind::Bulk && cell.number != TOKEN_LINE && cell.at == self.open_at;
        if !same || cell.len < self.taken {
            return Err(Broken("a piece of a ring is not what was read of it while it was open"));
        }
        Ok(Some(Cell { at: cell.at + self.taken, len: cell.len - self.taken, ..cell }))
    }

    /// Returns the part of the payload buffer that is written and not taken yet.
    fn filled(&self, cell: Cell) -> Result<Option<Cell>, Broken> {
        let word = self.mem.fill();
        let len = word as u32;
        let goes_on = self.taken == 0 || self.open_at == IN_PAYLOAD;
        let fits = self.taken <= len && len <= cell.len;
        if cell.kind != Kind::Headed || !goes_on || !self.is_next(word) || !fits {
            return Err(Broken("the fill of a payload buffer is not that of its message"));
        }
        if len == self.taken {
            return Ok(None);
        }
        let kind = if self.taken == 0 { cell.kind } else { Kind::Bulk };
        Ok(Some(Cell { kind, len: len - self.taken, at: self.taken, missing: cell.len - len, ..cell }))
    }

    /// Returns the part of the open piece that is written and not taken yet. Call it only if
    /// [`Consumer::peek`] finds nothing.
    pub(crate) fn peek_open(&self) -> Result<Option<Cell>, Broken> {
        let word = self.mem.level();
        let (at, len) = ((word >> 16 & 0xffff) as u32 * LINE as u32, word as u32 & 0xffff);
        if !self.is_next(word) || len <= self.taken {
            return Ok(None);
        }
        let fits = len <= self.geometry.bulk && at <= self.geometry.bulk - len;
        if !fits || self.taken > 0 && at != self.open_at {
            return Err(OUTSIDE);
        }
        let number = self.pos & self.mask;
        Ok(Some(Cell { kind: Kind::Bulk, len: len - self.taken, at: at + self.taken, missing: 0, number }))
    }

    /// Consumes what [`Consumer::peek_open`] has found. The cell that will publish the piece stays
    /// the next one.
    pub(crate) fn take_open(&mut self, part: Cell) {
        self.open_at = part.at - self.taken;
        self.taken += part.len;
    }

    #[inline(always)]
    fn is_next(&self, word: u64) -> bool {
        (word >> 32) as u32 == self.pos.wrapping_add(1)
    }

    /// Decodes the control word of a cell.
    #[inline(always)]
    fn decode(&self, cell: u32, word: u64) -> Result<Cell, Broken> {
        let (kind, len) = (Kind::of(word as u8 & KINDS), (word >> 8) as u32 & 0xff_ffff);
        match kind {
            Some(Kind::Inline) if len as usize <= INLINE => {
                Ok(Cell { kind: Kind::Inline, len, at: 0, missing: 0, number: cell })
            }
            // The payload buffer has the payload of a token-line message that is too long for the
            // line.
            Some(kind @ (Kind::Bulk | Kind::Headed)) if cell == TOKEN_LINE => {
                let fits = kind == Kind::Headed && len <= self.mem.payload();
                if fits { Ok(Cell { kind, len, at: 0, missing: 0, number: cell }) } else { Err(OUTSIDE) }
            }
            Some(kind @ (Kind::Bulk | Kind::Headed)) => {
                let at = self.mem.bulk_at(cell);
                let fits = len <= self.geometry.bulk && at <= self.geometry.bulk - len;
                if fits { Ok(Cell { kind, len, at, missing: 0, number: cell }) } else { Err(OUTSIDE) }
            }
            Some(kind @ (Kind::Open | Kind::Fin | Kind::Reset | Kind::Elsewhere)) => {
                Ok(Cell { kind, len: 0, at: 0, missing: 0, number: cell })
            }
            Some(kind @ (Kind::Suspend | Kind::Suspended)) => {
                Ok(Cell { kind, len, at: 0, missing: 0, number: cell })
            }
            _ => Err(Broken("a cell of a ring is of no known kind, or too long")),
        }
    }

    /// Consumes the cell that was peeked at, or the part of it that was there. Its memory stays
    /// untouched until it is given back.
    #[inline]
    pub(crate) fn advance(&mut self, cell: Cell, token_line: &mut TokenLine) {
        if cell.missing > 0 {
            self.open_at = IN_PAYLOAD;
            self.taken += cell.len;
            return;
        }
        self.carried = if cell.number == TOKEN_LINE {
            self.taken = 0;
            token_line.take();
            2.min(self.carried + 1)
        } else {
            0
        };
        self.pos = self.pos.wrapping_add(1);
        if cell.number != TOKEN_LINE && matches!(cell.kind, Kind::Bulk | Kind::Headed) {
            self.owed += room_for((cell.len + std::mem::take(&mut self.taken)) as usize);
        }
    }

    /// Cells consumed.
    #[inline]
    pub(crate) fn consumed(&self) -> u32 {
        self.pos
    }

    /// Returns true if the last two cells came with the token line: ping-pong traffic.
    #[inline]
    pub(crate) fn is_alternating(&self) -> bool {
        self.carried > 1
    }

    /// Returns true if the producer may soon wait for cells that were consumed and not given back.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.pos.wrapping_sub(self.given) >= self.geometry.cells / 4 || self.owed >= self.geometry.window / 4
    }

    /// Gives back all that was consumed. Returns true if the producer waits for it and must be
    /// told.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_back(&mut self) -> bool {
        self.given = self.pos;
        self.owed = 0;
        self.mem.set_tail(self.pos);
        self.mem.fence();
        let wants = self.mem.wants_space();
        if wants {
            self.mem.set_wants_space(false);
        }
        wants
    }

    /// From now on this ring is looked at in each poll, and its producer need not ring.
    pub(crate) fn watch(&self) {
        self.mem.set_watched(true);
    }

    /// From now on the producer rings. True if something is there already, of which it may not
    /// tell. Nor may it tell of what is still in its processor's store buffer: a second look comes
    /// later.
    #[must_use]
    pub(crate) fn unwatch(&self, token_line: &TokenLine) -> bool {
        self.mem.set_watched(false);
        self.mem.fence();
        self.has_something(token_line)
    }

    /// Returns true if there is something to be taken.
    pub(crate) fn has_something(&self, token_line: &TokenLine) -> bool {
        // A malformed entry counts, too: reading it reports the error.
        self.peek(token_line) != Ok(None) || self.peek_open() != Ok(None)
    }
}

/// The value of `open_at` while the payload buffer is being read.
const IN_PAYLOAD: u32 = u32::MAX;
const OUTSIDE: Broken = Broken("a piece of a ring does not lie within it");
