//! A simulated network of host channel adapters, with the semantics of InfiniBand verbs.
//!
//! A [`Fabric`] has devices, joined by a network, and *contexts*: opened devices ([`SimHca`]), each of which stands for a process. They all live in
//! one process, in one thread or several. XRC domains are shared by the identity of the file that they are opened on.
//!
//! *Simulated time*: there is no thread and no clock. Packets, acknowledgements and time-outs happen within calls only: a post or a poll lets some of
//! what is due happen, [`Fabric::advance`] everything up to a time. The order is random, from a seed, but legal: what one queue pair sends to another
//! stays in order, and little else does.
//!
//! *Strict*: what hardware would punish, perhaps much later and elsewhere, is written down ([`Fabric::violations`]), and then punished as hardware does.
//! [`Fabric::leaks`] counts what is open, [`Fabric::counts`] what a process holds.
//!
//! *Faulty where asked*: see [`Faults`], [`Fabric::set_port`], [`Fabric::fail_device`] and [`Fabric::kill`].
//!
//! A message is one packet here, which arrives whole, late or not at all, but takes as many packet numbers as its packets would be.

mod bell;
mod fabric;
mod hca;
mod mem;
mod model;
mod object;
mod settings;

pub use fabric::{ContextId, Counts, DeviceId, Fabric, Leaks, Stats};
pub use hca::SimHca;
pub use object::{SimAh, SimChannel, SimCq, SimMr, SimQp, SimSrq, SimXrcd};
pub use settings::{DeviceSettings, Faults, Settings, TgtLife};
