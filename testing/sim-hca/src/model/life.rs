//! The end of objects and of processes.

use hca::QpKindOf;

use crate::counts::{Counts, Leaks};
use crate::model::{Id, State};

impl State {
    /// Removes a queue pair. Its peers find out by themselves.
    pub(crate) fn remove_qp(&mut self, id: Id) {
        self.empty_qp(id);
        if let Some(qp) = self.qps.remove(&id) {
            self.devices[qp.device].qps.remove(&qp.number.0);
        }
    }

    pub(crate) fn destroy_qp(&mut self, id: Id, context: usize) {
        match self.qps.get(&id).map(|qp| qp.kind) {
            Some(QpKindOf::XrcTgt) => self.close_tgt(id, context, false),
            _ => self.remove_qp(id),
        }
    }

    pub(crate) fn destroy_srq(&mut self, id: Id) {
        if self.qps.values().any(|qp| qp.srq == Some(id)) {
            self.violation("a shared receive queue: destroyed before its queue pairs".into());
        }
        self.remove_srq(id);
    }

    fn remove_srq(&mut self, id: Id) {
        let Some(srq) = self.srqs.remove(&id) else { return };
        let device = self.contexts[srq.context].device;
        self.devices[device].srqs.remove(&srq.number);
        let lent: Vec<Id> = srq.posted.into_iter().flat_map(|recv| recv.regions).collect();
        self.release(&lent);
    }

    pub(crate) fn destroy_cq(&mut self, id: Id) {
        let used = self.qps.values().any(|qp| qp.uses_cq(id));
        if used || self.srqs.values().any(|srq| srq.xrc.is_some_and(|(_, cq)| cq == id)) {
            self.violation("a completion queue: destroyed before its queues".into());
        }
        self.remove_cq(id);
    }

    fn remove_cq(&mut self, id: Id) {
        let Some(cq) = self.cqs.remove(&id) else { return };
        let lent: Vec<Id> = cq.queue.into_iter().flat_map(|cqe| cqe.regions).collect();
        self.release(&lent);
    }

    pub(crate) fn destroy_channel(&mut self, id: Id) {
        if self.cqs.values().any(|cq| cq.channel == Some(id)) {
            self.violation("a completion channel: destroyed before its queues".into());
        }
        self.channels.remove(&id);
    }

    pub(crate) fn destroy_ah(&mut self, id: Id) {
        self.routes.remove(&id);
    }

    /// Closes a process's device.
    pub(crate) fn close_context(&mut self, context: usize) {
        if !self.contexts[context].open {
            return;
        }
        let counts = self.counts(context);
        if counts != Counts::default() {
            self.violation(format!("process {context}: its device was closed before {counts:?}"));
        }
        self.end_context(context);
    }

    /// Removes everything of a process, as the kernel does when it is dead.
    pub(crate) fn end_context(&mut self, context: usize) {
        if !core::mem::replace(&mut self.contexts[context].open, false) {
            return;
        }
        fn of<T>(table: &std::collections::BTreeMap<Id, T>, mine: impl Fn(&T) -> bool) -> Vec<Id> {
            table.iter().filter(|(_, object)| mine(object)).map(|(id, _)| *id).collect()
        }
        for id in of(&self.qps, |qp| qp.owners.contains(&context)) {
            if self.qps[&id].kind != QpKindOf::XrcTgt {
                self.remove_qp(id);
                continue;
            }
            while self.qps.get(&id).is_some_and(|qp| qp.owners.contains(&context)) {
                self.close_tgt(id, context, true);
            }
        }
        of(&self.srqs, |srq| srq.context == context).into_iter().for_each(|id| self.remove_srq(id));
        of(&self.cqs, |cq| cq.context == context).into_iter().for_each(|id| self.remove_cq(id));
        of(&self.regions, |region| region.context == context)
            .into_iter()
            .for_each(|id| self.remove_region(id));
        self.channels.retain(|_, channel| channel.context != context);
        self.routes.retain(|_, route| route.context != context);
        of(&self.xrcds, |xrcd| xrcd.context == context).into_iter().for_each(|id| self.close_xrcd(id));
        self.contexts[context].events.clear();
    }

    /// Counts the open objects of a process.
    pub(crate) fn counts(&self, context: usize) -> Counts {
        let tgt = |kind: QpKindOf| kind == QpKindOf::XrcTgt;
        let mine = |owners: &[usize]| owners.iter().filter(|owner| **owner == context).count();
        Counts {
            channels: self.channels.values().filter(|channel| channel.context == context).count(),
            cqs: self.cqs.values().filter(|cq| cq.context == context).count(),
            srqs: self.srqs.values().filter(|srq| srq.context == context).count(),
            qps: self.qps.values().filter(|qp| !tgt(qp.kind)).map(|qp| mine(&qp.owners)).sum(),
            tgt_qps: self.qps.values().filter(|qp| tgt(qp.kind)).map(|qp| mine(&qp.owners)).sum(),
            mrs: self.regions.values().filter(|region| region.context == context).count(),
            bytes: self.contexts[context].registered,
            ahs: self.routes.values().filter(|route| route.context == context).count(),
            xrcds: self.xrcds.values().filter(|xrcd| xrcd.context == context).count(),
        }
    }

    /// Counts all open objects.
    pub(crate) fn leaks(&self) -> Leaks {
        Leaks {
            contexts: self.contexts.iter().filter(|context| context.open).count(),
            channels: self.channels.len(),
            cqs: self.cqs.len(),
            srqs: self.srqs.len(),
            qps: self.qps.len(),
            mrs: self.regions.len(),
            ahs: self.routes.len(),
            xrcds: self.xrcds.len(),
            domains: self.domains.len(),
        }
    }
}
