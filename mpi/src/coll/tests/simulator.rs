//! A simulated machine that runs the schedules of many processes in its own time.
//!
//! A message occupies the sender's port for its gap and its bytes, travels for the latency, and
//! then, once it is wanted, occupies the receiver's port. Within a node each process has a port in
//! each direction, between nodes each node has. Messages to a port queue in the order in which they
//! come. The same input gives the same times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::coll::choice::{Machine, Path};
use crate::coll::{Schedule, Step};

/// A schedule without its buffers.
#[derive(Clone, Copy, Debug)]
enum Act {
    Send { to: u32, bytes: u64 },
    Recv { from: u32 },
    Compute { picoseconds: u64 },
    Fence,
}

/// An occurrence, at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A process goes on.
    Goes(u32),
    /// The head of a message is at the receiver's port.
    Head { from: u32, to: u32, bytes: u64 },
    /// A message is there.
    There(u32),
    /// A message has left.
    Left(u32),
}

/// Messages that are not wanted yet, by their bytes, and receives without one.
#[derive(Default)]
struct Channel {
    heads: VecDeque<u64>,
    posted: u32,
}

#[derive(Default)]
struct Process {
    acts: Vec<Act>,
    next: usize,
    pending: u32,
    waits: bool,
    sent: u64,
    got: u64,
    end: u64,
}

/// Time and bytes of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Nanoseconds.
    pub time: f64,
    /// The most bytes that a process has sent or received.
    pub bytes: u64,
    /// Messages of all processes.
    pub messages: u64,
}

/// A machine with so many processes a node, in the order of ranks.
pub struct Simulator {
    machine: Machine,
    /// Nanoseconds to copy and to combine a byte.
    copy: f64,
    reduce: f64,
    processes: Vec<Process>,
    channels: HashMap<(u32, u32), Channel>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    /// Times from which on ports are free: out and in, of processes and of nodes.
    ports: [Vec<u64>; 4],
    messages: u64,
}

fn picoseconds(ns: f64) -> u64 {
    (ns * 1000.0).round() as u64
}

impl Simulator {
    /// A machine without processes.
    pub fn new(machine: Machine, copy: f64, reduce: f64) -> Simulator {
        Simulator {
            machine,
            copy,
            reduce,
            processes: Vec::new(),
            channels: HashMap::new(),
            events: BinaryHeap::new(),
            number: 0,
            ports: Default::default(),
            messages: 0,
        }
    }

    /// A machine on which each round takes a nanosecond, whatever its bytes.
    pub fn of_rounds(n: usize) -> Simulator {
        let path = Path { name: "rounds", latency: 0.0, gap: 1.0, byte: 0.0, source: "" };
        Simulator::new(Machine { near: path, far: path, nodes: n, per_node: 1 }, 0.0, 0.0)
    }

    /// Adds the next process, with its schedule.
    pub fn add(&mut self, schedule: &Schedule) {
        let act = |step: &Step| match step {
            Step::Send { to, from } => Act::Send { to: *to, bytes: from.bytes() as u64 },
            Step::Recv { from, .. } => Act::Recv { from: *from },
            Step::Copy { into, .. } => {
                Act::Compute { picoseconds: picoseconds(into.bytes() as f64 * self.copy) }
            }
            Step::Reduce { into, .. } => {
                Act::Compute { picoseconds: picoseconds(into.bytes() as f64 * self.reduce) }
            }
            Step::Fence => Act::Fence,
            other => panic!("{other:?} is no step of messages"),
        };
        let acts = schedule.steps.iter().map(act).chain([Act::Fence]).collect();
        self.processes.push(Process { acts, ..Process::default() });
    }

    fn node(&self, rank: u32) -> usize {
        rank as usize / self.machine.per_node
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// Occupies the port of a message, `0` out or `1` in, from a time on. Returns the beginning and
    /// the end.
    fn occupy(&mut self, now: u64, (from, to): (u32, u32), side: usize, bytes: u64) -> (u64, u64) {
        let own = if side == 0 { from } else { to };
        let is_far = self.node(from) != self.node(to);
        let (path, port, table) = if is_far {
            (self.machine.far, self.node(own), 2 + side)
        } else {
            (self.machine.near, own as usize, side)
        };
        let begin = now.max(self.ports[table][port]);
        let end = begin + picoseconds(path.gap + bytes as f64 * path.byte);
        self.ports[table][port] = end;
        (begin, end)
    }

    /// Runs a process until it waits or computes.
    fn go(&mut self, rank: u32, now: u64) {
        loop {
            let process = &mut self.processes[rank as usize];
            let Some(act) = process.acts.get(process.next).copied() else {
                process.end = now;
                return;
            };
            if let Act::Fence = act
                && process.pending > 0
            {
                process.waits = true;
                return;
            }
            process.next += 1;
            match act {
                Act::Fence => {}
                Act::Compute { picoseconds } => return self.at(now + picoseconds, Event::Goes(rank)),
                Act::Recv { from } => {
                    process.pending += 1;
                    let channel = self.channels.entry((from, rank)).or_default();
                    channel.posted += 1;
                    self.match_up(from, rank, now);
                }
                Act::Send { to, bytes } => {
                    process.pending += 1;
                    process.sent += bytes;
                    self.messages += 1;
                    let (begin, end) = self.occupy(now, (rank, to), 0, bytes);
                    let is_far = self.node(rank) != self.node(to);
                    let path = if is_far { self.machine.far } else { self.machine.near };
                    self.at(end, Event::Left(rank));
                    self.at(begin + picoseconds(path.latency), Event::Head { from: rank, to, bytes });
                }
            }
        }
    }

    fn match_up(&mut self, from: u32, to: u32, now: u64) {
        if let Some(channel) = self.channels.get_mut(&(from, to))
            && channel.posted > 0
            && let Some(bytes) = channel.heads.pop_front()
        {
            channel.posted -= 1;
            let (_, end) = self.occupy(now, (from, to), 1, bytes);
            self.at(end, Event::There(to));
        }
    }

    /// Notes that one message of a process is over.
    fn settle(&mut self, rank: u32, now: u64) {
        let process = &mut self.processes[rank as usize];
        process.pending -= 1;
        if process.pending == 0 && process.waits {
            process.waits = false;
            self.at(now, Event::Goes(rank));
        }
    }

    /// Runs all processes to their end.
    pub fn run(mut self) -> Outcome {
        let n = self.processes.len();
        let nodes = n.div_ceil(self.machine.per_node);
        self.ports = [vec![0; n], vec![0; n], vec![0; nodes], vec![0; nodes]];
        (0..n as u32).for_each(|rank| self.at(0, Event::Goes(rank)));
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Goes(rank) => self.go(rank, now),
                Event::Left(rank) | Event::There(rank) => self.settle(rank, now),
                Event::Head { from, to, bytes } => {
                    self.processes[to as usize].got += bytes;
                    self.channels.entry((from, to)).or_default().heads.push_back(bytes);
                    self.match_up(from, to, now);
                }
            }
        }
        let stuck = self.processes.iter().position(|p| p.next < p.acts.len());
        assert_eq!(stuck, None, "a process waits for ever");
        let most = |f: fn(&Process) -> u64| self.processes.iter().map(f).max().unwrap_or(0);
        Outcome {
            time: most(|p| p.end) as f64 / 1000.0,
            bytes: most(|p| p.sent).max(most(|p| p.got)),
            messages: self.messages,
        }
    }
}

/// Messages that queue behind each other, for whoever changes the simulator.
#[test]
fn messages_queue_at_their_ports() {
    use crate::coll::{Base, Builder, Data, Elem};
    let path = Path { name: "", latency: 100.0, gap: 10.0, byte: 1.0, source: "" };
    let near = Path { latency: 5.0, ..path };
    let machine = Machine { near, far: path, nodes: 2, per_node: 2 };
    let run = |pairs: &[(usize, usize)]| {
        let mut all = Simulator::new(machine, 0.0, 0.0);
        for me in 0..4 {
            let mut b = Builder::new(me, 4);
            for (from, to) in pairs {
                let data = Data::new(Base::Send, 20, Elem::BYTE);
                if *from == me {
                    b.send(*to, data);
                } else if *to == me {
                    b.recv(*from, data);
                }
            }
            all.add(&b.finish());
        }
        all.run()
    };
    assert_eq!(run(&[(0, 2)]), Outcome { time: 130.0, bytes: 20, messages: 1 });
    // Within a node.
    assert_eq!(run(&[(0, 1)]).time, 35.0);
    // Two processes of a node share its port, in both directions.
    assert_eq!(run(&[(0, 2), (1, 3)]).time, 160.0);
    assert_eq!(run(&[(0, 2), (2, 0)]).time, 130.0);
    // One from each node to each other meets nobody.
    assert_eq!(run(&[(0, 2), (1, 0)]).time, 130.0);
    assert_eq!(run(&[(0, 2), (0, 3), (0, 2)]), Outcome { time: 190.0, bytes: 60, messages: 3 });
}
