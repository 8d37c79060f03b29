//! What a client may say, parsed and checked.

use crate::wire::{Line, LineError};

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The first line over a port: who is there (`PMI_ID`).
    Initack {
        /// The identifier.
        id: &'a str,
    },
    /// Start of PMI.
    Init {
        /// The version that the client speaks.
        version: u32,
    },
    /// Asks for the limits.
    GetMaxes,
    /// Asks for the number of the program.
    GetAppnum,
    /// Asks for the number of processes there can be.
    GetUniverseSize,
    /// Asks for the name of the job's key-value space.
    GetMyKvsname,
    /// Stores a value.
    Put {
        /// The key-value space.
        kvsname: &'a str,
        /// The key.
        key: &'a str,
        /// The value.
        value: &'a str,
    },
    /// Looks a value up.
    Get {
        /// The key-value space.
        kvsname: &'a str,
        /// The key.
        key: &'a str,
    },
    /// Enters the barrier.
    BarrierIn,
    /// End of PMI.
    Finalize,
    /// Asks for the end of the job.
    Abort {
        /// The exit code to end with.
        code: i32,
    },
    /// Publishes or looks up a name, which is answered with a refusal.
    NameService {
        /// The `cmd=` of the answer.
        reply: &'static str,
    },
}

/// What is wrong with a client's line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It is not a line of words.
    #[error("{0}")]
    Line(#[from] LineError),
    /// A word that the command needs is missing or no number.
    #[error("{0}= is missing or makes no sense")]
    Word(&'static str),
    /// The command is not known, or not supported.
    #[error("this launcher does not know the command")]
    Unknown,
}

impl<'a> Command<'a> {
    /// Takes a client's line apart.
    ///
    /// # Errors
    /// What is wrong with the line.
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
                // May be empty: that is not a fault of the line.
                value: line.get("value").ok_or(CommandError::Word("value"))?,
            },
            "get" => Command::Get { kvsname: word("kvsname")?, key: word("key")? },
            "barrier_in" => Command::BarrierIn,
            "finalize" => Command::Finalize,
            // An abort without a code is still an abort.
            "abort" => Command::Abort { code: line.number("exitcode").unwrap_or(1) },
            "publish_name" => Command::NameService { reply: "publish_result" },
            "unpublish_name" => Command::NameService { reply: "unpublish_result" },
            "lookup_name" => Command::NameService { reply: "lookup_result" },
            _ => return Err(CommandError::Unknown),
        })
    }
}
