//! Files: captures, scenarios, and status reports.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use ch3_shim::StatusReport;
use netmod_core::{GroupId, PeerName};
use netmod_wrap::CaptureFile;
use netmod_wrap::capture::pcapng::{Block, Blocks};
use netmod_wrap::capture::record::Record;

use super::{text, texts};
use crate::Outcome;
use crate::pair::scenario::Scenario;

/// A writer whose bytes can be had afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Appends a packet's block (`pcapng`: type 6) with a record.
fn append_packet(file: &mut Vec<u8>, record: &[u8]) {
    let len = 32 + record.len().next_multiple_of(4);
    for word in [6, len, 0, 0, 1, record.len(), record.len()] {
        file.extend_from_slice(&(word as u32).to_le_bytes());
    }
    file.extend_from_slice(record);
    file.resize(file.len().next_multiple_of(4), 0);
    file.extend_from_slice(&(len as u32).to_le_bytes());
}

pub(super) fn capture_seeds() -> Vec<Vec<u8>> {
    let bytes = Shared::default();
    let me = PeerName { group: GroupId([4; 16]), rank: 0 };
    CaptureFile::new(Box::new(bytes.clone()), "c".into(), Box::new(|| 1), me, 64).flush();
    let empty = bytes.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut whole = empty.clone();
    record_seeds().iter().for_each(|record| append_packet(&mut whole, record));
    vec![empty, whole]
}

/// A capture file: its blocks cover the file in order.
pub(super) fn capture(input: &[u8]) -> Outcome {
    let mut last: Result<&str, &str> = Err("nothing");
    let mut end = 0;
    for block in Blocks::new(input) {
        match block {
            Block::Section { .. } => last = Ok("section"),
            Block::Interface { .. } => last = Ok("interface"),
            Block::Packet { data, .. } => last = Record::parse(data).map(|_| "record").or(Ok("packet")),
            Block::Other => last = Ok("other"),
            Block::Skipped { at, bytes } => {
                assert!(at >= end && bytes > 0 && at + bytes <= input.len());
                end = at + bytes;
                last = Err("skipped");
            }
        }
    }
    Outcome::of(&last)
}

pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    let record = |kind: u8, event: u8, data: &[u8]| {
        let mut bytes = vec![1, kind, event, 0];
        bytes.resize(40, 7);
        bytes.extend_from_slice(data);
        bytes
    };
    vec![record(0, 0, &[5; 48]), record(1, 0, &[6; 32]), record(2, 3, b"the peer has gone")]
}

pub(super) fn record(input: &[u8]) -> Outcome {
    Outcome::of(&Record::parse(input))
}

pub(super) fn scenario_seeds() -> Vec<Vec<u8>> {
    texts(&[
        include_str!("../../../matching/tests/scenarios/s12-nat.toml"),
        include_str!("../../../matching/tests/scenarios/s21-policy-routing.toml"),
        include_str!("../../../matching/tests/scenarios/one-rail.toml"),
        include_str!("../../../matching/tests/scenarios/s15-host-addresses-ipv6.toml"),
    ])
}

/// A scenario file, which is also played.
pub(super) fn scenario(input: &[u8]) -> Outcome {
    let played = Scenario::parse("input", &text(input)).and_then(|scenario| scenario.run().map(|_| "played"));
    Outcome::of(&played)
}

pub(super) fn status_seeds() -> Vec<Vec<u8>> {
    vec![serde_json::to_vec(&StatusReport::default()).expect("a report as JSON")]
}

/// A status report, which is also shown.
pub(super) fn status(input: &[u8]) -> Outcome {
    let parsed = serde_json::from_slice::<StatusReport>(input).map_err(|e| e.classify());
    if let Ok(report) = &parsed {
        assert!(!report.text().is_empty());
    }
    Outcome::of(&parsed)
}
