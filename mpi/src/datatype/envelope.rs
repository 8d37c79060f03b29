//! The constructor of a datatype and its arguments, for `MPI_Type_get_envelope` and its kin.

/// The constructor of a datatype, by MPICH's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Combiner {
    Named = 1,
    Dup = 2,
    Contiguous = 3,
    Vector = 4,
    Hvector = 6,
    Indexed = 7,
    Hindexed = 9,
    IndexedBlock = 10,
    Struct = 12,
    Subarray = 13,
    Darray = 14,
    F90Real = 15,
    F90Complex = 16,
    F90Integer = 17,
    Resized = 18,
    HindexedBlock = 19,
}

/// The form of the function that made a datatype, which decides how its arguments are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// Counts were `int`, displacements in bytes addresses.
    #[default]
    Int,
    /// The `_c` function: both were `MPI_Count`.
    Count,
}

/// One number among the arguments of a constructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// An `int` in both forms.
    Int(i32),
    /// An `int`, or a count in the large form.
    Count(i64),
    /// An address, or a count in the large form.
    Address(i64),
}

/// The constructor and the numbers that made a datatype.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The constructor.
    pub combiner: Combiner,
    /// The form that was called.
    pub form: Form,
    /// The numbers, in the order of the arguments.
    pub items: Vec<Item>,
}

/// The numbers of an envelope as MPI gives them back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Integers.
    pub integers: Vec<i32>,
    /// Addresses.
    pub addresses: Vec<i64>,
    /// Large counts.
    pub counts: Vec<i64>,
}

impl Envelope {
    /// Returns the envelope of a predefined type.
    pub fn named() -> Envelope {
        Envelope { combiner: Combiner::Named, form: Form::Int, items: Vec::new() }
    }

    /// Creates one from the arguments of a constructor.
    pub fn new(combiner: Combiner, form: Form, items: Vec<Item>) -> Envelope {
        Envelope { combiner, form, items }
    }

    /// Returns the numbers by kind.
    pub fn contents(&self) -> Contents {
        let mut c = Contents::default();
        for item in &self.items {
            match (*item, self.form) {
                (Item::Int(v), _) => c.integers.push(v),
                // The int form has no larger values.
                (Item::Count(v), Form::Int) => c.integers.push(v as i32),
                (Item::Address(v), Form::Int) => c.addresses.push(v),
                (Item::Count(v) | Item::Address(v), Form::Count) => c.counts.push(v),
            }
        }
        c
    }
}
