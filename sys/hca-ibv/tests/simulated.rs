//! Runs the scenarios on the simulated HCA, which shows that they rely only on what verbs promise.

#![allow(unsafe_code)]

mod scenarios;

use std::os::fd::BorrowedFd;

use netmod_sim_hca::{DeviceId, DeviceSettings, Fabric, Settings, SimHca};

/// A fabric with one device.
struct Simulated {
    fabric: Fabric,
    device: DeviceId,
}

impl Simulated {
    fn new() -> Simulated {
        let fabric = Fabric::new(Settings::default());
        let device = fabric.device(DeviceSettings::new("sim0"));
        Simulated { fabric, device }
    }
}

impl scenarios::World for Simulated {
    type H = SimHca;

    fn open(&self) -> SimHca {
        self.fabric.open(self.device).expect("there are descriptors")
    }

    fn wait(&self, fd: BorrowedFd<'_>, what: &str) {
        while !scenarios::readable(fd, 0) {
            let due = self.fabric.next_due().unwrap_or_else(|| panic!("{what} never comes"));
            self.fabric.advance(due);
        }
    }

    fn set_port(&self, up: bool) -> bool {
        self.fabric.set_port(self.device, 1, up);
        true
    }

    fn pass(&self, time: core::time::Duration) {
        self.fabric.advance(self.fabric.now() + time);
    }
}

suite! { [] Simulated::new() }
