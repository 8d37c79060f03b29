//! Binding of ranks to processors.

use super::LaunchError;
use crate::sys::{CpuMask, allowed_cpus};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// The processors that ranks may run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binding {
    /// Each rank has an equal share of the cores to itself, where there are no more ranks than
    /// cores. Otherwise, and with one rank, ranks move freely.
    #[default]
    Share,
    /// Each rank has one core to itself. With more ranks than cores the job does not start.
    Core,
    /// Ranks move freely.
    None,
}

/// The processors of each rank of a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Those of each rank, by rank.
    Cpus(Vec<Vec<usize>>),
    /// All that the launcher may use, and why.
    Free { ranks: usize, why: Free },
}

/// The reason why ranks move freely.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Free {
    Asked,
    /// One rank has all cores.
    Alone,
    /// There are only so many cores.
    Cores(usize),
    /// The kernel does not say what this process may use.
    Unknown,
}

impl Bound {
    /// Chooses the processors of the ranks of a job on this machine.
    pub(super) fn plan(binding: Binding, ranks: usize) -> Result<Bound, LaunchError> {
        if binding == Binding::None {
            return Ok(Bound::Free { ranks, why: Free::Asked });
        }
        match allowed_cpus() {
            Ok(mask) => Bound::over(binding, ranks, &cores(mask.cpus(), siblings)),
            Err(_) if binding == Binding::Share => Ok(Bound::Free { ranks, why: Free::Unknown }),
            Err(e) => Err(LaunchError::system("asking which processors may be used")(e)),
        }
    }

    /// Chooses among `cores`, each of which is a list of processors.
    fn over(binding: Binding, ranks: usize, cores: &[Vec<usize>]) -> Result<Bound, LaunchError> {
        if ranks > cores.len() {
            return match binding {
                Binding::Core => Err(LaunchError::Cores { ranks, cores: cores.len() }),
                _ => Ok(Bound::Free { ranks, why: Free::Cores(cores.len()) }),
            };
        }
        if ranks == 1 && binding == Binding::Share {
            return Ok(Bound::Free { ranks, why: Free::Alone });
        }
        let share = if binding == Binding::Core { 1 } else { cores.len() / ranks.max(1) };
        Ok(Bound::Cpus((0..ranks).map(|rank| cores[rank * share..][..share].concat()).collect()))
    }

    /// Returns the processors of a rank, if it is bound.
    pub(super) fn mask(&self, rank: usize) -> Option<CpuMask> {
        match self {
            Bound::Cpus(of_ranks) => Some(CpuMask::new(of_ranks[rank].iter().copied())),
            Bound::Free { .. } => None,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Cpus(of_ranks) => {
                f.write_str("ranks are bound to processors (-bind-to none lets them move):")?;
                for (rank, cpus) in of_ranks.iter().enumerate() {
                    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                    let comma = if rank == 0 { "" } else { ";" };
                    write!(f, "{comma} rank {rank} to {}", cpus.join(","))?;
                }
                Ok(())
            }
            Bound::Free { ranks, why } => {
                write!(
                    f,
                    "{ranks} {} not bound to processors: ",
                    if *ranks == 1 { "rank is" } else { "ranks are" }
                )?;
                match why {
                    Free::Asked => f.write_str("-bind-to none"),
                    Free::Alone => f.write_str("it is alone (-bind-to core binds it to one core)"),
                    Free::Cores(1) => f.write_str("the launcher may use 1 core"),
                    Free::Cores(cores) => write!(f, "the launcher may use {cores} cores"),
                    Free::Unknown => f.write_str("the kernel does not say which the launcher may use"),
                }
            }
        }
    }
}

/// Groups processors into cores, in the order of the first processor of each.
fn cores(cpus: impl Iterator<Item = usize>, siblings: impl Fn(usize) -> Option<String>) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in cpus {
        // Without a list each processor is a core.
        let first = match siblings(cpu) {
            Some(list) => *first_of.entry(list).or_insert(cpu),
            None => cpu,
        };
        cores.entry(first).or_default().push(cpu);
    }
    cores.into_values().collect()
}

/// Returns the list of the processors of the same core, as the kernel writes it.
fn siblings(cpu: usize) -> Option<String> {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores of two processors each, numbered as Linux does: 0 and 4, 1 and 5, and so on.
    fn four() -> Vec<Vec<usize>> {
        cores(0..8, |cpu| Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4)))
    }

    #[test]
    fn processors_of_a_core_belong_together() {
        assert_eq!(four(), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(cores([1, 3].into_iter(), |_| None), [[1], [3]]);
    }

    #[test]
    fn ranks_get_equal_shares_of_whole_cores() {
        let bound = |binding, ranks| Bound::over(binding, ranks, &four()).unwrap();
        let two = vec![vec![0, 4, 1, 5], vec![2, 6, 3, 7]];
        assert_eq!(bound(Binding::Share, 2), Bound::Cpus(two));
        let three = vec![vec![0, 4], vec![1, 5], vec![2, 6]];
        assert_eq!(bound(Binding::Share, 3), Bound::Cpus(three.clone()));
        assert_eq!(bound(Binding::Core, 3), Bound::Cpus(three));
        assert_eq!(bound(Binding::Core, 1), Bound::Cpus(vec![vec![0, 4]]));
        assert_eq!(bound(Binding::Share, 1), Bound::Free { ranks: 1, why: Free::Alone });
        assert_eq!(bound(Binding::Share, 5), Bound::Free { ranks: 5, why: Free::Cores(4) });
        let error = Bound::over(Binding::Core, 5, &four()).unwrap_err().to_string();
        assert!(error.contains("5 ranks") && error.contains("4 cores") && error.contains("-bind-to none"));
    }

    #[test]
    fn the_choice_is_explained() {
        let bound = Bound::over(Binding::Share, 2, &four()).unwrap();
        let text = "ranks are bound to processors (-bind-to none lets them move): rank 0 to 0,4,1,5; rank 1 to 2,6,3,7";
        assert_eq!(bound.to_string(), text);
        let free = Bound::over(Binding::Share, 9, &four()).unwrap();
        assert_eq!(free.to_string(), "9 ranks are not bound to processors: the launcher may use 4 cores");
    }
}
