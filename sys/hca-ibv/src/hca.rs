//! Implements the trait for an opened device.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use hca::{
    Access, AhAttr, AsyncEvent, DeviceAttr, Error, GidEntry, Hca, PortAttr, QpInit, QpNum, SrqAttr, XrcdOpen,
};

use crate::device::IbvHca;
use crate::{IbvAh, IbvChannel, IbvCq, IbvMr, IbvQp, IbvSrq, IbvXrcd, convert};

impl Hca for IbvHca {
    type Channel = IbvChannel;
    type Cq = IbvCq;
    type Mr = IbvMr;
    type Srq = IbvSrq;
    type Qp = IbvQp;
    type Ah = IbvAh;
    type Xrcd = IbvXrcd;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn device(&self) -> &DeviceAttr {
        &self.0.attr
    }

    fn port(&self, port: u8) -> Result<PortAttr, Error> {
        self.0.port_attr(port).map(|attr| convert::port(&attr))
    }

    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, Error> {
        self.0.gids(port)
    }

    fn pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        self.0.pkey(port, index)
    }

    fn async_fd(&self) -> BorrowedFd<'_> {
        self.0.context.async_fd()
    }

    fn async_event(&self) -> Result<Option<AsyncEvent>, Error> {
        self.0.event()
    }

    fn create_channel(&self) -> Result<IbvChannel, Error> {
        IbvChannel::new(&self.0)
    }

    fn create_cq(&self, entries: u32, token: u64, channel: Option<&IbvChannel>) -> Result<IbvCq, Error> {
        IbvCq::new(&self.0, entries, token, channel)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<IbvMr, Error> {
        // SAFETY: the caller's promise.
        unsafe { IbvMr::new(&self.0, base, len, access) }
    }

    fn create_srq(&self, attr: SrqAttr, token: u64) -> Result<IbvSrq, Error> {
        IbvSrq::new(&self.0, attr, token)
    }

    fn create_xrc_srq(&self, attr: SrqAttr, token: u64, xrcd: &IbvXrcd, cq: &IbvCq) -> Result<IbvSrq, Error> {
        IbvSrq::new_xrc(&self.0, attr, token, xrcd, cq)
    }

    fn create_qp(&self, init: &QpInit<'_, IbvHca>) -> Result<IbvQp, Error> {
        IbvQp::new(&self.0, init)
    }

    fn create_ah(&self, attr: &AhAttr) -> Result<IbvAh, Error> {
        IbvAh::new(&self.0, attr)
    }

    fn open_xrcd(&self, how: XrcdOpen<'_>) -> Result<IbvXrcd, Error> {
        IbvXrcd::new(&self.0, how)
    }

    fn open_tgt(&self, xrcd: &IbvXrcd, qp: QpNum) -> Result<IbvQp, Error> {
        IbvQp::open(&self.0, xrcd, qp)
    }
}
