//! An access to a file: what it needs, and how one process makes it alone.

use std::sync::Arc;

use netmod_core::Segment;

use super::access::{self, At};
use super::file::OpenFile;
use super::hints::Hints;
use super::rep::Converted;
use super::storage::Disk;
use super::view::View;
use crate::datatype::Bound;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::status::Status;

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

/// The place of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// An offset, in etypes.
    Offset(i64),
    /// The individual file pointer.
    Pointer,
    /// The shared file pointer.
    Shared,
}

/// The memory of an access.
#[derive(Debug)]
pub(super) enum Data {
    /// It has the bytes of the file.
    Plain(Bound),
    Converted(Converted),
}

impl Data {
    /// Returns the bytes that the data has in the file.
    fn len(&self) -> u64 {
        match self {
            Data::Plain(memory) => memory.segment().total() as u64,
            Data::Converted(converted) => converted.len(),
        }
    }
}

/// An access that was checked, without its place: everything that is needed without the lock.
#[derive(Debug)]
pub(super) struct Checked {
    pub way: Way,
    pub disk: Arc<Disk>,
    pub view: Arc<View>,
    pub hints: Hints,
    pub atomic: bool,
    pub memory: Data,
}

/// An access that was checked.
#[derive(Debug)]
pub(super) struct Access {
    pub of: Checked,
    /// Number of the first byte of data in the view.
    pub data: u64,
}

/// The bytes of an access as they stand in the file: in memory, or converted.
pub(super) enum Stream {
    Memory(Segment),
    Packed(Vec<u8>),
}

impl Checked {
    /// Returns the bytes of data in the file.
    pub(super) fn len(&self) -> u64 {
        self.memory.len()
    }

    /// Returns the number of etypes.
    pub(super) fn etypes(&self) -> u64 {
        self.len() / self.view.unit()
    }

    /// Returns the access at an offset in etypes.
    ///
    /// # Errors
    /// An access beyond all files.
    pub(super) fn at(self, offset: u64) -> Result<Access> {
        let data = self.view.span_of_access(offset, self.len())?;
        Ok(Access { of: self, data })
    }
}

impl Access {
    fn at(&self) -> At<'_> {
        At { view: &self.of.view, data: self.data }
    }

    /// Makes the access alone. Nothing may be locked, since functions of the program may be called.
    ///
    /// # Errors
    /// Those of the file system, and of the representation.
    pub(super) fn run(&self) -> Result<Status> {
        let Checked { way, disk, hints, atomic, memory, .. } = &self.of;
        let moved = match (way, memory) {
            (Way::Write, Data::Plain(memory)) => {
                access::write(disk, self.at(), hints, *atomic, &mut memory.segment())?;
                memory.segment().total()
            }
            (Way::Write, Data::Converted(converted)) => {
                access::write_packed(disk, self.at(), hints, *atomic, &converted.to_file()?)?;
                return Ok(self.written());
            }
            (Way::Read, Data::Plain(memory)) => {
                access::read(disk, self.at(), hints, *atomic, &mut memory.segment())?
            }
            (Way::Read, Data::Converted(converted)) => {
                let mut room = self.room(converted.len())?;
                let got = access::read_packed(disk, self.at(), hints, *atomic, &mut room)?;
                converted.set(&mut room[..got])?
            }
        };
        Ok(status(moved))
    }

    /// Makes the access alone, with the bytes of [`Access::stream`].
    ///
    /// # Errors
    /// As [`Access::run`].
    pub(super) fn run_on(&self, stream: Stream) -> Result<Status> {
        let Checked { way, disk, hints, atomic, .. } = &self.of;
        match (way, stream) {
            (Way::Write, Stream::Packed(bytes)) => {
                access::write_packed(disk, self.at(), hints, *atomic, &bytes)?;
                Ok(self.written())
            }
            _ => self.run(),
        }
    }

    /// Returns the status of a write that has succeeded.
    pub(super) fn written(&self) -> Status {
        match &self.of.memory {
            Data::Plain(memory) => status(memory.segment().total()),
            Data::Converted(converted) => status(converted.memory.segment().total()),
        }
    }

    fn room(&self, len: u64) -> Result<Vec<u8>> {
        let mut room = Vec::new();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        room.try_reserve_exact(len).map_err(|e| {
            MpiError::new(Class::NO_MEM, format!("{len} bytes for the data in its form in the file: {e}"))
        })?;
        room.resize(len, 0);
        Ok(room)
    }

    /// Returns the bytes of the access. Nothing may be locked.
    ///
    /// # Errors
    /// Those of the representation; no memory.
    pub(super) fn stream(&self) -> Result<Stream> {
        match (&self.of.memory, self.of.way) {
            (Data::Plain(memory), _) => Ok(Stream::Memory(memory.segment())),
            (Data::Converted(converted), Way::Write) => converted.to_file().map(Stream::Packed),
            (Data::Converted(converted), Way::Read) => self.room(converted.len()).map(Stream::Packed),
        }
    }

    /// Ends a read whose first bytes came into a stream. Nothing may be locked.
    ///
    /// # Errors
    /// Those of the representation.
    pub(super) fn take(&self, stream: Stream, got: usize) -> Result<Status> {
        match (&self.of.memory, stream) {
            (Data::Converted(converted), Stream::Packed(mut bytes)) => {
                converted.set(&mut bytes[..got]).map(status)
            }
            _ => Ok(status(got)),
        }
    }
}

impl Stream {
    /// Returns a part of the bytes of a write.
    pub(super) fn part(&mut self, from: usize, len: usize) -> Vec<u8> {
        match self {
            Stream::Packed(bytes) => bytes[from..from + len].to_vec(),
            Stream::Memory(memory) => {
                let mut part = Vec::new();
                memory.seek(from);
                memory.pack_vec(len, &mut part);
                part
            }
        }
    }

    /// Sets a part of the bytes of a read.
    pub(super) fn set(&mut self, from: usize, part: &[u8]) {
        match self {
            Stream::Packed(bytes) => bytes[from..from + part.len()].copy_from_slice(part),
            Stream::Memory(memory) => {
                memory.seek(from);
                memory.unpack(netmod_core::RxBytes::from_slice(part));
            }
        }
    }
}

/// Returns the status of an access that has moved so many bytes of memory.
fn status(bytes: usize) -> Status {
    Status { count_bytes: bytes as i64, ..Status::EMPTY }
}

impl OpenFile {
    /// Checks an access.
    ///
    /// # Errors
    /// An access that the file's mode or view does not permit.
    pub(super) fn checked(
        &self,
        way: Way,
        place: Where,
        memory: Bound,
        datatype: Datatype,
    ) -> Result<Checked> {
        match way {
            Way::Read => self.check_readable()?,
            Way::Write => self.check_writable()?,
        }
        if place != Where::Shared {
            self.check_random()?;
        }
        let (view, hints, atomic) = {
            let settings = self.settings.lock();
            (Arc::clone(&settings.view), settings.hints.clone(), settings.atomic)
        };
        let memory = match view.rep.converts(way == Way::Read) {
            false => Data::Plain(memory),
            true => {
                let element = view.rep.in_file(memory.desc())?.size() as u64;
                Data::Converted(Converted { rep: view.rep.clone(), memory, datatype, element })
            }
        };
        let bytes = memory.len();
        if !bytes.is_multiple_of(view.unit()) {
            let text = format!(
                "file {}: the access has {bytes} bytes in the file, and the etype of the view {}: access whole etypes",
                self.name,
                view.unit()
            );
            return Err(MpiError::new(Class::IO, text));
        }
        Ok(Checked { way, disk: self.disk()?, view, hints, atomic, memory })
    }

    /// Checks an access, and moves the file pointer behind what it accesses.
    ///
    /// # Errors
    /// As [`OpenFile::checked`]; a place beyond all files; if there is no shared file pointer.
    pub(super) fn access(&self, way: Way, place: Where, memory: Bound, datatype: Datatype) -> Result<Access> {
        let checked = self.checked(way, place, memory, datatype)?;
        let etypes = checked.etypes();
        let offset = match place {
            Where::Offset(offset) => self.natural("offset", offset)?,
            Where::Shared => self.shared.add(etypes)?,
            Where::Pointer => {
                let mut settings = self.settings.lock();
                let old = settings.position;
                checked.view.span_of_access(old, checked.len())?;
                settings.position = old + etypes;
                old
            }
        };
        checked.at(offset)
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
