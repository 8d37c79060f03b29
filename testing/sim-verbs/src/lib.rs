//! The netmod of verbs on simulated devices.
//!
//! The netmod is generic over the device. Test programs share the code that this library has of it;
//! otherwise each of them compiles it again.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use netmod_core::{Netmod, PeerName};
use netmod_sim_hca::{ContextId, DeviceId, Fabric, SimHca};
use netmod_verbs::{DevicesError, Setup, Source, VerbsConfig, VerbsNetmod};

/// The netmod of verbs on a simulated device.
pub type SimVerbs = VerbsNetmod<SimHca>;

/// Contexts opened by a process or by the threads that stand for processes.
pub type Opened = Arc<Mutex<Vec<(ThreadId, ContextId)>>>;

/// A node's only device, as a process opens it.
#[derive(Clone, Debug)]
pub struct Only {
    /// The network of the device.
    pub fabric: Fabric,
    /// The device.
    pub device: DeviceId,
    /// Takes each context that is opened.
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
        self.opened.lock().expect("nobody panics with it").push((std::thread::current().id(), hca.context()));
        Ok(hca)
    }
}

/// Makes the netmod of one rank.
pub fn netmod(cfg: VerbsConfig, source: Only, me: PeerName, ranks: u32) -> SimVerbs {
    SimVerbs::new(&Setup { cfg, source: Box::new(source) }, me, ranks)
}

/// Boxes a netmod here, so that test programs do not compile all functions of the contract again.
pub fn boxed(netmod: SimVerbs) -> Box<dyn Netmod> {
    Box::new(netmod)
}
