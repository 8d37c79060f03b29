//! Tests of the whole: a conformance suite for netmods, and what it runs on.
//!
//! [`board`] is a process manager in memory, so that the ranks of a job can be threads;
//! [`loopback`] is a netmod in memory, whose deliveries can be cut anywhere; [`factory`] makes
//! devices over one netmod or another; [`mod@conformance`] is the suite, instantiated for each of
//! them by one line. [`scripted`] plays the peers of a single device byte by byte. [`libfabric`]
//! finds the libraries to test with. [`watchdog`] ends a process whose test hangs. [`stall`] holds
//! back a system call of a rank, and [`quarantine`] tells whether freed memory is written to.

pub mod board;
pub mod census;
pub mod conformance;
pub mod factory;
pub mod hosts;
pub mod jobs;
pub mod libfabric;
pub mod loopback;
pub mod quarantine;
pub mod remote;
pub mod scripted;
pub mod stall;
pub mod sys;
pub mod watchdog;
