//! Completions and manual pages, made from the definition of the command line.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::emit;
use crate::error::{Failure, Result};

/// Name of the program.
const NAME: &str = "netmod-perf";

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    emit(&String::from_utf8_lossy(&text))
}

/// Writes a manual page for the program, and one for each command, into a folder.
pub(crate) fn manual(folder: &Path) -> Result<()> {
    let fault =
        |e: std::io::Error| Failure::new(format!("cannot write manual pages to {}: {e}", folder.display()));
    std::fs::create_dir_all(folder).map_err(fault)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let folder = std::env::temp_dir().join(format!("netmod-perf-manual-{}", std::process::id()));
        manual(&folder).expect("pages");
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let page = folder.join(format!("{NAME}-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
            assert!(text.contains(".SH OPTIONS"), "{text}");
        }
        std::fs::remove_dir_all(folder).expect("the folder was ours");
    }
}
