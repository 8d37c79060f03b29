//! Communicators: what they are, their names and hints.

use std::sync::Arc;

use crate::comm::Comms;
use crate::consts::{CONGRUENT, IDENT, MAX_OBJECT_NAME, ROOT, SIMILAR, UNEQUAL};
use crate::error::{Class, MpiError, Result};
use crate::group;
use crate::handle::{Comm, Group, Handle as _, Info};
use crate::instance::Mpi;
use crate::ranks::Ranks;

/// The beginning of all keys of hints that MPI defines.
const STANDARD_HINTS: &str = "mpi_";

impl Mpi {
    /// Returns this process's rank (`MPI_Comm_rank`).
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub fn comm_rank(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.rank().cast_signed()))
    }

    /// Returns the number of processes of the local group (`MPI_Comm_size`).
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub fn comm_size(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.size().cast_signed()))
    }

    /// Returns the number of processes of the remote group (`MPI_Comm_remote_size`).
    ///
    /// # Errors
    /// A bad handle, or that of an intracommunicator.
    pub fn comm_remote_size(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(remote(&s.objects.comms, comm)?.size().cast_signed()))
    }

    /// Returns true for an intercommunicator (`MPI_Comm_test_inter`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_test_inter(&self, comm: Comm) -> Result<bool> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.remote().is_some()))
    }

    /// Returns how many blocks arrays of counts describe in this process: one for each process of
    /// the group, or of the other one of an intercommunicator. With a root they mean something
    /// there alone, and there are none elsewhere.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_blocks(&self, comm: Comm, root: Option<i32>) -> Result<usize> {
        self.with(|s| {
            let core = &s.objects.comms.get(comm)?.core;
            let (peers, me) = match core.remote() {
                Some(remote) => (remote.size(), ROOT),
                None => (core.size(), core.rank().cast_signed()),
            };
            Ok(if root.is_none_or(|root| root == me) { peers as usize } else { 0 })
        })
    }

    /// Returns the local group (`MPI_Comm_group`), to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_group(&self, comm: Comm) -> Result<Group> {
        self.with(|s| {
            let core = s.objects.comms.core(comm)?;
            s.objects.groups.insert(Arc::clone(core.group().places()), core.session)
        })
    }

    /// Returns the remote group (`MPI_Comm_remote_group`), to be freed.
    ///
    /// # Errors
    /// A bad handle, or that of an intracommunicator.
    pub fn comm_remote_group(&self, comm: Comm) -> Result<Group> {
        self.with(|s| {
            let session = s.objects.comms.get(comm)?.core.session;
            let remote = remote(&s.objects.comms, comm)?;
            s.objects.groups.insert(Arc::clone(remote.places()), session)
        })
    }

    /// Compares two communicators (`MPI_Comm_compare`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_compare(&self, a: Comm, b: Comm) -> Result<i32> {
        self.with(|s| {
            let (x, y) = (s.objects.comms.core(a)?, s.objects.comms.core(b)?);
            if a == b {
                return Ok(IDENT);
            }
            let local = group::compare(x.group().places(), y.group().places());
            let both = match (x.remote(), y.remote()) {
                (None, None) => local,
                (Some(x), Some(y)) => worse(local, group::compare(x.places(), y.places())),
                _ => UNEQUAL,
            };
            // Two handles have different contexts.
            Ok(if both == IDENT { CONGRUENT } else { both })
        })
    }

    /// Sets the name of a communicator, which is cut at what MPI allows (`MPI_Comm_set_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_set_name(&self, comm: Comm, name: &str) -> Result<()> {
        self.with(|s| {
            let mut end = name.len().min(MAX_OBJECT_NAME - 1);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name[..end].clone_into(&mut s.objects.comms.get_mut(comm)?.name);
            Ok(())
        })
    }

    /// Returns the name of a communicator; empty if it has none (`MPI_Comm_get_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_name(&self, comm: Comm) -> Result<String> {
        // MPI names the null communicator, though it is none.
        if comm.is_null() {
            return Ok(Comm::NULL_NAME.to_owned());
        }
        self.with(|s| Ok(s.objects.comms.get(comm)?.name.clone()))
    }

    /// Returns the name of a communicator for the text of an error, also if it does not exist.
    pub fn comm_title(&self, comm: Comm) -> String {
        self.with(|s| Ok(s.objects.comms.title(comm)))
            .unwrap_or_else(|_| format!("communicator {:#010x}", comm.0))
    }

    /// Adds hints to a communicator (`MPI_Comm_set_info`). Keys that MPI does not define are
    /// ignored, as it wants it of keys that a library does not know.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_set_info(&self, comm: Comm, info: Info) -> Result<()> {
        self.with(|s| {
            let pairs: Vec<_> = s.objects.anytime.infos().pairs(info)?.to_vec();
            let known = pairs.into_iter().filter(|(key, _)| key.starts_with(STANDARD_HINTS));
            let hints = &mut s.objects.comms.get_mut(comm)?.hints;
            for (key, value) in known {
                match hints.iter_mut().find(|(k, _)| *k == key) {
                    Some((_, old)) => *old = value,
                    None => hints.push((key, value)),
                }
            }
            Ok(())
        })
    }

    /// Returns the hints of a communicator as an info, to be freed (`MPI_Comm_get_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_info(&self, comm: Comm) -> Result<Info> {
        self.with(|s| {
            let hints = s.objects.comms.get(comm)?.hints.clone();
            s.objects.anytime.infos().create_of(hints)
        })
    }
}

fn remote(comms: &Comms, comm: Comm) -> Result<Arc<Ranks>> {
    let core = comms.core(comm)?;
    core.remote().cloned().ok_or_else(|| {
        let text = format!("{:#010x} is an intracommunicator; an intercommunicator is needed", comm.0);
        MpiError::new(Class::COMM, text)
    })
}

/// Returns the lesser similarity of two.
fn worse(a: i32, b: i32) -> i32 {
    if [a, b].contains(&UNEQUAL) {
        UNEQUAL
    } else if [a, b].contains(&SIMILAR) {
        SIMILAR
    } else {
        IDENT
    }
}
