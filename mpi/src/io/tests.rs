//! Accesses against a model of bytes, with faults at each call of the file system.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use netmod_core::Segment;
use parking_lot::Mutex;

use super::access::{self, At};
use super::hints::Hints;
use super::rep::Rep;
use super::storage::{Disk, Storage};
use super::sys::Lock;
use super::view::View;
use crate::datatype::{Form, TypeDesc, Types};
use crate::error::Class;
use crate::handle::Datatype;

const BYTE: Datatype = Datatype::BYTE;

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Less is done than was asked for.
    Short,
    Code(i32),
}

/// A file in memory.
struct InMemory {
    bytes: Mutex<Vec<u8>>,
    locked: Mutex<Vec<Range<u64>>>,
    /// The call, from 0 on, at which the fault happens; `None`: at each.
    at: Option<u64>,
    fault: Fault,
    calls: Mutex<u64>,
}

impl InMemory {
    fn fault(&self) -> io::Result<bool> {
        let mut calls = self.calls.lock();
        let hit = self.at.is_none_or(|at| at == *calls);
        *calls += 1;
        match self.fault {
            Fault::Code(code) if hit => Err(io::Error::from_raw_os_error(code)),
            fault => Ok(hit && fault == Fault::Short),
        }
    }
}

/// The test keeps the file that the disk has.
impl Storage for Arc<InMemory> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let short = self.fault()?;
        let bytes = self.bytes.lock();
        let from = (at as usize).min(bytes.len());
        let most = if short { into.len().div_ceil(2) } else { into.len() };
        let n = most.min(bytes.len() - from);
        into[..n].copy_from_slice(&bytes[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        let n = if self.fault()? { data.len().div_ceil(2) } else { data.len() };
        let mut bytes = self.bytes.lock();
        let end = at as usize + n;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[at as usize..end].copy_from_slice(&data[..n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock();
        let len = bytes.len().max(len as usize);
        bytes.resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.fault().map(|_| ())
    }

    fn lock(&self, _: Lock, range: &Range<u64>) -> io::Result<()> {
        self.fault()?;
        self.locked.lock().push(range.clone());
        Ok(())
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        let mut locked = self.locked.lock();
        let at = locked.iter().position(|r| r == range).expect("it was locked");
        locked.swap_remove(at);
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

fn file(at: Option<u64>, fault: Fault, bytes: &[u8]) -> (Arc<InMemory>, Disk) {
    let bytes = Mutex::new(bytes.to_vec());
    let file = Arc::new(InMemory { bytes, locked: Mutex::default(), at, fault, calls: Mutex::new(0) });
    (Arc::clone(&file), Disk::new("model", Box::new(file)))
}

/// A random view: blocks with holes, repeated with a gap.
fn random_view(random: &mut Random) -> View {
    let byte = Types::new().desc(BYTE).expect("MPI_BYTE");
    let unit = 1 + random.below(4) as i64;
    let etype = Arc::new(TypeDesc::contiguous(unit, &byte, Form::Int).expect("small"));
    let (mut displs, mut lens, mut at) = (Vec::new(), Vec::new(), random.below(3) as i64);
    for _ in 0..1 + random.below(5) {
        let len = 1 + random.below(6) as i64;
        displs.push(at);
        lens.push(len);
        at += len + random.below(4) as i64;
    }
    let blocks = TypeDesc::indexed(&lens, &displs, &etype, Form::Int).expect("small");
    let extent = at * unit + random.below(9) as i64;
    let filetype = TypeDesc::resized(0, extent, &Arc::new(blocks), Form::Int).expect("small");
    View::new(random.below(20), &etype, &Arc::new(filetype), Rep::Native, "native", false)
        .expect("a sound view")
}

/// The place of each byte of data of a view, by its type's runs alone.
fn places(view: &View, data: u64, len: u64) -> Vec<usize> {
    let runs = view.filetype.runs();
    let of_one: Vec<u64> = runs.iter().flat_map(|(at, len)| *at as u64..*at as u64 + len).collect();
    let place = |n: u64| {
        let n = n as usize;
        view.disp + (n / of_one.len()) as u64 * view.filetype.extent() as u64 + of_one[n % of_one.len()]
    };
    (data..data + len).map(|n| place(n) as usize).collect()
}

fn hints(random: &mut Random) -> Hints {
    let mut hints = Hints::default();
    let value = |on| if on { "enable" } else { "disable" };
    let pairs = [
        ("romio_ds_read", value(random.below(2) == 0).to_owned()),
        ("romio_ds_write", value(random.below(2) == 0).to_owned()),
        ("ind_rd_buffer_size", (1 + random.below(40)).to_string()),
        ("ind_wr_buffer_size", (1 + random.below(40)).to_string()),
    ];
    hints.take(&pairs.map(|(key, value)| (key.to_owned(), value)));
    hints
}

fn memory(bytes: &mut [u8]) -> Segment {
    // SAFETY: tests use the segment while they lend the bytes.
    #[allow(unsafe_code)]
    unsafe {
        Segment::contig(bytes.as_mut_ptr(), bytes.len())
    }
}

/// One random write and read, with a fault or without one.
fn one(seed: u64, at: Option<u64>, fault: Fault) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let view = random_view(&mut random);
    let hints = hints(&mut random);
    let old: Vec<u8> = (0..random.below(200)).map(|i| 100 + (i % 50) as u8).collect();
    let (model_file, disk) = file(at, fault, &old);
    let offset = random.below(10) * view.unit();
    let len = random.below(30) * view.unit();
    let mut new: Vec<u8> = (0..len).map(|i| (i % 90) as u8 + 1).collect();
    let mut model = old.clone();
    let touched = places(&view, offset, len);
    for (at, value) in touched.iter().zip(&new) {
        if model.len() <= *at {
            model.resize(at + 1, 0);
        }
        model[*at] = *value;
    }
    let at = At { view: &view, data: offset };
    let atomic = random.below(3) == 0;
    let written = access::write(&disk, at, &hints, atomic, &mut memory(&mut new));
    let is_error = matches!(fault, Fault::Code(code) if code != libc::EINTR);
    let bytes = model_file.bytes.lock().clone();
    match written {
        Ok(()) => assert_eq!(bytes, model, "seed {seed}"),
        Err(e) => {
            assert!(is_error, "seed {seed}: {e}");
            assert!(e.text.contains("file model"), "{e}");
            // Bytes outside of the access are as before.
            for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| !touched.contains(i)) {
                assert_eq!(*byte, old.get(i).copied().unwrap_or(0), "seed {seed}, byte {i}");
            }
        }
    }
    assert!(model_file.locked.lock().is_empty(), "seed {seed}: a lock was left");
    let mut room = vec![0; len as usize];
    match access::read(&disk, at, &hints, atomic, &mut memory(&mut room)) {
        Ok(got) => {
            let there = touched.iter().take_while(|at| **at < bytes.len()).count();
            assert_eq!(got, there, "seed {seed}");
            let seen: Vec<u8> = touched[..got].iter().map(|at| bytes[*at]).collect();
            assert_eq!(room[..got], seen, "seed {seed}");
        }
        Err(e) => assert!(is_error && e.text.contains("file model"), "seed {seed}: {e}"),
    }
    assert!(model_file.locked.lock().is_empty(), "seed {seed}: a lock was left");
}

#[test]
fn accesses_do_what_bytes_say() {
    (1..3000).for_each(|seed| one(seed, Some(0), Fault::None));
}

#[test]
fn short_transfers_go_on() {
    (1..1000).for_each(|seed| one(seed, None, Fault::Short));
}

#[test]
fn a_fault_at_any_call_is_told_and_breaks_nothing() {
    for seed in 1..300 {
        for at in 0..12 {
            one(seed, Some(at), Fault::Code([libc::ENOSPC, libc::EIO, libc::EINTR][(seed % 3) as usize]));
        }
    }
}

#[test]
fn faults_have_their_classes() {
    let view = random_view(&mut Random(7));
    let at = At { view: &view, data: 0 };
    let codes = [
        (libc::ENOSPC, Class::NO_SPACE),
        (libc::EDQUOT, Class::QUOTA),
        (libc::EROFS, Class::READ_ONLY),
        (libc::EACCES, Class::ACCESS),
        (libc::EIO, Class::IO),
        (libc::EINVAL, Class::IO),
    ];
    for (code, class) in codes {
        let (_, disk) = file(None, Fault::Code(code), &[]);
        let mut bytes = vec![0; view.unit() as usize];
        let error = access::write(&disk, at, &Hints::default(), false, &mut memory(&mut bytes));
        let error = error.expect_err("the fault");
        assert_eq!(error.class, class, "{}", error.text);
        let why = io::Error::from_raw_os_error(code).to_string();
        assert!(error.text.contains(&why) && error.text.contains("file model: writing"), "{}", error.text);
        let locked = access::write(&disk, at, &Hints::default(), true, &mut memory(&mut bytes));
        assert!(locked.expect_err("the fault").text.contains("a file system with locks"));
    }
}

#[test]
fn offsets_and_bytes_belong_together() {
    for seed in 1..300 {
        let view = random_view(&mut Random(seed * 77 + 1));
        let unit = view.unit();
        let starts: Vec<u64> =
            places(&view, 0, 60 * unit).iter().step_by(unit as usize).map(|p| *p as u64).collect();
        for (offset, start) in starts.iter().enumerate() {
            assert_eq!(view.byte_offset(offset as u64).expect("near"), *start);
            assert_eq!(view.offset_of(*start), offset as u64, "seed {seed}");
            // The next etype is the first that does not begin before it.
            assert_eq!(view.offset_of(start + 1), offset as u64 + 1, "seed {seed}");
        }
    }
}

#[test]
fn filetypes_are_checked() {
    let byte = Types::new().desc(BYTE).expect("MPI_BYTE");
    let three = Arc::new(TypeDesc::contiguous(3, &byte, Form::Int).expect("small"));
    let made = |desc: TypeDesc, etype: &Arc<TypeDesc>| {
        View::new(0, etype, &Arc::new(desc), Rep::Native, "native", false).map(|_| ()).map_err(|e| e.class)
    };
    let indexed = |displs: &[i64]| TypeDesc::indexed(&[2, 2], displs, &byte, Form::Int).expect("small");
    assert_eq!(made(indexed(&[0, 4]), &byte), Ok(()));
    assert_eq!(made(indexed(&[4, 0]), &byte), Err(Class::IO));
    assert_eq!(made(indexed(&[0, 1]), &byte), Err(Class::IO));
    assert_eq!(made(indexed(&[-4, 0]), &byte), Err(Class::IO));
    assert_eq!(made(indexed(&[0, 4]), &three), Err(Class::ARG));
    let empty = TypeDesc::resized(0, 0, &three, Form::Int).expect("small");
    assert_eq!(made(empty, &byte), Err(Class::IO));
    // Elements that would overlap are accessed one at a time.
    let small = Arc::new(TypeDesc::resized(0, 1, &three, Form::Int).expect("small"));
    let view = View::new(0, &byte, &small, Rep::Native, "native", false).expect("a view");
    assert_eq!(view.span(0, 3).map_err(|e| e.class), Ok(0..3));
    assert_eq!(view.span(3, 3).map_err(|e| e.class), Ok(1..4));
    assert_eq!(view.span(2, 2).map_err(|e| e.class), Err(Class::IO));
    // Data that is only read may be seen twice.
    let twice = Arc::new(indexed(&[0, 1]));
    let view = View::new(0, &byte, &twice, Rep::Native, "native", true).expect("a view to read");
    let (_, disk) = file(None, Fault::None, &[1, 2, 3, 4, 5, 6]);
    let mut room = [0; 8];
    let at = At { view: &view, data: 0 };
    let got = access::read(&disk, at, &Hints::default(), true, &mut memory(&mut room));
    assert_eq!((got.expect("a read"), room), (8, [1, 2, 2, 3, 4, 5, 5, 6]));
}

#[test]
fn windows_have_a_long_piece_of_each_process() {
    let windows = [1, 2, 16, 128, 100_000].map(super::open::window);
    assert_eq!(windows, [256 << 10, 256 << 10, 2 << 20, 16 << 20, 16 << 20]);
}
