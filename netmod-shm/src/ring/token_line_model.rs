//! Model check of the token line: all interleavings of two ranks that write to each other, by loom.
//! What the one writes over before the other has read it, or reads before it was written, is
//! reported as a race.

#![allow(unsafe_code)]

use std::rc::Rc;

use super::model::{Shared, Weak, geometry, put_parts, read, tried};
use super::{Consumer, Kind, Producer, Reserved, TOKEN_LINE, TokenLine};

/// One of the two ranks.
struct Rank {
    producer: Producer<Rc<Shared>>,
    consumer: Consumer<Rc<Shared>>,
    token_line: TokenLine,
    sent: u32,
    got: u32,
    /// Cells that came with the token line.
    carried: u32,
}

impl Rank {
    /// The two ranks, of which the first has the lower slot, with the rings from each to the other.
    fn pair(weak: Weak) -> [Rank; 2] {
        let up = Shared::new(weak);
        let down = up.back();
        let rank = |out: &Rc<Shared>, back: &Rc<Shared>, lower| Rank {
            producer: Producer::new(Rc::clone(out), geometry()),
            consumer: Consumer::new(Rc::clone(back), geometry()),
            token_line: TokenLine::new(lower),
            sent: 0,
            got: 0,
            carried: 0,
        };
        [rank(&up, &down, true), rank(&down, &up, false)]
    }

    /// Writes the next number, with the token line if it is here.
    fn put(&mut self) {
        self.sent += 1;
        let Ok(Some(cell @ Reserved::Cell(number))) = self.producer.reserve() else { panic!("no room") };
        let token_lined = self.producer.may_use_token(&self.token_line);
        self.producer.mem.content(if token_lined { TOKEN_LINE } else { number }).with_mut(|p| {
            // SAFETY: the cell was reserved, or the token line is here, so that the other does not
            // touch it; loom checks that.
            unsafe { *p = self.sent };
        });
        match token_lined {
            true => self.producer.commit_to(&mut self.token_line, cell, Kind::Inline, 4),
            false => self.producer.commit(cell, Kind::Inline, 4),
        }
    }

    /// Waits for the next number, or all parts of a payload.
    fn take(&mut self) {
        loop {
            let Some(cell) = self.consumer.peek(&self.token_line).expect("a sound peer") else {
                loom::thread::yield_now();
                continue;
            };
            read(&self.consumer.mem, cell, &mut self.got);
            self.consumer.advance(cell, &mut self.token_line);
            if cell.missing == 0 {
                self.carried += u32::from(cell.number == TOKEN_LINE);
                return;
            }
        }
    }
}

/// Each rank does what its string says: `p`uts, puts `P`arts, or `t`akes. So many cells of each
/// come with the token line, at least.
fn exchange(weak: Weak, lower: &'static str, higher: &'static str, carried: [u32; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    tried(module_path!(), weak);
    let name = format!("{lower} and {higher}");
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let run = |rank: &mut Rank, steps: &str| {
            for step in steps.bytes() {
                match step {
                    b'p' => rank.put(),
                    b'P' => put_parts(&mut rank.producer, &mut rank.token_line, &mut rank.sent),
                    _ => rank.take(),
                }
            }
        };
        let [mut a, mut b] = Rank::pair(weak);
        let thread = loom::thread::spawn(move || {
            run(&mut b, higher);
            assert!(b.carried >= carried[1], "{} of the lower rank's cells", b.carried);
        });
        run(&mut a, lower);
        assert!(a.carried >= carried[0], "{} of the higher rank's cells", a.carried);
        thread.join().expect("the higher rank");
    }));
}

#[test]
fn questions_and_answers_go_with_the_token_line() {
    exchange(Weak::Nothing, "ptpt", "tptp", [2, 2]);
}

#[test]
fn whoever_asks_first_gets_it_in_the_end() {
    exchange(Weak::Nothing, "tptp", "ptpt", [1, 2]);
}

#[test]
fn what_goes_with_the_token_line_and_what_goes_by_the_ring_stays_in_order() {
    exchange(Weak::Nothing, "pptt", "pptt", [0, 1]);
    exchange(Weak::Nothing, "pptt", "tptp", [1, 1]);
}

#[test]
fn payloads_are_read_while_they_are_written_and_then_written_over() {
    exchange(Weak::Nothing, "Pt", "tP", [1, 1]);
    exchange(Weak::Nothing, "PtPt", "tPtp", [2, 2]);
}

#[test]
fn what_follows_a_payload_stays_behind_it() {
    exchange(Weak::Nothing, "Ppt", "ttp", [1, 1]);
}

#[test]
#[should_panic]
fn the_model_finds_a_fill_that_is_written_relaxed() {
    exchange(Weak::Fill, "P", "t", [0, 1]);
}

#[test]
#[should_panic]
fn the_model_finds_a_relaxed_look_at_the_fill() {
    exchange(Weak::LookFill, "P", "t", [0, 1]);
}

#[test]
#[should_panic]
fn the_model_finds_a_relaxed_publication_with_the_token_line() {
    exchange(Weak::Publish, "ptpt", "tptp", [2, 2]);
}

#[test]
#[should_panic]
fn the_model_finds_a_relaxed_look_at_the_token_line() {
    exchange(Weak::Look, "ptpt", "tptp", [2, 2]);
}
