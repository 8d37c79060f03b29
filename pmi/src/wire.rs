//! The PMI wire format: messages of `key=value` words, and a bounded buffer that cuts them out of a
//! byte stream.
//!
//! A PMI-1 message is a line whose words are separated by blanks. A PMI-2 message begins with its
//! length and separates words by semicolons.
//!
//! Servers differ in the order of the words (`rc` first or last), in extra words (`msg`, `tag`),
//! and in their reply for a missing key; a parser may rely on the names alone. `vallen_max=1024`
//! does not mean that such values work: Slurm reads at most 1024 bytes of a request line, and Hydra
//! 4 silently truncates values at 1023. Request lines are therefore at most [`MAX_REQUEST`] bytes.

pub(crate) mod frame;
#[cfg(test)]
pub(crate) mod tests;

/// Longest request line a client may send, with its newline, in bytes.
pub const MAX_REQUEST: usize = 1000;

/// Longest line that is accepted from the peer, without its newline, in bytes.
pub const MAX_LINE: usize = 16 * 1024;

/// Most words in a line.
const MAX_WORDS: usize = 16;

/// The error in a line that is not made of `key=value` words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It has bytes other than printable ASCII and blanks.
    #[error("it is not printable text")]
    NotText,
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// The first word has no `=`, or a word has nothing before it.
    #[error("it is not made of key=value words")]
    NotKeyValue,
    /// It has the same key twice.
    #[error("it has the same key twice")]
    Twice,
    /// It has more words than any PMI-1 message.
    #[error("it has too many words")]
    TooManyWords,
    /// It has no word `cmd=`.
    #[error("it has no cmd=")]
    NoCommand,
    /// It is longer than [`MAX_LINE`].
    #[error("it is longer than {MAX_LINE} bytes")]
    TooLong,
    /// It is a PMI-2 message that does not begin with its length.
    #[error("it does not begin with its length in six characters")]
    NoLength,
}

/// A parsed line; borrows the text it was parsed from.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    words: [(&'a str, &'a str); MAX_WORDS],
    len: usize,
}

impl<'a> Line<'a> {
    /// Parses a line.
    ///
    /// Words are separated by blanks. A word without `=` belongs to the value before it, so `msg=no
    /// such key` is one value. Carriage return and newline at the end are ignored.
    ///
    /// # Errors
    ///
    /// Returns the error in the line; see [`LineError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Line<'a>, LineError> {
        if bytes.len() > MAX_LINE + 2 {
            return Err(LineError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| LineError::NotText)?;
        let text = text.trim_end_matches(['\n', '\r']).trim_matches([' ', '\t']);
        if !text.bytes().all(|b| b.is_ascii_graphic() || b == b' ' || b == b'\t') {
            return Err(LineError::NotText);
        }
        if text.is_empty() {
            return Err(LineError::Empty);
        }
        let mut line = Line { words: [("", ""); MAX_WORDS], len: 0 };
        // Start of the current value, which may span several words.
        let mut value_at = 0;
        let mut pos = 0;
        while pos < text.len() {
            let rest = &text[pos..];
            let end = pos + rest.find([' ', '\t']).unwrap_or(rest.len());
            let word = &text[pos..end];
            if let Some((key, _)) = word.split_once('=') {
                line.push(key)?;
                value_at = pos + key.len() + 1;
            } else if !word.is_empty() && line.len == 0 {
                return Err(LineError::NotKeyValue);
            }
            if let Some(last) = line.len.checked_sub(1)
                && !word.is_empty()
            {
                line.words[last].1 = &text[value_at..end];
            }
            pos = end + 1;
        }
        if line.cmd().is_empty() {
            return Err(LineError::NoCommand);
        }
        Ok(line)
    }

    fn push(&mut self, key: &'a str) -> Result<(), LineError> {
        if key.is_empty() {
            return Err(LineError::NotKeyValue);
        }
        if self.get(key).is_some() {
            return Err(LineError::Twice);
        }
        let slot = self.words.get_mut(self.len).ok_or(LineError::TooManyWords)?;
        *slot = (key, "");
        self.len += 1;
        Ok(())
    }

    /// Returns the value of a key, if the line has it.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.words[..self.len].iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    /// Returns the value of `cmd=`.
    pub fn cmd(&self) -> &'a str {
        self.get("cmd").unwrap_or_default()
    }

    /// Returns the value of a key as a number; `None` if it is absent or not a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// Returns the beginning of a line, escaped, for an error message.
pub fn quote(line: &[u8]) -> String {
    const SHOWN: usize = 160;
    let line = line.trim_ascii_end();
    let cut = &line[..line.len().min(SHOWN)];
    let dots = if line.len() > SHOWN { "..." } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

/// A bounded buffer of received bytes that were not yet taken as lines or frames.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Offset of the first byte that was not taken.
    taken: usize,
    /// Offset up to which there is no newline after `taken`.
    searched: usize,
}

impl LineBuffer {
    /// Appends received bytes.
    ///
    /// Take all lines out after each call: the buffer then never keeps more than one unfinished
    /// line.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole line, without its newline; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns [`LineError::TooLong`] if the line is, or is becoming, longer than [`MAX_LINE`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        let newline = self.bytes[self.searched..].iter().position(|b| *b == b'\n');
        let start = self.taken;
        let end = newline.map_or(self.bytes.len(), |n| self.searched + n);
        if end - start > MAX_LINE {
            return Err(LineError::TooLong);
        }
        if newline.is_none() {
            self.searched = end;
            return Ok(None);
        }
        self.taken = end + 1;
        self.searched = end + 1;
        Ok(Some(&self.bytes[start..end]))
    }

    /// Returns the bytes that were received and not taken.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}
