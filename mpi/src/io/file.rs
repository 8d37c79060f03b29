//! Open files, and the handles that name them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::hints::Hints;
use super::rep::UserDatarep;
use super::shared::Shared;
use super::storage::{Disk, closed};
use super::view::View;
use crate::comm::CommCore;
use crate::consts::{MODE_RDONLY, MODE_SEQUENTIAL, MODE_WRONLY};
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Errhandler, File, Request, Table};

/// The settings of an open file that belong to a process.
#[derive(Debug)]
pub(super) struct Settings {
    pub view: Arc<View>,
    /// The individual file pointer, in etypes.
    pub position: u64,
    pub atomic: bool,
    pub hints: Hints,
}

/// A split collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    ReadAll,
    WriteAll,
    ReadAtAll,
    WriteAtAll,
    ReadOrdered,
    WriteOrdered,
}

impl Split {
    /// Returns the part of its name in MPI that is its own.
    pub(super) fn name(self) -> &'static str {
        match self {
            Split::ReadAll => "read_all",
            Split::WriteAll => "write_all",
            Split::ReadAtAll => "read_at_all",
            Split::WriteAtAll => "write_at_all",
            Split::ReadOrdered => "read_ordered",
            Split::WriteOrdered => "write_ordered",
        }
    }
}

/// An open file of a group of processes.
pub(crate) struct OpenFile {
    /// The group, with a context of its own.
    pub(super) core: Arc<CommCore>,
    pub(super) amode: i32,
    pub(super) name: String,
    /// `None` once it was closed.
    pub(super) disk: Mutex<Option<Arc<Disk>>>,
    pub(super) settings: Mutex<Settings>,
    pub(super) shared: Shared,
    /// The split collective that has begun.
    pub(super) split: Mutex<Option<(Split, Request)>>,
    /// Number of its handle.
    pub(super) handle: AtomicU32,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Returns the file of the system.
    ///
    /// # Errors
    /// If it was closed meanwhile.
    pub(super) fn disk(&self) -> Result<Arc<Disk>> {
        self.disk.lock().clone().ok_or_else(|| closed(&self.name))
    }

    /// Returns the number of its handle.
    pub(super) fn number(&self) -> u32 {
        self.handle.load(Ordering::Relaxed)
    }

    /// Notes in an error that it is one of this file.
    #[cold]
    pub(super) fn raised(&self, mut error: Box<MpiError>) -> Box<MpiError> {
        error.comm = Some(self.number());
        error
    }

    /// Checks that the file may be read.
    ///
    /// # Errors
    /// [`Class::ACCESS`] if it is open for writing alone.
    pub(super) fn check_readable(&self) -> Result<()> {
        if self.amode & MODE_WRONLY == 0 {
            return Ok(());
        }
        let text =
            format!("file {} is open with MPI_MODE_WRONLY; open it with MPI_MODE_RDWR to read", self.name);
        Err(MpiError::new(Class::ACCESS, text))
    }

    /// Checks that the file may be written.
    ///
    /// # Errors
    /// [`Class::READ_ONLY`] if it is open for reading alone.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.amode & MODE_RDONLY == 0 {
            return Ok(());
        }
        let text =
            format!("file {} is open with MPI_MODE_RDONLY; open it with MPI_MODE_RDWR to write", self.name);
        Err(MpiError::new(Class::READ_ONLY, text))
    }

    /// Checks that the file may be accessed at places that the process chooses.
    ///
    /// # Errors
    /// [`Class::UNSUPPORTED_OPERATION`] if it is sequential.
    pub(super) fn check_random(&self) -> Result<()> {
        if self.amode & MODE_SEQUENTIAL == 0 {
            return Ok(());
        }
        let text = format!(
            "file {} is open with MPI_MODE_SEQUENTIAL: only the shared file pointer serves it (MPI_File_read_shared)",
            self.name
        );
        Err(MpiError::new(Class::UNSUPPORTED_OPERATION, text))
    }
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    pub file: Arc<OpenFile>,
    pub errhandler: Errhandler,
}

/// The open files of a process, the error handler of those to come (`MPI_FILE_NULL`), and the
/// program's data representations.
pub(crate) struct Files {
    pub table: Table<File, Entry>,
    pub errhandler: Errhandler,
    /// The file whose close has failed last, and its error handler.
    pub(super) closed: Option<(File, Handler)>,
    pub(super) datareps: Vec<(String, Arc<dyn UserDatarep>)>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Default for Files {
    fn default() -> Files {
        Files { table: Table::new(), errhandler: Errhandler::RETURN, closed: None, datareps: Vec::new() }
    }
}

impl Files {
    /// The communicators of all files.
    pub(crate) fn cores(&self) -> impl Iterator<Item = &CommCore> {
        self.table.iter().map(|(_, entry)| &*entry.file.core)
    }

    /// Returns an open file.
    ///
    /// # Errors
    /// A bad handle.
    pub(crate) fn get(&self, file: File) -> Result<Arc<OpenFile>> {
        self.table.get(file).map(|entry| Arc::clone(&entry.file))
    }

    /// Returns the place of an error handler.
    ///
    /// # Errors
    /// A bad handle.
    pub(crate) fn errhandler(&mut self, file: File) -> Result<&mut Errhandler> {
        match file.is_null() {
            true => Ok(&mut self.errhandler),
            false => self.table.get_mut(file).map(|entry| &mut entry.errhandler),
        }
    }
}
