//! The steps of a queue pair (InfiniBand Architecture Specification, 10.3.1), with what each demands.

use netmod_hca::{AhAttr, Errno, ModifyQp, QpKindOf, QpState, ToRtr, ToRts, errno};

use crate::model::device::Place;
use crate::model::{Id, State};

impl State {
    /// Takes a step.
    pub(crate) fn modify(&mut self, id: Id, context: usize, step: &ModifyQp) -> Result<(), Errno> {
        self.usable(context)?;
        self.call("ibv_modify_qp")?;
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let (state, kind) = (qp.state, qp.kind);
        let datagrams = kind == QpKindOf::Ud;
        match (step, state) {
            (ModifyQp::Reset, _) => self.reset_qp(id),
            (ModifyQp::Err, state) if state != QpState::Reset => self.fail_qp(id, None),
            (ModifyQp::Init { port, pkey_index, access }, QpState::Reset | QpState::Init) if !datagrams => {
                self.init_qp(id, *port, *pkey_index)?;
                if let Some(qp) = self.qps.get_mut(&id) {
                    qp.access = *access;
                }
            }
            (ModifyQp::InitUd { port, pkey_index, qkey }, QpState::Reset | QpState::Init) if datagrams => {
                self.init_qp(id, *port, *pkey_index)?;
                if let Some(qp) = self.qps.get_mut(&id) {
                    qp.qkey = *qkey;
                }
            }
            (ModifyQp::Rtr(to), QpState::Init) if !datagrams => self.ready_to_receive(id, to)?,
            (ModifyQp::RtrUd, QpState::Init) if datagrams => self.set_state(id, QpState::Rtr),
            (ModifyQp::Rts(to), QpState::Rtr) if !datagrams => self.ready_to_send(id, to)?,
            (ModifyQp::RtsUd { sq_psn }, QpState::Rtr) if datagrams => {
                if *sq_psn >> 24 != 0 {
                    return Err(errno::EINVAL);
                }
                self.set_state(id, QpState::Rts);
            }
            _ => {
                self.violation(format!(
                    "queue pair {} of process {context}: {step:?} is no step of {kind:?} from {state:?}",
                    self.qps[&id].number.0
                ));
                return Err(errno::EINVAL);
            }
        }
        Ok(())
    }

    fn set_state(&mut self, id: Id, state: QpState) {
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.state = state;
        }
    }

    fn reset_qp(&mut self, id: Id) {
        self.empty_qp(id);
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.state = QpState::Reset;
            (qp.rtr, qp.rts, qp.peer) = (None, None, None);
        }
    }

    fn init_qp(&mut self, id: Id, port: u8, pkey_index: u16) -> Result<(), Errno> {
        let device = self.qps.get(&id).ok_or(errno::ENODEV)?.device;
        let attr = self.port(Place { device, port })?;
        if pkey_index >= attr.pkey_table_len {
            return Err(errno::EINVAL);
        }
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.port = port;
            qp.state = QpState::Init;
        }
        Ok(())
    }

    fn ready_to_receive(&mut self, id: Id, to: &ToRtr) -> Result<(), Errno> {
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let (device, port) = (qp.device, qp.port);
        let settings = &self.devices[device].settings;
        let responds = qp.kind != QpKindOf::XrcIni;
        let depth = responds && to.max_dest_rd_atomic > settings.attr.max_qp_rd_atom;
        let code = responds && to.min_rnr_timer > 31;
        let numbers = to.rq_psn >> 24 != 0 || to.dest_qp.0 >> 24 != 0;
        let way = AhAttr { port, ..to.ah };
        if depth || code || numbers || to.path_mtu > settings.mtu || to.ah.port != port {
            return Err(errno::EINVAL);
        }
        self.check_way(device, &way)?;
        let peer = self.find_port(device, &way);
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.rtr = Some(*to);
            qp.peer = peer;
            qp.responder.psn = to.rq_psn;
            qp.state = QpState::Rtr;
        }
        Ok(())
    }

    fn ready_to_send(&mut self, id: Id, to: &ToRts) -> Result<(), Errno> {
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let asks = qp.kind != QpKindOf::XrcTgt;
        let depth = to.max_rd_atomic > self.devices[qp.device].attr().max_qp_init_rd_atom;
        let counts = to.retry_cnt > 7 || to.rnr_retry > 7 || depth;
        if to.sq_psn >> 24 != 0 || to.timeout > 31 || asks && counts {
            return Err(errno::EINVAL);
        }
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.rts = Some(*to);
            qp.sq.psn = to.sq_psn;
            qp.sq.retries = to.retry_cnt;
            qp.sq.rnr_retries = to.rnr_retry;
            qp.state = QpState::Rts;
        }
        Ok(())
    }
}
