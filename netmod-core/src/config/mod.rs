//! Settings: typed values from `NETMOD` and `NETMOD_*` environment variables, each with its origin.
//!
//! Each crate declares its own table with [`settings!`](crate::settings): field, type, default,
//! name, accepted values, meaning. Fields are read directly, also by hot code. Whoever assembles
//! the tables of a program reads the environment and records origins; a netmod gets its struct.

mod error;
mod table;
#[cfg(test)]
mod tests;
pub mod units;
mod value;

pub use error::{ConfigError, ConfigWarning, excerpt};
pub use table::{Settings, Table, Variable};
pub use value::{Kind, PortRange, SPIN_FEW, SPIN_MANY, Setting, Spin, assign};

/// The origin of a value. Later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The environment.
    Env,
    /// The program.
    Program,
}

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Origin::Default => "default",
            Origin::Env => "environment",
            Origin::Program => "program",
        })
    }
}

/// A variable with its documentation and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Value, in the form in which it can be set.
    pub value: String,
    /// Origin of the value.
    pub origin: Origin,
    /// Meaning, in one line.
    pub meaning: &'static str,
    /// Default, in the same form as the value.
    pub default: String,
    /// Accepted values.
    pub kind: Kind,
    /// Heading of its table in the documentation.
    pub title: &'static str,
}

const PREFIX: &str = "NETMOD_";
/// Prefix of the variables that control the project's tests; they are no configuration.
const TESTS: &str = "NETMOD_TEST_";

/// Returns true if an environment variable of this name is a setting, known or not.
pub fn is_setting_name(name: &str) -> bool {
    name == "NETMOD" || (name.starts_with(PREFIX) && !name.starts_with(TESTS))
}

/// Returns the prefix of a netmod's variables: `NETMOD_<NAME>_`.
pub fn netmod_prefix(netmod: &str) -> String {
    format!("{PREFIX}{}_", netmod.to_ascii_uppercase())
}
