//! A fabric: its devices and processes, its time, what goes wrong, and what was found.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use hca::AsyncEvent;
use netmod_core::Time;

use crate::bell::Bell;
use crate::hca::SimHca;
use crate::model::State;
use crate::model::device::{Context, Device, Place};
use crate::settings::{DeviceSettings, Faults, Settings};

/// A device of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) usize);

/// A process that has opened a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) usize);

/// What a process has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Completion channels.
    pub channels: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Queue pairs, but for receivers of XRC.
    pub qps: usize,
    /// Parts in receiving queue pairs of XRC, made or opened.
    pub tgt_qps: usize,
    /// Registrations.
    pub mrs: usize,
    /// Bytes that are registered.
    pub bytes: u64,
    /// Address handles.
    pub ahs: usize,
    /// Parts in XRC domains.
    pub xrcds: usize,
}

/// What is open in all of a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Opened devices.
    pub contexts: usize,
    /// Completion channels.
    pub channels: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Queue pairs; a receiver of XRC counts once.
    pub qps: usize,
    /// Registrations.
    pub mrs: usize,
    /// Address handles.
    pub ahs: usize,
    /// Processes' parts in XRC domains.
    pub xrcds: usize,
    /// XRC domains.
    pub domains: usize,
}

/// What has come of messages that need a receive, of connected queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// They had one.
    pub received: u64,
    /// They met none, and are to be sent again.
    pub not_ready: u64,
}

/// Devices that are joined by a network. Clones are the same fabric.
#[derive(Clone, Debug)]
pub struct Fabric {
    state: Arc<Mutex<State>>,
}

impl Fabric {
    /// A fabric without devices, at time zero.
    pub fn new(settings: Settings) -> Fabric {
        Fabric { state: Arc::new(Mutex::new(State::new(settings))) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked did so outside, or it was one of this crate's tests.
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds a device.
    pub fn device(&self, settings: DeviceSettings) -> DeviceId {
        let mut state = self.lock();
        let number = state.devices.len();
        state.devices.push(Device::new(settings, number));
        DeviceId(number)
    }

    /// Opens a device, as a process of its own.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn open(&self, device: DeviceId) -> io::Result<SimHca> {
        let bell = Arc::new(Bell::new()?);
        let mut state = self.lock();
        state.call("ibv_open_device").map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let number = state.contexts.len();
        state.contexts.push(Context {
            device: device.0,
            open: true,
            events: Default::default(),
            bell: bell.clone(),
            registered: 0,
        });
        let settings = &state.devices[device.0].settings;
        let (name, attr) = (settings.name.clone(), settings.attr);
        drop(state);
        Ok(SimHca::new(self.clone(), ContextId(number), name, attr, bell))
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.lock().now
    }

    /// When the next thing happens, if one is to come.
    pub fn next_due(&self) -> Option<Time> {
        self.lock().wire.next_due()
    }

    /// Has everything happen up to a time. Time does not go back.
    pub fn advance(&self, now: Time) {
        self.lock().advance(now);
    }

    /// Has everything happen that is to come, up to a time: at most that much, and less if nothing is left. Returns whether nothing is left.
    pub fn settle(&self, until: Time) -> bool {
        let mut state = self.lock();
        while let Some(due) = state.wire.next_due() {
            if due > until {
                return false;
            }
            state.advance(due);
        }
        true
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().settings.faults = faults;
    }

    /// Has one call be refused (`ENOMEM`): the n-th from now on, counted from 1, of those that open a device, or make or change an object.
    pub fn refuse(&self, nth: u64) {
        self.lock().refuse(nth);
    }

    /// The call that was refused because of [`Fabric::refuse`].
    pub fn refused(&self) -> Option<&'static str> {
        self.lock().refused
    }

    /// What has come of messages.
    pub fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Pulls the cable of a port, or puts it back; ports are numbered from 1 on. What is under way to it is lost.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_port(&self, device: DeviceId, port: u8, up: bool) {
        self.lock().set_port(Place { device: device.0, port }, up);
    }

    /// Has a device fail for good: its processes are told, calls fail, nothing completes any more.
    pub fn fail_device(&self, device: DeviceId) {
        self.lock().fail_device(device.0);
    }

    /// Tells all processes of a device something that has no cause here, such as a change of GIDs.
    pub fn tell(&self, device: DeviceId, event: AsyncEvent) {
        self.lock().event_of_device(device.0, event);
    }

    /// A process dies: its objects vanish, as the kernel has it. Handles to them fail from now on, and may be dropped.
    pub fn kill(&self, context: ContextId) {
        self.lock().end_context(context.0);
    }

    /// What was done that hardware would punish, in words.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations().to_vec()
    }

    /// What is open in all.
    pub fn leaks(&self) -> Leaks {
        self.lock().leaks()
    }

    /// What a process has open.
    pub fn counts(&self, context: ContextId) -> Counts {
        self.lock().counts(context.0)
    }
}
