//! Messages of two leaders over a link, with deadlines.

use std::time::Instant;

use ch3_shim::{Link, Request, Vci};

use crate::comm::CommCore;
use crate::error::{Class, MpiError, Result};
use crate::exchange::named;
use crate::instance::Mpi;
use crate::status::failure;

/// Longest message of a leader in bytes.
const MOST: usize = 256 << 20;

/// The word of a leader, with what follows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The side that connects asks for the other group: its own roster.
    Offer(Vec<u8>),
    /// The answer of the side that accepts: its own roster.
    Terms(Vec<u8>),
    /// All of the group that connects know the other one.
    Ready,
    /// Both groups know each other.
    Go,
    /// The attempt has failed: why.
    Refuse(String),
}

/// The beginning of each word: the protocol and its version.
const MAGIC: [u8; 4] = *b"NMM1";

impl Word {
    fn emit(self) -> Vec<u8> {
        let (kind, body) = match self {
            Word::Offer(roster) => (1, roster),
            Word::Terms(roster) => (2, roster),
            Word::Ready => (3, Vec::new()),
            Word::Go => (4, Vec::new()),
            Word::Refuse(why) => (5, why.into_bytes()),
        };
        [&MAGIC[..], &[kind], &body].concat()
    }

    fn parse(bytes: &[u8]) -> Option<Word> {
        let (kind, body) = bytes.strip_prefix(&MAGIC)?.split_first()?;
        Some(match kind {
            1 => Word::Offer(body.to_vec()),
            2 => Word::Terms(body.to_vec()),
            3 => Word::Ready,
            4 => Word::Go,
            // No control characters of another program get onto a terminal.
            5 => Word::Refuse(String::from_utf8_lossy(body).replace(char::is_control, " ")),
            _ => return None,
        })
    }
}

fn gone(e: &ch3_shim::Error) -> Box<MpiError> {
    MpiError::new(Class::PORT, format!("the other side of the port: {e}"))
}

/// Returns an error if a group has lost a process, or was revoked: it cannot meet another one.
pub(super) fn group_fault(vci: &Vci, core: &CommCore) -> Option<Box<MpiError>> {
    if core.is_revoked() {
        return Some(failure(ch3_shim::Error::Revoked, core));
    }
    if !vci.has_alarm() {
        return None;
    }
    let place = *vci.failed_among(core.group().places()).first()?;
    let text = format!("{} has failed, which is of the group that meets another one", named(vci, place));
    Some(core.raised(MpiError::new(Class::PROC_FAILED, text)))
}

impl Mpi {
    /// Waits for a message over a link.
    fn finish_word(&self, request: Request, deadline: Option<Instant>) -> Result<Option<Vec<u8>>> {
        let raw = request.raw();
        let over = self.wait_until_time(deadline, |vci, _| vci.is_settled(raw).then_some(Ok(())))?;
        if over.is_none() {
            return Ok(None);
        }
        self.with(|s| s.dev.wait(request).map(|done| Some(done.buffer)).map_err(|e| gone(&e.error)))
    }

    /// Says something to the other leader.
    ///
    /// # Errors
    /// A process that is lost, or does not read.
    pub(super) fn say(&self, link: Link, word: Word, deadline: Option<Instant>) -> Result<()> {
        let send = self.with(|s| {
            let comm = s.dev.link_comm(link)?;
            s.dev.isend(word.emit(), Link::PEER, Link::TAG, comm).map_err(|e| gone(&e.error))
        })?;
        match self.finish_word(send, deadline)? {
            Some(_) => Ok(()),
            None => Err(MpiError::new(Class::PORT, "the other side of the port does not answer")),
        }
    }

    /// Hears what the other leader says; `None` if it has said nothing until the deadline.
    ///
    /// # Errors
    /// A process of either group that is lost; a leader that says what nobody understands.
    pub(super) fn hear_word(
        &self,
        core: &CommCore,
        link: Link,
        deadline: Option<Instant>,
    ) -> Result<Option<Word>> {
        let message = self.wait_until_time(deadline, |vci, _| {
            if let Some(fault) = group_fault(vci, core) {
                return Some(Err(fault));
            }
            let found = vci.link_comm(link).and_then(|comm| vci.improbe(Link::PEER, Link::TAG, comm));
            found.map_err(|e| gone(&e)).transpose()
        })?;
        let Some(message) = message else { return Ok(None) };
        let len = message.status().len;
        if len > MOST {
            let text =
                format!("the other side of the port sends {len} bytes, of which at most {MOST} may be");
            return Err(MpiError::new(Class::PORT, text));
        }
        let receive = self.with(|s| Ok(s.dev.imrecv(vec![0; len], message)))?;
        let Some(bytes) = self.finish_word(receive, deadline)? else { return Ok(None) };
        Word::parse(&bytes).map(Some).ok_or_else(|| {
            let text = "the other side of the port says what is not understood; does it run another version of this \
                        library?";
            MpiError::new(Class::PORT, text)
        })
    }

    /// Closes a link when all that was said over it has gone out.
    pub(super) fn hang_up(&self, link: Link) -> Result<()> {
        self.with(|s| {
            s.dev.close_link(link);
            Ok(())
        })?;
        self.wait_until_time(None, |vci, _| vci.has_left().then_some(Ok(()))).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let words = || {
            [
                Word::Offer(vec![1, 2]),
                Word::Terms(Vec::new()),
                Word::Ready,
                Word::Go,
                Word::Refuse("no room".into()),
            ]
        };
        for (word, same) in words().into_iter().zip(words()) {
            assert_eq!(Word::parse(&word.emit()), Some(same));
        }
        for bytes in [&b""[..], b"NMM1", b"NMM2\x03", b"NMM1\x09"] {
            assert_eq!(Word::parse(bytes), None);
        }
        let told = Word::Refuse("a\x1b[2Jb".into()).emit();
        assert_eq!(Word::parse(&told), Some(Word::Refuse("a [2Jb".into())));
    }
}
