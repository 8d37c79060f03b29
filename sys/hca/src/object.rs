//! The objects of an opened device. Each is closed when it is dropped.

use core::fmt::Debug;
use std::os::fd::BorrowedFd;

use crate::completion::Completion;
use crate::error::{Error, PostError};
use crate::path::PathMigState;
use crate::qp::{ModifyQp, QpCap, QpKindOf, QpNum, QpState, SrqNum};
use crate::work::{RecvWr, SendWr, Sge};

/// A channel of completion events (`ibv_create_comp_channel(3)`).
pub trait Channel: Send + Debug {
    /// Returns the descriptor that is readable while there are events. It is for waiting, not for
    /// reading.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes and acknowledges all pending events without waiting, and returns their number
    /// (`ibv_get_cq_event(3)`, `ibv_ack_cq_events(3)`). Does not tell their queues: a thread that
    /// has waited polls all of them.
    ///
    /// # Errors
    /// If the channel cannot be read.
    fn drain(&self) -> Result<usize, Error>;
}

/// A completion queue.
pub trait Cq: Send + Debug {
    /// Returns the queue's capacity in entries, at least the number asked for.
    fn entries(&self) -> u32;

    /// Takes the oldest completions, up to the length of `room`, and returns their number
    /// (`ibv_poll_cq(3)`).
    ///
    /// # Errors
    /// If the queue or the device has failed.
    fn poll(&self, room: &mut [Completion]) -> Result<usize, Error>;

    /// Requests an event for the next completion, or for the next one that is solicited or has
    /// failed (`ibv_req_notify_cq(3)`). Earlier completions cause no event: poll once more
    /// afterwards.
    ///
    /// # Errors
    /// If the device has failed.
    fn arm(&self, solicited_only: bool) -> Result<(), Error>;
}

/// A registration of memory (`ibv_reg_mr(3)`).
pub trait Mr: Send + Debug + Sized {
    /// Returns the key for requests of this process.
    fn lkey(&self) -> u32;

    /// Returns the key for peers.
    fn rkey(&self) -> u32;

    /// Returns the address of the first byte.
    fn addr(&self) -> u64;

    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Returns true if the registration is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a part of the memory for a request. The device checks that the part is within the
    /// registration.
    #[inline]
    fn sge(&self, at: usize, len: u32) -> Sge {
        Sge { addr: self.addr() + at as u64, len, lkey: self.lkey() }
    }

    /// Ends the registration (`ibv_dereg_mr(3)`). Unlike a drop, it tells whether that succeeded.
    ///
    /// # Errors
    /// If the device refuses: the registration is unchanged, and the memory is still lent.
    fn deregister(self) -> Result<(), (Self, Error)>;
}

/// A shared receive queue.
pub trait Srq: Send + Debug {
    /// Returns the queue's capacity in requests, at least the number asked for.
    fn max_wr(&self) -> u32;

    /// Returns the number of an XRC queue, else `None` (`ibv_get_srq_num(3)`).
    fn number(&self) -> Option<SrqNum>;

    /// Sets the number of receives below which the queue reports an event, once; 0 for none
    /// (`ibv_modify_srq(3)`).
    ///
    /// # Errors
    /// If the limit is larger than the queue, or the device has failed.
    fn set_limit(&self, limit: u32) -> Result<(), Error>;

    /// Posts receives (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// At the first request that is refused.
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError>;
}

/// A queue pair.
pub trait Qp: Send + Debug {
    /// Address handles of its device.
    type Ah;

    /// Returns the queue pair's number.
    fn number(&self) -> QpNum;

    /// Returns the queue pair's kind.
    fn kind(&self) -> QpKindOf;

    /// Returns the capacity that the device gave.
    fn cap(&self) -> QpCap;

    /// Changes the state or attributes (`ibv_modify_qp(3)`).
    ///
    /// # Errors
    /// If the step is not allowed in the present state, an attribute is not valid, or the device
    /// has failed.
    fn modify(&self, step: &ModifyQp) -> Result<(), Error>;

    /// Asks the device for the state (`ibv_query_qp(3)`).
    ///
    /// # Errors
    /// If the device has failed.
    fn state(&self) -> Result<QpState, Error>;

    /// Asks the device for the state of path migration (`ibv_query_qp(3)`).
    ///
    /// # Errors
    /// If the device has failed.
    fn path_mig_state(&self) -> Result<PathMigState, Error>;

    /// Posts sends, writes, reads and atomics (`ibv_post_send(3)`). The device is notified once per
    /// list, so longer lists cost less per request.
    ///
    /// # Errors
    /// At the first request that is refused.
    fn post_send(&self, list: &[SendWr<'_, Self::Ah>]) -> Result<(), PostError>;

    /// Posts receives to the pair's own receive queue (`ibv_post_recv(3)`).
    ///
    /// # Errors
    /// At the first request that is refused.
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError>;
}
