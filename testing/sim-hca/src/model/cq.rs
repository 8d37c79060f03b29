//! Completion queues and channels.

use std::collections::VecDeque;
use std::sync::Arc;

use hca::{AsyncEvent, Completed, Completion, Errno, Status, errno};

use crate::bell::Bell;
use crate::model::{Id, State};

/// A channel of completion events.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) context: usize,
    pub(crate) events: usize,
    pub(crate) bell: Arc<Bell>,
}

/// A completion, and the resources that it frees when it is polled.
#[derive(Debug)]
pub(crate) struct Cqe {
    pub(crate) what: Completion,
    /// Its queue pair; without meaning for a receive of XRC.
    pub(crate) qp: Id,
    /// For send queues: the number of the request up to which all slots become free.
    pub(crate) sent: Option<u64>,
    /// For receives: its memory.
    pub(crate) regions: Vec<Id>,
}

impl Cqe {
    /// Makes a failed completion, of which only the status is valid.
    pub(crate) fn failed(qp: Id, number: u32, wr_id: u64, op: Completed, status: Status, vendor: u32) -> Cqe {
        // Undefined fields get plausible wrong values.
        let what = Completion {
            wr_id,
            status,
            op,
            grh: true,
            vendor_err: vendor,
            byte_len: 0xdead_0000,
            imm: Some(0xdead_0001),
            qp_num: number,
            src_qp: 0x00de_ad02,
        };
        Cqe { what, qp, sent: None, regions: Vec::new() }
    }
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) context: usize,
    pub(crate) entries: usize,
    pub(crate) token: u64,
    pub(crate) channel: Option<Id>,
    pub(crate) queue: VecDeque<Cqe>,
    /// `Some` if the next completion causes an event; true if only a solicited one.
    pub(crate) armed: Option<bool>,
    pub(crate) overrun: bool,
}

impl State {
    /// Adds a completion. If there is no room, the queue and its queue pairs become unusable.
    pub(crate) fn complete(&mut self, id: Id, cqe: Cqe, solicited: bool) {
        let Some(cq) = self.cqs.get_mut(&id) else {
            self.release(&cqe.regions);
            return;
        };
        if cq.overrun {
            self.release(&cqe.regions);
            return;
        }
        if cq.queue.len() == cq.entries {
            cq.overrun = true;
            let (context, token, entries) = (cq.context, cq.token, cq.entries);
            self.release(&cqe.regions);
            self.violation(format!(
                "completion queue with token {token} of process {context}: overrun, it has room for {entries}"
            ));
            self.event(context, AsyncEvent::CqError(token));
            let users: Vec<Id> =
                self.qps.iter().filter(|(_, qp)| qp.uses_cq(id)).map(|(id, _)| *id).collect();
            for qp in users {
                self.fail_qp(qp, Some(AsyncEvent::QpFatal));
            }
            return;
        }
        let urgent = solicited || !cqe.what.status.is_success();
        cq.queue.push_back(cqe);
        if cq.armed.is_some_and(|solicited_only| urgent || !solicited_only) {
            cq.armed = None;
            if let Some(channel) = cq.channel.and_then(|channel| self.channels.get_mut(&channel)) {
                channel.events += 1;
                channel.bell.set(true);
            }
        }
    }

    /// Takes completions, and frees their resources.
    pub(crate) fn poll(&mut self, id: Id, room: &mut [Completion]) -> Result<usize, Errno> {
        let context = self.cqs.get(&id).ok_or(errno::ENODEV)?.context;
        self.usable(context)?;
        self.some();
        let mut taken = 0;
        while taken < room.len() {
            let Some(cqe) = self.cqs.get_mut(&id).and_then(|cq| cq.queue.pop_front()) else { break };
            room[taken] = cqe.what;
            taken += 1;
            self.release(&cqe.regions);
            if let Some(index) = cqe.sent {
                self.free_sends(cqe.qp, index);
            }
        }
        match (taken, self.cqs.get(&id)) {
            (0, Some(cq)) if cq.overrun => Err(errno::EIO),
            _ => Ok(taken),
        }
    }

    /// Arms the queue for an event. Everything due happens before, so the caller may sleep
    /// afterwards.
    pub(crate) fn arm(&mut self, id: Id, solicited_only: bool) -> Result<(), Errno> {
        let cq = self.cqs.get_mut(&id).ok_or(errno::ENODEV)?;
        // The call that asks for more counts.
        cq.armed = Some(solicited_only && cq.armed.unwrap_or(true));
        let context = cq.context;
        self.usable(context)?;
        self.all_due();
        Ok(())
    }

    /// Takes a channel's events.
    pub(crate) fn drain(&mut self, id: Id) -> Result<usize, Errno> {
        let channel = self.channels.get_mut(&id).ok_or(errno::ENODEV)?;
        channel.bell.set(false);
        Ok(core::mem::take(&mut channel.events))
    }

    /// Handles completions of a removed queue pair: they hold no memory any longer, and half of the
    /// devices remove them.
    pub(crate) fn disown(&mut self, cq: Id, qp: Id, purge: bool) {
        let Some(cq) = self.cqs.get_mut(&cq) else { return };
        let mut lent = Vec::new();
        cq.queue.retain_mut(|cqe| {
            if cqe.qp == qp {
                lent.append(&mut cqe.regions);
                cqe.sent = None;
            }
            cqe.qp != qp || !purge
        });
        self.release(&lent);
    }
}
