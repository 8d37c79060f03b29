//! Queue pairs.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use std::sync::Arc;

use hca::{
    Errno, Error, ModifyQp, PathMigState, PostError, Qp, QpCap, QpInit, QpKind, QpKindOf, QpNum, QpState,
    RecvWr, SendWr, errno,
};
use libibverbs_sys::attr::*;
use libibverbs_sys::call;
use libibverbs_sys::consts::*;
use libibverbs_sys::object::ibv_qp;

use crate::ah::IbvAh;
use crate::convert;
use crate::device::{Device, IbvHca};
use crate::error::{check, closed, made};
use crate::post::post;
use crate::queue::{Completions, IbvCq, IbvSrq, Receives};
use crate::xrc::{Domain, IbvXrcd, unsupported};

/// The objects that a queue pair keeps alive.
#[derive(Debug, Default)]
struct Keeps {
    _cqs: [Option<Arc<Completions>>; 2],
    srq: Option<Arc<Receives>>,
    _xrcd: Option<Arc<Domain>>,
}

/// A queue pair.
#[derive(Debug)]
pub struct IbvQp {
    qp: *mut ibv_qp,
    kind: QpKindOf,
    cap: QpCap,
    device: Arc<Device>,
    keeps: Keeps,
}

// SAFETY: the library's calls may come from any thread. The fields read without a call belong to
// the owning thread.
unsafe impl Send for IbvQp {}

impl IbvQp {
    pub(crate) fn new(device: &Arc<Device>, init: &QpInit<'_, IbvHca>) -> Result<IbvQp, Error> {
        let sig_all = i32::from(init.signal_all);
        match init.kind {
            QpKind::Rc { send_cq, recv_cq, srq } => {
                IbvQp::plain(device, IBV_QPT_RC, init, sig_all, [send_cq, recv_cq], srq)
            }
            QpKind::Ud { send_cq, recv_cq, srq } => {
                IbvQp::plain(device, IBV_QPT_UD, init, sig_all, [send_cq, recv_cq], srq)
            }
            QpKind::XrcIni { send_cq } => IbvQp::xrc(device, init, sig_all, Some(send_cq), None),
            QpKind::XrcTgt { xrcd } => IbvQp::xrc(device, init, sig_all, None, Some(xrcd)),
        }
    }

    fn plain(
        device: &Arc<Device>,
        qp_type: u32,
        init: &QpInit<'_, IbvHca>,
        sq_sig_all: i32,
        cqs: [&IbvCq; 2],
        srq: Option<&IbvSrq>,
    ) -> Result<IbvQp, Error> {
        let kind = init.kind.kind();
        let on = || asked(device, kind, &init.cap);
        let ours = cqs.iter().all(|cq| Arc::ptr_eq(&cq.0.device, device))
            // Only XRC pairs can use an XRC queue, and not all drivers check that.
            && srq.is_none_or(|srq| Arc::ptr_eq(&srq.0.device, device) && !srq.is_xrc());
        if !ours {
            return Err(Error::new("ibv_create_qp", on(), errno::EINVAL));
        }
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: cqs[0].0.cq,
            recv_cq: cqs[1].0.cq,
            srq: srq.map_or(null_mut(), |srq| srq.0.srq),
            cap: convert::size(&init.cap),
            qp_type,
            sq_sig_all,
        };
        // SAFETY: all objects are live, and stay so as long as the queue pair; the record has room.
        let qp = unsafe { (device.library().ibv_create_qp)(device.pd, &raw mut attr) };
        let qp = made(qp, "ibv_create_qp", on)?;
        let keeps =
            Keeps { _cqs: cqs.map(|cq| Some(cq.0.clone())), srq: srq.map(|srq| srq.0.clone()), _xrcd: None };
        Ok(IbvQp { qp, kind, cap: convert::given(&attr.cap), device: device.clone(), keeps })
    }

    fn xrc(
        device: &Arc<Device>,
        init: &QpInit<'_, IbvHca>,
        sq_sig_all: i32,
        send_cq: Option<&IbvCq>,
        xrcd: Option<&IbvXrcd>,
    ) -> Result<IbvQp, Error> {
        let kind = init.kind.kind();
        let refuse = |why| Error::new("ibv_create_qp_ex", asked(device, kind, &init.cap), why);
        let ours = send_cq.is_none_or(|cq| Arc::ptr_eq(&cq.0.device, device))
            && xrcd.is_none_or(|xrcd| Arc::ptr_eq(&xrcd.0.device, device));
        if !ours {
            return Err(refuse(errno::EINVAL));
        }
        // SAFETY: null pointers and zeros are valid in it.
        let mut attr = unsafe { MaybeUninit::<ibv_qp_init_attr_ex>::zeroed().assume_init() };
        attr.cap = convert::size(&init.cap);
        attr.sq_sig_all = sq_sig_all;
        if let Some(cq) = send_cq {
            (attr.qp_type, attr.comp_mask) = (IBV_QPT_XRC_SEND, IBV_QP_INIT_ATTR_PD);
            (attr.send_cq, attr.pd) = (cq.0.cq, device.pd);
        }
        if let Some(xrcd) = xrcd {
            (attr.qp_type, attr.comp_mask) = (IBV_QPT_XRC_RECV, IBV_QP_INIT_ATTR_XRCD);
            attr.xrcd = xrcd.0.xrcd;
        }
        // SAFETY: all objects are live, and stay so as long as the queue pair; the record has room.
        let qp = unsafe { call::ibv_create_qp_ex(device.context.raw(), &raw mut attr) };
        let qp = qp.map_err(|why| refuse(unsupported(Errno(why))))?;
        let keeps = Keeps {
            _cqs: [send_cq.map(|cq| cq.0.clone()), None],
            srq: None,
            _xrcd: xrcd.map(|xrcd| xrcd.0.clone()),
        };
        Ok(IbvQp { qp, kind, cap: convert::given(&attr.cap), device: device.clone(), keeps })
    }

    /// Opens an existing receiving queue pair of a domain.
    pub(crate) fn open(device: &Arc<Device>, xrcd: &IbvXrcd, number: QpNum) -> Result<IbvQp, Error> {
        let on = || format!("{}, queue pair {}", device.name(), number.0);
        let refuse = |why| Error::new("ibv_open_qp", on(), why);
        if !Arc::ptr_eq(&xrcd.0.device, device) {
            return Err(refuse(errno::EINVAL));
        }
        let mut attr = ibv_qp_open_attr {
            comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number.0,
            xrcd: xrcd.0.xrcd,
            qp_context: null_mut(),
            qp_type: IBV_QPT_XRC_RECV,
        };
        // SAFETY: context and domain are live, the domain for as long as the queue pair; the record
        // is readable.
        let qp = unsafe { call::ibv_open_qp(device.context.raw(), &raw mut attr) };
        let qp = qp.map_err(|why| refuse(unsupported(Errno(why))))?;
        let keeps = Keeps { _xrcd: Some(xrcd.0.clone()), ..Keeps::default() };
        let (kind, cap) = (QpKindOf::XrcTgt, QpCap::default());
        Ok(IbvQp { qp, kind, cap, device: device.clone(), keeps })
    }

    /// Queries attributes.
    fn query(&self, mask: i32) -> Result<ibv_qp_attr, Error> {
        let on = || format!("{}, queue pair {}", self.device.name(), self.number().0);
        let mut attr = ibv_qp_attr::default();
        let mut init = MaybeUninit::<ibv_qp_init_attr>::zeroed();
        // SAFETY: the object is live, and records have room.
        let asked =
            unsafe { (self.device.library().ibv_query_qp)(self.qp, &raw mut attr, mask, init.as_mut_ptr()) };
        check(asked, "ibv_query_qp", on)?;
        Ok(attr)
    }

    /// Returns the error for an attribute with an unknown value.
    #[cold]
    fn unknown(&self) -> Error {
        let on = format!("{}, queue pair {}", self.device.name(), self.number().0);
        Error::new("ibv_query_qp", on, errno::EIO)
    }

    /// Returns the state after the last transition. Does not see a later failure of the queue pair.
    #[inline]
    fn last_state(&self) -> u32 {
        // SAFETY: the object is live; only transitions write the state, and they come from the
        // owning thread.
        unsafe { (*self.qp).state }
    }
}

/// Describes the requested queue pair, for errors.
#[cold]
fn asked(device: &Device, kind: QpKindOf, cap: &QpCap) -> String {
    let QpCap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline } = cap;
    format!(
        "{}, {kind:?} with {max_send_wr} sends of {max_send_sge} pieces or {max_inline} bytes inline, \
         {max_recv_wr} receives of {max_recv_sge} pieces",
        device.name()
    )
}

impl Qp for IbvQp {
    type Ah = IbvAh;

    fn number(&self) -> QpNum {
        // SAFETY: the object is live, and its number never changes.
        QpNum(unsafe { (*self.qp).qp_num })
    }

    fn kind(&self) -> QpKindOf {
        self.kind
    }

    fn cap(&self) -> QpCap {
        self.cap
    }

    fn modify(&self, step: &ModifyQp) -> Result<(), Error> {
        let on = || format!("{}, queue pair {}, {step:?}", self.device.name(), self.number().0);
        let Some((mut attr, mask)) = convert::step(step, self.kind) else {
            return Err(Error::new("ibv_modify_qp", on(), errno::EINVAL));
        };
        // SAFETY: the object is live, and the record has room.
        let done = unsafe { (self.device.library().ibv_modify_qp)(self.qp, &raw mut attr, mask) };
        check(done, "ibv_modify_qp", on)
    }

    fn state(&self) -> Result<QpState, Error> {
        let attr = self.query(IBV_QP_STATE)?;
        convert::state(attr.qp_state).ok_or_else(|| self.unknown())
    }

    fn path_mig_state(&self) -> Result<PathMigState, Error> {
        let attr = self.query(IBV_QP_PATH_MIG_STATE)?;
        PathMigState::of_code(attr.path_mig_state).ok_or_else(|| self.unknown())
    }

    #[inline]
    fn post_send(&self, list: &[SendWr<'_, IbvAh>]) -> Result<(), PostError> {
        // Not all drivers check the state, and some keep such requests for later.
        if self.last_state() < IBV_QPS_RTS {
            return refused(list.len());
        }
        let convert = |wr: &SendWr<'_, IbvAh>| convert::send(wr, self.kind, |ah| ah.of(&self.device));
        // SAFETY: the queue pair is live and the list ends; its handles are of this device and live
        // during the call; inline data is borrowed for as long. Other memory is named by keys,
        // which the device checks.
        post(list, convert, |wr, bad| unsafe { call::ibv_post_send(self.qp, wr, bad) })
    }

    #[inline]
    fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let own = self.keeps.srq.is_none() && matches!(self.kind, QpKindOf::Rc | QpKindOf::Ud);
        if !own || self.last_state() == IBV_QPS_RESET {
            return refused(list.len());
        }
        // SAFETY: the queue pair is live and the list ends; memory is named by keys, which the
        // device checks.
        post(list, convert::receive, |wr, bad| unsafe { call::ibv_post_recv(self.qp, wr, bad) })
    }
}

/// Returns the error of a list that is refused as a whole.
#[cold]
fn refused(len: usize) -> Result<(), PostError> {
    if len == 0 { Ok(()) } else { Err(PostError { at: 0, errno: errno::EINVAL }) }
}

impl Drop for IbvQp {
    fn drop(&mut self) {
        // SAFETY: it is live, and ends once; its events are acknowledged.
        let done = unsafe { (self.device.library().ibv_destroy_qp)(self.qp) };
        closed(done, "ibv_destroy_qp", self.device.name());
    }
}
