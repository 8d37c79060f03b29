//! Plans of large jobs: messages to neighbours, all-reduces, halo exchanges, and nodes that are
//! lost meanwhile.

use ch3_shim::{ANY_SOURCE, Mode};

use crate::plan::{Fault, FaultKind, How, Maker, Message, Plan};

/// First tag of messages to the left neighbour.
const LEFT: i32 = 50;

impl Maker {
    /// Adds a message of communicator 0, for a receive that names its sender.
    fn message(&mut self, round: usize, from: u32, to: u32, tag: i32, len: usize) {
        let m = Message { from, to, comm: 0, tag, len, mode: Mode::Standard, stream: 0, cancel: false };
        self.add(round, m, from as i32, tag, How::Posted);
    }
}

/// Returns the extents of a grid of so many ranks, as near to a cube as their divisors permit.
fn grid(ranks: u32) -> [u32; 3] {
    let divisor = |n: u32, most: u32| (1..=most.max(1)).rev().find(|d| n.is_multiple_of(*d)).unwrap_or(1);
    let a = divisor(ranks, f64::from(ranks).cbrt().round() as u32);
    let b = divisor(ranks / a, f64::from(ranks / a).sqrt().round() as u32);
    [a, b, ranks / a / b]
}

/// Returns the six neighbours of a rank in a periodic grid.
fn neighbours(rank: u32, [a, b, c]: [u32; 3]) -> [u32; 6] {
    let [x, y, z] = [rank % a, rank / a % b, rank / a / b];
    let at = |x: u32, y: u32, z: u32| x % a + a * (y % b + b * (z % c));
    [
        at(x + 1, y, z),
        at(x + a - 1, y, z),
        at(x, y + 1, z),
        at(x, y + b - 1, z),
        at(x, y, z + 1),
        at(x, y, z + c - 1),
    ]
}

impl Plan {
    /// Makes a plan in which each rank sends small messages to its neighbours, and to the ranks at
    /// distances of all powers of two, in `rounds` rounds.
    pub(crate) fn neighbours(ranks: u32, rounds: usize) -> Plan {
        let mut maker = Maker::calm(ranks, rounds);
        for round in 0..rounds {
            for from in 0..ranks {
                let mut step = 1;
                while step < ranks {
                    maker.message(round, from, (from + step) % ranks, round as i32, 8);
                    step *= 2;
                }
                // The left neighbour, too: a stencil.
                maker.message(round, from, (from + ranks - 1) % ranks, LEFT + round as i32, 100);
            }
        }
        maker.plan
    }

    /// Makes a plan in which all other ranks send one message to rank 0 at once.
    pub(crate) fn storm(ranks: u32) -> Plan {
        let mut maker = Maker::calm(ranks, 1);
        for from in 1..ranks {
            let m =
                Message { from, to: 0, comm: 0, tag: 0, len: 64, mode: Mode::Sync, stream: 0, cancel: false };
            maker.add(0, m, ANY_SOURCE, 0, How::Posted);
        }
        maker.plan
    }

    /// Makes a plan of all-reduces of 8 bytes by dissemination, one after the other: in each round
    /// every rank hears from one, at twice the distance of the round before.
    pub(crate) fn allreduce(ranks: u32, times: usize) -> Plan {
        let steps = ranks.next_power_of_two().ilog2() as usize;
        let mut maker = Maker::calm(ranks, steps * times);
        for round in 0..steps * times {
            for from in 0..ranks {
                let to = (from + (1 << (round % steps))) % ranks;
                maker.message(round, from, to, round as i32, 8);
            }
        }
        maker.plan
    }

    /// Makes a plan of halo exchanges: each rank sends so many bytes to its six neighbours in a
    /// periodic grid, in each round.
    pub(crate) fn halo(ranks: u32, rounds: usize, bytes: usize) -> Plan {
        let mut maker = Maker::calm(ranks, rounds);
        for round in 0..rounds {
            for from in 0..ranks {
                for (side, to) in neighbours(from, grid(ranks)).into_iter().enumerate() {
                    maker.message(round, from, to, (round * 6 + side) as i32, bytes);
                }
            }
        }
        maker.plan
    }

    /// Lets the processes of a node die, its ranks being `first` and so many behind it, all at this
    /// step of the simulation.
    pub(crate) fn without_node(mut self, first: u32, ranks: u32, step: u64) -> Plan {
        self.fault_kind = FaultKind::Crashes;
        self.faults = (first..first + ranks).map(|rank| (step, Fault::Crash(rank))).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_mutual() {
        for (ranks, extents) in
            [(1, [1, 1, 1]), (12, [2, 2, 3]), (1000, [10, 10, 10]), (10_000, [20, 20, 25])]
        {
            assert_eq!(grid(ranks), extents);
            for rank in 0..ranks {
                for (side, other) in neighbours(rank, extents).into_iter().enumerate() {
                    assert_eq!(neighbours(other, extents)[side ^ 1], rank, "{ranks} ranks, side {side}");
                }
            }
        }
    }
}
