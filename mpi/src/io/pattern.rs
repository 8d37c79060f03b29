//! Parts of a file as patterns: equal parts at equal distances are told as one group.

use super::view::Part;

/// Bytes of a group in a message.
const BYTES: usize = 32;

/// Equal parts at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    first: u64,
    len: u64,
    stride: u64,
    count: u64,
}

/// Parts of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Group>);

impl Pattern {
    /// Adds a part behind the others.
    pub(super) fn push(&mut self, (at, len): Part) {
        if let Some(last) = self.0.last_mut().filter(|last| last.len == len) {
            let next = match last.count {
                1 => Some(at - last.first),
                _ => (at == last.first + last.stride * last.count).then_some(last.stride),
            };
            if let Some(stride) = next {
                last.stride = stride;
                last.count += 1;
                return;
            }
        }
        self.0.push(Group { first: at, len, stride: 0, count: 1 });
    }

    /// Returns the bytes of a message.
    pub(super) fn emit(&self) -> Vec<u8> {
        let numbers = |g: &Group| [g.first, g.len, g.stride, g.count];
        self.0.iter().flat_map(numbers).flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the bytes of a message.
    pub(super) fn parse(bytes: &[u8]) -> Pattern {
        let group = |bytes: &[u8; BYTES]| {
            let number = |i: usize| bytes.as_chunks().0.get(i).map_or(0, |b| u64::from_le_bytes(*b));
            Group { first: number(0), len: number(1), stride: number(2), count: number(3) }
        };
        Pattern(bytes.as_chunks().0.iter().map(group).collect())
    }
}

/// A place in a pattern, which is gone through once.
#[derive(Debug)]
pub(super) struct Cursor {
    pattern: Pattern,
    /// The present group, the present part of it, and what is passed of that.
    group: usize,
    part: u64,
    skip: u64,
}

impl Cursor {
    /// Starts at the first part.
    pub(super) fn new(pattern: Pattern) -> Cursor {
        Cursor { pattern, group: 0, part: 0, skip: 0 }
    }

    /// Returns the bytes of all parts from here on.
    pub(super) fn left(&self) -> u64 {
        let groups = self.pattern.0.get(self.group..).unwrap_or_default();
        let all: u64 = groups.iter().map(|g| g.len * g.count).sum();
        let passed = groups.first().map_or(0, |g| g.len * self.part + self.skip);
        all - passed
    }

    /// Returns the parts before a byte of the file, and passes them.
    pub(super) fn until(&mut self, end: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        while let Some(group) = self.pattern.0.get(self.group) {
            while self.part < group.count {
                let at = group.first + group.stride * self.part + self.skip;
                if at >= end {
                    return parts;
                }
                let len = (group.len - self.skip).min(end - at);
                parts.push((at, len));
                self.skip += len;
                if self.skip < group.len {
                    return parts;
                }
                self.skip = 0;
                self.part += 1;
            }
            self.part = 0;
            self.group += 1;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_parts_are_one_group() {
        let mut pattern = Pattern::default();
        (0..1000).for_each(|i| pattern.push((5 + 16 * i, 8)));
        pattern.push((16_010, 3));
        assert_eq!(pattern.0.len(), 2);
        assert_eq!(Pattern::parse(&pattern.emit()), pattern);
    }

    #[test]
    fn a_cursor_passes_each_byte_once() {
        let mut pattern = Pattern::default();
        for i in 0..50u64 {
            pattern.push((i * 20, 3 + i % 4));
        }
        let all: Vec<u64> = (0..50u64).flat_map(|i| i * 20..i * 20 + 3 + i % 4).collect();
        for window in [1, 7, 20, 33, 5000] {
            let (mut cursor, mut seen, mut end) = (Cursor::new(pattern.clone()), Vec::new(), 0);
            while end < 1000 {
                end += window;
                let left = cursor.left();
                let parts = cursor.until(end);
                let taken: u64 = parts.iter().map(|p| p.1).sum();
                assert_eq!(cursor.left(), left - taken);
                seen.extend(parts.iter().flat_map(|(at, len)| *at..at + len));
            }
            assert_eq!(seen, all, "windows of {window}");
        }
    }
}
