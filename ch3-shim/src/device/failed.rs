//! Results of requests that own their buffers, and their failures.

use std::fmt;

use bytes::Bytes;

use crate::ch3::Owned;
use crate::error::Error;
use crate::status::Status;

/// The result of a request that has not failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Envelope and length.
    pub status: Status,
    /// The whole buffer of a receive; the message is its first `status.len` bytes, the rest is as
    /// it was given. Empty for sends, whose data is freed, also if they were cancelled: who needs
    /// it again keeps a clone of the [`Bytes`].
    pub buffer: Vec<u8>,
}

/// The failure of a request, with its buffer or data.
///
/// It becomes an [`Error`] by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Cause of the failure.
    pub error: Error,
    /// Envelope and length: of a truncated message what was received, of others what is known.
    pub status: Status,
    /// The buffer of a receive that is over; it may have been written to. Empty for sends, and
    /// while the request goes on.
    pub buffer: Vec<u8>,
    /// The data of a send that is over, or could not be started. Empty for receives, and while the
    /// request goes on.
    pub data: Bytes,
    /// The request's index in the list that the call was given. `None` if the call had one request.
    pub place: Option<usize>,
}

impl Failed {
    /// The failure of a call that has left its request as it is.
    #[cold]
    pub(super) fn call(error: Error) -> Box<Failed> {
        Failed::keeping(error, Owned::Nothing)
    }

    /// The failure of a call that gives the caller's memory back.
    #[cold]
    pub(super) fn keeping(error: Error, owned: Owned) -> Box<Failed> {
        Failed::of(error, Status::default(), owned)
    }

    /// The failure of a request that is over.
    #[cold]
    pub(super) fn of(error: Error, status: Status, owned: Owned) -> Box<Failed> {
        let (buffer, data) = match owned {
            Owned::Recv(buffer) => (buffer, Bytes::new()),
            Owned::Send(data) => (Vec::new(), data),
            Owned::Nothing => (Vec::new(), Bytes::new()),
        };
        Box::new(Failed { error, status, buffer, data, place: None })
    }

    /// Adds the request's index in a list.
    pub(super) fn at(mut self: Box<Failed>, place: usize) -> Box<Failed> {
        self.place = Some(place);
        self
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "request {place}: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<Box<Failed>> for Error {
    fn from(failed: Box<Failed>) -> Error {
        failed.error
    }
}

impl PartialEq<Error> for Box<Failed> {
    fn eq(&self, error: &Error) -> bool {
        self.error == *error
    }
}

/// The result of a request that owns its buffer.
pub type Ended = std::result::Result<Completion, Box<Failed>>;

/// The failure of some of several requests, with the results of all of them.
///
/// It becomes an [`Error`] by `?`: the first failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeFailed {
    /// The results, each with the index of its request in the list that the call was given, and in
    /// that order.
    pub results: Vec<(usize, Ended)>,
}

impl SomeFailed {
    /// The first failure.
    pub fn first(&self) -> Option<&Failed> {
        self.results.iter().find_map(|(_, r)| r.as_ref().err()).map(|failed| &**failed)
    }

    /// Returns all completions with the indices of their requests, or all results if one of them is
    /// a failure.
    pub(super) fn unless_all(
        mut results: Vec<(usize, Ended)>,
    ) -> Result<impl Iterator<Item = (usize, Completion)>, SomeFailed> {
        let mut any = false;
        for (place, result) in &mut results {
            if let Err(failed) = result {
                (failed.place, any) = (Some(*place), true);
            }
        }
        if any {
            return Err(SomeFailed { results });
        }
        Ok(results.into_iter().filter_map(|(place, r)| Some((place, r.ok()?))))
    }
}

impl fmt::Display for SomeFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.results.iter().filter(|(_, r)| r.is_err()).count();
        write!(f, "{failed} of {} requests failed", self.results.len())?;
        self.first().map_or(Ok(()), |first| write!(f, "; {first}"))
    }
}

impl std::error::Error for SomeFailed {}

impl From<SomeFailed> for Error {
    fn from(failed: SomeFailed) -> Error {
        let first = failed.results.into_iter().find_map(|(_, r)| r.err());
        first.map_or_else(|| Error::Usage("no request has failed".into()), Error::from)
    }
}
