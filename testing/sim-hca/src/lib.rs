//! A simulated network of host channel adapters, with the semantics of InfiniBand verbs.
//!
//! A [`Fabric`] has devices joined by a network, and *contexts*: opened devices ([`SimHca`]), each
//! of which stands for a process. All live in one real process, in one thread or several. XRC
//! domains are shared by the identity of their file.
//!
//! *Simulated time*: there is no thread and no clock. Packets, acknowledgements and time-outs
//! happen within calls only: a post or poll lets some due events happen, [`Fabric::advance`] all
//! events up to a time. The order is random, from a seed, but legal: messages from one queue pair
//! to another stay in order, and little else does.
//!
//! *Strict*: calls that real hardware would punish, perhaps much later and elsewhere, are recorded
//! ([`Fabric::violations`]), and then punished as hardware does. [`Fabric::leaks`] counts all open
//! objects, [`Fabric::counts`] those of a process.
//!
//! *Faults on request*: see [`Faults`], [`Fabric::set_port`], [`Fabric::fail_device`] and
//! [`Fabric::kill`].
//!
//! A message is a single packet here, which arrives whole, late or not at all, but uses as many
//! packet sequence numbers as its packets would.

mod bell;
mod counts;
mod fabric;
mod hca;
mod mem;
mod model;
mod object;
mod settings;

pub use counts::{Counts, Leaks, Stats};
pub use fabric::{ContextId, DeviceId, Fabric};
pub use hca::SimHca;
pub use object::{SimAh, SimChannel, SimCq, SimMr, SimQp, SimSrq, SimXrcd};
pub use settings::{DeviceSettings, Faults, Settings, TgtLife};
