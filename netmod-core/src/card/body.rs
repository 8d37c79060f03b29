//! Encoding of a section's body: fixed-size little-endian numbers and length-prefixed bytes.

use super::CardError;

/// A writer of a section's body. Its methods can be chained.
///
/// It cannot fail: a value too long for a length prefix is too long for any card, so
/// [`super::CardWriter::section`] refuses the body.
#[derive(Clone, Debug, Default)]
pub struct BodyWriter {
    bytes: Vec<u8>,
}

impl BodyWriter {
    /// Creates an empty body.
    pub fn new() -> BodyWriter {
        BodyWriter::default()
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.raw(&[v])
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    /// Appends bytes whose length the reader knows.
    pub fn raw(&mut self, v: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(v);
        self
    }

    /// Appends a length (two bytes) and that many bytes.
    pub fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.u16(v.len() as u16).raw(v)
    }

    /// Appends a string as [`Self::bytes`] of its UTF-8.
    pub fn str(&mut self, v: &str) -> &mut Self {
        self.bytes(v.as_bytes())
    }

    /// Returns the bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A reader of a section's body that checks each length.
///
/// Each method takes the name of the value, for the error [`CardError::Truncated`].
#[derive(Clone, Debug)]
pub struct BodyReader<'a> {
    what: &'static str,
    rest: &'a [u8],
    allow_trailing: bool,
}

impl<'a> BodyReader<'a> {
    /// Creates a reader of `body`; `what` names it in the error of [`Self::finish`].
    pub fn new(what: &'static str, body: &'a [u8]) -> BodyReader<'a> {
        BodyReader { what, rest: body, allow_trailing: false }
    }

    /// Lets [`Self::finish`] accept unread bytes, which a later version may have appended.
    pub fn allow_trailing(mut self) -> Self {
        self.allow_trailing = true;
        self
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn u8(&mut self, what: &'static str) -> Result<u8, CardError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    /// Reads two bytes.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn u16(&mut self, what: &'static str) -> Result<u16, CardError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Reads four bytes.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn u32(&mut self, what: &'static str) -> Result<u32, CardError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn u64(&mut self, what: &'static str) -> Result<u64, CardError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CardError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(CardError::Truncated { what })?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads `n` bytes.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn raw(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], CardError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(CardError::Truncated { what })?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads what [`BodyWriter::bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`].
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], CardError> {
        let n = self.u16(what)?;
        self.raw(n.into(), what)
    }

    /// Reads what [`BodyWriter::str`] wrote.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`]; [`CardError::Malformed`] if it is not UTF-8.
    pub fn str(&mut self, what: &'static str) -> Result<&'a str, CardError> {
        core::str::from_utf8(self.bytes(what)?)
            .map_err(|_| CardError::Malformed { what, expected: "it must be UTF-8" })
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Ends reading.
    ///
    /// # Errors
    ///
    /// [`CardError::Trailing`] if bytes are left, unless [`Self::allow_trailing`] was called.
    pub fn finish(self) -> Result<(), CardError> {
        if self.rest.is_empty() || self.allow_trailing {
            return Ok(());
        }
        Err(CardError::Trailing { what: self.what, left: self.rest.len() })
    }
}
