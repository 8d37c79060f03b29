//! The device's figures for tools, and the incidents that it tells them.

use crate::ch3::{DeviceStats, LargeStats};
use crate::incident::TakenIncidents;
use crate::progress::HelperStats;
use netmod_core::VcStats;

use super::Vci;

/// The figures of a device: counts since it was made, and lengths of queues now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Counts of the device.
    pub device: DeviceStats,
    /// Large messages received, by mode.
    pub large: LargeStats,
    /// Receives that wait for a message.
    pub posted: u64,
    /// Messages that wait for a receive.
    pub unexpected: u64,
    /// Requests under way, or finished and not yet waited for.
    pub requests: u64,
    /// Polls that have found something.
    pub busy_polls: u64,
    /// Times that a wait has slept.
    pub sleeps: u64,
    /// Counts of the helper thread.
    pub helper: HelperStats,
    /// Lost connections that were resumed.
    pub resumed: u64,
    /// Seconds since it was made.
    pub age: f64,
    /// Netmods in order of preference, and the traffic of each.
    pub netmods: Vec<(&'static str, VcStats)>,
    /// VCs that exist.
    pub vcs: u64,
}

impl Vci {
    /// Returns the device's figures. Costs nothing until it is called.
    pub fn counters(&mut self) -> Counters {
        self.tick();
        let numbers = 0..=u8::MAX;
        let engine = &*self.engine;
        let netmods = engine.netmod.netmods().map(|n| n.name());
        Counters {
            device: self.ch3.stats,
            large: self.ch3.lmt.received,
            posted: self.ch3.queues.posted.len() as u64,
            unexpected: self.ch3.queues.unexpected.len() as u64,
            requests: engine.core.req_count() as u64,
            busy_polls: self.waiting.busy_polls,
            sleeps: self.waiting.blocks,
            helper: self.helper_stats(),
            resumed: self.resumed(),
            age: self.now.since(self.served.made).as_secs_f64(),
            netmods: numbers.zip(netmods).map(|(n, name)| (name, engine.core.traffic(n))).collect(),
            vcs: engine.core.vc_count() as u64,
        }
    }

    #[cfg(feature = "tcp")]
    fn resumed(&self) -> u64 {
        self.netmod_report::<netmod_tcp::TcpReport>().map_or(0, |report| report.stats.resumes)
    }

    #[cfg(not(feature = "tcp"))]
    fn resumed(&self) -> u64 {
        0
    }

    /// Keeps incidents from now on for [`Vci::take_incidents`], or no longer.
    pub fn watch_incidents(&mut self, on: bool) {
        self.ch3.incidents.watch(on);
    }

    /// Returns true if incidents are kept.
    pub fn watches_incidents(&self) -> bool {
        self.ch3.incidents.are_watched()
    }

    /// Returns true if there are incidents to take.
    pub fn has_incidents(&self) -> bool {
        self.ch3.incidents.any()
    }

    /// Takes the incidents that were kept, the oldest first, and the number of those of each kind
    /// that found no room.
    pub fn take_incidents(&mut self) -> TakenIncidents {
        self.ch3.incidents.take()
    }
}
