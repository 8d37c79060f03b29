//! The windows of a transfer: what this side has registered, the keys of the peer's, and the put or
//! get under way.
//!
//! A registration covers memory in one piece. Other data goes through bounce buffers, a window or a
//! piece at a time: packed before it is exposed or put, unpacked after it was put or got. Where no
//! buffer is left, the machines take the Null mode.

use netmod_core::VcError;
use netmod_core::rma::{RegionId, RemoteKey};
use netmod_lmt::Window;
use netmod_lmt::cookie::Keyed;

/// Size of a bounce buffer, in bytes. It stays in a core's cache on its way.
pub(super) const BOUNCE: usize = 256 << 10;
/// Most bounce buffers of a device; 8 MiB in all.
const MAX_BOUNCES: usize = 32;
/// Bounce buffers that are kept in any case.
const FEW_BOUNCES: usize = 4;

/// Pool of bounce buffers. It shrinks to the recent peak when all are free.
#[derive(Debug, Default)]
pub(super) struct Bounces {
    free: Vec<Vec<u8>>,
    used: usize,
    /// Most that were in use at once since all were free.
    most: usize,
}

impl Bounces {
    /// Takes a buffer; `None` if all are in use.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.used == MAX_BOUNCES {
            return None;
        }
        self.used += 1;
        self.most = self.most.max(self.used);
        Some(self.free.pop().unwrap_or_else(|| vec![0; BOUNCE]))
    }

    /// Gives a buffer back.
    pub(super) fn give(&mut self, buf: Vec<u8>) {
        self.used -= 1;
        self.free.push(buf);
        if self.used == 0 {
            self.free.truncate(self.most.max(self.free.len() / 2).max(FEW_BOUNCES));
            self.most = 0;
        }
    }
}

/// The windows of a transfer by Put or Get, by number modulo 2.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Windows that the peer can access.
    exposed: [Option<Exposed>; 2],
    /// Keys of the peer's windows that have not begun to move.
    keys: [Option<(u32, RemoteKey)>; 2],
    /// The window that this side puts or gets.
    pub(super) moving: Option<Moving>,
    /// Buffer for moves of data that is not in one piece. It is kept from the first one on, so that
    /// no later one goes without.
    pub(super) bounce: Option<Vec<u8>>,
    /// Cause of what was not possible, for the error if that ends the transfer.
    pub(super) failure: Option<VcError>,
}

/// A registered window.
#[derive(Debug)]
pub(super) struct Exposed {
    pub(super) window: Window,
    pub(super) region: RegionId,
    pub(super) key: RemoteKey,
    /// The buffer that holds the data, if it is not the user's.
    pub(super) bounce: Option<Vec<u8>>,
}

/// A window that this side puts or gets, piece by piece.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) window: Window,
    pub(super) key: RemoteKey,
    /// Bytes of the window that have moved.
    pub(super) done: usize,
    pub(super) piece: Option<Piece>,
}

/// A piece under way.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) region: RegionId,
    pub(super) len: usize,
    /// It goes through the bounce buffer.
    pub(super) bounced: bool,
}

impl Windows {
    /// Stores a registered window. Returns true if another one is registered, too.
    pub(super) fn expose(&mut self, exposed: Exposed) -> bool {
        let another = self.exposed.iter().any(Option::is_some);
        let slot = exposed.window.index as usize % 2;
        self.exposed[slot] = Some(exposed);
        another
    }

    /// Removes a registered window.
    pub(super) fn unexpose(&mut self, index: u32) -> Option<Exposed> {
        self.exposed[index as usize % 2].take_if(|e| e.window.index == index)
    }

    /// Returns a registered window with its key, for the peer.
    pub(super) fn keyed(&self, window: Window) -> Option<Keyed> {
        let exposed = self.exposed[window.index as usize % 2].as_ref()?;
        (exposed.window == window).then_some(Keyed { window, key: exposed.key })
    }

    /// Stores the key of a window of the peer's.
    pub(super) fn learn(&mut self, keyed: Keyed) {
        let Keyed { window, key } = keyed;
        self.keys[window.index as usize % 2] = Some((window.index, key));
    }

    /// Begins to move a window of the peer's. Returns false if its key is not known.
    pub(super) fn begin_move(&mut self, window: Window) -> bool {
        let key = self.keys[window.index as usize % 2].take().filter(|(index, _)| *index == window.index);
        self.moving = key.map(|(_, key)| Moving { window, key, done: 0, piece: None });
        self.moving.is_some()
    }

    /// Ends the move, with a cause if it failed.
    pub(super) fn end_move(&mut self, failure: Option<VcError>) {
        (self.moving, self.failure) = (None, failure);
    }

    /// Returns true if the next piece of a move has not begun.
    pub(super) fn is_stalled(&self) -> bool {
        self.moving.as_ref().is_some_and(|m| m.piece.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `n` buffers at once and gives them back; returns how many had to be made.
    fn use_at_once(b: &mut Bounces, n: usize) -> usize {
        let kept = b.free.len();
        let taken: Vec<_> = (0..n).map(|_| b.take().expect("a buffer")).collect();
        taken.into_iter().for_each(|buf| b.give(buf));
        n.saturating_sub(kept)
    }

    #[test]
    fn buffers_are_kept_as_long_as_they_are_needed() {
        let mut b = Bounces::default();
        assert_eq!(use_at_once(&mut b, 16), 16);
        for _ in 0..3 {
            assert_eq!(use_at_once(&mut b, 16), 0);
        }
        let kept: Vec<usize> = (0..5)
            .map(|_| {
                use_at_once(&mut b, 2);
                b.free.len()
            })
            .collect();
        assert_eq!(kept, [8, 4, 4, 4, 4]);
    }

    #[test]
    fn there_are_only_so_many_buffers() {
        let mut b = Bounces::default();
        let taken: Vec<_> = (0..MAX_BOUNCES).map(|_| b.take().expect("a buffer")).collect();
        assert!(b.take().is_none());
        taken.into_iter().for_each(|buf| b.give(buf));
        assert!(b.take().is_some());
    }
}
