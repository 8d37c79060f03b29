//! The trait: an opened device with one protection domain.

#![allow(unsafe_code)]

use core::fmt::Debug;
use std::os::fd::BorrowedFd;

use crate::address::{AhAttr, GidEntry};
use crate::attr::{DeviceAttr, PortAttr};
use crate::error::Error;
use crate::event::AsyncEvent;
use crate::object::{Channel, Cq, Mr, Qp, Srq};
use crate::qp::{Access, QpInit, QpNum, SrqAttr};

/// How an XRC domain is found (`ibv_open_xrcd(3)`).
#[derive(Clone, Copy, Debug)]
pub enum XrcdOpen<'a> {
    /// By a file, of which all processes that open a domain on it get the same. It is made if there is none.
    Shared(BorrowedFd<'a>),
    /// The same, but it must have been made already.
    Existing(BorrowedFd<'a>),
    /// One of this process alone.
    Private,
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

    /// Asks for a port's state (`ibv_query_port(3)`); ports are numbered from 1 on.
    ///
    /// # Errors
    /// If there is no such port, or the device has failed.
    fn port(&self, port: u8) -> Result<PortAttr, Error>;

    /// The entries of a port's table of GIDs that are in use (`ibv_query_gid_ex(3)`).
    ///
    /// # Errors
    /// If there is no such port, or the device has failed.
    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error>;

    /// A partition key of a port, in this host's order (`ibv_query_pkey(3)`).
    ///
    /// # Errors
    /// If there is no such port or entry.
    fn pkey(&self, port: u8, index: u16) -> Result<u16, Error>;

    /// Readable while there are asynchronous events; to wait on, not to read.
    fn async_fd(&self) -> BorrowedFd<'_>;

    /// The next asynchronous event if there is one, without waiting, acknowledged (`ibv_get_async_event(3)`).
    ///
    /// # Errors
    /// If the device has failed in a way that leaves it no events.
    fn async_event(&self) -> Result<Option<AsyncEvent>, Error>;

    /// Makes a channel of completion events (`ibv_create_comp_channel(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_channel(&self) -> Result<Self::Channel, Error>;

    /// Makes a completion queue with room for so many entries; events of it say the token (`ibv_create_cq(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_cq(&self, entries: u32, token: u64, channel: Option<&Self::Channel>)
    -> Result<Self::Cq, Error>;

    /// Registers memory (`ibv_reg_mr(3)`).
    ///
    /// # Safety
    /// From this call until the registration has ended
    /// 1. the memory is allocated, readable, and writable if the access says so, for its whole length;
    /// 2. nobody writes to what a request under way reads, and nobody reads or writes what one under way writes;
    /// 3. of memory that peers may write (read), that holds for as long as a peer that knows the key may do so (do so).
    ///
    /// A request is under way until its completion, or one of a later request of the same send queue, was polled, or its queue pair
    /// was closed or reset. If a registration is dropped and the device refuses to end it, the memory stays lent for ever; who cannot
    /// promise that calls [`Mr::deregister`].
    ///
    /// # Errors
    /// If the device or the system refuses; in particular for the limit of locked memory.
    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Self::Mr, Error>;

    /// Makes a shared receive queue; events of it say the token (`ibv_create_srq(3)`).
    ///
    /// # Errors
    /// If the device or the system refuses.
    fn create_srq(&self, attr: SrqAttr, token: u64) -> Result<Self::Srq, Error>;

    /// Makes a shared receive queue of an XRC domain, whose receives complete in the given queue (`ibv_create_srq_ex(3)`).
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
    /// If the way is not valid, or the device refuses.
    fn create_ah(&self, attr: &AhAttr) -> Result<Self::Ah, Error>;

    /// Opens an XRC domain (`ibv_open_xrcd(3)`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the device has no XRC, whatever its capability bits say.
    fn open_xrcd(&self, how: XrcdOpen<'_>) -> Result<Self::Xrcd, Error>;

    /// Takes part in a receiving queue pair of a domain, which any process of the domain may have made (`ibv_open_qp(3)`). It lives at
    /// least until all that have made or opened it have dropped it.
    ///
    /// # Errors
    /// If there is no such queue pair in the domain.
    fn open_tgt(&self, xrcd: &Self::Xrcd, qp: QpNum) -> Result<Self::Qp, Error>;
}
