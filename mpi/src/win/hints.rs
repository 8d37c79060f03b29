//! Hints of windows.

use super::object::{Flavor, Window};

/// Keys that are kept. What they say changes nothing but `alloc_shared_noncontig`: what they allow
/// this library not to do, it does at no cost.
const KEYS: [&str; 9] = [
    "no_locks",
    "accumulate_ordering",
    "accumulate_ops",
    "mpi_accumulate_granularity",
    "same_size",
    "same_disp_unit",
    "alloc_shared_noncontig",
    "alloc_shm",
    "mpi_minimum_memory_alignment",
];

/// Values that are in force without a hint.
const DEFAULTS: [(&str, &str); 6] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
];

/// Key that tells who executes accumulations on this process's memory.
const AGENT: &str = "netmod_accumulate_agent";

/// Key that tells of how many processes on other nodes the network itself reads and writes the
/// memory.
const NETWORK: &str = "netmod_network_targets";

/// Returns the hints that are known among those of an info.
pub(super) fn known(pairs: &[(String, String)]) -> Vec<(String, String)> {
    pairs.iter().filter(|(key, _)| KEYS.contains(&key.as_str())).cloned().collect()
}

impl Window {
    /// Takes hints.
    pub(super) fn set_hints(&mut self, pairs: &[(String, String)]) {
        for (key, value) in known(pairs) {
            match self.hints.iter_mut().find(|(k, _)| *k == key) {
                Some((_, old)) => *old = value,
                None => self.hints.push((key, value)),
            }
        }
    }

    /// Returns what is in force.
    pub(super) fn hints_in_force(&self) -> Vec<(String, String)> {
        let mut all = self.hints.clone();
        let mut add = |key: &str, value: &str| {
            if all.iter().all(|(k, _)| k != key) {
                all.push((key.to_owned(), value.to_owned()));
            }
        };
        DEFAULTS.iter().for_each(|(key, value)| add(key, value));
        if self.flavor == Flavor::Shared {
            add("alloc_shared_noncontig", "false");
        }
        let (far, open) = self.far_targets();
        if far > 0 {
            add(NETWORK, &format!("{open} of {far}"));
        }
        add(AGENT, self.agents());
        all
    }
}
