//! The floors: what the machine does between the same two processes without the device.
//!
//! Over a network that is a bare socket ([`socket`]), within a node bare shared memory and memcpy ([`memory`]), over libfabric
//! the same provider without the netmod ([`fabric`]), over verbs the same port ([`verbs`]).
//! While a floor is measured the device is not polled. Both ranks call the same function with the same
//! numbers; `lead` is the one that starts.

mod direct;
mod fabric;
mod memory;
pub(crate) mod pingpong;
mod socket;
pub(crate) mod verbs;

use ch3_shim::{Comm, Device};

use crate::error::Result;
pub(crate) use fabric::RawFabric;
pub(crate) use memory::{CELL, Cache, RawMemory};
pub(crate) use socket::{ACK, GULP, RawSocket};
pub(crate) use verbs::RawVerbs;

/// Tag of the messages by which the two processes arrange it.
const TAG: i32 = 1;
/// Looks in vain after which the processor is offered to others.
const SPINS: u32 = 20_000;
/// The same if ranks share cores, so that one of the others may be whom we wait for.
const SPINS_CROWDED: u32 = 10;

fn spins(crowded: bool) -> u32 {
    if crowded { SPINS_CROWDED } else { SPINS }
}

/// How a process waits for its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It tries again at once.
    Spinning,
    /// It sleeps in the system call.
    Blocking,
}

/// What the two processes have in common, and so what their floors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A network.
    Network,
    /// Memory of one node.
    Memory,
    /// A provider of libfabric.
    Fabric,
    /// A port of verbs.
    Verbs,
}

/// How data moves over libfabric or verbs when they are driven directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direct {
    /// As messages.
    #[default]
    Messages,
    /// The receiver reads.
    Read,
    /// The sender writes.
    Write,
}

impl Direct {
    /// What is comparable with a mode of large messages.
    pub(crate) fn of_mode(mode: Option<&str>) -> Direct {
        match mode {
            Some("get") => Direct::Read,
            Some("put") => Direct::Write,
            _ => Direct::Messages,
        }
    }
}

/// The way between ranks 0 and 1 beside the device's.
#[derive(Debug)]
pub(crate) enum Bare {
    /// Beside a netmod of a network.
    Socket(RawSocket),
    /// Beside one within a node.
    Memory(RawMemory),
    /// Beside libfabric's.
    Fabric(Box<RawFabric>),
    /// Beside that of verbs.
    Verbs(Box<RawVerbs>),
}

impl Bare {
    /// Makes that which is to be compared with the device's; ranks 0 and 1 both call this. Returns where it goes,
    /// too. `crowded`: ranks share cores.
    ///
    /// # Errors
    /// If there is no such way, with what to do about it.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(Bare, String)> {
        // The first message makes the connection; what it goes by is known when the answer is here.
        let peer = 1 - dev.rank();
        if peer == 1 {
            dev.send(&[], 1, TAG, comm)?;
            dev.recv(&mut [], 1, TAG, comm)?;
        } else {
            dev.recv(&mut [], 0, TAG, comm)?;
            dev.send(&[], 0, TAG, comm)?;
        }
        let by = |name: &str| dev.report().iter().any(|r| r.rank == peer && r.netmod.starts_with(name));
        let (near, fabric) = (by(netmod_shm::NAME), by(netmod_ofi::NAME));
        if by(netmod_verbs::NAME) {
            let (verbs, title) = RawVerbs::connect(dev, comm, crowded)?;
            Ok((Bare::Verbs(Box::new(verbs)), title))
        } else if fabric {
            let (fabric, title) = RawFabric::connect(dev, comm, crowded)?;
            Ok((Bare::Fabric(Box::new(fabric)), title))
        } else if near {
            let memory = RawMemory::connect(dev, comm, crowded)?;
            Ok((Bare::Memory(memory), "shared memory of this node".into()))
        } else {
            let (socket, ip) = RawSocket::connect(dev, comm, crowded)?;
            Ok((Bare::Socket(socket), ip.to_string()))
        }
    }

    /// The provider of libfabric, if it is one.
    pub(crate) fn provider(&self) -> Option<&str> {
        match self {
            Bare::Fabric(fabric) => Some(fabric.provider()),
            Bare::Socket(_) | Bare::Memory(_) | Bare::Verbs(_) => None,
        }
    }

    /// What is measured beside it.
    pub(crate) fn medium(&self) -> Medium {
        match self {
            Bare::Socket(_) => Medium::Network,
            Bare::Memory(_) => Medium::Memory,
            Bare::Fabric(_) => Medium::Fabric,
            Bare::Verbs(_) => Medium::Verbs,
        }
    }
}
