//! `pair`: determines which interfaces of two hosts talk to each other.

mod bench;
mod file;
mod here;
mod outcome;
mod reference;
mod scenario;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::cli::PairingArgs;
use crate::error::{During, Result};
use scenario::Scenario;

/// Runs the command.
///
/// # Errors
/// What failed.
pub(crate) fn run(args: &PairingArgs) -> Result<()> {
    match &args.scenario {
        Some(path) => run_scenario(path),
        None if args.bench.is_empty() => here::run(args),
        None => crate::print(&bench::measure(args)?, args.json),
    }
}

fn run_scenario(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).during(format!("read {}", path.display()))?;
    let scenario = Scenario::parse(&path.display().to_string(), &text)?;
    crate::emit(&format!("{}\n", scenario.json(&scenario.run()?)))
}
