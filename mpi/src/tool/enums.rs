//! Enumerations: the names of a variable's values.

use ch3_shim::Config;
use netmod_core::config::Kind;

/// An enumeration: its name, and the names of the values from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumeration {
    /// Its name.
    pub name: String,
    /// Names of its items.
    pub items: Vec<&'static str>,
}

/// Names of the values of a switch.
pub(super) const SWITCH: [&str; 2] = ["no", "yes"];

/// Index of the enumeration of a process's state.
pub(super) const STATE: usize = 0;
/// Index of the enumeration of a switch.
pub(super) const SWITCHES: usize = 1;
/// Index of the enumeration of an event's elements.
pub const ELEMENTS: usize = 2;

/// Returns the enumerations: three of the interface's own, then one for each setting with a choice.
pub(super) fn list(config: &Config) -> Vec<Enumeration> {
    let own = |name: &str, items: &[&'static str]| Enumeration { name: name.into(), items: items.to_vec() };
    let mut all = vec![
        own("state of the process", &["MPI is not initialized", "MPI is initialized", "MPI has ended"]),
        own("switch", &SWITCH),
        own("elements of an event", &["peer", "netmod"]),
    ];
    all.extend(config.entries().filter_map(|e| match e.kind {
        Kind::Choice(words) => {
            Some(Enumeration { name: format!("values of {}", e.name), items: words.to_vec() })
        }
        _ => None,
    }));
    all
}

/// Returns the index of the enumeration of a setting with a choice.
pub(super) fn of_setting(config: &Config, name: &str) -> Option<usize> {
    let mut choices = config.entries().filter(|e| matches!(e.kind, Kind::Choice(_)));
    choices.position(|e| e.name == name).map(|at| at + ELEMENTS + 1)
}
