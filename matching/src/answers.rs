//! What one side's routing tables say of the ways to the other side: which questions make sense, and the answers.

use crate::address::is_link_local;
use crate::canonical::Canonical;
use crate::graph::Endpoint;
use crate::record::Host;
use crate::route::{Answer, Query, Routes};

/// The answers of one side's routing tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    /// Each query once, in ascending order.
    known: Vec<(Query, Answer)>,
}

impl Answers {
    /// Of nobody: each answer is [`Answer::Unknown`].
    pub fn unknown() -> Answers {
        Answers::default()
    }

    /// Asks whatever may matter for pairs of these two, in one batch.
    ///
    /// Queries that got no answer are [`Answer::Unknown`].
    pub fn ask(own: &Host, peer: &Host, routes: &mut dyn Routes) -> Answers {
        let queries = Answers::queries(own, peer);
        if queries.is_empty() {
            return Answers::unknown();
        }
        let mut answers = routes.ask(&queries).into_iter();
        let known = queries.into_iter().map(|q| (q, answers.next().unwrap_or(Answer::Unknown))).collect();
        Answers { known }
    }

    /// What is worth asking the own side's tables, each query once, in ascending order: between addresses of usable
    /// interfaces, of one family, link-local only to link-local, and nothing that the own side has itself. Nothing within one
    /// place, where all is on-link.
    pub fn queries(own: &Host, peer: &Host) -> Vec<Query> {
        if own.place.is_same(&peer.place) {
            return Vec::new();
        }
        let (own, peer) = (Canonical::new(own).host, Canonical::new(peer).host);
        let addresses = |host: &Host| -> Vec<_> {
            host.nics
                .iter()
                .filter(|n| n.unusable().is_none())
                .flat_map(|n| n.addresses.iter().map(|a| (n.index, a.ip)))
                .collect()
        };
        let held = |ip| own.nics.iter().any(|n| n.addresses.iter().any(|a| a.ip == ip));
        let mut queries = Vec::new();
        for (_, to) in addresses(&peer).into_iter().filter(|(_, ip)| !held(*ip)) {
            for (index, from) in addresses(&own) {
                if from.is_ipv4() == to.is_ipv4() && is_link_local(from) == is_link_local(to) {
                    queries.push(Query { index, from, to });
                }
            }
        }
        queries.sort_unstable();
        queries.dedup();
        queries
    }

    /// The answer to a query.
    pub fn get(&self, query: &Query) -> Answer {
        match self.known.binary_search_by(|(q, _)| q.cmp(query)) {
            Ok(at) => self.known[at].1,
            Err(_) => Answer::Unknown,
        }
    }

    /// How many answers there are, and how many of them are not [`Answer::Unknown`].
    pub fn count(&self) -> (usize, usize) {
        (self.known.len(), self.known.iter().filter(|(_, a)| *a != Answer::Unknown).count())
    }
}

impl FromIterator<(Query, Answer)> for Answers {
    /// Of several answers to one query the worst counts.
    fn from_iter<I: IntoIterator<Item = (Query, Answer)>>(answers: I) -> Answers {
        let mut known: Vec<_> = answers.into_iter().collect();
        known.sort_unstable();
        known.dedup_by_key(|(q, _)| *q);
        Answers { known }
    }
}
