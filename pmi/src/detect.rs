//! Who started this process, told from its environment.

#[cfg(test)]
mod tests;

use crate::PmiError;
use std::os::fd::RawFd;

/// The way to the launcher that the environment describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// PMI-1 over an inherited descriptor (`PMI_FD`, `PMI_RANK`, `PMI_SIZE`).
    Descriptor {
        /// The descriptor's number.
        fd: RawFd,
        /// This process's rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// PMI-1 over TCP (`PMI_PORT`, `PMI_ID`); rank and size come with the handshake.
    Port {
        /// `host:port`.
        address: String,
        /// What this process calls itself in the handshake.
        id: String,
    },
    /// No launcher: a job of one process.
    Singleton,
}

/// Finds the way to the launcher.
///
/// The order is `PMI_FD`, `PMI_PORT`, `PMIX_NAMESPACE` (an error), `SLURM_NTASKS` above one (an
/// error: several processes that each believe to be alone are never what was meant), singleton.
/// A variable with an empty value counts as absent.
///
/// `lookup` gives the value of a variable; `|name| std::env::var(name).ok()` outside of tests.
///
/// # Errors
/// The environment contradicts itself, or describes a launcher that PMI-1 cannot talk to.
pub fn detect(lookup: impl Fn(&str) -> Option<String>) -> Result<Detected, PmiError> {
    let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let required = |var: &'static str, with: &str| {
        lookup(var).ok_or_else(|| PmiError::Environment { var, why: format!("it is not set, but {with} is") })
    };
    if let Some(fd) = lookup("PMI_FD") {
        let fd = parse::<u32>("PMI_FD", &fd)?;
        let fd = RawFd::try_from(fd)
            .map_err(|_| PmiError::Environment { var: "PMI_FD", why: format!("{fd} is no descriptor") })?;
        let rank = parse::<u32>("PMI_RANK", &required("PMI_RANK", "PMI_FD")?)?;
        let size = parse::<u32>("PMI_SIZE", &required("PMI_SIZE", "PMI_FD")?)?;
        if rank >= size {
            return Err(PmiError::Environment {
                var: "PMI_RANK",
                why: format!("rank {rank} is not below PMI_SIZE={size}"),
            });
        }
        return Ok(Detected::Descriptor { fd, rank, size });
    }
    if let Some(address) = lookup("PMI_PORT") {
        let id = required("PMI_ID", "PMI_PORT")?;
        let plain = |c: char| c.is_ascii_graphic() && c != '=';
        if id.len() > 64 || !id.chars().all(plain) {
            return Err(PmiError::Environment {
                var: "PMI_ID",
                why: format!("\"{}\" is no identifier", crate::wire::quote(id.as_bytes())),
            });
        }
        split_address(&address)?;
        return Ok(Detected::Port { address, id });
    }
    if let Some(namespace) = lookup("PMIX_NAMESPACE") {
        return Err(PmiError::PmixOnly { namespace });
    }
    for var in ["SLURM_NTASKS", "SLURM_NPROCS"] {
        // Other values are Slurm's business, not a reason to refuse a single process.
        if let Some(ntasks) = lookup(var).and_then(|n| n.parse::<u64>().ok())
            && ntasks > 1
        {
            return Err(PmiError::SlurmWithoutPmi { ntasks });
        }
    }
    Ok(Detected::Singleton)
}

fn parse<T: std::str::FromStr>(var: &'static str, value: &str) -> Result<T, PmiError> {
    value.trim().parse().map_err(|_| PmiError::Environment {
        var,
        why: format!("\"{}\" is not a number from 0", crate::wire::quote(value.as_bytes())),
    })
}

/// Takes `host:port` apart; an IPv6 address stands in brackets.
pub(crate) fn split_address(address: &str) -> Result<(&str, u16), PmiError> {
    let bad = || PmiError::Environment {
        var: "PMI_PORT",
        why: format!("\"{}\" is not host:port", crate::wire::quote(address.as_bytes())),
    };
    let (host, port) = address.trim().rsplit_once(':').ok_or_else(bad)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let port: u16 = port.parse().map_err(|_| bad())?;
    if host.is_empty() || port == 0 {
        return Err(bad());
    }
    Ok((host, port))
}
