//! One-sided transfers, offered by netmods that have them; large-message transfer is built on this.

use core::fmt;
use std::borrow::Cow;

use crate::buf::IoVec;
use crate::engine::Core;
use crate::error::VcError;
use crate::slab::VcId;

/// What a registration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Peers read it (Get mode, the sender's buffer).
    RemoteRead,
    /// Peers write it (Put mode, the receiver's buffer).
    RemoteWrite,
    /// Only local operations use it.
    Local,
}

/// Local handle of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u64);

/// What a peer must know to reach a registration: opaque bytes in the netmod's own encoding (rkey, address, offset, process id). It
/// needs no memory beside itself, so that a transfer costs no allocation.
#[derive(Clone, Copy)]
pub struct RemoteKey {
    len: u8,
    bytes: [u8; RemoteKey::MAX],
}

impl RemoteKey {
    /// Most bytes.
    pub const MAX: usize = 64;

    /// A key of these bytes; `None` if they are more than [`RemoteKey::MAX`].
    pub fn new(bytes: &[u8]) -> Option<RemoteKey> {
        let mut key = RemoteKey { len: u8::try_from(bytes.len()).ok()?, bytes: [0; RemoteKey::MAX] };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// A key of as many bytes as the array has, which must not be more than [`RemoteKey::MAX`].
    pub fn of<const N: usize>(bytes: [u8; N]) -> RemoteKey {
        const { assert!(N <= RemoteKey::MAX) };
        let mut key = RemoteKey { len: N as u8, bytes: [0; RemoteKey::MAX] };
        key.bytes[..N].copy_from_slice(&bytes);
        key
    }

    /// Its bytes.
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

/// Limits that a transfer must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaLimits {
    /// Most bytes in one put or get.
    pub max_op: usize,
    /// Most bytes registered at once; larger buffers are registered window by window (COOKIE). Half of it is for
    /// [`Access::Local`], so that transfers which expose memory never keep out those which move into it.
    pub max_registered: usize,
    /// Whether the target must make progress for the operation to complete.
    pub target_progress: bool,
}

/// Whether one kind of transfer is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Now.
    Yes,
    /// Not now, and perhaps later: its connections are not made.
    Soon,
    /// Not on this VC.
    Never,
}

impl Ability {
    /// Returns true if it is possible now.
    pub fn is_now(self) -> bool {
        self == Ability::Yes
    }
}

/// What of one-sided transfers there is between this side and the peer of a VC, as far as this side knows. That
/// the peer can do its part is the peer's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaUse {
    /// This side can put to regions of the peer's.
    pub puts: Ability,
    /// This side can get from regions of the peer's.
    pub gets: Ability,
    /// The peer can put to regions of this side.
    pub is_put_to: Ability,
    /// The peer can get from regions of this side.
    pub is_got_from: Ability,
    /// Shorter messages, in bytes, are as fast without.
    pub worth: usize,
    /// From so many bytes on a get is copied by both sides at once, if the owner of the memory polls; `usize::MAX`: never.
    pub joint: usize,
}

impl RmaUse {
    /// Everything, for messages of any length.
    pub const ALL: RmaUse = RmaUse::each(Ability::Yes);
    /// Nothing as long as there is no connection.
    pub const SOON: RmaUse = RmaUse::each(Ability::Soon);

    const fn each(can: Ability) -> RmaUse {
        RmaUse { puts: can, gets: can, is_put_to: can, is_got_from: can, worth: 0, joint: usize::MAX }
    }
}

/// Put and get on registered memory. A netmod that has it says so by [`crate::Module::rma`].
///
/// A registration lives from [`Rma::register`] to [`Rma::deregister`]; it is never cached beyond.
/// Ends are reported as [`crate::Event::RmaDone`]; after the event (also a failed one) the netmod touches
/// the memory no more.
///
/// A netmod that ends, by [`crate::Module::finalize`] or a drop, deregisters all that is registered, and waits for it as
/// [`Rma::deregister`] does: the memory is freed right behind that.
pub trait Rma {
    /// Says what of it there is on a VC. Asked before each large message, so that a netmod which has to
    /// prepare for transfers can begin to.
    ///
    /// # Errors
    /// Why there is none, and will be none, as one line that a person understands.
    fn usable(&mut self, core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>>;

    /// Its limits on this VC.
    fn limits(&self, core: &Core, vc: VcId) -> RmaLimits;

    /// Registers memory, under the contract of [`crate::buf`] until it is deregistered.
    ///
    /// # Errors
    /// [`crate::VcErrorKind::Resource`] when a limit is hit; the caller then tries a smaller window.
    fn register(
        &mut self,
        core: &mut Core,
        vc: VcId,
        mem: IoVec,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError>;

    /// Ends a registration. When this returns, nobody reaches the memory by it any more: neither the peer, nor an
    /// operation of this side, which ends with an error. Its event still comes. For a part of a put of the
    /// peer's that is just being written, or of a get that the peer helps with, it waits.
    ///
    /// # Errors
    /// If the handle is not live.
    fn deregister(&mut self, core: &mut Core, region: RegionId) -> Result<(), VcError>;

    /// Starts writing local memory `(region, offset, len)` to `offset` of the peer's registration.
    ///
    /// # Errors
    /// If nothing was started; no event follows then.
    #[allow(clippy::too_many_arguments)]
    fn put(
        &mut self,
        core: &mut Core,
        vc: VcId,
        local: RegionId,
        at: usize,
        key: &RemoteKey,
        remote_at: usize,
        len: usize,
        op: u64,
    ) -> Result<(), VcError>;

    /// Starts reading `len` bytes at `remote_at` of the peer's registration into local memory.
    ///
    /// # Errors
    /// If nothing was started; no event follows then. [`crate::VcErrorKind::Unsupported`] by a netmod that has no get.
    #[allow(clippy::too_many_arguments)]
    fn get(
        &mut self,
        core: &mut Core,
        vc: VcId,
        local: RegionId,
        at: usize,
        key: &RemoteKey,
        remote_at: usize,
        len: usize,
        op: u64,
    ) -> Result<(), VcError>;
}
