//! Pairs this host's interfaces with themselves, or with those of another host from its exported
//! record.

use std::fmt::Write as _;
use std::path::Path;

use ch3_shim::Config;
use netmod_matching::{Filter, Host, Location, Omitted, Rules};
use netmod_nics::{Found, Lookups};
use serde_json::{Value, json};

use super::file::SideFile;
use super::outcome::Outcome;
use crate::cli::PairingArgs;
use crate::error::{During, Failure, Result};

/// Knowledge about this host.
struct Here {
    all: Vec<String>,
    host: Host,
    omitted: Vec<Omitted>,
    notes: Vec<String>,
}

impl Here {
    fn look(filter: Filter) -> Result<Here> {
        let mut found = Found::here().map_err(|e| Failure::new(e.to_string()))?;
        let mut lookups = Lookups::here();
        found.host.ask(&mut lookups);
        let published = Rules { filter, ..Rules::default() }.publish(&found.host);
        let mut notes = found.notes;
        notes.extend_from_slice(lookups.notes());
        Ok(Here {
            all: found.host.nics.into_iter().map(|n| n.name).collect(),
            host: published.host,
            omitted: published.omitted,
            notes,
        })
    }
}

/// Exports the record, or pairs and explains.
///
/// # Errors
/// What could not be found, read or written.
pub(crate) fn run(args: &PairingArgs) -> Result<()> {
    let filter = match &args.interfaces {
        Some(filter) => filter.clone(),
        None => {
            let config = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
            config.tcp.interface.parse().map_err(|e| Failure::new(format!("NETMOD_TCP_INTERFACE: {e}")))?
        }
    };
    let here = Here::look(filter)?;
    match (&args.export, &args.peer) {
        (Some(path), _) => export(&here, path),
        (None, Some(path)) => with_peer(args, here, path),
        (None, None) => with_itself(args, here),
    }
}

fn rules(args: &PairingArgs) -> Rules {
    Rules::of_stream()
        .with_speed_ratio(args.speed_ratio.unwrap_or(0))
        .with_max_rails(args.max_rails.unwrap_or(0))
}

fn export(here: &Here, path: &Path) -> Result<()> {
    let text = toml::to_string(&SideFile::of(&here.host)).during("write the record as TOML")?;
    std::fs::write(path, text).during(format!("write {}", path.display()))?;
    crate::emit(&format!(
        "wrote {} interfaces to {file}; on another host: netmod-perf pair --peer {file}\n",
        here.host.nics.len(),
        file = path.display()
    ))
}

fn with_itself(args: &PairingArgs, mut here: Here) -> Result<()> {
    if !here.host.location.is_same(&here.host.location) {
        // The host is the same even if the kernel does not tell its identity.
        here.host.location = Location { boot: *b"this very host!!", netns: 1 };
        here.notes.push(
            "kernel or network namespace is unknown: processes of this host treat each other as remote"
                .into(),
        );
    }
    let outcome = Outcome::new(&here.host, &here.host, &rules(args))?;
    let all = here.all.clone();
    show(args, &here, &outcome, "this host with itself, as two processes on it pair", all, &[])
}

fn with_peer(args: &PairingArgs, here: Here, path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).during(format!("read {name}"))?;
    let file: SideFile = toml::from_str(&text).during(format!("read the record {name}"))?;
    let peer = file.published(&name)?;
    let outcome = Outcome::new(&here.host, &peer, &rules(args))?;
    let tables = |host: &Host| match &host.reach {
        Some(reach) => format!("{} answers", reach.len()),
        None => "not asked".to_owned(),
    };
    let notes = vec![format!("routing tables: here {}, the peer's {}", tables(&here.host), tables(&peer))];
    let all = file.nics.iter().map(|n| n.name.clone()).collect();
    show(args, &here, &outcome, &format!("this host with {name}"), all, &notes)
}

fn show(
    args: &PairingArgs,
    here: &Here,
    outcome: &Outcome,
    title: &str,
    peers: Vec<String>,
    notes: &[String],
) -> Result<()> {
    let notes: Vec<&String> = here.notes.iter().chain(notes).collect();
    let omitted = here.omitted.iter();
    if args.json {
        let mut out = outcome.json([here.all.clone(), peers]);
        if let Value::Object(map) = &mut out {
            let omitted: Vec<_> = omitted
                .map(|o| json!({ "nic": o.nic, "address": o.address.map(|a| a.ip.to_string()), "why": o.why.to_string() }))
                .collect();
            map.insert("left_out".into(), json!(omitted));
            map.insert("notes".into(), json!(notes));
        }
        return crate::emit(&format!("{out}\n"));
    }
    let mut text = format!("{title}\n\n{}", outcome.here.explain());
    for o in omitted {
        let address = o.address.map_or_else(String::new, |a| format!(" {}", a.ip));
        let _ = writeln!(text, "left out: {}{address}: {}", o.nic.escape_debug(), o.why);
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    crate::emit(&text)
}
