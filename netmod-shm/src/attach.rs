//! The memory of another process, by cross-memory attach (`process_vm_readv(2)`).
//!
//! A process is known by its number, and by a *token* in its memory: random bytes, which are read
//! by each call that reads, and before each one that writes. So another process that has got the
//! number since, or has it in another PID namespace, is never taken for the one that is meant.

use std::io;
use std::sync::OnceLock;

use netmod_core::{IoVec, Segment};

use crate::sys::{self, Attach};

/// Bytes of a token.
const TOKEN: usize = 16;
/// Pieces of memory on each side that one call moves beside the token.
const PIECES: usize = sys::PIECES - 1;

/// The reason why the memory of another process cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process with the peer's number is not the peer.
    #[error("process {pid} is another one here; are the ranks in different PID namespaces?")]
    Another {
        /// The number.
        pid: u32,
    },
    /// The kernel does not permit it.
    #[error(
        "cross-memory attach to process {pid}: {error}; do the ranks have one user, and does the container or \
         kernel.yama.ptrace_scope forbid it?"
    )]
    Forbidden {
        /// The process.
        pid: u32,
        /// The error of the system call.
        error: io::Error,
    },
}

/// Bytes of another process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The address there.
    pub at: u64,
    /// Their number.
    pub len: usize,
}

impl Extent {
    pub(crate) fn to_iovec(self) -> IoVec {
        IoVec { base: std::ptr::without_provenance_mut(self.at as usize), len: self.len }
    }
}

/// A transfer of pieces here from or to pieces there.
type Call = fn(&PeerMemory, &[IoVec], &[IoVec]) -> Result<usize, AttachError>;

/// A process whose memory is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    pid: u32,
    token: [u8; TOKEN],
    token_at: u64,
}

impl PeerMemory {
    /// Bytes that tell of a process.
    pub const LEN: usize = 32;

    /// Creates the memory of a process that has a token at an address.
    pub(crate) fn new(pid: u32, token: [u8; TOKEN], token_at: u64) -> PeerMemory {
        PeerMemory { pid, token, token_at }
    }

    /// Returns what others are to be told of this process; `None` without random bytes.
    pub fn of_this_process() -> Option<PeerMemory> {
        static TOKEN_HERE: OnceLock<Option<[u8; TOKEN]>> = OnceLock::new();
        let token = TOKEN_HERE.get_or_init(|| {
            let mut token = [0; TOKEN];
            getrandom::fill(&mut token).ok().map(|()| token)
        });
        let token = token.as_ref()?;
        Some(PeerMemory::new(std::process::id(), *token, token.as_ptr().expose_provenance() as u64))
    }

    /// Returns it as bytes.
    pub fn to_bytes(self) -> [u8; PeerMemory::LEN] {
        let mut bytes = [0; PeerMemory::LEN];
        bytes[..8].copy_from_slice(&u64::from(self.pid).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.token_at.to_le_bytes());
        bytes[16..].copy_from_slice(&self.token);
        bytes
    }

    /// Reads what [`PeerMemory::to_bytes`] has written.
    pub fn from_bytes(bytes: [u8; PeerMemory::LEN]) -> PeerMemory {
        let (words, _) = bytes.as_chunks::<8>();
        let [pid, token_at] = [words[0], words[1]].map(u64::from_le_bytes);
        let mut token = [0; TOKEN];
        token.copy_from_slice(&bytes[16..]);
        PeerMemory::new(pid as u32, token, token_at)
    }

    fn token_there(&self) -> IoVec {
        Extent { at: self.token_at, len: TOKEN }.to_iovec()
    }

    fn forbidden(&self) -> impl Fn(io::Error) -> AttachError {
        let pid = self.pid;
        move |error| AttachError::Forbidden { pid, error }
    }

    /// Checks that this process may reach the other's memory; returns its number.
    ///
    /// # Errors
    /// Says why not.
    pub fn check(&self) -> Result<u32, AttachError> {
        self.read_into(&[], &[]).map(|_| self.pid)
    }

    /// Reads pieces into memory that is lent for it, and the token; returns the bytes read.
    pub(crate) fn read_into(&self, ours: &[IoVec], theirs: &[IoVec]) -> Result<usize, AttachError> {
        let mut found = [0; TOKEN];
        let mut near = [IoVec::EMPTY; PIECES + 1];
        let mut far = near;
        near[0] = IoVec { base: found.as_mut_ptr(), len: TOKEN };
        far[0] = self.token_there();
        near[1..][..ours.len()].copy_from_slice(ours);
        far[1..][..theirs.len()].copy_from_slice(theirs);
        let moved = sys::attach(Attach::Read, self.pid, &near[..=ours.len()], &far[..=theirs.len()]);
        match moved.map_err(self.forbidden())? {
            moved if found == self.token => Ok(moved - TOKEN),
            _ => Err(AttachError::Another { pid: self.pid }),
        }
    }

    /// Writes pieces after a look at the token; returns the bytes written.
    pub(crate) fn write_from(&self, ours: &[IoVec], theirs: &[IoVec]) -> Result<usize, AttachError> {
        self.check()?;
        sys::attach(Attach::Write, self.pid, ours, theirs).map_err(self.forbidden())
    }

    /// Reads into a place, from its position on; returns the bytes read, at most as many as a call
    /// moves.
    ///
    /// # Errors
    /// Says why nothing could be read.
    pub fn read(&self, into: &mut Segment, from: &[Extent]) -> Result<usize, AttachError> {
        self.transfer(into, from, PeerMemory::read_into)
    }

    /// Writes the data of a place, from its position on; returns the bytes written, at most as many
    /// as a call moves.
    ///
    /// # Errors
    /// Says why nothing could be written.
    pub fn write(&self, from: &mut Segment, to: &[Extent]) -> Result<usize, AttachError> {
        self.transfer(from, to, PeerMemory::write_from)
    }

    fn transfer(&self, local: &mut Segment, remote: &[Extent], call: Call) -> Result<usize, AttachError> {
        let (mut near, mut far) = ([IoVec::EMPTY; PIECES], [IoVec::EMPTY; PIECES]);
        let (n, _) = local.next_iovecs(usize::MAX, &mut near);
        let m = remote.len().min(PIECES);
        far.iter_mut().zip(remote).for_each(|(iov, extent)| *iov = extent.to_iovec());
        let moved = call(self, &near[..n], &far[..m])?;
        local.advance(moved);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::*;

    fn segment(bytes: &mut [u8]) -> Segment {
        // SAFETY: the caller keeps the bytes while the segment is used.
        unsafe { Segment::contig(bytes.as_mut_ptr(), bytes.len()) }
    }

    #[test]
    fn pieces_go_to_and_from_memory_of_which_the_address_is_known() {
        let me = PeerMemory::of_this_process().expect("random bytes");
        assert_eq!(PeerMemory::from_bytes(me.to_bytes()), me);
        assert!(me.check().is_ok_and(|pid| pid == std::process::id()));
        let there: Vec<u8> = (0..100).collect();
        let base = there.as_ptr().expose_provenance() as u64;
        let mut here = [0u8; 20];
        let from = [Extent { at: base + 90, len: 5 }, Extent { at: base + 10, len: 30 }];
        let moved = me.read(&mut segment(&mut here), &from);
        assert_eq!(moved.ok(), Some(20));
        assert_eq!((&here[..5], &here[5..]), (&there[90..95], &there[10..25]));
        let mut target = [0u8; 8];
        let at = target.as_mut_ptr().expose_provenance() as u64;
        let moved = me.write(&mut segment(&mut here[..4]), &[Extent { at: at + 2, len: 6 }]);
        assert_eq!((moved.ok(), target), (Some(4), [0, 0, 90, 91, 92, 93, 0, 0]));
    }

    #[test]
    fn a_process_without_the_token_is_another_one() {
        let me = PeerMemory::of_this_process().expect("random bytes");
        let other = PeerMemory { token: [7; TOKEN], ..me };
        assert!(matches!(other.check(), Err(AttachError::Another { .. })));
        let mut byte = [1u8];
        let at = byte.as_mut_ptr().expose_provenance() as u64;
        assert!(other.write(&mut segment(&mut [9]), &[Extent { at, len: 1 }]).is_err());
        assert_eq!(byte, [1]);
        let nowhere = PeerMemory { token_at: 8, ..me };
        assert!(matches!(nowhere.check(), Err(AttachError::Forbidden { .. })));
    }
}
