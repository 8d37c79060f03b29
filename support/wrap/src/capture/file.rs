//! The file of a capture: buffered, and abandoned at the first error.

use std::io::{ErrorKind, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use netmod_core::{PeerName, VcId, files};

use super::pcapng;
use super::record::{Record, What};

/// Bytes buffered for one write.
const BUFFER: usize = 64 << 10;

/// Most files with one stem.
const FILES: u32 = 1000;

/// The source of time: nanoseconds since the beginning of 1970.
pub type Clock = Box<dyn FnMut() -> u64 + Send>;

fn machine() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A capture file being written.
pub struct CaptureFile {
    name: String,
    out: Option<Box<dyn Write + Send>>,
    buffer: Vec<u8>,
    clock: Clock,
    rank: u32,
    snap: usize,
    written: u64,
    lost: u64,
}

impl CaptureFile {
    /// Creates the capture file of the process `me`, which keeps the first `snap` bytes of each
    /// payload.
    ///
    /// Its name is `stem`.pcapng, or `stem`.1.pcapng and so on if that exists (several engines of
    /// one process, an earlier job of the same name). An error is logged and ends the capture, but
    /// not the job.
    pub fn create(stem: &str, me: PeerName, snap: usize) -> CaptureFile {
        let (mut number, mut name) = (0, format!("{stem}.pcapng"));
        let created = loop {
            match files::create_new(name.as_ref()) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists && number < FILES => {
                    number += 1;
                    name = format!("{stem}.{number}.pcapng");
                }
                other => break other,
            }
        };
        match created {
            Ok(file) => CaptureFile::new(Box::new(file), name, Box::new(machine), me, snap),
            Err(e) => {
                let mut capture =
                    CaptureFile::new(Box::new(std::io::sink()), name, Box::new(machine), me, snap);
                capture.give_up(&e);
                capture
            }
        }
    }

    /// Creates a capture that goes to any writer, with times of any clock.
    pub fn new(
        out: Box<dyn Write + Send>,
        name: String,
        clock: Clock,
        me: PeerName,
        snap: usize,
    ) -> CaptureFile {
        let mut buffer = Vec::with_capacity(BUFFER + 4096);
        let comment = format!("{me}, process {}", std::process::id());
        let whole = super::record::RECORD_LEN + netmod_core::HDR_LEN + snap;
        pcapng::begin(&mut buffer, &comment, &format!("rank {}", me.rank), whole as u32);
        CaptureFile { name, out: Some(out), buffer, clock, rank: me.rank, snap, written: 0, lost: 0 }
    }

    pub(super) fn snap(&self) -> usize {
        self.snap
    }

    /// Returns the number of records written, and of records lost to an error.
    pub fn counts(&self) -> (u64, u64) {
        (self.written, self.lost)
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a record of `parts`; `len` is the length of the whole payload.
    pub(super) fn add(&mut self, what: What, peer: PeerName, vc: VcId, len: u64, parts: [&[u8]; 2]) {
        if self.out.is_none() {
            self.lost += 1;
            return;
        }
        self.written += 1;
        let nanos = (self.clock)();
        let head = Record::emit(what, self.rank, peer, vc, len);
        let whole = head.len() as u64 + parts[0].len() as u64 + len;
        pcapng::packet(&mut self.buffer, nanos, &[&head, parts[0], parts[1]], whole);
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes the buffered records.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if let Some(out) = &mut self.out
            && let Err(e) = out.write_all(&self.buffer).and_then(|()| out.flush())
        {
            self.give_up(&e);
        }
        self.buffer.clear();
    }

    #[cold]
    fn give_up(&mut self, e: &std::io::Error) {
        self.out = None;
        let text = format!(
            "the capture to {} ends here: {e}; the job goes on without it. Is the disk full, or the folder missing?",
            self.name
        );
        if tracing::dispatcher::has_been_set() {
            tracing::error!(target: "netmod::capture", "{text}");
        } else {
            netmod_core::tell::on_stderr(&text);
        }
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        self.flush();
    }
}

impl std::fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureFile")
            .field("name", &self.name)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
