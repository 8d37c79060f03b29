//! The MPI device layer over netmods.
//!
//! A [`Device`] is one MPI process: it sends and receives tagged messages between the ranks of a
//! job, over whichever netmod reaches each peer. Start the program under a process manager
//! (`nmrun`, `mpiexec.hydra`, `srun --mpi=pmi2`) or alone, as a job of one.
//!
//! ```
//! use ch3_shim::{ANY_TAG, Device};
//!
//! fn main() -> Result<(), ch3_shim::Error> {
//!     let mut dev = Device::init()?;
//!     let world = dev.world();
//!     let (me, n) = (dev.rank() as i32, dev.size() as i32);
//!     let (next, prev) = ((me + 1) % n, (me + n - 1) % n);
//!
//!     // The scope lends buffers to requests, and ends when all of them are finished.
//!     let greeting = format!("hello from rank {me}");
//!     let mut got = [0u8; 64];
//!     dev.scope(|s| {
//!         s.irecv(&mut got, prev, ANY_TAG, world)?;
//!         s.isend(greeting.as_bytes(), next, 7, world)?;
//!         Ok(())
//!     })?;
//!     assert!(got.starts_with(format!("hello from rank {prev}").as_bytes()));
//!
//!     // Owned buffers need no scope: the device keeps them until the request is done.
//!     let receive = dev.irecv(vec![0; 4], prev, 8, world)?;
//!     let send = dev.isend(vec![1, 2, 3], next, 8, world)?;
//!     dev.wait(send)?;
//!     let done = dev.wait(receive)?;
//!     assert_eq!((done.status.source, done.status.len), (prev, 3));
//!     assert_eq!(&done.buffer[..3], [1, 2, 3]);
//!
//!     dev.finalize()
//! }
//! ```
//!
//! # Threads
//! The thread level is a type: [`Device`] is `Device<`[`Serialized`]`>`, which any one thread uses
//! at a time; a `Device<`[`Funneled`]`>` stays in its thread; a `Device<`[`Multiple`]`>` is shared
//! by all threads. [`Device::init_thread`] makes one of a given level. Misuse does not compile.
//!
//! # Event loops
//! A program that waits for other things too watches [`Vci::wait_fd`]; `examples/tokio.rs` does so.

mod any_netmod;
pub mod bootstrap;
mod ch3;
mod choice;
mod clock;
pub mod config;
mod device;
mod error;
mod exit;
mod incident;
pub mod netset;
pub mod pkt;
mod port;
mod progress;
pub mod report;
pub mod shared_memory;
mod status;
mod sys;
pub mod tagmatch;
mod tell;
mod turns;
mod wrapped;

pub use bootstrap::{Answer, Asked, Bootstrap, BootstrapError, Silence};
pub use ch3::{DeviceStats, Exposure, Failure, FlowReport, JobName, LargeStats, RemotePlace, RmaAccess};
pub use ch3::{MOST_THREADS, process_of, thread_of, thread_place};
pub use clock::VirtualClock;
pub use config::{COLLECTIVES, Config};
pub use device::{
    Builder, Comm, Completion, Counters, Device, Disconnecting, Ended, Exclusive, Failed, Funneled,
    InterComm, Level, Link, Message, Multiple, NetmodSetup, Note, PROC_NULL, RawReq, Request, RmaRefused,
    Scope, Serialized, SharedMessage, SharedRequest, SomeFailed, VcReport, Vci, Waitable, Waker,
};
pub use error::{Error, Result};
pub use incident::{Incident, IncidentKind, TakenIncidents, timestamp};
pub use netmod_core::Break;
pub use netmod_pmi::spawn::PARENT_PORT;
pub use netmod_pmi::{Spawn, SpawnProgram};
pub use pkt::Mode;
pub use port::{PortName, PortNameError};
pub use progress::{Barriers, HelperStats, OwnThread};
pub use report::StatusReport;
pub use status::Status;
pub use tagmatch::{ANY_SOURCE, ANY_TAG};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of ports, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/dynamic-processes.md")]
struct DynamicProcesses;
