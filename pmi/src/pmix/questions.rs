//! Asynchronous lookups and barriers: one at a time, in the order of the calls.

use std::collections::VecDeque;
use std::ffi::CString;

use super::value::{Datum, SUCCESS, Status};
use super::{FORM, PmixClient, event, is_miss, owners};
use crate::state::State;
use crate::{Answer, PmiError};

/// A request that waits to be started, or has been.
#[derive(Debug)]
enum Question {
    /// A lookup of a key, with the ranks that have not been asked for it.
    Value {
        key: String,
        name: CString,
        owners: VecDeque<u32>,
    },
    Barrier,
}

/// Requests that wait to be started or to end, and answers that nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Questions {
    queue: VecDeque<Question>,
    /// True if the first request has been started.
    started: bool,
    answers: VecDeque<Answer>,
}

impl PmixClient {
    pub(super) fn ask_for_value(&mut self, key: &str) -> Result<(), PmiError> {
        if matches!(self.state, State::Leaving | State::Finalized) {
            return self.state.check_idle("a question to the launcher");
        }
        let name = PmixClient::key(key)?;
        let owners = owners(key, self.rank, self.size).collect();
        self.questions.queue.push_back(Question::Value { key: key.to_owned(), name, owners });
        self.drive()
    }

    pub(super) fn ask_barrier(&mut self) -> Result<(), PmiError> {
        self.questions.queue.push_back(Question::Barrier);
        self.drive()
    }

    /// Answers a query for failed ranks at once: libpmix has reported them already.
    pub(super) fn ask_for_failed(&mut self) {
        let failed = event::failed(&self.namespace, self.size);
        self.questions.answers.push_back(Answer::Failed(failed));
    }

    pub(super) fn next_answer(&mut self) -> Result<Option<Answer>, PmiError> {
        // A finalized process is not interested in whether the launcher lives.
        if !matches!(self.state, State::Leaving | State::Finalized) {
            if event::server_is_lost(&self.namespace) {
                self.operation.hush();
                return Err(PmiError::Lost);
            }
            self.drive()?;
        }
        Ok(self.questions.answers.pop_front())
    }

    /// Drops the requests that have not been started.
    pub(super) fn drop_unstarted(&mut self) {
        self.questions.queue.truncate(usize::from(self.questions.started));
        // The lookup in progress asks no further ranks.
        if let Some(Question::Value { owners, .. }) = self.questions.queue.front_mut() {
            owners.clear();
        }
    }

    /// Returns true if an operation is in progress.
    pub(super) fn has_started(&self) -> bool {
        self.questions.started
    }

    /// Starts and ends operations as far as possible; never waits.
    pub(super) fn drive(&mut self) -> Result<(), PmiError> {
        while let Some(question) = self.questions.queue.front_mut() {
            if !self.questions.started {
                let begun = match question {
                    Question::Barrier => self.library.fence_begin(&self.namespace, &self.operation),
                    Question::Value { name, owners, .. } => match owners.pop_front() {
                        Some(rank) => self.library.get_begin(&self.namespace, rank, name, &self.operation),
                        None => {
                            self.answer_value(Ok(None));
                            continue;
                        }
                    },
                };
                match begun {
                    Ok(()) => self.questions.started = true,
                    Err(status) => {
                        self.take_end(status, None)?;
                        continue;
                    }
                }
            }
            let Some(status) = self.operation.take() else { return Ok(()) };
            self.questions.started = false;
            let found = self.operation.take_found();
            self.take_end(status, found)?;
        }
        Ok(())
    }

    /// Handles the end of the first request of the queue.
    fn take_end(&mut self, status: Status, found: Option<Datum>) -> Result<(), PmiError> {
        match self.questions.queue.front() {
            None => {}
            Some(Question::Barrier) => {
                self.questions.queue.pop_front();
                self.state = State::BarrierOver;
                if status != SUCCESS {
                    self.state = State::Idle;
                    return Err(self.error("waiting in a barrier (PMIx_Fence_nb)", status));
                }
            }
            // The next rank is asked.
            Some(Question::Value { .. }) if is_miss(status) => {}
            Some(Question::Value { key, .. }) => {
                let corrupt = |why| PmiError::Corrupt { key: key.clone(), why };
                let value = match found {
                    _ if status != SUCCESS => Err(self.error("looking a value up (PMIx_Get_nb)", status)),
                    Some(Datum::Bytes(bytes)) => match bytes.split_first() {
                        Some((&FORM, rest)) => Ok(Some(rest.to_vec())),
                        _ => Err(corrupt("it was not stored with put_bytes".to_owned())),
                    },
                    Some(other) => Err(corrupt(format!("it is {other:?}, no bytes"))),
                    None => return Ok(()),
                };
                self.answer_value(value);
            }
        }
        Ok(())
    }

    fn answer_value(&mut self, value: Result<Option<Vec<u8>>, PmiError>) {
        if let Some(Question::Value { key, .. }) = self.questions.queue.pop_front() {
            self.questions.answers.push_back(Answer::Value { key, value });
        }
    }

    /// Looks up the value of a key, and waits for it.
    pub(super) fn wait_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.ask_for_value(key)?;
        self.settle("looking a value up (PMIx_Get_nb)")?;
        match self.questions.answers.pop_back() {
            Some(Answer::Value { value, .. }) => value,
            _ => Ok(None),
        }
    }

    /// Waits until all requests have ended.
    pub(super) fn settle(&mut self, doing: &'static str) -> Result<(), PmiError> {
        self.drive()?;
        while !self.questions.queue.is_empty() {
            if event::server_is_lost(&self.namespace) {
                self.operation.hush();
                return Err(PmiError::Lost);
            }
            self.operation.wait().map_err(|source| PmiError::Io { doing, source })?;
            self.drive()?;
        }
        Ok(())
    }
}
