//! A checked operation of a group: the data that it is about, of which its schedule is made.
//!
//! Here an operation gets its form, slots of shared memory or messages, and its algorithm.

mod leaders;

use super::choice::{self, Algorithm, Case, Formula, Operation, Setting, pieces};
use super::facts::OpFacts;
use super::schedule::{Builder, Data};
use super::{allgather, alltoall, barrier, bcast, gather, node, node_blocks, reduce, scan};

/// An operation on data whose buffers were checked.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Shape {
    /// The schedule is built already.
    Built,
    Barrier,
    Bcast {
        root: usize,
        data: Data,
    },
    Gather {
        root: usize,
        mine: Option<Data>,
        all: Option<Data>,
    },
    Gatherv {
        root: usize,
        mine: Option<Data>,
        blocks: Vec<Data>,
    },
    Scatter {
        root: usize,
        mine: Option<Data>,
        all: Option<Data>,
    },
    Scatterv {
        root: usize,
        mine: Option<Data>,
        blocks: Vec<Data>,
    },
    Allgather {
        mine: Option<Data>,
        all: Data,
    },
    Allgatherv {
        mine: Option<Data>,
        blocks: Vec<Data>,
    },
    Alltoall {
        from: Option<Data>,
        into: Data,
    },
    Alltoallv {
        from: Option<Vec<Data>>,
        into: Vec<Data>,
    },
    Reduce {
        root: usize,
        op: OpFacts,
        mine: Data,
        result: Option<Data>,
    },
    Allreduce {
        op: OpFacts,
        mine: Data,
        result: Data,
    },
    ReduceScatter {
        op: OpFacts,
        mine: Option<Data>,
        result: Data,
        counts: Vec<usize>,
    },
    /// Without its own operand an exscan. Process 0 of one may have no result.
    Scan {
        op: OpFacts,
        mine: Data,
        result: Option<Data>,
        with_own: bool,
    },
}

/// Returns the blocks of `n` processes, of which the first is given.
fn parts(n: usize, first: Data) -> Vec<Data> {
    (0..n).map(|rank| first.part(rank * first.count, first.count)).collect()
}

impl Shape {
    /// Builds the schedule.
    pub fn build(&self, b: &mut Builder, setting: &Setting) {
        let n = b.n;
        let slots = |operation| setting.uses_slots(operation);
        match self {
            Shape::Built => {}
            Shape::Barrier if slots(Operation::Barrier) => node::barrier(b),
            Shape::Barrier => {
                if !self.led::<choice::Barrier>(b, setting, &Case::moves(n, 0)) {
                    barrier::barrier(b);
                }
            }
            Shape::Bcast { root, data } => {
                let bytes = data.bytes();
                if slots(Operation::Bcast) && node::passes(n, bytes) {
                    return node::bcast(b, *root, *data);
                }
                let case = Case::moves(n, bytes);
                if self.led::<choice::Bcast>(b, setting, &case) {
                    return;
                }
                bcast::bcast(b, setting.pick(&case), pieces(&setting.machine, &case), *root, *data);
            }
            Shape::Gather { root, mine, all } => {
                let bytes = mine.or(*all).map_or(0, |d| d.bytes());
                if slots(Operation::Gather) && node::passes(n, bytes) {
                    return node::gather(b, *root, *mine, *all);
                }
                let case = Case::moves(n, bytes);
                if !self.led::<choice::Gather>(b, setting, &case) {
                    gather::gather(b, setting.pick(&case), *root, *mine, *all);
                }
            }
            Shape::Gatherv { root, mine, blocks } if slots(Operation::Gather) => {
                node_blocks::gather(b, *root, *mine, blocks);
            }
            Shape::Gatherv { root, mine, blocks } => gather::gatherv(b, *root, *mine, blocks),
            Shape::Scatter { root, mine, all } => {
                let bytes = mine.or(*all).map_or(0, |d| d.bytes());
                if slots(Operation::Scatter) && node::fits(bytes.saturating_mul(n)) {
                    return node::scatter(b, *root, *all, *mine);
                }
                if slots(Operation::Scatter) && node_blocks::passes(n, bytes) {
                    let blocks = all.map_or(Vec::new(), |all| parts(n, all));
                    return node_blocks::scatter(b, *root, &blocks, *mine);
                }
                let case = Case::moves(n, bytes);
                if !self.led::<choice::Scatter>(b, setting, &case) {
                    gather::scatter(b, setting.pick(&case), *root, *all, *mine);
                }
            }
            Shape::Scatterv { root, mine, blocks } if slots(Operation::Scatter) => {
                node_blocks::scatter(b, *root, blocks, *mine);
            }
            Shape::Scatterv { root, mine, blocks } => gather::scatterv(b, *root, blocks, *mine),
            Shape::Allgather { mine, all } => {
                if slots(Operation::Allgather) && node::passes(n, all.bytes()) {
                    return node::allgather(b, *mine, *all);
                }
                let case = Case::moves(n, all.bytes());
                if !self.led::<choice::Allgather>(b, setting, &case) {
                    allgather::allgather(b, setting.pick(&case), *mine, *all);
                }
            }
            Shape::Allgatherv { mine, blocks } if slots(Operation::Allgather) => {
                node_blocks::allgather(b, *mine, blocks);
            }
            Shape::Allgatherv { mine, blocks } => {
                let total: usize = blocks.iter().map(Data::bytes).sum();
                let case = Case { uniform: false, ..Case::moves(n, total.div_ceil(n)) };
                allgather::allgatherv(b, setting.pick(&case), *mine, blocks);
            }
            Shape::Alltoall { from, into } => {
                let bytes = into.bytes();
                if slots(Operation::Alltoall) && node::fits(bytes.saturating_mul(n)) {
                    return node::alltoall(b, *from, *into);
                }
                if slots(Operation::Alltoall) && node_blocks::passes(n, bytes) {
                    let from = from.map(|from| parts(n, from));
                    return node_blocks::alltoall(b, from.as_deref(), &parts(n, *into));
                }
                alltoall::alltoall(b, setting.pick(&Case::moves(n, bytes)), *from, *into);
            }
            Shape::Alltoallv { from, into } if slots(Operation::Alltoall) => {
                node_blocks::alltoall(b, from.as_deref(), into);
            }
            Shape::Alltoallv { from, into } => alltoall::alltoallv(b, from.as_deref(), into),
            Shape::Reduce { .. } | Shape::Allreduce { .. } => self.build_reduction(b, setting),
            Shape::ReduceScatter { op, mine, result, counts } => {
                let (me, total) = (b.me, counts.iter().sum());
                let whole = mine.unwrap_or(*result).part(0, total);
                if slots(Operation::ReduceScatter) && node::scatters(n, &whole) {
                    return node::reduce_scatter(b, whole, result.part(0, counts[me]), counts);
                }
                let how = setting.pick(&Case::reduces(n, whole.bytes(), total, *op));
                reduce::reduce_scatter(b, how, *mine, *result, counts);
            }
            Shape::Scan { op, mine, result, with_own } => {
                if slots(Operation::Scan) && node::fits(mine.bytes()) {
                    let result = result.filter(|_| *with_own || b.me > 0);
                    return node::scan(b, *mine, result, *with_own);
                }
                let result = result.unwrap_or(*mine);
                if *with_own {
                    scan::scan(b, *op, *mine, result);
                } else {
                    scan::exscan(b, *op, *mine, result);
                }
            }
        }
    }

    /// Builds the schedule by leaders of nodes, if that is chosen. Returns false if it is not.
    fn led<A: Algorithm + Formula>(&self, b: &mut Builder, setting: &Setting, case: &Case) -> bool {
        let starts = setting.by_leaders::<A>(case);
        starts.is_some_and(|starts| leaders::build(self, b, starts, &setting.machine))
    }

    fn build_reduction(&self, b: &mut Builder, setting: &Setting) {
        match self {
            Shape::Reduce { root, op, mine, result } => {
                if setting.uses_slots(Operation::Reduce) && node::reduces(*op, mine) {
                    return node::reduce(b, *root, *op, *mine, *result);
                }
                let case = Case::reduces(b.n, mine.bytes(), mine.count, *op);
                if !self.led::<choice::Reduce>(b, setting, &case) {
                    reduce::reduce(b, setting.pick(&case), *root, *op, *mine, *result);
                }
            }
            Shape::Allreduce { op, mine, result } => {
                if setting.uses_slots(Operation::Allreduce) && node::reduces(*op, mine) {
                    return node::allreduce(b, *op, *mine, *result);
                }
                let case = Case::reduces(b.n, mine.bytes(), mine.count, *op);
                if !self.led::<choice::Allreduce>(b, setting, &case) {
                    reduce::allreduce(b, setting.pick(&case), *mine, *result);
                }
            }
            _ => debug_assert!(false, "it is no reduction"),
        }
    }
}
