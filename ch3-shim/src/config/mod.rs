//! The configuration of a process: the settings of the device and of each netmod that it may use.
//!
//! Each crate has its table ([`netmod_core::settings!`]). Here they come together: the environment
//! is read, origins are kept, and a name that is in no table is warned about.

mod coll;
mod device;
#[cfg(test)]
mod tests;

use core::any::Any;
use core::ops::{Deref, DerefMut};
use std::collections::BTreeMap;

use netmod_core::config::{
    ConfigError, ConfigWarning, Entry, Origin, Settings, Table, excerpt, is_setting_name, netmod_prefix,
};

pub use coll::{COLLECTIVES, CollConfig};
pub use device::DeviceConfig;

/// The configuration of a process. Change it with [`Config::set`], which checks values.
///
/// The device's own settings are fields of this type through [`Deref`], such as `eager_max`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Settings of the device.
    pub device: DeviceConfig,
    /// Settings of collective operations.
    pub coll: CollConfig,
    /// Settings of the netmod `shm`.
    #[cfg(feature = "shm")]
    pub shm: netmod_shm::ShmConfig,
    /// Settings of the netmod `tcp`.
    #[cfg(feature = "tcp")]
    pub tcp: netmod_tcp::TcpConfig,
    /// Settings of the netmod `ofi`.
    #[cfg(feature = "ofi")]
    pub ofi: netmod_ofi::OfiConfig,
    /// Settings of the netmod `verbs`.
    #[cfg(feature = "verbs")]
    pub verbs: netmod_verbs::VerbsConfig,
    /// Settings of registered netmods.
    registered: Vec<Box<dyn Table>>,
    /// Origins of the values that are no defaults.
    origins: BTreeMap<&'static str, Origin>,
    /// Variables of the environment that are in no table: names and values.
    unknown: Vec<(String, String)>,
}

impl Deref for Config {
    type Target = DeviceConfig;

    fn deref(&self) -> &DeviceConfig {
        &self.device
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut DeviceConfig {
        &mut self.device
    }
}

impl Config {
    /// Reads the configuration from the environment. See [`Config::warnings`].
    ///
    /// # Errors
    /// Fails if a variable's value is not accepted.
    pub fn from_env() -> Result<Config, ConfigError> {
        let mut found = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| is_setting_name(name)) else {
                continue;
            };
            let value = value.into_string().map_err(|_| ConfigError::NotUnicode { name: excerpt(name) })?;
            found.push((name.to_owned(), value));
        }
        Config::from_lookup(found)
    }

    /// Reads the configuration from names and values, as [`Config::from_env`] does.
    ///
    /// Names that are not `NETMOD` or `NETMOD_*`, and `NETMOD_TEST_*`, are skipped. If a name
    /// occurs twice, the last value counts.
    ///
    /// # Errors
    /// Fails if a variable's value is not accepted.
    pub fn from_lookup(vars: impl IntoIterator<Item = (String, String)>) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        for (name, value) in vars {
            if !is_setting_name(&name) {
                continue;
            }
            if !config.assign(&name, &value, Origin::Env)? {
                config.unknown.push((name, value));
            }
        }
        config.check()?;
        Ok(config)
    }

    /// Adds the settings of a registered netmod, with the values that the environment has for them.
    ///
    /// # Errors
    /// Fails if a variable has not the netmod's prefix, if another table has it, or if its value is
    /// not accepted.
    pub(crate) fn add<S: Settings>(&mut self, netmod: &str) -> Result<(), ConfigError> {
        let (prefix, known) = (netmod_prefix(netmod), self.names());
        for v in S::VARIABLES {
            if !v.name.starts_with(&prefix) {
                return Err(ConfigError::Prefix { name: v.name, prefix });
            }
            if known.contains(&v.name) {
                return Err(ConfigError::Taken { name: v.name });
            }
        }
        self.registered.push(Box::new(S::default()));
        for (name, value) in std::mem::take(&mut self.unknown) {
            if !self.assign(&name, &value, Origin::Env)? {
                self.unknown.push((name, value));
            }
        }
        self.check()
    }

    /// Returns the settings of a registered netmod.
    pub fn registered<S: Settings>(&self) -> Option<&S> {
        self.registered.iter().find_map(|t| (&**t as &dyn Any).downcast_ref())
    }

    /// Returns a warning for each variable of the environment that is in no table.
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        let known = self.names();
        self.unknown.iter().map(|(name, _)| ConfigWarning::unknown(name, &known)).collect()
    }

    /// Drops the variables that [`Config::warnings`] is about.
    pub(crate) fn drop_unknown(&mut self) {
        self.unknown.clear();
    }

    /// Sets a variable, with precedence over the environment. After an error nothing is changed.
    ///
    /// # Errors
    /// Fails if the name is unknown, or if the value is not accepted or contradicts another.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let mut changed = self.clone();
        if !changed.assign(name, value, Origin::Program)? {
            return Err(ConfigError::unknown(name, &self.names()));
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// Returns all variables in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.tables().into_iter().flat_map(Table::entries).map(|e| {
            let origin = self.origins.get(e.name).copied().unwrap_or(Origin::Default);
            Entry { origin, ..e }
        })
    }

    /// Returns the origin of a variable's value; `None` if there is no such variable.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        match self.origins.get(name) {
            Some(origin) => Some(*origin),
            None => self.names().contains(&name).then_some(Origin::Default),
        }
    }

    /// Returns true if NETMOD_EAGER_MAX has its default, so that more may go eagerly where a netmod
    /// has room for it.
    pub fn leaves_eager_open(&self) -> bool {
        self.origin("NETMOD_EAGER_MAX") == Some(Origin::Default)
            && self.eager_max == DeviceConfig::default().eager_max
    }

    /// Returns the consecutive ranks that share memory, if they are set; otherwise 0.
    pub fn shm_ranks(&self) -> usize {
        #[cfg(feature = "shm")]
        return self.shm.ranks;
        #[cfg(not(feature = "shm"))]
        0
    }

    /// Returns the providers of libfabric that are set, in order of preference.
    pub fn providers(&self) -> &str {
        #[cfg(feature = "ofi")]
        return &self.ofi.provider;
        #[cfg(not(feature = "ofi"))]
        ""
    }

    fn names(&self) -> Vec<&'static str> {
        self.tables().into_iter().flat_map(Table::names).collect()
    }

    /// Sets a variable; returns false if no table has it.
    fn assign(&mut self, name: &str, text: &str, origin: Origin) -> Result<bool, ConfigError> {
        let assigned = self.tables_mut().into_iter().find_map(|t| t.assign(name, text));
        match assigned {
            None => return Ok(false),
            Some(done) => done?,
        }
        if let Some(name) = self.names().into_iter().find(|known| *known == name) {
            self.origins.insert(name, origin);
        }
        Ok(true)
    }

    /// Checks conditions on several variables.
    fn check(&self) -> Result<(), ConfigError> {
        self.tables().into_iter().try_for_each(Table::verify)
    }

    fn tables(&self) -> Vec<&dyn Table> {
        let mut all: Vec<&dyn Table> = vec![&self.device, &self.coll];
        #[cfg(feature = "shm")]
        all.push(&self.shm);
        #[cfg(feature = "tcp")]
        all.push(&self.tcp);
        #[cfg(feature = "ofi")]
        all.push(&self.ofi);
        #[cfg(feature = "verbs")]
        all.push(&self.verbs);
        all.extend(self.registered.iter().map(|t| &**t));
        all
    }

    fn tables_mut(&mut self) -> Vec<&mut dyn Table> {
        let mut all: Vec<&mut dyn Table> = vec![&mut self.device, &mut self.coll];
        #[cfg(feature = "shm")]
        all.push(&mut self.shm);
        #[cfg(feature = "tcp")]
        all.push(&mut self.tcp);
        #[cfg(feature = "ofi")]
        all.push(&mut self.ofi);
        #[cfg(feature = "verbs")]
        all.push(&mut self.verbs);
        all.extend(self.registered.iter_mut().map(|t| &mut **t));
        all
    }
}
