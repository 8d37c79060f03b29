//! `--scenario`: two hosts as a file says they are, paired from each side.
//!
//! The format is described beside the scenarios of the project, in `matching/tests/scenarios/README.md`.

use netmod_matching::{Answers, Families, Filter, Host, Rules};
use serde::Deserialize;
use serde_json::{Value, json};

use super::file::SideFile;
use super::outcome::{Outcome, published};
use crate::error::{During, Failure, Result};

/// A file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[serde(default)]
    pub(crate) title: String,
    /// What is to be learnt from it; for readers.
    #[serde(default, rename = "why")]
    _why: String,
    /// Where such a case was reported; for readers.
    #[serde(default, rename = "seen")]
    _seen: String,
    /// The right pairs, if they are known.
    #[serde(default)]
    pub(crate) expected: Option<Vec<[String; 2]>>,
    #[serde(default)]
    pub(crate) rules: RulesFile,
    pub(crate) a: SideFile,
    pub(crate) b: SideFile,
}

/// What the deciding side wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RulesFile {
    #[serde(default)]
    families: FamiliesFile,
    #[serde(default)]
    equal_mtu: bool,
    #[serde(default)]
    speed_ratio: u32,
    #[serde(default)]
    max_rails: u32,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FamiliesFile {
    #[default]
    Both,
    Ipv4,
    Ipv6,
}

impl Scenario {
    /// From the text of a file called `name`.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Scenario> {
        toml::from_str(text).during(format!("read the scenario {name}"))
    }

    fn rules(&self) -> Rules {
        let r = &self.rules;
        let families = match r.families {
            FamiliesFile::Both => Families::Both,
            FamiliesFile::Ipv4 => Families::V4,
            FamiliesFile::Ipv6 => Families::V6,
        };
        Rules { families, require_equal_mtu: r.equal_mtu, ..Rules::default() }
            .with_speed_ratio(r.speed_ratio)
            .with_max_rails(r.max_rails)
    }

    /// Pairs from both sides, as two processes do: each knows its own record and reads the other's from the bytes that it
    /// publishes.
    ///
    /// # Errors
    /// A value in the file that is none.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let rules = self.rules();
        let mut hosts = Vec::new();
        let mut tables = Vec::new();
        for (name, side) in [("a", &self.a), ("b", &self.b)] {
            let host = side.host(name)?;
            tables.push(side.table(name, &host)?);
            let filter: Filter =
                side.interfaces.parse().map_err(|e| Failure::new(format!("{name}: interfaces: {e}")))?;
            hosts.push(Rules { filter, ..rules.clone() }.publish(&host).host);
        }
        let (published_a, published_b) = (published(&hosts[0])?, published(&hosts[1])?);
        let mut ask = |side: usize, own: &Host, peer: &Host, asked: bool| {
            if asked { Answers::ask(own, peer, &mut tables[side]) } else { Answers::unknown() }
        };
        let from_a = ask(0, &hosts[0], &published_b, self.a.asked);
        let from_b = ask(1, &hosts[1], &published_a, self.b.asked);
        Outcome::new([&hosts[0], &hosts[1]], [&from_a, &from_b], &rules)
    }

    /// As the command prints it; the unmatched are those of the file, published or not.
    pub(crate) fn json(&self, outcome: &Outcome) -> Value {
        let names = |side: &SideFile| side.nics.iter().map(|n| n.name.clone()).collect();
        let mut out = outcome.json([names(&self.a), names(&self.b)]);
        if let Value::Object(map) = &mut out {
            map.insert("title".into(), json!(self.title));
            if let Some(expected) = &self.expected {
                let mut sorted = [expected.clone(), outcome.pairs()];
                sorted.iter_mut().for_each(|s| s.sort());
                map.insert("expected".into(), json!(expected));
                map.insert("as_expected".into(), json!(sorted[0] == sorted[1]));
            }
        }
        out
    }
}
