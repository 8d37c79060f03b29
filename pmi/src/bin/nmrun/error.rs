//! The error of a command line.

use std::io;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::TryFromFloatSecsError;

use netmod_pmi::launch::MAX_RANKS;

/// The reason why a command line starts no job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// There is no such option.
    #[error(
        "there is no option \"{option}\"{}; -h lists all (a program whose name begins with '-' is given as ./{option})",
        nearest.map(|name| format!(", did you mean -{name}?")).unwrap_or_default()
    )]
    Unknown { option: String, nearest: Option<&'static str> },
    /// An option of other launchers.
    #[error("\"{option}\" is not offered: {instead}")]
    Refused { option: String, instead: &'static str },
    /// The value of an option is missing.
    #[error("\"{option}\" wants a value: {wanted}")]
    NoValue { option: String, wanted: &'static str },
    /// The value of an option is wrong.
    #[error("\"{option} {value}\": {why}")]
    Value { option: String, value: String, why: ValueError },
    /// An option that has no value was given one.
    #[error("\"{option}\" takes no value")]
    NeedlessValue { option: String },
    /// There is no program.
    #[error("{place} names no program; nmrun -n 2 PROGRAM starts two ranks of it (-h has more)")]
    NoProgram { place: Place },
    /// There are words after `-configfile FILE`.
    #[error("\"{word}\" follows -configfile: programs are either in the file or on the command line")]
    AfterFile { word: String },
    /// A host is another machine.
    #[error(
        "host \"{host}\" is not this machine, and nmrun starts ranks on this machine only; for several hosts start the same program with mpiexec.hydra -hosts, srun --mpi=pmi2, or mpirun of PRRTE or Open MPI"
    )]
    Host { host: String },
}

/// A part of the command line.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Place {
    /// All of it.
    #[error("the command line")]
    Line,
    /// A part of several, counted from 1.
    #[error("part {0} of the command line (parts are divided by ':')")]
    Part(usize),
    /// A file.
    #[error("the file of -configfile")]
    File,
}

/// The fault in an argument's value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    /// A number of seconds is expected.
    #[error("not a number of seconds")]
    NoSeconds,
    /// The time has passed at once.
    #[error("not above 0")]
    NotPositive,
    /// The number of seconds is too large.
    #[error(transparent)]
    Duration(#[from] TryFromFloatSecsError),
    /// A count is expected.
    #[error("not a number: {0}")]
    NoNumber(#[from] ParseIntError),
    /// A count is too small or too large.
    #[error("not one of 1 to {MAX_RANKS}")]
    Range,
    /// A variable with its value is expected.
    #[error("not of the form NAME=VALUE or NAME VALUE")]
    NoVariable,
    /// The binding is unknown.
    #[error("not one of core, none; taskset or numactl before the program can do more")]
    Binding,
    /// A file cannot be read.
    #[error("cannot read it: {0}")]
    File(#[from] io::Error),
    /// A quotation mark has no partner.
    #[error("line {line}: a quotation mark without its partner")]
    Quote { line: usize },
    /// The text is not UTF-8.
    #[error("not UTF-8")]
    Text,
    /// A folder does not exist.
    #[error("{} is no folder", .0.display())]
    Folder(PathBuf),
}
