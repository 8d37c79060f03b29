//! Runs a target with mutated inputs until a time or a number of inputs is reached.

mod minimise;
mod mutate;
mod watch;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use netmod_harness::Rng;

use crate::{Outcome, Target};
use mutate::mutate;
use watch::Watch;

/// Most inputs of a corpus. Later ones take the places of random ones that are no seeds.
const MAX_CORPUS: usize = 4096;
/// Inputs between two looks at the clock.
const ROUND: u64 = 256;

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time after which the run ends.
    pub time: Duration,
    /// Number of inputs after which the run ends.
    pub inputs: u64,
}

/// The result of a run without failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of inputs.
    pub inputs: u64,
    /// Number of accepted inputs.
    pub accepted: u64,
    /// Number of different outcomes.
    pub outcomes: usize,
}

/// An input that makes a target panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The smallest such input that was found.
    pub input: Vec<u8>,
    /// Text of the panic.
    pub text: String,
}

/// Runs a target with inputs that follow from a seed.
///
/// # Errors
/// The first input that makes the target panic, minimised.
pub fn run(target: &Target, seed: u64, limits: Limits) -> Result<Summary, Finding> {
    let seeds = (target.seeds)();
    let mut corpus = seeds.clone();
    let mut rng = Rng::new(seed);
    let mut seen = HashSet::new();
    let mut summary = Summary { inputs: 0, accepted: 0, outcomes: 0 };
    let watch = Watch::start(target.name, seed);
    let start = Instant::now();
    // The seeds first, as they are.
    let mut next = seeds.into_iter();
    while summary.inputs < limits.inputs {
        if summary.inputs.is_multiple_of(ROUND) && start.elapsed() >= limits.time {
            break;
        }
        let input = next.next().unwrap_or_else(|| mutate(&mut rng, &corpus));
        summary.inputs += 1;
        watch.input(summary.inputs);
        let outcome = match once(target, &input) {
            Ok(outcome) => outcome,
            Err(text) => {
                drop(watch);
                return Err(minimise::minimise(target, Finding { input, text }));
            }
        };
        summary.accepted += u64::from(outcome.is_accepted());
        if seen.insert(outcome) {
            keep(&mut corpus, input, &mut rng);
        }
    }
    summary.outcomes = seen.len();
    Ok(summary)
}

fn keep(corpus: &mut Vec<Vec<u8>>, input: Vec<u8>, rng: &mut Rng) {
    if corpus.len() < MAX_CORPUS {
        corpus.push(input);
    } else {
        let at = MAX_CORPUS / 2 + rng.index(MAX_CORPUS / 2);
        corpus[at] = input;
    }
}

/// Feeds one input to a target.
///
/// # Errors
/// The text of its panic.
pub fn once(target: &Target, input: &[u8]) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without text").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser that looks at the fourth byte only if the first is right.
    fn run_faulty(input: &[u8]) -> Outcome {
        let result = match input {
            [b'N', _, _, 0xff, ..] => panic!("the fourth byte is {}", 0xff),
            [b'N', _, _, b, ..] => Ok(*b),
            _ => Err("too short, or of another kind"),
        };
        Outcome::of(&result)
    }

    const FAULTY: Target = Target {
        name: "faulty",
        seeds: || vec![b"N123 and more that matters not".to_vec()],
        run: run_faulty,
    };

    const LIMITS: Limits = Limits { time: Duration::from_secs(600), inputs: 200_000 };

    #[test]
    fn a_fault_is_found_and_its_input_is_small() {
        let found = run(&FAULTY, 1, LIMITS).expect_err("a fault");
        assert_eq!(found.text, "the fourth byte is 255");
        assert_eq!(found.input.len(), 4, "{found:?}");
        assert_eq!((found.input[0], found.input[3]), (b'N', 0xff));
    }

    #[test]
    fn a_seed_gives_the_same_run_again() {
        assert_eq!(run(&FAULTY, 7, LIMITS), run(&FAULTY, 7, LIMITS));
        let few = Limits { inputs: 100, ..LIMITS };
        let sound = Target { run: |i| Outcome::of(&Ok::<_, ()>(i.first().copied())), ..FAULTY };
        let summary = run(&sound, 3, few).expect("no fault");
        assert_eq!((summary.inputs, summary.accepted), (100, 100));
        assert_eq!(run(&sound, 3, few), Ok(summary));
    }

    #[test]
    fn time_ends_a_run() {
        let now = Limits { time: Duration::ZERO, inputs: u64::MAX };
        assert_eq!(run(&FAULTY, 1, now).expect("no input").inputs, 0);
    }
}
