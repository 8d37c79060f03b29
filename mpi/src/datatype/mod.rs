//! Datatypes: predefined and derived.
//!
//! A [`TypeDesc`] is immutable and shared: its layout is compiled to a
//! [`netmod_core::Datatype`], which segments walk; its [`Signature`] counts basic elements; its
//! [`Envelope`] keeps the arguments that made it. `basic` is the table of predefined types, `make`
//! and `array` are the constructors.

pub mod array;
pub mod basic;
mod desc;
mod envelope;
mod make;
mod signature;
#[cfg(test)]
mod tests;

pub use array::Darray;
pub use desc::TypeDesc;
pub use envelope::{Combiner, Contents, Envelope, Form, Item};
pub use signature::Signature;
