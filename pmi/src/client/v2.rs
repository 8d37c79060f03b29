//! The PMI-2 dialect: the handshake, and the text of requests and replies.

use super::exchange::Exchange;
use super::{Job, Maxes};
use crate::PmiError;
use crate::wire::quote;

/// The fixed limits of PMI-2; no server announces any.
const MAXES: Maxes = Maxes { kvsname: 256, key: 64, value: 1024 };

/// Starts with PMI-1 lines and switches to frames.
///
/// `rank` and `size` are those of the environment; `job` is the value of `PMI_JOBID`, which Slurm
/// sets and Hydra does not.
pub(super) fn start(
    exchange: &mut Exchange,
    rank: u32,
    size: u32,
    job: Option<&str>,
) -> Result<Job, PmiError> {
    const INIT: &str = "starting PMI-2 (init)";
    const FULL: &str = "joining the job (fullinit)";
    const NAME: &str = "asking for the name of the job (job-getid)";
    let text = exchange.ask(INIT, "cmd=init pmi_version=2 pmi_subversion=0\n", "response_to_init")?;
    if exchange.parse(INIT, &text)?.get("pmi_version") != Some("2") {
        return Err(exchange.malformed(INIT, &text, "it does not speak PMI-2; set NETMOD_PMI=auto"));
    }
    exchange.accept(INIT, &text)?;
    exchange.use_frames();
    // An empty value is a fatal error in Hydra 5, so an unknown one is omitted.
    let job = job.map(|job| format!("pmijobid={job};")).unwrap_or_default();
    let ask = format!("cmd=fullinit;{job}pmirank={rank};threaded=FALSE;");
    let text = exchange.ask(FULL, &ask, "fullinit-response")?;
    exchange.accept(FULL, &text)?;
    let line = exchange.parse(FULL, &text)?;
    let position = (line.number::<u32>("rank"), line.number::<u32>("size"));
    if position != (Some(rank), Some(size)) {
        let why = format!("rank {rank} and size {size} are what the environment says");
        return Err(exchange.malformed(FULL, &text, why));
    }
    let appnum = line.number("appnum").unwrap_or(-1);
    let has_parent = line.get("spawner-jobid").is_some();
    let text = exchange.ask(NAME, "cmd=job-getid;", "job-getid-response")?;
    exchange.accept(NAME, &text)?;
    let name = exchange.parse(NAME, &text)?.get("jobid").unwrap_or_default().to_owned();
    if name.is_empty() || name.len() > 256 || name.contains([' ', ';', '=']) {
        return Err(exchange.malformed(NAME, &text, "there is no usable name"));
    }
    Ok(Job { name, appnum, maxes: MAXES, has_parent })
}

pub(super) fn put(key: &str, value: &str) -> String {
    format!("cmd=kvs-put;key={key};value={value};")
}

pub(super) fn get(job: &str, key: &str) -> String {
    format!("cmd=kvs-get;jobid={job};srcid=-1;key={key};")
}

/// Returns the value in the reply to [`get`].
pub(super) fn value_of(exchange: &mut Exchange, text: &[u8]) -> Result<Option<String>, PmiError> {
    lookup(exchange, "looking a value up (kvs-get)", text, "kvs-get-response")
}

pub(super) fn attribute(name: &str) -> String {
    format!("cmd=info-getjobattr;key={name};")
}

/// Returns the value in the reply to [`attribute`].
pub(super) fn attribute_of(exchange: &mut Exchange, text: &[u8]) -> Result<Option<String>, PmiError> {
    lookup(exchange, "asking about the job (info-getjobattr)", text, "info-getjobattr-response")
}

fn lookup(
    exchange: &mut Exchange,
    doing: &'static str,
    text: &[u8],
    reply: &str,
) -> Result<Option<String>, PmiError> {
    exchange.expect(doing, text, reply)?;
    let line = exchange.parse(doing, text)?;
    // A missing key is `found=FALSE rc=0` in Hydra 4 and Slurm; Hydra 5 replies rc=1 without
    // `found`.
    match (line.number::<i64>("rc"), line.get("found"), line.get("value")) {
        (Some(0), Some("TRUE") | None, Some(value)) => Ok(Some(value.to_owned())),
        (Some(0), Some("FALSE"), _) => Ok(None),
        (Some(rc), None, _) if rc != 0 => Ok(None),
        (Some(rc), Some(_), _) if rc != 0 => Err(PmiError::Refused { doing, line: quote(text) }),
        (None, ..) => Err(exchange.malformed(doing, text, "there is no rc=number")),
        _ => Err(exchange.malformed(doing, text, "it has neither a value nor found=FALSE")),
    }
}
