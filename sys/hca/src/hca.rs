//! The trait: an opened device with one protection domain.

#![allow(unsafe_code)]

use core::fmt::Debug;
use std::os::fd::BorrowedFd;

use crate::address::{AhAttr, GidEntry};
use crate::attr::{DeviceAttr, PortAttr};
use crate::error::Error;
use crate::event::AsyncEvent;
use crate::object::{Channel, Cq, Mr, Qp, Srq};
use crate::qp::{Access, QpCap, QpKindOf, QpNum, SrqAttr};

/// Selects an XRC domain to open (`ibv_open_xrcd(3)`).
#[derive(Clone, Copy, Debug)]
pub enum XrcdOpen<'a> {
    /// The domain of a file, the same one for all processes that name the file. Made if there is
    /// none yet.
    Shared(BorrowedFd<'a>),
    /// The domain of a file. It must exist.
    Existing(BorrowedFd<'a>),
    /// A new domain of this process alone.
    Private,
}

/// Kind of a queue pair, with its completion and receive queues (`ibv_create_qp(3)`,
/// `ibv_create_qp_ex(3)`).
#[derive(Debug)]
pub enum QpKind<'a, H: Hca> {
    /// Reliable connection (`IBV_QPT_RC`).
    Rc {
        /// Completion queue of sends.
        send_cq: &'a H::Cq,
        /// Completion queue of receives.
        recv_cq: &'a H::Cq,
        /// Shared receive queue; `None` gives the pair a receive queue of its own.
        srq: Option<&'a H::Srq>,
    },
    /// Datagrams (`IBV_QPT_UD`).
    Ud {
        /// Completion queue of sends.
        send_cq: &'a H::Cq,
        /// Completion queue of receives.
        recv_cq: &'a H::Cq,
        /// Shared receive queue; `None` gives the pair a receive queue of its own.
        srq: Option<&'a H::Srq>,
    },
    /// Sender of XRC (`IBV_QPT_XRC_SEND`).
    XrcIni {
        /// Completion queue of sends.
        send_cq: &'a H::Cq,
    },
    /// Receiver of XRC (`IBV_QPT_XRC_RECV`). Each message names a shared receive queue of the
    /// domain.
    XrcTgt {
        /// The domain.
        xrcd: &'a H::Xrcd,
    },
}

// Not derived: a derived impl would require `H: Clone`.
impl<H: Hca> Clone for QpKind<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Hca> Copy for QpKind<'_, H> {}

impl<H: Hca> QpKind<'_, H> {
    /// Returns the kind without the queues.
    pub fn kind(&self) -> QpKindOf {
        match self {
            QpKind::Rc { .. } => QpKindOf::Rc,
            QpKind::Ud { .. } => QpKindOf::Ud,
            QpKind::XrcIni { .. } => QpKindOf::XrcIni,
            QpKind::XrcTgt { .. } => QpKindOf::XrcTgt,
        }
    }
}

/// Attributes of a queue pair to be made (`ibv_create_qp(3)`).
#[derive(Debug)]
pub struct QpInit<'a, H: Hca> {
    /// Kind and queues.
    pub kind: QpKind<'a, H>,
    /// Minimum capacity; the device may give more, see [`crate::Qp::cap`].
    pub cap: QpCap,
    /// True if every request has a completion; false if only requests that ask for it.
    pub signal_all: bool,
}

/// An opened device with one protection domain (`ibv_open_device(3)`, `ibv_alloc_pd(3)`).
pub trait Hca: Debug + Send + Sized + 'static {
    /// Channel of completion events.
    type Channel: Channel + 'static;
    /// Completion queue.
    type Cq: Cq + 'static;
    /// Registration of memory.
    type Mr: Mr + 'static;
    /// Shared receive queue.
    type Srq: Srq + 'static;
    /// Queue pair.
    type Qp: Qp<Ah = Self::Ah> + 'static;
    /// Address handle.
    type Ah: Debug + Send + 'static;
    /// XRC domain.
    type Xrcd: Debug + Send + 'static;

    /// The device's name, such as `mlx5_0`.
    fn name(&self) -> &str;

    /// The device's limits, as they were when it was opened.
    fn device(&self) -> &DeviceAttr;

    /// Returns a port's state (`ibv_query_port(3)`). Ports are numbered from 1.
    ///
    /// # Errors
    /// If there is no such port, or the device has failed.
    fn port(&self, port: u8) -> Result<PortAttr, Error>;

    /// Returns the entries of a port's table of GIDs that are in use (`ibv_query_gid_ex(3)`).
    ///
    /// # Errors
    /// If there is no such port, or the device has failed.
    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error>;

    /// Returns a partition key of a port, in host byte order (`ibv_query_pkey(3)`).
    ///
    /// # Errors
    /// If there is no such port or entry.
    fn pkey(&self, port: u8, index: u16) -> Result<u16, Error>;

    /// Returns the descriptor that is readable while there are asynchronous events. It is for
    /// waiting, not for reading.
    fn async_fd(&self) -> BorrowedFd<'_>;

    /// Returns the next asynchronous event if there is one, already acknowledged
    /// (`ibv_get_async_event(3)`). Does not wait.
    ///
    /// # Errors
    /// If the device has failed so that it reports no events.
    fn async_event(&self) -> Result<Option<AsyncEvent>, Error>;

    /// Makes a channel of completion events (`ibv_create_comp_channel(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_channel(&self) -> Result<Self::Channel, Error>;

    /// Makes a completion queue for at least this many entries (`ibv_create_cq(3)`). Its
    /// asynchronous events carry the token.
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_cq(&self, entries: u32, token: u64, channel: Option<&Self::Channel>)
    -> Result<Self::Cq, Error>;

    /// Registers memory (`ibv_reg_mr(3)`).
    ///
    /// # Safety
    /// From this call until the registration has ended:
    /// 1. The memory is allocated and readable for its whole length, and writable if the access
    ///    allows writing.
    /// 2. Nobody writes memory that an outstanding request reads. Nobody reads or writes memory
    ///    that an outstanding request writes.
    /// 3. Memory that peers may write is treated as if such a request were outstanding for as long
    ///    as a peer with the key may write it; likewise for reading.
    ///
    /// A request is outstanding until its completion, or that of a later request of the same send
    /// queue, was polled, or until its queue pair was closed or reset. If a registration is dropped
    /// and the device refuses to end it, the memory stays lent for ever. A caller who cannot accept
    /// that calls [`Mr::deregister`].
    ///
    /// # Errors
    /// If the device or the system refuses, most often because of the limit of locked memory.
    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Self::Mr, Error>;

    /// Makes a shared receive queue (`ibv_create_srq(3)`). Its asynchronous events carry the token.
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_srq(&self, attr: SrqAttr, token: u64) -> Result<Self::Srq, Error>;

    /// Makes a shared receive queue of an XRC domain; its receives complete in the given queue
    /// (`ibv_create_srq_ex(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_xrc_srq(
        &self,
        attr: SrqAttr,
        token: u64,
        xrcd: &Self::Xrcd,
        cq: &Self::Cq,
    ) -> Result<Self::Srq, Error>;

    /// Makes a queue pair, in the reset state (`ibv_create_qp(3)`, `ibv_create_qp_ex(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_qp(&self, init: &QpInit<'_, Self>) -> Result<Self::Qp, Error>;

    /// Makes an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    /// If the route is not valid, or the device refuses.
    fn create_ah(&self, attr: &AhAttr) -> Result<Self::Ah, Error>;

    /// Opens an XRC domain (`ibv_open_xrcd(3)`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the device has no XRC, whatever its capability bits say.
    fn open_xrcd(&self, how: XrcdOpen<'_>) -> Result<Self::Xrcd, Error>;

    /// Opens a receiving queue pair that any process of the domain has made (`ibv_open_qp(3)`). It
    /// lives at least until all that made or opened it have dropped it.
    ///
    /// # Errors
    /// If there is no such queue pair in the domain.
    fn open_tgt(&self, xrcd: &Self::Xrcd, qp: QpNum) -> Result<Self::Qp, Error>;
}
