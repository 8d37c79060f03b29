//! Settings of users: variables, lists of interfaces, plans of faults, lists of processors.

use ch3_shim::Config;
use netmod_core::cpus::CpuSet;
use netmod_matching::Filter;
use netmod_wrap::FaultPlan;

use super::{text, texts};
use crate::Outcome;

/// All variables with their defaults, one a line.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let lines = |value: fn(&netmod_core::config::Entry) -> String| {
        let entries = Config::default();
        entries.entries().map(|e| format!("{}={}\n", e.name, value(&e))).collect::<String>().into_bytes()
    };
    let mut seeds = vec![lines(|e| e.value.clone())];
    seeds.extend(Config::default().entries().map(|e| format!("{}={}\n", e.name, e.value).into_bytes()));
    seeds
}

/// Settings: what is accepted has values that are accepted again, with the same result.
pub(super) fn settings(input: &[u8]) -> Outcome {
    let input = text(input);
    let pairs = input.lines().filter_map(|line| line.split_once('='));
    let parsed = Config::from_lookup(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if let Ok(config) = &parsed {
        let shown = |config: &Config| -> Vec<(String, String)> {
            config.entries().map(|e| (e.name.to_owned(), e.value)).collect()
        };
        let values = shown(config);
        let again = Config::from_lookup(values.clone()).expect("what is shown is accepted");
        assert!(again.warnings().is_empty());
        assert_eq!(shown(&again), values);
    }
    Outcome::of(&parsed.map(|config| config.warnings().len()))
}

pub(super) fn filter_seeds() -> Vec<Vec<u8>> {
    texts(&["", "eth0,eth1", "10.0.0.0/8", "^docker*,lo", "2001:db8::/32"])
}

pub(super) fn filter(input: &[u8]) -> Outcome {
    Outcome::of(&text(input).parse::<Filter>())
}

pub(super) fn plan_seeds() -> Vec<Vec<u8>> {
    let plan = FaultPlan::new(3).split(0.5).drop(0.01).corrupt(0.25);
    texts(&[&plan.to_string()])
}

/// A plan of faults, which is read again as it is shown.
pub(super) fn plan(input: &[u8]) -> Outcome {
    let parsed = text(input).parse::<FaultPlan>();
    if let Ok(plan) = &parsed {
        assert_eq!(plan.to_string().parse::<FaultPlan>().as_ref(), Ok(plan));
    }
    Outcome::of(&parsed)
}

pub(super) fn cpu_seeds() -> Vec<Vec<u8>> {
    texts(&["0-3,8", "0", "1,3,5-7"])
}

pub(super) fn cpus(input: &[u8]) -> Outcome {
    Outcome::of(&CpuSet::parse(&text(input)).ok_or("no list"))
}
