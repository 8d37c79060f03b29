//! Datatypes as a file has them, whose predefined types may have other sizes than in memory.

use std::sync::Arc;

use super::basic::{BASICS, Basic};
use super::{Bound, Combiner, Darray, Form, Item, TypeDesc};
use crate::error::{Class, MpiError, Result};

/// Returns the bytes that a predefined type has in a file.
pub(crate) type SizeOf<'a> = &'a dyn Fn(&'static Basic) -> Result<usize>;

/// Returns the bytes that a predefined type has in the representation `external32`.
///
/// # Errors
/// None; the signature is that of all sizes.
pub(crate) fn external_size(basic: &'static Basic) -> Result<usize> {
    Ok(TypeDesc::named(basic).signature.external_size(1).unwrap_or(basic.size))
}

/// The numbers of a constructor, which are read in their order.
struct Numbers<'a>(std::slice::Iter<'a, Item>);

impl Numbers<'_> {
    fn next(&mut self) -> i64 {
        match self.0.next() {
            Some(Item::Int(v)) => i64::from(*v),
            Some(Item::Count(v) | Item::Address(v)) => *v,
            None => 0,
        }
    }

    fn many(&mut self, n: i64) -> Vec<i64> {
        (0..n).map(|_| self.next()).collect()
    }

    fn ints(&mut self, n: i64) -> Vec<i32> {
        (0..n).map(|_| self.next() as i32).collect()
    }
}

impl TypeDesc {
    /// Makes the same type of predefined types as a file has them. Displacements and strides in
    /// elements are those of the file; in bytes they stay what they are.
    ///
    /// # Errors
    /// Those of `size`; sizes or bounds out of range.
    pub(crate) fn in_file(self: &Arc<TypeDesc>, size: SizeOf<'_>) -> Result<Arc<TypeDesc>> {
        const FORM: Form = Form::Count;
        if let Some(basic) = self.basic {
            let bytes = size(basic)?;
            let as_in_memory = bytes == basic.size && basic.extent() == basic.size;
            return if as_in_memory { Ok(Arc::clone(self)) } else { opaque(bytes) };
        }
        let parts = self.parts.iter().map(|part| part.in_file(size)).collect::<Result<Vec<_>>>()?;
        if parts.iter().zip(&self.parts).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return Ok(Arc::clone(self));
        }
        let Some(part) = parts.first() else { return Ok(Arc::clone(self)) };
        let mut numbers = Numbers(self.envelope.items.iter());
        let made = match self.envelope.combiner {
            Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
                return Ok(Arc::clone(self));
            }
            Combiner::Dup => return Ok(Arc::clone(part)),
            Combiner::Contiguous => TypeDesc::contiguous(numbers.next(), part, FORM),
            Combiner::Vector => {
                let (count, len, stride) = (numbers.next(), numbers.next(), numbers.next());
                TypeDesc::vector(count, len, stride, part, FORM)
            }
            Combiner::Hvector => {
                let (count, len, stride) = (numbers.next(), numbers.next(), numbers.next());
                TypeDesc::hvector(count, len, stride, part, FORM)
            }
            Combiner::Indexed | Combiner::Hindexed | Combiner::Struct => {
                let n = numbers.next();
                let (lens, displs) = (numbers.many(n), numbers.many(n));
                match self.envelope.combiner {
                    Combiner::Indexed => TypeDesc::indexed(&lens, &displs, part, FORM),
                    Combiner::Hindexed => TypeDesc::hindexed(&lens, &displs, part, FORM),
                    _ => TypeDesc::structure(&lens, &displs, &parts, FORM),
                }
            }
            Combiner::IndexedBlock | Combiner::HindexedBlock => {
                let (n, len) = (numbers.next(), numbers.next());
                let displs = numbers.many(n);
                match self.envelope.combiner {
                    Combiner::IndexedBlock => TypeDesc::indexed_block(len, &displs, part, FORM),
                    _ => TypeDesc::hindexed_block(len, &displs, part, FORM),
                }
            }
            Combiner::Subarray => {
                let n = numbers.next();
                let (sizes, subsizes, starts) = (numbers.many(n), numbers.many(n), numbers.many(n));
                TypeDesc::subarray(&sizes, &subsizes, &starts, numbers.next() as i32, part, FORM)
            }
            Combiner::Darray => {
                let (size, rank, n) = (numbers.next() as i32, numbers.next() as i32, numbers.next());
                let gsizes = numbers.many(n);
                let (distribs, dargs, psizes) = (numbers.ints(n), numbers.ints(n), numbers.ints(n));
                let order = numbers.next() as i32;
                let (gsizes, distribs) = (&*gsizes, &*distribs);
                let args = Darray { size, rank, gsizes, distribs, dargs: &dargs, psizes: &psizes, order };
                TypeDesc::darray(&args, part, FORM)
            }
            Combiner::Resized => TypeDesc::resized(numbers.next(), numbers.next(), part, FORM),
        };
        made.map(Arc::new)
    }
}

/// Makes a type of so many bytes.
fn opaque(bytes: usize) -> Result<Arc<TypeDesc>> {
    let byte = BASICS.iter().find(|b| b.name == "MPI_BYTE");
    let byte = byte.ok_or_else(|| MpiError::new(Class::INTERN, "there is no MPI_BYTE"))?;
    TypeDesc::contiguous(bytes as i64, &Arc::new(TypeDesc::named(byte)), Form::Int).map(Arc::new)
}

impl Bound {
    /// Returns the bytes that the data has in `external32`.
    pub(crate) fn external_len(&self) -> u64 {
        self.desc().signature.external_size(self.count()).map_or(u64::MAX, |n| n as u64)
    }

    /// Returns the data in `external32`.
    ///
    /// # Errors
    /// [`Class::CONVERSION`] for a value that has no room.
    pub(crate) fn to_external(&self) -> Result<Vec<u8>> {
        let mut data = self.segment();
        let mut native = Vec::new();
        data.pack_vec(data.total(), &mut native);
        self.desc().signature.emit(self.count(), &native)
    }

    /// Sets the data, or the first part of it, to what is given in `external32`. Returns the bytes
    /// of memory that are set: those of whole elements.
    pub(crate) fn set_external(&self, external: &[u8]) -> usize {
        let native = self.desc().signature.parse(self.count(), external);
        self.segment().unpack(netmod_core::RxBytes::from_slice(&native))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Types;
    use crate::handle::Datatype;

    const LONG: Datatype = Datatype(0x4c00_0807);
    const INT: Datatype = Datatype(0x4c00_0405);

    #[test]
    fn elements_have_their_sizes_in_the_file() {
        let types = Types::new();
        let (long, int) = (types.desc(LONG).expect("long"), types.desc(INT).expect("int"));
        let in_file = |desc: TypeDesc| {
            let desc = Arc::new(desc).in_file(&external_size).expect("small");
            (desc.size(), desc.extent())
        };
        let form = Form::Int;
        assert_eq!(in_file(TypeDesc::contiguous(3, &long, form).expect("small")), (12, 12));
        assert_eq!(in_file(TypeDesc::vector(3, 1, 2, &long, form).expect("small")), (12, 20));
        assert_eq!(in_file(TypeDesc::hvector(3, 1, 16, &long, form).expect("small")), (12, 36));
        assert_eq!(in_file(TypeDesc::indexed(&[1, 2], &[0, 3], &long, form).expect("small")), (12, 20));
        assert_eq!(in_file(TypeDesc::indexed_block(2, &[0, 3], &long, form).expect("small")), (16, 20));
        let parts = [Arc::clone(&long), Arc::clone(&int)];
        assert_eq!(in_file(TypeDesc::structure(&[1, 1], &[0, 8], &parts, form).expect("small")), (8, 12));
        let array = TypeDesc::subarray(&[4, 4], &[2, 2], &[1, 1], 56, &long, form).expect("small");
        assert_eq!(in_file(array), (16, 64));
        let (gsizes, distribs, dargs, psizes) = ([4, 4], [121, 123], [-49767, -49767], [2, 1]);
        let args = Darray {
            size: 2,
            rank: 1,
            gsizes: &gsizes,
            distribs: &distribs,
            dargs: &dargs,
            psizes: &psizes,
            order: 56,
        };
        assert_eq!(in_file(TypeDesc::darray(&args, &long, form).expect("small")), (32, 64));
        assert_eq!(in_file(TypeDesc::resized(0, 64, &long, form).expect("small")), (4, 64));
        let ints = Arc::new(TypeDesc::vector(3, 1, 2, &int, form).expect("small"));
        assert!(Arc::ptr_eq(&ints, &ints.in_file(&external_size).expect("small")), "nothing changes");
    }
}
