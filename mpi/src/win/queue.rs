//! Requests of other processes that wait for their turn at the target.

use std::collections::VecDeque;

use ch3_shim::{Exposure, Request as Message};
use netmod_core::rma::RemoteKey;

use super::tickets::Ticket;
use super::wire::Request;

/// A request that waits for its turn.
pub(super) struct Waiting {
    pub request: Request,
    /// The bytes behind the header.
    pub body: Vec<u8>,
    /// The message that it comes in, if it is not here.
    pub apart: Option<Message>,
    /// The ticket by which the lock is waited for.
    pub ticket: Option<Ticket>,
}

/// The requests of one process.
#[derive(Default)]
pub(super) struct Origin {
    pub waiting: VecDeque<Waiting>,
    /// Class of the first failure since it was told last.
    pub failed: i32,
}

/// The requests of all processes of a window.
#[derive(Default)]
pub(super) struct Server {
    /// The receive for the next request.
    pub receive: Option<Message>,
    pub origins: Vec<Origin>,
    /// Ranks whose requests wait.
    pub busy: Vec<u32>,
    /// The devices by which others access this process's memory, with the keys for all that do so
    /// over them.
    pub exposed: Vec<(u32, Exposure, RemoteKey)>,
    /// Messages that were to wake this process.
    pub woken: u64,
    /// True while this process is counted among those that sleep for its own lock.
    pub sleeps: bool,
}
