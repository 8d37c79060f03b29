//! Netmods of somebody else's, known to the builder by name.

use std::fmt;
use std::sync::Arc;

use netmod_core::{Netmod, PeerName, Pollers};

use super::init::Builder;
use crate::bootstrap::Bootstrap;
use crate::error::{Error, Result};

/// What a registered netmod may need to open: its process, and its settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NetmodSetup {
    /// The process whose netmod it will be.
    pub me: PeerName,
    /// Number of the job's processes.
    pub size: u32,
    /// Number of the job's processes on this node, this one included.
    pub local_size: u32,
    /// Who polls on this node.
    pub pollers: Pollers,
    /// Its variables: suffixes and values.
    variables: Vec<(String, String)>,
}

impl NetmodSetup {
    /// The value of `NETMOD_<NAME>_<SUFFIX>`, if it is set.
    pub fn variable(&self, suffix: &str) -> Option<&str> {
        self.variables.iter().find(|(s, _)| s == suffix).map(|(_, value)| value.as_str())
    }
}

/// Opens a netmod, or says why it cannot: one line.
type Constructor = dyn Fn(&NetmodSetup) -> std::result::Result<Box<dyn Netmod>, String> + Send + Sync;

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

/// The prefix of the variables of a netmod.
fn prefix(name: &str) -> String {
    format!("NETMOD_{}_", name.to_ascii_uppercase())
}

/// Returns true if a variable is a setting of a netmod with this name.
pub(super) fn is_setting_of(name: &str, variable: &str) -> bool {
    variable.len() > prefix(name).len() && variable.starts_with(&prefix(name))
}

/// The variables with a netmod's prefix, by their suffixes.
fn variables_of(name: &str, vars: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let prefix = prefix(name);
    vars.filter_map(|(var, value)| Some((var.strip_prefix(&prefix)?.to_owned(), value))).collect()
}

impl Registered {
    pub(super) fn new(name: &'static str, open: Arc<Constructor>) -> Registered {
        Registered { name, open }
    }

    /// Opens the netmod for the process that `boot` names.
    ///
    /// # Errors
    /// Why it does not open.
    pub(super) fn open(
        &self,
        me: PeerName,
        boot: &dyn Bootstrap,
        pollers: Pollers,
    ) -> std::result::Result<Box<dyn Netmod>, String> {
        let environment =
            std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
        let setup = NetmodSetup {
            me,
            size: boot.size(),
            local_size: boot.local_size(),
            pollers,
            variables: variables_of(self.name, environment),
        };
        let netmod = (self.open)(&setup)?;
        match netmod.name() {
            name if name == self.name => Ok(netmod),
            other => Err(format!("it was registered as {}, and calls itself {other}", self.name)),
        }
    }
}

impl Builder {
    /// Makes a netmod known by its name, so that `NETMOD` may name it. Where `NETMOD` is not set it is preferred to the
    /// built-in ones. Each engine of the process opens its own. Its settings are the variables `NETMOD_<NAME>_*`, which
    /// the constructor gets.
    ///
    /// What it opens takes part in everything: cards, the choice of netmods at both ends, the job key, fault injection and
    /// capture, status reports.
    #[must_use]
    pub fn register<F>(mut self, name: &'static str, open: F) -> Builder
    where
        F: Fn(&NetmodSetup) -> std::result::Result<Box<dyn Netmod>, String> + Send + Sync + 'static,
    {
        self.registered.push(Registered::new(name, Arc::new(open)));
        self
    }

    /// Checks the names of the registered netmods.
    ///
    /// # Errors
    /// A name that is taken, or that `NETMOD` cannot hold.
    pub(super) fn check_registered(&self, built_in: &[&str]) -> Result<()> {
        for (i, r) in self.registered.iter().enumerate() {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
            if r.name.is_empty() || !r.name.bytes().all(fits) {
                let why = "a netmod's name is lower-case letters and digits";
                return Err(Error::Config(format!("cannot register a netmod as {:?}: {why}", r.name)));
            }
            if built_in.contains(&r.name) || self.registered[..i].iter().any(|other| other.name == r.name) {
                let text = format!("cannot register a netmod as {:?}: there is one of that name", r.name);
                return Err(Error::Config(text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{is_setting_of, variables_of};

    #[test]
    fn a_netmod_gets_its_own_variables_only() {
        let vars =
            [("NETMOD_THIRD_LABEL", "blue"), ("NETMOD_THIRDX_LABEL", "red"), ("NETMOD_TCP_RAILS", "2")];
        let vars = vars.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(variables_of("third", vars), [("LABEL".to_owned(), "blue".to_owned())]);
        assert!(is_setting_of("third", "NETMOD_THIRD_LABEL"));
        assert!(!is_setting_of("third", "NETMOD_THIRD_"));
        assert!(!is_setting_of("third", "NETMOD_THIRDX_LABEL"));
    }
}
