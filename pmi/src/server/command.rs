//! The requests of a client, parsed and checked.

use crate::wire::{Line, LineError};

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The first line over a port: identifies the client (`PMI_ID`).
    Initack {
        /// The identifier.
        id: &'a str,
    },
    /// Starts PMI.
    Init {
        /// The version that the client speaks.
        version: u32,
    },
    /// Asks for the limits.
    GetMaxes,
    /// Asks for the number of the program in the job.
    GetAppnum,
    /// Asks for the largest possible number of processes.
    GetUniverseSize,
    /// Asks for the name of the job's key-value space.
    GetMyKvsname,
    /// Stores a value.
    Put {
        /// Name of the key-value space.
        kvsname: &'a str,
        /// The key.
        key: &'a str,
        /// The value.
        value: &'a str,
    },
    /// Looks a value up.
    Get {
        /// Name of the key-value space.
        kvsname: &'a str,
        /// The key.
        key: &'a str,
    },
    /// Enters the barrier.
    BarrierIn,
    /// Ends PMI.
    Finalize,
    /// Requests the end of the job.
    Abort {
        /// The exit code to end with.
        code: i32,
    },
    /// Publishes a port under a name.
    PublishName {
        /// The name.
        service: &'a str,
        /// The port.
        port: &'a str,
    },
    /// Takes a name back.
    UnpublishName {
        /// The name.
        service: &'a str,
    },
    /// Looks a name up.
    LookupName {
        /// The name.
        service: &'a str,
    },
}

/// The error in a client's line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The line is not made of words.
    #[error("{0}")]
    Line(#[from] LineError),
    /// A mandatory word is missing or invalid.
    #[error("{0}= is missing or makes no sense")]
    Word(&'static str),
    /// The command is unknown or not supported.
    #[error("this launcher does not know the command")]
    Unknown,
}

impl<'a> Command<'a> {
    /// Parses a client's line.
    ///
    /// # Errors
    ///
    /// Returns the error in the line.
    pub fn parse(bytes: &'a [u8]) -> Result<Command<'a>, CommandError> {
        let line = Line::parse(bytes)?;
        let word =
            |name: &'static str| line.get(name).filter(|v| !v.is_empty()).ok_or(CommandError::Word(name));
        Ok(match line.cmd() {
            "initack" => Command::Initack { id: word("pmiid")? },
            "init" => Command::Init {
                version: line.number("pmi_version").ok_or(CommandError::Word("pmi_version"))?,
            },
            "get_maxes" => Command::GetMaxes,
            "get_appnum" => Command::GetAppnum,
            "get_universe_size" => Command::GetUniverseSize,
            "get_my_kvsname" => Command::GetMyKvsname,
            "put" => Command::Put {
                kvsname: word("kvsname")?,
                key: word("key")?,
                // An empty value is refused later, not as a malformed line.
                value: line.get("value").ok_or(CommandError::Word("value"))?,
            },
            "get" => Command::Get { kvsname: word("kvsname")?, key: word("key")? },
            "barrier_in" => Command::BarrierIn,
            "finalize" => Command::Finalize,
            // An abort without a code is still an abort.
            "abort" => Command::Abort { code: line.number("exitcode").unwrap_or(1) },
            "publish_name" => Command::PublishName { service: word("service")?, port: word("port")? },
            "unpublish_name" => Command::UnpublishName { service: word("service")? },
            "lookup_name" => Command::LookupName { service: word("service")? },
            _ => return Err(CommandError::Unknown),
        })
    }
}
