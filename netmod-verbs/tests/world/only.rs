//! The simulated device of a node, as a process opens it.

use std::sync::{Arc, Mutex};

use netmod_sim_hca::{ContextId, DeviceId, Fabric, SimHca};
use netmod_verbs::{DevicesError, Source};

/// Contexts opened by a process.
pub type Opened = Arc<Mutex<Vec<ContextId>>>;

/// A node's only device.
#[derive(Clone, Debug)]
pub struct Only {
    pub fabric: Fabric,
    pub device: DeviceId,
    pub opened: Opened,
}

impl Source<SimHca> for Only {
    fn names(&self) -> Result<Vec<String>, DevicesError> {
        Ok(vec!["sim0".into()])
    }

    fn open(&self, name: &str) -> Result<SimHca, DevicesError> {
        let hca = self.fabric.open(self.device).map_err(|e| {
            let errno = hca::Errno(e.raw_os_error().unwrap_or_default());
            DevicesError::Open { name: name.to_owned(), errno }
        })?;
        self.opened.lock().expect("nobody panics with it").push(hca.context());
        Ok(hca)
    }
}
