//! Signatures: the predefined types of a datatype in order, for `MPI_Get_elements`.

use std::sync::Arc;

use super::basic::Basic;

/// The sequence of basic elements of one datatype, kept by runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    bytes: u64,
    elements: u64,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// `elements` elements of the same size.
    Run,
    Repeat(Arc<Signature>),
    /// Parts, each with the bytes and elements before it.
    Parts(Arc<[(u64, u64, Signature)]>),
}

impl Signature {
    /// The signature of no elements.
    pub const EMPTY: Signature = Signature { bytes: 0, elements: 0, shape: Shape::Run };

    fn run(size: usize) -> Signature {
        Signature { bytes: size as u64, elements: u64::from(size > 0), shape: Shape::Run }
    }

    /// Returns that of a predefined type; a pair has two elements.
    pub fn basic(basic: &Basic) -> Signature {
        match basic.pair() {
            None => Signature::run(basic.size),
            Some(pair) => {
                Signature::sequence([Signature::run(pair.first), Signature::run(pair.second)].into_iter())
            }
        }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    fn element_size(&self) -> Option<u64> {
        (matches!(self.shape, Shape::Run) && self.elements > 0).then(|| self.bytes / self.elements)
    }

    /// Returns `count` repetitions. The caller has checked that the bytes are representable.
    pub fn repeated(&self, count: u64) -> Signature {
        if count == 0 || self.bytes == 0 {
            return Signature::EMPTY;
        }
        if count == 1 {
            return self.clone();
        }
        let shape = match &self.shape {
            Shape::Run => Shape::Run,
            Shape::Repeat(child) => Shape::Repeat(Arc::clone(child)),
            Shape::Parts(_) => Shape::Repeat(Arc::new(self.clone())),
        };
        Signature {
            bytes: self.bytes.saturating_mul(count),
            elements: self.elements.saturating_mul(count),
            shape,
        }
    }

    /// Joins signatures. The caller has checked that the bytes are representable.
    pub fn sequence(parts: impl Iterator<Item = Signature>) -> Signature {
        let mut all: Vec<(u64, u64, Signature)> = Vec::new();
        let (mut bytes, mut elements) = (0u64, 0u64);
        for part in parts.filter(|p| p.bytes > 0) {
            let (part_bytes, part_elements) = (part.bytes, part.elements);
            match all.last_mut() {
                Some((_, _, last))
                    if last.element_size().is_some() && last.element_size() == part.element_size() =>
                {
                    last.bytes += part_bytes;
                    last.elements += part_elements;
                }
                _ => all.push((bytes, elements, part)),
            }
            bytes = bytes.saturating_add(part_bytes);
            elements = elements.saturating_add(part_elements);
        }
        match all.len() {
            0 => Signature::EMPTY,
            1 => all.swap_remove(0).2,
            _ => Signature { bytes, elements, shape: Shape::Parts(all.into()) },
        }
    }

    /// Returns the whole elements in the first `bytes` bytes of an endless array of this signature,
    /// and whether they end with an element.
    pub fn elements_in(&self, bytes: u64) -> (u64, bool) {
        if self.bytes == 0 {
            return (0, bytes == 0);
        }
        let (whole, rest) = (bytes / self.bytes, bytes % self.bytes);
        let (more, exact) = self.elements_of_one(rest);
        (whole.saturating_mul(self.elements).saturating_add(more), exact)
    }

    /// Does the same for less than all bytes of one datatype.
    fn elements_of_one(&self, bytes: u64) -> (u64, bool) {
        if bytes == 0 {
            return (0, true);
        }
        match &self.shape {
            Shape::Run => {
                let size = self.bytes / self.elements;
                (bytes / size, bytes.is_multiple_of(size))
            }
            Shape::Repeat(child) => child.elements_in(bytes),
            Shape::Parts(parts) => {
                let next = parts.partition_point(|(before, ..)| *before < bytes);
                let (before, elements, part) = &parts[next - 1];
                let (more, exact) = part.elements_in(bytes - before);
                (elements + more, exact)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &[usize]) -> Signature {
        Signature::sequence(sizes.iter().map(|s| Signature::run(*s)))
    }

    #[test]
    fn runs_of_one_size_are_joined() {
        assert_eq!(sizes(&[4, 4, 4]), Signature::run(4).repeated(3));
        assert_eq!(sizes(&[]), Signature::EMPTY);
        assert_eq!(sizes(&[0, 8, 0]), Signature::run(8));
    }

    #[test]
    fn elements_are_counted_as_by_a_list() {
        let part = sizes(&[4, 8, 8, 1]);
        let list = [4u64, 8, 8, 1, 4, 8, 8, 1, 4, 8, 8, 1, 2];
        let all = Signature::sequence([part.repeated(3), Signature::run(2)].into_iter());
        assert_eq!(all.elements(), list.len() as u64);
        let total: u64 = list.iter().sum();
        for bytes in 0..=3 * total {
            let (mut left, mut elements) = (bytes, 0);
            for size in list.iter().cycle() {
                if left < *size {
                    break;
                }
                left -= size;
                elements += 1;
            }
            assert_eq!(all.elements_in(bytes), (elements, left == 0), "{bytes} bytes");
        }
    }
}
