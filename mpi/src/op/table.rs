//! The operations of a process, by handle.

use std::sync::Arc;

use super::{Builtin, Kernel, Operation, UserOp, kernel};
use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Op, Table, invalid};

/// An operation that is to be done on elements of one type.
#[derive(Clone)]
pub enum Prepared {
    /// The loop of a predefined operation.
    Kernel(Kernel),
    /// A function of the program.
    User {
        /// The function.
        function: Arc<dyn UserOp>,
        /// True if the order of operands does not matter.
        commutative: bool,
    },
}

/// All operations of a process.
#[derive(Debug, Default)]
pub struct Ops {
    made: Table<Op, Operation>,
}

impl Ops {
    /// Creates the predefined operations.
    pub fn new() -> Ops {
        Ops::default()
    }

    /// Adds an operation of the program.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn create(&mut self, function: Arc<dyn UserOp>, commutative: bool) -> Result<Op> {
        self.made.insert(Operation::User { function, commutative })
    }

    /// Returns an operation.
    ///
    /// # Errors
    /// [`Class::OP`] if the handle names nothing.
    pub fn get(&self, op: Op) -> Result<Operation> {
        match Builtin::of(op) {
            Some(builtin) => Ok(Operation::Builtin(builtin)),
            None => self.made.get(op).cloned(),
        }
    }

    /// Frees an operation of the program. Whatever uses it goes on with it.
    ///
    /// # Errors
    /// [`Class::OP`] if the handle names nothing or a predefined operation.
    pub fn free(&mut self, op: Op) -> Result<()> {
        if let Some(builtin) = Builtin::of(op) {
            let text =
                format!("{} is predefined and cannot be freed; free those that were made", builtin.name());
            return Err(MpiError::new(Class::OP, text));
        }
        self.made.remove(op).map(drop)
    }

    /// Number of operations that were made and not freed.
    pub fn live(&self) -> usize {
        self.made.len()
    }

    /// Returns an operation for elements of a type.
    ///
    /// # Errors
    /// [`Class::OP`] if the handle names nothing, or an operation that MPI does not allow on this
    /// type.
    pub fn prepare(&self, op: Op, desc: &TypeDesc) -> Result<Prepared> {
        let builtin = match Builtin::of(op) {
            Some(builtin) => builtin,
            None => match self.made.find(op) {
                Some(Operation::User { function, commutative }) => {
                    return Ok(Prepared::User { function: Arc::clone(function), commutative: *commutative });
                }
                _ => return Err(invalid(op)),
            },
        };
        match desc.basic {
            Some(basic) => kernel(builtin, basic).map(Prepared::Kernel),
            None => {
                let name = builtin.name();
                let text = format!("{name} is not defined on derived datatypes; make an operation for it");
                Err(MpiError::new(Class::OP, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Form, Types};
    use crate::handle::Datatype;

    #[test]
    fn operations_are_found_and_freed() {
        struct Nothing;
        impl UserOp for Nothing {
            #[allow(unsafe_code)]
            unsafe fn combine(&self, _: *const u8, _: *mut u8, _: usize, _: Datatype) {}
        }
        let (mut ops, types) = (Ops::new(), Types::new());
        let int = types.desc(Datatype(0x4c00_0405)).unwrap();
        let two = TypeDesc::contiguous(2, &int, Form::Int).unwrap();
        let float = types.desc(Datatype(0x4c00_040a)).unwrap();
        let class = |r: Result<Prepared>| r.map(|_| ()).map_err(|e| e.class);
        assert_eq!(class(ops.prepare(Builtin::Sum.handle(), &int)), Ok(()));
        let copy = TypeDesc::dup(&int, Form::Int);
        assert_eq!(class(ops.prepare(Builtin::Sum.handle(), &copy)), Ok(()));
        assert_eq!(class(ops.prepare(Builtin::Sum.handle(), &two)), Err(Class::OP));
        assert_eq!(class(ops.prepare(Builtin::Band.handle(), &float)), Err(Class::OP));
        assert_eq!(class(ops.prepare(Op::NULL, &int)), Err(Class::OP));
        let made = ops.create(Arc::new(Nothing), false).unwrap();
        assert_eq!(class(ops.prepare(made, &two)), Ok(()));
        assert!(!ops.get(made).unwrap().is_commutative());
        assert_eq!(ops.live(), 1);
        ops.free(made).unwrap();
        assert_eq!(ops.get(made).unwrap_err().class, Class::OP);
        assert_eq!(ops.free(Builtin::Max.handle()).unwrap_err().class, Class::OP);
    }
}
