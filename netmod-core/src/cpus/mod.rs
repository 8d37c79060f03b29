//! The processor time that a process may use, and shares with others of its node.
//!
//! A scheduler or container gives a job a part of the machine: a set of processors
//! (`sched_setaffinity(2)`, cpusets), a quota of processor time (cgroups), or both. Each process
//! publishes its part in the section [`CPUS_SECTION`] of its card. From these, each one determines
//! which processes compete for its processors ([`CpuShare::pollers`]).

mod cgroup;
mod set;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::card::{BodyReader, BodyWriter, Card, CardError, CardWriter, Section};
use crate::pollers::Pollers;

pub use set::{CpuSet, MAX_CPUS};

/// Name of the section.
pub const CPUS_SECTION: &str = "cpus";
/// Most quotas of one process: nested cgroups that have one.
pub const MAX_QUOTAS: usize = 8;

const VERSION: u16 = 1;
/// The file with the affinity of the calling thread.
const STATUS: &str = "proc/thread-self/status";
const ONLINE: &str = "sys/devices/system/cpu/online";

/// A quota of processor time that the processes of a cgroup share (`cpu.max`, `cpu.cfs_quota_us`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Inode number of the cgroup's folder, the same in every container of the machine.
    pub cgroup: u64,
    /// Quota in thousandths of a processor.
    pub millicores: u32,
}

/// The part of its machine that a process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// Processors that it may run on.
    pub cpus: CpuSet,
    /// Quotas that apply to it, the innermost cgroup's first; at most [`MAX_QUOTAS`].
    pub quotas: Vec<CpuQuota>,
    /// True if this is the whole machine. It is not in the card.
    pub whole: bool,
}

/// The error of a kernel that does not say what a process may use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CpusError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; is /proc mounted?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file has no valid list of processors.
    #[error("{} has no line `{field}` with a list of processors below {MAX_CPUS}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The missing field.
        field: &'static str,
    },
}

impl CpuShare {
    /// Describes the calling thread on Linux.
    ///
    /// The thread that creates the device stands for the process.
    ///
    /// # Errors
    ///
    /// Fails if the kernel's files are missing or not as documented (`proc(5)`).
    pub fn of_this_process() -> Result<CpuShare, CpusError> {
        CpuShare::below(Path::new("/"))
    }

    /// Returns the share to assume without information: as many processors as the standard library
    /// finds.
    pub fn assumed() -> CpuShare {
        let n = std::thread::available_parallelism().map_or(1, usize::from);
        CpuShare { cpus: CpuSet::first(n), quotas: Vec::new(), whole: true }
    }

    /// Does the same as [`CpuShare::of_this_process`] for the files below a folder.
    fn below(root: &Path) -> Result<CpuShare, CpusError> {
        const FIELD: &str = "Cpus_allowed_list:";
        let path = root.join(STATUS);
        let text =
            fs::read_to_string(&path).map_err(|source| CpusError::Read { path: path.clone(), source })?;
        let allowed = text.lines().find_map(|line| line.strip_prefix(FIELD));
        let mut cpus = allowed
            .and_then(|list| CpuSet::parse(list.trim()))
            .ok_or(CpusError::Content { path, field: FIELD })?;
        // The affinity also names processors that do not exist. Without /sys there is no list of
        // those that do.
        let online = fs::read_to_string(root.join(ONLINE)).ok();
        let online = online.and_then(|list| CpuSet::parse(list.trim()));
        let mut whole = false;
        if let Some(online) = online {
            cpus = cpus.intersection(&online);
            whole = cpus == online;
        }
        let quotas = cgroup::quotas(root);
        whole &= quotas.is_empty();
        Ok(CpuShare { cpus, quotas, whole })
    }

    /// Returns the competition for this process's processors.
    ///
    /// `others` are the other processes of the node; `None` stands for one without information. Of
    /// the process's own set and its quotas, the one that leaves the least per process counts.
    pub fn pollers(&self, others: &[Option<CpuShare>], engines: usize) -> Pollers {
        let sharing = |shares: &dyn Fn(&CpuShare) -> bool| {
            1 + others.iter().filter(|o| o.as_ref().is_none_or(shares)).count()
        };
        let set = (sharing(&|o| o.cpus.overlaps(&self.cpus)), 1000 * self.cpus.len().max(1));
        let quotas = self.quotas.iter().map(|q| {
            let within = |o: &CpuShare| o.quotas.iter().any(|theirs| theirs.cgroup == q.cgroup);
            (sharing(&within), q.millicores as usize)
        });
        // a/b > c/d without a division.
        let tighter = |a: (usize, usize), b: (usize, usize)| if b.0 * a.1 > a.0 * b.1 { b } else { a };
        let (processes, millicores) = quotas.fold(set, tighter);
        Pollers { processes, engines, millicores }
    }

    /// Writes the section.
    ///
    /// # Errors
    ///
    /// [`CardError::Malformed`] with more than [`MAX_QUOTAS`] quotas, or those of
    /// [`CardWriter::section`].
    pub fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        if self.quotas.len() > MAX_QUOTAS {
            return Err(too_many());
        }
        let mut body = BodyWriter::new();
        self.cpus.emit(&mut body);
        body.u8(self.quotas.len() as u8);
        for q in &self.quotas {
            body.u64(q.cgroup).u32(q.millicores);
        }
        card.section(CPUS_SECTION, VERSION, body.as_bytes())
    }

    /// Reads the section of a card; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`], [`CardError::Malformed`] or [`CardError::Trailing`].
    pub fn of(card: &Card) -> Result<Option<CpuShare>, CardError> {
        card.section(CPUS_SECTION).map(CpuShare::parse).transpose()
    }

    fn parse(section: Section<'_>) -> Result<CpuShare, CardError> {
        let mut r = BodyReader::new("section `cpus`", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let cpus = CpuSet::read(&mut r)?;
        let n = usize::from(r.u8("the number of quotas")?);
        if n > MAX_QUOTAS {
            return Err(too_many());
        }
        let mut quotas = Vec::with_capacity(n);
        for _ in 0..n {
            quotas.push(CpuQuota { cgroup: r.u64("a cgroup")?, millicores: r.u32("a quota")? });
        }
        r.finish()?;
        Ok(CpuShare { cpus, quotas, whole: false })
    }
}

fn too_many() -> CardError {
    CardError::Malformed { what: "the number of quotas", expected: "it must be at most 8" }
}
