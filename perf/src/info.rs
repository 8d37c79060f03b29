//! `info`: what this machine offers, the configuration, and limits that are too low. [`messages`]
//! explains the modes of messages, [`providers`] lists libfabric's providers, [`registered`] the
//! netmods that running programs have registered.

mod messages;
mod providers;
mod registered;

use std::ffi::CStr;
use std::fs;

use ch3_shim::Config;
use netmod_core::{Diagnose, GroupId, Module, PeerName, Pollers};
use netmod_shm::ShmNetmod;
use netmod_tcp::TcpNetmod;
use serde::Serialize;

use crate::cli::InfoArgs;
use crate::error::Result;
use crate::launch::NETMODS;
use crate::report::{grouped, line, plain_table};
use crate::sys::{self, Limit};

/// Descriptors that a process needs beside its connections: standard streams, listener, epoll,
/// launcher.
const OTHER_DESCRIPTORS: u64 = 16;
/// Number of peers of an ordinary job.
const MANY_PEERS: u64 = 4096;

/// A line of the report; the field `info` names its type.
#[derive(Debug, Serialize)]
#[serde(tag = "info", rename_all = "lowercase")]
enum Item {
    Netmod {
        name: String,
        usable: bool,
        detail: String,
        addresses: Vec<String>,
    },
    /// Mode of messages of these sizes.
    Lmt(messages::Line),
    /// A domain of a provider of libfabric.
    Offer(providers::Line),
    /// A known defect of the provider in use.
    Defect(providers::Known),
    Variable {
        name: &'static str,
        value: String,
        origin: String,
        default: String,
        meaning: &'static str,
        accepts: String,
    },
    Limit {
        name: &'static str,
        value: String,
        meaning: String,
        bites: bool,
    },
    Warning {
        text: String,
    },
}

/// Prints the report.
///
/// # Errors
/// If a configuration variable has an invalid value; the rest is printed all the same.
pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let (items, broken) = gather();
    let text = if args.json { items.iter().map(line).collect() } else { text(&items) };
    crate::emit(&text)?;
    match broken {
        Some(why) => Err(crate::error::Failure::new(why)),
        None => Ok(()),
    }
}

/// Collects all lines, and the first error of the configuration.
fn gather() -> (Vec<Item>, Option<String>) {
    let mut items = Vec::new();
    let (cfg, warnings, broken) = match Config::from_env() {
        Ok(cfg) => {
            let warnings = cfg.warnings().iter().map(ToString::to_string).collect();
            (cfg, warnings, None)
        }
        Err(e) => (Config::default(), vec![format!("{e}; the defaults follow")], Some(e.to_string())),
    };
    netmods(&cfg, &mut items);
    let (rows, warning) = messages::table(&cfg);
    items.extend(rows.into_iter().map(Item::Lmt));
    items.extend(warning.map(|text| Item::Warning { text }));
    limits(&mut items);
    items.extend(cfg.entries().map(|e| Item::Variable {
        name: e.name,
        value: e.value,
        origin: e.origin.to_string(),
        default: e.default,
        meaning: e.meaning,
        accepts: e.kind.to_string(),
    }));
    items.extend(warnings.into_iter().map(|text| Item::Warning { text }));
    (items, broken)
}

fn netmods(cfg: &Config, items: &mut Vec<Item>) {
    let known = NETMODS.iter().map(ToString::to_string);
    let mut offers = Vec::new();
    let unknown = cfg.netmods.iter().filter(|n| !NETMODS.contains(&n.as_str())).cloned();
    for name in known.chain(unknown) {
        let allowed = cfg.netmods.contains(&name);
        let (usable, detail, addresses) = match name.as_str() {
            netmod_tcp::NAME => tcp(cfg),
            netmod_shm::NAME => shm(cfg),
            netmod_ofi::NAME => {
                let r = providers::report(cfg);
                offers.extend(r.lines.into_iter().map(Item::Offer));
                offers.extend(r.known.into_iter().map(Item::Defect));
                offers.extend(r.notes.into_iter().map(|text| Item::Warning { text }));
                (r.usable, r.detail, r.addresses)
            }
            netmod_verbs::NAME => verbs(cfg, &mut offers),
            _ => (
                false,
                format!(
                    "not built in, but named by NETMOD: a program may register it (Builder::register); built in are {}",
                    NETMODS.join(", ")
                ),
                Vec::new(),
            ),
        };
        let detail = if usable && !allowed {
            format!("{detail}; but NETMOD={} excludes it", cfg.netmods.join(","))
        } else {
            detail
        };
        items.push(Item::Netmod { name, usable: usable && allowed, detail, addresses });
    }
    items.append(&mut offers);
    registered::report(cfg, items);
}

/// Tests shared memory between the ranks of this node. Returns whether it works, its memory, and
/// notes.
fn shm(cfg: &Config) -> (bool, String, Vec<String>) {
    // A job of its own; dropping the netmod frees its memory.
    let mut group = GroupId::default();
    group.0[..4].copy_from_slice(&std::process::id().to_le_bytes());
    let mut netmod = ShmNetmod::new(&cfg.shm, PeerName { group, rank: 0 }, 2, 2, None, Pollers::UNKNOWN);
    // All ranks are attached: unlinks the memory's name.
    if let Err(e) = netmod.join_job([0; 32], Pollers::UNKNOWN) {
        return (false, e.to_string(), Vec::new());
    }
    if let Some(why) = netmod.failure() {
        return (false, why.to_owned(), Vec::new());
    }
    let each = |ranks| match netmod_shm::segment_bytes(ranks) {
        Some(bytes) => format!("{} KiB per rank with {ranks} ranks", bytes / ranks as usize / 1024),
        None => format!("none with {ranks} ranks"),
    };
    let attach = match netmod_shm::attach_here() {
        Ok(()) => "put and get by cross-memory attach".to_owned(),
        Err(why) => format!("no put and get: {why}"),
    };
    (true, format!("memory in {}: {}, {}; {attach}", cfg.shm.dir, each(2), each(32)), Vec::new())
}

/// Opens the TCP netmod. Returns whether that works, and the addresses that it would publish.
fn tcp(cfg: &Config) -> (bool, String, Vec<String>) {
    let me = PeerName { group: GroupId::default(), rank: 0 };
    match TcpNetmod::new(cfg.tcp.clone(), me, 1) {
        Ok(mut netmod) => {
            let addresses: Vec<String> = netmod.addresses().iter().map(|a| a.ip().to_string()).collect();
            let mut core = netmod_core::Core::new(1);
            netmod.finalize(&mut core, netmod_core::Time::ZERO);
            (true, format!("listens on {} addresses", addresses.len()), addresses)
        }
        Err(e) => (false, e.to_string(), Vec::new()),
    }
}

/// Lists the ports of verbs and the GID that would be used of each, or the reason why none is
/// usable.
fn verbs(cfg: &Config, notes: &mut Vec<Item>) -> (bool, String, Vec<String>) {
    let (ports, failed) = match netmod_verbs::survey(&netmod_verbs::Setup::here(&cfg.verbs)) {
        Ok(found) => found,
        Err(why) => return (false, why.to_string(), Vec::new()),
    };
    let mut addresses = Vec::new();
    let mut used = Vec::new();
    notes.extend(failed.into_iter().map(|text| Item::Warning { text }));
    for port in &ports {
        match &port.gid {
            Ok((gid, why)) => {
                used.push(format!("{} ({why})", port.name()));
                addresses.push(gid.gid.to_string());
            }
            Err(why) => notes.push(Item::Warning { text: format!("verbs: {}: {why}", port.name()) }),
        }
    }
    if used.is_empty() {
        return (false, "no usable port of verbs; the warnings say why".into(), addresses);
    }
    let xrc = if cfg.verbs.xrc { "on" } else { "off" };
    let text = format!("{}; XRC is {xrc}; it has been tested on simulated devices only", used.join(", "));
    (true, text, addresses)
}

/// Reads a file of the kernel.
fn kernel(path: &str) -> std::result::Result<String, String> {
    fs::read_to_string(path)
        .map(|t| t.split_whitespace().collect::<Vec<_>>().join(" "))
        .map_err(|e| format!("{path}: {e}"))
}

fn count(v: Option<u64>) -> String {
    v.map_or_else(|| "unlimited".into(), |v| grouped(v as f64))
}

fn bytes(v: Option<u64>) -> String {
    match v {
        None => "unlimited".into(),
        Some(v) if v >= 1 << 30 => format!("{:.1} GiB", v as f64 / f64::from(1 << 30)),
        Some(v) if v >= 1 << 20 => format!("{:.1} MiB", v as f64 / f64::from(1 << 20)),
        Some(v) => format!("{} KiB", v >> 10),
    }
}

fn both(limit: Limit, show: impl Fn(Option<u64>) -> String) -> String {
    format!("{} (can be raised to {})", show(limit.soft), show(limit.hard))
}

fn limits(items: &mut Vec<Item>) {
    let mut add = |name, value: std::result::Result<(String, String, bool), String>| {
        items.push(match value {
            Ok((value, meaning, bites)) => Item::Limit { name, value, meaning, bites },
            Err(why) => Item::Limit { name, value: "unknown".into(), meaning: why, bites: false },
        });
    };
    let cores = sys::allowed_cores().map(|c| c.len());
    let online = kernel("/sys/devices/system/cpu/online").unwrap_or_else(|_| "?".into());
    add(
        "cores",
        cores
            .map(|n| {
                (
                    format!("{n} (online: {online})"),
                    "with more ranks than cores on this node, waiting ranks soon block instead of spinning"
                        .into(),
                    n < 2,
                )
            })
            .map_err(|e| e.to_string()),
    );
    add(
        "descriptors",
        sys::descriptor_limit().map_err(|e| e.to_string()).map(|l| {
            let peers = l.soft.map(|s| s.saturating_sub(OTHER_DESCRIPTORS));
            let meaning = format!(
                "one per connected peer: at most {} peers per process; raise with ulimit -n",
                count(peers)
            );
            (both(l, count), meaning, peers.is_some_and(|p| p < MANY_PEERS))
        }),
    );
    add(
        "memlock",
        sys::memlock_limit().map_err(|e| e.to_string()).map(|l| {
            (both(l, bytes), "memory that may be registered with a network adapter (not needed for tcp); raise with ulimit -l".into(), l.soft.is_some_and(|s| s < 64 << 20))
        }),
    );
    const SHM: &CStr = c"/dev/shm";
    add(
        "/dev/shm",
        sys::file_system(SHM).map_err(|e| format!("{e}; is it mounted?")).map(|(size, free)| {
            (
                format!("{}, {} free", bytes(Some(size)), bytes(Some(free))),
                "room for shared memory (not needed for tcp)".into(),
                free < 64 << 20,
            )
        }),
    );
    add(
        "somaxconn",
        kernel("/proc/sys/net/core/somaxconn").map(|v| {
            let n: u64 = v.parse().unwrap_or(0);
            (v, "connections that may wait to be accepted; with fewer than ranks, a burst of connects is retried".into(), n < 1024)
        }),
    );
    add(
        "local ports",
        kernel("/proc/sys/net/ipv4/ip_local_port_range").map(|v| {
            let ends: Vec<u64> = v.split(' ').filter_map(|e| e.parse().ok()).collect();
            let n = if let [a, b] = ends[..] { (b + 1).saturating_sub(a) } else { 0 };
            (
                v,
                format!(
                    "{} ports: that many connections at once to one address (net.ipv4.ip_local_port_range)",
                    grouped(n as f64)
                ),
                n < MANY_PEERS,
            )
        }),
    );
}

fn text(items: &[Item]) -> String {
    let mut netmods = plain_table(&["netmod", "usable", "why"]);
    let mut large = plain_table(&["netmod", "messages of", "data", "mode", "why"]);
    let mut offers =
        plain_table(&["libfabric", "domain", "address", "can", "registration", "contexts", "used", "why"]);
    let (mut any_offer, mut known) = (false, String::new());
    let mut limits = plain_table(&["limit", "value", "meaning"]);
    let mut variables = plain_table(&["variable", "value", "from", "default", "purpose"]);
    let mut remarks = String::new();
    for item in items {
        match item {
            Item::Netmod { name, usable, detail, addresses } => {
                let all = if addresses.is_empty() {
                    detail.clone()
                } else {
                    format!("{detail}: {}", addresses.join(", "))
                };
                netmods.add_row([name.clone(), if *usable { "yes" } else { "no" }.into(), all]);
            }
            Item::Lmt(l) => {
                large.add_row([l.netmod, l.sizes.as_str(), l.data, l.mode, l.why.as_str()]);
            }
            Item::Offer(o) => {
                any_offer = true;
                let used = if o.used { "yes" } else { "no" };
                let (can, mr) = (o.caps.join(" "), o.mr_mode.join(" "));
                let contexts = o.contexts.to_string();
                offers.add_row([&*o.provider, &o.domain, &o.address, &can, &mr, &contexts, used, &o.why]);
            }
            Item::Defect(d) => {
                known.push_str(&format!("known of {}: {}; {}\n", d.provider, d.what, d.remedy));
            }
            Item::Limit { name, value, meaning, bites } => {
                limits.add_row([
                    if *bites { format!("{name} (!)") } else { (*name).to_owned() },
                    value.clone(),
                    meaning.clone(),
                ]);
            }
            Item::Variable { name, value, origin, default, meaning, .. } => {
                let shown = |v: &str| if v.is_empty() { "(empty)".to_owned() } else { v.to_owned() };
                variables.add_row([
                    (*name).to_owned(),
                    shown(value),
                    origin.clone(),
                    shown(default),
                    (*meaning).to_owned(),
                ]);
            }
            Item::Warning { text } => remarks.push_str(&format!("warning: {text}\n")),
        }
    }
    let bites = items.iter().any(|i| matches!(i, Item::Limit { bites: true, .. }));
    let legend = if bites { "(!) this limit is low and may be reached\n" } else { "" };
    let offers = if any_offer { format!("{offers}\n{known}\n") } else { String::new() };
    format!("{netmods}\n\n{offers}{large}\n\n{limits}\n{legend}\n{variables}\n{remarks}")
}
