//! What the objects of an opened device can do. Each is closed when it is dropped.

use core::fmt::Debug;
use std::os::fd::BorrowedFd;

use crate::completion::Completion;
use crate::error::{Error, PostError};
use crate::path::PathMigState;
use crate::qp::{ModifyQp, QpCap, QpKindOf, QpNum, QpState, SrqNum};
use crate::work::{RecvWr, SendWr, Sge};

/// A channel of completion events (`ibv_create_comp_channel(3)`).
pub trait Channel: Send + Debug {
    /// Readable while there are events; to wait on, not to read.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes all events that are there, without waiting, and acknowledges them (`ibv_get_cq_event(3)`, `ibv_ack_cq_events(3)`).
    /// Returns how many there were. Which queues they came from is not told: whoever waited polls them all.
    ///
    /// # Errors
    /// If the channel cannot be read.
    fn drain(&self) -> Result<usize, Error>;
}

/// A completion queue.
pub trait Cq: Send + Debug {
    /// Entries that it has room for; at least as many as were asked for.
    fn entries(&self) -> u32;

    /// Takes completions, at most as many as there is room for, the oldest first (`ibv_poll_cq(3)`). Returns how many there were.
    ///
    /// # Errors
    /// If the queue or the device has failed.
    fn poll(&self, room: &mut [Completion]) -> Result<usize, Error>;

    /// The next completion is an event of the channel, or the next that is solicited or has failed (`ibv_req_notify_cq(3)`). What
    /// came before the call is none: poll once more after it.
    ///
    /// # Errors
    /// If the device has failed.
    fn arm(&self, solicited_only: bool) -> Result<(), Error>;
}

/// A registration of memory (`ibv_reg_mr(3)`).
pub trait Mr: Send + Debug + Sized {
    /// Key for requests of this process.
    fn lkey(&self) -> u32;

    /// Key for peers.
    fn rkey(&self) -> u32;

    /// First byte.
    fn addr(&self) -> u64;

    /// Bytes.
    fn len(&self) -> usize;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of it for a request; whether the part is within is looked at by the device.
    #[inline]
    fn sge(&self, at: usize, len: u32) -> Sge {
        Sge { addr: self.addr() + at as u64, len, lkey: self.lkey() }
    }

    /// Ends the registration (`ibv_dereg_mr(3)`). After a drop one does not know.
    ///
    /// # Errors
    /// If the device refuses: the registration is as it was, and the memory still lent.
    fn deregister(self) -> Result<(), (Self, Error)>;
}

/// A shared receive queue.
pub trait Srq: Send + Debug {
    /// Requests that it has room for; at least as many as were asked for.
    fn max_wr(&self) -> u32;

    /// Its number, if it is one of XRC (`ibv_get_srq_num(3)`).
    fn number(&self) -> Option<SrqNum>;

    /// When fewer receives than that are left an event tells, once; 0: none (`ibv_modify_srq(3)`).
    ///
    /// # Errors
    /// If the limit is larger than the queue, or the device has failed.
    fn set_limit(&self, limit: u32) -> Result<(), Error>;

    /// Posts receives (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// At the first that is refused.
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError>;
}

/// A queue pair.
pub trait Qp: Send + Debug {
    /// Address handles of its device.
    type Ah;

    /// Its number.
    fn number(&self) -> QpNum;

    /// Its kind.
    fn kind(&self) -> QpKindOf;

    /// What the device gave.
    fn cap(&self) -> QpCap;

    /// Takes a step (`ibv_modify_qp(3)`).
    ///
    /// # Errors
    /// If the step is not one from the present state, an attribute is not valid, or the device has failed.
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

    /// Posts sends, writes, reads and atomics (`ibv_post_send(3)`). The device tells by the list's end that there is work: longer lists
    /// cost less.
    ///
    /// # Errors
    /// At the first that is refused.
    fn post_send(&self, list: &[SendWr<'_, Self::Ah>]) -> Result<(), PostError>;

    /// Posts receives to a queue of its own (`ibv_post_recv(3)`).
    ///
    /// # Errors
    /// At the first that is refused.
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError>;
}
