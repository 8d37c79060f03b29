//! The reason of a choice: all algorithms that could run a call, with their steps, bytes and
//! times.

use super::algorithms::{
    Algorithm, Allgather, Allreduce, Alltoall, Barrier, Bcast, Case, Gather, Operation, Reduce,
    ReduceScatter, Scan, Scatter,
};
use super::costs::{COPY, Cost, Machine, REDUCE};
use super::formulas::{Formula, bound, pieces};
use super::led;
use super::setting::Setting;
use crate::coll::facts::OpFacts;
use crate::coll::schedule::{Base, Data, Elem, TypeId};
use crate::coll::{node, node_blocks};

/// An algorithm that could run a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name, as the setting has it.
    pub name: &'static str,
    /// The work that describes it.
    pub work: &'static str,
    /// Its cost.
    pub cost: Cost,
    /// Pieces of the message, if they follow each other.
    pub pieces: Option<usize>,
}

/// The choice for one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The operation.
    pub operation: Operation,
    /// Bytes of the message, of the vector, or of one process's block.
    pub bytes: usize,
    /// Number of processes.
    pub n: usize,
    /// Their places.
    pub machine: Machine,
    /// The algorithm that is chosen, then the others from the best on.
    pub candidates: Vec<Candidate>,
    /// The least time that any algorithm may take, in nanoseconds.
    pub bound: f64,
}

/// A reduction of eight-byte numbers by an operation that MPI defines.
const ELEMENT: usize = 8;

/// Explains the choice for a call of `n` processes on contiguous data. Reductions are of eight-byte
/// numbers, by an operation that MPI defines.
pub fn explain(operation: Operation, bytes: usize, n: usize, setting: &Setting) -> Explanation {
    let op = OpFacts { commutative: true, divisible: true };
    let case = match operation {
        Operation::Reduce | Operation::Allreduce | Operation::ReduceScatter | Operation::Scan => {
            Case::reduces(n, bytes, bytes.div_ceil(ELEMENT), op)
        }
        _ => Case::moves(n, bytes),
    };
    let mut candidates = match operation {
        Operation::Barrier => listed::<Barrier>(&case, setting),
        Operation::Bcast => listed::<Bcast>(&case, setting),
        Operation::Gather => listed::<Gather>(&case, setting),
        Operation::Scatter => listed::<Scatter>(&case, setting),
        Operation::Allgather => listed::<Allgather>(&case, setting),
        Operation::Alltoall => listed::<Alltoall>(&case, setting),
        Operation::Reduce => listed::<Reduce>(&case, setting),
        Operation::Allreduce => listed::<Allreduce>(&case, setting),
        Operation::ReduceScatter => listed::<ReduceScatter>(&case, setting),
        Operation::Scan => listed::<Scan>(&case, setting),
    };
    if setting.uses_slots(operation) && in_slots(operation, &case) {
        let cost = slots(operation, setting, &case);
        let shared = Candidate { name: "shared", work: "docs/collectives.md", cost, pieces: None };
        candidates.insert(0, shared);
    }
    let machine = setting.machine;
    let bound = bound(operation, &machine, &case);
    Explanation { operation, bytes, n, machine, candidates, bound }
}

/// The algorithms by messages: the one that is picked, then the others by time.
fn listed<A: Algorithm + Formula>(case: &Case, setting: &Setting) -> Vec<Candidate> {
    let picked: A = setting.pick(case);
    let by_leaders = setting.by_leaders::<A>(case).is_some();
    let mut all: Vec<A> = A::ALL.iter().copied().filter(|a| a.can_run(case)).collect();
    let time = |a: &A| a.cost(&setting.machine, case).time;
    all.sort_by(|a, b| (*b == picked).cmp(&(*a == picked)).then(time(a).total_cmp(&time(b))));
    let candidate = |a: A| {
        let (name, work) = a.told();
        let cost = a.cost(&setting.machine, case);
        let parts =
            (A::OPERATION == Operation::Bcast && name == "circulant").then(|| pieces(&setting.machine, case));
        Candidate { name, work, cost, pieces: parts }
    };
    let mut all: Vec<Candidate> = all.into_iter().map(candidate).collect();
    let led = setting.starts.as_ref().and_then(|_| led::cost(A::OPERATION, &setting.machine, case));
    if let Some(cost) = led {
        let at = if by_leaders { 0 } else { 1 + all[1..].partition_point(|c| c.cost.time <= cost.time) };
        let work = "parts within nodes and between their leaders";
        all.insert(at, Candidate { name: "leaders", work, cost, pieces: None });
    }
    all
}

/// Returns true if a call runs in slots of shared memory.
fn in_slots(operation: Operation, case: &Case) -> bool {
    let (n, bytes) = (case.n, case.bytes);
    let elem = Elem { ty: TypeId(1), size: ELEMENT, extent: ELEMENT as i64, plain: true };
    let vector = Data::new(Base::Send, bytes.div_ceil(ELEMENT), elem);
    n <= 256
        && match operation {
            Operation::Barrier => true,
            Operation::Bcast | Operation::Gather | Operation::Allgather => node::passes(n, bytes),
            Operation::Scatter | Operation::Alltoall => {
                node::fits(bytes.saturating_mul(n)) || node_blocks::passes(n, bytes)
            }
            Operation::ReduceScatter => node::scatters(n, &vector),
            Operation::Scan => node::fits(bytes),
            Operation::Reduce => node::reduces(case.op, &vector),
            Operation::Allreduce => node::reduces(case.op, &vector),
        }
}

/// The cost of a call in slots: each process writes, and reads what others have written.
fn slots(operation: Operation, setting: &Setting, case: &Case) -> Cost {
    let (n, b) = (case.n as f64, case.bytes as f64);
    let (written, read, combined) = match operation {
        Operation::Barrier => (0.0, 0.0, 0.0),
        Operation::Bcast => (b, b, 0.0),
        Operation::Gather | Operation::Allgather => (b, (n - 1.0) * b, 0.0),
        Operation::Scatter | Operation::Alltoall => ((n - 1.0) * b, (n - 1.0) * b, 0.0),
        Operation::Reduce | Operation::Scan => (b, 0.0, (n - 1.0) * b),
        // Each combines a slice, and reads those of the others.
        Operation::Allreduce => (b, b, (n - 1.0) / n * b),
        Operation::ReduceScatter => (b, 0.0, (n - 1.0) / n * b),
    };
    let time = setting.machine.near.latency + (written + read) * COPY + combined * REDUCE;
    Cost { steps: 1, bytes: written.max(read), time }
}

#[cfg(test)]
mod tests {
    use super::super::{Forced, PATHS};
    use super::*;

    fn names<A: Algorithm>() -> Vec<&'static str> {
        A::ALL.iter().map(|a| a.told().0).collect()
    }

    #[test]
    fn the_settings_name_all_algorithms_in_their_order() {
        for (operation, names) in [
            (Operation::Barrier, names::<Barrier>()),
            (Operation::Bcast, names::<Bcast>()),
            (Operation::Gather, names::<Gather>()),
            (Operation::Scatter, names::<Scatter>()),
            (Operation::Allgather, names::<Allgather>()),
            (Operation::Alltoall, names::<Alltoall>()),
            (Operation::Reduce, names::<Reduce>()),
            (Operation::Allreduce, names::<Allreduce>()),
            (Operation::ReduceScatter, names::<ReduceScatter>()),
            (Operation::Scan, names::<Scan>()),
        ] {
            let wanted = operation.name().to_uppercase();
            assert_eq!(operation.setting(), format!("NETMOD_COLL_{wanted}"));
            let forms = usize::from(super::super::setting::forms(operation));
            let (forms, algorithms) = operation.values().split_at(forms);
            assert_eq!(&forms[..2], ["auto", "shared"]);
            assert_eq!(algorithms, &names[..]);
        }
    }

    #[test]
    fn the_best_is_first_unless_another_one_is_set() {
        let machine = Machine { near: PATHS[0], far: PATHS[2], nodes: 100, per_node: 1 };
        let mut setting = Setting { machine, ..Setting::unknown(100, Forced::default()) };
        for operation in Operation::ALL {
            for bytes in [8, 4096, 1 << 20] {
                let told = explain(operation, bytes, 100, &setting);
                let times: Vec<f64> = told.candidates.iter().map(|c| c.cost.time).collect();
                assert!(times.is_sorted_by(|a, b| *a <= 1.002 * b), "{operation:?} {times:?}");
                assert!(told.bound <= 1.0001 * times[0], "{operation:?} {bytes} {} {times:?}", told.bound);
            }
        }
        setting.forced = Forced::read(|o| if o == Operation::Bcast { "scatter_ring" } else { "auto" });
        let told = explain(Operation::Bcast, 8, 100, &setting);
        assert_eq!(told.candidates[0].name, "scatter_ring");
        assert!(told.candidates[0].cost.time > told.candidates[1].cost.time);
    }

    #[test]
    fn long_blocks_of_more_than_two_processes_run_in_shared_memory() {
        // Those for one receiver alone only up to a length.
        for (operation, bytes, is_shared) in [
            (Operation::ReduceScatter, 1 << 20, true),
            (Operation::Scatter, 128 << 10, true),
            (Operation::Alltoall, 128 << 10, true),
            (Operation::Scatter, (128 << 10) + 1, false),
            (Operation::Alltoall, (128 << 10) + 1, false),
        ] {
            for n in [2, 3, 8] {
                let setting = Setting { shared: true, ..Setting::unknown(n, Forced::default()) };
                let told = explain(operation, bytes, n, &setting);
                let name = told.candidates[0].name;
                assert_eq!(
                    name == "shared",
                    is_shared && n > 2,
                    "{operation:?} of {n}, {bytes} bytes: {name}"
                );
            }
        }
    }

    #[test]
    fn small_operations_of_a_node_run_in_shared_memory() {
        let mut setting = Setting { shared: true, ..Setting::unknown(8, Forced::default()) };
        for operation in Operation::ALL {
            let told = explain(operation, 512, 8, &setting);
            assert_eq!(told.candidates[0].name, "shared", "{operation:?}");
        }
        setting.forced = Forced::read(|o| o.values()[o.values().len() - 1]);
        for operation in Operation::ALL {
            let told = explain(operation, 512, 8, &setting);
            assert_eq!(Some(&told.candidates[0].name), operation.values().last());
        }
    }
}
