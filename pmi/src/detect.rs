//! Detection of the launcher from the environment.

#[cfg(test)]
mod tests;

use crate::PmiError;
use crate::client::{Version, split_address};
use std::os::fd::RawFd;
use std::str::FromStr;

/// The variable with the [`Choice`].
pub const CHOICE: &str = "NETMOD_PMI";
/// The variable with the name of libpmix.
pub const PMIX_LIBRARY: &str = "NETMOD_PMIX_LIBRARY";

/// The choice of a protocol to the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The protocol that the environment offers; see [`detect`].
    Auto,
    /// PMI-1.
    Pmi1,
    /// PMI-2.
    Pmi2,
    /// PMIx.
    Pmix,
}

impl Choice {
    /// The accepted words of `NETMOD_PMI`.
    pub const WORDS: [&'static str; 4] = ["auto", "1", "2", "pmix"];
}

impl FromStr for Choice {
    type Err = PmiError;

    fn from_str(text: &str) -> Result<Choice, PmiError> {
        const MEANT: [Choice; 4] = [Choice::Auto, Choice::Pmi1, Choice::Pmi2, Choice::Pmix];
        Choice::WORDS
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text.trim()))
            .map(|at| MEANT[at])
            .ok_or_else(|| PmiError::Choice { value: crate::wire::quote(text.as_bytes()) })
    }
}

/// Settings for finding and reaching the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Choice of the protocol.
    pub choice: Choice,
    /// Name or path of libpmix, as the dynamic loader accepts it.
    pub pmix_library: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { choice: Choice::Auto, pmix_library: "libpmix.so.2".to_owned() }
    }
}

impl Settings {
    /// Parses the two values; an empty one means the default.
    ///
    /// # Errors
    ///
    /// Fails if `choice` is none of [`Choice::WORDS`].
    pub fn parse(choice: &str, pmix_library: &str) -> Result<Settings, PmiError> {
        let mut settings = Settings::default();
        if !choice.trim().is_empty() {
            settings.choice = choice.parse()?;
        }
        if !pmix_library.trim().is_empty() {
            settings.pmix_library = pmix_library.trim().to_owned();
        }
        Ok(settings)
    }

    /// Reads the settings from the environment; `lookup` returns the value of a variable.
    ///
    /// An empty value counts as absent.
    ///
    /// # Errors
    ///
    /// Fails if `NETMOD_PMI` is none of [`Choice::WORDS`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Settings, PmiError> {
        let lookup = |name: &str| lookup(name).unwrap_or_default();
        Settings::parse(&lookup(CHOICE), &lookup(PMIX_LIBRARY))
    }
}

/// The connection to the launcher that the environment describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// PMI over an inherited descriptor (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`).
    Descriptor {
        /// Number of the descriptor.
        fd: RawFd,
        /// Rank of this process.
        rank: u32,
        /// Number of ranks.
        size: u32,
        /// Protocol version.
        version: Version,
        /// The launcher's name for the job (`PMI_JOBID`), if it gave one.
        job: Option<String>,
    },
    /// PMI over TCP (`PMI_PORT`, `PMI_ID`); the handshake gives rank and size.
    Port {
        /// The address, `host:port`.
        address: String,
        /// Identifier of this process in the handshake.
        id: String,
        /// Protocol version.
        version: Version,
    },
    /// PMIx, whose library finds the rest in the environment.
    Pmix {
        /// Namespace, the name of the job.
        namespace: String,
    },
    /// No launcher: a job of one process.
    Singleton,
}

/// Variables in which launchers announce the number of processes, beside those of PMI.
///
/// Without PMI, several such processes would each run as a job of one, which is never intended.
const COUNTS: [(&str, &str, &str); 5] = [
    ("SLURM_NTASKS", "Slurm", "srun --mpi=pmi2 or --mpi=pmix"),
    ("SLURM_NPROCS", "Slurm", "srun --mpi=pmi2 or --mpi=pmix"),
    ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", "an mpirun whose PMIX_ variables reach the program"),
    ("PMI_SIZE", "a PMI launcher", "a launcher that sets PMI_FD or PMI_PORT too"),
    ("PALS_NRANKS", "PALS", "a launcher that offers PMI-1, PMI-2 or PMIx"),
];

/// Finds the launcher.
///
/// The order is `PMI_FD`, `PMI_PORT`, `PMIX_NAMESPACE`; then a launcher without PMI that announces
/// more than one process is an error; else a singleton. A variable with an empty value counts as
/// absent.
///
/// `PMI_FD` and `PMI_PORT` mean PMI-1, which each server speaks. Under `srun --mpi=pmi2`
/// (`SLURM_MPI_TYPE=pmi2` with a `PMI_JOBID`) they mean PMI-2, that plugin's own protocol. `choice`
/// can demand another.
///
/// `lookup` returns the value of a variable: `|name| std::env::var(name).ok()` outside of tests.
///
/// # Errors
///
/// Fails if the environment contradicts itself, or describes a launcher that cannot be reached, or
/// not by the protocol of `choice`.
pub fn detect(choice: Choice, lookup: impl Fn(&str) -> Option<String>) -> Result<Detected, PmiError> {
    let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let required = |var: &'static str, with: &str| {
        lookup(var).ok_or_else(|| PmiError::Environment { var, why: format!("it is not set, but {with} is") })
    };
    let pmix = lookup("PMIX_NAMESPACE");
    if choice != Choice::Pmix {
        if let Some(fd) = lookup("PMI_FD") {
            let fd = parse::<u32>("PMI_FD", &fd)?;
            let fd = RawFd::try_from(fd).map_err(|_| PmiError::Environment {
                var: "PMI_FD",
                why: format!("{fd} is no descriptor"),
            })?;
            let rank = parse::<u32>("PMI_RANK", &required("PMI_RANK", "PMI_FD")?)?;
            let size = parse::<u32>("PMI_SIZE", &required("PMI_SIZE", "PMI_FD")?)?;
            if rank >= size {
                return Err(PmiError::Environment {
                    var: "PMI_RANK",
                    why: format!("rank {rank} is not below PMI_SIZE={size}"),
                });
            }
            let job = lookup("PMI_JOBID");
            if let Some(job) = job.as_deref().filter(|job| !is_word(job)) {
                return Err(no_identifier("PMI_JOBID", job));
            }
            // A launcher inside a Slurm job passes SLURM_MPI_TYPE on, but not PMI_JOBID.
            let slurm = job.is_some() && lookup("SLURM_MPI_TYPE").as_deref() == Some("pmi2");
            return Ok(Detected::Descriptor { fd, rank, size, version: version(choice, slurm), job });
        }
        if let Some(address) = lookup("PMI_PORT") {
            let id = required("PMI_ID", "PMI_PORT")?;
            if !is_word(&id) {
                return Err(no_identifier("PMI_ID", &id));
            }
            split_address(&address)?;
            return Ok(Detected::Port { address, id, version: version(choice, false) });
        }
    }
    match (choice, pmix) {
        (Choice::Auto | Choice::Pmix, Some(namespace)) => return Ok(Detected::Pmix { namespace }),
        (Choice::Pmix, None) => {
            return Err(PmiError::NotOffered { choice: "pmix", missing: "PMIX_NAMESPACE is not set" });
        }
        (Choice::Pmi1, _) => {
            return Err(PmiError::NotOffered { choice: "1", missing: "neither PMI_FD nor PMI_PORT is set" });
        }
        (Choice::Pmi2, _) => {
            return Err(PmiError::NotOffered { choice: "2", missing: "neither PMI_FD nor PMI_PORT is set" });
        }
        (Choice::Auto, None) => {}
    }
    for (var, launcher, instead) in COUNTS {
        // Other values do not matter to a single process.
        if let Some(count) = lookup(var).and_then(|n| n.parse::<u64>().ok())
            && count > 1
        {
            return Err(PmiError::WithoutPmi { launcher, var, count, instead });
        }
    }
    Ok(Detected::Singleton)
}

fn version(choice: Choice, offers_v2: bool) -> Version {
    match choice {
        Choice::Pmi2 => Version::V2,
        Choice::Auto if offers_v2 => Version::V2,
        _ => Version::V1,
    }
}

/// Returns true if a text can be repeated to the launcher as one word.
fn is_word(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_graphic() && c != '=' && c != ';')
}

fn no_identifier(var: &'static str, text: &str) -> PmiError {
    let why = format!("\"{}\" is no identifier", crate::wire::quote(text.as_bytes()));
    PmiError::Environment { var, why }
}

fn parse<T: std::str::FromStr>(var: &'static str, value: &str) -> Result<T, PmiError> {
    value.trim().parse().map_err(|_| PmiError::Environment {
        var,
        why: format!("\"{}\" is not a number from 0", crate::wire::quote(value.as_bytes())),
    })
}
