//! Where a process is, as far as it decides whom a provider within a node reaches.

use std::os::unix::fs::MetadataExt;

use netmod_matching::Location;

/// The place of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Here {
    /// Kernel and network namespace: who shares them shares the loopback interface.
    pub network: Location,
    /// Device of `/dev/shm`: who shares it, and the kernel, shares memory. 0 if unknown.
    pub memory: u64,
    /// PID namespace: who shares it, too, can read the other's memory by process id. 0 if unknown.
    pub processes: u64,
}

impl Here {
    /// The place of this process, as far as `/proc` and `/dev/shm` tell. The network's part is [`netmod_nics`]'s.
    pub fn of_this_process(network: Location) -> Here {
        // Where it is not known, nobody is taken to be in the same place.
        let number =
            |path: &str, of: fn(&std::fs::Metadata) -> u64| std::fs::metadata(path).map_or(0, |m| of(&m));
        Here {
            network,
            memory: number("/dev/shm", MetadataExt::dev),
            processes: number("/proc/self/ns/pid", MetadataExt::ino),
        }
    }

    /// Whether both are behind one loopback interface.
    pub fn shares_network(&self, other: &Here) -> bool {
        self.network.is_same(&other.network)
    }

    /// Whether both can share memory.
    pub fn shares_memory(&self, other: &Here) -> bool {
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
    fn a_process_is_where_it_is_and_the_unknown_is_nowhere() {
        let network = Location { boot: [7; 16], netns: 3 };
        let here = Here::of_this_process(network);
        assert_ne!(here.processes, 0);
        let full = Here { network, memory: 5, processes: 6 };
        assert!(full.shares_network(&full) && full.shares_memory(&full));
        for other in [
            Here { memory: 4, ..full },
            Here { processes: 4, ..full },
            Here { network: Location { boot: [8; 16], ..network }, ..full },
        ] {
            assert!(!full.shares_memory(&other) && !other.shares_memory(&full), "{other:?}");
        }
        let elsewhere = Here { network: Location { netns: 4, ..network }, ..full };
        assert!(!full.shares_network(&elsewhere) && full.shares_memory(&elsewhere));
        let nowhere = Here::default();
        assert!(!nowhere.shares_network(&nowhere) && !nowhere.shares_memory(&nowhere));
    }
}
