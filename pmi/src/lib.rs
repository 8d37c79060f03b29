//! Process-manager interface: starts the ranks of a job, and lets them find each other.
//!
//! - [`ProcessManager`] is the interface for programs. [`ProcessManager::from_env`] detects the
//!   launcher (Hydra, Slurm, Open MPI's mpirun, [`nmrun`](Launcher), or none) and connects to it.
//!   It gives the rank, puts and gets values of any size, and takes part in barriers, blocking or
//!   not.
//! - [`PmiClient`] is the PMI-1 and PMI-2 client below it. PMIx goes through libpmix, which is
//!   loaded when a launcher needs it.
//! - [`Launcher`] starts the ranks of a job on this machine and serves PMI-1 to them; the program
//!   `nmrun` is its command line.
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
//! The client speaks PMI-1 (one line of `key=value` words per message) and PMI-2 as Hydra 4 and 5
//! and Slurm's `mpi/pmi2` plugin really do; see [`wire`] for the differences that matter, and
//! [`detect`] for the choice between them.

pub mod client;
pub mod codec;
pub mod detect;
mod error;
pub mod launch;
pub mod mapping;
mod pmix;
mod process_manager;
pub mod server;
pub mod spawn;
mod state;
mod sys;
mod tell;
pub mod wire;

pub use client::PmiClient;
pub use detect::{Choice, Settings};
pub use error::PmiError;
pub use launch::{ExitReport, LaunchError, Launcher};
pub use mapping::ProcessMapping;
pub use process_manager::{Answer, ProcessManager};
pub use spawn::{Spawn, SpawnError, SpawnProgram};
