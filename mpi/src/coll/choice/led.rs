//! Costs of operations by leaders of nodes: those of their parts.

use super::algorithms::{Allgather, Allreduce, Barrier, Bcast, Case, Gather, Operation, Reduce, Scatter};
use super::costs::{Cost, Machine};
use super::formulas::{Formula, best};

/// Returns the machines of a part within a node of `k` processes, and of one between nodes.
pub fn parts(machine: &Machine, k: usize) -> (Machine, Machine) {
    let Machine { near, far, nodes, .. } = *machine;
    (Machine::of_one_node(near, k), Machine { near: far, far, nodes, per_node: 1 })
}

/// Returns the cost of an operation with leaders, by those of its parts; `None` if it has no such
/// form.
pub fn cost(operation: Operation, machine: &Machine, case: &Case) -> Option<Cost> {
    let (k, nodes) = (machine.per_node, machine.nodes);
    let (near, far) = &parts(machine, k);
    let (inside, outside) = (Case { n: k, ..*case }, Case { n: nodes, ..*case });
    let blocks = Case::moves(nodes, k.saturating_mul(case.bytes));
    let message = Case::moves(k, case.bytes);
    let parts = match operation {
        Operation::Barrier => {
            let signals = Gather::Linear.of(near, &Case::moves(k, 0));
            [signals, best::<Barrier>(far, &outside), signals]
        }
        Operation::Bcast => [best::<Bcast>(near, &inside), best::<Bcast>(far, &outside), Cost::default()],
        Operation::Gather => {
            [best::<Gather>(near, &inside), Gather::Linear.of(far, &blocks), Cost::default()]
        }
        Operation::Scatter => {
            [best::<Scatter>(near, &inside), Scatter::Linear.of(far, &blocks), Cost::default()]
        }
        Operation::Allgather => {
            let outside = Case { uniform: false, ..blocks };
            let whole = Case::moves(k, case.n.saturating_mul(case.bytes));
            [best::<Gather>(near, &inside), best::<Allgather>(far, &outside), best::<Bcast>(near, &whole)]
        }
        Operation::Reduce => [best::<Reduce>(near, &inside), best::<Reduce>(far, &outside), Cost::default()],
        Operation::Allreduce => {
            [best::<Reduce>(near, &inside), best::<Allreduce>(far, &outside), best::<Bcast>(near, &message)]
        }
        Operation::Alltoall | Operation::ReduceScatter | Operation::Scan => return None,
    };
    Some(parts.into_iter().fold(Cost::default(), Cost::and))
}
