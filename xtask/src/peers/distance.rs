//! The distance of the two processors, which those of a virtual machine may change at any time:
//! what is compared runs while it is the same.

use std::time::Duration;

/// The flag's times may differ by this factor while libraries are compared.
const STEADY: f64 = 1.5;
/// Most runs of a program until they do not.
pub(super) const TRIES: u32 = 8;
/// Most looks at the flag until it takes as long as before, and the pause between two.
const LOOKS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(500);

/// The distance between the two cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Distance {
    /// Nanoseconds of a flag from one to the other, the least and the most.
    pub(crate) flag: (f64, f64),
    /// True if it has hardly changed.
    pub(crate) steady: bool,
}

impl Distance {
    /// Returns the distance of several times of the flag.
    pub(super) fn of(flags: &[f64]) -> Distance {
        let least = flags.iter().copied().fold(f64::INFINITY, f64::min);
        let most = flags.iter().copied().fold(0.0, f64::max);
        Distance { flag: (least, most), steady: most <= least * STEADY }
    }
}

/// Runs of several libraries in turn, which are compared.
pub(super) struct InTurn<'a> {
    /// Returns the nanoseconds of a flag from one core to the other.
    flag: Box<dyn Fn() -> Result<f64, String> + 'a>,
    /// The flag's times before and after each run that counts.
    flags: Vec<f64>,
}

impl<'a> InTurn<'a> {
    pub(super) fn new(flag: impl Fn() -> Result<f64, String> + 'a) -> InTurn<'a> {
        InTurn { flag: Box::new(flag), flags: Vec::new() }
    }

    /// Runs a library while the cores are as far apart as they were for the first one, and again,
    /// up to `tries` times, if that changed meanwhile. Returns what its last run did.
    ///
    /// With one try the distance is only looked at: that is for ranks that are not bound to the two
    /// cores.
    ///
    /// # Errors
    /// Errors of `run`, and of the flag's program.
    pub(super) fn run<T>(&mut self, tries: u32, run: impl FnMut() -> Result<T, String>) -> Result<T, String> {
        let look = |again: bool| {
            if again {
                std::thread::sleep(PAUSE);
            }
            (self.flag)()
        };
        let (done, seen) = alike(self.flags.first().copied(), tries, look, run)?;
        self.flags.extend(seen);
        Ok(done)
    }

    /// Returns the distances of all runs.
    pub(super) fn distance(&self) -> Distance {
        Distance::of(&self.flags)
    }
}

/// Does what [`InTurn::run`] does, where the flag of the first run took `wanted`. Returns also the
/// flag before and after the last run. `look` returns its time, after a pause if that is wanted.
fn alike<T>(
    wanted: Option<f64>,
    tries: u32,
    mut look: impl FnMut(bool) -> Result<f64, String>,
    mut run: impl FnMut() -> Result<T, String>,
) -> Result<(T, [f64; 2]), String> {
    let mut left = tries;
    loop {
        let mut before = look(false)?;
        let wanted = wanted.unwrap_or(before);
        for _ in 1..if tries > 1 { LOOKS } else { 1 } {
            if Distance::of(&[wanted, before]).steady {
                break;
            }
            before = look(true)?;
        }
        let (done, after) = (run()?, look(false)?);
        left -= 1;
        if left == 0 || Distance::of(&[wanted, before, after]).steady {
            return Ok((done, [before, after]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_go_apart_are_noticed() {
        assert_eq!(Distance::of(&[58.0, 55.0, 62.0]), Distance { flag: (55.0, 62.0), steady: true });
        assert!(!Distance::of(&[58.0, 274.0, 60.0]).steady);
    }

    /// Runs with the given times of the flag; returns the number of runs and of pauses, and the
    /// flag of the last run.
    fn alike_with(wanted: Option<f64>, tries: u32, flags: &[f64]) -> (u32, u32, [f64; 2]) {
        let (mut flags, mut pauses) = (flags.iter().copied(), 0);
        let mut runs = 0;
        let look = |again| {
            pauses += u32::from(again);
            flags.next().ok_or_else(|| "a look too many".to_owned())
        };
        let run = || {
            runs += 1;
            Ok(runs)
        };
        let (last, seen) = alike(wanted, tries, look, run).expect("a result");
        assert_eq!(flags.next(), None, "a look too few");
        (last, pauses, seen)
    }

    #[test]
    fn a_library_runs_when_the_cores_are_as_far_apart_as_for_the_first() {
        assert_eq!(alike_with(None, 8, &[58.0, 60.0]), (1, 0, [58.0, 60.0]));
        assert_eq!(alike_with(None, 8, &[58.0, 250.0, 250.0, 245.0]), (2, 0, [250.0, 245.0]));
        let later = [250.0, 250.0, 60.0, 62.0];
        assert_eq!(alike_with(Some(58.0), 8, &later), (1, 2, [60.0, 62.0]));
        let meanwhile = [60.0, 250.0, 250.0, 57.0, 59.0];
        assert_eq!(alike_with(Some(58.0), 8, &meanwhile), (2, 1, [57.0, 59.0]));
        assert_eq!(alike_with(Some(58.0), 2, &[60.0, 250.0, 60.0, 240.0]), (2, 0, [60.0, 240.0]));
        assert_eq!(alike_with(Some(58.0), 1, &[250.0, 250.0]), (1, 0, [250.0, 250.0]), "a crowd");
        let far = [250.0; LOOKS as usize + 1];
        assert_eq!(alike_with(Some(58.0), 1, &far[..2]).1, 0);
        let twice: Vec<f64> = far.iter().chain(&far).copied().collect();
        assert_eq!(alike_with(Some(58.0), 2, &twice), (2, 2 * (LOOKS - 1), [250.0, 250.0]));
    }
}
