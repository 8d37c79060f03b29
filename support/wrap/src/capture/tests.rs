//! Captures are read again, by this code and by a foreign crate; damaged files as far as possible.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netmod_core::{GroupId, HDR_LEN, Header, PeerName, RxBytes, VcId};
use proptest::prelude::*;

use super::file::CaptureFile;
use super::framer::{Found, Framer};
use super::pcapng::{Block, Blocks, LINK_TYPE};
use super::record::{Record, What};
use netmod_harness::Rng;

const ME: PeerName = PeerName { group: GroupId([9; 16]), rank: 3 };
const PEER: PeerName = PeerName { group: GroupId([9; 16]), rank: 5 };

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn clock() -> super::Clock {
    let mut now = 1_700_000_000_000_000_000;
    Box::new(move || {
        now += 1_000_001;
        now
    })
}

/// Returns a file of some records.
fn sample(records: usize) -> Vec<u8> {
    let out = Shared::default();
    let mut file = CaptureFile::new(Box::new(out.clone()), "test".into(), clock(), ME, 16);
    let vc = VcId::from_wire(0x0000_0001_0000_0002);
    for i in 0..records {
        match i % 3 {
            0 => file.add(What::Sent, PEER, vc, 1000, [&[i as u8; HDR_LEN], &[7; 16]]),
            1 => file.add(What::Received, PEER, vc, 3, [&[i as u8; HDR_LEN], &[1, 2, 3]]),
            _ => file.add(What::Down, PEER, vc, 0, [b"cable pulled", &[]]),
        }
    }
    drop(file);
    let bytes = out.0.lock().unwrap();
    bytes.clone()
}

fn records(file: &[u8]) -> Vec<(u64, Record)> {
    Blocks::new(file)
        .filter_map(|b| match b {
            Block::Packet { nanos, data } => Some((nanos, Record::parse(data).ok()?)),
            _ => None,
        })
        .collect()
}

#[test]
fn what_is_written_is_read_again() {
    let file = sample(3);
    let blocks: Vec<_> = Blocks::new(&file).collect();
    assert!(
        matches!(blocks[0], Block::Section { comment: Some(c) } if c.starts_with("rank 3 of job 09090909")),
        "{blocks:?}"
    );
    assert_eq!(blocks[1], Block::Interface { link: LINK_TYPE });
    assert_eq!(blocks.len(), 5);
    let all = records(&file);
    let (nanos, first) = &all[0];
    assert_eq!(*nanos, 1_700_000_000_001_000_001);
    let expected = Record {
        what: What::Sent,
        rank: 3,
        peer: 5,
        group: [9; 8],
        vc: VcId::from_wire(0x0000_0001_0000_0002),
        payload_len: 1000,
        header: Some([0; HDR_LEN]),
        data: vec![7; 16],
    };
    assert_eq!(*first, expected);
    assert_eq!(
        (all[1].1.what, all[1].1.payload_len, &all[1].1.data[..]),
        (What::Received, 3, &[1, 2, 3][..])
    );
    assert_eq!(
        (all[2].1.what, all[2].1.header, &all[2].1.data[..]),
        (What::Down, None, &b"cable pulled"[..])
    );
}

#[test]
fn other_peoples_code_reads_it_too() {
    let file = sample(7);
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&file[..]).unwrap();
    let mut times = Vec::new();
    let mut lengths = Vec::new();
    while let Some(block) = reader.next_block() {
        let (block, _) = block.unwrap();
        if let pcap_file::pcapng::Block::EnhancedPacket(p) = block {
            times.push(p.timestamp.as_nanos() as u64);
            lengths.push((p.data.len(), p.original_len));
        }
    }
    assert_eq!(times, records(&file).iter().map(|(t, _)| *t).collect::<Vec<_>>());
    assert_eq!(lengths[..3], [(40 + 32 + 16, 40 + 32 + 1000), (40 + 32 + 3, 40 + 32 + 3), (52, 52)]);
}

#[test]
fn every_event_has_a_code_of_its_own() {
    let mut seen = Vec::new();
    for kind in 0..=255 {
        for event in 0..=255 {
            let mut bytes = Record::emit(What::Sent, 1, PEER, VcId::from_wire(0), 0).to_vec();
            bytes[1..3].copy_from_slice(&[kind, event]);
            bytes.extend_from_slice(&[0; HDR_LEN]);
            if let Ok(r) = Record::parse(&bytes) {
                assert_eq!(Record::emit(r.what, 1, PEER, VcId::from_wire(0), 0)[1..3], [kind, event]);
                assert!(!seen.contains(&r.what.name()));
                seen.push(r.what.name());
            }
        }
    }
    assert_eq!(seen.len(), 14);
}

/// A damaged block does not affect those after it.
#[test]
fn damage_is_skipped() {
    let file = sample(9);
    let whole = records(&file);
    let at = Blocks::new(&file).scan(0, |at, b| {
        let start = *at;
        if let Block::Packet { data, .. } = b {
            *at = data.as_ptr() as usize - file.as_ptr() as usize + data.len().next_multiple_of(4) + 4;
        }
        Some(start)
    });
    let starts: Vec<usize> = at.skip(3).collect();
    // The length of the third packet's block, before the packet that follows it.
    let mut bad = file.clone();
    bad[starts[1] + 4] ^= 0x40;
    let left = records(&bad);
    assert_eq!(left.len(), 8);
    assert!(left.iter().all(|r| whole.contains(r)));
    assert_eq!(Blocks::new(&bad).filter(|b| matches!(b, Block::Skipped { .. })).count(), 1);
    // A missing byte.
    let mut bad = file.clone();
    bad.remove(starts[2] + 30);
    assert_eq!(records(&bad).len(), 8);
    // A file truncated anywhere.
    for end in 0..file.len() {
        let got = records(&file[..end]);
        assert!(got.len() <= 9 && got[..] == whole[..got.len()]);
        let covered = Blocks::new(&file[..end]).any(|b| matches!(b, Block::Skipped { .. }));
        assert_eq!(
            covered,
            got.len() < 9 && Blocks::new(&file).count() > 0 && !boundary(&file, end),
            "{end}"
        );
    }
}

/// Returns true if a block ends at `end`.
fn boundary(file: &[u8], end: usize) -> bool {
    let mut at = 0;
    while at < end {
        at += u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    at == end
}

/// The parser survives millions of damaged files and finds no more than there is.
#[test]
fn mutated_files() {
    const ROUNDS: u64 = 3_000_000;
    let file = sample(4);
    let mut rng = Rng::new(1);
    let mut survivors = 0;
    let mut bad = Vec::new();
    for _ in 0..ROUNDS {
        bad.clear();
        bad.extend_from_slice(&file);
        for _ in 0..=rng.below(3) {
            let at = rng.below(bad.len() as u64) as usize;
            match rng.below(5) {
                0 => bad[at] ^= 1 << rng.below(8),
                1 => bad[at] = rng.word() as u8,
                2 => bad.truncate(at.max(1)),
                3 => _ = bad.remove(at),
                _ => bad.insert(at, rng.word() as u8),
            }
            if bad.is_empty() {
                bad.push(0);
            }
        }
        let mut covered = 0;
        for block in Blocks::new(&bad) {
            match block {
                Block::Packet { data, .. } => survivors += u64::from(Record::parse(data).is_ok()),
                Block::Skipped { bytes, .. } => covered += bytes,
                _ => {}
            }
        }
        assert!(covered <= bad.len());
    }
    // Most of the undamaged records are still found.
    assert!(survivors > ROUNDS, "{survivors}");
}

fn len_of(header: &Header) -> Option<u64> {
    (header[1] == 0).then_some(u64::from(header[0] % 100))
}

proptest! {
    /// The same frames are found however the stream is cut.
    #[test]
    fn frames_do_not_depend_on_cuts(
        kinds in prop::collection::vec((any::<u8>(), 0usize..3), 0..12),
        cuts in prop::collection::vec(1usize..70, 1..40),
        snap in 0usize..50,
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (kind, filler) in &kinds {
            let mut header = [*filler as u8; HDR_LEN];
            header[..2].copy_from_slice(&[*kind, 0]);
            let len = if *kind == netmod_core::NETMOD_FRAME { 0 } else { usize::from(kind % 100) };
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            stream.extend_from_slice(&header);
            stream.extend_from_slice(&payload);
            expected.push((header, len as u64, payload[..len.min(snap)].to_vec()));
        }
        let mut framer = Framer::new();
        let mut got = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (piece, tail) = rest.split_at((*cut).min(rest.len()));
            framer.feed(RxBytes::from_slice(piece), snap, len_of, |f| got.push(f));
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        let got: Vec<_> = got.into_iter().map(|f| match f {
            Found::Frame(f) => (f.header, f.payload_len, f.payload),
            Found::Nonsense(h) => panic!("{h:?}"),
        }).collect();
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn nonsense_is_told_once() {
    let mut framer = Framer::new();
    let mut n = 0;
    for _ in 0..5 {
        framer.feed(RxBytes::from_slice(&[1; 100]), 10, len_of, |f| {
            assert_eq!(f, Found::Nonsense([1; HDR_LEN]));
            n += 1;
        });
    }
    assert_eq!(n, 1);
    framer.reset();
    framer.feed(RxBytes::from_slice(&[0; HDR_LEN]), 10, len_of, |f| assert!(matches!(f, Found::Frame(_))));
}

/// A full disk ends the capture and nothing else.
#[test]
fn a_full_disk() {
    struct Full(Arc<AtomicU64>);
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writes = Arc::new(AtomicU64::new(0));
    let mut file = CaptureFile::new(Box::new(Full(writes.clone())), "full".into(), clock(), ME, 1000);
    for _ in 0..1000 {
        file.add(What::Sent, PEER, VcId::from_wire(0), 500, [&[0; HDR_LEN], &[0; 500]]);
    }
    file.flush();
    let (written, lost) = file.counts();
    assert_eq!(written + lost, 1000);
    assert!(lost > 800, "{lost}");
    assert_eq!(writes.load(Ordering::Relaxed), 1);
    let missing = CaptureFile::create("/nonexistent/folder/x", ME, 0);
    assert_eq!(missing.counts(), (0, 0));
}
