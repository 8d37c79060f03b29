//! The pairing of two hosts as both sides compute it, and its result as JSON.

use netmod_matching::{Host, Pairing, Rules, Side, Whose, pair, wire};
use serde_json::{Value, json};

use crate::error::{During, Result};

/// A pairing, computed by both sides.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The pairing computed by A.
    pub(crate) here: Pairing,
    /// The pairing computed by B.
    pub(crate) there: Pairing,
    /// Published records of A and B.
    published: [Host; 2],
}

/// Returns a record as others see it: parsed from its published bytes.
///
/// # Errors
/// If it cannot be parsed.
pub(crate) fn published(host: &Host) -> Result<Host> {
    wire::parse(&wire::encode(host)).during("read a record that was just written")
}

impl Outcome {
    /// Pairs from both sides as two processes do: each uses its own record and the other's
    /// published bytes.
    ///
    /// # Errors
    /// If a record cannot be parsed.
    pub(crate) fn new(a: &Host, b: &Host, rules: &Rules) -> Result<Outcome> {
        let (seen_a, seen_b) = (published(a)?, published(b)?);
        Ok(Outcome::of_views([a, &seen_b], [b, &seen_a], rules))
    }

    /// Pairs from both sides, each with its own record and its view of the other's.
    pub(crate) fn of_views([a, seen_b]: [&Host; 2], [b, seen_a]: [&Host; 2], rules: &Rules) -> Outcome {
        let side = |name, host| Side { name, host };
        let here = pair(&side(b"a", a), &side(b"b", seen_b), rules);
        let there = pair(&side(b"b", b), &side(b"a", seen_a), rules);
        Outcome { here, there, published: [a.clone(), seen_b.clone()] }
    }

    /// Returns true if both sides have the same result.
    pub(crate) fn agreed(&self) -> bool {
        let there: Vec<_> = self.there.pairs.iter().map(|p| p.mirror()).collect();
        self.here.agreement() == self.there.agreement() && there == self.here.pairs
    }

    /// Returns the pairs by interface name.
    pub(crate) fn pairs(&self) -> Vec<[String; 2]> {
        let [a, b] = &self.published;
        let names = |p: &netmod_matching::Pair| [a.nics[p.own].name.clone(), b.nics[p.peer].name.clone()];
        self.here.pairs.iter().map(names).collect()
    }

    /// Returns the result as JSON, given the names of all interfaces of A and B, published or not.
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
