//! Model check of the ring's positions and wake-ups: loom runs all interleavings of two sides.
//!
//! Copying data before it is there, or overwriting data before it was taken, is a race of two
//! threads on a cell. A lost wake-up is a deadlock. The file under test is compiled once more,
//! against loom's atomics.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "gate.rs"]
mod gate;

use gate::{Gate, Putter, Taker};

const SIZE: u64 = 2;

#[derive(Default)]
struct Bell(Mutex<bool>, Condvar);

impl Bell {
    fn ring(&self) {
        *self.0.lock().expect("no thread of the model panics") = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.lock().expect("no thread of the model panics");
        while !*rung {
            rung = self.1.wait(rung).expect("no thread of the model panics");
        }
        *rung = false;
    }
}

struct Shared {
    gate: Gate,
    cells: [UnsafeCell<u64>; SIZE as usize],
    putter: Bell,
    taker: Bell,
}

// Three positions in a ring of two: the first cell is used twice.
fn run(total: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let name = format!("{total} positions");
    builder.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Arc::new(Shared {
            gate: Gate::default(),
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
            putter: Bell::default(),
            taker: Bell::default(),
        });
        let there = Arc::clone(&shared);
        let putter = loom::thread::spawn(move || {
            let mut p = Putter::new(SIZE);
            while p.at() < total {
                if p.room(&there.gate, 1).expect("the taker is honest") == 0 {
                    if p.prepare_to_sleep(&there.gate).expect("the taker is honest") {
                        there.putter.wait();
                    }
                    continue;
                }
                let at = p.at();
                there.cells[(at % SIZE) as usize].with_mut(|cell| write(cell, at + 1));
                p.put(&there.gate, 1);
                if p.must_wake(&there.gate) {
                    there.taker.ring();
                }
            }
        });
        let mut t = Taker::new(SIZE);
        while t.at() < total {
            if t.there(&shared.gate).expect("the putter is honest") == 0 {
                if t.prepare_to_sleep(&shared.gate).expect("the putter is honest") {
                    shared.taker.wait();
                }
                continue;
            }
            let at = t.at();
            let got = shared.cells[(at % SIZE) as usize].with(read);
            assert_eq!(got, at + 1);
            t.take(&shared.gate, 1);
            if t.must_wake(&shared.gate) {
                shared.putter.ring();
            }
        }
        putter.join().expect("no thread of the model panics");
    }));
}

#[allow(unsafe_code)]
fn write(cell: *mut u64, value: u64) {
    // SAFETY: loom checks that no other thread uses the cell meanwhile, and the cell outlives the
    // threads.
    unsafe { *cell = value }
}

#[allow(unsafe_code)]
fn read(cell: *const u64) -> u64 {
    // SAFETY: as for `write`.
    unsafe { *cell }
}

#[test]
fn what_is_put_in_is_taken_out_and_nobody_sleeps_for_ever() {
    run(3);
}
