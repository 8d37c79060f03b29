//! The names of processes and of their groups.

use std::fmt;

/// The id of a group: processes that know each other by rank, such as a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub [u8; 16]);

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in &self.0[..4] {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

/// The name of a process. Its order decides where two processes must decide alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PeerName {
    /// Group of the process.
    pub group: GroupId,
    /// Rank in the group.
    pub rank: u32,
}

impl fmt::Debug for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.group, self.rank)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of job {:?}", self.rank, self.group)
    }
}

/// A group of another job, as one of its two ends sees it (dynamic processes).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RemoteGroup {
    /// Id of the group at the other end.
    pub id: GroupId,
    /// Number of its processes.
    pub size: u32,
    /// Name of this process in that group.
    pub me: PeerName,
    /// The secret of this connection of two groups: whoever knows it belongs to one of them.
    pub key: [u8; 32],
}

impl fmt::Debug for RemoteGroup {
    /// Shows everything but the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteGroup")
            .field("id", &self.id)
            .field("size", &self.size)
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

/// Returns the group that represents the accepting side of a port.
pub fn port_group(port: u64) -> GroupId {
    let mut id = *b"nm-port\0\0\0\0\0\0\0\0\0";
    id[8..].copy_from_slice(&port.to_le_bytes());
    GroupId(id)
}
