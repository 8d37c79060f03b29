//! Netmods of somebody else's, known to the builder by name.

use std::fmt;
use std::sync::Arc;

use netmod_core::config::{ConfigError, Settings};
use netmod_core::{DeviceError, Netmod, PeerName, Pollers};

use crate::bootstrap::Bootstrap;
use crate::config::Config;

/// The process that a registered netmod serves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NetmodSetup {
    /// Name of the process.
    pub me: PeerName,
    /// Number of the job's processes.
    pub size: u32,
    /// Number of the job's processes on this node, this one included.
    pub local_size: u32,
    /// Polling threads on this node.
    pub pollers: Pollers,
}

/// Opens a netmod, with its settings.
type Constructor = dyn Fn(&NetmodSetup, &Config) -> Result<Box<dyn Netmod>, DeviceError> + Send + Sync;

/// A netmod that the builder can open.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) name: &'static str,
    open: Arc<Constructor>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Registered {
    /// A netmod without settings.
    pub(super) fn plain<F>(name: &'static str, open: F) -> Registered
    where
        F: Fn(&NetmodSetup) -> Result<Box<dyn Netmod>, DeviceError> + Send + Sync + 'static,
    {
        Registered { name, open: Arc::new(move |setup, _| open(setup)) }
    }

    /// A netmod with settings, whose table is added to the configuration.
    ///
    /// # Errors
    /// Fails if the table does not fit, or if the environment has a value that is not accepted.
    pub(super) fn with<S, F>(name: &'static str, cfg: &mut Config, open: F) -> Result<Registered, ConfigError>
    where
        S: Settings,
        F: Fn(&NetmodSetup, &S) -> Result<Box<dyn Netmod>, DeviceError> + Send + Sync + 'static,
    {
        cfg.add::<S>(name)?;
        let open = move |setup: &NetmodSetup, cfg: &Config| match cfg.registered() {
            Some(settings) => open(setup, settings),
            None => open(setup, &S::default()),
        };
        Ok(Registered { name, open: Arc::new(open) })
    }

    /// Opens the netmod for the process that `boot` names.
    ///
    /// # Errors
    /// Fails if the netmod does not open, or calls itself by another name.
    pub(super) fn open(
        &self,
        me: PeerName,
        boot: &dyn Bootstrap,
        pollers: Pollers,
        cfg: &Config,
    ) -> Result<Box<dyn Netmod>, DeviceError> {
        let setup = NetmodSetup { me, size: boot.size(), local_size: boot.local_size(), pollers };
        let netmod = (self.open)(&setup, cfg)?;
        match netmod.name() {
            name if name == self.name => Ok(netmod),
            other => {
                let why = format!("it was registered as {}, and calls itself {other}", self.name);
                Err(DeviceError::new(self.name, why))
            }
        }
    }
}
