//! The floors: what the machine does between the same two processes without the device.
//!
//! Over a network this is a bare socket ([`socket`]); within a node, bare shared memory and memcpy
//! ([`memory`]); over libfabric, the same provider without the netmod ([`fabric`]); over verbs, the
//! same port ([`verbs`]). The device is not polled while a floor is measured. Both ranks call the
//! same function with the same arguments; `lead` is the rank that starts.

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

/// Tag of the messages that set a floor up.
const TAG: i32 = 1;
/// Empty polls before the processor is offered to others.
const SPINS: u32 = 20_000;
/// Empty polls before the processor is offered, if ranks share cores and the peer may need this
/// one.
const SPINS_CROWDED: u32 = 10;

fn spins(crowded: bool) -> u32 {
    if crowded { SPINS_CROWDED } else { SPINS }
}

/// A process's way of waiting for its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Retries immediately.
    Spinning,
    /// Sleeps in the system call.
    Blocking,
}

/// Connection between the two processes, which determines their floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A network.
    Network,
    /// Shared memory of a node.
    Memory,
    /// A provider of libfabric.
    Fabric,
    /// A port of verbs.
    Verbs,
}

/// Transfer method when libfabric or verbs are driven directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direct {
    /// Messages.
    #[default]
    Messages,
    /// The receiver reads.
    Read,
    /// The sender writes.
    Write,
}

impl Direct {
    /// Returns the method that is comparable with a mode of large messages.
    pub(crate) fn of_mode(mode: Option<&str>) -> Direct {
        match mode {
            Some("get") => Direct::Read,
            Some("put") => Direct::Write,
            _ => Direct::Messages,
        }
    }
}

/// The floor's connection between ranks 0 and 1.
#[derive(Debug)]
pub(crate) enum Bare {
    /// For a netmod over a network.
    Socket(RawSocket),
    /// For a netmod within a node.
    Memory(RawMemory),
    /// For the netmod over libfabric.
    Fabric(Box<RawFabric>),
    /// For the netmod over verbs.
    Verbs(Box<RawVerbs>),
}

impl Bare {
    /// Makes the connection that is comparable with the device's; ranks 0 and 1 both call this.
    /// Returns a description of it, too. `crowded`: ranks share cores.
    ///
    /// # Errors
    /// If there is no such connection, with the way out.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(Bare, String)> {
        // The first message makes the connection; its netmod is known when the answer has arrived.
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

    /// Returns the provider of a libfabric connection.
    pub(crate) fn provider(&self) -> Option<&str> {
        match self {
            Bare::Fabric(fabric) => Some(fabric.provider()),
            Bare::Socket(_) | Bare::Memory(_) | Bare::Verbs(_) => None,
        }
    }

    /// Returns the medium.
    pub(crate) fn medium(&self) -> Medium {
        match self {
            Bare::Socket(_) => Medium::Network,
            Bare::Memory(_) => Medium::Memory,
            Bare::Fabric(_) => Medium::Fabric,
            Bare::Verbs(_) => Medium::Verbs,
        }
    }
}
