//! One-sided transfers, for netmods that have them; large-message transfer is built on this.

mod atomic;
mod regions;

use core::fmt;
use std::borrow::Cow;

pub use atomic::{AtomicArgs, AtomicOp, Atomics, Coherence, RmaAtomic, Word};
pub use regions::{Region, RegionError, RegionKind, Regions, Remote};

use crate::buf::RmaBuf;
use crate::error::VcError;
use crate::slab::VcId;
use crate::state::Core;

/// The purpose of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Peers read it (Get mode, the sender's buffer).
    RemoteRead,
    /// Peers write it (Put mode, the receiver's buffer).
    RemoteWrite,
    /// Peers read and write it, and change it by atomic operations (the memory of a window).
    RemoteAll,
    /// Only local operations use it.
    Local,
}

impl Access {
    /// Returns the wire form, which keys of netmods carry.
    pub const fn to_wire(self) -> u8 {
        match self {
            Access::Local => 0,
            Access::RemoteRead => 1,
            Access::RemoteWrite => 2,
            Access::RemoteAll => 3,
        }
    }

    /// Returns the purpose that a byte of a key means; `None` if it means none.
    pub const fn from_wire(byte: u8) -> Option<Access> {
        match byte {
            0 => Some(Access::Local),
            1 => Some(Access::RemoteRead),
            2 => Some(Access::RemoteWrite),
            3 => Some(Access::RemoteAll),
            _ => None,
        }
    }

    /// Returns true if a registration for this purpose permits an operation that needs `other`.
    pub fn permits(self, other: Access) -> bool {
        self == other || (self == Access::RemoteAll && other != Access::Local)
    }
}

/// A local handle of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u64);

/// The key that a peer needs to access a registration: opaque bytes in the netmod's own encoding.
///
/// Examples are an rkey, an address, an offset or a process id. It is held inline, so a transfer
/// needs no allocation.
#[derive(Clone, Copy)]
pub struct RemoteKey {
    len: u8,
    bytes: [u8; RemoteKey::MAX],
}

impl RemoteKey {
    /// Largest size in bytes.
    pub const MAX: usize = 64;

    /// Creates a key of these bytes; `None` if they are more than [`RemoteKey::MAX`].
    pub fn new(bytes: &[u8]) -> Option<RemoteKey> {
        let mut key = RemoteKey { len: u8::try_from(bytes.len()).ok()?, bytes: [0; RemoteKey::MAX] };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// Creates a key of an array's bytes, which must not be more than [`RemoteKey::MAX`].
    pub fn of<const N: usize>(bytes: [u8; N]) -> RemoteKey {
        const { assert!(N <= RemoteKey::MAX) };
        let mut key = RemoteKey { len: N as u8, bytes: [0; RemoteKey::MAX] };
        key.bytes[..N].copy_from_slice(&bytes);
        key
    }

    /// Creates a key of numbers, little-endian, and the bytes behind them.
    pub const fn pack<const W: usize, const B: usize>(words: [u64; W], rest: [u8; B]) -> RemoteKey {
        const { assert!(8 * W + B <= RemoteKey::MAX) };
        let mut bytes = [0; RemoteKey::MAX];
        let mut i = 0;
        while i < 8 * W + B {
            bytes[i] = if i < 8 * W { words[i / 8].to_le_bytes()[i % 8] } else { rest[i - 8 * W] };
            i += 1;
        }
        RemoteKey { len: (8 * W + B) as u8, bytes }
    }

    /// Returns the parts of a key that [`RemoteKey::pack`] made; `None` if it has another length.
    pub fn unpack<const W: usize, const B: usize>(&self) -> Option<([u64; W], [u8; B])> {
        let (words, rest) = self.bytes().split_last_chunk::<B>()?;
        let (words, odd) = words.as_chunks::<8>();
        let words: &[[u8; 8]; W] = words.try_into().ok().filter(|_| odd.is_empty())?;
        Some((words.map(u64::from_le_bytes), *rest))
    }

    /// Returns its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl PartialEq for RemoteKey {
    fn eq(&self, other: &RemoteKey) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for RemoteKey {}

impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteKey").field(&self.bytes()).finish()
    }
}

/// A put or get: `len` bytes between a registration of this side and one of the peer.
#[derive(Clone, Copy, Debug)]
pub struct RmaOp<'a> {
    /// The VC whose peer takes part.
    pub vc: VcId,
    /// This side's registration, for [`Access::Local`].
    pub local: RegionId,
    /// Offset in it, in bytes.
    pub at: usize,
    /// The key of the peer's registration.
    pub key: &'a RemoteKey,
    /// Offset in that, in bytes.
    pub remote_at: usize,
    /// Bytes to move.
    pub len: usize,
    /// The caller's number of the operation, which [`crate::Event::RmaDone`] names.
    pub op: u64,
}

/// The abilities of one-sided transfers, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaCaps {
    /// Most bytes in one put or get.
    pub max_op: usize,
    /// Most bytes registered at once; larger buffers are registered window by window (COOKIE).
    ///
    /// Half of it is for [`Access::Local`], so that transfers which expose memory never block those
    /// which move data into it.
    pub max_registered: usize,
    /// True if the target must make progress for the operation to complete.
    pub target_progress: bool,
    /// Number of this process's device that the VC uses. A registration for one VC serves all VCs
    /// of the same netmod and device.
    pub device: u32,
    /// The atomic operations, as far as this side knows: the peer has to have them, too.
    pub atomics: Atomics,
}

/// The availability of one kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Now.
    Yes,
    /// Not now, but perhaps later: its connections are not established.
    Soon,
    /// Not on this VC.
    Never,
}

impl Ability {
    /// Returns true if it is available now.
    pub fn is_now(self) -> bool {
        self == Ability::Yes
    }
}

/// The one-sided transfers between this side and the peer of a VC, as far as this side knows.
///
/// The peer has to check its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaUse {
    /// This side can put to the peer's regions.
    pub puts: Ability,
    /// This side can get from the peer's regions.
    pub gets: Ability,
    /// The peer can put to this side's regions.
    pub is_put_to: Ability,
    /// The peer can get from this side's regions.
    pub is_got_from: Ability,
    /// Length in bytes below which other transfers are as fast.
    pub worth: usize,
    /// Length in bytes from which on both sides copy in a get, if the owner of the memory polls;
    /// `usize::MAX`: never.
    pub joint: usize,
}

impl RmaUse {
    /// Everything, for messages of any length.
    pub const ALL: RmaUse = RmaUse::each(Ability::Yes);
    /// Nothing until there is a connection.
    pub const SOON: RmaUse = RmaUse::each(Ability::Soon);

    const fn each(can: Ability) -> RmaUse {
        RmaUse { puts: can, gets: can, is_put_to: can, is_got_from: can, worth: 0, joint: usize::MAX }
    }
}

/// Put, get and atomic operations on registered memory. A netmod that has them returns itself from
/// [`crate::Module::rma`].
///
/// A registration lives from [`Rma::register`] to [`Rma::deregister`]; it is never cached beyond.
/// [`crate::Event::RmaDone`] reports the end of an operation, even a failed one; after it the
/// netmod no longer accesses the memory, and what was put or changed is in the peer's memory.
/// Operations that are in flight at the same time have no order.
///
/// A netmod that ends, by [`crate::Module::finalize`] or a drop, deregisters everything, and waits
/// as [`Rma::deregister`] does, because the memory is freed right after that.
pub trait Rma {
    /// Returns the transfers that are available on a VC.
    ///
    /// It is called before each large message, so a netmod that has to prepare for transfers can
    /// begin to.
    ///
    /// # Errors
    ///
    /// Returns why there are none, and will be none, as one human-readable line.
    fn usable(&mut self, core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>>;

    /// Returns what it can do on this VC, and its limits. The answer does not change while the VC
    /// is connected.
    fn caps(&self, core: &Core, vc: VcId) -> RmaCaps;

    /// Registers memory, under the contract of [`crate::buf`] until it is deregistered.
    ///
    /// # Errors
    ///
    /// [`crate::VcErrorKind::Resource`] when a limit is reached; the caller then tries a smaller
    /// window.
    fn register(
        &mut self,
        core: &mut Core,
        vc: VcId,
        mem: RmaBuf,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError>;

    /// Ends a registration.
    ///
    /// When this returns, neither the peer nor an operation of this side can access the memory by
    /// it any more; such an operation ends with an error, and its event still comes. This call
    /// waits for a part of the peer's put that is just being written, or of a get that the peer
    /// helps with.
    ///
    /// # Errors
    ///
    /// Fails if the handle is not live.
    fn deregister(&mut self, core: &mut Core, region: RegionId) -> Result<(), VcError>;

    /// Starts a put: writes local memory to the peer's registration.
    ///
    /// # Errors
    ///
    /// Fails if nothing was started; no event follows then.
    fn put(&mut self, core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError>;

    /// Starts a get: reads the peer's registration into local memory.
    ///
    /// # Errors
    ///
    /// Fails if nothing was started; no event follows then. A netmod without get returns
    /// [`crate::VcErrorKind::Unsupported`].
    fn get(&mut self, core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError>;

    /// Starts an atomic operation on a word of the peer's registration.
    ///
    /// # Errors
    ///
    /// Fails if nothing was started; no event follows then. An operation that is not among
    /// [`RmaCaps::atomics`] is [`crate::VcErrorKind::Unsupported`].
    fn atomic(&mut self, core: &mut Core, op: &RmaAtomic<'_>) -> Result<(), VcError>;

    /// Returns true if everything that was started with the peer of a VC, or with all peers, has
    /// ended. Call it again after a poll until it does.
    ///
    /// # Errors
    ///
    /// Fails if the VC is down, or not this netmod's; operations with its peer end with errors.
    fn flush(&mut self, core: &mut Core, vc: Option<VcId>) -> Result<bool, VcError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_unpacked_as_it_was_packed_and_not_otherwise() {
        let key = RemoteKey::pack([1, u64::MAX, 3 << 40], [7, 9]);
        assert_eq!(key.bytes().len(), 26);
        assert_eq!(key.unpack(), Some(([1, u64::MAX, 3 << 40], [7, 9])));
        assert_eq!(key.unpack::<3, 1>(), None);
        assert_eq!(key.unpack::<2, 10>().map(|(words, _)| words), Some([1, u64::MAX]));
        for len in 0..=RemoteKey::MAX {
            let other = RemoteKey::new(&vec![5; len]).expect("a key");
            assert_eq!(other.unpack::<3, 2>().is_some(), len == 26, "{len}");
        }
    }

    #[test]
    fn each_purpose_has_its_byte() {
        for access in [Access::Local, Access::RemoteRead, Access::RemoteWrite, Access::RemoteAll] {
            assert_eq!(Access::from_wire(access.to_wire()), Some(access));
        }
        assert_eq!((4..=255).find_map(Access::from_wire), None);
    }

    #[test]
    fn memory_of_windows_permits_everything_but_local_use() {
        let all = [Access::Local, Access::RemoteRead, Access::RemoteWrite, Access::RemoteAll];
        for access in all {
            for needs in all {
                let window = access == Access::RemoteAll && needs != Access::Local;
                assert_eq!(access.permits(needs), window || access == needs, "{access:?} {needs:?}");
            }
        }
    }
}
