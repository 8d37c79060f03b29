//! Creation of objects, within the device's limits.

use std::collections::VecDeque;
use std::sync::Arc;

use hca::{Access, AhAttr, Errno, QpCap, QpKindOf, QpNum, QpState, SrqAttr, errno};

use crate::bell::Bell;
use crate::model::cq::{Channel, Cq};
use crate::model::datagram::AddressHandle;
use crate::model::path::Paths;
use crate::model::qp::{Qp, Responder, SendQueue};
use crate::model::srq::Srq;
use crate::model::{Id, State};

/// Parameters of a new queue pair, and its queues.
#[derive(Debug)]
pub(crate) struct NewQp {
    pub(crate) kind: QpKindOf,
    pub(crate) send_cq: Option<Id>,
    pub(crate) recv_cq: Option<Id>,
    pub(crate) srq: Option<Id>,
    pub(crate) xrcd: Option<Id>,
    pub(crate) cap: QpCap,
    pub(crate) signal_all: bool,
}

/// Returns `EINVAL` unless the condition holds.
fn valid(holds: bool) -> Result<(), Errno> {
    if holds { Ok(()) } else { Err(errno::EINVAL) }
}

/// Returns `ENOMEM` unless the condition holds.
fn room(holds: bool) -> Result<(), Errno> {
    if holds { Ok(()) } else { Err(errno::ENOMEM) }
}

impl State {
    fn begin(&mut self, context: usize, what: &'static str) -> Result<(), Errno> {
        self.usable(context)?;
        self.call(what)?;
        room(!self.rng.chance(self.settings.faults.create))
    }

    fn device_of(&self, context: usize) -> usize {
        self.contexts[context].device
    }

    pub(crate) fn create_channel(&mut self, context: usize, bell: Arc<Bell>) -> Result<Id, Errno> {
        self.begin(context, "ibv_create_comp_channel")?;
        let id = self.new_id();
        self.channels.insert(id, Channel { context, events: 0, bell });
        Ok(id)
    }

    pub(crate) fn create_cq(
        &mut self,
        context: usize,
        entries: u32,
        token: u64,
        channel: Option<Id>,
    ) -> Result<Id, Errno> {
        self.begin(context, "ibv_create_cq")?;
        let device = self.device_of(context);
        let attr = *self.devices[device].attr();
        valid(entries != 0 && entries <= attr.max_cqe)?;
        valid(channel.is_none_or(|id| self.channels.get(&id).is_some_and(|c| c.context == context)))?;
        let there = self.cqs.values().filter(|cq| self.contexts[cq.context].device == device).count();
        room(there < attr.max_cq as usize)?;
        let id = self.new_id();
        let cq = Cq {
            context,
            entries: entries as usize,
            token,
            channel,
            queue: VecDeque::new(),
            armed: None,
            overrun: false,
        };
        self.cqs.insert(id, cq);
        Ok(id)
    }

    pub(crate) fn create_srq(
        &mut self,
        context: usize,
        size: SrqAttr,
        token: u64,
        xrc: Option<(Id, Id)>,
    ) -> Result<Id, Errno> {
        self.begin(context, "ibv_create_srq")?;
        let device = self.device_of(context);
        let attr = *self.devices[device].attr();
        valid(size.max_wr != 0 && size.max_wr <= attr.max_srq_wr && size.max_sge <= attr.max_srq_sge)?;
        room(self.devices[device].srqs.len() < attr.max_srq as usize)?;
        let xrc = match xrc {
            None => None,
            Some((xrcd, cq)) => {
                valid(self.cqs.get(&cq).is_some_and(|cq| cq.context == context))?;
                let xrcd = self.xrcds.get(&xrcd).filter(|xrcd| xrcd.context == context);
                Some((xrcd.ok_or(errno::EINVAL)?.domain, cq))
            }
        };
        let id = self.new_id();
        let number = self.devices[device].new_number();
        self.devices[device].srqs.insert(number, id);
        let srq = Srq {
            context,
            max_wr: size.max_wr as usize,
            max_sge: size.max_sge as usize,
            token,
            number,
            xrc,
            posted: VecDeque::new(),
            limit: 0,
        };
        self.srqs.insert(id, srq);
        Ok(id)
    }

    pub(crate) fn create_qp(&mut self, context: usize, new: &NewQp) -> Result<Id, Errno> {
        self.begin(context, "ibv_create_qp")?;
        let device = self.device_of(context);
        let settings = &self.devices[device].settings;
        let attr = settings.attr;
        let mut cap = new.cap;
        // Queues that the kind does not have: receives come from elsewhere, or nothing is sent.
        if new.srq.is_some() || !matches!(new.kind, QpKindOf::Rc | QpKindOf::Ud) {
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        }
        if new.kind == QpKindOf::XrcTgt {
            cap = QpCap::default();
        }
        valid(cap.max_send_wr <= attr.max_qp_wr && cap.max_recv_wr <= attr.max_qp_wr)?;
        valid(cap.max_send_sge <= attr.max_sge && cap.max_recv_sge <= attr.max_sge)?;
        valid(cap.max_inline <= settings.max_inline)?;
        let xrc = matches!(new.kind, QpKindOf::XrcIni | QpKindOf::XrcTgt);
        if xrc && !settings.xrc {
            return Err(errno::EOPNOTSUPP);
        }
        if cap.max_inline != 0 {
            // Devices round up.
            cap.max_inline = cap.max_inline.next_multiple_of(4).min(settings.max_inline);
        }
        room(self.devices[device].qps.len() < attr.max_qp as usize)?;
        let mine =
            |cq: &Option<Id>| cq.is_none_or(|id| self.cqs.get(&id).is_some_and(|cq| cq.context == context));
        valid(mine(&new.send_cq) && mine(&new.recv_cq))?;
        let shared =
            new.srq.map(|id| self.srqs.get(&id).filter(|srq| srq.context == context && srq.xrc.is_none()));
        valid(!matches!(shared, Some(None)))?;
        let domain = match new.xrcd {
            None => None,
            Some(xrcd) => {
                let xrcd = self.xrcds.get(&xrcd).filter(|xrcd| xrcd.context == context);
                Some(xrcd.ok_or(errno::EINVAL)?.domain)
            }
        };
        let id = self.new_id();
        let number = self.devices[device].new_number();
        self.devices[device].qps.insert(number, id);
        let qp = Qp {
            device,
            owners: vec![context],
            kind: new.kind,
            number: QpNum(number),
            send_cq: new.send_cq,
            recv_cq: new.recv_cq,
            srq: new.srq,
            domain,
            cap,
            signal_all: new.signal_all,
            state: QpState::Reset,
            port: 0,
            access: Access::default(),
            qkey: 0,
            rtr: None,
            rts: None,
            peer: None,
            paths: Paths::default(),
            sq: SendQueue::default(),
            rq: VecDeque::new(),
            responder: Responder::default(),
        };
        self.qps.insert(id, qp);
        Ok(id)
    }

    pub(crate) fn create_ah(&mut self, context: usize, attr: AhAttr) -> Result<Id, Errno> {
        self.begin(context, "ibv_create_ah")?;
        let device = self.device_of(context);
        self.check_route(device, &attr)?;
        let there =
            self.routes.values().filter(|route| self.contexts[route.context].device == device).count();
        room(there < self.devices[device].attr().max_ah as usize)?;
        let id = self.new_id();
        self.routes.insert(id, AddressHandle { context, attr });
        Ok(id)
    }
}
