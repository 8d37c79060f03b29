//! The ring as a data structure, in one thread: room, wrapping, and a peer that writes nonsense.

use std::cell::{Cell as Plain, RefCell};

use super::Reserved;
use super::*;

/// The shared part, in plain memory.
#[derive(Default)]
struct Mem {
    control: RefCell<Vec<u64>>,
    token_line: Plain<u64>,
    at: RefCell<Vec<u32>>,
    tail: Plain<u32>,
    level: Plain<u64>,
    fill: Plain<u64>,
    /// Bytes of the payload buffer, whatever the ring.
    payload: u32,
    watched: Plain<bool>,
    wants: Plain<bool>,
}

/// Bytes of the payload buffer, where a test does not say another number.
const HOLD: u32 = 256;

impl RingMem for &Mem {
    fn control(&self, cell: u32) -> u64 {
        if cell == TOKEN_LINE { self.token_line.get() } else { self.control.borrow()[cell as usize] }
    }
    fn set_control(&self, cell: u32, word: u64) {
        match cell {
            TOKEN_LINE => self.token_line.set(word),
            _ => self.control.borrow_mut()[cell as usize] = word,
        }
    }
    fn bulk_at(&self, cell: u32) -> u32 {
        self.at.borrow()[cell as usize]
    }
    fn set_bulk_at(&self, cell: u32, at: u32) {
        self.at.borrow_mut()[cell as usize] = at;
    }
    fn payload(&self) -> u32 {
        self.payload
    }
    fn fill(&self) -> u64 {
        self.fill.get()
    }
    fn set_fill(&self, word: u64) {
        self.fill.set(word);
    }
    fn tail(&self) -> u32 {
        self.tail.get()
    }
    fn set_tail(&self, tail: u32) {
        self.tail.set(tail);
    }
    fn level(&self) -> u64 {
        self.level.get()
    }
    fn set_level(&self, word: u64) {
        self.level.set(word);
    }
    fn watched(&self) -> bool {
        self.watched.get()
    }
    fn set_watched(&self, watched: bool) {
        self.watched.set(watched);
    }
    fn wants_space(&self) -> bool {
        self.wants.get()
    }
    fn set_wants_space(&self, wants: bool) {
        self.wants.set(wants);
    }
    fn fence(&self) {}
}

fn mem(g: Geometry) -> Mem {
    let cells = g.cells as usize;
    Mem { control: vec![0; cells].into(), at: vec![0; cells].into(), payload: HOLD, ..Mem::default() }
}

fn pair(mem: &Mem, g: Geometry) -> (Producer<&Mem>, Consumer<&Mem>) {
    (Producer::new(mem, g), Consumer::new(mem, g))
}

#[test]
fn the_parts_of_a_ring_fill_it() {
    for bytes in (MIN_RING..=MAX_RING).step_by(MIN_RING) {
        let g = Geometry::of(bytes);
        assert!(g.cells.is_power_of_two());
        assert_eq!(
            (g.bulk_start() + g.bulk as usize, g.payload_start() + g.payload as usize),
            (g.payload_start(), bytes)
        );
        assert_eq!((g.bulk as usize % LINE, g.payload as usize % LINE), (0, 0));
        let payload = (bytes.min(CACHED_RING) / 16 + bytes.saturating_sub(CACHED_RING)).min(MAX_PAYLOAD);
        assert_eq!(g.payload as usize, payload, "a ring of {bytes}");
        assert!(g.window <= g.bulk && g.piece as usize >= LINE && g.piece <= g.window / 8);
    }
}

/// Pieces of random lengths: no piece that is in use is given out again, and there is always room
/// for one when all that is due was given back.
#[test]
fn pieces_never_overlap_and_room_never_ends() {
    for bytes in [MIN_RING, 16 << 10, CACHED_RING, CACHED_RING + MIN_RING, 368 << 10, 372 << 10, MAX_RING] {
        let g = Geometry::of(bytes);
        let mem = mem(g);
        let (mut p, mut c) = pair(&mem, g);
        let mut seed = 1u64;
        let mut random = move |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % n
        };
        // In use, by the consumer's account: cell number, start, end.
        let mut used: std::collections::VecDeque<(u32, u32, u32)> = Default::default();
        let (mut written, mut given) = (0u32, 0u32);
        for _ in 0..20_000 {
            let len = 1 + random(p.piece());
            let place = if random(4) == 0 { p.reserve() } else { p.reserve_bulk(len) };
            match place.unwrap() {
                Some(place) => {
                    let (kind, len) = match place {
                        Reserved::Cell(_) => (Kind::Inline, 8),
                        Reserved::Bulk(_) => (Kind::Bulk, len),
                    };
                    if let Reserved::Bulk(at) = place {
                        let end = at + len as u32;
                        assert!(end <= g.bulk);
                        let all: u32 = used.iter().map(|(_, a, b)| b - a).sum();
                        assert!(all + len as u32 <= g.window, "{all} and {len} of {}", g.window);
                        assert!(used.iter().all(|(_, a, b)| end <= *a || *b <= at), "{at} {end} {used:?}");
                        used.push_back((written, at, end));
                    }
                    p.commit(place, kind, len);
                    written += 1;
                    // The place of the next piece belongs to nobody.
                    let next = random(p.piece()) as u32;
                    if let Some(at) = p.next_bulk(next as usize) {
                        assert!(
                            used.iter().all(|(_, a, b)| at + next <= *a || *b <= at),
                            "{at} {next} {used:?}"
                        );
                    }
                }
                None => {
                    // Everything is consumed, and what is not due is kept back.
                    while let Some(cell) = c.peek(&TokenLine::none()).unwrap() {
                        c.advance(cell, &mut TokenLine::none());
                        if c.is_due() {
                            c.give_back();
                            given = c.given;
                        }
                    }
                    used.retain(|(n, _, _)| *n >= given);
                    assert!(p.reserve_bulk(p.piece()).unwrap().is_some(), "no room although all is consumed");
                }
            }
        }
        assert!(written > 10_000);
    }
}

#[test]
fn a_batch_is_seen_when_it_is_published_or_something_follows_it() {
    let g = Geometry::of(16 << 10);
    let mem = mem(g);
    let (mut p, mut c) = pair(&mem, g);
    let most = p.batch();
    for what_follows in 0..4 {
        let (first, full) = p.append(32, 32).unwrap().expect("room");
        assert!(!full);
        for i in 1..most / 32 {
            let full = i + 1 == most / 32;
            assert_eq!(p.append(32, 32).unwrap(), Some((first + 32 * i as u32, full)));
        }
        assert_eq!(c.peek(&TokenLine::none()), Ok(None));
        let after = match what_follows {
            0 => {
                p.publish();
                None
            }
            1 => p.reserve().unwrap(),
            2 => p.reserve_bulk(100).unwrap(),
            // A new batch.
            _ => p.append(8, 8).unwrap().map(|_| Reserved::Bulk(0)),
        };
        let cell = c.peek(&TokenLine::none()).unwrap().expect("the batch");
        assert_eq!((cell.kind, cell.len, cell.at), (Kind::Bulk, most as u32, first));
        c.advance(cell, &mut TokenLine::none());
        assert_eq!(c.peek(&TokenLine::none()), Ok(None));
        match after {
            Some(_) if what_follows == 3 => p.publish(),
            Some(place) => p.commit(place, Kind::Fin, 100),
            None => continue,
        }
        let cell = c.peek(&TokenLine::none()).unwrap().expect("what follows");
        c.advance(cell, &mut TokenLine::none());
    }
}

/// Shown bytes of an open piece are read at once, each byte once, whatever follows.
#[test]
fn an_open_piece_is_read_while_it_is_filled() {
    let g = Geometry::of(16 << 10);
    let mem = mem(g);
    let (mut p, mut c) = pair(&mem, g);
    for round in 0..3 * g.cells {
        let (shown, taken) = (1 + round as usize % 4, round as usize % 3);
        let mut read = 0;
        let (first, _) = p.append(32, 32).unwrap().expect("room");
        assert_eq!(c.peek_open(), Ok(None), "not yet written");
        p.show();
        for i in 1..=shown {
            if i <= taken {
                let part = c.peek_open().unwrap().expect("what is shown");
                assert_eq!((part.kind, part.at), (Kind::Bulk, first + read));
                c.take_open(part);
                read += part.len;
                assert_eq!(read, 32 * i as u32);
            }
            p.append(32, 32).unwrap().expect("room");
            p.show();
        }
        assert_eq!(c.peek(&TokenLine::none()), Ok(None));
        p.publish();
        let cell = c.peek(&TokenLine::none()).unwrap().expect("the piece");
        assert_eq!((cell.at, cell.len), (first + read, 32 * (shown as u32 + 1) - read));
        c.advance(cell, &mut TokenLine::none());
        assert_eq!((c.peek_open(), c.peek(&TokenLine::none())), (Ok(None), Ok(None)));
        c.give_back();
        p.refresh().unwrap();
        assert_eq!(p.in_flight(), 0);
    }
}

/// A level that lies outside of the ring, or differs from the cell that follows it, is the peer's
/// fault; no level is read twice.
#[test]
fn nonsense_in_a_level_is_found() {
    let g = Geometry::of(MIN_RING);
    let lines = g.bulk / LINE as u32;
    for (at, len) in [(lines, 1), (lines - 1, 65), (0xffff, 0xffff), (0, g.bulk + 1)] {
        let mem = mem(g);
        let (_, c) = pair(&mem, g);
        mem.level.set(1 << 32 | u64::from(at) << 16 | u64::from(len));
        assert!(c.peek_open().is_err(), "{at} {len}");
    }
    // Read as 64 bytes at line 1; then the level moves, or a cell of another place, length or kind
    // follows.
    let moved = mem(g);
    let (_, mut c) = pair(&moved, g);
    moved.level.set(1 << 32 | 1 << 16 | 64);
    let part = c.peek_open().unwrap().expect("a part");
    c.take_open(part);
    assert_eq!(c.peek_open(), Ok(None));
    moved.level.set(1 << 32 | 2 << 16 | 128);
    assert!(c.peek_open().is_err());
    for (kind, at, len) in
        [(Kind::Bulk, 128, 64), (Kind::Bulk, 64, 63), (Kind::Headed, 64, 64), (Kind::Fin, 64, 64)]
    {
        let mem = mem(g);
        let (_, mut c) = pair(&mem, g);
        mem.level.set(1 << 32 | 1 << 16 | 64);
        let part = c.peek_open().unwrap().expect("a part");
        c.take_open(part);
        (&mem).set_bulk_at(0, at);
        (&mem).set_control(0, control_word(1, kind, len));
        assert!(c.peek(&TokenLine::none()).is_err(), "{kind:?} {at} {len}");
    }
}

/// Words of the round before are not taken for new ones, in any number of rounds.
#[test]
fn old_cells_are_not_seen_again() {
    let g = Geometry::of(MIN_RING);
    let mem = mem(g);
    let (mut p, mut c) = pair(&mem, g);
    for _ in 0..10 * g.cells {
        assert_eq!(c.peek(&TokenLine::none()), Ok(None));
        let place = p.reserve().unwrap().unwrap();
        p.commit(place, Kind::Open, 0);
        let cell = c.peek(&TokenLine::none()).unwrap().expect("a cell");
        c.advance(cell, &mut TokenLine::none());
        c.give_back();
    }
}

#[test]
fn the_bell_is_needed_once_and_only_if_nobody_watches() {
    let g = Geometry::of(MIN_RING);
    let mem = mem(g);
    let (mut p, c) = pair(&mem, g);
    assert!(!p.needs_bell(), "nothing was sent");
    let place = p.reserve().unwrap().unwrap();
    p.commit(place, Kind::Fin, 0);
    assert!(p.needs_bell());
    assert!(!p.needs_bell());
    c.watch();
    let place = p.reserve().unwrap().unwrap();
    p.commit(place, Kind::Fin, 0);
    assert!(!p.needs_bell());
    assert!(c.unwatch(&TokenLine::none()), "something is there");
}

#[test]
fn nonsense_of_a_peer_is_noticed() {
    let g = Geometry::of(MIN_RING);
    let mem = mem(g);
    let (mut p, c) = pair(&mem, g);
    let place = p.reserve_bulk(100).unwrap().unwrap();
    p.commit(place, Kind::Bulk, 100);
    for at in [g.bulk - 99, g.bulk, u32::MAX] {
        mem.at.borrow_mut()[0] = at;
        assert!(c.peek(&TokenLine::none()).is_err(), "a piece at {at}");
    }
    mem.at.borrow_mut()[0] = g.bulk - 100;
    assert!(c.peek(&TokenLine::none()).is_ok());
    for (kind, len) in [(0, 1), (10, 0), (255, 0), (1, INLINE as u64 + 1), (2, 0xff_ffff), (6, 0xff_ffff)] {
        mem.control.borrow_mut()[0] = 1 << 32 | len << 8 | kind;
        assert!(c.peek(&TokenLine::none()).is_err(), "kind {kind}, {len} bytes");
    }
    for tail in [2, 1 << 31, u32::MAX] {
        mem.tail.set(tail);
        assert!(p.refresh().is_err(), "a tail of {tail}");
    }
    mem.tail.set(1);
    assert_eq!(p.refresh(), Ok(()));
    mem.tail.set(0);
    assert!(p.refresh().is_err(), "a tail that goes back");
}

/// The token line changes sides, and cells stay in order by either route.
#[test]
fn the_token_line_goes_back_and_forth() {
    let g = Geometry::of(MIN_RING);
    let (up, down) = (mem(g), mem(g));
    let (mut to_higher, mut at_higher) = pair(&up, g);
    // The line is in the ring of the lower rank; here each ring has one, and what is written to it
    // is carried over.
    let (mut lower, mut higher) = (TokenLine::new(true), TokenLine::new(false));
    assert!(lower.is_here() && !higher.is_here());

    let place = to_higher.reserve().unwrap().unwrap();
    to_higher.commit_to(&mut lower, place, Kind::Inline, 20);
    let place = to_higher.reserve().unwrap().unwrap();
    to_higher.commit(place, Kind::Inline, 30);
    assert!(!lower.is_here() && !higher.is_here(), "under way");
    for (number, len) in [(TOKEN_LINE, 20), (1, 30)] {
        let cell = at_higher.peek(&higher).unwrap().expect("a cell");
        assert_eq!((cell.number, cell.len, cell.kind), (number, len, Kind::Inline));
        at_higher.advance(cell, &mut higher);
        assert!(higher.is_here());
        assert!(!at_higher.is_alternating());
    }
    assert_eq!(at_higher.peek(&higher), Ok(None));

    // Its own word is not taken for an answer, though the numbers are the same.
    let mut at_lower = Consumer::new(&down, g);
    down.token_line.set(up.token_line.get());
    assert_eq!(at_lower.peek(&lower), Ok(None));
    assert!(!at_lower.unwatch(&lower));
    let mut to_lower = Producer::new(&down, g);
    let place = to_lower.reserve().unwrap().unwrap();
    to_lower.commit_to(&mut higher, place, Kind::Inline, 40);
    assert!(to_lower.needs_bell(), "as any cell");
    assert!(at_lower.unwatch(&lower), "something is there");
    let cell = at_lower.peek(&lower).unwrap().expect("a cell");
    assert_eq!((cell.number, cell.len), (TOKEN_LINE, 40));
    at_lower.advance(cell, &mut lower);
    assert!(lower.is_here() && !higher.is_here());

    // A direct answer that comes twice in a row is waited for.
    let place = to_higher.reserve().unwrap().unwrap();
    to_higher.commit_to(&mut lower, place, Kind::Inline, 50);
    let cell = at_higher.peek(&higher).unwrap().expect("a cell");
    at_higher.advance(cell, &mut higher);
    assert!(!at_higher.is_alternating(), "one came by the ring before");
    down.token_line.set(0);
    let place = to_lower.reserve().unwrap().unwrap();
    to_lower.commit_to(&mut higher, place, Kind::Inline, 50);
    let cell = at_lower.peek(&lower).unwrap().expect("a cell");
    at_lower.advance(cell, &mut lower);
    assert!(at_lower.is_alternating());
}

/// The payload of the token line takes no room in the ring.
#[test]
fn what_is_in_the_payload_buffer_is_given_back_with_the_token_line() {
    let g = Geometry::of(16 << 10);
    let mem = mem(g);
    let (mut p, mut c) = pair(&mem, g);
    let messages = g.window / 4 / HOLD + 1;
    assert!(messages < g.cells / 4);
    for _ in 0..messages {
        let (mut lower, mut higher) = (TokenLine::new(true), TokenLine::new(false));
        let place = p.reserve().unwrap().unwrap();
        p.commit_to(&mut lower, place, Kind::Headed, HOLD as usize);
        let cell = c.peek(&higher).unwrap().expect("a cell");
        assert_eq!((cell.kind, cell.len, cell.number), (Kind::Headed, HOLD, TOKEN_LINE));
        c.advance(cell, &mut higher);
        assert!(!c.is_due(), "a quarter of the window");
    }
    // More than there is, or a piece that lies in a ring.
    for (len, kind) in [(HOLD + 1, Kind::Headed), (0xff_ffff, Kind::Headed), (8, Kind::Bulk)] {
        mem.token_line.set(control_word(messages + 1, kind, len as usize) | 0x40);
        assert!(c.peek(&TokenLine::new(false)).is_err(), "{len} bytes, {kind:?}");
    }
    mem.token_line.set(control_word(messages + 1, Kind::Headed, HOLD as usize) | 0x40);
    assert!(c.peek(&TokenLine::new(false)).is_ok_and(|c| c.is_some()));
    // All of the window is free.
    let mut room = 0;
    while let Some(place) = p.reserve_bulk(g.piece as usize).unwrap() {
        p.commit(place, Kind::Bulk, g.piece as usize);
        room += g.piece;
    }
    assert!(room > g.window - g.piece, "{room} of {}", g.window);
}

/// A ring whose payload buffer is 20,000 bytes long, and the word of a cell with so many.
fn long_payload() -> (Mem, Geometry, u64) {
    let g = Geometry::of(16 << 10);
    let mem = Mem { payload: 20_000, ..mem(g) };
    (mem, g, control_word(1, Kind::Headed, 20_000) | 0x40)
}

/// The written part of a long payload is read at once, each byte once. Its cell is consumed with
/// the last part.
#[test]
fn a_long_payload_is_read_while_it_is_written() {
    let (mem, g, _) = long_payload();
    let (mut p, mut c) = pair(&mem, g);
    for round in 0..4u32 {
        let (mut lower, mut higher) = (TokenLine::new(true), TokenLine::new(false));
        let place = p.reserve().unwrap().unwrap();
        p.begin_fill(4000);
        p.commit_to(&mut lower, place, Kind::Headed, 20_000);
        let mut taken = 0;
        for filled in [4000, 4000, 12_000, 20_000] {
            if filled > 4000 {
                p.go_on_filling(filled as usize);
            }
            // In every other round it is first looked at when all is there, or nearly.
            if filled < 5000 * round {
                continue;
            }
            let Some(cell) = c.peek(&higher).unwrap() else {
                assert_eq!(filled, taken, "what was filled was not found");
                assert!(!c.has_something(&higher) && !higher.is_here());
                continue;
            };
            assert_eq!(cell.kind, if taken == 0 { Kind::Headed } else { Kind::Bulk });
            assert_eq!((cell.at, cell.len, cell.missing), (taken, filled - taken, 20_000 - filled));
            assert!(c.unwatch(&higher), "something is there");
            c.advance(cell, &mut higher);
            taken = filled;
            let whole = taken == 20_000;
            assert_eq!((c.consumed(), higher.is_here()), (2 * round + u32::from(whole), whole));
        }
        assert_eq!(taken, 20_000);
        assert_eq!((c.peek(&higher), c.peek_open()), (Ok(None), Ok(None)));
        // The next cell, which comes by the ring, is whole.
        let place = p.reserve_bulk(64).unwrap().unwrap();
        p.commit(place, Kind::Bulk, 64);
        let cell = c.peek(&higher).unwrap().expect("a cell");
        assert_eq!((cell.len, cell.missing), (64, 0));
        c.advance(cell, &mut higher);
    }
}

/// A fill that is not that of the cell, or a cell that does not go on as it began, is the peer's
/// fault.
#[test]
fn nonsense_in_a_fill_is_found() {
    let higher = || TokenLine::new(false);
    for fill in [fill_word(0, 4000), fill_word(2, 4000), fill_word(1, 20_001), fill_word(1, 0xffff_ffff)] {
        let (mem, g, word) = long_payload();
        let c = Consumer::new(&mem, g);
        mem.token_line.set(word);
        mem.fill.set(fill);
        assert!(c.peek(&higher()).is_err(), "{fill:x}");
    }
    // The first 4000 bytes are taken; then the fill goes back, too far, or to another cell.
    fn begun(mem: &Mem, g: Geometry, word: u64) -> Consumer<&Mem> {
        let mut c = Consumer::new(mem, g);
        mem.token_line.set(word);
        mem.fill.set(fill_word(1, 4000));
        let mut higher = TokenLine::new(false);
        let part = c.peek(&higher).unwrap().expect("a part");
        c.advance(part, &mut higher);
        assert_eq!(c.peek(&higher), Ok(None));
        c
    }
    for fill in [fill_word(1, 3999), fill_word(1, 0), fill_word(2, 8000), fill_word(1, 20_001)] {
        let (mem, g, word) = long_payload();
        let c = begun(&mem, g, word);
        mem.fill.set(fill);
        assert!(c.peek(&higher()).is_err() && c.has_something(&higher()), "{fill:x}");
    }
    // Or the cell is another one: shorter than what was taken, of another kind, or in the ring.
    for (kind, len) in [(Kind::Headed, 3999), (Kind::Inline, 8), (Kind::Fin, 0), (Kind::Suspend, 0xff_ffff)] {
        let (mem, g, word) = long_payload();
        let c = begun(&mem, g, word);
        mem.fill.set(fill_word(1, 8000));
        mem.token_line.set(control_word(1, kind, len) | 0x40);
        assert!(c.peek(&higher()).is_err(), "{kind:?}, {len} bytes");
    }
    for (kind, len) in [(Kind::Bulk, 8000), (Kind::Headed, 8000), (Kind::Inline, 8), (Kind::Fin, 0)] {
        let (mem, g, word) = long_payload();
        let c = begun(&mem, g, word);
        (&mem).set_bulk_at(0, 0);
        (&mem).set_control(0, control_word(1, kind, len));
        assert!(c.peek(&higher()).is_err(), "{kind:?} in the ring");
    }
    // An open piece does not go on in the payload buffer, nor the payload in an open piece.
    let (mem, g, word) = long_payload();
    let mut c = Consumer::new(&mem, g);
    mem.level.set(level_word(1, 0, 64));
    let part = c.peek_open().unwrap().expect("a part");
    c.take_open(part);
    mem.token_line.set(word);
    mem.fill.set(fill_word(1, 4000));
    assert!(c.peek(&higher()).is_err());
    let (mem, g, word) = long_payload();
    let c = begun(&mem, g, word);
    mem.level.set(level_word(1, 0, 4032));
    assert!(c.peek_open().is_err());
    // Only a payload has parts: a number of that size is none.
    let (mem, g, _) = long_payload();
    let c = Consumer::new(&mem, g);
    mem.token_line.set(control_word(1, Kind::Suspend, 0xff_ffff) | 0x40);
    let cell = c.peek(&higher()).unwrap().expect("a cell");
    assert_eq!((cell.kind, cell.missing), (Kind::Suspend, 0));
}

/// Numbers come round after 2^32 cells: no place in the ring is left out for that long.
#[test]
fn places_are_left_out_for_some_time_only() {
    const LONG: u32 = 1 << 21;
    let g = Geometry::of(MIN_RING);
    let mem = mem(g);
    let (mut p, mut c) = pair(&mem, g);
    let (mut lower, mut higher) = (TokenLine::new(true), TokenLine::new(false));
    let mut carried = 0;
    for sent in 1..=3 * LONG {
        let place = p.reserve().unwrap().expect("room");
        match p.may_use_token(&lower) {
            true => p.commit_to(&mut lower, place, Kind::Inline, 8),
            false => p.commit(place, Kind::Inline, 8),
        }
        let cell = c.peek(&higher).unwrap().expect("a cell");
        c.advance(cell, &mut higher);
        c.give_back();
        carried += u32::from(cell.number == TOKEN_LINE);
        if sent % LONG == 0 {
            let written = |word: &u64| sent - ((word >> 32) as u32) < LONG;
            assert!(mem.control.borrow().iter().all(written), "a place is as it was {LONG} cells ago");
        }
        // It was answered.
        (lower, higher) = (TokenLine::new(true), TokenLine::new(false));
    }
    assert!(carried > 3 * LONG - LONG / 100, "{carried} with the token line");
}

/// Without a token line nothing that stands in its line is taken for a cell.
#[test]
fn nothing_comes_with_no_token_line() {
    let g = Geometry::of(MIN_RING);
    let mem = mem(g);
    let c = Consumer::new(&mem, g);
    for writer in [0, 0x40, 0x80, 0xc0] {
        mem.token_line.set(1 << 32 | 8 << 8 | writer | 1);
        assert_eq!(c.peek(&TokenLine::none()), Ok(None));
        assert_eq!(c.peek(&TokenLine::new(true)), Ok(None), "it is here");
    }
    assert!(c.peek(&TokenLine::new(false)).is_ok_and(|c| c.is_none()), "by the higher rank itself");
    mem.token_line.set(1 << 32 | (INLINE as u64 + 1) << 8 | 0x40 | 1);
    assert!(c.peek(&TokenLine::new(false)).is_err(), "longer than a line");
}
