//! The simulated device of a node, as a process opens it.

use std::sync::{Arc, Mutex};

use netmod_sim_hca::{ContextId, DeviceId, Fabric, SimHca};
use netmod_verbs::Source;

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
    fn names(&self) -> Result<Vec<String>, String> {
        Ok(vec!["sim0".into()])
    }

    fn open(&self, _: &str) -> Result<SimHca, String> {
        let hca = self.fabric.open(self.device).map_err(|e| e.to_string())?;
        self.opened.lock().expect("nobody panics with it").push(hca.context());
        Ok(hca)
    }
}
