//! A fabric: its devices and processes, its time, its faults and violations.

use std::sync::{Arc, Mutex, MutexGuard};

use hca::AsyncEvent;
use netmod_core::Time;

use crate::counts::{Counts, Leaks, Stats};
use crate::model::State;
use crate::model::device::{Device, PortId};
use crate::settings::{DeviceSettings, Faults, Settings};

/// A device of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) usize);

/// A process that has opened a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) usize);

/// Devices joined by a network. Clones are the same fabric.
#[derive(Clone, Debug)]
pub struct Fabric {
    state: Arc<Mutex<State>>,
}

impl Fabric {
    /// Makes a fabric without devices, at time zero.
    pub fn new(settings: Settings) -> Fabric {
        Fabric { state: Arc::new(Mutex::new(State::new(settings))) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread happened outside, or in a test of this crate.
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Adds a device.
    pub fn device(&self, settings: DeviceSettings) -> DeviceId {
        let mut state = self.lock();
        let number = state.devices.len();
        state.devices.push(Device::new(settings, number));
        DeviceId(number)
    }

    /// Returns the present time.
    pub fn now(&self) -> Time {
        self.lock().now
    }

    /// Returns the time of the next event, if there is one.
    pub fn next_due(&self) -> Option<Time> {
        self.lock().wire.next_due()
    }

    /// Lets everything happen up to a time. Time does not go back.
    pub fn advance(&self, now: Time) {
        self.lock().advance(now);
    }

    /// Lets all events happen up to a time. Returns true if none are left.
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

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().settings.faults = faults;
    }

    /// Refuses one call (`ENOMEM`): the n-th from now on, counted from 1, of those that open a
    /// device, or make or change an object.
    pub fn refuse(&self, nth: u64) {
        self.lock().refuse(nth);
    }

    /// Returns the call that [`Fabric::refuse`] has refused.
    pub fn refused(&self) -> Option<&'static str> {
        self.lock().refused
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Takes a port's link down or up; ports are numbered from 1 on. Packets in transit to it are
    /// lost.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn set_port(&self, device: DeviceId, port: u8, up: bool) {
        self.lock().set_port(PortId { device: device.0, port }, up);
    }

    /// Fails a device permanently: its processes get an event, calls fail, nothing completes any
    /// more.
    pub fn fail_device(&self, device: DeviceId) {
        self.lock().fail_device(device.0);
    }

    /// Reports an event to all processes of a device, without a cause, for example a change of
    /// GIDs.
    pub fn tell(&self, device: DeviceId, event: AsyncEvent) {
        self.lock().event_of_device(device.0, event);
    }

    /// Kills a process: its objects vanish, as the kernel does it. Handles to them fail from now
    /// on, and may be dropped.
    pub fn kill(&self, context: ContextId) {
        self.lock().end_context(context.0);
    }

    /// Returns descriptions of all calls that real hardware would punish.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations().to_vec()
    }

    /// Returns the number of objects open in all.
    pub fn leaks(&self) -> Leaks {
        self.lock().leaks()
    }

    /// Returns the number of objects that a process has open.
    pub fn counts(&self, context: ContextId) -> Counts {
        self.lock().counts(context.0)
    }
}
