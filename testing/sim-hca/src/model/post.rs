//! Posting to queue pairs: the driver's refusals, and violations that a driver would accept.

use hca::{AhAttr, AtomicCap, Errno, PostError, QpKindOf, QpState, RecvWr, SendOp, Sge, errno};

use crate::model::qp::{Entry, Local, Target, after};
use crate::model::{Id, State};

/// A request with resolved references: address handles by number, inline data copied.
#[derive(Debug)]
pub(crate) struct NewSend {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) local: Local,
    /// Number of pieces of local memory.
    pub(crate) pieces: usize,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) fence: bool,
    pub(crate) to: NewTo,
}

/// Destination of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewTo {
    Peer,
    Datagram { route: Id, number: u32, qkey: u32 },
    Srq(u32),
}

impl State {
    /// Posts requests of the process `context`.
    pub(crate) fn post_send(
        &mut self,
        id: Id,
        context: usize,
        list: impl Iterator<Item = NewSend>,
    ) -> Result<(), PostError> {
        let mut done = Ok(());
        for (at, new) in list.enumerate() {
            done = self.post_one(id, context, new).map_err(|errno| PostError { at, errno });
            if done.is_err() {
                break;
            }
        }
        let state = self.qps.get(&id).map(|qp| qp.state);
        match state {
            Some(QpState::Err) => self.flush(id),
            Some(_) => self.ring(id),
            None => {}
        }
        self.some();
        done
    }

    /// Returns the reason why a request is invalid, and the driver's error number.
    fn objection(&self, id: Id, context: usize, new: &NewSend) -> Option<(String, Errno)> {
        let qp = self.qps.get(&id)?;
        let invalid = |text: &str| Some((text.to_owned(), errno::EINVAL));
        if matches!(qp.state, QpState::Reset | QpState::Init | QpState::Rtr) || qp.kind == QpKindOf::XrcTgt {
            return Some((format!("posted to send in state {:?}", qp.state), errno::EINVAL));
        }
        let fits = match (qp.kind, new.to) {
            (QpKindOf::Rc, NewTo::Peer) | (QpKindOf::XrcIni, NewTo::Srq(_)) => true,
            (QpKindOf::Ud, NewTo::Datagram { route, .. }) => {
                matches!(new.op, SendOp::Send | SendOp::SendImm(_))
                    && self.routes.get(&route).is_some_and(|route| route.context == context)
            }
            _ => false,
        };
        if !fits {
            return Some((
                format!("{:?} to {:?} does not go with {:?}", new.op, new.to, qp.kind),
                errno::EINVAL,
            ));
        }
        if new.pieces > qp.cap.max_send_sge as usize {
            return invalid("too many pieces of memory in a send");
        }
        let reads = matches!(new.op, SendOp::RdmaRead { .. });
        let atomics = matches!(new.op, SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. });
        match &new.local {
            Local::Copied(bytes) if bytes.len() > qp.cap.max_inline as usize => {
                return invalid("more inline data than the queue pair takes");
            }
            Local::Copied(_) if reads || atomics => return invalid("a read or atomic with inline data"),
            _ => {}
        }
        let attr = self.devices[qp.device].attr();
        if atomics && (attr.atomics == AtomicCap::None || new.len() != 8) {
            return invalid("an atomic that the device has not, or not of 8 bytes");
        }
        if qp.sq.entries.len() >= qp.cap.max_send_wr as usize {
            return Some(("send queue overflow".into(), errno::ENOMEM));
        }
        None
    }

    fn post_one(&mut self, id: Id, context: usize, new: NewSend) -> Result<(), Errno> {
        self.usable(context)?;
        if !self.qps.contains_key(&id) {
            return Err(errno::ENODEV);
        }
        if let Some((text, errno)) = self.objection(id, context, &new) {
            let number = self.qps[&id].number.0;
            self.violation(format!("queue pair {number} of process {context}: {text}"));
            return Err(errno);
        }
        let (qp, len) = (&self.qps[&id], new.len());
        let (number, mtu, kind) = (qp.number.0, qp.mtu(), qp.kind);
        let settings = &self.devices[qp.device].settings;
        let longest = if kind == QpKindOf::Ud { settings.mtu.bytes() } else { settings.max_msg_size };
        let wants =
            matches!(new.op, SendOp::RdmaRead { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. });
        let unable = wants && qp.rts.is_none_or(|rts| rts.max_rd_atomic == 0);
        if len > longest.into() {
            self.violation(format!(
                "queue pair {number} of process {context}: a message of {len} bytes, it may have {longest}"
            ));
        }
        if unable {
            self.violation(format!(
                "queue pair {number} of process {context}: a read or atomic although max_rd_atomic is 0"
            ));
        }
        let regions = match &new.local {
            Local::Registered(sges) => self.borrow(context, sges, wants, "a send"),
            Local::Copied(_) => Vec::new(),
        };
        let (target, srq) = match new.to {
            NewTo::Peer => (None, None),
            NewTo::Datagram { route, number, qkey } => {
                (self.routes.get(&route).map(|route| Target { route: route.attr, number, qkey }), None)
            }
            NewTo::Srq(number) => (None, Some(number)),
        };
        let packets = State::packets(mtu, &new.op, len);
        let Some(qp) = self.qps.get_mut(&id) else { return Err(errno::ENODEV) };
        let entry = Entry {
            wr_id: new.wr_id,
            op: new.op,
            local: new.local,
            len,
            signaled: new.signaled,
            solicited: new.solicited,
            fence: new.fence,
            target: target.map(|target| Target { route: AhAttr { port: qp.port, ..target.route }, ..target }),
            srq,
            regions,
            psn: qp.sq.psn,
            packets,
            answered: false,
            failed: None,
        };
        qp.sq.psn = after(qp.sq.psn, packets);
        qp.sq.entries.push_back(entry);
        Ok(())
    }

    /// Posts receives to a queue pair's own queue.
    pub(crate) fn post_recv(&mut self, id: Id, context: usize, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        for (at, wr) in list.iter().enumerate() {
            self.post_one_recv(id, context, wr).map_err(|errno| PostError { at, errno })?;
        }
        if self.qps.get(&id).is_some_and(|qp| qp.state == QpState::Err) {
            self.flush(id);
        }
        self.some();
        Ok(())
    }

    fn post_one_recv(&mut self, id: Id, context: usize, wr: &RecvWr<'_>) -> Result<(), Errno> {
        self.usable(context)?;
        let qp = self.qps.get(&id).ok_or(errno::ENODEV)?;
        let number = qp.number.0;
        let own = qp.srq.is_none() && matches!(qp.kind, QpKindOf::Rc | QpKindOf::Ud);
        let objection = if qp.state == QpState::Reset {
            Some(("posted to receive in state Reset", errno::EINVAL))
        } else if !own || wr.sges.len() > qp.cap.max_recv_sge as usize {
            Some(("a receive for a queue that is not there, or of too many pieces", errno::EINVAL))
        } else if qp.rq.len() >= qp.cap.max_recv_wr as usize {
            Some(("receive queue overflow", errno::ENOMEM))
        } else {
            None
        };
        if let Some((text, errno)) = objection {
            self.violation(format!("queue pair {number} of process {context}: {text}"));
            return Err(errno);
        }
        let recv = self.new_recv(context, wr);
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.rq.push_back(recv);
        }
        Ok(())
    }
}

impl NewSend {
    /// Returns the length of local memory in bytes.
    fn len(&self) -> u64 {
        match &self.local {
            Local::Registered(sges) => sges.iter().map(|sge: &Sge| u64::from(sge.len)).sum(),
            Local::Copied(bytes) => bytes.len() as u64,
        }
    }
}
