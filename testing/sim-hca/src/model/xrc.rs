//! XRC domains, which processes share, and the lifetime of their receiving queue pairs.

use hca::{Errno, QpKindOf, QpNum, errno};

use crate::model::{Id, State};
use crate::settings::TgtLife;

/// An XRC domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) device: usize,
    /// Device and inode of its file.
    pub(crate) file: Option<(u64, u64)>,
}

/// A process's membership in a domain.
#[derive(Debug)]
pub(crate) struct Xrcd {
    pub(crate) context: usize,
    pub(crate) domain: Id,
}

impl State {
    /// Opens a domain; without a file, a private one.
    pub(crate) fn open_xrcd(
        &mut self,
        context: usize,
        file: Option<(u64, u64)>,
        create: bool,
    ) -> Result<Id, Errno> {
        self.usable(context)?;
        self.call("ibv_open_xrcd")?;
        let device = self.contexts[context].device;
        if !self.devices[device].settings.xrc {
            return Err(errno::EOPNOTSUPP);
        }
        let mut domains = self.domains.iter();
        let found = domains.find(|(_, d)| file.is_some() && d.device == device && d.file == file);
        let domain = match found.map(|(id, _)| *id) {
            Some(domain) => domain,
            None if !create => return Err(errno::EINVAL),
            None => {
                let domain = self.new_id();
                self.domains.insert(domain, Domain { device, file });
                domain
            }
        };
        let id = self.new_id();
        self.xrcds.insert(id, Xrcd { context, domain });
        Ok(id)
    }

    /// Leaves a domain. The last member's leaving ends it, and its receiving queue pairs.
    pub(crate) fn close_xrcd(&mut self, id: Id) {
        let Some(xrcd) = self.xrcds.remove(&id) else { return };
        let (context, domain) = (xrcd.context, xrcd.domain);
        let busy =
            self.srqs.values().any(|s| s.context == context && s.xrc.is_some_and(|(d, _)| d == domain))
                || self.qps.values().any(|qp| qp.domain == Some(domain) && qp.owners.contains(&context));
        let again = self.xrcds.values().any(|x| x.context == context && x.domain == domain);
        if busy && !again {
            self.violation(format!("an XRC domain of process {context}: closed before its queues"));
        }
        if self.xrcds.values().any(|xrcd| xrcd.domain == domain) {
            return;
        }
        self.domains.remove(&domain);
        let left: Vec<Id> =
            self.qps.iter().filter(|(_, qp)| qp.domain == Some(domain)).map(|(id, _)| *id).collect();
        left.into_iter().for_each(|qp| self.remove_qp(qp));
    }

    /// Opens a receiving queue pair.
    pub(crate) fn open_tgt(&mut self, context: usize, xrcd: Id, number: QpNum) -> Result<Id, Errno> {
        self.usable(context)?;
        self.call("ibv_open_qp")?;
        let domain = self.xrcds.get(&xrcd).filter(|x| x.context == context).ok_or(errno::EINVAL)?.domain;
        let id = self.devices[self.contexts[context].device].qps.get(&number.0).copied();
        let id = id.ok_or(errno::EINVAL)?;
        let qp = self.qps.get_mut(&id).ok_or(errno::EINVAL)?;
        if qp.kind != QpKindOf::XrcTgt || qp.domain != Some(domain) {
            return Err(errno::EINVAL);
        }
        qp.owners.push(context);
        Ok(id)
    }

    /// Handles the closing of a receiving queue pair by a process, or the process's death.
    pub(crate) fn close_tgt(&mut self, id: Id, context: usize, death: bool) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if let Some(at) = qp.owners.iter().position(|owner| *owner == context) {
            qp.owners.swap_remove(at);
        }
        let last = qp.owners.is_empty();
        if last && (!death || self.settings.tgt_life == TgtLife::Handles) {
            self.remove_qp(id);
        }
    }

    /// Finds the shared receive queue that a message names, if it is of the domain.
    pub(crate) fn find_xrc_srq(&self, device: usize, domain: Id, number: u32) -> Option<Id> {
        let id = *self.devices[device].srqs.get(&number)?;
        let (of, _) = self.srqs.get(&id)?.xrc?;
        (of == domain).then_some(id)
    }
}
