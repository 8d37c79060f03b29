//! Processes of other jobs: ports at which jobs meet, jobs that this one starts, and names under
//! which ports are published. See docs/dynamic-processes.md for the design.
//!
//! `roster` describes a group to processes of another job, `meet` is how two groups become an
//! intercommunicator, `ports`, `join` and `spawn` how their leaders come together, `names` where
//! ports are found, `leave` the end.

mod join;
mod leave;
mod link;
mod meet;
mod names;
mod ports;
pub(crate) mod roster;
mod spawn;

pub use spawn::Command;

use ch3_shim::Vci;

/// The numbers of the hash FNV-1a.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns a number of a process, of whichever job, that all processes know it by. It is none of a
/// node within a job.
pub(crate) fn among_jobs(vci: &Vci, place: u32) -> u64 {
    let (job, rank) = vci.job_at(place).map_or(([0; 16], place), |(job, rank)| (job.id.0, rank));
    let bytes = job.iter().copied().chain(rank.to_le_bytes());
    bytes.fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)) | 1 << 63
}
