//! Errors in a configuration, and warnings.

use super::{Kind, PREFIX};

/// The error of a configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value that is not accepted.
    #[error("{name}=`{value}` is not accepted; expected {kind}")]
    Value {
        /// Name of the variable.
        name: &'static str,
        /// The value, escaped, and cut if it is long.
        value: String,
        /// The accepted values.
        kind: Kind,
    },
    /// A value is not text.
    #[error("the value of {name} is not UTF-8; set it to plain text")]
    NotUnicode {
        /// Name of the variable.
        name: String,
    },
    /// There is no such variable.
    #[error("there is no variable `{name}`{}", did_you_mean(nearest))]
    Unknown {
        /// The name.
        name: String,
        /// The variable that was probably meant.
        nearest: Option<&'static str>,
    },
    /// Two values contradict each other.
    #[error("{smaller} is larger than {larger}; lower the one or raise the other")]
    Order {
        /// The variable that must not be larger.
        smaller: &'static str,
        /// The variable that must not be smaller.
        larger: &'static str,
    },
    /// A table declares a variable that another one has.
    #[error("two tables of settings declare {name}; rename the variable of the registered netmod")]
    Taken {
        /// Name of the variable.
        name: &'static str,
    },
    /// A registered netmod's table declares a variable without the netmod's prefix.
    #[error("the settings of a registered netmod begin with {prefix}, and {name} does not; rename it")]
    Prefix {
        /// Name of the variable.
        name: &'static str,
        /// Prefix of the netmod's variables.
        prefix: String,
    },
}

impl ConfigError {
    pub(super) fn value(name: &'static str, value: &str, kind: Kind) -> ConfigError {
        ConfigError::Value { name, value: excerpt(value), kind }
    }

    /// Returns the error of a name that is none of `known`.
    pub fn unknown(name: &str, known: &[&'static str]) -> ConfigError {
        ConfigError::Unknown { name: excerpt(name), nearest: nearest(name, known) }
    }
}

/// A warning that does not prevent starting. Its text is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigWarning {
    /// A `NETMOD_*` variable is unknown.
    Unknown {
        /// Name of the variable, escaped, and cut if it is long.
        name: String,
        /// The variable that was probably meant.
        nearest: Option<&'static str>,
    },
}

impl ConfigWarning {
    /// Returns the warning of a name that is none of `known`.
    pub fn unknown(name: &str, known: &[&'static str]) -> ConfigWarning {
        ConfigWarning::Unknown { name: excerpt(name), nearest: nearest(name, known) }
    }
}

impl core::fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigWarning::Unknown { name, nearest } => {
                write!(f, "the variable `{name}` is unknown and ignored{}", did_you_mean(nearest))
            }
        }
    }
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| format!("; did you mean {name}?"))
}

const EXCERPT: usize = 64;

/// Returns foreign text for a message: control characters escaped, and not long.
pub fn excerpt(text: &str) -> String {
    let more = if text.chars().nth(EXCERPT).is_some() { "..." } else { "" };
    text.chars().take(EXCERPT).flat_map(char::escape_debug).chain(more.chars()).collect()
}

/// Returns the variable most similar to `name`, if at least half of the name is right.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    // Names that long resemble nothing, and would make the comparison slow.
    if name.len() > EXCERPT {
        return None;
    }
    let upper = name.to_ascii_uppercase();
    let stem = |name: &'_ str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let given = stem(&upper);
    known
        .iter()
        .map(|&name| {
            let known = stem(name);
            (distance(given.as_bytes(), known.as_bytes()), given.len().max(known.len()), name)
        })
        .filter(|&(distance, len, _)| 2 * distance <= len)
        .min()
        .map(|(.., name)| name)
}

/// Returns the number of bytes to insert, delete or replace (Levenshtein distance).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
