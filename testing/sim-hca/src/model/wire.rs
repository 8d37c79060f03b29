//! Events in simulated time: packets in transit, doorbells, timers.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use hca::{AhAttr, SendOp};
use netmod_core::Time;

use crate::model::device::PortId;
use crate::model::{Id, State};

/// A flow that stays in order: packets from one queue pair to another, and their answers. Each
/// datagram is a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    Connected { from: Id, to: PortId, number: u32, answers: bool },
    Alone(u64),
}

/// Contents of a packet.
#[derive(Debug)]
pub(crate) enum Body {
    Request(Request),
    /// Acknowledges everything up to this number.
    Ack {
        psn: u32,
    },
    /// Result of a read or atomic.
    Answer {
        psn: u32,
        data: Vec<u8>,
    },
    Nak {
        psn: u32,
        why: Nak,
    },
    Datagram(Datagram),
}

/// Reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nak {
    /// An earlier packet is missing.
    Sequence,
    /// No receive; retry after the time with this code.
    NotReady(u8),
    InvalidRequest,
    Access,
    Operation,
}

/// A request on a connected queue pair.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    pub(crate) op: SendOp,
    pub(crate) data: Vec<u8>,
    /// MTU of the requester's queue pair in bytes.
    pub(crate) mtu: u64,
    /// Number of bytes to read.
    pub(crate) len: u64,
    pub(crate) srq: Option<u32>,
    pub(crate) solicited: bool,
    /// Number of the requester's reads and atomics in flight, including this one.
    pub(crate) depth: usize,
}

/// A datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) data: Vec<u8>,
    pub(crate) imm: Option<u32>,
    pub(crate) qkey: u32,
    pub(crate) solicited: bool,
    pub(crate) route: AhAttr,
}

/// A packet.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    /// Numbers of the queue pairs.
    pub(crate) source: u32,
    pub(crate) number: u32,
    /// True if the sender has no armed alternate path, or has changed to it (`MigReq`).
    pub(crate) migrated: bool,
    pub(crate) body: Body,
}

/// A due event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// Arrival of a flow's first packet.
    Arrival(Flow),
    /// A device looks at a send queue.
    Doorbell(Id),
    /// An acknowledgement is late, or the delay for posting receives is over.
    Timer(Id),
}

/// All future events.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    agenda: BTreeMap<(Time, u64), Due>,
    flows: BTreeMap<Flow, VecDeque<(Time, Packet)>>,
    sequence: u64,
}

impl Wire {
    fn at(&mut self, when: Time, due: Due) -> (Time, u64) {
        self.sequence += 1;
        self.agenda.insert((when, self.sequence), due);
        (when, self.sequence)
    }

    pub(crate) fn cancel(&mut self, timer: (Time, u64)) {
        self.agenda.remove(&timer);
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.agenda.keys().next().map(|(when, _)| *when)
    }
}

impl State {
    /// Notifies a device of work in a send queue.
    pub(crate) fn ring(&mut self, id: Id) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if !core::mem::replace(&mut qp.sq.rung, true) {
            self.wire.at(self.now, Due::Doorbell(id));
        }
    }

    /// Sets a queue pair's only timer.
    pub(crate) fn set_timer(&mut self, id: Id, wait: Duration) {
        self.stop_timer(id);
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.sq.timer = Some(self.wire.at(self.now + wait, Due::Timer(id)));
        }
    }

    /// Puts a packet in transit, unless it is lost at random or at a port.
    pub(crate) fn send(&mut self, id: Id, answers: bool, packet: Packet) {
        let lost = self.rng.chance(self.settings.faults.loss);
        if lost || !self.passes(packet.from) || !self.passes(packet.to) {
            return;
        }
        let (least, most) = (self.settings.delay_min, self.settings.delay_max);
        let spread = most.saturating_sub(least).as_nanos() as u64;
        let delay = least + Duration::from_nanos(self.rng.below(spread + 1));
        let flow = match packet.body {
            Body::Datagram(_) => Flow::Alone(self.rng.word()),
            _ => Flow::Connected { from: id, to: packet.to, number: packet.number, answers },
        };
        let queue = self.wire.flows.entry(flow).or_default();
        let before = queue.back().map(|(when, _)| *when);
        let when = (self.now + delay).max(before.unwrap_or(Time::ZERO));
        queue.push_back((when, packet));
        if before.is_none() {
            self.wire.at(when, Due::Arrival(flow));
        }
    }

    /// Executes one due event, if there is any. Events at nearly the same time happen in any order.
    fn one(&mut self) -> bool {
        const AMONG: usize = 8;
        let now = self.now;
        let due = self.wire.agenda.range(..=(now, u64::MAX)).take(AMONG).count();
        if due == 0 {
            return false;
        }
        let chosen = self.rng.below(due as u64) as usize;
        let Some((key, what)) = self.wire.agenda.iter().nth(chosen).map(|(key, what)| (*key, *what)) else {
            return false;
        };
        self.wire.agenda.remove(&key);
        match what {
            Due::Arrival(flow) => self.arrival(flow),
            Due::Doorbell(id) => {
                if let Some(qp) = self.qps.get_mut(&id) {
                    qp.sq.rung = false;
                    self.pump(id);
                }
            }
            Due::Timer(id) => {
                if let Some(qp) = self.qps.get_mut(&id) {
                    qp.sq.timer = None;
                    self.timer(id);
                }
            }
        }
        true
    }

    fn arrival(&mut self, flow: Flow) {
        let Some(queue) = self.wire.flows.get_mut(&flow) else { return };
        let packet = queue.pop_front();
        match queue.front() {
            Some((when, _)) => {
                let when = *when;
                self.wire.at(when, Due::Arrival(flow));
            }
            None => {
                self.wire.flows.remove(&flow);
            }
        }
        let Some((_, packet)) = packet else { return };
        if !self.passes(packet.to) {
            return;
        }
        let Some(id) = self.devices[packet.to.device].qps.get(&packet.number).copied() else { return };
        match &packet.body {
            Body::Datagram(_) => self.datagram(id, packet),
            _ => self.connected(id, packet),
        }
    }

    /// Executes some due events.
    pub(crate) fn some(&mut self) {
        for _ in 0..self.rng.below(4) {
            if !self.one() {
                break;
            }
        }
    }

    /// Executes all due events.
    pub(crate) fn all_due(&mut self) {
        while self.one() {}
    }

    /// Executes all events up to a time.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(due) = self.wire.next_due().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            self.one();
        }
        self.now = self.now.max(now);
    }
}
