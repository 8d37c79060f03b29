//! The PMI-2 wire format: a length in six characters, then `key=value;` words.
//!
//! Slurm writes the length left-justified, Hydra right-justified. As in PMI-1, servers differ in
//! the order of words and in the words that they omit.

#[cfg(test)]
mod tests;

use super::{Line, LineBuffer, LineError, MAX_LINE, MAX_WORDS};

/// Characters of the length before a message.
pub(crate) const LENGTH: usize = 6;

impl<'a> Line<'a> {
    /// Parses a PMI-2 message without its length.
    ///
    /// Each word ends with a semicolon, which the last one may lack. A doubled semicolon is a part
    /// of the value (and stays doubled: no value used here has one).
    ///
    /// # Errors
    ///
    /// Returns the error in the message; see [`LineError`].
    pub fn parse_frame(bytes: &'a [u8]) -> Result<Line<'a>, LineError> {
        if bytes.len() > MAX_LINE {
            return Err(LineError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| LineError::NotText)?;
        if !text.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
            return Err(LineError::NotText);
        }
        if text.is_empty() {
            return Err(LineError::Empty);
        }
        let mut line = Line { words: [("", ""); MAX_WORDS], len: 0 };
        let mut rest = text;
        while !rest.is_empty() {
            let (word, more) = split_word(rest);
            let (key, value) = word.split_once('=').ok_or(LineError::NotKeyValue)?;
            line.push(key)?;
            line.words[line.len - 1].1 = value;
            rest = more;
        }
        if line.cmd().is_empty() {
            return Err(LineError::NoCommand);
        }
        Ok(line)
    }
}

/// Splits the text at the first semicolon that stands alone.
fn split_word(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|b| *b == b';') {
        at += found;
        if bytes.get(at + 1) != Some(&b';') {
            return (&text[..at], &text[at + 1..]);
        }
        at += 2;
    }
    (text, "")
}

impl LineBuffer {
    /// Returns the next whole PMI-2 message, without its length; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns [`LineError::NoLength`], or [`LineError::TooLong`] if it announces more than
    /// [`MAX_LINE`] bytes.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, LineError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((length, rest)) = rest.split_at_checked(LENGTH) else { return Ok(None) };
        let length = std::str::from_utf8(length).map_err(|_| LineError::NoLength)?.trim_matches(' ');
        if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
            return Err(LineError::NoLength);
        }
        let length: usize = length.parse().map_err(|_| LineError::NoLength)?;
        if length > MAX_LINE {
            return Err(LineError::TooLong);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + LENGTH;
        self.taken = start + length;
        self.searched = self.taken;
        Ok(Some(&self.bytes[start..self.taken]))
    }
}
