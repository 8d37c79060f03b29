//! Formats the state of a job: ranks in the same state together, the smallest groups first.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::ask::{Answer, Name};

/// Ranks of a group shown with their requests.
const SHOWN: usize = 2;
/// Requests shown per rank.
const REQUESTS: usize = 4;

/// Formats ranks as `0-3,7`.
pub(crate) fn ranges(ranks: &[u32]) -> String {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut out = String::new();
    let mut at = 0;
    while at < sorted.len() {
        let first = sorted[at];
        while at + 1 < sorted.len() && sorted[at + 1] == sorted[at] + 1 {
            at += 1;
        }
        let between = if out.is_empty() { "" } else { "," };
        let _ = match sorted[at] - first {
            0 => write!(out, "{between}{first}"),
            _ => write!(out, "{between}{first}-{}", sorted[at]),
        };
        at += 1;
    }
    out
}

fn state(letter: char) -> &'static str {
    match letter {
        'R' => "runs: it computes, or hangs outside the library",
        'S' => "sleeps outside the library",
        'D' => "sleeps and cannot be woken: it waits for a disk or a file system",
        'T' | 't' => "is stopped (signal or debugger)",
        _ => "is in an unknown state",
    }
}

/// Returns the state by which ranks are grouped.
fn signature(answer: &Answer) -> String {
    match answer {
        Answer::Report(r) => r.signature(),
        Answer::Silent { state: s, .. } => format!("does not answer; its process {} ({s})", state(*s)),
        Answer::Denied => "permission denied: it belongs to another user".into(),
        Answer::Gone => "its process has ended without leaving the job".into(),
        Answer::Nonsense(_) => "answers, but not with a report".into(),
    }
}

/// Formats the details of one rank.
fn details(name: &Name, answer: &Answer) -> String {
    let mut out = String::new();
    match answer {
        Answer::Report(r) => {
            for q in r.requests.iter().take(REQUESTS) {
                let _ = writeln!(out, "    rank {}: {}", name.rank, q.line());
            }
            for v in r.vcs.iter().filter(|v| v.down.is_some()).take(REQUESTS) {
                let why = v.down.as_deref().unwrap_or_default().escape_debug();
                let _ = writeln!(out, "    rank {}: the VC with rank {} is down: {why}", name.rank, v.peer);
            }
        }
        Answer::Silent { wchan, .. } if !wchan.is_empty() => {
            let _ =
                writeln!(out, "    rank {}: process {} is in {}", name.rank, name.pid, wchan.escape_debug());
        }
        Answer::Silent { .. } | Answer::Denied | Answer::Gone => {
            let _ = writeln!(out, "    rank {}: process {}", name.rank, name.pid);
        }
        Answer::Nonsense(why) => {
            let _ = writeln!(out, "    rank {}: {}", name.rank, why.escape_debug());
        }
    }
    out
}

/// Formats all jobs as text.
pub(crate) fn text(answers: &[(Name, Answer)]) -> String {
    let mut out = String::new();
    let mut jobs: BTreeMap<&str, Vec<&(Name, Answer)>> = BTreeMap::new();
    for a in answers {
        jobs.entry(&a.0.job).or_default().push(a);
    }
    for (job, answers) in jobs {
        let reports = answers.iter().filter(|(_, a)| matches!(a, Answer::Report(_))).count();
        let size = answers.iter().find_map(|(_, a)| match a {
            Answer::Report(r) => Some(r.size),
            _ => None,
        });
        let of = size.map_or_else(String::new, |n| format!(" of {n}"));
        let _ =
            writeln!(out, "job {}: {}{of} ranks here, {reports} answer", job.escape_debug(), answers.len());
        let mut groups: BTreeMap<String, Vec<&(Name, Answer)>> = BTreeMap::new();
        for a in answers {
            groups.entry(signature(&a.1)).or_default().push(a);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, members)| members.len());
        for (what, members) in groups {
            let ranks: Vec<u32> = members.iter().map(|(n, _)| n.rank).collect();
            let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
            let _ = writeln!(out, "  {} {noun} ({}): {}", ranks.len(), ranges(&ranks), what.escape_debug());
            for (name, answer) in members.into_iter().take(SHOWN) {
                out.push_str(&details(name, answer));
            }
        }
    }
    out
}

/// Returns the JSON object of one rank.
pub(crate) fn as_json(name: &Name, answer: &Answer) -> Value {
    let mut out = json!({ "job": name.job, "rank": name.rank, "pid": name.pid });
    let (key, value) = match answer {
        Answer::Report(r) => ("report", json!(r)),
        Answer::Silent { state, wchan } => ("silent", json!({ "state": state.to_string(), "wchan": wchan })),
        Answer::Denied => ("denied", json!(true)),
        Answer::Gone => ("gone", json!(true)),
        Answer::Nonsense(why) => ("nonsense", json!(why)),
    };
    out[key] = value;
    out
}
