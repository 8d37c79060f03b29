//! Netmods that wrap other netmods.
//!
//! [`Faulty`] injects faults by a seeded [`FaultPlan`]: broken connections, received bytes that are
//! late, cut or altered, and delayed sends. [`Capture`] writes every frame's header, the first
//! bytes of its payload and the netmod's events to a pcapng file.
//!
//! A wrapper is a netmod itself, keeps the contract of [`netmod_core::Netmod`] whatever it wraps,
//! and costs nothing where it is not used.

pub mod capture;
pub mod faulty;
mod plan;

pub use capture::{Capture, CaptureFile, PayloadLen};
pub use faulty::{FaultStats, Faulty};
pub use plan::{FaultPlan, PlanError};
