//! The formulas beside what the simulator makes of the schedules.

use super::simulator::{Outcome, Simulator};
use super::{RECV, able};
use crate::coll::choice::costs::{COPY, REDUCE, row};
use crate::coll::choice::explain::explain;
use crate::coll::choice::{
    Algorithm, Allgather, Allreduce, Alltoall, Barrier, Bcast, Case, Formula, Gather, Machine, PATHS, Path,
    Reduce, ReduceScatter, Scan, Scatter, Setting, pieces,
};
use crate::coll::choice::{Forced, Operation, formulas};
use crate::coll::circulant::rounds_of;
use crate::coll::reduce::OpFacts;
use crate::coll::shape::Shape;
use crate::coll::{
    Base, Builder, Data, Elem, Schedule, allgather, alltoall, barrier, bcast, gather, reduce, scan,
};

const OP: OpFacts = OpFacts { commutative: true, divisible: true };
/// A number of eight bytes.
const NUMBER: Elem = Elem { ty: RECV, size: 8, extent: 8, plain: true };

fn verbs() -> Path {
    PATHS[usize::from(row("verbs"))]
}

/// Processes that each have a node of their own.
fn alone(n: usize) -> Machine {
    Machine { near: verbs(), far: verbs(), nodes: n, per_node: 1 }
}

/// An algorithm whose schedules can be built for a case.
trait Built: Algorithm + Formula {
    fn build(self, b: &mut Builder, case: &Case, machine: &Machine);

    /// The case of an operation on so many bytes.
    fn case(n: usize, bytes: usize) -> Case {
        Case::moves(n, bytes)
    }

    fn schedule(self, me: usize, case: &Case, machine: &Machine) -> Schedule {
        let mut b = Builder::new(me, case.n);
        self.build(&mut b, case, machine);
        b.finish()
    }

    fn simulate(self, case: &Case, machine: &Machine, mut simulator: Simulator) -> Outcome {
        (0..case.n).for_each(|me| simulator.add(&self.schedule(me, case, machine)));
        simulator.run()
    }
}

fn bytes(base: Base, count: usize) -> Data {
    Data::new(base, count, Elem::BYTE)
}

fn vectors(case: &Case) -> (Data, Data) {
    (Data::new(Base::Send, case.count, NUMBER), Data::new(Base::Recv, case.count, NUMBER))
}

fn reduction(n: usize, bytes: usize) -> Case {
    let count = bytes.div_ceil(8);
    Case::reduces(n, 8 * count, count, OP)
}

macro_rules! built {
    ($($name:ident, $case:path, |$how:ident, $b:ident, $c:ident, $m:ident| $build:expr;)*) => {$(
        impl Built for $name {
            fn build(self, $b: &mut Builder, $c: &Case, $m: &Machine) {
                let $how = self;
                $build
            }

            fn case(n: usize, bytes: usize) -> Case {
                $case(n, bytes)
            }
        }
    )*};
}

built! {
    Barrier, Case::moves, |_how, b, _c, _m| barrier::barrier(b);
    Bcast, Case::moves, |how, b, c, m| bcast::bcast(b, how, pieces(m, c), 0, bytes(Base::Recv, c.bytes));
    Gather, Case::moves, |how, b, c, _m| {
        let all = (b.me == 0).then(|| bytes(Base::Recv, c.bytes));
        gather::gather(b, how, 0, Some(bytes(Base::Send, c.bytes)), all);
    };
    Scatter, Case::moves, |how, b, c, _m| {
        let all = (b.me == 0).then(|| bytes(Base::Send, c.bytes));
        gather::scatter(b, how, 0, all, Some(bytes(Base::Recv, c.bytes)));
    };
    Allgather, Case::moves, |how, b, c, _m| {
        allgather::allgather(b, how, None, bytes(Base::Recv, c.bytes));
    };
    Alltoall, Case::moves, |how, b, c, _m| {
        alltoall::alltoall(b, how, Some(bytes(Base::Send, c.bytes)), bytes(Base::Recv, c.bytes));
    };
    Reduce, reduction, |how, b, c, _m| {
        let (mine, result) = vectors(c);
        let result = (b.me == 0).then_some(result);
        reduce::reduce(b, how, 0, OP, mine, result);
    };
    Allreduce, reduction, |how, b, c, _m| {
        let (_, result) = vectors(c);
        reduce::allreduce(b, how, result, result);
    };
    ReduceScatter, reduction, |how, b, c, _m| {
        let (mine, result) = vectors(c);
        let counts: Vec<usize> = (0..c.n).map(|i| crate::coll::blocks::share(c.count, c.n, i).len()).collect();
        reduce::reduce_scatter(b, how, Some(mine), result, &counts);
    };
    Scan, reduction, |_how, b, c, _m| {
        let (mine, result) = vectors(c);
        scan::scan(b, OP, mine, result);
    };
}

/// Compares the steps and the bytes of all algorithms of an operation with their formulas.
fn compare<A: Built>() {
    for n in [2, 3, 8, 13, 32, 100] {
        for bytes in [8, 4096, 1 << 20] {
            let (case, machine) = (A::case(n, bytes), alone(n));
            for how in able::<A>(&case) {
                let what = format!("{:?} {how:?} of {bytes} bytes, {n} processes", A::OPERATION);
                let told = how.cost(&machine, &case);
                let rounds = how.simulate(&case, &machine, Simulator::of_rounds(n));
                let parts = how.told().0 == "circulant" && A::OPERATION != Bcast::OPERATION;
                let steps = rounds.time.round() as u64;
                if parts || bytes < 8 * n {
                    // Empty blocks are not sent, and not every round has ranks that go around the
                    // end.
                    let rounds = rounds_of(n) as u64;
                    let most = told.steps + if parts { rounds } else { 0 };
                    assert!(steps <= most, "{what}: {steps} {told:?}");
                    assert!(bytes < 8 * n || steps >= rounds, "{what}: {steps} {told:?}");
                } else {
                    assert_eq!(steps, told.steps, "{what}");
                }
                // Blocks differ by one element, of which each process may have one more each time.
                let slack = 8.0 * (n as f64 + told.steps as f64) + 0.02 * told.bytes;
                let off = (rounds.bytes as f64 - told.bytes).abs();
                assert!(off <= slack, "{what}: {} bytes, by the formula {}", rounds.bytes, told.bytes);
            }
        }
    }
}

#[test]
fn steps_and_bytes_are_those_of_the_formulas() {
    compare::<Barrier>();
    compare::<Bcast>();
    compare::<Gather>();
    compare::<Scatter>();
    compare::<Allgather>();
    compare::<Alltoall>();
    compare::<Reduce>();
    compare::<Allreduce>();
    compare::<ReduceScatter>();
    compare::<Scan>();
}

/// Times in nanoseconds of the best algorithms that the literature has for rounds in which each
/// process sends one message and receives one.
mod best {
    use super::{REDUCE, rounds_of, verbs};

    fn start() -> f64 {
        verbs().latency + verbs().gap
    }

    fn rounds(n: usize) -> f64 {
        rounds_of(n) as f64
    }

    /// Pieces through a circulant graph: Träff 2025, doi 10.1145/3735139.
    pub fn bcast(n: usize, m: f64) -> f64 {
        let (others, moved) = ((rounds(n) - 1.0) * start(), m * verbs().byte);
        let whole = rounds(n) * (start() + moved);
        whole.min((others.sqrt() + moved.sqrt()).powi(2) + start())
    }

    /// The logarithm's number of rounds, each block once: Bruck and others 1997.
    pub fn allgather(n: usize, b: f64) -> f64 {
        rounds(n) * start() + (n - 1) as f64 * b * verbs().byte
    }

    /// Likewise: Träff 2024, arXiv 2410.14234.
    pub fn reduce_scatter(n: usize, m: f64) -> f64 {
        let part = m * (n - 1) as f64 / n as f64;
        rounds(n) * start() + part * (verbs().byte + REDUCE)
    }

    /// Exchanges at doubling distances (Thakur, Rabenseifner, Gropp 2005) or the two above.
    pub fn allreduce(n: usize, m: f64) -> f64 {
        let folds = if n.is_power_of_two() { 0.0 } else { 1.0 };
        let short = (rounds(n) + folds) * (start() + m * verbs().byte) + (rounds(n)) * m * REDUCE;
        short.min(reduce_scatter(n, m) + allgather(n, m / n as f64))
    }
}

/// Simulates what is chosen, and compares it with the best formula and with all other algorithms.
fn judge<A: Built>(n: usize, bytes: usize, best: f64) {
    let (case, machine) = (A::case(n, bytes), alone(n));
    let setting = Setting { machine, ..Setting::unknown(n, Forced::default()) };
    let how: A = setting.pick(&case);
    let simulated = how.simulate(&case, &machine, Simulator::new(machine, COPY, REDUCE));
    let bound = formulas::bound(A::OPERATION, &machine, &case);
    let time = simulated.time;
    println!(
        "{:?} of {bytes} bytes, {n} processes: {how:?}, {:.2} us, best {:.2}, bound {:.2}, ratio {:.2}, {} messages",
        A::OPERATION,
        time / 1000.0,
        best / 1000.0,
        bound / 1000.0,
        time / bound,
        simulated.messages
    );
    assert!(time <= 1.05 * best, "{how:?} of {bytes} bytes, {n} processes: {time} ns, best {best}");
    assert!(time >= 0.999 * bound, "{how:?} of {bytes} bytes, {n} processes: {time} ns, bound {bound}");
    for other in able::<A>(&case) {
        let told = other.cost(&machine, &case).time;
        assert!(
            time <= 1.05 * told,
            "{how:?} takes {time} ns, {other:?} {told}: {bytes} bytes, {n} processes"
        );
    }
}

#[test]
fn ten_thousand_processes_take_no_longer_than_by_the_best_algorithm_known() {
    const N: usize = 10_000;
    // The ring takes a hundred million messages for megabytes from each process.
    let few = if cfg!(debug_assertions) { 2_000 } else { N };
    for bytes in [8, 64 << 10, 16 << 20] {
        judge::<Bcast>(N, bytes, best::bcast(N, bytes as f64));
        judge::<Allreduce>(N, bytes, best::allreduce(N, bytes as f64));
        let n = if bytes < 1 << 20 { N } else { few };
        judge::<Allgather>(n, bytes, best::allgather(n, bytes as f64));
        // Each process has an element at least.
        let total = bytes.max(8 * N);
        judge::<ReduceScatter>(N, total, best::reduce_scatter(N, total as f64));
    }
}

/// Nodes of sixteen processes: leaders are taken where they are faster, and then are.
#[test]
fn leaders_of_nodes_are_as_fast_as_foretold() {
    let (n, near) = (512usize, PATHS[usize::from(row("shm"))]);
    let machine = Machine { near, far: verbs(), nodes: 32, per_node: 16 };
    let starts: Vec<u32> = (0..32).map(|node| 16 * node).collect();
    let setting = |value: &'static str| {
        let forced = Forced::read(|o| if o.values().contains(&value) { value } else { "auto" });
        Setting { machine, starts: Some(starts.clone().into()), ..Setting::unknown(n, forced) }
    };
    let simulate = |shape: &dyn Fn(usize) -> Shape, setting: &Setting| {
        let mut simulator = Simulator::new(machine, COPY, REDUCE);
        for me in 0..n {
            let mut b = Builder::new(me, n);
            shape(me).build(&mut b, setting);
            simulator.add(&b.finish());
        }
        simulator.run().time
    };
    let result = |bytes: usize| Data::new(Base::Recv, bytes / 8, NUMBER);
    let mut led = 0;
    for bytes in [8, 8192, 1 << 20] {
        let data = self::bytes(Base::Recv, bytes);
        let bcast = move |_| Shape::Bcast { root: 0, data };
        let allreduce = move |_| Shape::Allreduce { op: OP, mine: result(bytes), result: result(bytes) };
        let barrier = |_| Shape::Barrier;
        let all: [(Operation, &dyn Fn(usize) -> Shape); 3] =
            [(Operation::Bcast, &bcast), (Operation::Allreduce, &allreduce), (Operation::Barrier, &barrier)];
        for (operation, shape) in all {
            let told = explain(operation, bytes, n, &setting("auto"));
            let taken = simulate(shape, &setting("auto"));
            let first = &told.candidates[0];
            let time = first.cost.time;
            println!("{operation:?} of {bytes} bytes: {}, {time:.0} ns, simulated {taken:.0}", first.name);
            assert!(taken <= 1.15 * time, "{operation:?} of {bytes} bytes: {taken} ns, foretold {time}");
            led += usize::from(first.name == "leaders");
            // All others, by their names.
            for other in &told.candidates[1..] {
                let time = simulate(shape, &setting(other.name));
                assert!(
                    taken <= 1.3 * time,
                    "{operation:?} of {bytes} bytes: {taken}, {} {time}",
                    other.name
                );
            }
        }
    }
    assert!(led >= 3, "leaders are taken {led} times");
}

/// Every process sends to every other one: simulated up to a thousand, computed beyond.
#[test]
fn alltoall_of_many_processes() {
    for bytes in [8, 4096] {
        let (case, machine) = (Alltoall::case(1000, bytes), alone(1000));
        let setting = Setting { machine, ..Setting::unknown(1000, Forced::default()) };
        let how: Alltoall = setting.pick(&case);
        let taken = how.simulate(&case, &machine, Simulator::new(machine, COPY, REDUCE)).time;
        let told = how.cost(&machine, &case).time;
        println!("alltoall of {bytes} bytes, 1000 processes: {how:?}, {told:.0} ns, simulated {taken:.0}");
        assert!(taken <= 1.05 * told, "{how:?} of {bytes} bytes: {taken} ns, by the formula {told}");
        for n in [10_000, 100_000] {
            let setting = Setting { machine: alone(n), ..Setting::unknown(n, Forced::default()) };
            let told = explain(Operation::Alltoall, bytes, n, &setting);
            let ratio = told.candidates[0].cost.time / told.bound;
            println!(
                "alltoall of {bytes} bytes, {n} processes: {}, ratio {ratio:.2}",
                told.candidates[0].name
            );
            assert!(ratio >= 1.0);
        }
    }
}
