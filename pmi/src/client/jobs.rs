//! Requests that concern other jobs: names that are published, and programs to start.

use super::{PmiClient, Version, is_key};
use crate::codec::{from_text, to_text};
use crate::spawn::{ENDED, PARENT_PORT, SPAWNED};
use crate::wire::quote;
use crate::{PmiError, Spawn};

const PUBLISHING: &str = "publishing a name (publish_name)";
const LOOKING: &str = "looking a name up (lookup_name)";
const UNPUBLISHING: &str = "unpublishing a name (unpublish_name)";
const ENDING: &str = "asking whether a job has ended";
const STARTING: &str = "starting programs (spawn)";

/// Begins a name that is no word, followed by its text in base64url.
const CODED: char = '~';

/// Returns a name as one word.
fn word_of(name: &str) -> String {
    if is_key(name) { name.to_owned() } else { format!("{CODED}{}", to_text(name.as_bytes())) }
}

/// Returns the text of such a word; words of other programs are taken as they are.
fn text_of(word: &str) -> String {
    let coded = word.strip_prefix(CODED).and_then(from_text).and_then(|bytes| String::from_utf8(bytes).ok());
    coded.unwrap_or_else(|| word.to_owned())
}

impl PmiClient {
    /// Publishes a port under the name of a service.
    ///
    /// # Errors
    ///
    /// Fails if the launcher refuses, as it does if the name is published already.
    pub fn publish_name(&mut self, service: &str, port: &str) -> Result<(), PmiError> {
        let (service, port) = (word_of(service), word_of(port));
        let (request, reply) = match self.version {
            Version::V1 => (format!("cmd=publish_name service={service} port={port}\n"), "publish_result"),
            Version::V2 => (format!("cmd=name-publish;name={service};port={port};"), "name-publish-response"),
        };
        self.settled_ask(PUBLISHING, &request, reply).map(|_| ())
    }

    /// Looks up the port of a service; `Ok(None)` if none is published.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn lookup_name(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        let service = word_of(service);
        let (request, reply) = match self.version {
            Version::V1 => (format!("cmd=lookup_name service={service}\n"), "lookup_result"),
            Version::V2 => (format!("cmd=name-lookup;name={service};"), "name-lookup-response"),
        };
        match self.settled_ask(LOOKING, &request, reply) {
            Ok(text) => {
                let line = self.exchange.parse(LOOKING, &text)?;
                let port = line.get("port").or_else(|| line.get("value"));
                Ok(port.filter(|port| !port.is_empty()).map(text_of))
            }
            Err(PmiError::Refused { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Takes back the name of a service.
    ///
    /// # Errors
    ///
    /// Fails if the launcher refuses, as it does if nothing is published under the name.
    pub fn unpublish_name(&mut self, service: &str) -> Result<(), PmiError> {
        let service = word_of(service);
        let (request, reply) = match self.version {
            Version::V1 => (format!("cmd=unpublish_name service={service}\n"), "unpublish_result"),
            Version::V2 => (format!("cmd=name-unpublish;name={service};"), "name-unpublish-response"),
        };
        self.settled_ask(UNPUBLISHING, &request, reply).map(|_| ())
    }

    /// Starts programs as a job of their own. Returns the name of the job, if the launcher tells.
    ///
    /// # Errors
    ///
    /// Fails if the launcher refuses or cannot start them; the error has its reason.
    pub fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        let (request, reply) = match self.version {
            Version::V1 => (spawn.emit(), "spawn_result"),
            Version::V2 => (spawn.emit_frame(), "spawn-response"),
        };
        let request = request.map_err(|e| PmiError::Unsupported { call: "spawn", why: e.to_string() })?;
        let text = self.settled_ask(STARTING, &request, reply)?;
        let line = self.exchange.parse(STARTING, &text)?;
        Ok(line.get("jobid").map(str::to_owned))
    }

    /// Returns the exit code of a job that has ended, as our launcher tells it.
    pub(crate) fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, PmiError> {
        self.settle()?;
        let request = format!("cmd=get kvsname={job} key={ENDED}\n");
        let text = self.settled_ask(ENDING, &request, "get_result");
        match text {
            Ok(text) => Ok(self.exchange.parse(ENDING, &text)?.number("value")),
            Err(PmiError::Refused { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the port at which those who have asked for this job await it; `None` if nobody has.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn parent_port(&mut self) -> Result<Option<String>, PmiError> {
        if self.is_spawned() { self.get_str(PARENT_PORT) } else { Ok(None) }
    }

    /// Returns true if another job has asked for this one: the launcher says so by a variable
    /// (PMI-1), or names that job in its greeting (PMI-2).
    pub fn is_spawned(&self) -> bool {
        self.has_parent || std::env::var(SPAWNED).is_ok_and(|spawned| !spawned.is_empty() && spawned != "0")
    }

    /// Asks when nothing else is under way. Some launchers tell of success by `info=ok` alone.
    fn settled_ask(&mut self, doing: &'static str, request: &str, reply: &str) -> Result<Vec<u8>, PmiError> {
        self.check_idle(doing)?;
        self.settle()?;
        let text = self.exchange.ask(doing, request, reply)?;
        let line = self.exchange.parse(doing, &text)?;
        match (line.get("rc"), line.get("info")) {
            (Some("0"), _) | (None, None | Some("ok")) => Ok(text),
            _ => Err(PmiError::Refused { doing, line: quote(&text) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_word() {
        for text in ["a", "two words", "a=b;c", "~", "", "h\u{f6}flich", "netmod-port:AbC_-9"] {
            let word = word_of(text);
            assert!(word.bytes().all(|b| b.is_ascii_graphic() && b != b'=' && b != b';') && !word.is_empty());
            assert_eq!(text_of(&word), text);
        }
        assert_eq!(text_of("~no base64"), "~no base64");
    }
}
