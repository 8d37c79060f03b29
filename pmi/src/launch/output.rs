//! Output of ranks: labelled lines, or captured.

use super::writer::{Unwritten, Writer};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Most bytes per stream that a rank may have written and the launcher has not; beyond it the rank
/// waits.
const MAX_UNWRITTEN: usize = 128 * 1024;

/// Longest piece in bytes; a longer line is split.
const MAX_PIECE: usize = 64 * 1024;

/// A pipe from a rank.
#[derive(Debug)]
pub(super) struct Output {
    fd: OwnedFd,
    sort: Sort,
}

#[derive(Debug)]
enum Sort {
    Label { prefix: String, line: Vec<u8>, unwritten: Unwritten },
    Capture { bytes: Vec<u8>, limit: usize, truncated: bool },
}

/// The state of a pipe after a read.
#[derive(Debug)]
pub(super) enum Flow {
    /// Data was read; there may be more.
    More,
    /// Nothing yet.
    Later,
    /// Full: no reading until more is written.
    Full,
    /// It has ended, or its data can no longer be written.
    Ended,
    /// It cannot be read.
    Failed(io::Error),
}

impl Output {
    pub(super) fn labelled(fd: OwnedFd, rank: u32) -> io::Result<Output> {
        sys::set_nonblocking(fd.as_fd())?;
        let prefix = format!("[{rank}] ");
        Ok(Output { fd, sort: Sort::Label { prefix, line: Vec::new(), unwritten: Unwritten::default() } })
    }

    pub(super) fn captured(fd: OwnedFd, limit: usize) -> io::Result<Output> {
        sys::set_nonblocking(fd.as_fd())?;
        Ok(Output { fd, sort: Sort::Capture { bytes: Vec::new(), limit, truncated: false } })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the captured output, and whether there was more.
    pub(super) fn into_captured(self) -> Option<(Vec<u8>, bool)> {
        match self.sort {
            Sort::Capture { bytes, truncated, .. } => Some((bytes, truncated)),
            Sort::Label { .. } => None,
        }
    }

    /// Returns true if so much is unwritten that no more is read.
    pub(super) fn is_full(&self) -> bool {
        match &self.sort {
            Sort::Label { unwritten, .. } => unwritten.load(Ordering::Relaxed) >= MAX_UNWRITTEN,
            Sort::Capture { .. } => false,
        }
    }

    /// Reads once and passes the data on, unless too much is unwritten.
    pub(super) fn pass(&mut self, writer: &mut Writer) -> Flow {
        if self.is_full() {
            return Flow::Full;
        }
        if writer.has_failed() && matches!(self.sort, Sort::Label { .. }) {
            // Closing the pipe tells the rank.
            return Flow::Ended;
        }
        let mut chunk = [0; 16 * 1024];
        let count = loop {
            match sys::read(self.fd.as_fd(), &mut chunk) {
                Ok(count) => break count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Flow::Later,
                Err(e) => return Flow::Failed(e),
            }
        };
        match &mut self.sort {
            Sort::Capture { bytes, limit, truncated } => {
                let room = *limit - bytes.len();
                bytes.extend_from_slice(&chunk[..count.min(room)]);
                *truncated |= count > room;
            }
            Sort::Label { prefix, line, unwritten } => {
                let mut text = Vec::new();
                label(prefix, line, &chunk[..count], &mut text);
                writer.write(text, unwritten);
            }
        }
        if count == 0 { Flow::Ended } else { Flow::More }
    }

    /// Passes on a last line without newline.
    pub(super) fn finish(&mut self, writer: &mut Writer) {
        if let Sort::Label { prefix, line, unwritten } = &mut self.sort {
            let mut text = Vec::new();
            label(prefix, line, &[], &mut text);
            writer.write(text, unwritten);
        }
    }
}

/// Adds `chunk` to the unfinished `line` and appends finished lines with the prefix to `text`.
///
/// An empty chunk is the end.
fn label(prefix: &str, line: &mut Vec<u8>, chunk: &[u8], text: &mut Vec<u8>) {
    let mut emit = |line: &mut Vec<u8>| {
        text.extend_from_slice(prefix.as_bytes());
        text.append(line);
        text.push(b'\n');
    };
    for part in chunk.split_inclusive(|b| *b == b'\n') {
        let (body, ends) = match part.strip_suffix(b"\n") {
            Some(body) => (body, true),
            None => (part, false),
        };
        line.extend_from_slice(body);
        if ends || line.len() >= MAX_PIECE {
            emit(line);
        }
    }
    if chunk.is_empty() && !line.is_empty() {
        emit(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_the_prefix_however_they_are_cut() {
        let input = b"one\n\ntwo three\nlast";
        for cut in 1..input.len() {
            let (mut line, mut text) = (Vec::new(), Vec::new());
            for chunk in input.chunks(cut) {
                label("[7] ", &mut line, chunk, &mut text);
            }
            label("[7] ", &mut line, &[], &mut text);
            assert_eq!(text, b"[7] one\n[7] \n[7] two three\n[7] last\n", "chunks of {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_cut_and_stays_bounded() {
        let (mut line, mut text) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            label("[0] ", &mut line, &[b'x'; 10_000], &mut text);
            assert!(line.len() < MAX_PIECE);
        }
        label("[0] ", &mut line, &[], &mut text);
        assert_eq!(text.iter().filter(|b| **b == b'x').count(), 400_000);
    }
}
