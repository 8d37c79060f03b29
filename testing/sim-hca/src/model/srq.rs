//! Receives, and shared receive queues.

use std::collections::VecDeque;

use hca::{AsyncEvent, Errno, PostError, RecvWr, Sge, SrqNum, errno};

use crate::model::{Id, State};

/// A receive that waits for a message.
#[derive(Debug)]
pub(crate) struct Recv {
    pub(crate) wr_id: u64,
    pub(crate) sges: Vec<Sge>,
    pub(crate) regions: Vec<Id>,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) context: usize,
    pub(crate) max_wr: usize,
    pub(crate) max_sge: usize,
    pub(crate) token: u64,
    pub(crate) number: u32,
    /// For XRC: its domain, and the completion queue.
    pub(crate) xrc: Option<(Id, Id)>,
    pub(crate) posted: VecDeque<Recv>,
    pub(crate) limit: usize,
}

impl Srq {
    pub(crate) fn xrc_number(&self) -> Option<SrqNum> {
        self.xrc.map(|_| SrqNum(self.number))
    }
}

impl State {
    /// Checks and converts a receive, except for room in a queue.
    pub(crate) fn new_recv(&mut self, context: usize, wr: &RecvWr<'_>) -> Recv {
        let regions = self.borrow(context, wr.sges, true, "a receive");
        Recv { wr_id: wr.wr_id, sges: wr.sges.to_vec(), regions }
    }

    pub(crate) fn post_srq(&mut self, id: Id, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        for (at, wr) in list.iter().enumerate() {
            self.post_one_srq(id, wr).map_err(|errno| PostError { at, errno })?;
        }
        self.some();
        Ok(())
    }

    fn post_one_srq(&mut self, id: Id, wr: &RecvWr<'_>) -> Result<(), Errno> {
        let srq = self.srqs.get(&id).ok_or(errno::ENODEV)?;
        let (context, token) = (srq.context, srq.token);
        self.usable(context)?;
        if wr.sges.len() > srq.max_sge {
            self.violation(format!(
                "shared receive queue with token {token} of process {context}: too many pieces"
            ));
            return Err(errno::EINVAL);
        }
        if srq.posted.len() == srq.max_wr {
            self.violation(format!("shared receive queue with token {token} of process {context}: overflow"));
            return Err(errno::ENOMEM);
        }
        let recv = self.new_recv(context, wr);
        if let Some(srq) = self.srqs.get_mut(&id) {
            srq.posted.push_back(recv);
        }
        Ok(())
    }

    pub(crate) fn set_limit(&mut self, id: Id, limit: u32) -> Result<(), Errno> {
        self.call("ibv_modify_srq")?;
        let srq = self.srqs.get_mut(&id).ok_or(errno::ENODEV)?;
        if limit as usize > srq.max_wr {
            return Err(errno::EINVAL);
        }
        srq.limit = limit as usize;
        let context = srq.context;
        self.usable(context)?;
        if self.devices[self.contexts[context].device].settings.srq_limit_at_once {
            self.look_at_limit(id);
        }
        Ok(())
    }

    /// Takes the oldest receive of a shared receive queue.
    pub(crate) fn take_shared(&mut self, id: Id) -> Option<Recv> {
        let recv = self.srqs.get_mut(&id)?.posted.pop_front()?;
        self.look_at_limit(id);
        Some(recv)
    }

    fn look_at_limit(&mut self, id: Id) {
        let Some(srq) = self.srqs.get_mut(&id) else { return };
        if srq.posted.len() < srq.limit {
            srq.limit = 0;
            let (context, token) = (srq.context, srq.token);
            self.event(context, AsyncEvent::SrqLimitReached(token));
        }
    }
}
