//! The targets.

mod cards;
mod files;
mod handshake;
mod packets;
mod pmi;
mod settings;

use crate::Target;

/// All targets.
pub const ALL: &[Target] = &[
    Target { name: "card", seeds: cards::seeds, run: cards::card },
    Target { name: "card-node", seeds: cards::node_seeds, run: cards::node },
    Target { name: "card-ofi", seeds: cards::ofi_seeds, run: cards::ofi },
    Target { name: "card-verbs", seeds: cards::verbs_seeds, run: cards::verbs },
    Target { name: "interfaces", seeds: cards::record_seeds, run: cards::record },
    Target { name: "port-name", seeds: cards::port_seeds, run: cards::port },
    Target { name: "packet", seeds: packets::seeds, run: packets::packet },
    Target { name: "cookie", seeds: packets::cookie_seeds, run: packets::cookie },
    Target { name: "tcp-control", seeds: packets::control_seeds, run: packets::control },
    Target { name: "frame", seeds: packets::frame_seeds, run: packets::frame },
    Target { name: "handshake-responder", seeds: handshake::hello_seeds, run: handshake::responder },
    Target { name: "handshake-initiator", seeds: handshake::answer_seeds, run: handshake::initiator },
    Target { name: "pmi1", seeds: pmi::line_seeds, run: pmi::lines },
    Target { name: "pmi1-server", seeds: pmi::command_seeds, run: pmi::command },
    Target { name: "pmi2", seeds: pmi::frame_seeds, run: pmi::frames },
    Target { name: "pmi-mapping", seeds: pmi::mapping_seeds, run: pmi::mapping },
    Target { name: "pmi-value", seeds: pmi::value_seeds, run: pmi::value },
    Target { name: "pcapng", seeds: files::capture_seeds, run: files::capture },
    Target { name: "capture-record", seeds: files::record_seeds, run: files::record },
    Target { name: "scenario", seeds: files::scenario_seeds, run: files::scenario },
    Target { name: "status", seeds: files::status_seeds, run: files::status },
    Target { name: "settings", seeds: settings::seeds, run: settings::settings },
    Target { name: "interfaces-filter", seeds: settings::filter_seeds, run: settings::filter },
    Target { name: "fault-plan", seeds: settings::plan_seeds, run: settings::plan },
    Target { name: "cpu-list", seeds: settings::cpu_seeds, run: settings::cpus },
];

/// Returns the seeds of texts.
fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns the input as text, with replacements for what is none.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Limits, once, run};

    #[test]
    fn the_seeds_of_every_target_are_accepted() {
        for target in ALL {
            let seeds = (target.seeds)();
            assert!(!seeds.is_empty(), "{}", target.name);
            for seed in seeds {
                let outcome = once(target, &seed).expect("no panic");
                assert!(outcome.is_accepted(), "{}: {outcome:?}: {}", target.name, text(&seed));
            }
        }
    }

    #[test]
    fn every_target_rejects_something_and_stands_mutations() {
        let limits = Limits { time: std::time::Duration::from_secs(60), inputs: 3_000 };
        for target in ALL {
            let done = run(target, 1, limits).unwrap_or_else(|found| panic!("{}: {found:?}", target.name));
            assert!(done.outcomes > 1 && done.accepted < done.inputs, "{}: {done:?}", target.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|t| t.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
