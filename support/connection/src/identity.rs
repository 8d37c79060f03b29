//! The names and keys of this process: in its job, towards groups that it has joined, and at its
//! ports.

use std::collections::HashMap;

use netmod_core::{GroupId, PeerName, RemoteGroup, port_group};

use crate::{Directory, JobKey, Purpose};

/// The names and keys by which this process is known to others.
#[derive(Debug)]
pub struct Identity {
    me: PeerName,
    group_size: u32,
    job_key: Option<JobKey>,
    incarnation: u64,
    met: HashMap<GroupId, RemoteGroup>,
    ports: HashMap<u64, JobKey>,
}

impl Identity {
    /// A process of a job, whose key is not known yet. `incarnation` tells it from others that have
    /// had its name.
    pub fn new(me: PeerName, group_size: u32, incarnation: u64) -> Identity {
        Identity { me, group_size, job_key: None, incarnation, met: HashMap::new(), ports: HashMap::new() }
    }

    /// Its name in the job.
    pub fn me(&self) -> PeerName {
        self.me
    }

    /// This process, among those that have had its name.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns true if peers can prove themselves.
    pub fn has_job_key(&self) -> bool {
        self.job_key.is_some()
    }

    /// Sets the key of the job.
    pub fn set_job_key(&mut self, key: JobKey) {
        self.job_key = Some(key);
    }

    /// Opens a port to every process that knows `key`.
    pub fn open_port(&mut self, port: u64, key: JobKey) {
        self.ports.insert(port, key);
    }

    /// Closes a port: no process may come to it any more.
    pub fn close_port(&mut self, port: u64) {
        self.ports.remove(&port);
    }

    /// Admits the processes of another group from now on.
    pub fn meet(&mut self, met: RemoteGroup) {
        self.met.insert(met.id, met);
    }

    /// Admits the processes of a group no longer.
    pub fn part(&mut self, group: &GroupId) {
        self.met.remove(group);
    }

    /// Returns the name by which the processes of a group know this one.
    pub fn name_towards(&self, group: &GroupId) -> PeerName {
        self.met.get(group).map_or(self.me, |m| m.me)
    }

    /// Returns the key that this process and those of a group share.
    pub fn key_towards(&self, group: &GroupId) -> Option<JobKey> {
        if *group == self.me.group {
            return self.job_key;
        }
        self.met.get(group).map(|m| JobKey(m.key))
    }

    /// Returns the open port whose group this is.
    fn port(&self, group: &GroupId) -> Option<JobKey> {
        let tag = u64::from_le_bytes(group.0[8..].try_into().unwrap_or_default());
        self.ports.get(&tag).copied().filter(|_| *group == port_group(tag))
    }
}

impl Directory for Identity {
    fn key(&self, group: &GroupId) -> Option<JobKey> {
        if *group == self.me.group {
            return self.job_key;
        }
        // A port that was closed still has the connections that were made before.
        let met = || self.met.values().find(|m| m.me.group == *group).map(|m| JobKey(m.key));
        self.port(group).or_else(met)
    }

    fn group_size(&self, group: &GroupId) -> Option<u32> {
        if *group == self.me.group {
            return Some(self.group_size);
        }
        self.met.get(group).map(|m| m.size)
    }

    fn port_is_open(&self, port: u64) -> bool {
        self.ports.contains_key(&port)
    }

    fn name_for(&self, group: &GroupId, purpose: Purpose, me: PeerName) -> Option<PeerName> {
        match purpose {
            Purpose::Root { port } => Some(PeerName { group: port_group(port), rank: 0 }),
            Purpose::Vc | Purpose::Rail { .. } if *group == me.group => Some(me),
            Purpose::Vc | Purpose::Rail { .. } => self.met.get(group).map(|m| m.me),
        }
    }
}

#[cfg(test)]
mod tests;
