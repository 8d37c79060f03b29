//! Devices with their ports, and the processes that have opened them, with their asynchronous
//! events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hca::{
    AhAttr, AsyncEvent, DeviceAttr, Errno, Gid, GidEntry, GidKind, LinkLayer, PortAttr, PortState, errno,
};

use crate::bell::Bell;
use crate::model::{Id, State};
use crate::settings::DeviceSettings;

/// A port of the fabric: its device, and its number from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortId {
    pub(crate) device: usize,
    pub(crate) port: u8,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) settings: DeviceSettings,
    pub(crate) failed: bool,
    /// State of the ports, from 0 on; true if up.
    pub(crate) up: Vec<bool>,
    pub(crate) qps: BTreeMap<u32, Id>,
    pub(crate) srqs: BTreeMap<u32, Id>,
    /// Registrations by key; local and remote keys are the same.
    pub(crate) keys: BTreeMap<u32, Id>,
    last_number: u32,
    last_key: u32,
}

/// A process that has opened a device.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) open: bool,
    pub(crate) events: VecDeque<AsyncEvent>,
    pub(crate) bell: Arc<Bell>,
    /// Total length of its registrations in bytes.
    pub(crate) registered: u64,
}

impl Device {
    pub(crate) fn new(mut settings: DeviceSettings, number: usize) -> Device {
        settings.attr.node_guid = 0x0002_c903_0000_0000 | (number as u64 + 1);
        Device {
            up: vec![true; settings.attr.ports.into()],
            settings,
            failed: false,
            qps: BTreeMap::new(),
            srqs: BTreeMap::new(),
            keys: BTreeMap::new(),
            // The same on all devices, as on machines that were booted together.
            last_number: 0x40,
            last_key: 0,
        }
    }

    pub(crate) fn attr(&self) -> &DeviceAttr {
        &self.settings.attr
    }

    /// Returns a new number for a queue pair or shared receive queue, 24 bits. Numbers are not
    /// reused soon.
    pub(crate) fn new_number(&mut self) -> u32 {
        loop {
            self.last_number = (self.last_number + 1) & 0x00ff_ffff;
            let number = self.last_number;
            // 0 and 1 are reserved for management.
            if number > 1 && !self.qps.contains_key(&number) && !self.srqs.contains_key(&number) {
                return number;
            }
        }
    }

    /// Returns a key: an index, and eight bits that make it hard to guess.
    pub(crate) fn new_key(&mut self, random: u8) -> u32 {
        loop {
            self.last_key = (self.last_key + 1) & 0x00ff_ffff;
            let key = self.last_key << 8 | u32::from(random);
            if self.last_key != 0 && !self.keys.contains_key(&key) {
                return key;
            }
        }
    }
}

impl State {
    /// Returns true if packets pass a port.
    pub(crate) fn passes(&self, port_id: PortId) -> bool {
        let device = &self.devices[port_id.device];
        !device.failed && device.up[usize::from(port_id.port - 1)]
    }

    fn lid(&self, port_id: PortId) -> u16 {
        match self.devices[port_id.device].settings.link_layer {
            LinkLayer::Ethernet => 0,
            _ => (port_id.device * 4 + usize::from(port_id.port)) as u16,
        }
    }

    pub(crate) fn port(&self, port_id: PortId) -> Result<PortAttr, Errno> {
        let device = &self.devices[port_id.device];
        if port_id.port == 0 || port_id.port > device.attr().ports {
            return Err(errno::EINVAL);
        }
        Ok(PortAttr {
            state: if self.passes(port_id) { PortState::Active } else { PortState::Down },
            max_mtu: device.settings.mtu,
            active_mtu: device.settings.mtu,
            lid: self.lid(port_id),
            link_layer: device.settings.link_layer,
            gid_table_len: 16,
            pkey_table_len: 1,
            max_msg_size: device.settings.max_msg_size,
            speed: 100_000,
        })
    }

    pub(crate) fn gids(&self, port_id: PortId) -> Result<Vec<GidEntry>, Errno> {
        let device = &self.devices[self.port(port_id).map(|_| port_id.device)?];
        let guid = device.attr().node_guid.wrapping_add(u64::from(port_id.port) << 16);
        let mut link_local = [0; 16];
        link_local[..2].copy_from_slice(&[0xfe, 0x80]);
        link_local[8..].copy_from_slice(&guid.to_be_bytes());
        let entry = |index, gid, kind, ifindex| GidEntry { gid: Gid(gid), index, kind, ifindex };
        if device.settings.link_layer != LinkLayer::Ethernet {
            return Ok(vec![entry(0, link_local, GidKind::Ib, 0)]);
        }
        let ifindex = u32::from(port_id.port) + 1;
        let mut ipv4 = [0; 16];
        ipv4[10..12].fill(0xff);
        ipv4[12..].copy_from_slice(&[10, (port_id.device >> 8) as u8, port_id.device as u8, port_id.port]);
        Ok(vec![
            entry(0, link_local, GidKind::RoceV1, ifindex),
            entry(1, link_local, GidKind::RoceV2, ifindex),
            entry(2, ipv4, GidKind::RoceV1, ifindex),
            entry(3, ipv4, GidKind::RoceV2, ifindex),
        ])
    }

    /// Checks that a device accepts a route.
    pub(crate) fn check_route(&self, device: usize, route: &AhAttr) -> Result<(), Errno> {
        let from = PortId { device, port: route.port };
        let table = self.gids(from)?;
        let ethernet = self.devices[device].settings.link_layer == LinkLayer::Ethernet;
        let sgid = route.grh.map(|grh| table.iter().any(|entry| entry.index == grh.sgid_index));
        match sgid {
            Some(true) => Ok(()),
            None if !ethernet && route.dlid != 0 => Ok(()),
            _ => Err(errno::EINVAL),
        }
    }

    /// Returns the destination of a route, if there is one.
    pub(crate) fn find_port(&self, from: usize, route: &AhAttr) -> Option<PortId> {
        let link_layer = self.devices[from].settings.link_layer;
        let kind = route.grh.and_then(|grh| {
            let table = self.gids(PortId { device: from, port: route.port }).ok()?;
            table.iter().find(|entry| entry.index == grh.sgid_index).map(|entry| entry.kind)
        });
        let ports = self
            .devices
            .iter()
            .enumerate()
            .flat_map(|(device, d)| (1..=d.attr().ports).map(move |port| PortId { device, port }));
        ports.filter(|port_id| self.devices[port_id.device].settings.link_layer == link_layer).find(
            |port_id| {
                if link_layer == LinkLayer::Ethernet {
                    let Some(grh) = route.grh else { return false };
                    let table = self.gids(*port_id).unwrap_or_default();
                    table.iter().any(|entry| entry.gid == grh.dgid && Some(entry.kind) == kind)
                } else {
                    self.lid(*port_id) == route.dlid
                }
            },
        )
    }

    /// Reports an event to a process.
    pub(crate) fn event(&mut self, context: usize, event: AsyncEvent) {
        let context = &mut self.contexts[context];
        if context.open {
            context.events.push_back(event);
            context.bell.set(true);
        }
    }

    /// Reports an event to all processes that have a device open.
    pub(crate) fn event_of_device(&mut self, device: usize, event: AsyncEvent) {
        for context in 0..self.contexts.len() {
            if self.contexts[context].device == device {
                self.event(context, event);
            }
        }
    }

    /// Takes a process's next event.
    pub(crate) fn take_event(&mut self, context: usize) -> Result<Option<AsyncEvent>, Errno> {
        let context = &mut self.contexts[context];
        if !context.open {
            return Err(errno::ENODEV);
        }
        let event = context.events.pop_front();
        context.bell.set(!context.events.is_empty());
        Ok(event)
    }

    /// Takes a port's link down or up.
    pub(crate) fn set_port(&mut self, port_id: PortId, up: bool) {
        let was = core::mem::replace(&mut self.devices[port_id.device].up[usize::from(port_id.port - 1)], up);
        if was != up {
            let event =
                if up { AsyncEvent::PortActive(port_id.port) } else { AsyncEvent::PortError(port_id.port) };
            self.event_of_device(port_id.device, event);
        }
    }

    /// Fails a device: its objects can only be closed.
    pub(crate) fn fail_device(&mut self, device: usize) {
        if !core::mem::replace(&mut self.devices[device].failed, true) {
            let qps: Vec<Id> = self.devices[device].qps.values().copied().collect();
            qps.into_iter().for_each(|qp| self.stop_timer(qp));
            self.event_of_device(device, AsyncEvent::DeviceFatal);
        }
    }
}
