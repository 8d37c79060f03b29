//! Names, hints, attributes and groups of windows: MPI's functions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::moves::raised;
use super::object::{Flavor, Window};
use crate::attr::{AttrFns, AttrValue, Attrs, Of, SetValue};
use crate::calls::Attributed;
use crate::consts::{MAX_OBJECT_NAME, PROC_NULL};
use crate::errh::{Handler, UserErrhandler};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Errhandler, Group, Handle as _, Info, Keyval, Win, invalid};
use crate::instance::{Mpi, State};
use crate::objects::Objects;

/// `MPI_WIN_UNIFIED`: the memory is one for all.
const UNIFIED: i64 = 2;

impl Attributed for Win {
    const OF: Of = Of::Win;

    fn attrs(self, objects: &mut Objects) -> Result<&mut Attrs> {
        Ok(&mut objects.wins.get_mut(self)?.attrs)
    }
}

/// The memory of a process of a window: bytes, bytes of a unit, and the address here.
pub type SharedPart = (i64, i64, usize);

impl Window {
    /// Returns the value of an attribute that all windows have.
    fn predefined(&self, keyval: Keyval) -> Result<AttrValue> {
        let own = &self.targets[self.me() as usize];
        let (index, number) = match keyval {
            Keyval::WIN_BASE => return Ok(AttrValue::Pointer(self.base())),
            Keyval::WIN_SIZE => (0, own.size.cast_signed()),
            Keyval::WIN_DISP_UNIT => (1, own.unit),
            Keyval::WIN_CREATE_FLAVOR => (2, self.flavor as i64),
            Keyval::WIN_MODEL => (3, UNIFIED),
            _ => return Err(invalid(keyval)),
        };
        let place = &self.told[index];
        place.store(number, Ordering::Relaxed);
        Ok(AttrValue::Placed { number, place: place.as_ptr().expose_provenance(), is_wide: index == 0 })
    }

    /// Returns the rank whose memory a query is about.
    fn queried(&self, rank: i32) -> Result<Option<u32>> {
        if rank != PROC_NULL {
            return self.check_rank(rank).map(Some);
        }
        let first = self.targets.iter().position(|target| target.size > 0);
        Ok(first.map(|rank| rank as u32))
    }
}

impl Mpi {
    /// Returns the memory of a process that this one can load from and store to
    /// (`MPI_Win_shared_query`), without an address if it cannot; of nobody, that of the first
    /// process that has some.
    ///
    /// # Errors
    /// A bad handle or rank; a dynamic window.
    pub fn win_shared_query(&self, win: Win, rank: i32) -> Result<SharedPart> {
        self.on_window(win, |window, _| {
            if !matches!(window.flavor, Flavor::Shared | Flavor::Allocate | Flavor::Create) {
                let text = "a dynamic window has no shared memory; make one by MPI_Win_allocate_shared";
                return Err(MpiError::new(Class::RMA_FLAVOR, text));
            }
            let Some(rank) = window.queried(rank)? else { return Ok((0, 1, 0)) };
            let target = &window.targets[rank as usize];
            let span = target.span().filter(|_| target.size > 0);
            Ok(span
                .map_or((0, target.unit, 0), |span| (target.size.cast_signed(), target.unit, span.address())))
        })
    }

    /// Sets the name of a window, which is cut at what MPI allows (`MPI_Win_set_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_set_name(&self, win: Win, name: &str) -> Result<()> {
        self.on_window(win, |window, _| {
            let end = name.floor_char_boundary(name.len().min(MAX_OBJECT_NAME - 1));
            name[..end].clone_into(&mut window.name);
            Ok(())
        })
    }

    /// Returns the name of a window; empty if it has none (`MPI_Win_get_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_get_name(&self, win: Win) -> Result<String> {
        // MPI names the null window, though it is none.
        if win.is_null() {
            return Ok(Win::NULL_NAME.to_owned());
        }
        self.with(|s| Ok(s.objects.wins.get(win)?.name.clone()))
    }

    /// Returns the name by which errors call a window.
    pub fn win_title(&self, win: Win) -> String {
        match self.win_get_name(win) {
            Ok(name) if !name.is_empty() => name,
            _ => format!("window {:#010x}", win.0),
        }
    }

    /// Sets hints (`MPI_Win_set_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_set_info(&self, win: Win, info: Info) -> Result<()> {
        self.with(|s| {
            let State { objects, .. } = s;
            let window = objects.wins.get_mut(win)?;
            let pairs = objects.anytime.infos().pairs(info).map_err(|e| raised(e, win))?.to_vec();
            window.set_hints(&pairs);
            Ok(())
        })
    }

    /// Returns the hints that are in force, as an info to be freed (`MPI_Win_get_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_get_info(&self, win: Win) -> Result<Info> {
        let pairs = self.on_window(win, |window, _| Ok(window.hints_in_force()))?;
        self.anytime().infos().create_of(pairs)
    }

    /// Returns the group of a window, to be freed (`MPI_Win_get_group`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_get_group(&self, win: Win) -> Result<Group> {
        self.with(|s| {
            let core = Arc::clone(&s.objects.wins.get(win)?.core);
            s.objects.groups.insert(Arc::clone(core.group().places()), core.session)
        })
    }

    /// Creates an error handler of windows (`MPI_Win_create_errhandler`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn win_create_errhandler(&self, function: Arc<dyn UserErrhandler>) -> Result<Errhandler> {
        self.comm_create_errhandler(function)
    }

    /// Sets the error handler of a window (`MPI_Win_set_errhandler`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_set_errhandler(&self, win: Win, errhandler: Errhandler) -> Result<()> {
        self.with(|s| {
            let State { objects, .. } = s;
            let Objects { wins, anytime, .. } = objects;
            let place = &mut wins.get_mut(win)?.errhandler;
            anytime.errhandlers().replace(place, errhandler).map_err(|e| raised(e, win))
        })
    }

    /// Returns the error handler of a window, to be freed (`MPI_Win_get_errhandler`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_get_errhandler(&self, win: Win) -> Result<Errhandler> {
        self.with(|s| {
            let errhandler = s.objects.wins.get(win)?.errhandler;
            s.objects.anytime.errhandlers().hold(errhandler)?;
            Ok(errhandler)
        })
    }

    /// Returns what is done with an error of a window; `None` if there is no such window.
    pub fn win_handler(&self, win: Win) -> Option<Handler> {
        let found = self.with(|s| {
            let wins = &s.objects.wins;
            if let Some((_, handler)) = wins.freed.as_ref().filter(|(freed, _)| *freed == win)
                && wins.get(win).is_err()
            {
                return Ok(handler.clone());
            }
            s.objects.anytime.errhandlers().get(wins.get(win)?.errhandler)
        });
        found.ok()
    }

    /// Creates a keyval for attributes of windows (`MPI_Win_create_keyval`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn win_create_keyval(&self, functions: Arc<dyn AttrFns>) -> Result<Keyval> {
        self.create_keyval(Of::Win, functions)
    }

    /// Frees a keyval of windows and makes it invalid. Attributes that have it keep it.
    ///
    /// # Errors
    /// A bad keyval.
    pub fn win_free_keyval(&self, keyval: &mut Keyval) -> Result<()> {
        self.free_keyval(Of::Win, keyval)
    }

    /// Sets an attribute of a window; an old value is deleted first.
    ///
    /// # Errors
    /// A bad handle or keyval; what the delete function returns.
    pub fn win_set_attr(&self, win: Win, keyval: Keyval, value: impl Into<SetValue>) -> Result<()> {
        self.set_attr(win, keyval, value.into())
    }

    /// Returns the value of an attribute of a window.
    ///
    /// # Errors
    /// A bad handle or keyval.
    pub fn win_get_attr(&self, win: Win, keyval: Keyval) -> Result<Option<AttrValue>> {
        if keyval.is_predefined() {
            return self.on_window(win, |window, _| window.predefined(keyval).map(Some));
        }
        self.get_attr(win, keyval)
    }

    /// Deletes an attribute of a window.
    ///
    /// # Errors
    /// A bad handle or keyval; an attribute that is not there; what the delete function returns.
    pub fn win_delete_attr(&self, win: Win, keyval: Keyval) -> Result<()> {
        self.delete_attr(win, keyval)
    }
}
