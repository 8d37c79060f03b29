//! Model check of rings and doorbells: all interleavings of a producer and a consumer, by loom. The
//! content of a cell is a `loom::cell::UnsafeCell`, so that content that is read before it was
//! written, or overwritten before it was given back, is reported as a race; a lost wake-up is a
//! deadlock or a failed assertion.
//!
//! Each weakening of the memory that the protocol rests on ([`Weak`]) must be found: the last tests
//! show that the model would notice.

#![allow(unsafe_code)]

use std::rc::Rc;

use loom::cell::UnsafeCell;
use loom::sync::Notify;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

use super::{
    Cell, Consumer, Geometry, Kind, PAIR, Producer, Reserved, RingMem, TOKEN_LINE, TokenLine, WHOLE_PAYLOAD,
};
use crate::bell::{self, BellMem};

/// A promise of the memory that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weak {
    Nothing,
    /// Control words are written relaxed.
    Publish,
    /// Control words are read relaxed.
    Look,
    /// The level of the open piece is written relaxed.
    Show,
    /// The level of the open piece is read relaxed.
    LookOpen,
    /// The fill of the payload buffer is written relaxed.
    Fill,
    /// The fill of the payload buffer is read relaxed.
    LookFill,
    /// Cells are given back relaxed.
    GiveBack,
    /// No full fences.
    Fences,
    /// A consumer that stops watching does not look again.
    LastLook,
    /// A producer that has set `wants space` does not look again.
    SpaceLook,
    /// A rank that has said that it sleeps does not look at its bits again.
    SleepLook,
    /// A consumer does not look a second time at a ring that it has stopped to watch.
    SecondLook,
}

/// Records a weakening for the list of mutants: the test that tries it must find it.
pub(super) fn tried(module: &str, weak: Weak) {
    if weak != Weak::Nothing {
        netmod_models::mutant(module, format_args!("{weak:?}"));
    }
}

const CELLS: usize = 2;
/// Parts of the payload buffer.
pub(super) const PARTS: u32 = 2;

/// A cell, or the token line.
#[derive(Default)]
struct Line {
    control: AtomicU64,
    content: UnsafeCell<u32>,
}

/// The token line with its payload buffer.
#[derive(Default)]
struct Token {
    line: Line,
    fill: AtomicU64,
    /// A number for each part of a payload: [`WHOLE_PAYLOAD`] bytes.
    payload: [UnsafeCell<u32>; PARTS as usize],
}

pub(super) struct Shared {
    weak: Weak,
    cells: [Line; CELLS],
    token: Rc<Token>,
    /// The bulk area: room for a batch of two.
    bulk: [UnsafeCell<u32>; 2],
    tail: AtomicU32,
    level: AtomicU64,
    watched: AtomicBool,
    wants_space: AtomicBool,
    /// Doorbells of the consumer, and of the producer.
    bells: [Bells; 2],
}

struct Bells {
    weak: Weak,
    word: AtomicU64,
    sleeps: AtomicBool,
    pipe: Notify,
}

impl Bells {
    fn new(weak: Weak) -> Bells {
        Bells { weak, word: AtomicU64::new(0), sleeps: AtomicBool::new(false), pipe: Notify::new() }
    }
}

impl Shared {
    pub(super) fn new(weak: Weak) -> Rc<Shared> {
        Shared::with(weak, Rc::default())
    }

    /// Another ring, of the way back.
    pub(super) fn back(&self) -> Rc<Shared> {
        Shared::with(self.weak, Rc::clone(&self.token))
    }

    fn with(weak: Weak, token: Rc<Token>) -> Rc<Shared> {
        Rc::new(Shared {
            weak,
            cells: Default::default(),
            token,
            bulk: std::array::from_fn(|_| UnsafeCell::new(0)),
            tail: AtomicU32::new(0),
            level: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            wants_space: AtomicBool::new(false),
            bells: [Bells::new(weak), Bells::new(weak)],
        })
    }

    fn line(&self, cell: u32) -> &Line {
        if cell == TOKEN_LINE { &self.token.line } else { &self.cells[cell as usize] }
    }

    /// Returns the content of a cell or the token line.
    pub(super) fn content(&self, cell: u32) -> &UnsafeCell<u32> {
        &self.line(cell).content
    }

    /// Returns the part of the payload buffer that begins at a byte.
    pub(super) fn part(&self, at: u32) -> &UnsafeCell<u32> {
        &self.token.payload[at as usize / WHOLE_PAYLOAD]
    }
}

impl RingMem for Rc<Shared> {
    fn control(&self, cell: u32) -> u64 {
        self.line(cell).control.load(if self.weak == Weak::Look { Relaxed } else { Acquire })
    }
    fn set_control(&self, cell: u32, word: u64) {
        self.line(cell).control.store(word, if self.weak == Weak::Publish { Relaxed } else { Release });
    }
    fn bulk_at(&self, _: u32) -> u32 {
        0
    }
    fn set_bulk_at(&self, _: u32, _: u32) {}
    fn payload(&self) -> u32 {
        PARTS * WHOLE_PAYLOAD as u32
    }
    fn fill(&self) -> u64 {
        self.token.fill.load(if self.weak == Weak::LookFill { Relaxed } else { Acquire })
    }
    fn set_fill(&self, word: u64) {
        self.token.fill.store(word, if self.weak == Weak::Fill { Relaxed } else { Release });
    }
    fn tail(&self) -> u32 {
        self.tail.load(Acquire)
    }
    fn set_tail(&self, tail: u32) {
        self.tail.store(tail, if self.weak == Weak::GiveBack { Relaxed } else { Release });
    }
    fn level(&self) -> u64 {
        self.level.load(if self.weak == Weak::LookOpen { Relaxed } else { Acquire })
    }
    fn set_level(&self, word: u64) {
        self.level.store(word, if self.weak == Weak::Show { Relaxed } else { Release });
    }
    fn watched(&self) -> bool {
        self.watched.load(Relaxed)
    }
    fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Relaxed);
    }
    fn wants_space(&self) -> bool {
        self.wants_space.load(Relaxed)
    }
    fn set_wants_space(&self, wants: bool) {
        self.wants_space.store(wants, Relaxed);
    }
    fn fence(&self) {
        if self.weak != Weak::Fences {
            fence(loom::sync::atomic::Ordering::SeqCst);
        }
    }
}

impl BellMem for Bells {
    fn words(&self) -> usize {
        1
    }
    fn word(&self, _: usize) -> u64 {
        self.word.load(Relaxed)
    }
    fn set_bit(&self, _: usize, bit: u64) {
        self.word.fetch_or(bit, AcqRel);
    }
    fn take(&self, _: usize) -> u64 {
        self.word.swap(0, AcqRel)
    }
    fn sleeps(&self) -> bool {
        self.sleeps.load(Relaxed)
    }
    fn swap_sleeps(&self, sleeps: bool) -> bool {
        self.sleeps.swap(sleeps, AcqRel)
    }
    fn fence(&self) {
        if self.weak != Weak::Fences {
            fence(loom::sync::atomic::Ordering::SeqCst);
        }
    }
}

pub(super) fn geometry() -> Geometry {
    let room = PAIR as u32;
    Geometry { cells: CELLS as u32, bulk: room, window: room, piece: 64, payload: 0 }
}

/// Writes a payload of [`PARTS`] parts, which are the next numbers, with the token line: the first
/// part before its cell, each other one after it.
pub(super) fn put_parts(ring: &mut Producer<Rc<Shared>>, token_line: &mut TokenLine, sent: &mut u32) {
    assert!(ring.may_use_token(token_line));
    let Ok(Some(cell)) = ring.reserve() else { panic!("no room") };
    for part in 0..PARTS as usize {
        *sent += 1;
        ring.mem.part((part * WHOLE_PAYLOAD) as u32).with_mut(|p| {
            // SAFETY: the token line is here, or what it brings is not consumed, so that the other
            // does not touch this part; loom checks that.
            unsafe { *p = *sent };
        });
        if part > 0 {
            ring.go_on_filling((part + 1) * WHOLE_PAYLOAD);
        } else {
            ring.begin_fill(WHOLE_PAYLOAD);
            ring.commit_to(token_line, cell, Kind::Headed, PARTS as usize * WHOLE_PAYLOAD);
        }
    }
}

/// Reads the next numbers out of a cell that was peeked at.
pub(super) fn read(shared: &Shared, cell: Cell, got: &mut u32) {
    let mut next = |content: &UnsafeCell<u32>| {
        // SAFETY: it was written and is not consumed; loom checks that.
        let value = content.with(|p| unsafe { *p });
        *got += 1;
        assert_eq!(value, *got, "out of order");
    };
    match cell.kind {
        Kind::Inline => next(shared.content(cell.number)),
        _ if cell.number == TOKEN_LINE => {
            (cell.at..cell.at + cell.len).step_by(WHOLE_PAYLOAD).for_each(|at| next(shared.part(at)));
        }
        _ => shared.bulk[cell.at as usize / 4..][..cell.len as usize / 4].iter().for_each(next),
    }
}

/// The end of a producer's work, behind its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It polls, and looks behind a fence whether to ring.
    Polls,
    /// It makes no further call, and time passes.
    Computes,
}

/// The producer's rank.
struct Sender {
    shared: Rc<Shared>,
    ring: Producer<Rc<Shared>>,
}

impl Sender {
    fn new(shared: &Rc<Shared>) -> Sender {
        Sender { shared: Rc::clone(shared), ring: Producer::new(Rc::clone(shared), geometry()) }
    }

    /// Adds to a batch; false if there is no room.
    fn add(&mut self, value: u32) -> bool {
        let Some((at, _)) = self.ring.append(4, 4).expect("a sound peer") else { return false };
        self.shared.bulk[at as usize / 4].with_mut(|p| {
            // SAFETY: as for a cell.
            unsafe { *p = value };
        });
        self.ring.show();
        true
    }

    /// Writes a cell; false if there is no room.
    fn put(&mut self, value: u32) -> bool {
        let Some(Reserved::Cell(cell)) = self.ring.reserve().expect("a sound peer") else { return false };
        self.shared.content(cell).with_mut(|p| {
            // SAFETY: the cell was reserved, so the consumer does not touch it; loom checks that.
            unsafe { *p = value };
        });
        self.ring.commit(Reserved::Cell(cell), Kind::Inline, 4);
        true
    }

    /// Does a poll's work for sends.
    fn settle(&mut self) {
        if self.ring.needs_bell() && bell::ring(&self.shared.bells[0], 1) {
            self.shared.bells[0].pipe.notify();
        }
    }

    /// Tells the consumer of a send, as the netmod does.
    fn touch(&mut self) {
        if self.ring.seems_unwatched() {
            self.settle();
        }
    }

    /// Lets so much time pass that all stores have left the processor, and the consumer, if it
    /// sleeps, wakes for its second look.
    fn let_time_pass(&self) {
        fence(loom::sync::atomic::Ordering::SeqCst);
        self.shared.bells[0].pipe.notify();
    }

    /// Sleeps until the consumer has given back cells.
    fn await_space(&mut self) {
        self.settle();
        let asked = match self.shared.weak {
            Weak::SpaceLook => {
                self.shared.set_wants_space(true);
                true
            }
            _ => self.ring.want_space().expect("a sound peer"),
        };
        if !asked {
            return;
        }
        let bells = &self.shared.bells[1];
        if bell::go_to_sleep(bells) {
            bells.pipe.wait();
        }
        bell::wake_up(bells);
        bell::collect(bells, |_| {});
    }
}

/// The consumer's rank.
struct Receiver {
    shared: Rc<Shared>,
    ring: Consumer<Rc<Shared>>,
    /// [`TokenLine::none`] where nothing comes with it.
    token_line: TokenLine,
    got: u32,
}

impl Receiver {
    fn new(shared: &Rc<Shared>) -> Receiver {
        let ring = Consumer::new(Rc::clone(shared), geometry());
        Receiver { shared: Rc::clone(shared), ring, token_line: TokenLine::none(), got: 0 }
    }

    /// Takes what is there: consecutive numbers from 1 on.
    fn take(&mut self) {
        loop {
            let cell = self.ring.peek(&self.token_line).expect("a sound peer");
            let open = cell.is_none();
            let Some(cell) = cell.or_else(|| self.ring.peek_open().expect("a sound peer")) else { return };
            read(&self.shared, cell, &mut self.got);
            if open {
                self.ring.take_open(cell);
                continue;
            }
            self.ring.advance(cell, &mut self.token_line);
            if self.ring.give_back() && bell::ring(&self.shared.bells[1], 0) {
                self.shared.bells[1].pipe.notify();
            }
        }
    }

    /// Watches, takes, stops watching, sleeps, until all is there.
    fn run(&mut self, total: u32) {
        let mut rung = true;
        loop {
            bell::collect(&self.shared.bells[0], |peer| {
                assert_eq!(peer, 1);
                rung = true;
            });
            if rung {
                self.ring.watch();
                self.take();
                rung = match self.shared.weak {
                    Weak::LastLook => {
                        self.ring.mem.set_watched(false);
                        false
                    }
                    _ => self.ring.unwatch(&self.token_line),
                };
                if rung {
                    continue;
                }
            }
            if self.got == total {
                return;
            }
            // A rank that sleeps looks at no ring.
            let asleep = match self.shared.weak {
                Weak::SleepLook => {
                    self.shared.bells[0].swap_sleeps(true);
                    true
                }
                _ => bell::go_to_sleep(&self.shared.bells[0]),
            };
            if asleep {
                self.shared.bells[0].pipe.wait();
            }
            bell::wake_up(&self.shared.bells[0]);
            rung = self.shared.weak != Weak::SecondLook && self.ring.has_something(&self.token_line);
        }
    }
}

/// `total` messages, of which `batch` at a time are published together.
fn messages(weak: Weak, total: u32, batch: u32) {
    explore(weak, Then::Polls, total, batch);
}

/// Like [`messages`], from a producer that does not poll.
fn unattended(weak: Weak, total: u32, batch: u32) {
    explore(weak, Then::Computes, total, batch);
}

fn explore(weak: Weak, then: Then, total: u32, batch: u32) {
    tried(module_path!(), weak);
    let name = format!("{total} messages in batches of {batch}, and the sender {then:?}");
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Shared::new(weak);
        let mut receiver = Receiver::new(&shared);
        let mut sender = Sender::new(&shared);
        let thread = loom::thread::spawn(move || {
            for value in 1..=total {
                while !(if batch > 1 { sender.add(value) } else { sender.put(value) }) {
                    sender.await_space();
                }
                match then {
                    Then::Polls if value % batch == 0 => sender.settle(),
                    Then::Polls => {}
                    Then::Computes => sender.touch(),
                }
            }
            match then {
                Then::Polls => sender.settle(),
                Then::Computes => sender.let_time_pass(),
            }
        });
        receiver.run(total);
        thread.join().expect("the sender");
    }));
}

#[test]
fn messages_arrive_in_order_and_nobody_sleeps_for_ever() {
    messages(Weak::Nothing, 2, 1);
}

#[test]
fn a_full_ring_goes_on_when_there_is_room() {
    messages(Weak::Nothing, 3, 1);
}

#[test]
fn batches_are_published_whole() {
    messages(Weak::Nothing, 2, 2);
}

#[test]
fn a_message_of_a_sender_that_computes_is_found_by_the_second_look() {
    unattended(Weak::Nothing, 1, 1);
    unattended(Weak::Nothing, 2, 1);
}

#[test]
fn a_batch_of_a_sender_that_computes_is_found_by_the_second_look() {
    unattended(Weak::Nothing, 2, 2);
}

#[test]
#[should_panic]
fn the_model_finds_a_missing_second_look() {
    unattended(Weak::SecondLook, 1, 1);
}

/// A payload in parts goes with the token line. Its receiver may stop to look and sleep between any
/// two of them, and is rung for behind the last.
fn payload_in_parts(weak: Weak) {
    tried(module_path!(), weak);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(netmod_models::interleavings(module_path!(), "a payload in parts", move || {
        let shared = Shared::new(weak);
        let mut receiver = Receiver::new(&shared);
        receiver.token_line = TokenLine::new(false);
        let mut sender = Sender::new(&shared);
        let thread = loom::thread::spawn(move || {
            put_parts(&mut sender.ring, &mut TokenLine::new(true), &mut 0);
            sender.settle();
        });
        receiver.run(PARTS);
        thread.join().expect("the sender");
    }));
}

#[test]
fn whoever_sleeps_within_a_payload_is_woken_for_the_rest() {
    payload_in_parts(Weak::Nothing);
}

#[test]
#[should_panic]
fn the_model_finds_a_missing_last_look_within_a_payload() {
    payload_in_parts(Weak::LastLook);
}

/// Two messages are added to an open piece, which the sender closes only if it goes on with a
/// third; it rings no bell.
fn open_piece(weak: Weak, goes_on: bool) {
    tried(module_path!(), weak);
    let name = format!("an open piece, goes on: {goes_on}");
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Shared::new(weak);
        let mut receiver = Receiver::new(&shared);
        let mut sender = Sender::new(&shared);
        let thread = loom::thread::spawn(move || {
            assert!(sender.add(1) && sender.add(2));
            assert!(!goes_on || sender.put(3));
        });
        while receiver.got < 2 + u32::from(goes_on) {
            receiver.take();
            loom::thread::yield_now();
        }
        thread.join().expect("the sender");
    }));
}

#[test]
fn what_lies_in_an_open_piece_arrives_without_a_further_call() {
    open_piece(Weak::Nothing, false);
}

#[test]
fn an_open_piece_is_read_once_whoever_is_faster() {
    open_piece(Weak::Nothing, true);
}

#[test]
#[should_panic]
fn the_model_finds_a_level_that_is_shown_relaxed() {
    open_piece(Weak::Show, false);
}

#[test]
#[should_panic]
fn the_model_finds_a_relaxed_look_at_the_level() {
    open_piece(Weak::LookOpen, false);
}

macro_rules! found {
    ($($name:ident: $weak:ident, $total:literal;)*) => { $(
        #[test]
        #[should_panic]
        fn $name() {
            messages(Weak::$weak, $total, 1);
        }
    )* };
}

found! {
    the_model_finds_a_relaxed_publication: Publish, 2;
    the_model_finds_a_relaxed_look: Look, 2;
    the_model_finds_a_relaxed_giving_back: GiveBack, 3;
    the_model_finds_missing_fences: Fences, 1;
    the_model_finds_a_missing_last_look: LastLook, 1;
    the_model_finds_a_missing_look_for_space: SpaceLook, 3;
    the_model_finds_a_missing_look_at_the_bits: SleepLook, 1;
}
