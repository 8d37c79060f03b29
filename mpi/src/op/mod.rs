//! Operations of reductions: the predefined ones and those of users.
//!
//! [`kernel`] gives the loops of a predefined operation over one predefined type; a loop reads and
//! writes plain bytes, so that no alignment is asked for, and compiles to vector instructions, with
//! the longest vectors that the processor has (`wide`). `arithmetic` has the loops over numbers,
//! `pairs` those of MINLOC and MAXLOC; `half`, `x87` and `f128` have arithmetic that Rust does not
//! have.

mod arithmetic;
mod f128;
mod half;
mod pairs;
mod table;
#[cfg(test)]
mod tests;
mod user;
mod wide;
mod x87;

pub use table::{Ops, Prepared};
pub use user::UserOp;

use core::fmt;
use std::sync::Arc;

use self::wide::Vectors;
use crate::datatype::basic::{Basic, Kind};
use crate::error::{Class, MpiError, Result};
use crate::handle::Op;

/// A predefined operation, by the number in its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Builtin {
    Max = 1,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

/// High bits of the handles of predefined operations.
const PREDEFINED: u32 = 0x5800_0000;

impl Builtin {
    /// All of them, by their numbers from 1 on.
    pub const ALL: [Builtin; 14] = {
        use Builtin::*;
        [Max, Min, Sum, Prod, Land, Band, Lor, Bor, Lxor, Bxor, Minloc, Maxloc, Replace, NoOp]
    };

    /// Returns the operation of a predefined handle.
    pub fn of(op: Op) -> Option<Builtin> {
        let number = op.0.checked_sub(PREDEFINED + 1)?;
        Self::ALL.get(number as usize).copied()
    }

    /// Returns its handle.
    pub fn handle(self) -> Op {
        Op(PREDEFINED + self as u32)
    }

    /// Returns its name in MPI.
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Max => "MPI_MAX",
            Builtin::Min => "MPI_MIN",
            Builtin::Sum => "MPI_SUM",
            Builtin::Prod => "MPI_PROD",
            Builtin::Land => "MPI_LAND",
            Builtin::Band => "MPI_BAND",
            Builtin::Lor => "MPI_LOR",
            Builtin::Bor => "MPI_BOR",
            Builtin::Lxor => "MPI_LXOR",
            Builtin::Bxor => "MPI_BXOR",
            Builtin::Minloc => "MPI_MINLOC",
            Builtin::Maxloc => "MPI_MAXLOC",
            Builtin::Replace => "MPI_REPLACE",
            Builtin::NoOp => "MPI_NO_OP",
        }
    }

    /// Returns true if MPI allows it on types of a group (MPI 4.1, sections 6.9.2 and 6.9.4).
    pub fn takes(self, kind: Kind) -> bool {
        use Kind::{Byte, Complex, Float, FortranInteger, Integer, Logical, Pair};
        match self {
            Builtin::Max | Builtin::Min => matches!(kind, Integer | FortranInteger | Float),
            Builtin::Sum | Builtin::Prod => matches!(kind, Integer | FortranInteger | Float | Complex),
            Builtin::Land | Builtin::Lor | Builtin::Lxor => matches!(kind, Integer | Logical),
            Builtin::Band | Builtin::Bor | Builtin::Bxor => matches!(kind, Integer | FortranInteger | Byte),
            Builtin::Minloc | Builtin::Maxloc => kind == Pair,
            // Accumulations alone have them.
            Builtin::Replace | Builtin::NoOp => false,
        }
    }
}

/// A loop with a right operand that becomes the result, and one whose result is elsewhere.
type InPlace = fn(&[u8], &mut [u8]);
type Apart = fn(&[u8], &[u8], &mut [u8]);

/// The loops of a predefined operation over one type.
///
/// All arrays have the same length, which is that of whole elements at their extent, but for a gap
/// at the end of the last one.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    in_place: InPlace,
    /// `None` if it is done in place, after a copy.
    apart: Option<Apart>,
}

impl Kernel {
    /// Sets `inout` to `input op inout`, element by element.
    #[inline]
    pub fn combine(self, input: &[u8], inout: &mut [u8]) {
        (self.in_place)(input, inout);
    }

    /// Sets `result` to `left op right`, element by element.
    #[inline]
    pub fn combine_into(self, left: &[u8], right: &[u8], result: &mut [u8]) {
        match self.apart {
            Some(apart) => apart(left, right, result),
            None => {
                result.copy_from_slice(right);
                (self.in_place)(left, result);
            }
        }
    }
}

/// Returns the loops of an operation over a predefined type.
///
/// # Errors
/// [`Class::OP`] if MPI does not allow the operation on this type, or if this machine has no
/// arithmetic for it.
pub fn kernel(op: Builtin, basic: &Basic) -> Result<Kernel> {
    kernel_with(op, basic, Vectors::longest())
}

fn kernel_with(op: Builtin, basic: &Basic, vectors: Vectors) -> Result<Kernel> {
    if !op.takes(basic.kind) {
        return Err(MpiError::new(Class::OP, format!("{} is not defined on {}", op.name(), basic.name)));
    }
    arithmetic::kernel(op, basic.repr, vectors).or_else(|| pairs::kernel(op, basic.repr)).ok_or_else(|| {
        let text = format!("{} on {}: this machine has no such arithmetic", op.name(), basic.name);
        MpiError::new(Class::OP, text)
    })
}

/// An operation, as a reduction uses it.
#[derive(Clone)]
pub enum Operation {
    /// A predefined one.
    Builtin(Builtin),
    /// One of the program.
    User {
        /// The function.
        function: Arc<dyn UserOp>,
        /// True if the order of operands does not matter.
        commutative: bool,
    },
}

impl Operation {
    /// Returns true if the order of operands does not matter.
    pub fn is_commutative(&self) -> bool {
        match self {
            Operation::Builtin(_) => true,
            Operation::User { commutative, .. } => *commutative,
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Builtin(op) => f.write_str(op.name()),
            Operation::User { commutative, .. } => write!(f, "user operation (commutative: {commutative})"),
        }
    }
}
