//! Channels, completion queues and shared receive queues.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use hca::{Channel, Completion, Cq, Errno, Error, PostError, RecvWr, Srq, SrqAttr, SrqNum, errno};
use libibverbs_sys::attr::*;
use libibverbs_sys::call;
use libibverbs_sys::consts::*;
use libibverbs_sys::object::{ibv_comp_channel, ibv_cq, ibv_srq};
use libibverbs_sys::work::ibv_wc;

use crate::convert;
use crate::device::{Device, nonblocking, pointer_of};
use crate::error::{self, check, closed, made};
use crate::post::post;
use crate::xrc::{Domain, IbvXrcd, unsupported};

/// Maximum number of completions taken by one call.
const BATCH: usize = 32;

/// A channel; closed when its last queue is closed.
#[derive(Debug)]
struct Events {
    channel: *mut ibv_comp_channel,
    device: Arc<Device>,
}

// SAFETY: the library's calls may come from any thread, and it locks for itself.
unsafe impl Send for Events {}
// SAFETY: as above.
unsafe impl Sync for Events {}

/// A channel of completion events.
#[derive(Debug)]
pub struct IbvChannel(Arc<Events>);

impl IbvChannel {
    pub(crate) fn new(device: &Arc<Device>) -> Result<IbvChannel, Error> {
        // SAFETY: the context is live.
        let channel = unsafe { (device.library().ibv_create_comp_channel)(device.context.raw()) };
        let channel = made(channel, "ibv_create_comp_channel", || device.name().to_owned())?;
        let new = IbvChannel(Arc::new(Events { channel, device: device.clone() }));
        nonblocking(new.fd()).map_err(|e| Error::new("fcntl", device.name(), e))?;
        Ok(new)
    }
}

impl Channel for IbvChannel {
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is live, and with it its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.0.channel).fd) }
    }

    fn drain(&self) -> Result<usize, Error> {
        let library = self.0.device.library();
        for taken in 0.. {
            let (mut cq, mut context) = (core::ptr::null_mut(), core::ptr::null_mut());
            // SAFETY: the channel is live, and results have room.
            let got = unsafe { (library.ibv_get_cq_event)(self.0.channel, &raw mut cq, &raw mut context) };
            if got != 0 {
                return match error::last() {
                    // No more events, or a signal interrupted the call; pending events stay.
                    Errno(libc::EAGAIN | libc::EINTR) => Ok(taken),
                    why => Err(Error::new("ibv_get_cq_event", self.0.device.name(), why)),
                };
            }
            // SAFETY: a queue cannot go before its events are acknowledged: who closes it waits for
            // that.
            unsafe { (library.ibv_ack_cq_events)(cq, 1) };
        }
        Ok(usize::MAX)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: it is live, and its queues, which have kept it, are closed.
        let done = unsafe { (self.device.library().ibv_destroy_comp_channel)(self.channel) };
        closed(done, "ibv_destroy_comp_channel", self.device.name());
    }
}

/// A completion queue; closed when the last queue that completes in it is closed.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) cq: *mut ibv_cq,
    entries: u32,
    pub(crate) device: Arc<Device>,
    _channel: Option<Arc<Events>>,
}

// SAFETY: the library's calls may come from any thread, and it locks for itself.
unsafe impl Send for Completions {}
// SAFETY: as above.
unsafe impl Sync for Completions {}

/// A completion queue.
#[derive(Debug)]
pub struct IbvCq(pub(crate) Arc<Completions>);

impl IbvCq {
    pub(crate) fn new(
        device: &Arc<Device>,
        entries: u32,
        token: u64,
        channel: Option<&IbvChannel>,
    ) -> Result<IbvCq, Error> {
        let on = || format!("{}, {entries} entries", device.name());
        let refuse = |why| Error::new("ibv_create_cq", on(), why);
        let count = c_int::try_from(entries).map_err(|_| refuse(errno::EINVAL))?;
        let context = pointer_of(token).map_err(refuse)?;
        let raw = match channel {
            None => core::ptr::null_mut(),
            Some(channel) if Arc::ptr_eq(&channel.0.device, device) => channel.0.channel,
            Some(_) => return Err(refuse(errno::EINVAL)),
        };
        // SAFETY: context and channel are live, and stay so as long as the queue.
        let cq = unsafe { (device.library().ibv_create_cq)(device.context.raw(), count, context, raw, 0) };
        let cq = made(cq, "ibv_create_cq", on)?;
        // SAFETY: it was made just now.
        let entries = u32::try_from(unsafe { (*cq).cqe }).unwrap_or(entries);
        let channel = channel.map(|channel| channel.0.clone());
        Ok(IbvCq(Arc::new(Completions { cq, entries, device: device.clone(), _channel: channel })))
    }

    #[cold]
    fn failed(&self, returned: c_int) -> Error {
        // Drivers return error numbers of their own here.
        let why = if returned == -libc::EOPNOTSUPP { errno::EOPNOTSUPP } else { errno::EIO };
        Error::new("ibv_poll_cq", self.0.device.name(), why)
    }
}

impl Cq for IbvCq {
    fn entries(&self) -> u32 {
        self.0.entries
    }

    #[inline]
    fn poll(&self, room: &mut [Completion]) -> Result<usize, Error> {
        let mut taken = 0;
        let mut batch = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        while taken < room.len() {
            let asked = BATCH.min(room.len() - taken);
            // SAFETY: the queue is live, and there is room for that many.
            let got = unsafe { call::ibv_poll_cq(self.0.cq, asked as c_int, batch.as_mut_ptr().cast()) };
            let Ok(got) = usize::try_from(got) else {
                // Completions already taken are reported; the next call fails again.
                return if taken > 0 { Ok(taken) } else { Err(self.failed(got)) };
            };
            for (to, from) in room[taken..].iter_mut().zip(&batch[..got.min(asked)]) {
                // SAFETY: the driver has written that many.
                *to = convert::completion(unsafe { from.assume_init_ref() });
            }
            taken += got.min(asked);
            if got < asked {
                break;
            }
        }
        Ok(taken)
    }

    fn arm(&self, solicited_only: bool) -> Result<(), Error> {
        // SAFETY: the queue is live.
        let done = unsafe { call::ibv_req_notify_cq(self.0.cq, solicited_only.into()) };
        check(done, "ibv_req_notify_cq", || self.0.device.name().to_owned())
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: it is live; queues that complete in it have kept it; its events are acknowledged.
        let done = unsafe { (self.device.library().ibv_destroy_cq)(self.cq) };
        closed(done, "ibv_destroy_cq", self.device.name());
    }
}

/// A shared receive queue; closed when the last queue pair that takes from it is closed.
#[derive(Debug)]
pub(crate) struct Receives {
    pub(crate) srq: *mut ibv_srq,
    max_wr: u32,
    number: Option<SrqNum>,
    pub(crate) device: Arc<Device>,
    _xrc: Option<(Arc<Domain>, Arc<Completions>)>,
}

// SAFETY: the library's calls may come from any thread, and it locks for itself.
unsafe impl Send for Receives {}
// SAFETY: as above.
unsafe impl Sync for Receives {}

/// A shared receive queue.
#[derive(Debug)]
pub struct IbvSrq(pub(crate) Arc<Receives>);

impl IbvSrq {
    pub(crate) fn new(device: &Arc<Device>, attr: SrqAttr, token: u64) -> Result<IbvSrq, Error> {
        let on = || format!("{}, {} requests", device.name(), attr.max_wr);
        let srq_context = pointer_of(token).map_err(|e| Error::new("ibv_create_srq", on(), e))?;
        let mut init = ibv_srq_init_attr { srq_context, attr: size(attr) };
        // SAFETY: the domain is live, and the record has room.
        let srq = unsafe { (device.library().ibv_create_srq)(device.pd, &raw mut init) };
        let srq = made(srq, "ibv_create_srq", on)?;
        let max_wr = init.attr.max_wr.max(attr.max_wr);
        Ok(IbvSrq(Arc::new(Receives { srq, max_wr, number: None, device: device.clone(), _xrc: None })))
    }

    pub(crate) fn new_xrc(
        device: &Arc<Device>,
        attr: SrqAttr,
        token: u64,
        xrcd: &IbvXrcd,
        cq: &IbvCq,
    ) -> Result<IbvSrq, Error> {
        let on = || format!("{}, {} requests", device.name(), attr.max_wr);
        let refuse = |why| Error::new("ibv_create_srq_ex", on(), why);
        if !Arc::ptr_eq(&xrcd.0.device, device) || !Arc::ptr_eq(&cq.0.device, device) {
            return Err(refuse(errno::EINVAL));
        }
        let mut init = ibv_srq_init_attr_ex {
            srq_context: pointer_of(token).map_err(refuse)?,
            attr: size(attr),
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_PD
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd: device.pd,
            xrcd: xrcd.0.xrcd,
            cq: cq.0.cq,
            tm_cap: ibv_tm_cap::default(),
        };
        // SAFETY: all objects are live, and stay so as long as the queue; the record has room.
        let srq = unsafe { call::ibv_create_srq_ex(device.context.raw(), &raw mut init) };
        let srq = srq.map_err(|why| refuse(unsupported(Errno(why))))?;
        let mut new = Receives {
            srq,
            max_wr: init.attr.max_wr.max(attr.max_wr),
            number: None,
            device: device.clone(),
            _xrc: Some((xrcd.0.clone(), cq.0.clone())),
        };
        let mut number = 0;
        // SAFETY: the queue is live, and the number has room.
        let asked = unsafe { call::ibv_get_srq_num(srq, &raw mut number) };
        check(asked, "ibv_get_srq_num", on)?;
        new.number = Some(SrqNum(number));
        Ok(IbvSrq(Arc::new(new)))
    }
}

impl IbvSrq {
    /// Returns true if the queue is of an XRC domain.
    pub(crate) fn is_xrc(&self) -> bool {
        self.0.number.is_some()
    }
}

fn size(attr: SrqAttr) -> ibv_srq_attr {
    ibv_srq_attr { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: 0 }
}

impl Srq for IbvSrq {
    fn max_wr(&self) -> u32 {
        self.0.max_wr
    }

    fn number(&self) -> Option<SrqNum> {
        self.0.number
    }

    fn set_limit(&self, limit: u32) -> Result<(), Error> {
        let on = || format!("{}, limit {limit} of {}", self.0.device.name(), self.0.max_wr);
        if limit > self.0.max_wr {
            return Err(Error::new("ibv_modify_srq", on(), errno::EINVAL));
        }
        let mut attr = ibv_srq_attr { srq_limit: limit, ..Default::default() };
        // SAFETY: the queue is live, and the record has room.
        let done =
            unsafe { (self.0.device.library().ibv_modify_srq)(self.0.srq, &raw mut attr, IBV_SRQ_LIMIT) };
        check(done, "ibv_modify_srq", on)
    }

    #[inline]
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        // SAFETY: the queue is live, and the list ends; memory is named by keys, which the device
        // checks.
        post(list, convert::receive, |wr, bad| unsafe { call::ibv_post_srq_recv(self.0.srq, wr, bad) })
    }
}

impl Drop for Receives {
    fn drop(&mut self) {
        // SAFETY: it is live; queue pairs that take from it have kept it; its events are
        // acknowledged.
        let done = unsafe { (self.device.library().ibv_destroy_srq)(self.srq) };
        closed(done, "ibv_destroy_srq", self.device.name());
    }
}
