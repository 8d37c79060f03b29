//! Reads and writes: MPI's functions.

use std::sync::Arc;

use super::data::{Access, Way, Where};
use super::file::{OpenFile, Split};
use super::group::{all, ordered};
use super::port::Collective;
use crate::datatype::Buf;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, File, Request};
use crate::instance::{Mpi, State};
use crate::request::Kind;
use crate::status::Status;

impl Mpi {
    /// Returns a file, and the access that a call asks of it.
    fn file_access(
        &self,
        fh: File,
        way: Way,
        place: Where,
        buf: Buf,
    ) -> Result<(Arc<OpenFile>, Result<Access>)> {
        let (file, memory) = self.with(|s| Ok((s.objects.files.get(fh)?, s.objects.types.bound(&buf))))?;
        let access = memory.and_then(|memory| file.access(way, place, memory, buf.datatype()));
        let access = access.map_err(|e| file.raised(e));
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
        let buf = self.kept(buf)?;
        let (file, access) = self.file_access(fh, way, place, buf)?;
        let task = Collective::nonblocking(&file.core, fh.0, |port| all(port, access));
        self.file_task(task, buf)
    }

    /// Reads or writes in the order of ranks.
    fn file_move_ordered(&self, fh: File, way: Way, buf: Buf) -> Result<Status> {
        let (file, memory) = self.with(|s| Ok((s.objects.files.get(fh)?, s.objects.types.bound(&buf))))?;
        let checked = memory.and_then(|memory| file.checked(way, Where::Shared, memory, buf.datatype()));
        let own = Arc::clone(&file);
        let mut task = Collective::blocking(&file.core, fh.0, |port| ordered(port, own, checked));
        self.run_task(&mut task)
    }

    /// Starts to read or write in the order of ranks.
    fn file_start_ordered(&self, fh: File, way: Way, buf: Buf) -> Result<Request> {
        let buf = self.kept(buf)?;
        let (file, memory) = self.with(|s| Ok((s.objects.files.get(fh)?, s.objects.types.bound(&buf))))?;
        let checked = memory.and_then(|memory| file.checked(way, Where::Shared, memory, buf.datatype()));
        let own = Arc::clone(&file);
        let task = Collective::nonblocking(&file.core, fh.0, |port| ordered(port, own, checked));
        self.file_task(task, buf)
    }

    /// Returns a buffer whose type has a handle of its own, since the program may free the type
    /// while the operation goes on, and functions of the program are told the handle. A buffer that
    /// is wrong stays as it is.
    fn kept(&self, buf: Buf) -> Result<Buf> {
        self.with(|s| match s.objects.types.find(buf.datatype()).map(|entry| Arc::clone(&entry.desc)) {
            Some(desc) if desc.handle().is_none() && s.objects.types.committed(buf.datatype(), 0).is_ok() => {
                let own: Datatype = s.objects.types.lend(&desc)?;
                Ok(buf.elements(buf.count(), own))
            }
            _ => Ok(buf),
        })
    }

    /// Adds a request for the task of a buffer that is kept.
    fn file_task(&self, mut task: Collective, buf: Buf) -> Result<Request> {
        self.with(|s| {
            let State { objects, requests, .. } = s;
            let derived =
                objects.types.find(buf.datatype()).is_some_and(|entry| entry.desc.handle().is_none());
            if derived {
                task.frees(buf.datatype());
            }
            requests.insert(Kind::Task(Some(Box::new(task))))
        })
    }

    /// Begins a split collective.
    fn file_begin(&self, fh: File, split: Split, start: impl FnOnce() -> Result<Request>) -> Result<()> {
        let file = self.with(|s| s.objects.files.get(fh))?;
        if let Some((active, _)) = &*file.split.lock() {
            let text = format!(
                "file {}: MPI_File_{}_begin while MPI_File_{}_begin has not ended; call MPI_File_{}_end first",
                file.name,
                split.name(),
                active.name(),
                active.name()
            );
            return Err(file.raised(MpiError::new(Class::IO, text)));
        }
        let request = start()?;
        *file.split.lock() = Some((split, request));
        Ok(())
    }

    /// Ends a split collective.
    fn file_end(&self, fh: File, split: Split) -> Result<Status> {
        let file = self.with(|s| s.objects.files.get(fh))?;
        let taken = file.split.lock().take_if(|(active, _)| *active == split);
        let Some((_, mut request)) = taken else {
            let text = format!(
                "file {}: MPI_File_{}_end without its begin; call MPI_File_{}_begin first",
                file.name,
                split.name(),
                split.name()
            );
            return Err(file.raised(MpiError::new(Class::IO, text)));
        };
        self.wait(&mut request)
    }
}

/// Writes the forms of an access.
macro_rules! accesses {
    ($($mpi:literal: $name:ident $method:ident $place:ident -> $result:ty, $way:ident;)*) => {
        impl Mpi {$(
            #[doc = concat!("`MPI_", $mpi, "`.\n\n# Errors\nA bad handle, buffer or access; what the file system says.")]
            pub fn $name(&self, fh: File, buf: Buf) -> Result<$result> {
                self.$method(fh, Way::$way, Where::$place, buf)
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
    "File_read": file_read file_move Pointer -> Status, Read;
    "File_write": file_write file_move Pointer -> Status, Write;
    "File_read_shared": file_read_shared file_move Shared -> Status, Read;
    "File_write_shared": file_write_shared file_move Shared -> Status, Write;
    "File_read_all": file_read_all file_move_all Pointer -> Status, Read;
    "File_write_all": file_write_all file_move_all Pointer -> Status, Write;
    "File_iread": file_iread file_start Pointer -> Request, Read;
    "File_iwrite": file_iwrite file_start Pointer -> Request, Write;
    "File_iread_shared": file_iread_shared file_start Shared -> Request, Read;
    "File_iwrite_shared": file_iwrite_shared file_start Shared -> Request, Write;
    "File_iread_all": file_iread_all file_start_all Pointer -> Request, Read;
    "File_iwrite_all": file_iwrite_all file_start_all Pointer -> Request, Write;
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

impl Mpi {
    /// Reads in the order of ranks (`MPI_File_read_ordered`).
    ///
    /// # Errors
    /// In all processes: a bad buffer or access; what the file system says.
    pub fn file_read_ordered(&self, fh: File, buf: Buf) -> Result<Status> {
        self.file_move_ordered(fh, Way::Read, buf)
    }

    /// Writes in the order of ranks (`MPI_File_write_ordered`).
    ///
    /// # Errors
    /// In all processes: a bad buffer or access; what the file system says.
    pub fn file_write_ordered(&self, fh: File, buf: Buf) -> Result<Status> {
        self.file_move_ordered(fh, Way::Write, buf)
    }
}

/// Writes the halves of the split collectives. The second ones do not need the buffer again.
macro_rules! splits {
    ($($split:ident $way:ident: $begin:ident($($offset:ident)?), $end:ident, $start:ident($($place:expr)?);)*) => {
        impl Mpi {$(
            #[doc = concat!("Begins a split collective (`MPI_F", stringify!($begin), "`).\n\n# Errors\nA bad handle; another one that has not ended.")]
            pub fn $begin(&self, fh: File, $($offset: i64,)? buf: Buf) -> Result<()> {
                self.file_begin(fh, Split::$split, || self.$start(fh, Way::$way, $($place,)? buf))
            }

            #[doc = concat!("Ends a split collective (`MPI_F", stringify!($end), "`).\n\n# Errors\nA bad handle; one that has not begun; the failure of the access.")]
            pub fn $end(&self, fh: File) -> Result<Status> {
                self.file_end(fh, Split::$split)
            }
        )*}
    };
}

splits! {
    ReadAll Read: file_read_all_begin(), file_read_all_end, file_start_all(Where::Pointer);
    WriteAll Write: file_write_all_begin(), file_write_all_end, file_start_all(Where::Pointer);
    ReadAtAll Read: file_read_at_all_begin(offset), file_read_at_all_end, file_start_all(Where::Offset(offset));
    WriteAtAll Write: file_write_at_all_begin(offset), file_write_at_all_end, file_start_all(Where::Offset(offset));
    ReadOrdered Read: file_read_ordered_begin(), file_read_ordered_end, file_start_ordered();
    WriteOrdered Write: file_write_ordered_begin(), file_write_ordered_end, file_start_ordered();
}
