//! Operations of reductions, and data that is packed.

#![allow(unsafe_code)]

use std::sync::Arc;

use crate::coll::reduce_local;
use crate::datatype::{Buf, external};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Datatype, Op};
use crate::instance::Mpi;
use crate::op::{Operation, UserOp};

impl Mpi {
    /// Creates an operation of a function of the program (`MPI_Op_create`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn op_create(&self, function: Arc<dyn UserOp>, commutative: bool) -> Result<Op> {
        self.with(|s| s.objects.ops.create(function, commutative))
    }

    /// Frees an operation, and makes its handle null (`MPI_Op_free`). Calls that use it go on.
    ///
    /// # Errors
    /// A bad handle, a predefined operation.
    pub fn op_free(&self, op: &mut Op) -> Result<()> {
        self.with(|s| s.objects.ops.free(*op))?;
        *op = Op::NULL;
        Ok(())
    }

    /// Returns the function of an operation of the program.
    ///
    /// # Errors
    /// A bad handle, a predefined operation.
    pub fn op_function(&self, op: Op) -> Result<Arc<dyn UserOp>> {
        match self.with(|s| s.objects.ops.get(op))? {
            Operation::User { function, .. } => Ok(function),
            Operation::Builtin(builtin) => {
                let text = format!("{} is predefined: it has no function of the program", builtin.name());
                Err(MpiError::new(Class::OP, text))
            }
        }
    }

    /// Returns true if the order of operands does not matter (`MPI_Op_commutative`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn op_commutative(&self, op: Op) -> Result<bool> {
        self.with(|s| s.objects.ops.get(op).map(|operation| operation.is_commutative()))
    }

    /// Sets each element of `inout` to `input op inout` (`MPI_Reduce_local`).
    ///
    /// # Errors
    /// A bad handle or count; an operation that the type does not have; buffers that are one.
    pub fn reduce_local(&self, input: Buf, inout: Buf, op: Op) -> Result<()> {
        let work = self.with(|s| reduce_local(&s.objects.types, &s.objects.ops, &input, &inout, op))?;
        // A function of the program runs while nothing is locked.
        if let Some(work) = work {
            work.run();
        }
        Ok(())
    }

    /// Packs a buffer behind the first `position` of `size` bytes at `out`, and moves the position
    /// behind it (`MPI_Pack`).
    ///
    /// # Errors
    /// A bad handle or count; too little room.
    ///
    /// # Safety
    /// `size` bytes at `out` must be writable and no part of the buffer.
    pub unsafe fn pack(
        &self,
        buf: Buf,
        out: *mut u8,
        size: i64,
        position: &mut i64,
        comm: Comm,
    ) -> Result<()> {
        self.with(|s| {
            s.objects.comms.get(comm)?;
            // SAFETY: by the contract of this function.
            *position = unsafe { s.objects.types.pack(&buf, out, size, *position)? };
            Ok(())
        })
    }

    /// Unpacks a buffer from what is behind the first `position` of `size` bytes at `input`, and
    /// moves the position behind it (`MPI_Unpack`).
    ///
    /// # Errors
    /// As [`Mpi::pack`].
    ///
    /// # Safety
    /// `size` bytes at `input` must be readable and no part of the buffer.
    pub unsafe fn unpack(
        &self,
        input: *const u8,
        size: i64,
        position: &mut i64,
        buf: Buf,
        comm: Comm,
    ) -> Result<()> {
        self.with(|s| {
            s.objects.comms.get(comm)?;
            // SAFETY: by the contract of this function.
            *position = unsafe { s.objects.types.unpack(input, size, *position, &buf)? };
            Ok(())
        })
    }

    /// Works like [`Mpi::pack`] in an external representation (`MPI_Pack_external`).
    ///
    /// # Errors
    /// As [`Mpi::pack`]; another representation than `external32`; a value that has no room in it.
    ///
    /// # Safety
    /// As for [`Mpi::pack`].
    pub unsafe fn pack_external(
        &self,
        datarep: &str,
        buf: Buf,
        out: *mut u8,
        size: i64,
        position: &mut i64,
    ) -> Result<()> {
        check_datarep(datarep)?;
        self.with(|s| {
            // SAFETY: by the contract of this function.
            *position = unsafe { s.objects.types.pack_external(&buf, out, size, *position)? };
            Ok(())
        })
    }

    /// Works like [`Mpi::unpack`] in an external representation (`MPI_Unpack_external`).
    ///
    /// # Errors
    /// As [`Mpi::unpack`]; another representation than `external32`.
    ///
    /// # Safety
    /// As for [`Mpi::unpack`].
    pub unsafe fn unpack_external(
        &self,
        datarep: &str,
        input: *const u8,
        size: i64,
        position: &mut i64,
        buf: Buf,
    ) -> Result<()> {
        check_datarep(datarep)?;
        self.with(|s| {
            // SAFETY: by the contract of this function.
            *position = unsafe { s.objects.types.unpack_external(input, size, *position, &buf)? };
            Ok(())
        })
    }

    /// Returns the bytes that `count` elements have in an external representation
    /// (`MPI_Pack_external_size`).
    ///
    /// # Errors
    /// A bad handle or count; another representation than `external32`.
    pub fn pack_external_size(&self, datarep: &str, count: i64, datatype: Datatype) -> Result<i64> {
        check_datarep(datarep)?;
        self.with(|s| s.objects.types.pack_external_size(count, datatype))
    }
}

fn check_datarep(datarep: &str) -> Result<()> {
    if datarep == external::NAME {
        return Ok(());
    }
    let text = format!("datarep is {datarep:?}; {:?} is the one for packed data", external::NAME);
    Err(MpiError::new(Class::ARG, text))
}
