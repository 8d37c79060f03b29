//! Registered memory, local and remote.

use super::{Face, Id, State};
use crate::errno::{FI_EACCES, FI_ECANCELED, FI_EINVAL, FI_ENOKEY, FI_ENOMEM, FI_ENOSYS};
use crate::mem::Lent;
use crate::request::Operation;
use libfabric_sys::consts::{
    FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_READ, FI_RECV,
    FI_REMOTE_READ, FI_REMOTE_WRITE, FI_SEND, FI_WRITE,
};

/// Result of `fi_mr_key` for a region without a key yet.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// A memory region.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) domain: Id,
    memory: Option<Lent>,
    base: usize,
    len: usize,
    access: u64,
    pub(crate) key: u64,
    pub(crate) desc: usize,
    port: Option<usize>,
    enabled: bool,
    /// Number of operations that use it as local memory.
    pub(crate) users: usize,
}

impl Region {
    /// Forgets its memory, which is not accessed any more.
    pub(crate) fn forget(&mut self) {
        self.memory = None;
    }
}

/// A piece of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

impl State {
    /// `fi_mr_reg`.
    pub(crate) fn register(&mut self, domain: Id, memory: Lent, access: u64, wanted: u64) -> Result<Id, i32> {
        let mode = self.mr_mode();
        let known = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        if memory.len() == 0 || access & !known != 0 || access == 0 {
            self.violation(format!("fi_mr_reg of {} bytes with access {access:#x}", memory.len()));
            return Err(FI_EINVAL);
        }
        let live = self.regions.values().filter(|region| region.domain == domain).count();
        if live >= self.settings.mr_count {
            return Err(FI_ENOMEM);
        }
        if mode & FI_MR_ALLOCATED != 0 && !memory.is_mapped() {
            self.violation(format!(
                "fi_mr_reg of {} bytes at {:#x}, of which not all are mapped",
                memory.len(),
                memory.addr()
            ));
            return Err(FI_EINVAL);
        }
        let most = u64::MAX >> (64 - 8 * self.settings.mr_key_size.clamp(1, 8));
        let taken =
            |key: u64| self.regions.values().any(|region| region.domain == domain && region.key == key);
        let key = if mode & FI_MR_PROV_KEY != 0 {
            let mut key = self.rng.clone().word() & most;
            self.rng.word();
            while taken(key) || key == NO_KEY {
                key = key.wrapping_add(1) & most;
            }
            key
        } else if wanted > most {
            self.violation(format!(
                "fi_mr_reg: key {wanted:#x} is longer than {} bytes",
                self.settings.mr_key_size
            ));
            return Err(FI_EINVAL);
        } else if taken(wanted) {
            self.violation(format!("fi_mr_reg: key {wanted:#x} is in use"));
            return Err(FI_ENOKEY);
        } else {
            wanted
        };
        let (base, len) = (memory.addr(), memory.len());
        let region = Region {
            domain,
            memory: Some(memory),
            base,
            len,
            access,
            key,
            desc: 0,
            port: None,
            enabled: mode & FI_MR_ENDPOINT == 0,
            users: 0,
        };
        let id = self.add_region(domain, region);
        // An invalid, non-null pointer.
        let desc = 0xfade_0000_0000 | id.0 << 4;
        if let Some(region) = self.regions.get_mut(&id) {
            region.desc = desc;
        }
        Ok(id)
    }

    /// Returns the key that a region reports.
    pub(crate) fn shown_key(&self, id: Id) -> u64 {
        self.regions.get(&id).map_or(NO_KEY, |region| if region.enabled { region.key } else { NO_KEY })
    }

    /// `fi_mr_bind`.
    pub(crate) fn bind_region(&mut self, id: Id, endpoint: Id) -> Result<(), i32> {
        if self.mr_mode() & FI_MR_ENDPOINT == 0 {
            return Err(FI_ENOSYS);
        }
        self.live(endpoint, "fi_mr_bind to it")?;
        let Some(face) = self.faces.get(&endpoint).copied() else { return Err(FI_EINVAL) };
        let region = self.regions.get_mut(&id).ok_or(FI_EINVAL)?;
        if region.port.is_some() || region.enabled || self.ports[face.port].domain != region.domain {
            self.violation(format!(
                "fi_mr_bind of memory region {}: bound or enabled before, or of another domain",
                id.0
            ));
            return Err(FI_EINVAL);
        }
        region.port = Some(face.port);
        self.uses(id, endpoint);
        Ok(())
    }

    /// `fi_mr_enable`.
    pub(crate) fn enable_region(&mut self, id: Id) -> Result<(), i32> {
        if self.mr_mode() & FI_MR_ENDPOINT == 0 {
            return Err(FI_ENOSYS);
        }
        let region = self.regions.get_mut(&id).ok_or(FI_EINVAL)?;
        let bound = region.port.is_some_and(|port| self.ports[port].enabled);
        if !bound || region.enabled {
            self.violation(format!(
                "fi_mr_enable of memory region {}: not bound to an enabled endpoint, or enabled before",
                id.0
            ));
            return Err(FI_EINVAL);
        }
        region.enabled = true;
        Ok(())
    }

    /// Closes a region. Operations that still use it end without accessing it again.
    pub(crate) fn close_region(&mut self, id: Id) {
        let Some(region) = self.regions.remove(&id) else { return };
        if region.users == 0 {
            return;
        }
        let dead = self.ports.iter().any(|port| port.dead && port.domain == region.domain);
        // An operation with a dead peer may never complete, so the application need not wait for
        // it.
        let could_end = |op: &&super::Op| {
            op.regions.contains(&id)
                && (op.kind == Operation::Recv || op.peer.is_some_and(|peer| self.is_up(peer)))
        };
        let busy = self.ops.values().filter(could_end).count();
        if !dead && busy != 0 {
            self.violation(format!("memory region {} was closed while {busy} operations used it", id.0));
        }
        let users: Vec<u64> =
            self.ops.iter().filter(|(_, op)| op.regions.contains(&id)).map(|(op, _)| *op).collect();
        for op in users {
            self.cut_off(op, FI_ECANCELED);
        }
    }

    /// Ends an operation that loses its local memory, with an error if it had not ended before.
    fn cut_off(&mut self, id: u64, error: i32) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.pieces.clear();
        op.sent.clear();
        let (face, kind) = (op.face, op.kind);
        match kind {
            Operation::Recv => {
                let Some(index) = face.rx else { return };
                let posted = &mut self.ports[face.port].rx[index].posted;
                let before = posted.len();
                posted.retain(|other| *other != id);
                if posted.len() != before {
                    self.fail_recv(id, error, 0, 0, true, true);
                }
            }
            Operation::Read | Operation::Atomic => {
                let before = self.transfers.len();
                self.transfers.retain(|transfer| transfer.op != Some(id));
                if self.transfers.len() != before {
                    self.complete(id, super::queue::Outcome::Failed(error));
                }
            }
            // The data was copied by the call.
            Operation::Send | Operation::Write => (),
        }
    }

    /// Checks the registrations of local memory, if the provider requires them, and returns them.
    pub(crate) fn local(
        &mut self,
        face: Face,
        pieces: &[Lent],
        descs: &[usize],
        access: u64,
        call: &str,
    ) -> Result<Vec<Id>, i32> {
        if self.mr_mode() & FI_MR_LOCAL == 0 {
            return Ok(Vec::new());
        }
        let mut used = Vec::new();
        for (number, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.len() != 0) {
            let desc = descs.get(number).copied().unwrap_or(0);
            let region = self.regions.iter().find(|(_, region)| region.desc == desc && desc != 0);
            let wrong = match region {
                None if desc == 0 => Some("has no descriptor"),
                None => Some("has the descriptor of no live region"),
                Some((_, region)) if region.domain != self.ports[face.port].domain => {
                    Some("is registered in another domain")
                }
                Some((_, region)) if region.access & access != access => {
                    Some("is registered without that access")
                }
                Some((_, region)) if !region.enabled => Some("is in a region that is not enabled"),
                Some((_, region)) if region.port.is_some_and(|port| port != face.port) => {
                    Some("is in a region of another endpoint")
                }
                Some((_, region))
                    if piece.addr() < region.base
                        || piece.addr() + piece.len() > region.base + region.len =>
                {
                    Some("is not within its region")
                }
                Some((id, _)) => {
                    used.push(*id);
                    None
                }
            };
            if let Some(wrong) = wrong {
                self.violation(format!(
                    "local memory: {call}: piece {number} ({} bytes at {:#x}) {wrong}",
                    piece.len(),
                    piece.addr()
                ));
                return Err(FI_EACCES);
            }
        }
        Ok(used)
    }

    /// Finds the memory that a read or write at a port refers to; records every violation.
    pub(crate) fn remote(
        &mut self,
        port: usize,
        remote: &[Remote],
        kind: Operation,
    ) -> Result<Vec<Lent>, i32> {
        let domain = self.ports[port].domain;
        let virtual_addresses = self.mr_mode() & FI_MR_VIRT_ADDR != 0;
        let access = match kind {
            Operation::Read => FI_REMOTE_READ,
            Operation::Atomic => FI_REMOTE_READ | FI_REMOTE_WRITE,
            _ => FI_REMOTE_WRITE,
        };
        let mut memory = Vec::new();
        for piece in remote.iter().filter(|piece| piece.len != 0) {
            let region =
                self.regions.values().find(|region| region.domain == domain && region.key == piece.key);
            let found = match region {
                None => Err("no live region has that key"),
                Some(region) if region.access & access != access => Err("the region does not permit it"),
                Some(region) if !region.enabled => Err("the region is not enabled"),
                Some(region) if region.port.is_some_and(|other| other != port) => {
                    Err("the region is another endpoint's")
                }
                Some(region) => {
                    let first = if virtual_addresses { region.base as u64 } else { 0 };
                    let at = piece.addr.checked_sub(first).and_then(|at| usize::try_from(at).ok());
                    match (at, &region.memory) {
                        (Some(at), Some(lent)) => lent.part(at, piece.len).ok_or("it leaves the region"),
                        (None, Some(_)) => Err("it leaves the region"),
                        (_, None) => Err("no live region has that key"),
                    }
                }
            };
            match found {
                Ok(lent) => memory.push(lent),
                Err(why) => {
                    self.violation(format!(
                        "remote memory: {kind:?} of {} bytes at {:#x}, key {:#x}: {why}",
                        piece.len, piece.addr, piece.key
                    ));
                    return Err(FI_EACCES);
                }
            }
        }
        Ok(memory)
    }
}
