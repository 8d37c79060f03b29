//! State transitions of a queue pair (InfiniBand Architecture Specification, 10.3.1), and their
//! requirements.

use hca::{ModifyQp, QpKindOf, QpState, ToRtr, ToRts, errno};

use crate::model::device::PortId;
use crate::model::path::Paths;
use crate::model::refusal::{Refusal, valid};
use crate::model::{Id, State};

impl State {
    /// Executes a transition.
    ///
    /// # Errors
    /// The refusal, which names the invalid attribute if there is one.
    pub(crate) fn modify(&mut self, id: Id, context: usize, step: &ModifyQp) -> Result<(), Refusal> {
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
                valid(*sq_psn >> 24 == 0, "sq_psn")?;
                self.set_state(id, QpState::Rts);
            }
            (ModifyQp::Paths { alt, path_mig_state }, QpState::Rts) if !datagrams => {
                self.set_paths(id, *alt, *path_mig_state)?;
            }
            _ => {
                self.violation(format!(
                    "queue pair {} of process {context}: {step:?} is no step of {kind:?} from {state:?}",
                    self.qps[&id].number.0
                ));
                return Err(errno::EINVAL.into());
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
            (qp.rtr, qp.rts, qp.peer, qp.paths) = (None, None, None, Paths::default());
        }
    }

    fn init_qp(&mut self, id: Id, port: u8, pkey_index: u16) -> Result<(), Refusal> {
        let device = self.qps.get(&id).ok_or(errno::ENODEV)?.device;
        let attr = self.port(PortId { device, port }).map_err(|_| Refusal::of("port_num"))?;
        valid(pkey_index < attr.pkey_table_len, "pkey_index")?;
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.port = port;
            qp.state = QpState::Init;
        }
        Ok(())
    }

    fn ready_to_receive(&mut self, id: Id, to: &ToRtr) -> Result<(), Refusal> {
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let (device, port) = (qp.device, qp.port);
        let settings = &self.devices[device].settings;
        let asks = qp.kind == QpKindOf::XrcIni;
        let depth = to.max_dest_rd_atomic <= settings.attr.max_qp_rd_atom;
        valid(asks || depth, "max_dest_rd_atomic")?;
        valid(asks || to.min_rnr_timer <= 31, "min_rnr_timer")?;
        valid(to.rq_psn >> 24 == 0, "rq_psn")?;
        valid(to.dest_qp.0 >> 24 == 0, "dest_qp_num")?;
        valid(to.path_mtu <= settings.mtu, "path_mtu")?;
        valid(to.ah.port == port, "ah_attr: of another port than the queue pair")?;
        self.check_route(device, &to.ah).map_err(|_| Refusal::of("ah_attr"))?;
        let peer = self.find_port(device, &to.ah);
        self.set_paths(id, to.alt, None)?;
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.rtr = Some(*to);
            qp.peer = peer;
            qp.responder.psn = to.rq_psn;
            qp.state = QpState::Rtr;
        }
        Ok(())
    }

    fn ready_to_send(&mut self, id: Id, to: &ToRts) -> Result<(), Refusal> {
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let answers = qp.kind == QpKindOf::XrcTgt;
        let depth = to.max_rd_atomic <= self.devices[qp.device].attr().max_qp_init_rd_atom;
        valid(to.sq_psn >> 24 == 0, "sq_psn")?;
        valid(to.timeout <= 31, "timeout")?;
        valid(answers || to.retry_cnt <= 7, "retry_cnt")?;
        valid(answers || to.rnr_retry <= 7, "rnr_retry")?;
        valid(answers || depth, "max_rd_atomic")?;
        self.set_paths(id, to.alt, to.path_mig_state)?;
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
