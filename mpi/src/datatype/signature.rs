//! Signatures: the predefined types of a datatype in order, for `MPI_Get_elements` and for
//! external data.

use std::sync::Arc;

use super::basic::Basic;
use super::external::External;
use crate::error::Result;

/// The sequence of basic elements of one datatype, kept by runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    bytes: u64,
    /// Bytes in the external representation.
    external: u64,
    elements: u64,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// `elements` elements of the same size and the same external form.
    Run(External),
    Repeat(Arc<Signature>),
    /// Parts, each with the bytes and elements before it.
    Parts(Arc<[(u64, u64, Signature)]>),
}

impl Signature {
    /// The signature of no elements.
    pub const EMPTY: Signature =
        Signature { bytes: 0, external: 0, elements: 0, shape: Shape::Run(External::Units(1)) };

    fn run(size: usize, form: External) -> Signature {
        let external = form.size(size) as u64;
        Signature { bytes: size as u64, external, elements: u64::from(size > 0), shape: Shape::Run(form) }
    }

    /// Returns that of a predefined type; a pair has two elements.
    pub fn basic(basic: &Basic) -> Signature {
        let [first, second] = External::of(basic);
        match basic.pair() {
            None => Signature::run(basic.size, first),
            Some(pair) => {
                let parts = [Signature::run(pair.first, first), Signature::run(pair.second, second)];
                Signature::sequence(parts.into_iter())
            }
        }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Returns the size and external form of the elements if all have the same.
    fn element(&self) -> Option<(u64, External)> {
        match self.shape {
            Shape::Run(form) if self.elements > 0 => Some((self.bytes / self.elements, form)),
            _ => None,
        }
    }

    /// Calls `each` with form and bytes of each run of elements in `times` repetitions.
    ///
    /// # Errors
    /// That of `each`, with which it ends.
    pub(super) fn each_run(
        &self,
        times: u64,
        each: &mut dyn FnMut(External, u64) -> Result<()>,
    ) -> Result<()> {
        if self.bytes == 0 || times == 0 {
            return Ok(());
        }
        match &self.shape {
            Shape::Run(form) => each(*form, self.bytes * times),
            Shape::Repeat(child) => child.each_run(times * (self.bytes / child.bytes), each),
            Shape::Parts(parts) => {
                (0..times).try_for_each(|_| parts.iter().try_for_each(|(_, _, p)| p.each_run(1, each)))
            }
        }
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
            Shape::Run(form) => Shape::Run(*form),
            Shape::Repeat(child) => Shape::Repeat(Arc::clone(child)),
            Shape::Parts(_) => Shape::Repeat(Arc::new(self.clone())),
        };
        Signature {
            bytes: self.bytes.saturating_mul(count),
            external: self.external.saturating_mul(count),
            elements: self.elements.saturating_mul(count),
            shape,
        }
    }

    /// Joins signatures. The caller has checked that the bytes are representable.
    pub fn sequence(parts: impl Iterator<Item = Signature>) -> Signature {
        let mut all: Vec<(u64, u64, Signature)> = Vec::new();
        let (mut bytes, mut external, mut elements) = (0u64, 0u64, 0u64);
        for part in parts.filter(|p| p.bytes > 0) {
            let (part_bytes, part_elements) = (part.bytes, part.elements);
            external = external.saturating_add(part.external);
            match all.last_mut() {
                Some((_, _, last)) if last.element().is_some() && last.element() == part.element() => {
                    last.bytes += part_bytes;
                    last.external += part.external;
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
            _ => Signature { bytes, external, elements, shape: Shape::Parts(all.into()) },
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
            Shape::Run(_) => {
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

impl Signature {
    /// Converts packed elements: `count` times this signature.
    ///
    /// # Errors
    /// [`Class::CONVERSION`] if a value has no room.
    pub(super) fn emit(&self, count: u64, native: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.external_size(count).unwrap_or(0));
        let mut rest = native;
        self.each_run(count, &mut |external, bytes| {
            let (run, behind) = rest.split_at(usize::try_from(bytes).unwrap_or(usize::MAX).min(rest.len()));
            rest = behind;
            external.emit(run, &mut out)
        })?;
        Ok(out)
    }

    /// Converts external elements to packed ones.
    ///
    /// There are [`Signature::external_size`] bytes of them.
    pub(super) fn parse(&self, count: u64, external: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = external;
        let all = self.each_run(count, &mut |way, bytes| {
            let bytes = way.size(usize::try_from(bytes).unwrap_or(usize::MAX));
            let (run, behind) = rest.split_at(bytes.min(rest.len()));
            rest = behind;
            way.parse(run, &mut out);
            Ok(())
        });
        debug_assert!(all.is_ok(), "values have room in memory");
        out
    }

    /// Returns the bytes that `count` times this signature have externally; `None` if there are too
    /// many.
    pub(super) fn external_size(&self, count: u64) -> Option<usize> {
        usize::try_from(self.external.checked_mul(count)?).ok().filter(|n| *n <= isize::MAX as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::basic::BASICS;
    use super::*;
    use crate::error::Class;

    fn run(size: usize) -> Signature {
        Signature::run(size, External::Units(1))
    }

    fn sizes(sizes: &[usize]) -> Signature {
        Signature::sequence(sizes.iter().map(|s| run(*s)))
    }

    #[test]
    fn runs_of_one_size_are_joined() {
        assert_eq!(sizes(&[4, 4, 4]), run(4).repeated(3));
        assert_eq!(sizes(&[]), Signature::EMPTY);
        assert_eq!(sizes(&[0, 8, 0]), run(8));
    }

    #[test]
    fn elements_are_counted_as_by_a_list() {
        let part = sizes(&[4, 8, 8, 1]);
        let list = [4u64, 8, 8, 1, 4, 8, 8, 1, 4, 8, 8, 1, 2];
        let all = Signature::sequence([part.repeated(3), run(2)].into_iter());
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

    fn signature(name: &str) -> Signature {
        Signature::basic(BASICS.iter().find(|b| b.name == name).expect("a type"))
    }

    #[track_caller]
    fn both_ways(name: &str, native: &[u8], external: &[u8]) {
        let signature = signature(name);
        assert_eq!(signature.emit(1, native).as_deref(), Ok(external), "{name}");
        assert_eq!(signature.parse(1, external), native, "{name}");
        assert_eq!(signature.external_size(1), Some(external.len()), "{name}");
    }

    #[test]
    fn numbers_are_big_endian_and_have_the_sizes_of_the_standard() {
        both_ways("MPI_SHORT", &(-2i16).to_le_bytes(), &[0xff, 0xfe]);
        both_ways("MPI_INT", &0x1020_3040i32.to_le_bytes(), &[0x10, 0x20, 0x30, 0x40]);
        both_ways("MPI_LONG", &(-2i64).to_le_bytes(), &[0xff, 0xff, 0xff, 0xfe]);
        both_ways("MPI_UNSIGNED_LONG", &0xffff_fffeu64.to_le_bytes(), &[0xff, 0xff, 0xff, 0xfe]);
        both_ways("MPI_LONG_LONG_INT", &1i64.to_le_bytes(), &[0, 0, 0, 0, 0, 0, 0, 1]);
        both_ways("MPI_WCHAR", &0x20acu32.to_le_bytes(), &[0x20, 0xac]);
        both_ways("MPI_DOUBLE", &1.5f64.to_le_bytes(), &1.5f64.to_be_bytes());
        let complex = [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat();
        both_ways("MPI_COMPLEX", &complex, &[1.0f32.to_be_bytes(), 2.0f32.to_be_bytes()].concat());
        let pair = [7i64.to_le_bytes().as_slice(), &9i32.to_le_bytes()].concat();
        both_ways("MPI_LONG_INT", &pair, &[0, 0, 0, 7, 0, 0, 0, 9]);
    }

    #[test]
    fn a_value_without_room_is_an_error() {
        let class = |name: &str, native: &[u8]| signature(name).emit(1, native).map_err(|e| e.class);
        assert_eq!(class("MPI_LONG", &(1i64 << 31).to_le_bytes()), Err(Class::CONVERSION));
        assert_eq!(class("MPI_UNSIGNED_LONG", &(-1i64).to_le_bytes()), Err(Class::CONVERSION));
        assert_eq!(class("MPI_WCHAR", &0x1_f600u32.to_le_bytes()), Err(Class::CONVERSION));
    }

    #[test]
    fn runs_of_several_types_follow_each_other() {
        let parts = [signature("MPI_CHAR").repeated(3), signature("MPI_LONG"), signature("MPI_SHORT")];
        let all = Signature::sequence(parts.into_iter());
        let native = [b"abc".as_slice(), &5i64.to_le_bytes(), &6i16.to_le_bytes()].concat();
        let external = [b"abc".as_slice(), &[0, 0, 0, 5, 0, 6]].concat();
        assert_eq!(all.repeated(2).emit(1, &native.repeat(2)), Ok(external.repeat(2)));
        assert_eq!(all.emit(3, &native.repeat(3)), Ok(external.repeat(3)));
        assert_eq!(all.parse(3, &external.repeat(3)), native.repeat(3));
        assert_eq!(all.external_size(3), Some(27));
        assert_eq!(all.external_size(u64::MAX), None);
    }
}
