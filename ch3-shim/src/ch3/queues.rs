//! The matching queues.

use netmod_core::ReqId;

use super::Unexpected;
use crate::tagmatch::{PostedQueue, UnexpectedQueue};

/// The receives that wait for messages, and the messages that wait for receives.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Posted receives.
    pub posted: PostedQueue<ReqId>,
    /// Messages that no receive has matched.
    pub unexpected: UnexpectedQueue<Unexpected>,
}

impl Queues {
    /// Makes empty queues.
    pub(crate) fn new() -> Queues {
        Queues { posted: PostedQueue::new(), unexpected: UnexpectedQueue::new() }
    }
}
