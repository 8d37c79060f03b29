//! The threads that poll on a node, and whether there is a core for each.

/// The competition of a node's processes for the same cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pollers {
    /// Processes of the job that may use these cores, this one included.
    pub processes: usize,
    /// Engines per process; each has a thread that polls.
    pub engines: usize,
    /// Thousandths of a core that these processes have together.
    pub millicores: usize,
}

impl Pollers {
    /// The value for a process without information on its node: it assumes shared cores.
    pub const UNKNOWN: Pollers = Pollers { processes: 2, engines: 1, millicores: 1000 };

    /// Returns true if spinning would oversubscribe the cores.
    ///
    /// `threads` counts the library threads by which a process's netmods make progress
    /// ([`Module::threads`](crate::Module::threads)). They are confined to the same cores as their
    /// process.
    pub fn are_crowded(self, threads: usize) -> bool {
        self.processes * (self.engines + threads) * 1000 > self.millicores
    }
}

#[cfg(test)]
mod tests {
    use super::Pollers;

    /// Threads that spin take cores from those with work: engines and library threads count like
    /// processes.
    #[test]
    fn more_than_cores_are_crowded() {
        for (processes, engines, threads, millicores, expected) in [
            (4, 1, 0, 4000, false),
            (1, 4, 0, 4000, false),
            (2, 2, 0, 4000, false),
            (2, 3, 0, 4000, true),
            (1, 5, 0, 4000, true),
            (2, 1, 1, 4000, false),
            (3, 1, 1, 4000, true),
            (1, 1, 4, 4000, true),
            (1, 1, 0, 1000, false),
            (1, 1, 1, 1000, true),
            (2, 1, 0, 1999, true),
            (1, 1, 0, 500, true),
        ] {
            let pollers = Pollers { processes, engines, millicores };
            assert_eq!(pollers.are_crowded(threads), expected, "{pollers:?} + {threads}");
        }
        assert!(Pollers::UNKNOWN.are_crowded(0));
    }
}
