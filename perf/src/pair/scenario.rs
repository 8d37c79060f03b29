//! `--scenario`: two hosts as a file says they are, paired from each side.
//!
//! The format is described beside the scenarios of the project, in `matching/tests/scenarios/README.md`.

use netmod_matching::{Answers, Families, Filter, Host, Pairing, Rules, Side, Whose, pair, wire};
use serde::Deserialize;
use serde_json::{Value, json};

use super::file::SideFile;
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

/// A scenario as both sides computed it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// As A sees it.
    pub(crate) here: Pairing,
    /// As B sees it.
    pub(crate) there: Pairing,
    /// What A and B publish.
    pub(crate) published: [Host; 2],
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
        let read = |host: &Host| {
            wire::parse(&wire::encode(host)).map_err(|e| Failure::new(format!("own record, read back: {e}")))
        };
        let (seen_a, seen_b) = (read(&hosts[0])?, read(&hosts[1])?);
        let mut ask = |side: usize, own: &Host, peer: &Host, asked: bool| {
            if asked { Answers::ask(own, peer, &mut tables[side]) } else { Answers::unknown() }
        };
        let from_a = ask(0, &hosts[0], &seen_b, self.a.asked);
        let from_b = ask(1, &hosts[1], &seen_a, self.b.asked);
        let here = pair(
            &Side { name: b"a", host: &hosts[0], answers: &from_a },
            &Side { name: b"b", host: &seen_b, answers: &from_b },
            &rules,
        );
        let there = pair(
            &Side { name: b"b", host: &hosts[1], answers: &from_b },
            &Side { name: b"a", host: &seen_a, answers: &from_a },
            &rules,
        );
        let [a, b] = <[Host; 2]>::try_from(hosts).map_err(|_| Failure::new("two sides"))?;
        Ok(Outcome { here, there, published: [a, b] })
    }
}

impl Outcome {
    /// Whether both sides came to the same result, in each respect.
    pub(crate) fn agreed(&self) -> bool {
        self.here.agreement() == self.there.agreement() && self.there.clone().mirror() == self.here
    }

    /// The pairs, by name.
    pub(crate) fn pairs(&self) -> Vec<[String; 2]> {
        let [a, b] = &self.published;
        let names = |p: &netmod_matching::Pair| [a.nics[p.own].name.clone(), b.nics[p.peer].name.clone()];
        self.here.pairs.iter().map(names).collect()
    }

    /// As the command prints it; the unmatched are those of the files, published or not.
    pub(crate) fn json(&self, scenario: &Scenario) -> Value {
        let pairs = self.pairs();
        let alone = |side: usize, file: &SideFile| -> Vec<String> {
            let names = file.nics.iter().map(|n| &n.name);
            names.filter(|n| pairs.iter().all(|p| p[side] != **n)).cloned().collect()
        };
        let side = |whose| if whose == Whose::Own { "a" } else { "b" };
        let explanation = self.here.explain();
        let mut out = json!({
            "pairs": pairs,
            "unmatched": { "a": alone(0, &scenario.a), "b": alone(1, &scenario.b) },
            "agreed": self.agreed(),
            "agreement": format!("{:016x}", self.here.agreement()),
            "title": scenario.title,
            "how": explanation.pairs.iter().map(|p| json!({ "a": p.own, "b": p.peer, "how": p.text })).collect::<Vec<_>>(),
            "unused": explanation.unused.iter()
                .map(|u| json!({ "side": side(u.whose), "nic": u.nic, "why": u.why })).collect::<Vec<_>>(),
            "verdicts": explanation.verdicts.iter()
                .map(|v| json!({ "a": v.own, "b": v.peer, "why": v.text })).collect::<Vec<_>>(),
        });
        if let (Some(expected), Value::Object(map)) = (&scenario.expected, &mut out) {
            let mut sorted = [expected.clone(), pairs.clone()];
            sorted.iter_mut().for_each(|s| s.sort());
            map.insert("expected".into(), json!(expected));
            map.insert("as_expected".into(), json!(sorted[0] == sorted[1]));
        }
        out
    }
}
