//! The last events of a simulation, for replaying a failed seed.

use std::collections::VecDeque;

use netmod_core::Time;

/// A ring of lines. It is off by default, and a line then costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: VecDeque<String>,
    limit: usize,
}

impl Trace {
    /// Keeps the last `limit` lines; zero for none.
    pub fn new(limit: usize) -> Trace {
        Trace { lines: VecDeque::new(), limit }
    }

    /// Returns true if lines are kept.
    pub fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// Adds a line.
    #[inline]
    pub fn note(&mut self, now: Time, line: impl FnOnce() -> String) {
        if self.limit > 0 {
            self.keep(now, line());
        }
    }

    #[cold]
    fn keep(&mut self, now: Time, line: String) {
        if self.lines.len() == self.limit {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>14.6} ms  {line}", now.0 as f64 / 1e6));
    }

    /// Returns the lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut trace = Trace::new(2);
        for i in 0..5 {
            trace.note(Time(i), || format!("line {i}"));
        }
        assert!(trace.lines().map(|l| &l[l.len() - 1..]).eq(["3", "4"]));
        Trace::new(0).note(Time(0), || panic!("never built"));
    }
}
