//! Memory that is attached to dynamic windows.

use super::directory::{Attached, Directory};
use super::memory::Span;
use super::object::{Flavor, Window};
use super::origin::{Elements, Located};
use super::reach::{Agent, Reach, Told};
use crate::accelerator;
use crate::allocated::Place;
use crate::datatype::Buf;
use crate::error::{Class, MpiError, Result};
use crate::handle::Win;
use crate::instance::Mpi;

impl Window {
    /// Notes memory that is attached, and tells the processes of the node.
    fn attach(&mut self, span: Span, place: Option<Place>) {
        let me = self.own_place();
        let enter = |directory: &mut Directory| {
            let told = Told::of(span.address(), place.as_ref())?;
            directory.enter(me, (span.address() as u64, span.len()), told)
        };
        let entry = self.attached.directory.as_mut().filter(|_| span.len() > 0).and_then(enter);
        if entry.is_none() && self.attached.directory.is_some() {
            tracing::info!("memory at {:#x} of a dynamic window is accessed by requests", span.address());
        }
        self.attached.all.push(Attached { span, place, entry });
    }

    /// Returns the way to elements of a dynamic window at an address.
    ///
    /// # Errors
    /// [`Class::RMA_RANGE`] if they are not within memory that this process has attached.
    pub(super) fn locate_attached(&mut self, elements: &Elements<'_>, at: i64) -> Result<Located> {
        let Elements { rank, desc, count, .. } = *elements;
        if elements.bytes() == 0 {
            return Ok(Located::Asked(at));
        }
        if rank == self.me() {
            // The data may begin behind the first element's place.
            let (span, place) = self.own_memory(at + desc.true_lb())?;
            return span.elements(place - desc.true_lb(), &desc.layout, count).map(Located::Here);
        }
        let target = &mut self.targets[rank as usize];
        let (Some(parts), Some(directory)) = (&mut target.parts, &self.attached.directory) else {
            return Ok(Located::Asked(at));
        };
        let span = desc.layout.span(count).map_err(|e| MpiError::new(Class::COUNT, e.to_string()))?;
        let (first, len) = (at.wrapping_add(span.start), span.end.abs_diff(span.start));
        // The target looks for what is not found, and tells of an error.
        let Some((reach, base)) = parts.find(directory, first.cast_unsigned(), len) else {
            return Ok(Located::Asked(at));
        };
        let place = at.wrapping_sub(base.cast_signed());
        match reach {
            Reach::Memory(span) => span.elements(place, &desc.layout, count).map(Located::Here),
            Reach::Attach(peer, span) => {
                Ok(Located::Elsewhere(peer, span.elements(place, &desc.layout, count)?, at))
            }
            Reach::Requests => Ok(Located::Asked(at)),
        }
    }

    /// Returns the agents of accumulations on this process's memory, as info tells of them.
    pub(super) fn agents(&self) -> &'static str {
        if self.flavor != Flavor::Dynamic {
            return match self.targets[self.me() as usize].agent {
                Agent::Processor => "processor",
                Agent::Target => "target",
            };
        }
        let is_open = |attached: &Attached| attached.entry.is_some() && attached.place.is_some();
        match (self.attached.all.iter().any(is_open), self.attached.all.iter().all(is_open)) {
            (false, _) => "target",
            (true, true) => "processor",
            (true, false) => "processor,target",
        }
    }
}

impl Mpi {
    /// Attaches the program's memory to a dynamic window (`MPI_Win_attach`).
    ///
    /// # Errors
    /// A bad handle or size; a window that is not dynamic; memory that is attached already, or an
    /// accelerator's.
    pub fn win_attach(&self, win: Win, memory: Buf) -> Result<()> {
        let len = u64::try_from(memory.count()).unwrap_or(0);
        let place = self.place_of(&memory, memory.count());
        self.on_window(win, |window, _| {
            check_dynamic(window)?;
            if memory.count() < 0 {
                let text = format!("the size is {} bytes, and less than 0", memory.count());
                return Err(MpiError::new(Class::SIZE, text));
            }
            if len > 0 {
                accelerator::check(memory.base())?;
            }
            let span = Span::of_program(&memory, len);
            if len > 0 && window.attached.all.iter().any(|other| other.span.meets(&span)) {
                let text = format!(
                    "memory at {:#x} of {len} bytes is attached to the window in part already; detach it first",
                    span.address()
                );
                return Err(MpiError::new(Class::RMA_ATTACH, text));
            }
            window.attach(span, place);
            Ok(())
        })
    }

    /// Detaches memory from a dynamic window (`MPI_Win_detach`).
    ///
    /// # Errors
    /// A bad handle; a window that is not dynamic; memory that is not attached.
    pub fn win_detach(&self, win: Win, base: usize) -> Result<()> {
        self.on_window(win, |window, _| {
            check_dynamic(window)?;
            let found = window.attached.all.iter().position(|attached| attached.span.address() == base);
            let missing = || {
                let text = format!("no memory that begins at {base:#x} is attached to the window");
                MpiError::new(Class::RMA_ATTACH, text)
            };
            let attached = window.attached.all.swap_remove(found.ok_or_else(missing)?);
            let me = window.own_place();
            if let (Some(directory), Some(entry)) = (&mut window.attached.directory, attached.entry) {
                directory.strike(me, entry);
            }
            Ok(())
        })
    }
}

fn check_dynamic(window: &Window) -> Result<()> {
    if window.flavor == Flavor::Dynamic {
        return Ok(());
    }
    let text = "memory is attached to dynamic windows alone; make one by MPI_Win_create_dynamic";
    Err(MpiError::new(Class::RMA_FLAVOR, text))
}
