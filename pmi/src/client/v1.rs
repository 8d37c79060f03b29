//! The PMI-1 dialect: the handshake, and the text of requests and replies.

use super::exchange::Exchange;
use super::{Job, Maxes};
use crate::PmiError;

pub(super) fn start(exchange: &mut Exchange) -> Result<Job, PmiError> {
    const INIT: &str = "starting PMI (init)";
    const MAXES: &str = "asking for limits (get_maxes)";
    const APPNUM: &str = "asking for the application number (get_appnum)";
    const NAME: &str = "asking for the name of the job (get_my_kvsname)";
    let text = exchange.ask(INIT, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")?;
    exchange.accept(INIT, &text)?;
    // Hydra 5 replies with subversion 2; only version 1 matters.
    if exchange.parse(INIT, &text)?.get("pmi_version") != Some("1") {
        return Err(exchange.malformed(INIT, &text, "the version is not 1"));
    }
    let text = exchange.ask(MAXES, "cmd=get_maxes\n", "maxes")?;
    exchange.accept_if_told(MAXES, &text)?;
    let line = exchange.parse(MAXES, &text)?;
    let (Some(kvsname), Some(key), Some(value)) =
        (line.number("kvsname_max"), line.number("keylen_max"), line.number("vallen_max"))
    else {
        return Err(exchange.malformed(MAXES, &text, "a limit is missing"));
    };
    let maxes = Maxes { kvsname, key, value };
    let text = exchange.ask(APPNUM, "cmd=get_appnum\n", "appnum")?;
    exchange.accept_if_told(APPNUM, &text)?;
    let Some(appnum) = exchange.parse(APPNUM, &text)?.number("appnum") else {
        return Err(exchange.malformed(APPNUM, &text, "there is no number"));
    };
    let text = exchange.ask(NAME, "cmd=get_my_kvsname\n", "my_kvsname")?;
    exchange.accept_if_told(NAME, &text)?;
    let name = exchange.parse(NAME, &text)?.get("kvsname").unwrap_or_default().to_owned();
    if name.is_empty() || name.len() > 256 || name.contains([' ', '\t']) {
        return Err(exchange.malformed(NAME, &text, "there is no usable name"));
    }
    Ok(Job { name, appnum, maxes, has_parent: false })
}

/// Asks for the size of the universe. A negative one says that there is no limit.
pub(super) fn universe_size(exchange: &mut Exchange) -> Result<Option<u32>, PmiError> {
    const DOING: &str = "asking for the size of the universe (get_universe_size)";
    let text = exchange.ask(DOING, "cmd=get_universe_size\n", "universe_size")?;
    exchange.accept_if_told(DOING, &text)?;
    let Some(size) = exchange.parse(DOING, &text)?.number::<i64>("size") else {
        return Err(exchange.malformed(DOING, &text, "there is no size"));
    };
    Ok(u32::try_from(size).ok())
}

pub(super) fn put(job: &str, key: &str, value: &str) -> String {
    format!("cmd=put kvsname={job} key={key} value={value}\n")
}

pub(super) fn get(job: &str, key: &str) -> String {
    format!("cmd=get kvsname={job} key={key}\n")
}

/// Returns the value in the reply to [`get`].
pub(super) fn value_of(exchange: &mut Exchange, text: &[u8]) -> Result<Option<String>, PmiError> {
    const DOING: &str = "looking a value up (get)";
    exchange.expect(DOING, text, "get_result")?;
    let reply = exchange.parse(DOING, text)?;
    // A missing key is `rc=-1 msg=key_K_not_found value=unknown` in Hydra 4, `rc=1` in Slurm, and
    // another number in Hydra 5.
    match (reply.number::<i64>("rc"), reply.get("value")) {
        (Some(0), Some(value)) => Ok(Some(value.to_owned())),
        (Some(0), None) => Err(exchange.malformed(DOING, text, "there is no value")),
        (Some(_), _) => Ok(None),
        (None, _) => Err(exchange.malformed(DOING, text, "there is no rc=number")),
    }
}
