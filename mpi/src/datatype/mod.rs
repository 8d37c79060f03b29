//! Datatypes: predefined and derived.
//!
//! A [`TypeDesc`] is immutable and shared. Its layout is a [`netmod_core::Datatype`], which is
//! normalised when it is made, and compiled to a move program when it is committed
//! ([`netmod_core::segment`] says how); pack, unpack and all transports walk that program. Its
//! [`Signature`] counts basic elements, for the number of elements received, accumulate and the
//! external representation; its [`Envelope`] keeps the arguments that made it. `basic` is the table
//! of predefined types, `make` and `array` are the constructors, `table` has the types of a process
//! by handle, and `buf` the buffers of calls.

pub mod array;
pub mod basic;
mod blocks;
mod buf;
mod desc;
mod envelope;
pub mod external;
mod fortran;
mod in_file;
mod make;
mod signature;
mod table;
#[cfg(test)]
mod tests;

pub use array::Darray;
pub use blocks::Blocks;
pub use buf::{Bound, Buf};
pub use desc::TypeDesc;
pub use envelope::{Combiner, Contents, Envelope, Form, Item};
pub(crate) use in_file::external_size;
pub use signature::Signature;
pub use table::{TypeEntry, Types};
