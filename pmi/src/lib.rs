//! Process-manager interface: how the ranks of a job are started and find each other.
//!
//! - [`ProcessManager`] is what a program uses: [`ProcessManager::from_env`] finds out what
//!   started the process (Hydra, Slurm, [`nmrun`](Launcher), or nobody) and connects to it;
//!   then it knows its rank, puts and gets values of any size, and takes part in barriers,
//!   blocking or not.
//! - [`PmiClient`] is the PMI-1 client below it.
//! - [`Launcher`] starts the ranks of a job on this machine and serves PMI-1 to them; the
//!   program `nmrun` is its command line.
//!
//! Ranks that exchange their addresses:
//!
//! ```no_run
//! use netmod_pmi::ProcessManager;
//!
//! # fn main() -> Result<(), netmod_pmi::PmiError> {
//! let mut pm = ProcessManager::from_env()?;
//! pm.put_bytes(&format!("card-{}", pm.rank()), b"my address")?;
//! pm.barrier()?;
//! for rank in 0..pm.size() {
//!     let card = pm.get_bytes(&format!("card-{rank}"))?;
//!     assert_eq!(card.as_deref(), Some(&b"my address"[..]));
//! }
//! pm.finalize()
//! # }
//! ```
//!
//! The protocol is PMI-1 (one line of `key=value` words per message) as Hydra 4 and 5 and
//! Slurm's `mpi/pmi2` plugin really speak it; see [`wire`] for the differences that matter.

pub mod client;
pub mod codec;
pub mod detect;
mod error;
pub mod launch;
pub mod mapping;
mod process_manager;
pub mod server;
mod sys;
pub mod wire;

pub use client::PmiClient;
pub use error::PmiError;
pub use launch::{ExitReport, LaunchError, Launcher};
pub use mapping::ProcessMapping;
pub use process_manager::ProcessManager;
