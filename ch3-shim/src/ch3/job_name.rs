//! The name and key of a job for other jobs.
//!
//! Each job has a secret that it tells the jobs that it meets, over a connection that a port's key
//! has opened. The key of the connections of two jobs comes from the secrets of both, and so do the
//! names by which they know each other. So all their processes have the same ones, whichever of
//! them meet, and however often. Who has met both of two jobs could pose as one of them to the
//! other; nobody else can.

use netmod_connection::JobKey;
use netmod_core::{GroupId, PeerName, RemoteGroup};

/// A job as it introduces itself to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Its id, which no other job has.
    pub id: GroupId,
    /// Number of its processes.
    pub size: u32,
    secret: JobKey,
}

impl JobName {
    /// Length of its bytes.
    pub const LEN: usize = 16 + 4 + 32;

    /// Names the job with this key.
    pub(crate) fn new(id: GroupId, size: u32, key: [u8; 32]) -> JobName {
        JobName { id, size, secret: JobKey(key).derive(&[b"for other jobs"]) }
    }

    /// Returns it as bytes, with its secret.
    pub fn to_bytes(&self) -> [u8; JobName::LEN] {
        let mut bytes = [0; JobName::LEN];
        bytes[..16].copy_from_slice(&self.id.0);
        bytes[16..20].copy_from_slice(&self.size.to_le_bytes());
        bytes[20..].copy_from_slice(&self.secret.0);
        bytes
    }

    /// Reads the bytes of [`JobName::to_bytes`].
    pub fn from_bytes(bytes: &[u8; JobName::LEN]) -> JobName {
        let (mut id, mut size, mut secret) = ([0; 16], [0; 4], [0; 32]);
        id.copy_from_slice(&bytes[..16]);
        size.copy_from_slice(&bytes[16..20]);
        secret.copy_from_slice(&bytes[20..]);
        JobName { id: GroupId(id), size: u32::from_le_bytes(size), secret: JobKey(secret) }
    }

    /// Returns another job as processes of this one know it; `rank` is that of this process.
    pub(super) fn towards(&self, other: &JobName, rank: u32) -> RemoteGroup {
        let (first, second) = if self.id < other.id { (self, other) } else { (other, self) };
        let key = first.secret.derive(&[b"of two jobs", &second.secret.0]);
        let name = |of: &JobName| {
            let mut id = [0; 16];
            id.copy_from_slice(&key.derive(&[b"name", &of.id.0]).0[..16]);
            GroupId(id)
        };
        let me = PeerName { group: name(self), rank };
        RemoteGroup { id: name(other), size: other.size, me, key: key.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u8, key: u8) -> JobName {
        JobName::new(GroupId([id; 16]), u32::from(id), [key; 32])
    }

    #[test]
    fn two_jobs_know_each_other_alike_and_no_third_one_does() {
        let (a, b, c) = (job(1, 7), job(2, 8), job(3, 9));
        let (at_a, at_b) = (a.towards(&b, 5), b.towards(&a, 6));
        assert_eq!(at_a.key, at_b.key);
        assert_eq!((at_a.id, at_a.me), (at_b.me.group, PeerName { group: at_b.id, rank: 5 }));
        assert_eq!((at_a.size, at_b.size), (2, 1));
        assert_ne!(at_a.id, at_b.id);
        let other = a.towards(&c, 5);
        assert!(other.key != at_a.key && other.id != at_a.id && other.me != at_a.me);
        // Another secret of a job of the same id.
        assert_ne!(a.towards(&job(2, 9), 5).key, at_a.key);
        assert_eq!(JobName::from_bytes(&a.to_bytes()), a);
    }
}
