//! Who polls on a node, and whether there is a core for each.

/// What of a node's processes may want a core at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pollers {
    /// Processes of the job on this node.
    pub processes: usize,
    /// Engines of each; every one has a thread that polls.
    pub engines: usize,
    /// The node's cores.
    pub cores: usize,
    /// Those that this process may use (`sched_getaffinity(2)`).
    pub own: usize,
}

impl Pollers {
    /// Of a process that knows nothing of its node: it takes the cores to be shared.
    pub const UNKNOWN: Pollers = Pollers { processes: 2, engines: 1, cores: 1, own: 1 };

    /// Whether who polls in vain takes a core from somebody who has work. `threads`: those by which the libraries of a process's netmods make
    /// progress ([`Netmod::threads`](crate::Netmod::threads)). Such a thread cannot go to where its process may not.
    pub fn are_crowded(self, threads: usize) -> bool {
        let each = self.engines + threads;
        self.processes * each > self.cores || threads > 0 && each > self.own
    }
}

#[cfg(test)]
mod tests {
    use super::Pollers;

    /// Threads that poll in vain take the cores from those that have work: engines count like processes, as do threads of libraries.
    #[test]
    fn more_than_cores_are_crowded() {
        let crowded = |processes, engines, threads, own| {
            Pollers { processes, engines, cores: 4, own }.are_crowded(threads)
        };
        for (processes, engines, threads, expected) in [
            (4, 1, 0, false),
            (1, 4, 0, false),
            (2, 2, 0, false),
            (2, 3, 0, true),
            (1, 5, 0, true),
            (2, 1, 1, false),
            (3, 1, 1, true),
            (1, 1, 4, true),
        ] {
            assert_eq!(
                crowded(processes, engines, threads, 4),
                expected,
                "{processes} x ({engines} + {threads})"
            );
        }
        // A launcher binds each process to a core: only who has a thread beside itself there shares it.
        assert!(!crowded(4, 1, 0, 1) && crowded(2, 1, 1, 1));
        assert!(Pollers::UNKNOWN.are_crowded(0));
    }
}
