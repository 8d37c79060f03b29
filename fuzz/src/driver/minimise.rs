//! Makes an input that was found as small as possible.

use super::{Finding, once};
use crate::Target;

/// Most runs of the target.
const MAX_RUNS: usize = 20_000;

/// Removes parts of an input, then clears bytes, as long as the target panics.
pub(super) fn minimise(target: &Target, mut found: Finding) -> Finding {
    let mut runs = 0;
    let mut try_input = |found: &mut Finding, input: Vec<u8>| {
        runs += 1;
        let panics = runs <= MAX_RUNS && once(target, &input).map_err(|text| found.text = text).is_err();
        if panics {
            found.input = input;
        }
        panics
    };
    let mut part = found.input.len();
    while part > 0 {
        let mut at = 0;
        while at < found.input.len() {
            let mut less = found.input.clone();
            less.drain(at..found.input.len().min(at + part));
            if !try_input(&mut found, less) {
                at += part;
            }
        }
        part /= 2;
    }
    for at in 0..found.input.len() {
        if found.input[at] != 0 {
            let mut less = found.input.clone();
            less[at] = 0;
            try_input(&mut found, less);
        }
    }
    found
}
