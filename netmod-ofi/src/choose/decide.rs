//! Decides which offers are used, with the reason for each.

use core::cmp::Reverse;
use core::net::IpAddr;

use crate::config::OfiConfig;
use libfabric_sys::consts::{FI_MR_BASIC, FI_MR_SCALABLE, FI_MSG, FI_ORDER_SAS};
use netmod_matching::address::is_link_local;
use netmod_matching::{Host, Nic};

use super::defects::{self, Remedy};
use super::names::{Domains, Providers};
use super::rank::{helper, rank};
use super::{HONOURED_MODES, Verdict, contexts};
use crate::address::{ip, show};
use crate::fi::info::{Facts, MrMode};

/// Minimum message length that a provider must support, in bytes: enough for handshakes and the
/// shortest configurable frames.
const LEAST_MSG: usize = 1 << 10;

/// The decision about an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its score.
    pub score: u32,
    /// Its position among all offers: the used ones first, then by score.
    pub order: usize,
    /// The verdict with its reason.
    pub verdict: Verdict,
}

/// An offer under consideration.
struct Candidate<'a> {
    facts: &'a Facts,
    ip: Option<IpAddr>,
    nic: Option<&'a Nic>,
    score: u32,
    /// Reason for the provider's score.
    merit: String,
    /// Position in the user's list of providers.
    position: usize,
    /// Reach of its address.
    tier: Tier,
    refused: Option<String>,
}

/// Reach of a domain, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Tier {
    /// Other hosts.
    Out,
    /// Possibly other hosts: a bridge or a tunnel.
    Perhaps,
    /// Only this host.
    Loopback,
}

/// Decides about the offers of a version of libfabric, on a host with these interfaces.
pub fn decide(offers: &[&Facts], host: &Host, library: u32, cfg: &OfiConfig) -> Vec<Decision> {
    let (providers, domains) = (Providers::parse(&cfg.provider), Domains::parse(&cfg.domain));
    let mut all: Vec<Candidate<'_>> = offers
        .iter()
        .map(|facts| {
            let mut c = Candidate::new(facts, host);
            let names = offers.iter().map(|o| &*o.provider);
            let position = providers.position(&facts.provider, names);
            c.position = position.unwrap_or(0);
            c.refused = unusable(&c, library, cfg, position, &providers, &domains);
            c
        })
        .collect();
    let best = all
        .iter()
        .filter(|c| c.refused.is_none())
        .min_by_key(|c| (c.position, Reverse(c.score), &c.facts.provider))
        .map(|c| (c.facts.provider.clone(), c.score));
    if let Some((provider, score)) = best {
        let fewer = |c: &Candidate<'_>| c.refused.is_none() && c.facts.provider != provider;
        for c in all.iter_mut().filter(|c| fewer(c)) {
            c.refused = Some(if providers.names_any() && c.position > 0 {
                format!("{provider} comes first in NETMOD_OFI_PROVIDER")
            } else {
                format!("{provider} is better (score {score} against {}: {})", c.score, c.merit)
            });
        }
        settle_domains(&mut all, &domains, cfg.domains);
    }
    verdicts(all, cfg)
}

impl<'a> Candidate<'a> {
    fn new(facts: &'a Facts, host: &'a Host) -> Candidate<'a> {
        let ip = ip(facts.format, &facts.address);
        let nic = ip.and_then(|ip| host.nics.iter().find(|n| n.addresses.iter().any(|a| a.ip == ip)));
        let tier = match (ip, nic) {
            (Some(ip), _) if ip.is_loopback() => Tier::Loopback,
            (_, Some(nic)) if !nic.kind.is_first_tier() => Tier::Perhaps,
            _ => Tier::Out,
        };
        let (score, merit) = rank(facts);
        Candidate { facts, ip, nic, score, merit, position: 0, tier, refused: None }
    }

    /// Returns the speed in Mb/s, from the provider or the system.
    fn speed(&self) -> Option<u32> {
        let said = self.facts.nic.as_ref().and_then(|n| n.speed);
        said.or(self.nic.and_then(|n| n.speed))
    }

    /// Returns the preference among several addresses of a domain; the smallest wins.
    fn family(&self) -> u8 {
        match self.ip {
            None => 0,
            Some(ip) if is_link_local(ip) => 3,
            Some(ip) if ip.is_ipv4() => 1,
            Some(_) => 2,
        }
    }

    /// Returns the name of the domain that the address belongs to.
    fn domain(&self) -> &str {
        &self.facts.domain
    }
}

/// Returns the reason if an offer cannot be used, whatever the other offers.
fn unusable(
    c: &Candidate<'_>,
    library: u32,
    cfg: &OfiConfig,
    position: Option<usize>,
    providers: &Providers,
    domains: &Domains,
) -> Option<String> {
    let facts = c.facts;
    if let Some(name) = providers.shut_out(&facts.provider) {
        return Some(format!("NETMOD_OFI_PROVIDER has !{name}"));
    }
    if providers.names_any() && position.is_none() {
        return Some("NETMOD_OFI_PROVIDER does not name it".into());
    }
    if let Some(why) = helper(&facts.provider) {
        return Some(why.into());
    }
    if !domains.passes(c.domain(), c.ip) {
        return Some(format!("NETMOD_OFI_DOMAIN={} leaves it out", cfg.domain));
    }
    if facts.caps & FI_MSG == 0 {
        return Some("it has no messages".into());
    }
    let unknown = facts.mode & !HONOURED_MODES;
    if unknown != 0 {
        return Some(format!("it requires modes that the netmod does not support (mode {unknown:#x})"));
    }
    let unknown = facts.mr_mode & !(MrMode::HONOURED | FI_MR_BASIC | FI_MR_SCALABLE);
    if facts.has_rma() && unknown != 0 {
        return Some(format!(
            "it requires registration modes that the netmod does not support (mr_mode {unknown:#x})"
        ));
    }
    if (facts.tx_order & facts.rx_order) & FI_ORDER_SAS == 0 {
        return Some("it does not keep messages in order (FI_ORDER_SAS)".into());
    }
    if facts.max_msg < LEAST_MSG {
        return Some(format!(
            "its messages have at most {} bytes, but {LEAST_MSG} are needed",
            facts.max_msg
        ));
    }
    if facts.nic.as_ref().and_then(|n| n.up) == Some(false) || c.nic.is_some_and(|n| !n.up || !n.carrier) {
        return Some("its link is down".into());
    }
    let named = position.is_some();
    defects::of(&facts.provider, library)
        .find(|d| d.remedy == Remedy::RefuseUnlessNamed && !named)
        .map(|d| format!("a known defect: {}; NETMOD_OFI_PROVIDER={} uses it anyway", d.what, facts.provider))
}

/// Selects domains of the chosen provider.
fn settle_domains(all: &mut [Candidate<'_>], domains: &Domains, most: usize) {
    // One of several addresses of a domain.
    for i in 0..all.len() {
        if all[i].refused.is_some() {
            continue;
        }
        let rank = |c: &Candidate<'_>, at: usize| (c.tier, c.family(), at);
        let better = (0..all.len())
            .filter(|j| all[*j].refused.is_none() && all[*j].domain() == all[i].domain())
            .find(|j| rank(&all[*j], *j) < rank(&all[i], i));
        if let Some(j) = better {
            let address = show(all[j].facts.format, &all[j].facts.address);
            all[i].refused = Some(format!("the domain is used by its address {address}"));
        }
    }
    // Domains that lead to other hosts; if there are none, those that may; else loopback.
    let asked = |c: &Candidate<'_>| domains.names(c.domain(), c.ip);
    let best = all.iter().filter(|c| c.refused.is_none()).map(|c| c.tier).min();
    for c in all.iter_mut().filter(|c| c.refused.is_none()) {
        if Some(c.tier) != best && !asked(c) {
            c.refused = Some(match c.tier {
                Tier::Loopback => "it is the loopback interface, and there are others".into(),
                _ => format!(
                    "{} does not reach other hosts by itself, and other domains do",
                    c.nic.map_or(c.domain(), |n| &n.name)
                ),
            });
        }
    }
    // The fastest first.
    let mut order: Vec<usize> = (0..all.len()).filter(|i| all[*i].refused.is_none()).collect();
    order.sort_by_key(|i| (all[*i].tier, Reverse(all[*i].speed()), *i));
    for i in order.into_iter().skip(most) {
        all[i].refused = Some(format!("NETMOD_OFI_DOMAINS={most} are used already"));
    }
}

fn verdicts(all: Vec<Candidate<'_>>, cfg: &OfiConfig) -> Vec<Decision> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| {
        let c = &all[*i];
        (c.refused.is_some(), Reverse(c.score), &c.facts.provider, c.tier, Reverse(c.speed()), *i)
    });
    let mut position = vec![0; all.len()];
    for (at, i) in order.into_iter().enumerate() {
        position[i] = at;
    }
    all.into_iter()
        .zip(position)
        .map(|(c, order)| {
            let verdict = match c.refused {
                Some(why) => Verdict::Refused(why),
                None => Verdict::Chosen(merits(&c, cfg)),
            };
            Decision { score: c.score, order, verdict }
        })
        .collect()
}

/// Returns the reason why an offer is used.
fn merits(c: &Candidate<'_>, cfg: &OfiConfig) -> String {
    let mut out = format!("{} (score {})", c.merit, c.score);
    if let Some(speed) = c.speed() {
        out += &format!(", {speed} Mb/s");
    }
    if c.tier == Tier::Loopback {
        out += ", loopback, since there is nothing else or the user named it";
    }
    match contexts(cfg, c.facts) {
        Ok(n) => out += &format!(", an endpoint with {n} contexts for the engines"),
        Err(Some(why)) => out += &format!(", plain endpoints: {why}"),
        Err(None) => {}
    }
    out
}
