//! Data access: reads and writes of one process, and of all.

use std::sync::Arc;

use netmod_core::Segment;

use super::access::{self, At};
use super::file::OpenFile;
use super::hints::Hints;
use super::port::{Collective, Port};
use super::storage::Disk;
use super::view::View;
use crate::datatype::{Bound, Buf};
use crate::error::{Class, MpiError, Result};
use crate::handle::{File, Request};
use crate::instance::Mpi;
use crate::request::Kind;
use crate::status::Status;

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// The place of an access.
#[derive(Clone, Copy, Debug)]
enum Where {
    /// An offset, in etypes.
    Offset(i64),
    /// The individual file pointer.
    Pointer,
}

/// An access that was checked: everything that is needed without the lock.
struct Access {
    way: Way,
    disk: Arc<Disk>,
    view: Arc<View>,
    hints: Hints,
    atomic: bool,
    /// Number of the first byte of data in the view.
    data: u64,
    memory: Bound,
}

impl Access {
    /// Moves the data.
    fn run(&self) -> Result<Status> {
        let at = At { view: &self.view, data: self.data };
        let mut memory: Segment = self.memory.segment();
        let moved = match self.way {
            Way::Read => access::read(&self.disk, at, &self.hints, self.atomic, &mut memory)?,
            Way::Write => {
                let all = memory.remaining();
                access::write(&self.disk, at, &self.hints, self.atomic, &mut memory).map(|()| all)?
            }
        };
        Ok(Status { count_bytes: moved as i64, ..Status::EMPTY })
    }
}

impl OpenFile {
    /// Checks an access, and moves the individual file pointer behind what it accesses.
    ///
    /// # Errors
    /// What the file's mode or view does not permit.
    fn access(&self, way: Way, place: Where, memory: Bound) -> Result<Access> {
        match way {
            Way::Read => self.check_readable()?,
            Way::Write => self.check_writable()?,
        }
        self.check_random()?;
        let mut settings = self.settings.lock();
        let view = Arc::clone(&settings.view);
        let bytes = memory.segment().total() as u64;
        if !bytes.is_multiple_of(view.unit()) {
            let text = format!(
                "file {}: the access has {bytes} bytes, and the etype of the view {}: access whole etypes",
                self.name,
                view.unit()
            );
            return Err(MpiError::new(Class::IO, text));
        }
        let offset = match place {
            Where::Pointer => settings.position,
            Where::Offset(offset) => self.natural("offset", offset)?,
        };
        let data = view.span_of_access(offset, bytes)?;
        if matches!(place, Where::Pointer) {
            settings.position = offset + bytes / view.unit();
        }
        let (hints, atomic) = (settings.hints.clone(), settings.atomic);
        Ok(Access { way, disk: self.disk()?, view, hints, atomic, data, memory })
    }

    /// Returns a number that must not be negative.
    ///
    /// # Errors
    /// [`Class::ARG`] if it is.
    pub(super) fn natural(&self, what: &str, n: i64) -> Result<u64> {
        u64::try_from(n).map_err(|_| {
            MpiError::new(Class::ARG, format!("file {}: {what} is {n}: it must not be negative", self.name))
        })
    }
}

impl View {
    /// Returns the first byte of data of an access, all of which some file has.
    ///
    /// # Errors
    /// An access beyond all files.
    fn span_of_access(&self, offset: u64, bytes: u64) -> Result<u64> {
        let first = self.byte_offset(offset).map(|_| offset * self.unit())?;
        self.span(first, bytes).map(|_| first)
    }
}

/// A collective access, in which a process takes part though its own arguments are wrong.
async fn all(port: Port, access: Result<Access>) -> Result<Status> {
    let done = match access {
        Ok(access) => port.outside(move || access.run()).await,
        Err(e) => Err(e),
    };
    port.settle(done).await
}

impl Mpi {
    /// Checks an access of a file.
    fn file_access(
        &self,
        fh: File,
        way: Way,
        place: Where,
        buf: Buf,
    ) -> Result<(Arc<OpenFile>, Result<Access>)> {
        let (file, memory) = self.with(|s| Ok((s.objects.files.get(fh)?, s.objects.types.bound(&buf))))?;
        let access = memory.and_then(|memory| file.access(way, place, memory)).map_err(|e| file.raised(e));
        Ok((file, access))
    }

    /// Reads or writes.
    fn file_move(&self, fh: File, way: Way, place: Where, buf: Buf) -> Result<Status> {
        let (file, access) = self.file_access(fh, way, place, buf)?;
        access?.run().map_err(|e| file.raised(e))
    }

    /// Reads or writes before it returns a request.
    fn file_start(&self, fh: File, way: Way, place: Where, buf: Buf) -> Result<Request> {
        let (file, access) = self.file_access(fh, way, place, buf)?;
        let done = access?.run().map_err(|e| file.raised(e));
        self.with(|s| s.requests.insert(Kind::Over(done)))
    }

    /// Reads or writes with all processes of the file.
    fn file_move_all(&self, fh: File, way: Way, place: Where, buf: Buf) -> Result<Status> {
        let (file, access) = self.file_access(fh, way, place, buf)?;
        let mut task = Collective::blocking(&file.core, fh.0, |port| all(port, access));
        self.run_task(&mut task)
    }

    /// Starts to read or write with all processes of the file.
    fn file_start_all(&self, fh: File, way: Way, place: Where, buf: Buf) -> Result<Request> {
        let (file, access) = self.file_access(fh, way, place, buf)?;
        let task = Collective::nonblocking(&file.core, fh.0, |port| all(port, access));
        self.with(|s| s.requests.insert(Kind::Task(Some(Box::new(task)))))
    }
}

/// Writes the forms of an access.
macro_rules! accesses {
    ($($mpi:literal: $name:ident $method:ident -> $result:ty, $way:ident;)*) => {
        impl Mpi {$(
            #[doc = concat!("`MPI_", $mpi, "`.\n\n# Errors\nA bad handle, buffer or access; what the file system says.")]
            pub fn $name(&self, fh: File, buf: Buf) -> Result<$result> {
                self.$method(fh, Way::$way, Where::Pointer, buf)
            }
        )*}
    };
    (at $($mpi:literal: $name:ident $method:ident -> $result:ty, $way:ident;)*) => {
        impl Mpi {$(
            #[doc = concat!("`MPI_", $mpi, "`.\n\n# Errors\nA bad handle, offset, buffer or access; what the file system says.")]
            pub fn $name(&self, fh: File, offset: i64, buf: Buf) -> Result<$result> {
                self.$method(fh, Way::$way, Where::Offset(offset), buf)
            }
        )*}
    };
}

accesses! {
    "File_read": file_read file_move -> Status, Read;
    "File_write": file_write file_move -> Status, Write;
    "File_read_all": file_read_all file_move_all -> Status, Read;
    "File_write_all": file_write_all file_move_all -> Status, Write;
    "File_iread": file_iread file_start -> Request, Read;
    "File_iwrite": file_iwrite file_start -> Request, Write;
    "File_iread_all": file_iread_all file_start_all -> Request, Read;
    "File_iwrite_all": file_iwrite_all file_start_all -> Request, Write;
}

accesses! { at
    "File_read_at": file_read_at file_move -> Status, Read;
    "File_write_at": file_write_at file_move -> Status, Write;
    "File_read_at_all": file_read_at_all file_move_all -> Status, Read;
    "File_write_at_all": file_write_at_all file_move_all -> Status, Write;
    "File_iread_at": file_iread_at file_start -> Request, Read;
    "File_iwrite_at": file_iwrite_at file_start -> Request, Write;
    "File_iread_at_all": file_iread_at_all file_start_all -> Request, Read;
    "File_iwrite_at_all": file_iwrite_at_all file_start_all -> Request, Write;
}
