//! The state of a device, for people and programs that ask why a job does not go on.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// Entries that each list of a report has at most; the counts beside it are of all.
pub const LISTED: usize = 16;

/// A report of a device on itself ([`crate::Vci::status`]). Counts are complete; lists hold the
/// most telling entries, at most [`LISTED`] of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Its rank in the job.
    pub rank: u32,
    /// Processes of the job.
    pub size: u32,
    /// The job, as in the names of captures and sockets.
    pub job: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it was made.
    pub age: f64,
    /// Activity: `blocked`, `polled`, or how far it has left the job.
    pub activity: String,
    /// The netmods, in order of preference.
    pub netmods: Vec<String>,
    /// Interfaces that each of them has opened, or the reason for none.
    pub opened: Vec<String>,
    /// Processes that share this one's cores, and the effect on waits.
    #[serde(default)]
    pub cores: String,
    /// Settings that are not the default: name, value, origin.
    pub settings: Vec<(String, String, String)>,
    /// VCs by the state of their close protocol; `down` are those that failed.
    pub vc_states: BTreeMap<String, usize>,
    /// VCs, those that failed first, then those of which the most requests wait.
    pub vcs: Vec<VcStatus>,
    /// Receives that wait for a message.
    pub posted: usize,
    /// Messages that wait for a receive.
    pub unexpected: usize,
    /// Bytes of memory that these hold.
    pub unexpected_bytes: u64,
    /// Most messages that were waiting at once.
    pub unexpected_high: u64,
    /// Unexpected messages, the oldest first.
    pub unexpected_list: Vec<UnexpectedStatus>,
    /// Requests under way, by what they wait for.
    pub waits: BTreeMap<String, usize>,
    /// Requests that are finished and were not waited for yet.
    pub unclaimed: usize,
    /// Requests under way, the oldest first.
    pub requests: Vec<RequestStatus>,
}

/// A VC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VcStatus {
    /// The peer's rank in its group.
    pub peer: u32,
    /// State in the close protocol.
    pub state: String,
    /// Cause if it is down.
    pub down: Option<String>,
    /// Reasons for its netmod and against the others.
    pub choice: String,
    /// Connection and queue, as the netmod describes them.
    pub netmod: String,
    /// Requests that are bound to it.
    pub requests: usize,
    /// Bytes that may still be sent eagerly, and sends that wait for room at the peer.
    pub credit: u64,
    /// Sends that wait for room at the peer.
    pub stalled: usize,
    /// Messages sent and received.
    pub messages: [u64; 2],
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Recent speed of large messages from it, for the lengths at which two modes were tried.
    #[serde(default)]
    pub large: Vec<LargeStatus>,
    /// Reason for which large messages do not move as `NETMOD_LMT` says.
    #[serde(default)]
    pub lmt: Option<String>,
}

/// Speed of large messages of about one length in either mode within a node, see
/// [`netmod_lmt::autotune`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LargeStatus {
    /// Their length.
    pub len: u64,
    /// MB/s through a ring (the Cooperative mode).
    pub ring: u64,
    /// MB/s by the kernel (Get).
    pub kernel: u64,
}

/// An unexpected message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnexpectedStatus {
    /// The sender's rank.
    pub source: i32,
    /// Its tag.
    pub tag: i32,
    /// The context id.
    pub context: u32,
    /// Its length.
    pub bytes: u64,
    /// `here`, `arriving`, or `announced` (rendezvous: its data is still with the sender).
    pub body: String,
    /// Seconds since it came.
    pub age: f64,
}

/// A request under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestStatus {
    /// Its handle, as captures show it.
    pub id: String,
    /// `send` or `receive`.
    pub kind: String,
    /// Event that it waits for.
    pub waits_for: String,
    /// The other rank; `None` if any source will do.
    pub peer: Option<u32>,
    /// The tag; `None` if any will do, or if there is none.
    pub tag: Option<i32>,
    /// The context id.
    pub context: u32,
    /// Bytes that have moved.
    pub moved: u64,
    /// Bytes of the buffer or message.
    pub bytes: u64,
    /// Seconds since it was made.
    pub age: f64,
}

/// Text from elsewhere, fit for a terminal.
fn clean(text: &str) -> String {
    text.escape_debug().to_string()
}

fn any<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "any".into(), |v| v.to_string())
}

impl RequestStatus {
    /// One line.
    pub fn line(&self) -> String {
        let (way, rank) =
            if self.kind == "receive" { ("from", any(self.peer)) } else { ("to", any(self.peer)) };
        format!(
            "{} {} {way} rank {rank}, tag {}, context {}, {} of {} bytes, for {:.1} s: waits for {}",
            clean(&self.kind),
            clean(&self.id),
            any(self.tag),
            self.context,
            self.moved,
            self.bytes,
            self.age,
            clean(&self.waits_for)
        )
    }
}

impl StatusReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "rank {} of {} in job {}, process {}, {:.1} s old: {}; netmods {}",
            self.rank,
            self.size,
            clean(&self.job),
            self.pid,
            self.age,
            clean(&self.activity),
            clean(&self.netmods.join(", "))
        );
        for (netmod, opened) in self.netmods.iter().zip(&self.opened) {
            let _ = writeln!(out, "  {}: {}", clean(netmod), clean(opened));
        }
        let _ = writeln!(out, "  cores: {}", clean(&self.cores));
        for (what, n) in &self.waits {
            let _ = writeln!(out, "  {n} requests wait for {}", clean(what));
        }
        for r in &self.requests {
            let _ = writeln!(out, "    {}", r.line());
        }
        let _ = writeln!(
            out,
            "  {} receives posted; {} unexpected messages of {} bytes, {} at most; {} results unclaimed",
            self.posted, self.unexpected, self.unexpected_bytes, self.unexpected_high, self.unclaimed
        );
        for u in &self.unexpected_list {
            let _ = writeln!(
                out,
                "    from rank {}, tag {}, context {}, {} bytes, {}, for {:.1} s",
                u.source,
                u.tag,
                u.context,
                u.bytes,
                clean(&u.body),
                u.age
            );
        }
        let states: Vec<String> = self.vc_states.iter().map(|(s, n)| format!("{n} {}", clean(s))).collect();
        let _ = writeln!(out, "  VCs: {}", if states.is_empty() { "none".into() } else { states.join(", ") });
        for v in &self.vcs {
            let down = v.down.as_ref().map_or_else(String::new, |d| format!(", DOWN: {}", clean(d)));
            let stalled = match v.stalled {
                0 => String::new(),
                n => format!(", {n} sends wait for room at the peer"),
            };
            let _ = writeln!(
                out,
                "    rank {}: {}{down}; {}; {} requests, {} bytes of credit{stalled}; chosen: {}",
                v.peer,
                clean(&v.state),
                clean(&v.netmod),
                v.requests,
                v.credit,
                clean(&v.choice)
            );
            if let Some(lmt) = &v.lmt {
                let _ = writeln!(out, "      {}", clean(lmt));
            }
            for LargeStatus { len, ring, kernel } in &v.large {
                let len = len >> 10;
                let _ = writeln!(
                    out,
                    "      from it, about {len} KiB at a time: {ring} MB/s through a ring, {kernel} by the kernel"
                );
            }
        }
        for (name, value, origin) in &self.settings {
            let _ = writeln!(out, "  {}={} ({})", clean(name), clean(value), clean(origin));
        }
        out
    }

    /// Returns the report as one line of JSON.
    pub fn json(&self) -> String {
        // Strings, numbers and maps with keys of text can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// In a few words, what this rank has in common with others that are stuck alike: no numbers,
    /// no ranks.
    pub fn signature(&self) -> String {
        let mut parts = vec![self.activity.clone()];
        parts.extend(self.waits.keys().map(|w| format!("waits for {w}")));
        if self.waits.is_empty() {
            parts.push("no request under way".into());
        }
        if self.unexpected > 0 {
            parts.push("has unexpected messages".into());
        }
        if self.vc_states.contains_key("down") {
            parts.push("has VCs that are down".into());
        }
        if self.vcs.iter().any(|v| v.stalled > 0) {
            parts.push("has sends without credit".into());
        }
        parts.join("; ")
    }
}
