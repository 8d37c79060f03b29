//! Chooses among libfabric's providers and domains, with a reason for each that is used or not.
//!
//! [`survey`] first requests all capabilities, then fewer, so that each provider answers with the
//! most it supports. The pure function [`decide()`] decides about the answers.

mod decide;
mod defects;
mod lengths;
mod names;
mod rank;
#[cfg(test)]
mod tests;

use core::fmt;

use crate::config::OfiConfig;
use libfabric_sys::Library;
use libfabric_sys::consts::{
    FI_ASYNC_IOV, FI_ATOMIC, FI_CONTEXT, FI_CONTEXT2, FI_MR_BASIC, FI_MR_SCALABLE, FI_MSG, FI_MULTI_RECV,
    FI_NAMED_RX_CTX, FI_RMA, FI_RX_CQ_DATA, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
};
use netmod_matching::Host;
use netmod_nics::Found;

pub use decide::{Decision, decide};
pub use defects::{DEFECTS, Defect, Remedy, wakes};
pub use lengths::easy_max;
pub use rank::{has_thread, revokes_puts, shares_lines, wants_parts, wants_whole_buffers};

use crate::address::{format_name, show};
use crate::error::NoOffer;
use crate::fi::info::{Facts, InfoError, MrMode, Offer, Request, getinfo};
use names::Providers;

/// Modes that the netmod supports if a provider requires them: context storage for each operation,
/// and arrays of iovecs that stay valid. Completion data is never used.
pub const HONOURED_MODES: u64 = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;

/// Decision about an offer, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Used, for this reason.
    Chosen(String),
    /// Not used, for this reason.
    Refused(String),
}

/// An offer and the decision about it.
#[derive(Debug)]
pub struct Entry {
    /// The offer.
    pub offer: Offer,
    /// Its score. The highest wins unless the user prefers another provider.
    pub score: u32,
    /// The verdict with its reason.
    pub verdict: Verdict,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.offer;
        let address = show(o.format, &o.address);
        let form = if address.is_empty() { format_name(o.format) } else { address };
        write!(f, "{} {} ({form}): ", o.provider, o.domain)?;
        match &self.verdict {
            Verdict::Chosen(why) => write!(f, "chosen: {why}"),
            Verdict::Refused(why) => write!(f, "not used: {why}"),
        }
    }
}

/// All of libfabric's offers here, and the choice.
#[derive(Debug)]
pub struct Survey {
    /// libfabric's version, in the form of `FI_VERSION`.
    pub library: u32,
    /// This host's interfaces, as far as they could be listed.
    pub host: Host,
    /// The offers: the used ones in order of preference, then the others by score.
    pub entries: Vec<Entry>,
    /// Warnings, one sentence each.
    pub notes: Vec<String>,
    /// Names that the user has given and that match nothing.
    unmatched: Vec<String>,
}

impl Survey {
    /// Returns the used offers, all of one provider.
    pub fn chosen(&self) -> impl Iterator<Item = &Offer> {
        self.entries.iter().filter(|e| matches!(e.verdict, Verdict::Chosen(_))).map(|e| &e.offer)
    }

    /// Returns the known defects of a provider in this version of libfabric.
    pub fn defects(&self, provider: &str) -> impl Iterator<Item = &'static Defect> {
        defects::of(provider, self.library)
    }

    /// Returns the used offers, and the host's interfaces for the card.
    ///
    /// # Errors
    /// The reason if no offer is used.
    pub fn into_chosen(self) -> Result<(Vec<Offer>, Host), NoOffer> {
        if self.chosen().next().is_none() {
            return Err(NoOffer(self.why_none()));
        }
        let chosen =
            self.entries.into_iter().filter(|e| matches!(e.verdict, Verdict::Chosen(_))).map(|e| e.offer);
        Ok((chosen.collect(), self.host))
    }

    /// Returns the reason if no offer is used.
    fn why_none(&self) -> String {
        let version = format!("libfabric {}.{}", self.library >> 16, self.library & 0xffff);
        let mut out = match (&*self.unmatched, self.entries.is_empty()) {
            ([], true) => format!("{version} has no provider with reliable datagrams here"),
            ([], false) => format!("{version} has no usable offer here"),
            (names, _) => format!("{version} has no provider {} here", names.join(", ")),
        };
        let mut seen: Vec<&str> = Vec::new();
        for e in &self.entries {
            let Verdict::Refused(why) = &e.verdict else { continue };
            if !seen.contains(&&*e.offer.provider) {
                out += if seen.is_empty() { "; there are: " } else { "; " };
                out += &format!("{} ({why})", e.offer.provider);
                seen.push(&e.offer.provider);
            }
        }
        for note in &self.notes {
            out += &format!("; {note}");
        }
        if std::env::var_os("FI_PROVIDER").is_some() {
            out += "; FI_PROVIDER is set, too, and libfabric observes it";
        }
        out + "; `netmod-perf info` tells more"
    }
}

/// Returns the number of engines of this process that share an endpoint of an offer, each with its
/// own context.
///
/// # Errors
/// The reason if each engine has a plain endpoint; `None` if contexts were not requested.
pub fn contexts(cfg: &OfiConfig, facts: &Facts) -> Result<usize, Option<String>> {
    match facts.contexts() {
        _ if cfg.contexts == 1 => Err(None),
        _ if cfg.disable_sep => Err(Some("NETMOD_OFI_DISABLE_SEP is set".into())),
        1 => Err(Some(format!("{} has no scalable endpoints", facts.provider))),
        most => Ok(cfg.contexts.min(most)),
    }
}

/// Returns the requests, the most demanding first: capabilities, modes of registration, threading.
fn requests(cfg: &OfiConfig) -> [(u64, i32, i32); 11] {
    let messages = FI_MSG | FI_MULTI_RECV;
    let all = messages | FI_RMA;
    let shared = cfg.contexts > 1 && !cfg.disable_sep;
    let threading = if shared { FI_THREAD_COMPLETION } else { FI_THREAD_DOMAIN };
    [
        // Named contexts are useful for a plain endpoint, too: its peers may have them.
        (all | FI_ATOMIC | FI_NAMED_RX_CTX, MrMode::HONOURED, threading),
        (all | FI_ATOMIC, MrMode::HONOURED, FI_THREAD_DOMAIN),
        (all | FI_NAMED_RX_CTX, MrMode::HONOURED, threading),
        (all, MrMode::HONOURED, FI_THREAD_DOMAIN),
        // For providers from before the modes of registration were separate bits.
        (all, FI_MR_BASIC, FI_THREAD_DOMAIN),
        (all, FI_MR_SCALABLE, FI_THREAD_DOMAIN),
        // Without multi-receive buffers, each buffer takes one message.
        (FI_MSG | FI_RMA, MrMode::HONOURED, FI_THREAD_DOMAIN),
        (FI_MSG | FI_RMA, FI_MR_BASIC, FI_THREAD_DOMAIN),
        (FI_MSG | FI_RMA, FI_MR_SCALABLE, FI_THREAD_DOMAIN),
        (messages, MrMode::HONOURED, FI_THREAD_DOMAIN),
        (FI_MSG, MrMode::HONOURED, FI_THREAD_DOMAIN),
    ]
}

/// Queries libfabric, and chooses. libfabric itself observes `FI_PROVIDER`.
pub fn survey(library: &Library, cfg: &OfiConfig) -> Survey {
    let mut notes = Vec::new();
    let host = match Found::here() {
        Ok(found) => found.host,
        Err(e) => {
            notes.push(e.to_string());
            Host::default()
        }
    };
    let providers = Providers::parse(&cfg.provider);
    let mut offers = Vec::new();
    ask(library, cfg, None, &mut offers, &mut notes);
    // Some providers answer only if they are named.
    for name in providers.wanted() {
        let answered = |offers: &[Offer]| {
            let all = || offers.iter().map(|o| &*o.provider);
            all().any(|p| Providers::parse(name).position(p, all()).is_some())
        };
        if !name.contains(['*', '?']) && !answered(&offers) {
            ask(library, cfg, Some(name), &mut offers, &mut notes);
        }
    }
    let facts: Vec<_> = offers.iter().map(Offer::facts).collect();
    let decisions = decide(&facts, &host, library.version(), cfg);
    let all = || facts.iter().map(|f| &*f.provider);
    let answers = |name: &String| all().any(|p| Providers::parse(name).position(p, all()).is_some());
    let unmatched: Vec<String> = providers.wanted().iter().filter(|name| !answers(name)).cloned().collect();
    drop(facts);
    let mut entries: Vec<(usize, Entry)> = offers
        .into_iter()
        .zip(decisions)
        .map(|(offer, j)| (j.order, Entry { offer, score: j.score, verdict: j.verdict }))
        .collect();
    entries.sort_by_key(|(order, _)| *order);
    let entries = entries.into_iter().map(|(_, e)| e).collect();
    Survey { library: library.version(), host, entries, notes, unmatched }
}

/// Adds the answers to each request that earlier requests have not produced.
fn ask(
    library: &Library,
    cfg: &OfiConfig,
    provider: Option<&str>,
    offers: &mut Vec<Offer>,
    notes: &mut Vec<String>,
) {
    for (caps, mr_mode, threading) in requests(cfg) {
        match getinfo(library, &Request { caps, mode: HONOURED_MODES, mr_mode, threading, provider }) {
            Ok(found) => {
                for offer in found {
                    let same = |o: &Offer| {
                        (&o.provider, &o.domain, &o.fabric, o.format)
                            == (&offer.provider, &offer.domain, &offer.fabric, offer.format)
                            && o.nic == offer.nic
                    };
                    if !offers.iter().any(same) {
                        offers.push(offer);
                    }
                }
            }
            Err(InfoError::Nothing) => {}
            Err(e) => notes.push(e.to_string()),
        }
    }
}
