//! Views: which bytes of a file a process sees, and in which order.

use std::ops::Range;
use std::sync::Arc;

use super::rep::Rep;
use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};

/// A run of the filetype's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Bytes from the beginning of the element.
    at: u64,
    /// Bytes.
    len: u64,
    /// Bytes of data before it.
    before: u64,
}

/// A part of a file: its first byte and its bytes.
pub(super) type Part = (u64, u64);

/// The view of a process: the filetype again and again from a displacement on.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Bytes before the view.
    pub disp: u64,
    /// The unit of offsets.
    pub etype: Arc<TypeDesc>,
    /// The type whose data is seen.
    pub filetype: Arc<TypeDesc>,
    /// The data representation, and its name.
    pub rep: Rep,
    pub datarep: String,
    /// Bytes of an etype in the file.
    unit: u64,
    runs: Vec<Run>,
    /// Bytes of data of one filetype.
    size: u64,
    /// Bytes from one filetype to the next.
    extent: u64,
    /// Bytes from the beginning of a filetype to the end of its data.
    reach: u64,
    /// Elements would overlap: an access is to data of one.
    is_single: bool,
}

fn bad(text: String) -> Box<MpiError> {
    MpiError::new(Class::ARG, text)
}

/// Returns the error of an access beyond all files.
#[cold]
fn too_far() -> Box<MpiError> {
    bad("the access ends behind byte 2^63 - 1 of the file: give a smaller offset or count".to_owned())
}

impl View {
    /// Creates a view. Functions of the program are called, so nothing may be locked.
    ///
    /// # Errors
    /// The errors of those functions; a filetype that is not made of etypes, or whose displacements
    /// are negative or decrease.
    pub(super) fn new(
        disp: u64,
        etype: &Arc<TypeDesc>,
        filetype: &Arc<TypeDesc>,
        rep: Rep,
        datarep: &str,
        may_overlap: bool,
    ) -> Result<View> {
        let in_file = rep.in_file(filetype)?;
        let (unit, size) = (rep.in_file(etype)?.size() as u64, in_file.size() as u64);
        if unit == 0 || size == 0 || !size.is_multiple_of(unit) {
            let text = format!(
                "the filetype has {size} bytes of data and the etype {unit}: the filetype is made of whole etypes"
            );
            return Err(bad(text));
        }
        let mut runs = Vec::new();
        // The next run does not begin before `least`.
        let (mut before, mut least, mut reach) = (0, 0, 0);
        for (at, len) in in_file.runs() {
            let Some(at) = u64::try_from(at).ok().filter(|at| *at >= least) else {
                let text = format!(
                    "the filetype has data at displacement {at}, behind data at {least}: displacements of a \
                     filetype are not negative, do not decrease, and overlap only in a file that is not written"
                );
                return Err(MpiError::new(Class::IO, text));
            };
            runs.push(Run { at, len, before });
            before += len;
            reach = reach.max(at + len);
            least = if may_overlap { at } else { at + len };
        }
        let Some(extent) = u64::try_from(in_file.extent()).ok().filter(|extent| *extent > 0) else {
            let text = format!("the filetype has an extent of {} bytes: it is at least 1", in_file.extent());
            return Err(MpiError::new(Class::IO, text));
        };
        // Several elements have to be as one: those of one run may stand behind one another.
        let is_single = extent < least - runs.first().map_or(0, |run| run.at);
        let (etype, filetype, datarep) = (Arc::clone(etype), Arc::clone(filetype), datarep.to_owned());
        Ok(View { disp, etype, filetype, rep, datarep, unit, runs, size, extent, reach, is_single })
    }

    /// Returns the bytes of an etype in the file.
    pub(super) fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the byte of the file that has a byte of data; one behind all files if it is too far.
    fn place(&self, data: u64) -> u64 {
        let (whole, rest) = (data / self.size, data % self.size);
        let run = &self.runs[self.runs.partition_point(|run| run.before <= rest) - 1];
        let start = whole.saturating_mul(self.extent).saturating_add(self.disp);
        start.saturating_add(run.at + (rest - run.before))
    }

    /// Returns the byte of the file at which an etype begins.
    ///
    /// # Errors
    /// An offset that no file has.
    pub(super) fn byte_offset(&self, offset: u64) -> Result<u64> {
        let data = offset.checked_mul(self.unit()).ok_or_else(too_far)?;
        Some(self.place(data)).filter(|at| i64::try_from(*at).is_ok()).ok_or_else(too_far)
    }

    /// Returns the first etype that does not begin before a byte of the file.
    pub(super) fn offset_of(&self, byte: u64) -> u64 {
        let Some(seen) = byte.checked_sub(self.disp) else { return 0 };
        let (whole, rest) = (seen / self.extent, seen % self.extent);
        let next = self.runs.partition_point(|run| run.at < rest);
        let part = match next.checked_sub(1).map(|i| self.runs[i]) {
            Some(run) => run.before + run.len.min(rest - run.at),
            None => 0,
        };
        (whole.saturating_mul(self.size).saturating_add(part)).div_ceil(self.unit())
    }

    /// Returns the bytes of the file from the first to behind the last of `len` bytes of data.
    ///
    /// # Errors
    /// An access beyond all files, or to elements that overlap.
    pub(super) fn span(&self, data: u64, len: u64) -> Result<Range<u64>> {
        if len == 0 {
            let at = self.place(data);
            return Ok(at..at);
        }
        let last = data.checked_add(len - 1).ok_or_else(too_far)?;
        if self.is_single && data / self.size != last / self.size {
            return Err(self.overlap());
        }
        // Data that overlaps may end behind the last byte.
        let end = match self.reach > self.runs.last().map_or(0, |run| run.at + run.len) {
            true => (last / self.size).saturating_mul(self.extent).saturating_add(self.disp + self.reach),
            false => self.place(last).saturating_add(1),
        };
        let end = Some(end).filter(|end| i64::try_from(*end).is_ok());
        Ok(self.place(data)..end.ok_or_else(too_far)?)
    }

    #[cold]
    fn overlap(&self) -> Box<MpiError> {
        let text = format!(
            "the access goes beyond one filetype, which has an extent of {} bytes and data up to byte {}: its \
             elements would overlap; access one at a time, or give the filetype a larger extent",
            self.extent, self.reach
        );
        MpiError::new(Class::IO, text)
    }

    /// Returns the parts of the file that have `len` bytes of data from `data` on, in order and
    /// without neighbours.
    pub(super) fn parts(&self, data: u64, len: u64) -> Parts<'_> {
        let (whole, rest) = (data / self.size, data % self.size);
        let at = self.runs.partition_point(|run| run.before <= rest) - 1;
        let base = whole.saturating_mul(self.extent).saturating_add(self.disp);
        Parts { view: self, base, at, skip: rest - self.runs[at].before, left: len }
    }

    /// Returns true if all data from the displacement on is seen.
    fn is_whole(&self) -> bool {
        self.runs.len() == 1 && self.size == self.extent
    }
}

/// The parts of a file that have some data of a view.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    view: &'a View,
    /// Beginning of the present filetype.
    base: u64,
    /// The present run, and what is passed of it.
    at: usize,
    skip: u64,
    /// Bytes that are left.
    left: u64,
}

impl Parts<'_> {
    fn step(&mut self) -> Option<Part> {
        if self.left == 0 {
            return None;
        }
        let run = self.view.runs[self.at];
        let start = self.base.saturating_add(run.at + self.skip);
        let len = if self.view.is_whole() { self.left } else { (run.len - self.skip).min(self.left) };
        self.left -= len;
        self.skip = 0;
        self.at += 1;
        if self.at == self.view.runs.len() {
            self.at = 0;
            self.base = self.base.saturating_add(self.view.extent);
        }
        Some((start, len))
    }

    /// Returns true if the next part begins at a byte.
    fn goes_on_at(&self, byte: u64) -> bool {
        self.left > 0 && self.base.saturating_add(self.view.runs[self.at].at) == byte
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (start, mut len) = self.step()?;
        while self.goes_on_at(start + len) {
            len += self.step()?.1;
        }
        Some((start, len))
    }
}
