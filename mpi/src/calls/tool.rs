//! A running library as the tool interface sees it.

use std::sync::Arc;

use ch3_shim::{Counters, Vci};
use netmod_core::config::Entry;

use crate::comm::CommCore;
use crate::error::Result;
use crate::instance::Mpi;
use crate::objects::Objects;
use crate::request::Kind;
use crate::status::Status;
use crate::task::{Progress, Task};
use crate::tool::{Running, Tool};

/// The task that takes incidents from the device, while they are wanted.
struct Delivery(Arc<Tool>);

impl Task for Delivery {
    fn advance(&mut self, vci: &mut Vci, _objects: &mut Objects) -> Progress {
        if !self.0.watches() {
            vci.watch_incidents(false);
            return Progress::Done(Ok(Status::EMPTY));
        }
        if !vci.has_incidents() {
            return Progress::Blocked;
        }
        let (tool, taken) = (Arc::clone(&self.0), vci.take_incidents());
        Progress::Call(Box::new(move || tool.deliver(taken)))
    }

    fn core(&self) -> Option<&CommCore> {
        None
    }

    fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
        Ok(())
    }
}

impl Running for Mpi {
    fn counters(&self) -> Option<Counters> {
        self.with(|s| Ok(s.dev.counters())).ok()
    }

    fn setting(&self, name: &str) -> Option<Entry> {
        self.with(|s| Ok(s.dev.config().entries().find(|e| e.name == name))).ok().flatten()
    }

    fn change_setting(&self, name: &str, text: &str) -> Result<()> {
        self.with(|s| Ok(s.dev.change_setting(name, text)?))
    }

    fn watch_incidents(&self) -> Result<()> {
        self.with(|s| {
            if s.dev.watches_incidents() {
                return Ok(());
            }
            let task = Delivery(Arc::clone(self.anytime().tool()));
            let request = s.requests.insert(Kind::Task(Some(Box::new(task))))?;
            if let Some(entry) = s.requests.table.find_mut(request) {
                entry.freed = true;
            }
            s.dev.watch_incidents(true);
            Ok(())
        })
    }
}
