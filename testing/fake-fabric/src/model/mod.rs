//! A world: the provider without pointers. All functions take the state of a world by `&mut`;
//! errors are positive numbers.

pub(crate) mod atomic;
pub(crate) mod motion;
pub(crate) mod object;
pub(crate) mod offer;
pub(crate) mod post;
pub(crate) mod queue;
pub(crate) mod region;
pub(crate) mod vector;
pub(crate) mod word;

use std::collections::{BTreeMap, VecDeque};

use crate::mem::Lent;
use crate::request::{Leaks, Node, NodeState, Operation, Stats};
use crate::settings::{MrDialect, Settings};
use libfabric_sys::consts::{FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR};
use motion::{FlowKey, Message, Transfer};
use netmod_harness::Rng;
use object::{Class, Slot};
use queue::Queue;
use region::Region;
use vector::Vector;

/// Makes the world's random numbers differ from those of a test with the same seed.
const CHANCE: u64 = 0x6a09_e667_f3bc_c908;

/// Identifier of an object of a world. Identifiers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) usize);

/// Parts of an object of libfabric's endpoint type: an endpoint sends and receives, a scalable one
/// does neither, its contexts do one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Face {
    pub(crate) port: usize,
    pub(crate) tx: Option<usize>,
    pub(crate) rx: Option<usize>,
}

/// Sending side of an endpoint or context.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(crate) open: bool,
    pub(crate) enabled: bool,
    pub(crate) queue: Option<Id>,
    /// True if only operations that request a completion have one.
    pub(crate) selective: bool,
    pub(crate) op_flags: u64,
    /// Number of incomplete operations.
    pub(crate) outstanding: usize,
    pub(crate) size: usize,
}

/// Receiving side of an endpoint or context.
#[derive(Debug, Default)]
pub(crate) struct Rx {
    pub(crate) open: bool,
    pub(crate) enabled: bool,
    pub(crate) queue: Option<Id>,
    pub(crate) op_flags: u64,
    /// Operations that wait for messages.
    pub(crate) posted: VecDeque<u64>,
    /// Free space below which a buffer takes no further message.
    pub(crate) min_multi_recv: usize,
    pub(crate) size: usize,
    /// Number of messages in transit to it.
    pub(crate) coming: usize,
}

/// An endpoint, scalable or not. It keeps its number and address when it is closed.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) domain: Id,
    pub(crate) address: Vec<u8>,
    pub(crate) caps: u64,
    pub(crate) scalable: bool,
    pub(crate) vector: Option<Id>,
    pub(crate) enabled: bool,
    pub(crate) closed: bool,
    pub(crate) dead: bool,
    /// True if no data moves to it.
    pub(crate) stalled: bool,
    pub(crate) tx: Vec<Tx>,
    pub(crate) rx: Vec<Rx>,
}

/// An operation, from the call until its last completion was read or its endpoint was closed.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) kind: Operation,
    pub(crate) face: Face,
    pub(crate) context: usize,
    /// Lent context storage, and its content as the provider has written it.
    pub(crate) storage: Option<(Lent, Vec<u8>)>,
    pub(crate) pieces: Vec<Lent>,
    pub(crate) regions: Vec<Id>,
    /// Data to send or write, as of the call; empty if the memory is free already.
    pub(crate) sent: Vec<u8>,
    /// Arrays of iovecs and descriptors that must not change.
    pub(crate) arrays: Vec<(Lent, Vec<u8>)>,
    pub(crate) len: usize,
    pub(crate) wanted: bool,
    /// True if it occupies a slot of the transmit context.
    pub(crate) counted: bool,
    /// True for a multi-receive buffer.
    pub(crate) multi: bool,
    pub(crate) used: usize,
    /// Time of its latest completion.
    pub(crate) latest: u64,
    /// Its destination; unused for receives.
    pub(crate) peer: Option<usize>,
}

/// State of a world.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) rng: Rng,
    /// Number of calls of `fi_cq_read`, which is the world's only clock.
    pub(crate) tick: u64,
    pub(crate) slots: Vec<Slot>,
    pub(crate) faces: BTreeMap<Id, Face>,
    pub(crate) vectors: BTreeMap<Id, Vector>,
    pub(crate) queues: BTreeMap<Id, Queue>,
    pub(crate) regions: BTreeMap<Id, Region>,
    pub(crate) ports: Vec<Port>,
    pub(crate) addresses: BTreeMap<Vec<u8>, usize>,
    pub(crate) ops: BTreeMap<u64, Op>,
    /// Context storage lent by operations, by address.
    pub(crate) contexts: BTreeMap<usize, u64>,
    pub(crate) flows: BTreeMap<FlowKey, VecDeque<Message>>,
    /// Time of the latest receive completion of each flow.
    pub(crate) flow_due: BTreeMap<FlowKey, u64>,
    pub(crate) transfers: Vec<Transfer>,
    /// Counter of operations, messages and completions, which gives their order of creation.
    pub(crate) sequence: u64,
    /// Time of the latest arrival, where nothing may be reordered.
    pub(crate) arrival_due: u64,
    pub(crate) fail_next: [u64; 5],
    pub(crate) abandoned: usize,
    pub(crate) stats: Stats,
    violations: Vec<String>,
}

impl State {
    pub(crate) fn new(number: u64, settings: Settings) -> State {
        State {
            rng: Rng::new(settings.seed ^ CHANCE),
            name: format!("fake-{number:06}"),
            number,
            settings,
            tick: 0,
            slots: Vec::new(),
            faces: BTreeMap::new(),
            vectors: BTreeMap::new(),
            queues: BTreeMap::new(),
            regions: BTreeMap::new(),
            ports: Vec::new(),
            addresses: BTreeMap::new(),
            ops: BTreeMap::new(),
            contexts: BTreeMap::new(),
            flows: BTreeMap::new(),
            flow_due: BTreeMap::new(),
            transfers: Vec::new(),
            sequence: 0,
            arrival_due: 0,
            fail_next: [0; 5],
            abandoned: 0,
            stats: Stats::default(),
            violations: Vec::new(),
        }
    }

    /// Records a violation of a strict provider's rules, up to a maximum number.
    pub(crate) fn violation(&mut self, text: String) {
        const MOST: usize = 10_000;
        if self.violations.len() < MOST {
            self.violations.push(text);
        }
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Returns the requirements of regions as bits, whatever their form.
    pub(crate) fn mr_mode(&self) -> i32 {
        match self.settings.mr_dialect {
            MrDialect::Bits => self.settings.mr_mode,
            MrDialect::Basic => FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
            MrDialect::Scalable => 0,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Mixes an event into the trace (FNV-1a over words).
    pub(crate) fn trace(&mut self, what: u64, number: u64) {
        for word in [what, number, self.tick] {
            self.stats.trace = (self.stats.trace ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
    }

    /// Returns true if data can reach a port.
    pub(crate) fn is_up(&self, port: usize) -> bool {
        !self.ports[port].dead && !self.ports[port].closed
    }

    pub(crate) fn nodes(&self) -> Vec<NodeState> {
        let state =
            |port: &Port| NodeState { address: port.address.clone(), dead: port.dead, closed: port.closed };
        self.ports.iter().map(state).collect()
    }

    fn find(&self, node: &Node) -> Result<usize, String> {
        let found = match node {
            Node::Number(number) => (*number < self.ports.len()).then_some(*number),
            Node::Address(address) => self.addresses.get(address).copied(),
        };
        found.ok_or_else(|| format!("{} has no endpoint {node:?}; it has {}", self.name, self.ports.len()))
    }

    /// Kills the process of an endpoint, with all endpoints of its domain: nothing that it has sent
    /// arrives any more, and its memory is not accessed again.
    pub(crate) fn kill(&mut self, node: &Node) -> Result<(), String> {
        let domain = self.ports[self.find(node)?].domain;
        let mine: Vec<usize> =
            (0..self.ports.len()).filter(|port| self.ports[*port].domain == domain).collect();
        for &port in &mine {
            self.ports[port].dead = true;
            self.drop_port(port);
        }
        for (key, flow) in self.flows.iter_mut().filter(|(key, _)| mine.contains(&key.from)) {
            self.stats.lost += flow.len() as u64;
            self.ports[key.to].rx[key.rx].coming -= flow.len();
            flow.clear();
        }
        self.transfers.retain(|transfer| !mine.contains(&transfer.from));
        // Endpoints that the dead process still opens expose no memory.
        self.regions.values_mut().filter(|region| region.domain == domain).for_each(Region::forget);
        self.wake_all();
        Ok(())
    }

    pub(crate) fn stall(&mut self, node: &Node, on: bool) -> Result<(), String> {
        let port = self.find(node)?;
        self.ports[port].stalled = on;
        self.wake_all();
        Ok(())
    }

    /// Ends all operations of a port without completions.
    pub(crate) fn drop_port(&mut self, port: usize) {
        let gone: Vec<u64> =
            self.ops.iter().filter(|(_, op)| op.face.port == port).map(|(id, _)| *id).collect();
        for id in gone {
            self.forget(id);
        }
        for queue in self.queues.values_mut() {
            queue.forget(port);
        }
        for rx in &mut self.ports[port].rx {
            rx.posted.clear();
        }
        for tx in &mut self.ports[port].tx {
            tx.outstanding = 0;
        }
    }

    /// Removes an operation; the application owns its memory again.
    pub(crate) fn forget(&mut self, id: u64) {
        let Some(op) = self.ops.remove(&id) else { return };
        if op.storage.is_some() {
            self.contexts.remove(&op.context);
        }
        for region in op.regions {
            if let Some(region) = self.regions.get_mut(&region) {
                region.users -= 1;
            }
        }
    }

    /// Counts what is left.
    pub(crate) fn leaks(&self) -> Leaks {
        let dead = |id: Id| self.ports.iter().any(|port| port.dead && port.domain == id);
        let mut leaks = Leaks { operations: self.ops.len(), abandoned: self.abandoned, ..Leaks::default() };
        for (number, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.open) {
            let domain = if slot.class == Class::Domain { Some(Id(number)) } else { slot.domain };
            // A fabric is excused if it has only a dead node's domain.
            let excused = match domain {
                Some(domain) => dead(domain),
                None => {
                    let mine = |other: &Slot| {
                        other.open && other.class == Class::Domain && other.parent == Some(Id(number))
                    };
                    let mut domains =
                        self.slots.iter().enumerate().filter(|(_, other)| mine(other)).peekable();
                    domains.peek().is_some() && domains.all(|(id, _)| dead(Id(id)))
                }
            };
            if excused {
                continue;
            }
            *match slot.class {
                Class::Fabric => &mut leaks.fabrics,
                Class::Domain => &mut leaks.domains,
                Class::Vector => &mut leaks.vectors,
                Class::Queue => &mut leaks.queues,
                Class::Region => &mut leaks.regions,
                Class::Endpoint | Class::Scalable => &mut leaks.endpoints,
                Class::Tx | Class::Rx => &mut leaks.contexts,
            } += 1;
        }
        leaks
    }

    /// Ends the world: lent memory is not accessed any more, whatever calls follow.
    pub(crate) fn end(&mut self) {
        self.ops.clear();
        self.contexts.clear();
        self.flows.clear();
        self.transfers.clear();
        for port in &mut self.ports {
            port.dead = true;
            port.rx.iter_mut().for_each(|rx| rx.posted.clear());
        }
        for queue in self.queues.values_mut() {
            queue.clear();
        }
        self.regions.values_mut().for_each(Region::forget);
    }
}
