//! Events from libpmix's thread: ends of operations, and failures of processes.

use super::value::{Datum, Status};
use crate::sys::EventFd;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A non-blocking operation: ended by libpmix's thread, polled by ours. One at a time.
#[derive(Debug)]
pub(super) struct Operation {
    /// Readable from the end of the operation until it is [taken](Operation::take).
    ready: EventFd,
    status: AtomicI32,
    finished: AtomicBool,
    /// The value that a lookup found.
    found: Mutex<Option<Datum>>,
}

impl Operation {
    pub(super) fn new() -> io::Result<Operation> {
        let ready = EventFd::new()?;
        Ok(Operation {
            ready,
            status: AtomicI32::new(0),
            finished: AtomicBool::new(false),
            found: Mutex::new(None),
        })
    }

    /// Records the end of the operation.
    pub(super) fn finish(&self, status: Status) {
        self.status.store(status, Ordering::Relaxed);
        self.finished.store(true, Ordering::Release);
        self.ready.signal();
    }

    /// Records the end of a lookup, and its value.
    pub(super) fn finish_lookup(&self, status: Status, found: Option<Datum>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        self.finish(status);
    }

    /// Takes the value of the ended lookup.
    pub(super) fn take_found(&self) -> Option<Datum> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the status of the ended operation, once, after which the next may begin; `None` if it
    /// has not ended.
    pub(super) fn take(&self) -> Option<Status> {
        if !self.finished.swap(false, Ordering::Acquire) {
            return None;
        }
        // The wake-up follows the mark. Waiting for it leaves the descriptor unreadable for the
        // next operation.
        self.ready.consume();
        Some(self.status.load(Ordering::Relaxed))
    }

    /// Makes the descriptor unreadable: no more operations will end.
    pub(super) fn hush(&self) {
        if self.ready.is_ready() {
            self.ready.consume();
        }
    }

    /// Makes the descriptor readable for another reason than the end of an operation.
    pub(super) fn wake(&self) {
        self.ready.signal();
    }

    /// Waits for the end of the operation, at most for `limit`. Returns true if it may have ended.
    pub(super) fn wait_for(&self, limit: Duration) -> io::Result<bool> {
        self.ready.wait_for(limit)
    }

    /// Waits for the end of the operation.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.ready.wait()
    }

    /// Returns a descriptor that is readable when the operation has ended.
    pub(super) fn fd(&self) -> RawFd {
        self.ready.fd()
    }
}

/// A process by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) namespace: String,
    pub(super) rank: u32,
}

/// Processes whose failure was reported. A process has one connection to PMIx.
static FAILED: Mutex<Vec<Peer>> = Mutex::new(Vec::new());

/// Peers whose connections libpmix has lost: this node's server, and perhaps other processes.
static LOST: Mutex<Vec<Peer>> = Mutex::new(Vec::new());

/// The operation whose descriptor this process polls.
static WAITING: OnceLock<Arc<Operation>> = OnceLock::new();

/// Makes the loss of the server wake this operation's descriptor.
pub(super) fn wake_by(operation: &Arc<Operation>) {
    // A process has one connection to PMIx.
    WAITING.get_or_init(|| Arc::clone(operation));
}

/// Returns true if libpmix has lost its connection to the launcher's server, which is no process of
/// the job.
pub(super) fn server_is_lost(namespace: &str) -> bool {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|peer| peer.namespace != namespace)
}

/// `PMIX_ERR_LOST_CONNECTION` of PMIx 4 and later; the next constant is that of version 3.
const LOST_CONNECTION: Status = -61;
const LOST_CONNECTION_TO_SERVER: Status = -101;

/// Returns true if the event means that its processes have failed.
///
/// The mere end of a process (`PMIX_EVENT_PROC_TERMINATED`) does not.
fn is_failure(status: Status) -> bool {
    const LOST_PEER: Status = -102;
    const LOST_CLIENT: Status = -103;
    const PROC_ABORTED: Status = -7;
    const REQUESTED_ABORT: Status = -8;
    const ABORTING: Status = -9;
    const TERM_WITHOUT_SYNC: Status = -200;
    const KILLED_BY_COMMAND: Status = -400;
    const FAILED_TO_START: Status = -401;
    const ABORTED_BY_SIGNAL: Status = -402;
    const BOUND_EXCEEDED: Status = -403;
    const NONZERO_EXIT: Status = -404;
    matches!(
        status,
        LOST_CONNECTION
            | LOST_CONNECTION_TO_SERVER
            | LOST_PEER
            | LOST_CLIENT
            | PROC_ABORTED
            | REQUESTED_ABORT
            | ABORTING
            | TERM_WITHOUT_SYNC
            | KILLED_BY_COMMAND
            | FAILED_TO_START
            | ABORTED_BY_SIGNAL
            | BOUND_EXCEEDED
            | NONZERO_EXIT
    )
}

/// Handles an event about the processes in `affected`, or, if it names none, about its source.
pub(super) fn happened(status: Status, source: Option<Peer>, mut affected: Vec<Peer>) {
    tracing::debug!(status, ?source, ?affected, "event from the process manager");
    if !is_failure(status) {
        return;
    }
    if affected.is_empty() {
        affected.extend(source);
    }
    if matches!(status, LOST_CONNECTION | LOST_CONNECTION_TO_SERVER) {
        // The wake-up comes before the loss is visible, so that whoever sees the loss can consume
        // it.
        let mut lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
        lost.extend(affected.iter().cloned());
        if let Some(waiting) = WAITING.get() {
            waiting.ready.signal();
        }
    }
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    for peer in affected {
        if !failed.contains(&peer) {
            failed.push(peer);
        }
    }
}

/// Records whether the event handler could be registered.
pub(super) fn registered(status: Status) {
    if status < 0 {
        tracing::warn!(status, "the process manager will not tell of failed processes");
    }
}

/// Returns the failed ranks of a job, in ascending order.
pub(super) fn failed(namespace: &str, size: u32) -> Vec<u32> {
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    let of_job = failed.iter().filter(|peer| peer.namespace == namespace && peer.rank < size);
    let mut ranks: Vec<u32> = of_job.map(|peer| peer.rank).collect();
    ranks.sort_unstable();
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn peer(namespace: &str, rank: u32) -> Peer {
        Peer { namespace: namespace.to_owned(), rank }
    }

    #[test]
    fn failures_are_told_apart_from_ends_and_from_other_jobs() {
        happened(-402, Some(peer("server", u32::MAX)), vec![peer("job-a", 2), peer("job-b", 0)]);
        happened(-201, Some(peer("server", 0)), vec![peer("job-a", 1)]);
        happened(-402, None, vec![peer("job-a", 2)]);
        happened(-404, Some(peer("job-a", 0)), Vec::new());
        happened(-7, Some(peer("job-a", 9)), Vec::new());
        happened(-402, None, Vec::new());
        assert_eq!(failed("job-a", 4), [0, 2]);
        assert_eq!(failed("job-b", 4), [0]);
        assert_eq!(failed("job", 4), []);
    }

    /// The server is none of the job's processes; a process of the job is no server.
    #[test]
    fn the_loss_of_the_server_is_told_from_that_of_a_process() {
        assert!(!server_is_lost("job-c"));
        happened(LOST_CONNECTION, Some(peer("job-c", 1)), Vec::new());
        assert!(!server_is_lost("job-c"));
        assert_eq!(failed("job-c", 4), [1]);
        let operation = Arc::new(Operation::new().unwrap());
        wake_by(&operation);
        happened(LOST_CONNECTION, Some(peer("launcher@0", 0)), Vec::new());
        assert!(server_is_lost("job-c") && operation.ready.is_ready());
        assert_eq!(failed("job-c", 4), [1]);
    }

    #[test]
    fn an_operation_ends_once_and_can_be_used_again() {
        let operation = Arc::new(Operation::new().unwrap());
        for status in [0, -46, 0] {
            assert_eq!(operation.take(), None);
            let other = Arc::clone(&operation);
            let thread = std::thread::spawn(move || other.finish(status));
            operation.wait().unwrap();
            assert_eq!(operation.take(), Some(status));
            assert_eq!(operation.take(), None);
            thread.join().unwrap();
            assert!(!operation.ready.is_ready(), "the descriptor stays readable");
        }
    }
}
