//! Events: incidents of connections that tools are told by their functions.
//!
//! The device notes an incident where it happens, which is inside of the library. A task
//! (`calls::tool`), which lives while an event has a handle, takes it from there, and calls the
//! tool's functions while nothing is locked: they may call all of MPI. So they are called in calls
//! that wait or test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ch3_shim::{Incident, IncidentKind, TakenIncidents, timestamp};

use super::{Answer, Running, Tool, index_of};
use crate::error::Class;
use crate::guest;

/// A kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, and its elements.
    pub meaning: &'static str,
    kind: IncidentKind,
}

/// The kinds of events. Each has two elements: the peer's rank, and the number of the netmod.
pub const KINDS: [EventKind; 3] = [
    EventKind {
        name: "connection_lost",
        meaning: "the connection with a peer was lost, and what depended on it has failed: its rank, and the netmod's place in NETMOD",
        kind: IncidentKind::Lost,
    },
    EventKind {
        name: "connection_resumed",
        meaning: "a lost connection with a peer goes on without loss: its rank, and the netmod's place in NETMOD",
        kind: IncidentKind::Resumed,
    },
    EventKind {
        name: "peer_slow",
        meaning: "a peer has no room for further messages, and sends to it wait: its rank, and the netmod's place in NETMOD",
        kind: IncidentKind::Slow,
    },
];

/// Elements of an event, each an `MPI_INT`.
pub const ELEMENTS: usize = 2;

/// The source of all events: the device.
pub const SOURCE: (&str, &str) = ("device", "the device of this process");
/// Ticks of its clock in a second.
pub const TICKS: i64 = 1_000_000_000;

/// Levels of safety of a function, the least demand of the library first (`MPI_T_CB_REQUIRE_*`).
pub const SAFETIES: usize = 4;

/// A tool's function that is told of events.
pub trait EventFunction: Send + Sync {
    /// Tells of an event: its number, and that of the handle.
    fn event(&self, instance: usize, handle: usize);

    /// Returns the address that the tool gave with the function.
    fn data(&self) -> usize;
}

/// A tool's function that is told how many events it was not told of.
pub trait DroppedFunction: Send + Sync {
    /// Tells their number, the number of the handle, and the address that the tool gave with the
    /// handle's function.
    fn dropped(&self, count: u64, handle: usize, data: usize);
}

/// A handle of an event, with the tool's functions by their level of safety.
#[derive(Default)]
struct Registration {
    event: usize,
    functions: [Option<Arc<dyn EventFunction>>; SAFETIES],
    dropped: Option<Arc<dyn DroppedFunction>>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("event", &self.event).finish_non_exhaustive()
    }
}

/// The handles of events, and the events that functions are being told of.
#[derive(Debug, Default)]
pub(super) struct Events {
    handles: BTreeMap<usize, Registration>,
    current: BTreeMap<usize, Incident>,
}

/// Tells the device's task whether an event has a handle.
#[derive(Debug, Default)]
pub(super) struct Watch(AtomicBool);

impl Watch {
    pub(super) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Release);
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

fn elements(incident: &Incident) -> [i32; ELEMENTS] {
    [i32::try_from(incident.peer).unwrap_or(i32::MAX), i32::from(incident.netmod)]
}

impl Tool {
    /// Returns a kind of events.
    ///
    /// # Errors
    /// A bad index.
    pub fn event(&self, index: usize) -> Answer<&'static EventKind> {
        drop(self.used()?);
        KINDS.get(index).ok_or(Class::T_INVALID_INDEX)
    }

    /// Returns the index of the kind of events of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn event_index(&self, name: &str) -> Answer<usize> {
        drop(self.used()?);
        index_of(KINDS.iter().map(|kind| kind.name), name)
    }

    /// Allocates a handle of a kind of events. The device notes incidents from now on.
    ///
    /// # Errors
    /// A bad index; too many requests.
    pub fn event_alloc(self: &Arc<Self>, running: Option<&dyn Running>, index: usize) -> Answer<usize> {
        self.event(index)?;
        let mut state = self.used()?;
        let handle = state.handles.next();
        state.events.handles.insert(handle, Registration { event: index, ..Registration::default() });
        drop(state);
        self.watch.set(true);
        running.map_or(Ok(()), Running::watch_incidents).map_err(|_| Class::T_OUT_OF_HANDLES)?;
        Ok(handle)
    }

    /// Frees a handle. With the last one the device stops to note incidents.
    ///
    /// # Errors
    /// A bad handle.
    pub fn event_free(&self, handle: usize) -> Answer<()> {
        let mut state = self.used()?;
        state.events.handles.remove(&handle).ok_or(Class::T_INVALID_HANDLE)?;
        self.watch.set(!state.events.handles.is_empty());
        Ok(())
    }

    fn on_event<T>(&self, handle: usize, action: impl FnOnce(&mut Registration) -> Answer<T>) -> Answer<T> {
        let mut state = self.used()?;
        state.events.handles.get_mut(&handle).ok_or(Class::T_INVALID_HANDLE).and_then(action)
    }

    /// Checks a handle of an event.
    ///
    /// # Errors
    /// If it is none.
    pub fn event_check(&self, handle: usize) -> Answer<()> {
        self.on_event(handle, |_| Ok(()))
    }

    /// Returns true if a handle has a function at a level of safety.
    ///
    /// # Errors
    /// A bad handle or level.
    pub fn event_has_function(&self, handle: usize, safety: usize) -> Answer<bool> {
        self.on_event(handle, |r| r.functions.get(safety).map(Option::is_some).ok_or(Class::T_INVALID))
    }

    /// Sets the function of a handle at a level of safety, or takes it away.
    ///
    /// # Errors
    /// A bad handle or level.
    pub fn event_register(
        &self,
        handle: usize,
        safety: usize,
        function: Option<Arc<dyn EventFunction>>,
    ) -> Answer<()> {
        self.on_event(handle, |r| {
            *r.functions.get_mut(safety).ok_or(Class::T_INVALID)? = function;
            Ok(())
        })
    }

    /// Sets the function that is told of events that found no room, or takes it away.
    ///
    /// # Errors
    /// A bad handle.
    pub fn event_set_dropped(&self, handle: usize, function: Option<Arc<dyn DroppedFunction>>) -> Answer<()> {
        self.on_event(handle, |r| {
            r.dropped = function;
            Ok(())
        })
    }

    /// Returns an event that a function is being told of: its elements and its time.
    ///
    /// # Errors
    /// One of which no function is being told.
    pub fn event_read(&self, instance: usize) -> Answer<([i32; ELEMENTS], u64)> {
        let state = self.used()?;
        let incident = state.events.current.get(&instance).ok_or(Class::T_INVALID_HANDLE)?;
        Ok((elements(incident), incident.at))
    }

    /// Checks the index of a source of events.
    ///
    /// # Errors
    /// A bad index.
    pub fn source(&self, index: usize) -> Answer<(&'static str, &'static str)> {
        drop(self.used()?);
        if index == 0 { Ok(SOURCE) } else { Err(Class::T_INVALID_INDEX) }
    }

    /// Returns the time of the source of events.
    ///
    /// # Errors
    /// A bad index.
    pub fn source_timestamp(&self, index: usize) -> Answer<u64> {
        self.source(index).map(|_| timestamp())
    }

    /// Tells the tools' functions of incidents. Nothing may be locked.
    pub(crate) fn deliver(&self, (incidents, dropped): TakenIncidents) {
        for incident in incidents {
            let mut state = self.state.lock();
            let wanted = |r: &&Registration| KINDS[r.event].kind == incident.kind;
            let functions: Vec<(usize, Arc<dyn EventFunction>)> = state
                .events
                .handles
                .iter()
                .filter(|(_, r)| wanted(r))
                // Nothing is demanded of the function: the one at the lowest level is for that.
                .filter_map(|(handle, r)| Some((*handle, r.functions.iter().flatten().next()?.clone())))
                .collect();
            let instance = state.handles.next();
            state.events.current.insert(instance, incident);
            drop(state);
            for (handle, function) in functions {
                guest::call("a function that is told of events", || function.event(instance, handle));
            }
            self.state.lock().events.current.remove(&instance);
        }
        for (kind, count) in IncidentKind::ALL.into_iter().zip(dropped).filter(|(_, count)| *count > 0) {
            let state = self.state.lock();
            let functions: Vec<(usize, Arc<dyn DroppedFunction>, usize)> = state
                .events
                .handles
                .iter()
                .filter(|(_, r)| KINDS[r.event].kind == kind)
                .filter_map(|(handle, r)| {
                    let data = r.functions.iter().flatten().next().map_or(0, |function| function.data());
                    Some((*handle, r.dropped.clone()?, data))
                })
                .collect();
            drop(state);
            for (handle, function, data) in functions {
                guest::call("a function that is told of dropped events", || {
                    function.dropped(count, handle, data)
                });
            }
        }
    }
}
