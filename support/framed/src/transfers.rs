//! The state of one-sided transfers: registrations with their keys, and operations.

use std::collections::VecDeque;

use netmod_core::rma::{Access, AtomicArgs, RegionId, Regions, Remote, RemoteKey};
use netmod_core::{Slab, VcError, VcId};

use crate::book::Dest;
use crate::device::Port;

/// The peer's registration, as its key describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) key: u64,
    pub(crate) remote: Remote,
    /// The owner's port.
    pub(crate) port: u8,
}

impl Key {
    pub(crate) fn emit(&self) -> RemoteKey {
        let Remote { base, len, access } = self.remote;
        RemoteKey::pack([self.key, base, len], [self.port, access.to_wire()])
    }

    pub(crate) fn parse(key: &RemoteKey) -> Option<Key> {
        let ([key, base, len], [port, access]) = key.unpack()?;
        Some(Key { key, remote: Remote { base, len, access: Access::from_wire(access)? }, port })
    }
}

/// The device's part of a registration.
#[derive(Debug)]
pub(crate) struct Registered<R> {
    pub(crate) port: usize,
    pub(crate) registration: Option<R>,
    /// Operations of this side that are under way on it.
    pub(crate) in_use: u32,
}

/// The kind of object that the number of a device's operation names.
#[derive(Debug)]
pub(crate) enum TransferKind {}

pub(crate) type Handle<K> = netmod_core::slab::Handle<K>;

/// The operations of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moves {
    Put,
    Get,
    /// One operation on a word of the peer's.
    Atomic(AtomicArgs),
}

/// A put, get or atomic operation under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) vc: VcId,
    pub(crate) op: u64,
    pub(crate) moves: Moves,
    pub(crate) region: RegionId,
    pub(crate) dest: Dest,
    /// Offset in the region of what has not been started.
    pub(crate) at: usize,
    /// Number of bytes that have not been started.
    pub(crate) left: usize,
    pub(crate) remote: u64,
    pub(crate) key: u64,
    pub(crate) under_way: u32,
    /// It is among those that wait for the device.
    pub(crate) waits: bool,
    pub(crate) failed: Option<VcError>,
}

/// All registrations and operations in flight of a netmod.
#[derive(Debug)]
pub(crate) struct Transfers<R> {
    pub(crate) regions: Regions<Registered<R>>,
    pub(crate) running: Slab<Transfer, TransferKind>,
    /// Those that the device has not taken wholly.
    pub(crate) waiting: VecDeque<Handle<TransferKind>>,
}

impl<R> Transfers<R> {
    /// Creates one whose limit of `most` registered bytes (0: any) is a setting of this prefix.
    pub(crate) fn new(most: usize, settings: &'static str) -> Transfers<R> {
        let regions = Regions::new(most, settings);
        Transfers { regions, running: Slab::new(), waiting: VecDeque::new() }
    }

    /// Returns true if a transfer is in flight.
    pub(crate) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns true if an operation waits for the device.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The ports are about to be closed.
    pub(crate) fn close_all<P: Port<Registration = R>>(&mut self, ports: &[P]) {
        for mut region in self.regions.take_all() {
            if let (Some(r), Some(port)) = (&mut region.own.registration, ports.get(region.own.port))
                && let Err(why) = port.deregister(r)
            {
                tracing::warn!(?why, "a registration cannot be closed");
            }
        }
    }
}
