//! One-sided operations between two ranks, over whatever netmod has them.

use std::time::{Duration, Instant};

use ch3_shim::{Device, Exposure, RawReq, RemotePlace, RmaAccess};
use netmod_core::rma::{AtomicArgs, AtomicOp, RemoteKey, RmaCaps, Word};
use netmod_core::{Datatype, RmaUse};

use super::{NetmodFactory, check, pattern, recv, run_job, send};
use crate::sys::Area;

/// Tag of keys, and of the messages that end a step.
const KEY: i32 = 3;
/// Bytes of the memory that rank 1 exposes.
const LEN: usize = 300_000;

/// Longest time until a connection that was made is known to have one-sided operations.
const KNOWN: Duration = Duration::from_millis(500);

/// Returns what is possible with a rank, once that is known; `None` if nothing is.
fn access(dev: &mut Device, rank: i32) -> Option<(RmaCaps, RmaUse)> {
    let world = dev.world();
    let end = Instant::now() + KNOWN;
    loop {
        match dev.rma_access(rank, world).expect("a rank of the job") {
            RmaAccess::Now(caps, uses) => return Some((caps, uses)),
            RmaAccess::Never(why) => {
                assert!(!why.is_empty());
                return None;
            }
            // Some devices never come to have what they prepare for.
            RmaAccess::Soon if Instant::now() > end => return None,
            RmaAccess::Soon => dev.progress().expect("progress"),
        };
    }
}

/// Lets rank 0 access memory, and tells it the key; an empty one if that cannot be.
fn expose(dev: &mut Device, memory: &Area) -> Option<Exposure> {
    let world = dev.world();
    let exposed = match access(dev, 0) {
        Some((_, uses)) if uses.is_put_to.is_now() && uses.is_got_from.is_now() => {
            Some(dev.expose(memory.rma_buf(), 0, world).expect("a registration"))
        }
        _ => None,
    };
    send(dev, exposed.map_or(Vec::new(), |(_, key)| key.bytes().to_vec()), 0, KEY);
    exposed.map(|(exposure, _)| exposure)
}

/// Returns the key of rank 1's memory, if both sides have what it takes.
fn key(dev: &mut Device) -> Option<(RemoteKey, RmaCaps)> {
    let ours = access(dev, 1);
    let bytes = recv(dev, RemoteKey::MAX, 1, KEY).buffer;
    let (caps, uses) = ours?;
    let whole = !bytes.is_empty() && uses.puts.is_now() && uses.gets.is_now();
    whole.then(|| (RemoteKey::new(&bytes).expect("a key"), caps))
}

fn first_contact(dev: &mut Device) {
    let peer = 1 - dev.rank() as i32;
    if dev.rank() == 0 {
        send(dev, vec![1], peer, KEY);
        recv(dev, 1, peer, KEY);
    } else {
        recv(dev, 1, peer, KEY);
        send(dev, vec![1], peer, KEY);
    }
}

fn wait(dev: &mut Device, req: RawReq) {
    dev.wait_raw(req).expect("an operation");
}

/// Data in one piece and in pieces is put and got, and words are changed, as the netmod says.
pub fn memory_changes_as_it_should(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        first_contact(dev);
        let memory = Area::new(pattern(1, LEN));
        if dev.rank() == 1 {
            let exposed = expose(dev, &memory);
            recv(dev, 0, 0, KEY);
            exposed.into_iter().for_each(|exposure| dev.conceal(exposure));
            return;
        }
        if let Some((key, caps)) = key(dev) {
            move_data(dev, key);
            change_words(dev, key, caps);
        }
        send(dev, Vec::new(), 1, KEY);
    });
}

fn move_data(dev: &mut Device, key: RemoteKey) {
    let world = dev.world();
    let at = |at| RemotePlace { key, at };
    let whole = Area::new(vec![0; LEN]);
    let req = dev.rma_get(whole.contig(), 1, world, at(0)).expect("a get");
    wait(dev, req);
    check(1, &whole.bytes());
    // A part in pieces of 5 bytes, 3 apart, is written and read back as one.
    let byte = Datatype::contiguous(1).expect("a byte");
    let pieces = Datatype::vector(1000, 5, 8, &byte).expect("a vector");
    let scattered = Area::new(pattern(2, 8000));
    let req = dev.rma_put(scattered.typed(0, &pieces, 1), 1, world, at(100)).expect("a put");
    wait(dev, req);
    let back = Area::new(vec![0; 5000]);
    let req = dev.rma_get(back.contig(), 1, world, at(100)).expect("a get");
    wait(dev, req);
    let expected: Vec<u8> = scattered.bytes().chunks(8).flat_map(|piece| piece[..5].to_vec()).collect();
    assert!(back.bytes() == expected);
    let again = Area::new(vec![0; 8000]);
    let req = dev.rma_get(again.typed(0, &pieces, 1), 1, world, at(100)).expect("a get");
    wait(dev, req);
    for (n, piece) in again.bytes().chunks(8).enumerate() {
        assert!(piece[..5] == expected[n * 5..n * 5 + 5] && piece[5..] == [0; 3], "piece {n}");
    }
    // Many at once; a flush ends them all.
    let data = Area::new(pattern(3, LEN));
    let reqs: Vec<RawReq> = (0..30)
        .map(|n| dev.rma_put(data.part(n * 10_000, 10_000), 1, world, at(n * 10_000)).expect("a put"))
        .collect();
    while !dev.rma_flush(1, world).expect("a flush") {}
    for req in reqs {
        wait(dev, req);
    }
    let req = dev.rma_get(whole.contig(), 1, world, at(0)).expect("a get");
    wait(dev, req);
    check(3, &whole.bytes());
    // Beyond the memory nothing is started, and the error says so.
    let beyond = dev.rma_put(data.contig(), 1, world, at(1)).expect_err("beyond the memory");
    let beyond = beyond.error.to_string();
    assert!(beyond.contains("beyond the peer's region"), "{beyond}");
    assert!(dev.rma_flush(1, world).expect("a flush"));
}

fn change_words(dev: &mut Device, key: RemoteKey, caps: RmaCaps) {
    let world = dev.world();
    // The memory is aligned as the allocator does it, which the netmod checks.
    let word = RemotePlace { key, at: 0 };
    let (old, back) = (Area::new(vec![0; 8]), Area::new(vec![0; 8]));
    for op in AtomicOp::ALL {
        for of in Word::ALL {
            let args = AtomicArgs { op, word: of, operand: 6, comparand: 9, fetches: true };
            if !caps.atomics.has(op, of) {
                let refused = dev.rma_atomic(args, old.contig(), 1, world, word).expect_err("none such");
                let refused = refused.error.to_string();
                assert!(refused.contains("atomic operation"), "{refused}");
                continue;
            }
            for value in [9u64, 5, 1 << 40 | 3] {
                let start = Area::new(value.to_ne_bytes().to_vec());
                let req = dev.rma_put(start.contig(), 1, world, word).expect("a put");
                wait(dev, req);
                let req = dev.rma_atomic(args, old.part(0, of.size()), 1, world, word).expect("an operation");
                wait(dev, req);
                let req = dev.rma_get(back.contig(), 1, world, word).expect("a get");
                wait(dev, req);
                let changed = of.apply(op, value, 6, 9).to_ne_bytes();
                let mut expected = value.to_ne_bytes();
                expected[..of.size()].copy_from_slice(&changed[..of.size()]);
                assert_eq!(back.bytes(), expected, "{op:?} {of:?} of {value:#x}");
                assert_eq!(old.bytes()[..of.size()], value.to_ne_bytes()[..of.size()], "{op:?} {of:?}");
            }
        }
    }
    if caps.atomics.has(AtomicOp::CompareSwap, Word::U64) && caps.atomics.has(AtomicOp::Add, Word::U64) {
        let start = Area::new(vec![0; 8]);
        let req = dev.rma_put(start.contig(), 1, world, word).expect("a put");
        wait(dev, req);
        let add = (Word::U64, 5);
        let req = dev.rma_fetch_add(add, old.contig(), 1, world, word).expect("an addition");
        wait(dev, req);
        let swap = (Word::U64, 5, 7);
        let req = dev.rma_compare_swap(swap, back.contig(), 1, world, word).expect("a swap");
        wait(dev, req);
        assert_eq!((old.bytes(), back.bytes()), (vec![0; 8], 5u64.to_ne_bytes().to_vec()));
    }
}

/// Memory of an operation that is given up is left alone, as is memory that is concealed.
pub fn memory_is_given_back(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        first_contact(dev);
        let world = dev.world();
        let mut memory = Area::new(pattern(1, LEN));
        if dev.rank() == 1 {
            if let Some(exposure) = expose(dev, &memory) {
                recv(dev, 0, 0, KEY);
                dev.conceal(exposure);
                memory.fill(9);
                send(dev, Vec::new(), 0, KEY);
                recv(dev, 0, 0, KEY);
                assert!(memory.bytes().iter().all(|byte| *byte == 9));
            }
        } else if let Some((key, _)) = key(dev) {
            let at = RemotePlace { key, at: 0 };
            let mut room = Area::new(vec![0; LEN]);
            let req = dev.rma_get(room.contig(), 1, world, at).expect("a get");
            dev.end_raw(req);
            room.fill(7);
            send(dev, Vec::new(), 1, KEY);
            recv(dev, 0, 1, KEY);
            assert!(room.bytes().iter().all(|byte| *byte == 7));
            send(dev, Vec::new(), 1, KEY);
        }
    });
}
