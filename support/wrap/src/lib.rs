//! Netmods around netmods.
//!
//! [`Faulty`] injects faults by a seeded [`FaultPlan`]: links that break, bytes that come late, cut or
//! altered, sends that wait. [`Capture`] writes every frame's header, the first bytes of its payload and the
//! netmod's events to a pcapng file. A wrapper is a netmod itself, keeps the contract of [`netmod_core::Netmod`]
//! whatever it wraps, and costs nothing where it is not used.

pub mod capture;
pub mod faulty;
mod plan;

pub use capture::{Capture, CaptureFile, PayloadLen};
pub use faulty::{FaultStats, Faulty};
pub use plan::{FaultPlan, PlanError};
