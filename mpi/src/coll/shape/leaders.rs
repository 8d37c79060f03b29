//! Operations on several nodes: parts within each node, and a part between one process of each, its
//! leader. The parts are the same schedules as those of whole communicators.
//!
//! Nodes hold consecutive ranks, so operands keep their order. The leader of a node is its first
//! process, or the root.

use std::sync::Arc;

use crate::coll::choice::{Case, Forced, Machine, Setting, led, pieces};
use crate::coll::facts::OpFacts;
use crate::coll::schedule::{Builder, Data};

use crate::coll::{allgather, barrier, bcast, gather, reduce};

use super::Shape;

/// The nodes of a communicator as one process sees them.
struct Nodes<'a> {
    starts: &'a [u32],
    n: usize,
    /// This process's node.
    own: usize,
    near: Setting,
    far: Setting,
}

/// Returns the settings of a part within a node of `k` processes, and of one between nodes.
fn parts(machine: &Machine, k: usize) -> (Setting, Setting) {
    let (near, far) = led::parts(machine, k);
    let unknown = |machine: Machine, n| Setting { machine, ..Setting::unknown(n, Forced::default()) };
    (unknown(near, k), unknown(far, machine.nodes))
}

impl Nodes<'_> {
    fn new<'a>(b: &Builder, starts: &'a [u32], machine: &Machine) -> Nodes<'a> {
        let own = starts.partition_point(|s| *s as usize <= b.me) - 1;
        let (near, far) = parts(machine, machine.per_node);
        Nodes { starts, n: b.n, own, near, far }
    }

    /// The first rank of a node, and how many it has.
    fn span(&self, node: usize) -> (usize, usize) {
        let first = self.starts[node] as usize;
        let end = self.starts.get(node + 1).map_or(self.n, |s| *s as usize);
        (first, end - first)
    }

    /// The node of a rank, and the rank's place in it.
    fn place(&self, rank: usize) -> (usize, usize) {
        let node = self.starts.partition_point(|s| *s as usize <= rank) - 1;
        (node, rank - self.span(node).0)
    }

    /// The place of the leader in this process's node.
    fn leader(&self, root: usize) -> usize {
        let (node, place) = self.place(root);
        if node == self.own { place } else { 0 }
    }

    /// Adds the part within this process's node.
    fn inside(&self, b: &mut Builder, f: impl FnOnce(&mut Builder)) {
        let (first, len) = self.span(self.own);
        let ranks: Arc<[u32]> = (first..first + len).map(|r| r as u32).collect();
        b.within(ranks, b.me - first, f);
        b.fence();
    }

    /// Adds the part between the leaders, if this process is one.
    fn outside(&self, b: &mut Builder, root: usize, f: impl FnOnce(&mut Builder)) {
        let (first, _) = self.span(self.own);
        if b.me != first + self.leader(root) {
            return;
        }
        let mut ranks = self.starts.to_vec();
        ranks[self.place(root).0] = root as u32;
        b.within(ranks.into(), self.own, f);
        b.fence();
    }

    /// Returns true if this process is the leader of its node.
    fn leads(&self, b: &Builder, root: usize) -> bool {
        b.me == self.span(self.own).0 + self.leader(root)
    }

    fn bcast_inside(&self, b: &mut Builder, root: usize, data: Data) {
        self.inside(b, |b| {
            let case = Case::moves(b.n, data.bytes());
            let parts = pieces(&self.near.machine, &case);
            bcast::bcast(b, self.near.pick(&case), parts, self.leader(root), data);
        });
    }

    fn reduce_inside(&self, b: &mut Builder, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
        self.inside(b, |b| {
            let how = self.near.pick(&Case::reduces(b.n, mine.bytes(), mine.count, op));
            reduce::reduce(b, how, self.leader(root), op, mine, result);
        });
    }

    fn gather_inside(&self, b: &mut Builder, root: usize, mine: Option<Data>, all: Option<Data>) {
        self.inside(b, |b| {
            let bytes = mine.or(all).map_or(0, |d| d.bytes());
            let how = self.near.pick(&Case::moves(b.n, bytes));
            gather::gather(b, how, self.leader(root), mine, all);
        });
    }

    /// The blocks of each node, of which `all` is that of process 0.
    fn blocks(&self, all: Data) -> Vec<Data> {
        let block = |node| {
            let (first, len) = self.span(node);
            all.part(first * all.count, len * all.count)
        };
        (0..self.starts.len()).map(block).collect()
    }

    /// Room for the blocks of this process's node at a leader other than the root: all of it, and
    /// the first block.
    fn room(&self, b: &mut Builder, bytes: usize) -> (Data, Data) {
        let room = b.bytes(self.span(self.own).1 * bytes);
        (room, room.part(0, bytes))
    }

    fn gather(&self, b: &mut Builder, root: usize, mine: Option<Data>, all: Option<Data>) {
        let (leads, first) = (self.leads(b, root), self.span(self.own).0);
        if let Some(all) = all {
            self.gather_inside(b, root, mine, Some(all.part(first * all.count, all.count)));
            let blocks = self.blocks(all);
            self.outside(b, root, |b| gather::gatherv(b, b.me, None, &blocks));
        } else if leads {
            let (room, block) = self.room(b, mine.map_or(0, |d| d.bytes()));
            self.gather_inside(b, root, mine, Some(block));
            let to = self.place(root).0;
            self.outside(b, root, |b| gather::gatherv(b, to, Some(room), &[]));
        } else {
            self.gather_inside(b, root, mine, None);
        }
    }

    fn scatter(&self, b: &mut Builder, root: usize, mine: Option<Data>, all: Option<Data>) {
        let (leads, first) = (self.leads(b, root), self.span(self.own).0);
        let bytes = mine.or(all).map_or(0, |d| d.bytes());
        let own = if let Some(all) = all {
            let blocks = self.blocks(all);
            self.outside(b, root, |b| gather::scatterv(b, b.me, &blocks, None));
            Some(all.part(first * all.count, all.count))
        } else if leads {
            let (room, block) = self.room(b, bytes);
            let from = self.place(root).0;
            self.outside(b, root, |b| gather::scatterv(b, from, &[], Some(room)));
            Some(block)
        } else {
            None
        };
        self.inside(b, |b| {
            let how = self.near.pick(&Case::moves(b.n, bytes));
            gather::scatter(b, how, self.leader(root), own, mine);
        });
    }

    fn allgather(&self, b: &mut Builder, mine: Option<Data>, all: Data) {
        let block = |rank: usize| all.part(rank * all.count, all.count);
        let first = self.span(self.own).0;
        if self.leads(b, 0) {
            self.gather_inside(b, 0, mine, Some(block(first)));
            let blocks = self.blocks(all);
            self.outside(b, 0, |b| {
                let total: usize = blocks.iter().map(Data::bytes).sum();
                let case = Case { uniform: false, ..Case::moves(b.n, total.div_ceil(b.n)) };
                allgather::allgatherv(b, self.far.pick(&case), None, &blocks);
            });
        } else {
            self.gather_inside(b, 0, Some(mine.unwrap_or(block(b.me))), None);
        }
        self.bcast_inside(b, 0, all.part(0, b.n * all.count));
    }

    fn reduce(&self, b: &mut Builder, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
        let own = if self.leads(b, root) {
            Some(result.unwrap_or_else(|| b.room(mine.count, mine.elem)))
        } else {
            None
        };
        self.reduce_inside(b, root, op, mine, own);
        if let Some(own) = own {
            let to = self.place(root).0;
            self.outside(b, root, |b| {
                let how = self.far.pick(&Case::reduces(b.n, own.bytes(), own.count, op));
                reduce::reduce(b, how, to, op, own, result);
            });
        }
    }

    fn allreduce(&self, b: &mut Builder, op: OpFacts, mine: Data, result: Data) {
        let own = self.leads(b, 0).then_some(result);
        self.reduce_inside(b, 0, op, mine, own);
        self.outside(b, 0, |b| {
            let how = self.far.pick(&Case::reduces(b.n, result.bytes(), result.count, op));
            reduce::allreduce(b, how, result, result);
        });
        self.bcast_inside(b, 0, result);
    }

    fn barrier(&self, b: &mut Builder) {
        self.inside(b, |b| match b.me {
            0 => (1..b.n).for_each(|r| b.await_signal(r)),
            _ => b.signal(0),
        });
        self.outside(b, 0, barrier::barrier);
        self.inside(b, |b| match b.me {
            0 => (1..b.n).for_each(|r| b.signal(r)),
            _ => b.await_signal(0),
        });
    }
}

/// Builds the schedule of an operation on nodes with these first ranks. Returns false if it has no
/// such form.
pub(super) fn build(shape: &Shape, b: &mut Builder, starts: &[u32], machine: &Machine) -> bool {
    let nodes = Nodes::new(b, starts, machine);
    match shape {
        Shape::Barrier => nodes.barrier(b),
        Shape::Bcast { root, data } => {
            let from = nodes.place(*root).0;
            nodes.outside(b, *root, |b| {
                let case = Case::moves(b.n, data.bytes());
                let parts = pieces(&nodes.far.machine, &case);
                bcast::bcast(b, nodes.far.pick(&case), parts, from, *data);
            });
            nodes.bcast_inside(b, *root, *data);
        }
        Shape::Gather { root, mine, all } => nodes.gather(b, *root, *mine, *all),
        Shape::Scatter { root, mine, all } => nodes.scatter(b, *root, *mine, *all),
        Shape::Allgather { mine, all } => nodes.allgather(b, *mine, *all),
        Shape::Reduce { root, op, mine, result } => nodes.reduce(b, *root, *op, *mine, *result),
        Shape::Allreduce { op, mine, result } => nodes.allreduce(b, *op, *mine, *result),
        _ => return false,
    }
    true
}
