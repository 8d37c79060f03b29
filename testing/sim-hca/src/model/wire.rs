//! What happens and when: packets on their way, doorbells, timers.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use hca::{AhAttr, SendOp};
use netmod_core::Time;

use crate::model::device::Place;
use crate::model::{Id, State};

/// Things that stay in order: what one queue pair sends to another one, and what that one answers. A datagram is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    Connected { from: Id, to: Place, number: u32, answers: bool },
    Alone(u64),
}

/// What a packet says.
#[derive(Debug)]
pub(crate) enum Body {
    Request(Request),
    /// All up to this number was done.
    Ack {
        psn: u32,
    },
    /// A read's or atomic's result.
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

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nak {
    /// One before it is missing.
    Sequence,
    /// There is no receive; try again after the time of this code.
    NotReady(u8),
    InvalidRequest,
    Access,
    Operation,
}

/// A request of a connected queue pair.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    pub(crate) op: SendOp,
    pub(crate) data: Vec<u8>,
    /// Bytes in a packet, by the requester's queue pair.
    pub(crate) mtu: u64,
    /// Bytes to be read.
    pub(crate) len: u64,
    pub(crate) srq: Option<u32>,
    pub(crate) solicited: bool,
    /// Reads and atomics of the requester under way, with this one.
    pub(crate) depth: usize,
}

/// A datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) data: Vec<u8>,
    pub(crate) imm: Option<u32>,
    pub(crate) qkey: u32,
    pub(crate) solicited: bool,
    pub(crate) way: AhAttr,
}

/// A packet.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) from: Place,
    pub(crate) to: Place,
    /// Queue pairs.
    pub(crate) source: u32,
    pub(crate) number: u32,
    /// The sender has no armed alternate path, or has changed to it (`MigReq`).
    pub(crate) migrated: bool,
    pub(crate) body: Body,
}

/// Something that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The first packet of a flow arrives.
    Arrival(Flow),
    /// A device looks at a send queue.
    Doorbell(Id),
    /// An acknowledgement is late, or a peer has had the time to post receives.
    Timer(Id),
}

/// Everything that is due.
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
    /// A device looks at a send queue soon.
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

    /// Puts a packet on its way, unless chance or a port has it lost.
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

    /// One of the things that are due, if there is any. Those that are due at much the same time come in any order.
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

    /// Some of what is due.
    pub(crate) fn some(&mut self) {
        for _ in 0..self.rng.below(4) {
            if !self.one() {
                break;
            }
        }
    }

    /// All that is due.
    pub(crate) fn all_due(&mut self) {
        while self.one() {}
    }

    /// Everything up to a time.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(due) = self.wire.next_due().filter(|due| *due <= now) {
            self.now = self.now.max(due);
            self.one();
        }
        self.now = self.now.max(now);
    }
}
