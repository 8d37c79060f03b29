//! Asynchronous requests: sent to the launcher one at a time, in the order of the calls.
//!
//! PMI servers differ in whether they accept a request before they have replied to the last one, so
//! the next one waits for the reply.

use std::collections::VecDeque;

use super::{GOODBYE, PmiClient, Version, v1, v2};
use crate::codec::{self, Decoder};
use crate::state::State;
use crate::{Answer, PmiError};

/// Hydra's key for the ranks that have died.
const DEAD: &str = "PMI_dead_processes";

/// A request in the queue.
#[derive(Debug)]
enum Question {
    /// A lookup of a value that [`PmiClient::put_bytes`] stored, with the chunks so far.
    Value { key: String, decoder: Option<Decoder> },
    /// A query for the failed ranks.
    Failed,
    /// A barrier.
    Barrier,
    /// A finalize.
    Goodbye,
}

/// Requests that wait to be sent or for their reply, and answers that nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Questions {
    queue: VecDeque<Question>,
    /// True if the first request has been sent.
    sent: bool,
    answers: VecDeque<Answer>,
}

impl Questions {
    /// Drops the requests that have not been sent.
    pub(super) fn drop_unsent(&mut self) {
        self.queue.truncate(usize::from(self.sent));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl PmiClient {
    /// Asks for a value that [`put_bytes`](Self::put_bytes) stored, without waiting.
    ///
    /// [`answer`](Self::answer) returns it. Requests made during a barrier are sent after it.
    ///
    /// # Errors
    ///
    /// Fails if the key is invalid, or if the connection fails or is finalized.
    pub fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        self.check_key(key, codec::SUFFIX_ROOM)?;
        self.ask(Question::Value { key: key.to_owned(), decoder: None })
    }

    /// Asks for the ranks that have failed, without waiting.
    ///
    /// [`answer`](Self::answer) returns them.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails or is finalized.
    pub fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.ask(Question::Failed)
    }

    pub(super) fn ask_barrier(&mut self) -> Result<(), PmiError> {
        self.ask(Question::Barrier)
    }

    /// Queues a finalize, the last request of all.
    pub(super) fn ask_goodbye(&mut self) {
        self.questions.queue.push_back(Question::Goodbye);
    }

    fn ask(&mut self, question: Question) -> Result<(), PmiError> {
        if matches!(self.state, State::Leaving | State::Finalized) {
            return self.check_idle("a question to the launcher");
        }
        self.questions.queue.push_back(question);
        self.drive()
    }

    /// Returns the next answer, in the order of the requests; never waits.
    ///
    /// Also detects that the launcher has closed the connection.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails or has failed.
    pub fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        if self.state != State::Finalized {
            self.drive()?;
            let listens = self.questions.is_empty() && self.questions.answers.is_empty();
            // A launcher may close the connection of a finalized process.
            if listens && self.state != State::Finalized {
                self.listen()?;
            }
        }
        Ok(self.questions.answers.pop_front())
    }

    /// Reads while no reply is due: only the end of the connection may come.
    fn listen(&mut self) -> Result<(), PmiError> {
        const DOING: &str = "nothing was asked";
        match self.exchange.try_receive(DOING)? {
            None => Ok(()),
            Some(text) => Err(self.exchange.malformed(DOING, &text, "no message is due")),
        }
    }

    /// Sends and receives as far as possible; never waits.
    pub(super) fn drive(&mut self) -> Result<(), PmiError> {
        while let Some(question) = self.questions.queue.front() {
            if !self.questions.sent {
                let request = match question {
                    Question::Barrier => Some(self.barrier_request().to_owned()),
                    Question::Goodbye => Some(self.goodbye_request().to_owned()),
                    Question::Failed => Some(self.attribute_request(DEAD)),
                    Question::Value { key, decoder } => {
                        let part = decoder.as_ref().and_then(Decoder::wants).unwrap_or(0);
                        self.value_request(&codec::chunk_key(key, part))
                    }
                };
                let Some(request) = request else {
                    self.take_value(None);
                    continue;
                };
                let doing = question.doing();
                self.exchange.send(doing, &request)?;
                self.questions.sent = true;
            }
            let doing = self.questions.queue.front().map_or("", Question::doing);
            let Some(text) = self.exchange.try_receive(doing)? else { return Ok(()) };
            self.questions.sent = false;
            self.take_reply(&text)?;
        }
        Ok(())
    }

    /// Waits for the replies to all requests.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, or if a reply does not come in time.
    pub(super) fn settle(&mut self) -> Result<(), PmiError> {
        self.drive()?;
        while !self.questions.is_empty() {
            self.exchange.await_message("waiting for earlier answers")?;
            self.drive()?;
        }
        Ok(())
    }

    fn take_reply(&mut self, text: &[u8]) -> Result<(), PmiError> {
        match self.questions.queue.front() {
            None => Ok(()),
            Some(Question::Barrier) => {
                self.leave_barrier(text)?;
                self.questions.queue.pop_front();
                Ok(())
            }
            Some(Question::Goodbye) => {
                self.take_goodbye(text)?;
                self.questions.queue.pop_front();
                Ok(())
            }
            Some(Question::Failed) => {
                let told = self.attribute_reply(text)?;
                let ranks = match told {
                    None => Vec::new(),
                    Some(told) => parse_ranks(&told, self.size).ok_or_else(|| PmiError::Corrupt {
                        key: DEAD.to_owned(),
                        why: format!("\"{}\" is no list of ranks", crate::wire::quote(told.as_bytes())),
                    })?,
                };
                self.questions.queue.pop_front();
                self.questions.answers.push_back(Answer::Failed(ranks));
                Ok(())
            }
            Some(Question::Value { .. }) => {
                let chunk = self.value_reply(text)?;
                self.take_value(chunk);
                Ok(())
            }
        }
    }

    /// Takes the next chunk of the value being looked up, or `None` if it is missing.
    fn take_value(&mut self, chunk: Option<String>) {
        let Some(Question::Value { key, decoder }) = self.questions.queue.front_mut() else { return };
        let value = match (decoder.take(), chunk) {
            (None, None) => Ok(None),
            (None, Some(head)) => Decoder::new(&head).map(Some),
            // `finish` reports which chunk is missing.
            (Some(decoder), None) => decoder.finish().map(|_| None),
            (Some(mut decoder), Some(chunk)) => decoder.push(&chunk).map(|()| Some(decoder)),
        };
        let value = match value {
            Ok(Some(more)) if more.wants().is_some() => {
                *decoder = Some(more);
                return;
            }
            Ok(Some(whole)) => whole.finish().map(Some),
            Ok(None) => Ok(None),
            Err(why) => Err(why),
        };
        let key = std::mem::take(key);
        self.questions.queue.pop_front();
        let value = value.map_err(|e| PmiError::Corrupt { key: key.clone(), why: e.to_string() });
        self.questions.answers.push_back(Answer::Value { key, value });
    }

    fn barrier_request(&self) -> &'static str {
        match self.version {
            Version::V1 => "cmd=barrier_in\n",
            Version::V2 => "cmd=kvs-fence;",
        }
    }

    fn goodbye_request(&self) -> &'static str {
        match self.version {
            Version::V1 => "cmd=finalize\n",
            Version::V2 => "cmd=finalize;",
        }
    }

    fn attribute_request(&self, name: &str) -> String {
        match self.version {
            Version::V1 => v1::get(&self.kvsname, name),
            // PMI-2 keeps stored values and the launcher's own apart.
            Version::V2 => v2::attribute(name),
        }
    }

    fn attribute_reply(&mut self, text: &[u8]) -> Result<Option<String>, PmiError> {
        match self.version {
            Version::V1 => v1::value_of(&mut self.exchange, text),
            Version::V2 => v2::attribute_of(&mut self.exchange, text),
        }
    }

    /// Returns `None` if it is known that there is no value.
    fn value_request(&self, key: &str) -> Option<String> {
        match self.version {
            Version::V1 => Some(v1::get(&self.kvsname, key)),
            // Before the first fence there is no value, and Hydra 4 ends the job when asked.
            Version::V2 if !self.fenced => None,
            Version::V2 => Some(v2::get(&self.kvsname, key)),
        }
    }

    fn value_reply(&mut self, text: &[u8]) -> Result<Option<String>, PmiError> {
        match self.version {
            Version::V1 => v1::value_of(&mut self.exchange, text),
            Version::V2 => v2::value_of(&mut self.exchange, text),
        }
    }

    /// Looks up a value and waits for it.
    pub(super) fn wait_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.ask_value(key)?;
        self.settle()?;
        match self.questions.answers.pop_back() {
            Some(Answer::Value { value, .. }) => value,
            _ => Ok(None),
        }
    }

    /// Asks for the failed ranks and waits for them.
    pub(crate) fn wait_failed(&mut self) -> Result<Vec<u32>, PmiError> {
        self.ask_failed()?;
        self.settle()?;
        match self.questions.answers.pop_back() {
            Some(Answer::Failed(ranks)) => Ok(ranks),
            _ => Ok(Vec::new()),
        }
    }

    /// Asks for a job attribute, in one round trip.
    pub(super) fn ask_attribute(&mut self, name: &str) -> Result<Option<String>, PmiError> {
        const DOING: &str = "asking about the job";
        self.settle()?;
        let request = self.attribute_request(name);
        self.exchange.send(DOING, &request)?;
        let text = self.exchange.receive(DOING)?;
        self.attribute_reply(&text)
    }

    /// Looks up a short text, in one round trip.
    pub(super) fn ask_text(&mut self, key: &str) -> Result<Option<String>, PmiError> {
        const DOING: &str = "looking a value up";
        self.settle()?;
        let Some(request) = self.value_request(key) else { return Ok(None) };
        self.exchange.send(DOING, &request)?;
        let text = self.exchange.receive(DOING)?;
        self.value_reply(&text)
    }
}

impl Question {
    fn doing(&self) -> &'static str {
        match self {
            Question::Barrier => "waiting in a barrier",
            Question::Goodbye => GOODBYE,
            Question::Failed => "asking for failed ranks",
            Question::Value { .. } => "looking a value up",
        }
    }
}

/// Parses a list like `1,3-5`.
pub(crate) fn parse_ranks(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= size {
            return None;
        }
        ranks.extend(first..=last);
        // A list cannot be longer than the job, even if it repeats a rank.
        ranks.sort_unstable();
        ranks.dedup();
    }
    Some(ranks)
}
