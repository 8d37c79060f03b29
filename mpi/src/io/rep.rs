//! Representations of data in files.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use crate::datatype::{Bound, TypeDesc, external_size};
use crate::error::{Class, MpiError, Result};
use crate::guest;
use crate::handle::Datatype;

/// The functions of a data representation of the program (`MPI_Register_datarep`).
pub trait UserDatarep: Send + Sync {
    /// Returns the bytes that an element of a predefined type has in a file.
    ///
    /// # Errors
    /// The error that the program's function returns.
    fn extent(&self, datatype: Datatype) -> Result<i64>;

    /// Returns true if data is converted when it is read, or when it is written. Otherwise it is in
    /// the file as in memory.
    fn converts(&self, reads: bool) -> bool;

    /// Sets `count` elements in memory to what `file` has.
    ///
    /// # Safety
    /// `memory` has so many elements of the type, and `file` as many in the representation.
    ///
    /// # Errors
    /// The error that the program's function returns.
    unsafe fn read(&self, memory: *mut u8, datatype: Datatype, count: i64, file: *mut u8) -> Result<()>;

    /// Sets `file` to what `count` elements in memory are.
    ///
    /// # Safety
    /// As for [`UserDatarep::read`].
    ///
    /// # Errors
    /// The error that the program's function returns.
    unsafe fn write(&self, memory: *mut u8, datatype: Datatype, count: i64, file: *mut u8) -> Result<()>;
}

/// The representation of data in a view.
#[derive(Clone)]
pub(super) enum Rep {
    /// Data has the bytes of memory.
    Native,
    External32,
    User(Arc<dyn UserDatarep>),
}

impl fmt::Debug for Rep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rep::Native => "Native",
            Rep::External32 => "External32",
            Rep::User(_) => "User",
        })
    }
}

impl Rep {
    /// Returns a type as the file has it. Nothing may be locked.
    ///
    /// # Errors
    /// The error that the program's function returns, or a size that it cannot be.
    pub(super) fn in_file(&self, desc: &Arc<TypeDesc>) -> Result<Arc<TypeDesc>> {
        match self {
            Rep::Native => Ok(Arc::clone(desc)),
            Rep::External32 => desc.in_file(&external_size),
            Rep::User(functions) => desc.in_file(&|basic| {
                let what = "the extent function of a data representation";
                let extent = guest::call(what, || functions.extent(basic.handle))?;
                usize::try_from(extent).map_err(|_| {
                    let text = format!("{what} says that {} has {extent} bytes", basic.name);
                    MpiError::new(Class::CONVERSION, text)
                })
            }),
        }
    }

    /// Returns true if memory has to be converted.
    pub(super) fn converts(&self, reads: bool) -> bool {
        match self {
            Rep::Native => false,
            Rep::External32 => true,
            Rep::User(functions) => functions.converts(reads),
        }
    }
}

/// Memory whose data has another form in the file.
#[derive(Debug)]
pub(super) struct Converted {
    pub rep: Rep,
    pub memory: Bound,
    /// The type's handle, which functions of the program are told.
    pub datatype: Datatype,
    /// Bytes of one element in the file.
    pub element: u64,
}

impl Converted {
    /// Returns the bytes that the data has in the file.
    pub(super) fn len(&self) -> u64 {
        match self.rep {
            Rep::External32 => self.memory.external_len(),
            _ => self.element.saturating_mul(self.memory.raw().1.unsigned_abs()),
        }
    }

    /// Returns the data as the file has it. Nothing may be locked.
    ///
    /// # Errors
    /// [`Class::CONVERSION`] for a value that has no room; what the program's function returns.
    pub(super) fn to_file(&self) -> Result<Vec<u8>> {
        let Rep::User(functions) = &self.rep else { return self.memory.to_external() };
        let (at, count) = self.memory.raw();
        let mut file = vec![0; usize::try_from(self.len()).unwrap_or(0)];
        if !file.is_empty() {
            let what = "the write function of a data representation";
            // SAFETY: the memory is lent to the operation, and the vector has so many elements.
            guest::call(what, || unsafe { functions.write(at, self.datatype, count, file.as_mut_ptr()) })?;
        }
        Ok(file)
    }

    /// Sets the data, or its first whole elements, to what the file has. Returns the bytes of
    /// memory that are set. Nothing may be locked.
    ///
    /// # Errors
    /// The error that the program's function returns.
    pub(super) fn set(&self, file: &mut [u8]) -> Result<usize> {
        let Rep::User(functions) = &self.rep else { return Ok(self.memory.set_external(file)) };
        let whole = (file.len() as u64).checked_div(self.element).unwrap_or(0);
        let (at, _) = self.memory.raw();
        if whole > 0 {
            let what = "the read function of a data representation";
            // SAFETY: the memory is lent to the operation; the file's data has so many elements.
            guest::call(what, || unsafe {
                functions.read(at, self.datatype, whole as i64, file.as_mut_ptr())
            })?;
        }
        Ok(whole as usize * self.memory.desc().size())
    }
}
