//! The facts that the processes of a communicator have agreed on, and the choice itself.

use std::sync::Arc;

use super::algorithms::{Algorithm, Case, Operation};
use super::costs::{Machine, PATHS, row};
use super::formulas::{Formula, best};
use super::led;

/// The values of the settings `NETMOD_COLL_*`, by the operations' numbers: places in their lists of
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forced(pub [u8; Operation::ALL.len()]);

/// Forms of an operation before its algorithms, as the settings name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The best.
    Auto,
    /// In memory that the processes of a node share, if the call fits.
    Shared,
    /// Leaders of nodes, if there are several that hold consecutive ranks.
    Leaders,
    /// An algorithm by messages.
    Messages(u8),
}

impl Forced {
    /// Reads the values; a name that is none of an operation's is `auto`.
    pub fn read(value: impl Fn(Operation) -> &'static str) -> Forced {
        Forced(Operation::ALL.map(|operation| {
            let name = value(operation);
            let at = operation.values().iter().position(|v| *v == name);
            at.unwrap_or(0) as u8
        }))
    }

    /// Returns the form that is set for an operation.
    #[inline]
    pub fn form(&self, operation: Operation) -> Form {
        let (at, values) = (self.0[operation as usize], operation.values());
        match values.get(usize::from(at)) {
            None | Some(&"auto") => Form::Auto,
            Some(&"shared") => Form::Shared,
            Some(&"leaders") => Form::Leaders,
            _ => Form::Messages(at - forms(operation)),
        }
    }
}

/// Values of an operation's setting that name no algorithm.
pub(super) fn forms(operation: Operation) -> u8 {
    if operation.values().contains(&"leaders") { 3 } else { 2 }
}

/// The facts that the processes of a communicator have agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The places of the processes.
    pub machine: Machine,
    /// The algorithms that are set.
    pub forced: Forced,
    /// All processes share memory.
    pub shared: bool,
    /// The first rank of each node, if there are several, some with several processes, and all hold
    /// consecutive ranks.
    pub starts: Option<Arc<[u32]>>,
}

impl Setting {
    /// Processes that know nothing of each other but their number.
    pub fn unknown(n: usize, forced: Forced) -> Setting {
        let machine = Machine::of_one_node(PATHS[row("shm") as usize], n);
        Setting { machine, forced, shared: false, starts: None }
    }

    /// Returns true if an operation whose data fits may use slots of shared memory.
    #[inline]
    pub fn uses_slots(&self, operation: Operation) -> bool {
        self.shared && !matches!(self.forced.form(operation), Form::Messages(_))
    }

    /// Returns the first ranks of nodes if a call goes by their leaders: that is set, or faster
    /// than the best algorithm that knows of no nodes.
    pub fn by_leaders<A: Algorithm + Formula>(&self, case: &Case) -> Option<&[u32]> {
        let starts = self.starts.as_deref()?;
        match self.forced.form(A::OPERATION) {
            Form::Leaders => Some(starts),
            Form::Messages(_) => None,
            Form::Auto | Form::Shared => {
                let led = led::cost(A::OPERATION, &self.machine, case)?;
                (led.time < best::<A>(&self.machine, case).time).then_some(starts)
            }
        }
    }

    /// Chooses the algorithm of a call by messages.
    ///
    /// One that is set but cannot run the call gives way to the operation's general one.
    pub fn pick<A: Algorithm + Formula>(&self, case: &Case) -> A {
        if case.n < 2 {
            return A::GENERAL;
        }
        if let Form::Messages(at) = self.forced.form(A::OPERATION) {
            return A::ALL.get(at as usize).copied().filter(|a| a.can_run(case)).unwrap_or(A::GENERAL);
        }
        let mut best = (A::GENERAL, f64::INFINITY);
        for a in A::ALL.iter().copied().filter(|a| a.can_run(case)) {
            let time = a.cost(&self.machine, case).time;
            // The first of equal ones, also if their sums were rounded differently.
            if time < 0.999 * best.1 {
                best = (a, time);
            }
        }
        best.0
    }
}
