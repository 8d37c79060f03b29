//! Location of a process, which decides whom a provider within a node reaches.

use std::os::unix::fs::MetadataExt;

use netmod_matching::Location;

/// Location of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessLocation {
    /// Kernel and network namespace. Processes with the same value share the loopback interface.
    pub network: Location,
    /// Device of `/dev/shm`. Processes with the same value and kernel share memory. 0 if unknown.
    pub memory: u64,
    /// PID namespace. Processes that also share this one can read each other's memory by process
    /// id. 0 if unknown.
    pub processes: u64,
}

impl ProcessLocation {
    /// Returns the location of this process, from `/proc` and `/dev/shm`. [`netmod_nics`] provides
    /// `network`.
    pub fn of_this_process(network: Location) -> ProcessLocation {
        // An unknown location differs from all others.
        let number =
            |path: &str, of: fn(&std::fs::Metadata) -> u64| std::fs::metadata(path).map_or(0, |m| of(&m));
        ProcessLocation {
            network,
            memory: number("/dev/shm", MetadataExt::dev),
            processes: number("/proc/self/ns/pid", MetadataExt::ino),
        }
    }

    /// Returns true if both processes share a loopback interface.
    pub fn shares_network(&self, other: &ProcessLocation) -> bool {
        self.network.is_same(&other.network)
    }

    /// Returns true if both processes can share memory.
    pub fn shares_memory(&self, other: &ProcessLocation) -> bool {
        let known = self.network.boot != [0; 16] && self.memory != 0 && self.processes != 0;
        known
            && (self.network.boot, self.memory, self.processes)
                == (other.network.boot, other.memory, other.processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_location_and_an_unknown_one_differs() {
        let network = Location { boot: [7; 16], netns: 3 };
        let here = ProcessLocation::of_this_process(network);
        assert_ne!(here.processes, 0);
        let full = ProcessLocation { network, memory: 5, processes: 6 };
        assert!(full.shares_network(&full) && full.shares_memory(&full));
        for other in [
            ProcessLocation { memory: 4, ..full },
            ProcessLocation { processes: 4, ..full },
            ProcessLocation { network: Location { boot: [8; 16], ..network }, ..full },
        ] {
            assert!(!full.shares_memory(&other) && !other.shares_memory(&full), "{other:?}");
        }
        let elsewhere = ProcessLocation { network: Location { netns: 4, ..network }, ..full };
        assert!(!full.shares_network(&elsewhere) && full.shares_memory(&elsewhere));
        let nowhere = ProcessLocation::default();
        assert!(!nowhere.shares_network(&nowhere) && !nowhere.shares_memory(&nowhere));
    }
}
