//! The formula of each algorithm: its rounds, from which steps, bytes and time follow.

use super::algorithms::{
    Algorithm, Allgather, Allreduce, Alltoall, Barrier, Bcast, Case, Gather, Operation, Reduce,
    ReduceScatter, Scan, Scatter,
};
use super::costs::{CROWD, Cost, Machine, Path, REDUCE, Reach, Sum};
use crate::coll::alltoall::BATCH;
use crate::coll::circulant::{halved, rounds_of};
use crate::coll::schedule::floor_power;

/// An algorithm with a formula.
pub trait Formula {
    /// Returns the cost of a call.
    fn cost(self, machine: &Machine, case: &Case) -> Cost;

    /// Returns the cost of a call; nothing for one process.
    fn of(self, machine: &Machine, case: &Case) -> Cost
    where
        Self: Sized,
    {
        if case.n < 2 { Cost::default() } else { self.cost(machine, case) }
    }
}

/// Returns the cost of the fastest algorithm that can run a call.
pub fn best<A: Algorithm + Formula>(machine: &Machine, case: &Case) -> Cost {
    let costs = A::ALL.iter().filter(|a| a.can_run(case)).map(|a| a.of(machine, case));
    costs.reduce(|a, b| if b.time < a.time { b } else { a }).unwrap_or_default()
}

/// The most pieces of a message.
const MOST_PIECES: f64 = 4096.0;

/// Returns the number of pieces that makes a circulant broadcast fastest: with `r - 1 + q` rounds
/// for `r` pieces, the root of the ratio of what all rounds but one cost for a message's bytes and
/// for its start.
pub fn pieces(machine: &Machine, case: &Case) -> usize {
    let path = if machine.nodes > 1 { &machine.far } else { &machine.near };
    let ports = if machine.nodes > 1 { machine.per_node as f64 } else { 1.0 };
    let bytes = case.bytes as f64 * path.byte * ports;
    let start = path.latency + path.gap * ports;
    let rounds = rounds_of(case.n) as f64 - 1.0;
    let best = (rounds * bytes / start).sqrt();
    // Rounding half up is the same on all machines.
    (best + 0.5).clamp(1.0, MOST_PIECES.min(case.bytes.max(1) as f64)) as usize
}

/// The doublings 1, 2, 4, ... below `n`.
fn doublings(n: usize) -> impl DoubleEndedIterator<Item = usize> {
    (0..rounds_of(n)).map(|i| 1 << i)
}

/// Adds the rounds of a binomial tree through which the blocks of subtrees go.
fn tree_of_blocks(sum: &mut Sum<'_>, n: usize, block: f64) {
    for by in doublings(n) {
        sum.round(by.min(n - by) as f64 * block, Reach::Lone(by));
    }
}

/// Adds the rounds that double what each process has, or halve what it works on.
fn exchanges(sum: &mut Sum<'_>, power: usize, block: f64, reduces: bool) {
    for by in doublings(power) {
        sum.round(by as f64 * block, Reach::Swap(by));
        if reduces {
            sum.reduce(by as f64 * block);
        }
    }
}

/// Adds the rounds of a circulant allgather or, with reductions, reduce_scatter.
fn circulant(sum: &mut Sum<'_>, n: usize, block: f64, reduces: bool) {
    for (from, to) in halved(n) {
        let blocks = (to - from) as f64;
        sum.round(blocks * block, Reach::Shift(from));
        if to - from > 1 {
            sum.second(Reach::Shift(from));
        }
        if reduces {
            sum.reduce(blocks * block);
        }
    }
}

fn ring(sum: &mut Sum<'_>, n: usize, block: f64, reduces: bool) {
    sum.rounds(n - 1, block, Reach::Shift(1));
    if reduces {
        sum.reduce((n - 1) as f64 * block);
    }
}

/// Adds the rounds in which processes above a power of two hand their operands to others, and get
/// what they need.
fn folded(sum: &mut Sum<'_>, n: usize, out: f64, back: f64) -> usize {
    let power = floor_power(n);
    if power < n {
        sum.round(out, Reach::Swap(1));
        sum.reduce(out);
        if back > 0.0 {
            // A process that sends this has received the other one.
            sum.back(back, Reach::Swap(1));
        }
    }
    power
}

impl Formula for Barrier {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let mut sum = Sum::new(machine);
        doublings(case.n).for_each(|by| sum.round(0.0, Reach::Shift(by)));
        sum.cost()
    }
}

impl Formula for Bcast {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, m) = (case.n, case.bytes as f64);
        let (mut sum, part) = (Sum::new(machine), m / n as f64);
        match self {
            Bcast::Binomial => doublings(n).for_each(|by| sum.round(m, Reach::Lone(by))),
            Bcast::ScatterDoubling => {
                tree_of_blocks(&mut sum, n, part);
                exchanges(&mut sum, n, part, false);
            }
            Bcast::ScatterRing => {
                tree_of_blocks(&mut sum, n, part);
                ring(&mut sum, n, part, false);
            }
            Bcast::Circulant => {
                let pieces = pieces(machine, case);
                let (piece, q) = (m / pieces as f64, rounds_of(n));
                let rounds = pieces + q - 1;
                for (i, (by, _)) in halved(n).enumerate() {
                    let times = rounds / q + usize::from(i < rounds % q);
                    sum.rounds(times, piece, Reach::Shift(by));
                }
            }
        }
        sum.cost()
    }
}

/// The cost of a tree of blocks, and of the root's messages with all at once.
fn rooted(machine: &Machine, case: &Case, is_tree: bool) -> Cost {
    let (n, b) = (case.n, case.bytes as f64);
    let mut sum = Sum::new(machine);
    if is_tree {
        tree_of_blocks(&mut sum, n, b);
        // The first child's blocks are copied before and after they go up.
        sum.copy(if n > 2 { n as f64 / 2.0 * b } else { 0.0 });
    } else {
        sum.fan(n, b, n.max(1), (1.0, 1));
    }
    sum.cost()
}

impl Formula for Gather {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        rooted(machine, case, self == Gather::Binomial)
    }
}

impl Formula for Scatter {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        rooted(machine, case, self == Scatter::Binomial)
    }
}

impl Formula for Allgather {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, b) = (case.n, case.bytes as f64);
        let mut sum = Sum::new(machine);
        match self {
            Allgather::Doubling => {
                exchanges(&mut sum, n, b, false);
                if !case.uniform {
                    sum.copy(n as f64 * b);
                }
            }
            Allgather::Bruck => {
                for by in doublings(n) {
                    sum.round(by.min(n - by) as f64 * b, Reach::Shift(by));
                }
                sum.copy(n as f64 * b);
            }
            Allgather::Ring => ring(&mut sum, n, b, false),
            Allgather::Circulant => circulant(&mut sum, n, b, false),
        }
        sum.cost()
    }
}

impl Formula for Alltoall {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, b) = (case.n, case.bytes as f64);
        let mut sum = Sum::new(machine);
        match self {
            Alltoall::Bruck => {
                for by in doublings(n) {
                    // The numbers below n with this bit.
                    let moved = n / (2 * by) * by + (n % (2 * by)).saturating_sub(by);
                    sum.round(moved as f64 * b, Reach::Shift(by));
                    sum.copy(2.0 * moved as f64 * b);
                }
                sum.copy(2.0 * n as f64 * b);
            }
            Alltoall::Scattered => sum.fan(n, b, BATCH, (CROWD, machine.per_node)),
            Alltoall::Pairwise => {
                let near = machine.per_node.min(n);
                (1..near).for_each(|by| sum.round(b, Reach::Shift(by)));
                sum.rounds(n - near, b, Reach::Shift(near));
            }
        }
        sum.cost()
    }
}

impl Formula for Reduce {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, m) = (case.n, case.bytes as f64);
        let mut sum = Sum::new(machine);
        // Into the result, unless it is in place.
        sum.copy(if n > 2 { m } else { 0.0 });
        match self {
            Reduce::Binomial => {
                for by in doublings(n) {
                    sum.round(m, Reach::Lone(by));
                    sum.reduce(m);
                }
            }
            Reduce::Rabenseifner => {
                let power = folded(&mut sum, n, m, 0.0);
                exchanges(&mut sum, power, m / power as f64, true);
                tree_of_blocks(&mut sum, power, m / power as f64);
            }
        }
        sum.cost()
    }
}

impl Formula for Allreduce {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, m) = (case.n, case.bytes as f64);
        let (mut sum, part) = (Sum::new(machine), m / n as f64);
        // Into the result, unless it is in place.
        sum.copy(if self == Allreduce::Circulant { 0.0 } else { m });
        match self {
            Allreduce::Doubling => {
                let power = folded(&mut sum, n, m, m);
                for by in doublings(power) {
                    sum.round(m, Reach::Swap(by));
                    sum.reduce(m);
                }
            }
            Allreduce::Rabenseifner => {
                let power = folded(&mut sum, n, m, m);
                exchanges(&mut sum, power, m / power as f64, true);
                exchanges(&mut sum, power, m / power as f64, false);
            }
            Allreduce::Ring => {
                ring(&mut sum, n, part, true);
                ring(&mut sum, n, part, false);
            }
            Allreduce::Circulant => {
                circulant(&mut sum, n, part, true);
                circulant(&mut sum, n, part, false);
            }
        }
        sum.cost()
    }
}

impl Formula for ReduceScatter {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let (n, m) = (case.n, case.bytes as f64);
        let (mut sum, part) = (Sum::new(machine), m / n as f64);
        match self {
            ReduceScatter::Halving => {
                sum.copy(m);
                let power = folded(&mut sum, n, m, part);
                for by in doublings(power) {
                    // Pairs come first, with two blocks each.
                    let blocks = (by + by.min(n - power)) as f64;
                    sum.round(blocks * part, Reach::Swap(by));
                    sum.reduce(blocks * part);
                }
            }
            ReduceScatter::Pairwise => {
                let near = machine.per_node.min(n);
                (1..near).for_each(|by| sum.round(part, Reach::Shift(by)));
                sum.rounds(n - near, part, Reach::Shift(near));
                sum.reduce((n - 1) as f64 * part);
            }
            ReduceScatter::Ring => {
                sum.copy(m);
                ring(&mut sum, n, part, true);
            }
            ReduceScatter::Circulant => {
                circulant(&mut sum, n, part, true);
            }
            ReduceScatter::Allreduce => {
                sum.copy(part);
                let best = Allreduce::Doubling.cost(machine, case);
                sum.add(best);
            }
        }
        sum.cost()
    }
}

impl Formula for Scan {
    fn cost(self, machine: &Machine, case: &Case) -> Cost {
        let m = case.bytes as f64;
        let mut sum = Sum::new(machine);
        for by in doublings(case.n) {
            sum.round(m, Reach::Swap(by));
            sum.reduce(2.0 * m);
        }
        sum.cost()
    }
}

/// The least time in which what one process has can reach `n`, if a process sends one message at a
/// time (Karp, Sahay, Santos, Schauser 1993): in units of the gap, those who know at `t` are those
/// who knew at `t - 1`, and those to whom one has sent at the end of `t - 1` less the latency.
fn spread(n: usize, path: &Path) -> f64 {
    let delay = ((path.latency + path.gap) / path.gap) as usize;
    let mut known = vec![1usize; delay.max(1)];
    while known[known.len() - 1] < n {
        let t = known.len();
        known.push(known[t - 1].saturating_add(known[t - delay.max(1)]));
    }
    if n > 1 { (known.len() - 1) as f64 * path.gap } else { 0.0 }
}

/// Returns the least time that any algorithm may take: that of a message's way to all, or that of
/// the bytes that some process must send or receive, and what it must combine (Chan, Heimlich,
/// Purkayastha, van de Geijn 2007).
pub fn bound(operation: Operation, machine: &Machine, case: &Case) -> f64 {
    use Operation as Op;
    let (n, m) = (case.n as f64, case.bytes as f64);
    if case.n < 2 {
        return 0.0;
    }
    let far = machine.nodes > 1;
    let all = if far { spread(machine.nodes, &machine.far) } else { spread(case.n, &machine.near) };
    let one = if far { &machine.far } else { &machine.near };
    let others = (n - 1.0) / n;
    let (start, bytes, combined) = match operation {
        Op::Barrier => (all, 0.0, 0.0),
        Op::Bcast => (all, m, 0.0),
        Op::Allgather => (all, (n - 1.0) * m, 0.0),
        Op::Gather | Op::Scatter | Op::Alltoall => (one.latency + one.gap, (n - 1.0) * m, 0.0),
        Op::Reduce | Op::Scan => (all, m, others * m),
        Op::Allreduce => (all, 2.0 * others * m, others * m),
        Op::ReduceScatter => (all, others * m, others * m),
    };
    // Bytes may come from processes of the same node as far as there are some.
    let path = if machine.per_node == 1 && far { &machine.far } else { &machine.near };
    start.max(bytes * path.byte + path.latency) + combined * REDUCE
}
