//! Fuzz targets of all parsers of foreign input.
//!
//! A [`Target`] is a function of bytes that panics if a parser breaks a promise: it panics itself,
//! or what it has accepted is not written again just as it was. Its seeds are valid inputs, made
//! by the code that writes them. [`driver`] runs a target with mutated inputs on a stable
//! toolchain. It has no coverage of the code: an input that leads to a new [`Outcome`] is kept and
//! mutated further.

pub mod driver;
// `netmod-perf` is a program: the modules of its scenario files are compiled a second time here.
#[allow(dead_code)]
#[path = "../../perf/src/error.rs"]
mod error;
mod pair;
pub mod targets;

/// A parser to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// Makes valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds an input to the parser.
    pub run: fn(&[u8]) -> Outcome,
}

/// The answer of a parser to an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The input was accepted, as something of this kind.
    Accepted(String),
    /// The input was rejected, with an error of this kind.
    Rejected(String),
}

impl Outcome {
    /// Makes the outcome of a result. The kind is the beginning of its debug form, without
    /// numbers, so that there are few kinds.
    pub fn of<T: std::fmt::Debug, E: std::fmt::Debug>(result: &Result<T, E>) -> Outcome {
        match result {
            Ok(value) => Outcome::Accepted(kind(value)),
            Err(error) => Outcome::Rejected(kind(error)),
        }
    }

    /// Returns true if the input was accepted.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Outcome::Accepted(_))
    }
}

/// Most letters of a kind.
const MAX_KIND: usize = 48;
/// Most letters of a string in it: errors quote the input.
const MAX_QUOTED: usize = 8;

/// A writer that keeps the first letters and fails when it has enough, which ends the formatting.
#[derive(Default)]
struct Kind {
    text: String,
    /// Inside a string: the number of its letters.
    quoted: Option<usize>,
}

impl std::fmt::Write for Kind {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match &mut self.quoted {
                quoted if c == '"' => *quoted = quoted.is_none().then_some(0),
                Some(MAX_QUOTED) => continue,
                Some(n) => *n += 1,
                None => {}
            }
            if self.text.len() == MAX_KIND {
                return Err(std::fmt::Error);
            }
            self.text.extend(Some(c).filter(char::is_ascii_alphabetic));
        }
        Ok(())
    }
}

fn kind(value: &impl std::fmt::Debug) -> String {
    let mut kind = Kind::default();
    // The error is the kind's own: it has enough.
    let _ = std::fmt::write(&mut kind, format_args!("{value:?}"));
    kind.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_one_kind_are_equal() {
        let of = |n: u8, text: &str| Outcome::of(&Err::<(), _>((n, text.to_owned())));
        assert_eq!(of(1, "a"), of(200, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_eq!(of(1, "a longer text"), of(1, "a longer one"));
        let many = |n: usize| Outcome::of(&Ok::<_, ()>(vec![Some(1); n]));
        assert_eq!(many(40), many(50));
        assert!(!of(1, "a").is_accepted() && Outcome::of(&Ok::<_, ()>(3)).is_accepted());
    }
}
