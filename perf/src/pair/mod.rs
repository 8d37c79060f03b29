//! `pair`: which of the interfaces of two hosts talk to each other.

mod bench;
mod reference;

use crate::cli::PairingArgs;
use crate::error::Result;

/// Does as the command line says.
///
/// # Errors
/// What failed.
pub(crate) fn run(args: &PairingArgs) -> Result<()> {
    crate::print(&bench::measure(args)?, args.json)
}
