//! The section `node`, common to all netmods: the machine on which a process runs.

use std::fs;
use std::io;

use super::{BodyReader, BodyWriter, CardError, CardWriter, Section};
use crate::cpus::CpuSet;

#[cfg(test)]
mod tests;

/// Name of the section.
pub const NODE_SECTION: &str = "node";
/// Longest host name in bytes (POSIX `HOST_NAME_MAX`, with room for a qualified one).
pub const MAX_HOSTNAME: usize = 255;

const VERSION: u16 = 1;
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The node of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSection {
    /// Host name, for messages only. Containers of one machine have different ones.
    pub hostname: String,
    /// Boot id of the kernel (`random(4)`), the same exactly for processes of one running kernel.
    pub boot_id: [u8; 16],
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// Number of online processors of the machine, at least 1.
    pub cores: u32,
}

/// The error of a machine that does not describe itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A file of the kernel cannot be read.
    #[error("cannot read {path}: {source}; is /proc mounted?")]
    Read {
        /// The file.
        path: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the kernel has unexpected content.
    #[error("{path} says `{}`; expected {expected}", text.escape_debug())]
    Content {
        /// The file.
        path: &'static str,
        /// The beginning of the content.
        text: String,
        /// Description of the expected content.
        expected: &'static str,
    },
}

impl NodeSection {
    /// Describes the running process on Linux.
    ///
    /// # Errors
    ///
    /// Fails if the kernel's files for host name and boot id are missing or not as documented.
    pub fn of_this_process() -> Result<NodeSection, NodeError> {
        let read = |path| {
            let bytes = fs::read(path).map_err(|source| NodeError::Read { path, source })?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        let hostname = read(HOSTNAME)?;
        if hostname.len() > MAX_HOSTNAME {
            return Err(unexpected(HOSTNAME, &hostname, "at most 255 bytes"));
        }
        let boot_id = read(BOOT_ID)?;
        let boot_id = parse_uuid(&boot_id)
            .ok_or_else(|| unexpected(BOOT_ID, &boot_id, "32 hexadecimal digits with dashes"))?;
        // Without /sys, the processors that this process may use are the best estimate.
        let cores = read(ONLINE)
            .ok()
            .and_then(|list| u32::try_from(CpuSet::parse(&list)?.len()).ok())
            .or_else(|| std::thread::available_parallelism().ok()?.get().try_into().ok())
            .unwrap_or(1);
        Ok(NodeSection { hostname, boot_id, pid: std::process::id(), cores })
    }

    /// Returns true if both run under the same kernel.
    pub fn same_node(&self, other: &NodeSection) -> bool {
        self.boot_id == other.boot_id
    }

    /// Writes the section.
    ///
    /// # Errors
    ///
    /// [`CardError::Malformed`] if a value is out of bounds, or those of [`CardWriter::section`].
    pub fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        self.check()?;
        let mut body = BodyWriter::new();
        body.raw(&self.boot_id).u32(self.pid).u32(self.cores).str(&self.hostname);
        card.section(NODE_SECTION, VERSION, body.as_bytes())
    }

    /// Reads the section.
    ///
    /// # Errors
    ///
    /// [`CardError::Truncated`], [`CardError::Malformed`] or [`CardError::Trailing`].
    pub fn parse(section: Section<'_>) -> Result<NodeSection, CardError> {
        let mut r = BodyReader::new("section `node`", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let node = NodeSection {
            boot_id: r.array("the boot id")?,
            pid: r.u32("the process id")?,
            cores: r.u32("the number of cores")?,
            hostname: r.str("the host name")?.to_owned(),
        };
        r.finish()?;
        node.check()?;
        Ok(node)
    }

    fn check(&self) -> Result<(), CardError> {
        if self.hostname.len() > MAX_HOSTNAME || self.hostname.contains(char::is_control) {
            return Err(CardError::Malformed {
                what: "the host name",
                expected: "it must be at most 255 printable bytes",
            });
        }
        if self.cores == 0 {
            return Err(CardError::Malformed {
                what: "the number of cores",
                expected: "it must be at least 1",
            });
        }
        Ok(())
    }
}

fn unexpected(path: &'static str, text: &str, expected: &'static str) -> NodeError {
    NodeError::Content { path, text: text.chars().take(64).collect(), expected }
}

/// Parses `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
    let mut out = [0; 16];
    if text.len() != 36 || digits.len() != 2 * out.len() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(out)
}
