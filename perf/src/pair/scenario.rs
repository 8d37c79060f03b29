//! `--scenario`: pairs two hosts that a file describes, from each side.
//!
//! `matching/tests/scenarios/README.md` describes the format.

use netmod_matching::{Families, Filter, Host, Rules, Transport};
use serde::Deserialize;
use serde_json::{Value, json};

use super::file::SideFile;
use super::outcome::Outcome;
use crate::error::{During, Failure, Result};

/// A scenario file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[serde(default)]
    pub(crate) title: String,
    /// Purpose of the scenario; for readers.
    #[serde(default, rename = "why")]
    _why: String,
    /// Source of the case; for readers.
    #[serde(default, rename = "seen")]
    _seen: String,
    /// Expected pairs, if known.
    #[serde(default)]
    pub(crate) expected: Option<Vec<[String; 2]>>,
    #[serde(default)]
    pub(crate) rules: RulesFile,
    pub(crate) a: SideFile,
    pub(crate) b: SideFile,
}

/// Rules of the deciding side.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RulesFile {
    #[serde(default)]
    families: FamiliesFile,
    #[serde(default)]
    transport: TransportFile,
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

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TransportFile {
    #[default]
    Datagrams,
    Stream,
}

impl Scenario {
    /// Parses a file called `name`.
    ///
    /// # Errors
    /// What is invalid, and where.
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
        let transport = match r.transport {
            TransportFile::Datagrams => Transport::Datagrams,
            TransportFile::Stream => Transport::Stream,
        };
        Rules { families, transport, ..Rules::default() }
            .with_speed_ratio(r.speed_ratio)
            .with_max_rails(r.max_rails)
    }

    /// Pairs from both sides as two processes do: each uses its own record and the other's
    /// published bytes.
    ///
    /// # Errors
    /// The invalid value.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let rules = self.rules();
        let host = |name: &str, side: &SideFile| -> Result<Host> {
            let filter: Filter =
                side.interfaces.parse().map_err(|e| Failure::new(format!("{name}: interfaces: {e}")))?;
            Ok(Rules { filter, ..rules.clone() }.publish(&side.asked(name)?).host)
        };
        Outcome::new(&host("a", &self.a)?, &host("b", &self.b)?, &rules)
    }

    /// Returns the output of the command. The unmatched interfaces are those of the file, published
    /// or not.
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
