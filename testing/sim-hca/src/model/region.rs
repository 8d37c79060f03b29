//! Registered memory: keys, access, and users.

use hca::{Access, Errno, Sge, Status, errno};

use crate::mem::Lent;
use crate::model::{Id, State};

/// A registration.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) context: usize,
    pub(crate) lent: Lent,
    pub(crate) access: Access,
    pub(crate) key: u32,
    /// Number of its uses in requests in flight.
    pub(crate) uses: usize,
}

impl State {
    pub(crate) fn register(
        &mut self,
        context: usize,
        lent: Lent,
        access: Access,
    ) -> Result<(Id, u32), Errno> {
        self.usable(context)?;
        self.call("ibv_reg_mr")?;
        let device = &self.devices[self.contexts[context].device];
        let total = self.contexts[context].registered.saturating_add(lent.len());
        if (access.remote_write || access.remote_atomic) && !access.local_write || lent.len() == 0 {
            return Err(errno::EINVAL);
        }
        if lent.len() > device.attr().max_mr_size {
            return Err(errno::EINVAL);
        }
        let full = device.keys.len() >= device.attr().max_mr as usize;
        let locked = device.settings.memlock.is_some_and(|limit| total > limit);
        if full || locked || self.rng.chance(self.settings.faults.register) {
            return Err(errno::ENOMEM);
        }
        self.contexts[context].registered = total;
        let (id, random) = (self.new_id(), self.rng.word() as u8);
        let device = &mut self.devices[self.contexts[context].device];
        let key = device.new_key(random);
        device.keys.insert(key, id);
        self.regions.insert(id, Region { context, lent, access, key, uses: 0 });
        Ok((id, key))
    }

    /// Ends a registration. One that has ended with its process is ignored.
    pub(crate) fn deregister(&mut self, id: Id) -> Result<(), Errno> {
        let Some(region) = self.regions.get(&id) else { return Ok(()) };
        if self.rng.chance(self.settings.faults.deregister) {
            return Err(errno::EBUSY);
        }
        if region.uses != 0 {
            let (context, key, uses) = (region.context, region.key, region.uses);
            self.violation(format!(
                "memory of key {key:#x} of process {context}: deregistered with {uses} pieces in requests in flight"
            ));
        }
        self.remove_region(id);
        Ok(())
    }

    pub(crate) fn remove_region(&mut self, id: Id) {
        if let Some(region) = self.regions.remove(&id) {
            let context = &mut self.contexts[region.context];
            context.registered -= region.lent.len();
            self.devices[context.device].keys.remove(&region.key);
        }
    }

    /// Finds the registration that a process may use for a piece of local memory.
    fn local(&self, context: usize, sge: &Sge, write: bool) -> Option<Id> {
        let id = *self.devices[self.contexts[context].device].keys.get(&sge.lkey)?;
        let region = self.regions.get(&id)?;
        let permitted = region.context == context && (region.access.local_write || !write);
        (permitted && region.lent.contains(sge.addr, sge.len.into())).then_some(id)
    }

    /// Marks the registrations of a request's pieces as used. Unregistered memory is a violation,
    /// and the device will notice it, too.
    pub(crate) fn borrow(&mut self, context: usize, sges: &[Sge], write: bool, what: &str) -> Vec<Id> {
        let mut regions = Vec::new();
        for sge in sges.iter().filter(|sge| sge.len != 0) {
            match self.local(context, sge, write) {
                Some(id) => regions.push(id),
                None => self.violation(format!(
                    "{what} of process {context}: {} bytes at {:#x} are not registered for it with key {:#x}",
                    sge.len, sge.addr, sge.lkey
                )),
            }
        }
        for id in &regions {
            if let Some(region) = self.regions.get_mut(id) {
                region.uses += 1;
            }
        }
        regions
    }

    /// Releases the registrations of a finished request.
    pub(crate) fn release(&mut self, regions: &[Id]) {
        for id in regions {
            if let Some(region) = self.regions.get_mut(id) {
                region.uses -= 1;
            }
        }
    }

    /// Reads local memory.
    pub(crate) fn gather(&self, context: usize, sges: &[Sge]) -> Result<Vec<u8>, Status> {
        let mut data = Vec::new();
        for sge in sges.iter().filter(|sge| sge.len != 0) {
            let id = self.local(context, sge, false).ok_or(Status::LocProtErr)?;
            self.regions[&id].lent.read(sge.addr, sge.len.into(), &mut data).ok_or(Status::LocProtErr)?;
        }
        Ok(data)
    }

    /// Writes to local memory: all bytes or none.
    pub(crate) fn scatter(&self, context: usize, sges: &[Sge], mut data: &[u8]) -> Result<(), Status> {
        let room: u64 = sges.iter().map(|sge| u64::from(sge.len)).sum();
        if (data.len() as u64) > room {
            return Err(Status::LocLenErr);
        }
        let mut parts = Vec::new();
        for sge in sges.iter().filter(|sge| sge.len != 0) {
            let id = self.local(context, sge, true).ok_or(Status::LocProtErr)?;
            let (part, rest) = data.split_at(data.len().min(sge.len as usize));
            parts.push((id, sge.addr, part));
            data = rest;
        }
        for (id, addr, part) in parts {
            self.regions[&id].lent.write(addr, part).ok_or(Status::LocProtErr)?;
        }
        Ok(())
    }

    /// Finds the registration by which a peer accesses a process's memory.
    pub(crate) fn remote(
        &self,
        context: usize,
        key: u32,
        addr: u64,
        len: u64,
        permits: impl Fn(&Access) -> bool,
    ) -> Option<&Lent> {
        let id = self.devices[self.contexts[context].device].keys.get(&key)?;
        let region = self.regions.get(id)?;
        let permitted = region.context == context && permits(&region.access);
        (permitted && region.lent.contains(addr, len)).then_some(&region.lent)
    }
}
