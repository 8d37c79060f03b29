//! The tool interface (`MPI_T`): settings as control variables, figures as performance variables,
//! and events.
//!
//! A [`Tool`] belongs to the objects that may be used at any time: tools come before MPI is
//! initialized, and go after its end. Nothing here is on the way of a message. Figures are read
//! from the device when a tool asks, and the device keeps incidents only while an event has a
//! handle.
//!
//! [`controls`] has the control variables, [`figures`] the performance variables, [`sessions`]
//! their handles, [`events`] the events, and [`categories`] what groups all of them. A library that
//! runs is [`Running`] here.

pub mod categories;
pub mod controls;
pub mod enums;
pub mod events;
pub mod figures;
pub mod sessions;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use ch3_shim::{Config, Counters};
use netmod_core::config::Entry;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Class, Result};
use crate::handle::Datatype;
use categories::Category;
use controls::{Control, Controls};
use enums::Enumeration;
use events::{Events, Watch};
use figures::Figure;
use sessions::Sessions;

/// The result of a function of the tool interface: its errors are classes of their own, which no
/// error handler sees.
pub type Answer<T> = std::result::Result<T, Class>;

/// A library that was initialized.
pub trait Running {
    /// Returns its figures; `None` if it has ended.
    fn counters(&self) -> Option<Counters>;

    /// Returns the setting of a name; `None` if the library has ended, or there is none.
    fn setting(&self, name: &str) -> Option<Entry>;

    /// Changes a setting that is read when it is used.
    ///
    /// # Errors
    /// A value that is not accepted; a library that has ended.
    fn change_setting(&self, name: &str, text: &str) -> Result<()>;

    /// Keeps incidents from now on, and tells tools of them while they watch.
    ///
    /// # Errors
    /// If there are too many requests; a library that has ended.
    fn watch_incidents(&self) -> Result<()>;
}

/// Audience of a variable (`MPI_T_VERBOSITY_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// All users.
    UserBasic = 221,
    /// Users who want details.
    UserDetail = 222,
    /// Those who tune a program.
    TunerBasic = 224,
    /// Those who tune it, and want details.
    TunerDetail = 225,
    /// The library's developers.
    DeveloperBasic = 227,
}

/// `MPI_INT`.
pub const INT: u32 = 0x4c00_0405;

/// A value of a variable, by its type in C.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `MPI_INT`.
    Int(i32),
    /// `MPI_COUNT`.
    Count(i64),
    /// `MPI_UNSIGNED_LONG_LONG`.
    Number(u64),
    /// `MPI_DOUBLE`.
    Real(f64),
    /// `MPI_CHAR`, as many as the variable has, the end included.
    Text(String),
}

impl Value {
    /// Returns its datatype.
    pub fn datatype(&self) -> Datatype {
        Datatype(match self {
            Value::Int(_) => INT,
            Value::Count(_) => 0x4c00_0845,
            Value::Number(_) => 0x4c00_0819,
            Value::Real(_) => 0x4c00_080b,
            Value::Text(_) => 0x4c00_0101,
        })
    }
}

/// The lists of variables, which never change, and so need no lock.
#[derive(Debug)]
pub struct Lists {
    /// Control variables.
    pub controls: Vec<Control>,
    /// Enumerations; a variable names one by its index.
    pub enums: Vec<Enumeration>,
    /// Performance variables.
    pub figures: Vec<Figure>,
    /// Categories.
    pub categories: Vec<Category>,
}

/// The state of the tool interface.
#[derive(Debug, Default)]
struct State {
    /// Calls of `MPI_T_init_thread` without one of `MPI_T_finalize`.
    users: usize,
    controls: Controls,
    sessions: Sessions,
    events: Events,
    /// Handles of control variables that are allocated, with the variable.
    control_handles: std::collections::BTreeMap<usize, usize>,
    handles: Handles,
    /// The figures when MPI ended.
    last: Option<Counters>,
}

/// Numbers of handles; none is used twice, so that a stale one is not found.
#[derive(Debug, Default)]
struct Handles(usize);

impl Handles {
    fn next(&mut self) -> usize {
        self.0 += 1;
        // Small numbers stand for no handle and for all handles.
        self.0 + 15
    }
}

/// The tool interface of a process.
#[derive(Debug, Default)]
pub struct Tool {
    /// Made when a tool asks.
    lists: OnceLock<Lists>,
    state: Mutex<State>,
    /// Tells the device's task whether events are wanted.
    watch: Arc<Watch>,
}

impl Lists {
    fn new() -> Lists {
        let defaults = Config::default();
        let controls = controls::list(&defaults);
        let (enums, figures) = (enums::list(&defaults), figures::list());
        let categories = categories::list(&controls, &figures);
        Lists { controls, enums, figures, categories }
    }
}

impl Tool {
    /// Returns the lists of variables, enumerations and categories.
    ///
    /// # Errors
    /// If no tool has initialized the interface.
    pub fn lists(&self) -> Answer<&Lists> {
        self.used().map(|_| self.all())
    }

    fn all(&self) -> &Lists {
        self.lists.get_or_init(Lists::new)
    }

    fn used(&self) -> Answer<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.users == 0 { Err(Class::T_NOT_INITIALIZED) } else { Ok(state) }
    }

    /// Begins to be used by one more tool (`MPI_T_init_thread`).
    pub fn begin(&self) {
        self.state.lock().users += 1;
    }

    /// Ends the use by one tool (`MPI_T_finalize`). The last one takes all handles with it.
    ///
    /// # Errors
    /// If no tool uses it.
    pub fn end(&self) -> Answer<()> {
        let mut state = self.used()?;
        state.users -= 1;
        if state.users == 0 {
            state.sessions = Sessions::default();
            state.events = Events::default();
            state.control_handles.clear();
            self.watch.set(false);
        }
        Ok(())
    }

    /// Notes the figures of a device that is going to end.
    pub(crate) fn keep_figures(&self, counters: impl FnOnce() -> Counters) {
        let mut state = self.state.lock();
        if state.users > 0 {
            state.last = Some(counters());
        }
    }

    /// Returns the settings that tools have written for the start of MPI: names and values.
    pub(crate) fn written(&self) -> Vec<(String, String)> {
        self.state.lock().controls.take_written()
    }

    /// Returns true while an event has a handle.
    pub(crate) fn watches(&self) -> bool {
        self.watch.is_on()
    }
}

/// Names that are found by their index.
fn index_of(names: impl IntoIterator<Item = impl AsRef<str>>, name: &str) -> Answer<usize> {
    names.into_iter().position(|known| known.as_ref() == name).ok_or(Class::T_INVALID_NAME)
}

/// Returns the indices of a list, without repetition, in ascending order.
fn indices(list: impl IntoIterator<Item = usize>) -> Vec<usize> {
    list.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
