//! Addresses of peers in the ports' address vectors, each inserted once and counted by its users.

use std::collections::HashMap;

use crate::device::Port;
use crate::error::PortError;

/// The destination of frames: a port, and the number of an address in its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dest {
    /// Index of the port.
    pub(crate) port: usize,
    /// The device's number of the address.
    pub(crate) addr: u64,
}

#[derive(Debug)]
struct Entry {
    addr: u64,
    users: usize,
}

/// The addresses in use.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: HashMap<(usize, u8, Box<[u8]>), Entry>,
    /// Addresses without users, to which frames may still be in flight.
    leaving: Vec<Dest>,
}

impl Book {
    /// Inserts a receive context at an address into a port's vector, or adds a user.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn insert<P: Port>(
        &mut self,
        ports: &mut [P],
        port: usize,
        context: u8,
        address: &[u8],
    ) -> Result<Dest, PortError<P::Error>> {
        if let Some(e) = self.entries.get_mut(&(port, context, address.into())) {
            e.users += 1;
            return Ok(Dest { port, addr: e.addr });
        }
        let of = ports.get_mut(port).ok_or(PortError::Missing)?;
        let addr = of.insert(address, context)?;
        // An address that was about to be removed is in the vector still: the insertion added a use
        // there, which is taken back.
        let dest = Dest { port, addr };
        if let Some(at) = self.leaving.iter().position(|d| *d == dest) {
            self.leaving.swap_remove(at);
            of.remove(addr)?;
        }
        self.entries.insert((port, context, address.into()), Entry { addr, users: 1 });
        Ok(dest)
    }

    /// Takes back one use of an address.
    pub(crate) fn release(&mut self, dest: Dest) {
        let found = self.entries.iter_mut().find(|(k, e)| k.0 == dest.port && e.addr == dest.addr);
        let Some((key, entry)) = found else { return };
        entry.users -= 1;
        if entry.users == 0 {
            let key = key.clone();
            self.entries.remove(&key);
            self.leaving.push(dest);
        }
    }

    /// Removes addresses without users from the vectors of ports on which nothing is in flight.
    /// `waits` is true of those for which a frame has yet to be sent.
    pub(crate) fn settle(&mut self, ports: &mut [impl Port], waits: impl Fn(Dest) -> bool) {
        self.leaving.retain(|d| {
            let Some(port) = ports.get_mut(d.port) else { return false };
            if port.sends_under_way() > 0 || port.transfers_under_way() > 0 || waits(*d) {
                return true;
            }
            if let Err(why) = port.remove(d.addr) {
                tracing::debug!(%why, "an address stays in the device's vector");
            }
            false
        });
    }

    /// Returns true if an address waits to be removed.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.leaving.is_empty()
    }
}
