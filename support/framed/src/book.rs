//! Addresses of peers in the ports' address vectors: each once, for as long as somebody needs it.

use std::collections::HashMap;

use crate::device::Port;

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
    /// Addresses that nobody needs any more, but to which something may still be on its way.
    leaving: Vec<Dest>,
}

impl Book {
    /// Makes a receive context at an address known to a port.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn insert(
        &mut self,
        ports: &mut [impl Port],
        port: usize,
        context: u8,
        address: &[u8],
    ) -> Result<Dest, String> {
        if let Some(e) = self.entries.get_mut(&(port, context, address.into())) {
            e.users += 1;
            return Ok(Dest { port, addr: e.addr });
        }
        let of = ports.get_mut(port).ok_or("this process has no such endpoint")?;
        let addr = of.insert(address, context)?;
        // An address that was about to be removed has its number still: it was not inserted, but
        // has one user more.
        let dest = Dest { port, addr };
        if let Some(at) = self.leaving.iter().position(|d| *d == dest) {
            self.leaving.swap_remove(at);
            of.remove(addr)?;
        }
        self.entries.insert((port, context, address.into()), Entry { addr, users: 1 });
        Ok(dest)
    }

    /// One who needed it does not any more.
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

    /// Takes addresses that nobody needs out of the vectors of ports on which nothing is under way.
    /// `waits`: whether a frame for it has yet to be sent.
    pub(crate) fn settle(&mut self, ports: &mut [impl Port], waits: impl Fn(Dest) -> bool) {
        self.leaving.retain(|d| {
            let Some(port) = ports.get_mut(d.port) else { return false };
            if port.sends_under_way() > 0 || port.transfers_under_way() > 0 || waits(*d) {
                return true;
            }
            if let Err(why) = port.remove(d.addr) {
                tracing::debug!(why, "an address stays in the device's vector");
            }
            false
        });
    }

    /// Returns true if an address waits to be removed.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.leaving.is_empty()
    }
}
