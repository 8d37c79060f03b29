//! `decode`: prints captures of one or several ranks, merged by time, and their summary.

mod packet;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;

use netmod_wrap::capture::pcapng::{Block, Blocks};
use netmod_wrap::capture::record::Record;
use serde_json::{Value, json};

use crate::cli::DecodeArgs;
use crate::error::{During, Failure, Result};
use packet::{Described, arrow, describe, hex};
use summary::{Collector, Summary};

/// Damaged parts reported individually per file.
const NAMED: usize = 5;

/// A record and the time at which it was written.
#[derive(Debug)]
struct Line {
    nanos: u64,
    record: Record,
}

/// Everything read from the files.
#[derive(Debug, Default)]
struct Input {
    lines: Vec<Line>,
    /// Comments of the sections, which identify the processes.
    jobs: BTreeSet<String>,
    damage: Vec<String>,
}

impl Input {
    /// Adds the records of a file, given its whole content.
    fn read(&mut self, name: &str, file: &[u8]) {
        let mut unreadable: Vec<String> = Vec::new();
        let mut number = 0u64;
        for block in Blocks::new(file) {
            match block {
                Block::Section { comment } => {
                    // "rank 3 of job 0123abcd, process 4711"
                    let job =
                        comment.and_then(|c| c.split(" of job ").nth(1)).and_then(|c| c.split(',').next());
                    self.jobs.extend(job.map(str::to_owned));
                }
                Block::Packet { nanos, data } => {
                    number += 1;
                    match Record::parse(data) {
                        Ok(record) => self.lines.push(Line { nanos, record }),
                        Err(e) => unreadable.push(format!("{name}: packet {number}: {e}")),
                    }
                }
                Block::Skipped { at, bytes } => {
                    unreadable
                        .push(format!("{name}: {bytes} bytes from byte {at} on are truncated or damaged"));
                }
                Block::Interface { .. } | Block::Other => {}
            }
        }
        if number == 0 && unreadable.is_empty() {
            unreadable.push(format!("{name}: no packets; was it written by NETMOD_CAPTURE?"));
        }
        let more = unreadable.len().saturating_sub(NAMED);
        unreadable.truncate(NAMED);
        self.damage.append(&mut unreadable);
        if more > 0 {
            self.damage.push(format!("{name}: {more} more damaged parts"));
        }
    }
}

/// Returns true if the filters of the command line select the record.
fn wanted(args: &DecodeArgs, record: &Record, what: &Described) -> bool {
    let is_event = record.header.is_none();
    let kind =
        |k: &String| k.eq_ignore_ascii_case(&what.kind) || (is_event && k.eq_ignore_ascii_case("event"));
    (args.rank.is_empty() || args.rank.contains(&record.rank))
        && (args.peer.is_empty() || args.peer.contains(&record.peer))
        && args.vc.is_none_or(|vc| record.vc.index() == vc as usize)
        && (args.kinds.is_empty() || args.kinds.iter().any(kind))
}

/// Formats a value for a line of text, without control characters: file content must not control
/// the terminal.
fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => s.escape_debug().to_string(),
        other => other.to_string(),
    }
}

fn text(line: &Line, d: &Described, start: u64) -> String {
    let r = &line.record;
    let mut out = format!(
        "{:>13.9}  {:>4} {} {:<4} {:>6}  {:<12}",
        line.nanos.saturating_sub(start) as f64 / 1e9,
        r.rank,
        arrow(r.what),
        r.peer,
        r.vc.to_string(),
        d.kind
    );
    for (name, value) in &d.fields {
        let _ = write!(out, " {name} {}", shown(value));
    }
    if r.header.is_some() && !r.data.is_empty() {
        let more = if (r.data.len() as u64) < r.payload_len { " .." } else { "" };
        let _ = write!(out, " | {}{more}", hex(&r.data));
    }
    out.push('\n');
    out
}

fn as_json(line: &Line, d: &Described) -> Value {
    let r = &line.record;
    let mut out = json!({
        "time_ns": line.nanos,
        "rank": r.rank,
        "peer": r.peer,
        "vc": r.vc.to_string(),
        "what": r.what.name(),
        "type": d.kind,
    });
    if let Value::Object(map) = &mut out {
        for (name, value) in &d.fields {
            map.insert((*name).to_owned(), value.clone());
        }
        if r.header.is_some() {
            map.insert("payload_len".into(), json!(r.payload_len));
            map.insert("payload".into(), json!(hex(&r.data)));
        }
    }
    out
}

/// Writes the selected lines. Returns the summary and the time that all times are relative to.
fn print(mut input: Input, args: &DecodeArgs, out: &mut impl Write) -> std::io::Result<(Summary, u64)> {
    // A stable sort keeps the order within each file.
    input.lines.sort_by_key(|l| l.nanos);
    let start = input.lines.first().map_or(0, |l| l.nanos);
    let mut collector = Collector::default();
    let mut ranks = BTreeSet::new();
    for line in &input.lines {
        let d = describe(&line.record);
        ranks.insert(line.record.rank);
        collector.add(line.nanos, &line.record, &d);
        if args.summary || !wanted(args, &line.record, &d) {
            continue;
        }
        if args.json {
            writeln!(out, "{}", as_json(line, &d))?;
        } else {
            out.write_all(text(line, &d, start).as_bytes())?;
        }
    }
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let summary = collector.finish(input.lines.len() as u64, &ranks, input.jobs.len() < 2, input.damage);
    Ok((summary, start))
}

/// Decodes files.
///
/// # Errors
/// If a file cannot be opened. Damage is reported in the summary.
pub(crate) fn run(args: &DecodeArgs) -> Result<()> {
    let mut input = Input::default();
    for path in &args.files {
        let file = std::fs::read(path).during(format!("read {}", path.display()))?;
        input.read(&name_of(path), &file);
    }
    let stdout = std::io::stdout();
    let mut out = BufWriter::new(stdout.lock());
    let written = print(input, args, &mut out).and_then(|(summary, start)| {
        if args.json {
            writeln!(out, "{}", json!({ "summary": summary }))?;
        } else {
            out.write_all(summary.text(start).as_bytes())?;
        }
        out.flush()
    });
    match written {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().escape_debug().to_string()
}
