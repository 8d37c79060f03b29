//! Data that is not in one piece, on either side and on both.

use std::sync::Arc;

use ch3_shim::{Device, Mode};
use netmod_core::{Datatype, RxBytes, Segment};

use super::{NetmodFactory, await_go, doing, go, other, pattern, run_job};
use crate::sys::Area;

/// The byte that every gap must still contain.
const GAP: u8 = 0xE5;
/// Bytes of data of one element of each layout.
const ELEMENT: usize = 24;

/// Layouts of [`ELEMENT`] bytes each.
fn layouts() -> Vec<(&'static str, Arc<Datatype>)> {
    let four = Datatype::contiguous(4).expect("four bytes");
    let one = Datatype::contiguous(1).expect("a byte");
    let rows = Datatype::vector(2, 1, 8, &four).expect("a vector");
    let big_rows = Datatype::vector(3, 8, 13, &one).expect("a vector");
    vec![
        ("contiguous", Datatype::contiguous(ELEMENT).expect("a run")),
        ("vector", Datatype::vector(3, 2, 20, &four).expect("a vector")),
        ("odd vector", big_rows),
        ("indexed", Datatype::indexed(&[(40, 1), (0, 2), (20, 3)], &four).expect("blocks")),
        ("nested", Datatype::vector(3, 1, 40, &rows).expect("a vector of vectors")),
        ("backwards", Datatype::vector(6, 1, -12, &four).expect("a vector")),
    ]
}

/// An area around `count` elements, filled with [`GAP`], and where the first element goes.
fn area(ty: &Arc<Datatype>, count: usize) -> (Area, usize) {
    let span = ty.span(count).expect("a span");
    let before = usize::try_from(-span.start.min(0)).expect("a small displacement") + 32;
    let after = usize::try_from(span.end).expect("a small displacement") + 32;
    (Area::new(vec![GAP; before + after]), before)
}

fn unpack(mut seg: Segment, data: &[u8]) {
    assert_eq!(seg.unpack(RxBytes::from_slice(data)), data.len());
}

/// One message from a layout to another, which may be cut shorter than the receive's room.
fn transfer(dev: &mut Device, len: usize, from: &Arc<Datatype>, to: &Arc<Datatype>, expected: bool) {
    let (peer, world) = (other(dev), dev.world());
    let count = len / ELEMENT;
    let data = pattern(len as u64, count * ELEMENT);
    if dev.rank() == 0 {
        let (memory, at) = area(from, count);
        unpack(memory.typed(at, from, count), &data);
        if expected {
            await_go(dev, peer);
        }
        let req =
            dev.isend_raw(memory.typed(at, from, count), peer, 4, world, Mode::Standard).expect("isend");
        dev.wait_raw(req).expect("send");
        await_go(dev, peer);
    } else {
        let (memory, at) = area(to, count + 1);
        let (reference, _) = area(to, count + 1);
        unpack(reference.typed(at, to, count + 1), &data_and_gap(&data));
        if !expected {
            dev.probe(peer, 4, world).expect("probe");
        }
        let req = dev.irecv_raw(memory.typed(at, to, count + 1), peer, 4, world).expect("irecv");
        if expected {
            go(dev, peer);
        }
        let status = dev.wait_raw(req).expect("receive");
        assert_eq!(status.len, data.len());
        assert!(
            memory.bytes() == reference.bytes(),
            "{} bytes into {to:?} are not what and where they should be",
            data.len()
        );
        go(dev, peer);
    }
}

fn data_and_gap(data: &[u8]) -> Vec<u8> {
    [data, &[GAP; ELEMENT]].concat()
}

fn all_layouts(f: &dyn NetmodFactory, len: impl Fn(&Device) -> usize + Send + Sync + 'static) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let len = len(dev).min(top);
        let layouts = layouts();
        let contiguous = &layouts[0].1;
        for (name, ty) in &layouts {
            for expected in [true, false] {
                doing(format!("{name}, {len} bytes, expected: {expected}"));
                transfer(dev, len, ty, contiguous, expected);
                transfer(dev, len, contiguous, ty, expected);
                transfer(dev, len, ty, ty, expected);
            }
        }
    });
}

/// One element of each layout, and then everything that travels in the header and a byte more.
pub fn short(f: &dyn NetmodFactory) {
    all_layouts(f, |_| ELEMENT);
    // Sixteen bytes and fewer travel in the header.
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        let one = Datatype::contiguous(1).expect("a byte");
        for len in 1..=17usize {
            let ty = Datatype::vector(len, 1, 3, &one).expect("a vector");
            let (memory, at) = area(&ty, 1);
            let data = pattern(len as u64, len);
            if dev.rank() == 0 {
                unpack(memory.typed(at, &ty, 1), &data);
                let req =
                    dev.isend_raw(memory.typed(at, &ty, 1), peer, 4, world, Mode::Standard).expect("isend");
                dev.wait_raw(req).expect("send");
            } else {
                let (reference, _) = area(&ty, 1);
                unpack(reference.typed(at, &ty, 1), &data);
                let req = dev.irecv_raw(memory.typed(at, &ty, 1), peer, 4, world).expect("irecv");
                assert_eq!(dev.wait_raw(req).expect("receive").len, len);
                assert_eq!(memory.bytes(), reference.bytes());
            }
        }
    });
}

/// Eager and small enough to be copied.
pub fn eager_small(f: &dyn NetmodFactory) {
    all_layouts(f, |_| 1200);
}

/// Eager and too large to be copied.
pub fn eager_large(f: &dyn NetmodFactory) {
    all_layouts(f, |_| 48_000);
}

/// Rendezvous.
pub fn rendezvous(f: &dyn NetmodFactory) {
    all_layouts(f, |dev| dev.config().eager_max * 2);
}

/// Every layout to every other.
pub fn both_sides_in_pieces(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let layouts = layouts();
        for (a, from) in &layouts {
            for (b, to) in &layouts {
                for len in [240, 9600, dev.config().eager_max + 4800] {
                    doing(format!("{len} bytes from {a} to {b}"));
                    if len <= top {
                        transfer(dev, len, from, to, true);
                    }
                }
            }
        }
    });
}
