//! Two hosts as both sides pair them, and the result as JSON.

use netmod_matching::{Host, Pairing, Rules, Side, Whose, pair, wire};
use serde_json::{Value, json};

use crate::error::{During, Result};

/// A pairing, computed by both sides.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// As A sees it.
    pub(crate) here: Pairing,
    /// As B sees it.
    pub(crate) there: Pairing,
    /// What A and B publish.
    published: [Host; 2],
}

/// A record as others see it: read from the bytes that are published.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn published(host: &Host) -> Result<Host> {
    wire::parse(&wire::encode(host)).during("read a record that was just written")
}

impl Outcome {
    /// Pairs from both sides, as two processes do: each knows its own record and reads the other's from the bytes that it
    /// publishes.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub(crate) fn new(a: &Host, b: &Host, rules: &Rules) -> Result<Outcome> {
        let (seen_a, seen_b) = (published(a)?, published(b)?);
        Ok(Outcome::of_views([a, &seen_b], [b, &seen_a], rules))
    }

    /// What A makes of its own record and what it has seen of B, and B of its own and what it has seen of A.
    pub(crate) fn of_views([a, seen_b]: [&Host; 2], [b, seen_a]: [&Host; 2], rules: &Rules) -> Outcome {
        let side = |name, host| Side { name, host };
        let here = pair(&side(b"a", a), &side(b"b", seen_b), rules);
        let there = pair(&side(b"b", b), &side(b"a", seen_a), rules);
        Outcome { here, there, published: [a.clone(), seen_b.clone()] }
    }

    /// Whether both sides came to the same result.
    pub(crate) fn agreed(&self) -> bool {
        let there: Vec<_> = self.there.pairs.iter().map(|p| p.mirror()).collect();
        self.here.agreement() == self.there.agreement() && there == self.here.pairs
    }

    /// The pairs, by name.
    pub(crate) fn pairs(&self) -> Vec<[String; 2]> {
        let [a, b] = &self.published;
        let names = |p: &netmod_matching::Pair| [a.nics[p.own].name.clone(), b.nics[p.peer].name.clone()];
        self.here.pairs.iter().map(names).collect()
    }

    /// With the names of all interfaces of A and B, published or not.
    pub(crate) fn json(&self, [all_a, all_b]: [Vec<String>; 2]) -> Value {
        let pairs = self.pairs();
        let alone = |side: usize, mut names: Vec<String>| {
            names.retain(|n| pairs.iter().all(|p| p[side] != *n));
            names
        };
        let side = |whose| if whose == Whose::Own { "a" } else { "b" };
        let why = self.here.explain();
        let how: Vec<_> =
            why.pairs.iter().map(|p| json!({ "a": p.own, "b": p.peer, "how": p.text })).collect();
        let unused: Vec<_> =
            why.unused.iter().map(|u| json!({ "side": side(u.whose), "nic": u.nic, "why": u.why })).collect();
        let verdicts: Vec<_> =
            why.verdicts.iter().map(|v| json!({ "a": v.own, "b": v.peer, "why": v.text })).collect();
        json!({
            "pairs": pairs,
            "unmatched": { "a": alone(0, all_a), "b": alone(1, all_b) },
            "agreed": self.agreed(),
            "agreement": format!("{:016x}", self.here.agreement()),
            "how": how,
            "unused": unused,
            "verdicts": verdicts,
        })
    }
}
