//! Which of libfabric's providers and domains are taken, and why; and why the others are not.
//!
//! [`survey`] asks for everything first and for less afterwards, so that each provider is heard with the most that it can do. What
//! comes of that is judged by [`judge()`], which is pure.

mod defects;
mod judge;
mod lengths;
mod names;
mod rank;
#[cfg(test)]
mod tests;

use core::fmt;

use libfabric_sys::Library;
use libfabric_sys::consts::{
    FI_ASYNC_IOV, FI_CONTEXT, FI_CONTEXT2, FI_MR_BASIC, FI_MR_SCALABLE, FI_MSG, FI_MULTI_RECV,
    FI_NAMED_RX_CTX, FI_RMA, FI_RX_CQ_DATA, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
};
use netmod_core::config::OfiConfig;
use netmod_matching::Host;
use netmod_nics::Found;

pub use defects::{DEFECTS, Defect, Remedy, wakes};
pub use judge::{Judged, judge};
pub use lengths::easy_max;
pub use rank::{has_thread, revokes_puts, shares_lines, wants_parts, wants_whole_buffers};

use crate::address::{format_name, show};
use crate::fi::info::{Facts, InfoError, MrMode, Offer, Request, getinfo};
use names::Providers;

/// What the netmod does if a provider wants it: storage for every operation's context, arrays of iovecs that stay; and no data
/// ever comes with completions.
pub const HONOURED_MODES: u64 = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;

/// What became of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is used: why.
    Chosen(String),
    /// It is not: why.
    Refused(String),
}

/// An offer and what became of it.
#[derive(Debug)]
pub struct Entry {
    /// The offer.
    pub offer: Offer,
    /// Its score; the greatest wins where the user prefers none.
    pub score: u32,
    /// What became of it.
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

/// All that libfabric offers here, and the choice.
#[derive(Debug)]
pub struct Survey {
    /// libfabric's version, as `FI_VERSION` makes it.
    pub library: u32,
    /// This host's interfaces, as far as they could be listed.
    pub host: Host,
    /// The offers: those that are used first, in the order of their preference, then the others by score.
    pub entries: Vec<Entry>,
    /// What went wrong or was not known: a sentence each, for people.
    pub notes: Vec<String>,
    /// The names that the user wants and nothing answers to.
    unmatched: Vec<String>,
}

impl Survey {
    /// The offers that are used; all are of one provider.
    pub fn chosen(&self) -> impl Iterator<Item = &Offer> {
        self.entries.iter().filter(|e| matches!(e.verdict, Verdict::Chosen(_))).map(|e| &e.offer)
    }

    /// What is known against a provider in this version of libfabric.
    pub fn defects(&self, provider: &str) -> impl Iterator<Item = &'static Defect> {
        defects::of(provider, self.library)
    }

    /// The offers that are used, given away; the host's interfaces are for the card.
    ///
    /// # Errors
    /// Why nothing is used, for people.
    pub fn into_chosen(self) -> Result<(Vec<Offer>, Host), String> {
        if self.chosen().next().is_none() {
            return Err(self.why_none());
        }
        let chosen =
            self.entries.into_iter().filter(|e| matches!(e.verdict, Verdict::Chosen(_))).map(|e| e.offer);
        Ok((chosen.collect(), self.host))
    }

    /// Why nothing is used.
    fn why_none(&self) -> String {
        let version = format!("libfabric {}.{}", self.library >> 16, self.library & 0xffff);
        let mut out = match (&*self.unmatched, self.entries.is_empty()) {
            ([], true) => format!("{version} has no provider with reliable datagrams here"),
            ([], false) => format!("of what {version} offers here nothing can be used"),
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
            out += "; FI_PROVIDER is set, too, and libfabric heeds it";
        }
        out + "; `netmod-perf info` tells more"
    }
}

/// How many engines of this process share an endpoint of an offer, each with a context of its own; or why each has a plain one.
///
/// # Errors
/// Why, for people; nothing if nobody has asked for more.
pub fn contexts(cfg: &OfiConfig, facts: &Facts) -> Result<usize, Option<String>> {
    match facts.contexts() {
        _ if cfg.contexts == 1 => Err(None),
        _ if cfg.disable_sep => Err(Some("NETMOD_OFI_DISABLE_SEP is set".into())),
        1 => Err(Some(format!("{} has no scalable ones", facts.provider))),
        most => Ok(cfg.contexts.min(most)),
    }
}

/// The requests, the one that asks for most first: capabilities, modes of registration, threads.
fn requests(cfg: &OfiConfig) -> [(u64, i32, i32); 9] {
    let messages = FI_MSG | FI_MULTI_RECV;
    let all = messages | FI_RMA;
    let shared = cfg.contexts > 1 && !cfg.disable_sep;
    let threading = if shared { FI_THREAD_COMPLETION } else { FI_THREAD_DOMAIN };
    [
        // Contexts that have names are of use to a plain endpoint, too: its peers may have them.
        (all | FI_NAMED_RX_CTX, MrMode::HONOURED, threading),
        (all, MrMode::HONOURED, FI_THREAD_DOMAIN),
        // From before registration's modes were bits of their own.
        (all, FI_MR_BASIC, FI_THREAD_DOMAIN),
        (all, FI_MR_SCALABLE, FI_THREAD_DOMAIN),
        // Without buffers that take several messages, each has one of its own.
        (FI_MSG | FI_RMA, MrMode::HONOURED, FI_THREAD_DOMAIN),
        (FI_MSG | FI_RMA, FI_MR_BASIC, FI_THREAD_DOMAIN),
        (FI_MSG | FI_RMA, FI_MR_SCALABLE, FI_THREAD_DOMAIN),
        (messages, MrMode::HONOURED, FI_THREAD_DOMAIN),
        (FI_MSG, MrMode::HONOURED, FI_THREAD_DOMAIN),
    ]
}

/// Asks libfabric what there is, and chooses. `FI_PROVIDER` is heeded by libfabric itself.
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
    // Some providers show only when they are asked for by name.
    for name in providers.wanted() {
        let answered = |offers: &[Offer]| {
            let all = || offers.iter().map(|o| &*o.provider);
            all().any(|p| Providers::parse(name).place(p, all()).is_some())
        };
        if !name.contains(['*', '?']) && !answered(&offers) {
            ask(library, cfg, Some(name), &mut offers, &mut notes);
        }
    }
    let facts: Vec<_> = offers.iter().map(Offer::facts).collect();
    let judged = judge(&facts, &host, library.version(), cfg);
    let all = || facts.iter().map(|f| &*f.provider);
    let answers = |name: &String| all().any(|p| Providers::parse(name).place(p, all()).is_some());
    let unmatched: Vec<String> = providers.wanted().iter().filter(|name| !answers(name)).cloned().collect();
    drop(facts);
    let mut entries: Vec<(usize, Entry)> = offers
        .into_iter()
        .zip(judged)
        .map(|(offer, j)| (j.order, Entry { offer, score: j.score, verdict: j.verdict }))
        .collect();
    entries.sort_by_key(|(order, _)| *order);
    let entries = entries.into_iter().map(|(_, e)| e).collect();
    Survey { library: library.version(), host, entries, notes, unmatched }
}

/// Adds what there is for each request and was not offered for an earlier one.
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
