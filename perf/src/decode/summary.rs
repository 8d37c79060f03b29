//! Summary of captures: messages by type, and operations that were still open at the end.

use std::collections::BTreeMap;

use ch3_shim::Mode;
use ch3_shim::pkt::{CookieLen, Packet};
use netmod_core::{ReqId, VcId};
use netmod_wrap::capture::record::{Record, What};
use serde::Serialize;

use super::packet::Described;

/// Open operations listed individually.
const LISTED: usize = 20;

/// Event that an open operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wait {
    /// RTS sent, no CTS received: the peer has posted no matching receive.
    Cts,
    /// RTS received: no receive of this process matches it.
    Match,
    /// CTS sent: no data received.
    Data,
    /// Synchronous eager message sent: not matched by the peer.
    SyncAck,
    /// Cancel request sent: no answer.
    CancelResp,
}

impl Wait {
    fn text(self) -> &'static str {
        match self {
            Wait::Cts => "sent Rts, received no Cts: the peer has posted no matching receive",
            Wait::Match => "received Rts, sent no Cts: this rank has posted no matching receive",
            Wait::Data => "sent Cts, received no RndvData",
            Wait::SyncAck => "sent a synchronous message that the peer has not matched",
            Wait::CancelResp => "sent CancelReq, received no answer",
        }
    }
}

/// An operation that is open at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Open {
    pub(crate) rank: u32,
    pub(crate) peer: u32,
    pub(crate) wait: Wait,
    /// The waiting request, as in the packets.
    pub(crate) req: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Time of its begin, in nanoseconds since 1970.
    pub(crate) since_ns: u64,
}

/// Frames of one type in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) payload_sent: u64,
    pub(crate) payload_received: u64,
}

/// Frames that one rank has sent and the other's capture does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Missing {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: String,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Sends of all types between these ranks that were cancelled before they left.
    pub(crate) taken_back: u64,
}

/// Collects the summary from records in order of time.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    counts: BTreeMap<String, Count>,
    open: BTreeMap<(u32, VcId, Wait, u64), Open>,
    /// Numbers of frames sent and received, by (from, to, kind).
    flows: BTreeMap<(u32, u32, String), [u64; 2]>,
    /// Sends cancelled before they left, by (from, to).
    taken_back: BTreeMap<(u32, u32), u64>,
    failed: Vec<(u32, u32, String)>,
    failures: u64,
}

/// The finished summary.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) records: u64,
    pub(crate) types: BTreeMap<String, Count>,
    pub(crate) open: Vec<Open>,
    pub(crate) missing: Vec<Missing>,
    /// Failed VCs: rank, peer, cause; the first ones.
    pub(crate) failed: Vec<(u32, u32, String)>,
    pub(crate) failures: u64,
    /// Descriptions of unreadable parts.
    pub(crate) damage: Vec<String>,
}

impl Collector {
    /// Adds the next record.
    pub(crate) fn add(&mut self, nanos: u64, r: &Record, d: &Described) {
        let sent = r.what == What::Sent;
        if r.header.is_some() {
            let c = self.counts.entry(d.kind.clone()).or_default();
            let (n, bytes) = if sent {
                (&mut c.sent, &mut c.payload_sent)
            } else {
                (&mut c.received, &mut c.payload_received)
            };
            *n += 1;
            *bytes = bytes.saturating_add(r.payload_len);
            let (from, to) = if sent { (r.rank, r.peer) } else { (r.peer, r.rank) };
            self.flows.entry((from, to, d.kind.clone())).or_default()[usize::from(!sent)] += 1;
        }
        match r.what {
            What::Down => {
                self.failures += 1;
                if self.failed.len() < LISTED {
                    self.failed.push((r.rank, r.peer, String::from_utf8_lossy(&r.data).into_owned()));
                }
                self.forget(r);
            }
            What::Terminated => self.forget(r),
            What::Cancelled => {
                *self.taken_back.entry((r.rank, r.peer)).or_default() += 1;
                let req = String::from_utf8_lossy(&r.data);
                self.open.retain(|(rank, vc, ..), o| (*rank, *vc) != (r.rank, r.vc) || o.req != req);
            }
            _ => {}
        }
        if let Some(p) = &d.packet {
            self.follow(nanos, r, sent, p);
        }
    }

    /// Removes all open operations of this VC.
    fn forget(&mut self, r: &Record) {
        self.open.retain(|(rank, vc, ..), _| (*rank, *vc) != (r.rank, r.vc));
    }

    fn begin(&mut self, nanos: u64, r: &Record, wait: Wait, req: u64, tag: Option<i32>, bytes: Option<u64>) {
        let name = ReqId::from_wire(req).to_string();
        let open = Open { rank: r.rank, peer: r.peer, wait, req: name, tag, bytes, since_ns: nanos };
        self.open.insert((r.rank, r.vc, wait, req), open);
    }

    fn end(&mut self, r: &Record, wait: Wait, req: u64) -> Option<Open> {
        self.open.remove(&(r.rank, r.vc, wait, req))
    }

    fn follow(&mut self, nanos: u64, r: &Record, sent: bool, p: &Packet) {
        match *p {
            Packet::Rts { env, sreq, data_sz, .. } => {
                let wait = if sent { Wait::Cts } else { Wait::Match };
                self.begin(nanos, r, wait, sreq, Some(env.tag()), Some(data_sz));
            }
            Packet::Cts { sreq, rreq, data_sz, cookie_len } => {
                let rts = self.end(r, if sent { Wait::Match } else { Wait::Cts }, sreq);
                // With a cookie the data does not travel in packets.
                if sent && cookie_len == CookieLen::NONE {
                    self.begin(nanos, r, Wait::Data, rreq, rts.and_then(|o| o.tag), Some(data_sz));
                }
            }
            Packet::RndvData { rreq, .. } if !sent => _ = self.end(r, Wait::Data, rreq),
            Packet::Eager { env, mode: Mode::Sync, len, sreq, .. } if sent => {
                self.begin(nanos, r, Wait::SyncAck, sreq, Some(env.tag()), Some(len.into()));
            }
            Packet::EagerSyncAck { sreq } if !sent => _ = self.end(r, Wait::SyncAck, sreq),
            Packet::CancelReq { env, sreq } if sent => {
                self.begin(nanos, r, Wait::CancelResp, sreq, Some(env.tag()), None);
            }
            Packet::CancelResp { sreq, ack } => {
                if sent && ack {
                    self.end(r, Wait::Match, sreq);
                } else if !sent {
                    self.end(r, Wait::CancelResp, sreq);
                    if ack {
                        self.end(r, Wait::Cts, sreq);
                        self.end(r, Wait::SyncAck, sreq);
                    }
                }
            }
            _ => {}
        }
    }

    /// Finishes the summary. `ranks` are the ranks whose captures were read; `one_job` is true if
    /// they are of one job.
    pub(crate) fn finish(self, records: u64, ranks: &[u32], one_job: bool, damage: Vec<String>) -> Summary {
        let read = |rank: u32| ranks.contains(&rank);
        // A cancelled send counts as sent, and its type is unknown. Control frames of netmods are
        // recorded only by their receiver.
        let mut differ: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for ((from, to, _), [sent, received]) in self.flows.iter().filter(|((.., kind), _)| kind != "control")
        {
            *differ.entry((*from, *to)).or_default() += sent.abs_diff(*received);
        }
        let explained = |from, to| differ.get(&(from, to)) == self.taken_back.get(&(from, to));
        let missing = self.flows.iter().filter(|((from, to, kind), _)| {
            one_job && kind != "control" && read(*from) && read(*to) && !explained(*from, *to)
        });
        let missing = missing.filter(|(_, [sent, received])| sent != received);
        Summary {
            records,
            types: self.counts,
            open: self.open.into_values().collect(),
            missing: missing
                .map(|((from, to, kind), [sent, received])| Missing {
                    from: *from,
                    to: *to,
                    kind: kind.clone(),
                    sent: *sent,
                    received: *received,
                    taken_back: self.taken_back.get(&(*from, *to)).copied().unwrap_or(0),
                })
                .collect(),
            failed: self.failed,
            failures: self.failures,
            damage,
        }
    }
}

impl Summary {
    /// Formats the summary as text.
    pub(crate) fn text(&self, start: u64) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        let _ = writeln!(out, "{} records", self.records);
        for (kind, c) in &self.types {
            let _ = writeln!(
                out,
                "  {kind:<13} {:>9} sent ({} bytes of payload), {:>9} received ({})",
                c.sent, c.payload_sent, c.received, c.payload_received
            );
        }
        if self.open.is_empty() {
            let _ = writeln!(out, "no operation was left open");
        } else {
            let _ = writeln!(out, "open at the end: {}", self.open.len());
        }
        for o in self.open.iter().take(LISTED) {
            let tag = o.tag.map_or_else(String::new, |t| format!(", tag {t}"));
            let bytes = o.bytes.map_or_else(String::new, |b| format!(", {b} bytes"));
            let since = o.since_ns.saturating_sub(start) as f64 / 1e9;
            let _ = writeln!(
                out,
                "  rank {} with rank {}: {} (request {}{tag}{bytes}, since {since:.6})",
                o.rank,
                o.peer,
                o.wait.text(),
                o.req
            );
        }
        for m in self.missing.iter().take(LISTED) {
            let back = match m.taken_back {
                0 => String::new(),
                n => format!(" ({n} sends of any type were cancelled before they left)"),
            };
            let _ = writeln!(
                out,
                "  rank {} sent {} {} to rank {}, which received {}: in transit, held back, or lost{back}",
                m.from, m.sent, m.kind, m.to, m.received
            );
        }
        let more = self.open.len().saturating_sub(LISTED) + self.missing.len().saturating_sub(LISTED);
        if more > 0 {
            let _ = writeln!(out, "  and {more} more");
        }
        for (rank, peer, why) in &self.failed {
            let _ = writeln!(out, "failed: rank {rank} with rank {peer}: {}", why.escape_debug());
        }
        for line in &self.damage {
            let _ = writeln!(out, "unreadable: {line}");
        }
        out
    }
}
