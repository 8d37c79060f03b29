//! The facts that the processes of a communicator have agreed on, and the choice itself.

use super::algorithms::{Algorithm, Case, Operation};
use super::costs::{Machine, PATHS, row};
use super::formulas::Formula;

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
    /// An algorithm by messages.
    Messages(u8),
}

/// Values of a setting that name no algorithm.
pub(super) const FORMS: usize = 2;

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
        match self.0[operation as usize] {
            0 => Form::Auto,
            1 => Form::Shared,
            at => Form::Messages(at - FORMS as u8),
        }
    }
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
}

impl Setting {
    /// Processes that know nothing of each other but their number.
    pub fn unknown(n: usize, forced: Forced) -> Setting {
        let machine = Machine::of_one_node(PATHS[row("shm") as usize], n);
        Setting { machine, forced, shared: false }
    }

    /// Returns true if an operation whose data fits may use slots of shared memory.
    #[inline]
    pub fn uses_slots(&self, operation: Operation) -> bool {
        self.shared && !matches!(self.forced.form(operation), Form::Messages(_))
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
            if time < best.1 {
                best = (a, time);
            }
        }
        best.0
    }
}
