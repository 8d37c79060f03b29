//! Bandwidth of a ring between two processes beside one memcpy, by ring memory, window and chunk
//! size.
//!
//! `cargo run --release -p netmod-lmt --example ring`. The sizes in `coop::ring` come from this.

#![allow(unsafe_code)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use netmod_core::Segment;
use netmod_lmt::cookie::RingName;
use netmod_lmt::coop::{Consumer, Producer, Sizes};

/// Bytes moved per measurement.
const VOLUME: usize = 256 << 20;

fn segment(buf: &mut [u8]) -> Segment {
    // SAFETY: the buffer lives, and is not touched, while the segment is used.
    unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) }
}

/// Runs the sender: copies messages of `size` bytes into the ring.
fn send(name: &str, sizes: Sizes, size: usize) {
    let bytes: Vec<u8> =
        (0..16).map(|i| u8::from_str_radix(&name[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect();
    let name = RingName(bytes.try_into().expect("16 bytes"));
    let mut end = Producer::with_sizes(name, sizes).expect("the ring");
    let mut data = vec![1; size];
    for _ in 0..VOLUME / size + 2 {
        let mut seg = segment(&mut data);
        while !seg.is_done() {
            if end.fill(&mut seg, usize::MAX).expect("honest") == 0 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Runs the receiver; returns GB/s from the second message on.
fn receive(sizes: Sizes, size: usize) -> f64 {
    let mut end = Consumer::with_sizes(sizes).expect("a ring");
    let hex: String = end.name().0.iter().map(|b| format!("{b:02x}")).collect();
    let Sizes { memory, window, chunk } = sizes;
    let args = [hex, memory.to_string(), window.to_string(), chunk.to_string(), size.to_string()];
    let mut child = Command::new(std::env::current_exe().expect("a program"))
        .args(args)
        .stdin(Stdio::null())
        .spawn()
        .expect("a second process");
    let mut buf = vec![0; size];
    let mut start = Instant::now();
    for i in 0..VOLUME / size + 2 {
        if i == 2 {
            start = Instant::now();
        }
        let mut seg = segment(&mut buf);
        while !seg.is_done() {
            if end.drain(&mut seg, usize::MAX).expect("honest") == 0 {
                std::hint::spin_loop();
            }
        }
    }
    let rate = (VOLUME / size * size) as f64 / start.elapsed().as_secs_f64() / 1e9;
    child.wait().expect("the sender ends");
    rate
}

fn memcpy(size: usize) -> f64 {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    to.copy_from_slice(&from);
    let start = Instant::now();
    for _ in 0..VOLUME / size {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    (VOLUME / size * size) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn median(mut f: impl FnMut() -> f64) -> f64 {
    let mut all = [f(), f(), f()];
    all.sort_by(f64::total_cmp);
    all[1]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, memory, window, chunk, size] = &args[..] {
        let number = |s: &String| s.parse().expect("a number");
        let sizes = Sizes { memory: number(memory), window: number(window), chunk: number(chunk) };
        return send(name, sizes, number(size));
    }
    let mut out = std::io::stdout().lock();
    for size in [64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        let floor = median(|| memcpy(size));
        writeln!(out, "{} KiB: memcpy {floor:.1} GB/s", size >> 10).expect("stdout");
        for (memory, window) in [(64, 64), (256, 256), (1024, 256), (2048, 256), (2048, 512), (2048, 1024)] {
            write!(out, "  ring {memory:>5} KiB, {window:>4} at once:").expect("stdout");
            let (memory, window) = (memory << 10, window << 10);
            for chunk in [8 << 10, 16 << 10, 32 << 10, 64 << 10] {
                if chunk * 2 <= window {
                    let share = median(|| receive(Sizes { memory, window, chunk }, size)) / floor;
                    write!(out, "  {:>3} KiB {share:.2}", chunk >> 10).expect("stdout");
                }
            }
            writeln!(out).expect("stdout");
        }
    }
}
