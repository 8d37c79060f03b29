//! This host's devices, by libibverbs.

use std::path::PathBuf;

use crate::config::VerbsConfig;
use hca_ibv::{Devices, DevicesError, IbvHca};

use crate::verbs::{Setup, Source};

/// libibverbs, loaded on first use.
#[derive(Debug)]
struct Library {
    path: Option<PathBuf>,
}

impl Library {
    fn load(&self) -> Result<Devices, DevicesError> {
        Devices::load(self.path.as_deref())
    }
}

impl Source<IbvHca> for Library {
    fn names(&self) -> Result<Vec<String>, DevicesError> {
        self.load()?.names()
    }

    fn open(&self, name: &str) -> Result<IbvHca, DevicesError> {
        self.load()?.open(name)
    }
}

impl Setup<IbvHca> {
    /// Returns the setup for this host's devices.
    pub fn here(cfg: &VerbsConfig) -> Setup<IbvHca> {
        let path = (!cfg.library.is_empty()).then(|| PathBuf::from(&cfg.library));
        Setup { cfg: cfg.clone(), source: Box::new(Library { path }) }
    }
}
