//! Error codes.

use crate::error::{MpiError, Result};
use crate::instance::Mpi;

impl Mpi {
    /// Returns a code for an error, whose text is kept for a while.
    pub fn error_code(&self, error: &MpiError) -> i32 {
        self.codes().code(error)
    }

    /// Returns the class of a code (`MPI_Error_class`).
    ///
    /// # Errors
    /// A number that is no code.
    pub fn error_class(&self, code: i32) -> Result<i32> {
        self.codes().class(code)
    }

    /// Returns the text of a code (`MPI_Error_string`).
    ///
    /// # Errors
    /// A number that is no code.
    pub fn error_string(&self, code: i32) -> Result<String> {
        self.codes().string(code)
    }

    /// Adds an error class (`MPI_Add_error_class`).
    ///
    /// # Errors
    /// None; the signature is that of all functions.
    pub fn add_error_class(&self) -> Result<i32> {
        Ok(self.codes().add_class())
    }

    /// Adds a code of a class (`MPI_Add_error_code`).
    ///
    /// # Errors
    /// A number that is no class.
    pub fn add_error_code(&self, class: i32) -> Result<i32> {
        self.codes().add_code(class)
    }

    /// Sets the text of a code of the user (`MPI_Add_error_string`).
    ///
    /// # Errors
    /// A number that the user has not added.
    pub fn add_error_string(&self, code: i32, text: &str) -> Result<()> {
        self.codes().add_string(code, text)
    }
}
