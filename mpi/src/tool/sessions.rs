//! Sessions of performance variables, and their handles.

use std::collections::BTreeMap;

use super::figures::{Figure, Snapshot};
use super::{Answer, Running, Tool, Value};
use crate::error::Class;

/// A handle of a performance variable. That of a variable that counts has a value of its own: what
/// was counted while it was started.
#[derive(Debug)]
struct Handle {
    figure: usize,
    started: bool,
    /// The count from before it was started last.
    kept: Value,
    /// The process's figure when it was started last.
    base: Value,
}

/// The sessions: by number, their handles by number.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<usize, BTreeMap<usize, Handle>>);

/// Adds what was counted from one value of a figure to a later one.
fn sum(kept: &Value, base: &Value, now: &Value) -> Value {
    match (kept, base, now) {
        (Value::Number(kept), Value::Number(base), Value::Number(now)) => {
            Value::Number(kept.wrapping_add(now.wrapping_sub(*base)))
        }
        (Value::Real(kept), Value::Real(base), Value::Real(now)) => Value::Real(kept + now - base),
        (_, _, now) => now.clone(),
    }
}

/// Returns the value from which a figure counts.
fn zero(like: &Value) -> Value {
    match like {
        Value::Real(_) => Value::Real(0.0),
        _ => Value::Number(0),
    }
}

impl Handle {
    fn value(&self, now: &Value) -> Value {
        if self.started { sum(&self.kept, &self.base, now) } else { self.kept.clone() }
    }

    /// Goes on to count from a value.
    fn set(&mut self, value: Value, now: Value) {
        (self.kept, self.base) = (value, now);
    }
}

/// An action on one handle, or on all of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Counts from now on.
    Start,
    /// Keeps what was counted.
    Stop,
    /// Counts from 0 on.
    Reset,
}

impl Tool {
    /// Opens a session.
    ///
    /// # Errors
    /// If no tool has initialized the interface.
    pub fn session_create(&self) -> Answer<usize> {
        let mut state = self.used()?;
        let number = state.handles.next();
        state.sessions.0.insert(number, BTreeMap::new());
        Ok(number)
    }

    /// Ends a session with its handles.
    ///
    /// # Errors
    /// A bad session.
    pub fn session_free(&self, session: usize) -> Answer<()> {
        self.used()?.sessions.0.remove(&session).map(|_| ()).ok_or(Class::T_INVALID_SESSION)
    }

    /// Returns the figures now: those of the library while it runs, and its last ones after that.
    fn snapshot(&self, running: Option<&dyn Running>) -> Answer<Snapshot> {
        let now = running.and_then(Running::counters);
        let last = self.used()?.last.clone();
        Ok(match (now, last) {
            (Some(counters), _) => Snapshot { state: 1, counters },
            (None, Some(counters)) => Snapshot { state: 2, counters },
            (None, None) => Snapshot::default(),
        })
    }

    /// Returns the performance variable of an index.
    ///
    /// # Errors
    /// A bad index.
    pub fn figure(&self, index: usize) -> Answer<&Figure> {
        self.lists()?.figures.get(index).ok_or(Class::T_INVALID_INDEX)
    }

    /// Allocates a handle of a performance variable in a session. One that tells the state of the
    /// process is always started.
    ///
    /// # Errors
    /// A bad session or index.
    pub fn handle_alloc(&self, running: Option<&dyn Running>, session: usize, index: usize) -> Answer<usize> {
        let figure = self.figure(index)?;
        let base = figure.value(&self.snapshot(running)?);
        let mut state = self.used()?;
        let handle = state.handles.next();
        let handles = state.sessions.0.get_mut(&session).ok_or(Class::T_INVALID_SESSION)?;
        let started = !figure.class.counts();
        handles.insert(handle, Handle { figure: index, started, kept: zero(&base), base });
        Ok(handle)
    }

    /// Frees a handle.
    ///
    /// # Errors
    /// A bad session or handle.
    pub fn handle_free(&self, session: usize, handle: usize) -> Answer<()> {
        let mut state = self.used()?;
        let handles = state.sessions.0.get_mut(&session).ok_or(Class::T_INVALID_SESSION)?;
        handles.remove(&handle).map(|_| ()).ok_or(Class::T_INVALID_HANDLE)
    }

    /// Does something with a handle, its variable, and the variable's value in the process now.
    fn on_handle<T>(
        &self,
        running: Option<&dyn Running>,
        (session, handle): (usize, usize),
        action: impl FnOnce(&mut Handle, &Figure, Value) -> Answer<T>,
    ) -> Answer<T> {
        let now = self.snapshot(running)?;
        let mut state = self.used()?;
        let handles = state.sessions.0.get_mut(&session).ok_or(Class::T_INVALID_SESSION)?;
        let handle = handles.get_mut(&handle).ok_or(Class::T_INVALID_HANDLE)?;
        let figure = &self.all().figures[handle.figure];
        action(handle, figure, figure.value(&now))
    }

    /// Returns the value of a handle.
    ///
    /// # Errors
    /// A bad session or handle.
    pub fn handle_read(&self, running: Option<&dyn Running>, at: (usize, usize)) -> Answer<Value> {
        self.on_handle(running, at, |handle, _, now| Ok(handle.value(&now)))
    }

    /// Returns the value of a handle, and sets it to 0.
    ///
    /// # Errors
    /// As [`Tool::handle_write`].
    pub fn handle_readreset(&self, running: Option<&dyn Running>, at: (usize, usize)) -> Answer<Value> {
        self.on_handle(running, at, |handle, figure, now| {
            if !figure.class.counts() {
                return Err(Class::T_PVAR_NO_ATOMIC);
            }
            let value = handle.value(&now);
            handle.set(zero(&now), now);
            Ok(value)
        })
    }

    /// Sets the value of a handle. `value` makes it from one of the right type.
    ///
    /// # Errors
    /// A bad session or handle; a variable that tells the state of the process.
    pub fn handle_write(
        &self,
        running: Option<&dyn Running>,
        at: (usize, usize),
        value: impl FnOnce(&Value) -> Value,
    ) -> Answer<()> {
        self.on_handle(running, at, |handle, figure, now| {
            if !figure.class.counts() {
                return Err(Class::T_PVAR_NO_WRITE);
            }
            handle.set(value(&now), now);
            Ok(())
        })
    }

    /// Starts, stops or resets a handle.
    ///
    /// # Errors
    /// A bad session or handle; a variable that tells the state of the process.
    pub fn handle_do(&self, running: Option<&dyn Running>, at: (usize, usize), action: Action) -> Answer<()> {
        self.on_handle(running, at, |handle, figure, now| match action {
            Action::Start | Action::Stop if !figure.class.counts() => Err(Class::T_PVAR_NO_STARTSTOP),
            Action::Reset if !figure.class.counts() => Err(Class::T_PVAR_NO_WRITE),
            Action::Start if handle.started => Ok(()),
            Action::Start => {
                (handle.started, handle.base) = (true, now);
                Ok(())
            }
            Action::Stop => {
                handle.kept = handle.value(&now);
                handle.started = false;
                Ok(())
            }
            Action::Reset => {
                handle.set(zero(&now), now);
                Ok(())
            }
        })
    }

    /// Does it to all handles of a session of variables for which that is possible.
    ///
    /// # Errors
    /// A bad session.
    pub fn session_do(&self, running: Option<&dyn Running>, session: usize, action: Action) -> Answer<()> {
        let state = self.used()?;
        let handles = state.sessions.0.get(&session).ok_or(Class::T_INVALID_SESSION)?;
        let counts = |handle: &Handle| self.all().figures[handle.figure].class.counts();
        let numbers: Vec<usize> =
            handles.iter().filter(|(_, handle)| counts(handle)).map(|(number, _)| *number).collect();
        drop(state);
        numbers.into_iter().try_for_each(|handle| self.handle_do(running, (session, handle), action))
    }
}
