//! Streams: serial contexts of the program, and communicators that belong to them.
//!
//! A stream promises that its calls come one after the other. The library has one lock for all, so
//! that the promise saves nothing; a stream is a name, and the count of the communicators that
//! have it.
//!
//! A *multiplex* communicator has several streams in each process, and its messages go from one
//! of the sender's streams to one of the receiver's, by their indices. They match on both indices,
//! as if each pair were a communicator of its own. A pair has a context of its own, too, but none
//! that has to be agreed on: contexts of communicators are less than 2^13, the device's have 29
//! bits, and the two indices, less than 2^8 each, are the 16 bits above the communicator's. So
//! neither a packet nor the matching of ordinary messages knows of streams. The pair of the first
//! streams has the context of the communicator itself: MPI's ordinary functions send and receive
//! between them.
//!
//! Both sides must name an index that the other side has. The processes tell each other their
//! numbers of streams when the communicator is made, so that a wrong index is an error at once. No
//! index stands for any of them: a receive looks in one context.

use std::collections::BTreeMap;
use std::sync::Arc;

use ch3_shim::{Comm as Channel, Vci};
use parking_lot::Mutex;

use crate::error::{Class, MpiError, Result};
use crate::handle::{Stream, Table, invalid};

/// Most streams of a process in a communicator.
pub(crate) const MOST: usize = 1 << INDEX_BITS;
/// Bits of the context of a message between two streams: those of the communicator are below, then
/// come those of the source's index and of the destination's.
const COMM_BITS: u32 = 13;
const INDEX_BITS: u32 = 8;

/// A stream that something has: it cannot be freed. `None` is `MPIX_STREAM_NULL`.
pub(crate) type HeldStream = Option<Arc<Stream>>;

/// The streams of a process.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Table<Stream, Arc<Stream>>>);

impl Streams {
    /// Makes a stream.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn create(&self) -> Result<Stream> {
        let mut table = self.0.lock();
        let stream = table.insert(Arc::new(Stream::NULL))?;
        *table.get_mut(stream)? = Arc::new(stream);
        Ok(stream)
    }

    /// Frees a stream.
    ///
    /// # Errors
    /// If it is none, or a communicator has it.
    pub(crate) fn free(&self, stream: Stream) -> Result<()> {
        let mut table = self.0.lock();
        if Arc::strong_count(table.get(stream)?) > 1 {
            let text = format!("stream {:#010x} belongs to a communicator; free that first", stream.0);
            return Err(MpiError::new(Class::OTHER, text));
        }
        table.remove(stream).map(|_| ())
    }

    /// Returns a stream as something that has it.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn hold(&self, stream: Stream) -> Result<HeldStream> {
        if stream.is_null() {
            return Ok(None);
        }
        self.0.lock().find(stream).cloned().map(Some).ok_or_else(|| invalid(stream))
    }

    /// Number of streams that were not freed.
    pub(crate) fn live(&self) -> usize {
        self.0.lock().len()
    }
}

/// The streams of a communicator.
#[derive(Debug)]
pub(crate) struct CommStreams {
    own: Vec<HeldStream>,
    /// Numbers of streams by rank, if the communicator is multiplex.
    counts: Option<Arc<[u32]>>,
    /// Channels of pairs of streams that were used.
    channels: BTreeMap<(u32, u32), Channel>,
}

impl CommStreams {
    /// The streams of a communicator that has one in each process.
    pub(crate) fn single(stream: HeldStream) -> CommStreams {
        CommStreams { own: vec![stream], counts: None, channels: BTreeMap::new() }
    }

    /// The streams of a multiplex communicator.
    pub(crate) fn multiplex(own: Vec<HeldStream>, counts: Arc<[u32]>) -> CommStreams {
        CommStreams { own, counts: Some(counts), channels: BTreeMap::new() }
    }

    /// Returns those of a duplicate.
    pub(crate) fn copy(&self) -> CommStreams {
        let CommStreams { own, counts, .. } = self;
        CommStreams { own: own.clone(), counts: counts.clone(), channels: BTreeMap::new() }
    }

    /// Returns the stream with an index in this process; null if there is none.
    pub(crate) fn stream(&self, index: i32) -> Stream {
        let found = usize::try_from(index).ok().and_then(|index| self.own.get(index)?.as_deref());
        found.copied().unwrap_or(Stream::NULL)
    }

    /// Checks an index of a stream of a process, or of any one.
    ///
    /// # Errors
    /// If there is no such stream, or the communicator is not multiplex.
    pub(crate) fn index(&self, what: &str, rank: Option<u32>, index: i32) -> Result<u32> {
        let Some(counts) = &self.counts else { return Err(not_multiplex()) };
        let Ok(index) = u32::try_from(index) else {
            let text =
                format!("{what} is {index}; indices of streams are 0 or more, and none stands for any");
            return Err(MpiError::new(Class::ARG, text));
        };
        let count = match rank {
            Some(rank) => counts.get(rank as usize).copied(),
            None => counts.iter().max().copied(),
        };
        let count = count.unwrap_or(0);
        if index < count {
            return Ok(index);
        }
        let whose = rank.map_or_else(|| "any process".to_owned(), |rank| format!("rank {rank}"));
        let text = format!("{what} is {index}; {whose} has {count} streams in the communicator");
        Err(MpiError::new(Class::OTHER, text))
    }

    /// Returns the channel of messages from one stream to another. `messages` is that of the
    /// communicator, and `others` are its processes of other jobs.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn channel(
        &mut self,
        vci: &mut Vci,
        (source, dest): (u32, u32),
        messages: Channel,
        others: impl Iterator<Item = u32>,
    ) -> Result<Channel> {
        if (source, dest) == (0, 0) {
            return Ok(messages);
        }
        if let Some(channel) = self.channels.get(&(source, dest)) {
            return Ok(*channel);
        }
        let pair = source | dest << INDEX_BITS;
        let others: Vec<u32> = others.collect();
        let channel = vci.comm_with_jobs(messages.context() | pair << COMM_BITS, &others)?;
        self.channels.insert((source, dest), channel);
        Ok(channel)
    }

    /// Returns the channels that were used, beside that of the communicator.
    pub(crate) fn channels(&self) -> impl Iterator<Item = Channel> {
        self.channels.values().copied()
    }
}

/// Returns the error of a call that names streams on a communicator that has no several ones.
#[cold]
pub(crate) fn not_multiplex() -> Box<MpiError> {
    let text =
        "the communicator is not one of MPIX_Stream_comm_create_multiplex: its streams have no indices";
    MpiError::new(Class::OTHER, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_freed_when_nothing_has_it() {
        let streams = Streams::default();
        let stream = streams.create().expect("a stream");
        let held = streams.hold(stream).expect("held");
        assert_eq!(streams.free(stream).expect_err("in use").class, Class::OTHER);
        let copy = CommStreams::single(held).copy();
        assert_eq!((copy.stream(0), copy.stream(1), copy.stream(-1)), (stream, Stream::NULL, Stream::NULL));
        drop(copy);
        streams.free(stream).expect("free");
        assert_eq!(streams.free(stream).expect_err("gone").class, Class::STREAM);
        assert_eq!(streams.hold(stream).expect_err("gone").class, Class::STREAM);
        assert_eq!(streams.live(), 0);
    }

    #[test]
    fn indices_are_checked_by_the_process_that_they_are_of() {
        let streams = CommStreams::multiplex(vec![None], Arc::new([1, 3]));
        assert_eq!(streams.index("source", Some(1), 2).expect("the last"), 2);
        assert_eq!(streams.index("source", None, 2).expect("the last of somebody"), 2);
        for (rank, index, class) in
            [(Some(0), 1, Class::OTHER), (Some(1), -1, Class::ARG), (None, 3, Class::OTHER)]
        {
            assert_eq!(streams.index("source", rank, index).expect_err("none").class, class);
        }
        assert_eq!(
            CommStreams::single(None).index("source", Some(0), 0).expect_err("one").class,
            Class::OTHER
        );
    }
}
