//! Types that Fortran asks for by precision and range, and pairs that are asked for by their parts.
//!
//! They are predefined: a second request for the same gives the same handle, and they are not
//! freed.

use super::basic::{BASICS, Basic, basic};
use super::envelope::{Combiner, Envelope, Form, Item};
use super::{TypeDesc, Types};
use crate::consts::UNDEFINED;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;

/// A kind of numbers: decimal digits, decimal exponents, and the real and complex type.
struct Kind {
    digits: i32,
    range: i32,
    real: &'static str,
    complex: &'static str,
}

const fn kind(digits: i32, range: i32, real: &'static str, complex: &'static str) -> Kind {
    Kind { digits, range, real, complex }
}

/// The kinds of GNU Fortran, from the smallest on. The third is x87's.
const KINDS: [Kind; 4] = [
    kind(6, 37, "MPI_REAL4", "MPI_COMPLEX8"),
    kind(15, 307, "MPI_REAL8", "MPI_COMPLEX16"),
    kind(X87_DIGITS, 4931, "MPI_LONG_DOUBLE", "MPI_C_LONG_DOUBLE_COMPLEX"),
    kind(33, 4931, "MPI_REAL16", "MPI_COMPLEX32"),
];

/// None is found by its digits where the processor does not have the format.
const X87_DIGITS: i32 = if cfg!(target_arch = "x86_64") { 18 } else { -1 };

/// Decimal digits of the kinds of integers.
const INTEGERS: [(i32, &str); 5] = [
    (2, "MPI_INTEGER1"),
    (4, "MPI_INTEGER2"),
    (9, "MPI_INTEGER4"),
    (18, "MPI_INTEGER8"),
    (38, "MPI_INTEGER16"),
];

/// The predefined pairs: their value, their index, and the pair.
const PAIRS: [[&str; 3]; 9] = [
    ["MPI_FLOAT", "MPI_INT", "MPI_FLOAT_INT"],
    ["MPI_DOUBLE", "MPI_INT", "MPI_DOUBLE_INT"],
    ["MPI_LONG", "MPI_INT", "MPI_LONG_INT"],
    ["MPI_SHORT", "MPI_INT", "MPI_SHORT_INT"],
    ["MPI_INT", "MPI_INT", "MPI_2INT"],
    ["MPI_LONG_DOUBLE", "MPI_INT", "MPI_LONG_DOUBLE_INT"],
    ["MPI_INTEGER", "MPI_INTEGER", "MPI_2INTEGER"],
    ["MPI_REAL", "MPI_REAL", "MPI_2REAL"],
    ["MPI_DOUBLE_PRECISION", "MPI_DOUBLE_PRECISION", "MPI_2DOUBLE_PRECISION"],
];

fn named(name: &str) -> Option<&'static Basic> {
    BASICS.iter().find(|b| b.name == name)
}

#[cold]
fn no_kind(what: &str, p: i32, r: i32) -> Box<MpiError> {
    let text = format!(
        "no {what} type has {} decimal digits and the exponent range {}; at least one must be given, and the largest kind \
         has 33 and 4931, of integers 38 digits",
        shown(p),
        shown(r)
    );
    MpiError::new(Class::ARG, text)
}

fn shown(number: i32) -> String {
    if number == UNDEFINED { "MPI_UNDEFINED".to_owned() } else { number.to_string() }
}

impl Types {
    /// Returns the real or complex type with at least these digits and this range.
    ///
    /// # Errors
    /// [`Class::ARG`] if there is none, or if nothing is asked for.
    pub(crate) fn f90_float(&mut self, p: i32, r: i32, complex: bool) -> Result<Datatype> {
        let (combiner, what) =
            if complex { (Combiner::F90Complex, "complex") } else { (Combiner::F90Real, "real") };
        let enough = |asked: i32, has: i32| asked == UNDEFINED || (0..=has).contains(&asked);
        let asked = p != UNDEFINED || r != UNDEFINED;
        let found = KINDS.iter().find(|k| asked && k.digits > 0 && enough(p, k.digits) && enough(r, k.range));
        let name = found.map(|k| if complex { k.complex } else { k.real });
        let basic = name.and_then(named).ok_or_else(|| no_kind(what, p, r))?;
        self.of_kind(combiner, &[p, r], basic)
    }

    /// Returns the integer type with at least so many digits.
    ///
    /// # Errors
    /// [`Class::ARG`] if there is none.
    pub(crate) fn f90_integer(&mut self, r: i32) -> Result<Datatype> {
        let found = INTEGERS.iter().find(|(digits, _)| (0..=*digits).contains(&r));
        let basic = found.and_then(|(_, name)| named(name));
        self.of_kind(Combiner::F90Integer, &[r], basic.ok_or_else(|| no_kind("integer", r, UNDEFINED))?)
    }

    fn of_kind(&mut self, combiner: Combiner, numbers: &[i32], basic: &'static Basic) -> Result<Datatype> {
        let items: Vec<Item> = numbers.iter().map(|n| Item::Int(*n)).collect();
        if let Some(known) = self.f90_of(combiner, &items) {
            return Ok(known);
        }
        let envelope = Envelope::new(combiner, Form::Int, items);
        self.add_f90(TypeDesc { envelope, ..TypeDesc::named(basic) })
    }

    /// Returns the predefined pair of a value and an index; null if there is none.
    ///
    /// # Errors
    /// [`Class::TYPE`] for a type that does not exist.
    pub(crate) fn pair_of(&self, value: Datatype, index: Datatype) -> Result<Datatype> {
        self.get(value)?;
        self.get(index)?;
        let found = basic(value)
            .zip(basic(index))
            .and_then(|(value, index)| PAIRS.iter().find(|[v, i, _]| *v == value.name && *i == index.name));
        Ok(found.and_then(|[.., pair]| named(pair)).map_or(Datatype::NULL, |b| b.handle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(types: &Types, handle: Datatype) -> &'static str {
        types.get(handle).expect("a type").desc.basic.expect("a basic type").name
    }

    #[test]
    fn the_smallest_kind_that_is_enough_is_taken() {
        let mut types = Types::new();
        let mut real = |p, r| types.f90_float(p, r, false).map(|t| name_of(&types, t));
        assert_eq!(real(6, 37), Ok("MPI_REAL4"));
        assert_eq!(real(7, UNDEFINED), Ok("MPI_REAL8"));
        assert_eq!(real(UNDEFINED, 38), Ok("MPI_REAL8"));
        assert_eq!(real(33, 4931), Ok("MPI_REAL16"));
        let extended = if cfg!(target_arch = "x86_64") { "MPI_LONG_DOUBLE" } else { "MPI_REAL16" };
        assert_eq!(real(18, 4000), Ok(extended));
        for (p, r) in [(34, 1), (1, 4932), (-1, 1), (UNDEFINED, UNDEFINED)] {
            assert_eq!(real(p, r).map_err(|e| e.class), Err(Class::ARG), "{p}, {r}");
        }
        let complex = types.f90_float(15, 300, true).expect("a kind");
        assert_eq!(name_of(&types, complex), "MPI_COMPLEX16");
        for (r, name) in
            [(0, "MPI_INTEGER1"), (9, "MPI_INTEGER4"), (10, "MPI_INTEGER8"), (38, "MPI_INTEGER16")]
        {
            let integer = types.f90_integer(r).expect("a kind");
            assert_eq!(name_of(&types, integer), name);
        }
        assert_eq!(types.f90_integer(39).map_err(|e| e.class), Err(Class::ARG));
    }

    #[test]
    fn the_same_request_gives_the_same_type_which_stays() {
        let mut types = Types::new();
        let first = types.f90_float(6, 30, false).expect("a kind");
        assert_eq!(types.f90_float(6, 30, false), Ok(first));
        assert_ne!(types.f90_float(6, 31, false), Ok(first));
        assert!(types.committed(first, 1).is_ok());
        assert_eq!(types.remove(first).map_err(|e| e.class).map(|_| ()), Err(Class::TYPE));
        assert_eq!(types.live(), 0);
        let (numbers, parts) = types.contents(first).expect("contents");
        assert_eq!((numbers.integers, parts), (vec![6, 30], vec![]));
        let old = types.desc(first).expect("a type");
        let pair = types.add(TypeDesc::contiguous(2, &old, Form::Int).expect("two")).expect("room");
        assert_eq!(types.contents(pair).expect("contents").1, [first]);
    }

    #[test]
    fn pairs_are_found_by_their_parts() {
        let types = Types::new();
        let of = |value, index| {
            let handle = |name| named(name).expect("a type").handle;
            types.pair_of(handle(value), handle(index)).expect("types")
        };
        assert_eq!(of("MPI_FLOAT", "MPI_INT"), named("MPI_FLOAT_INT").expect("a type").handle);
        assert_eq!(of("MPI_INTEGER", "MPI_INTEGER"), named("MPI_2INTEGER").expect("a type").handle);
        assert_eq!(of("MPI_FLOAT", "MPI_LONG"), Datatype::NULL);
        assert_eq!(types.pair_of(Datatype::NULL, Datatype::NULL).map_err(|e| e.class), Err(Class::TYPE));
    }
}
