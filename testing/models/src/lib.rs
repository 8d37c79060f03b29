//! Records what exhaustive tests explore, for `cargo xtask tests --list`.
//!
//! A test calls [`state_space`] with the number of states that it has visited, and [`mutant`] for
//! each known mistake that it catches. The record is one line of four fields with tabs between
//! them: kind, module, name, count. It is appended to the file that [`FILE`] names; without that
//! variable, nothing happens.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that names the file to append to.
pub const FILE: &str = "NETMOD_TEST_MODELS";
/// Kind of a line that says how many states were visited.
pub const STATES: &str = "states";
/// Kind of a line that says how many mutants were caught.
pub const MUTANTS: &str = "mutants";

/// Records a state space that was explored to its end without a fault. `module` is the caller's
/// `module_path!()`.
///
/// # Panics
/// If the file cannot be written.
pub fn state_space(module: &str, name: impl Display, states: usize) {
    record(STATES, module, &name.to_string(), states);
}

/// Records a mutant that the calling test catches, or fails.
///
/// # Panics
/// As [`state_space`].
pub fn mutant(module: &str, name: impl Display) {
    mutants(module, name, 1);
}

/// Records mutants that are too many to be named one by one.
///
/// # Panics
/// As [`state_space`].
pub fn mutants(module: &str, name: impl Display, caught: usize) {
    record(MUTANTS, module, &name.to_string(), caught);
}

/// Wraps the closure of a loom model: records how often it ran, which is the number of
/// interleavings. Nothing is recorded if the model fails.
///
/// # Panics
/// As [`state_space`], when the closure is dropped.
pub fn interleavings<F>(module: &'static str, name: impl Display, f: F) -> impl Fn() + Send + Sync + 'static
where
    F: Fn() + Send + Sync + 'static,
{
    let count = Count { module, name: name.to_string(), runs: AtomicUsize::new(0) };
    move || {
        count.add();
        f();
    }
}

/// Runs of a closure, recorded when it is dropped.
struct Count {
    module: &'static str,
    name: String,
    runs: AtomicUsize,
}

impl Count {
    fn add(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            record(STATES, self.module, &self.name, *self.runs.get_mut());
        }
    }
}

fn record(kind: &str, module: &str, name: &str, count: usize) {
    let Some(path) = std::env::var_os(FILE) else { return };
    let line = line(kind, module, name, count);
    // One write, so that lines of tests that run at the same time do not mix.
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut f| f.write_all(line.as_bytes()));
    written.unwrap_or_else(|e| panic!("cannot record what was explored in {}: {e}", path.display()));
}

/// One line of the record, whose fields hold no tab and no line end.
fn line(kind: &str, module: &str, name: &str, count: usize) -> String {
    let clean = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{kind}\t{}\t{}\t{count}\n", clean(module), clean(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_line_has_four_fields_whatever_the_name() {
        assert_eq!(
            line(STATES, "a::b", "two\twords\nand more", 12),
            "states\ta::b\ttwo words and more\t12\n"
        );
    }

    #[test]
    fn runs_of_a_closure_are_counted() {
        let seen = Arc::new(AtomicUsize::new(0));
        let inner = Arc::clone(&seen);
        let counted = interleavings(module_path!(), "test", move || {
            inner.fetch_add(1, Ordering::Relaxed);
        });
        (0..3).for_each(|_| counted());
        drop(counted);
        assert_eq!(seen.load(Ordering::Relaxed), 3);
    }
}
