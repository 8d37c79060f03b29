//! Lists libfabric's domains for the netmod `ofi`: what is used of each, and why the rest is not.

use std::path::Path;

use ch3_shim::Config;
use libfabric_sys::Library;
use libfabric_sys::consts::{FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL};
use netmod_ofi::address::{format_name, show};
use netmod_ofi::choose::{Entry, Remedy, Survey, Verdict, survey};
use netmod_ofi::fi::info::Facts;
use serde::Serialize;

/// A domain of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) provider: String,
    /// The provider's version.
    pub(super) version: String,
    pub(super) domain: String,
    pub(super) fabric: String,
    pub(super) address: String,
    /// Capabilities.
    pub(super) caps: Vec<&'static str>,
    /// Requirements of memory registration.
    pub(super) mr_mode: Vec<&'static str>,
    /// Maximum number of contexts of a scalable endpoint, in pairs.
    pub(super) contexts: usize,
    /// Maximum length of an injected message in bytes.
    pub(super) inject: usize,
    /// Progress model, as claimed by the provider.
    pub(super) progress: &'static str,
    pub(super) score: u32,
    pub(super) used: bool,
    pub(super) why: String,
}

/// A known defect of a provider in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Known {
    pub(super) provider: String,
    pub(super) what: &'static str,
    pub(super) remedy: String,
}

/// Report about libfabric.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// True if the netmod has a usable domain.
    pub(super) usable: bool,
    /// The used domain, or the reason why there is none.
    pub(super) detail: String,
    pub(super) addresses: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) known: Vec<Known>,
    pub(super) notes: Vec<String>,
}

/// Asks libfabric, if it is installed.
pub(super) fn report(cfg: &Config) -> Report {
    let path = (!cfg.ofi.library.is_empty()).then(|| Path::new(&cfg.ofi.library));
    match Library::load(path) {
        Ok(library) => of(survey(&library, &cfg.ofi)),
        Err(e) => Report { detail: e.to_string(), ..Report::default() },
    }
}

fn of(survey: Survey) -> Report {
    let version = format!("libfabric {}", dotted(survey.library));
    let lines = survey.entries.iter().map(line).collect();
    let notes = survey.notes.clone();
    let mut known = Vec::new();
    let mut addresses = Vec::new();
    let (mut provider, mut domains) = (String::new(), Vec::new());
    for offer in survey.chosen() {
        provider.clone_from(&offer.provider);
        domains.push(offer.domain.clone());
        addresses.push(shown(offer.facts()));
    }
    for d in survey.defects(&provider) {
        let remedy = match d.remedy {
            Remedy::Avoided(how) => how.to_owned(),
            Remedy::RefuseUnlessNamed => "not used unless NETMOD_OFI_PROVIDER names it".into(),
        };
        known.push(Known { provider: provider.clone(), what: d.what, remedy });
    }
    let (usable, detail) = match survey.into_chosen() {
        Ok(_) => (true, format!("{version}, provider {provider} on {}", domains.join(", "))),
        Err(why) => (false, why.to_string()),
    };
    Report { usable, detail, addresses, lines, known, notes }
}

fn dotted(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

fn shown(facts: &Facts) -> String {
    let address = show(facts.format, &facts.address);
    if address.is_empty() { format_name(facts.format) } else { address }
}

fn line(entry: &Entry) -> Line {
    let facts = entry.offer.facts();
    let (used, why) = match &entry.verdict {
        Verdict::Chosen(why) => (true, why.clone()),
        Verdict::Refused(why) => (false, why.clone()),
    };
    let named = |flags: &[(bool, &'static str)]| flags.iter().filter(|f| f.0).map(|f| f.1).collect();
    let mr = facts.mr();
    Line {
        provider: facts.provider.clone(),
        version: dotted(facts.provider_version),
        domain: facts.domain.clone(),
        fabric: facts.fabric.clone(),
        address: shown(facts),
        caps: named(&[(true, "messages"), (facts.has_rma(), "rma"), (facts.has_multi_recv(), "multi-recv")]),
        mr_mode: named(&[
            (mr.local, "local"),
            (mr.virt_addr, "virt-addr"),
            (mr.allocated, "allocated"),
            (mr.prov_key, "prov-key"),
            (mr.endpoint, "endpoint"),
        ]),
        contexts: facts.tx_contexts.min(facts.rx_contexts).max(1),
        inject: facts.inject,
        progress: match facts.data_progress {
            FI_PROGRESS_AUTO => "auto",
            FI_PROGRESS_MANUAL => "manual",
            _ => "unknown",
        },
        score: entry.score,
        used,
        why,
    }
}
