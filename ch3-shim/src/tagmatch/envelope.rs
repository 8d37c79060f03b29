//! The envelope of a message, and the pattern of a receive.
//!
//! Both are kept in two words, source and tag in one of them: so they are passed in registers, and
//! are stored and read again in the same pieces. Three of 32 bits are not: whoever puts source and
//! tag together for a header or a key then reads eight bytes that were stored as four and four, for
//! which a processor waits until all that was stored before is in its cache; on the way of a send
//! that is the line of a ring that the other core has.

use super::hash::Key;
use super::{ANY_SOURCE, ANY_TAG, Class};

/// The envelope of a message. All values are literal: a peer that sends [`ANY_TAG`] as a
/// tag is matched by wildcard receives only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope {
    source_tag: u64,
    context: u32,
}

/// The pattern of a receive or a probe: an envelope, of which source and tag may be wild.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern(Envelope);

impl Envelope {
    /// An envelope of a communicator's context id, the sender's rank in it, and a tag.
    #[inline]
    pub const fn new(context: u32, source: i32, tag: i32) -> Envelope {
        let source_tag = source.cast_unsigned() as u64 | (tag.cast_unsigned() as u64) << 32;
        Envelope { source_tag, context }
    }

    /// The same of source and tag in one word, see [`Envelope::source_tag`].
    #[inline]
    pub(crate) const fn of_words(context: u32, source_tag: u64) -> Envelope {
        Envelope { source_tag, context }
    }

    /// Context id of the communicator.
    #[inline]
    pub const fn context(&self) -> u32 {
        self.context
    }

    /// Rank of the sender in the communicator.
    #[inline]
    pub const fn source(&self) -> i32 {
        (self.source_tag as u32).cast_signed()
    }

    /// The message's tag.
    #[inline]
    pub const fn tag(&self) -> i32 {
        ((self.source_tag >> 32) as u32).cast_signed()
    }

    /// The key of the receives that ask for just this.
    #[inline]
    pub(super) fn key(&self) -> Key {
        Class::Exact.key_of(self)
    }

    /// The source in the lower half, the tag in the upper one.
    #[inline]
    pub(crate) const fn source_tag(&self) -> u64 {
        self.source_tag
    }
}

impl Pattern {
    /// A pattern of a communicator's context id, the rank of the sender or [`ANY_SOURCE`], and a
    /// tag or [`ANY_TAG`].
    #[inline]
    pub const fn new(context: u32, source: i32, tag: i32) -> Pattern {
        Pattern(Envelope::new(context, source, tag))
    }

    /// Context id of the communicator; never wild.
    #[inline]
    pub const fn context(&self) -> u32 {
        self.0.context()
    }

    /// Rank of the sender, or [`ANY_SOURCE`].
    #[inline]
    pub const fn source(&self) -> i32 {
        self.0.source()
    }

    /// The tag, or [`ANY_TAG`].
    #[inline]
    pub const fn tag(&self) -> i32 {
        self.0.tag()
    }

    /// The three words, wild ones as they are: what is asked for, in the form of what comes.
    #[inline]
    pub(crate) const fn to_envelope(self) -> Envelope {
        self.0
    }

    /// Returns true if a message with this envelope may go to a receive with this pattern.
    #[inline]
    pub fn matches(&self, envelope: &Envelope) -> bool {
        self.context() == envelope.context()
            && (self.source() == ANY_SOURCE || self.source() == envelope.source())
            && (self.tag() == ANY_TAG || self.tag() == envelope.tag())
    }

    /// The key in the table of the pattern's class: wild words are zero.
    #[inline]
    pub(super) fn key(&self) -> Key {
        self.class().key_of(&self.0)
    }

    #[inline]
    pub(super) fn class(&self) -> Class {
        match (self.source() == ANY_SOURCE, self.tag() == ANY_TAG) {
            (false, false) => Class::Exact,
            (false, true) => Class::AnyTag,
            (true, false) => Class::AnySource,
            (true, true) => Class::AnyBoth,
        }
    }
}

impl Envelope {
    fn show(&self, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct(name);
        shown
            .field("context", &self.context())
            .field("source", &self.source())
            .field("tag", &self.tag())
            .finish()
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.show("Envelope", f)
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.show("Pattern", f)
    }
}
