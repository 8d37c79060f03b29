//! Jobs that are a few commands.

use std::path::Path;
use std::process::Command;

use crate::check;
use crate::command::{cargo, root, run};
use crate::options::Options;
use crate::tool::Tool;

/// The tool that makes the book.
pub(crate) const BOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    less: &["--no-default-features"],
    wheel: None,
    without: "the book of docs",
};

/// Returns true if a cargo subcommand is there: toolchains may lack rustfmt and clippy.
fn has_component(name: &str) -> bool {
    cargo().args([name, "--version"]).output().is_ok_and(|o| o.status.success())
}

/// Checks format, lints, and what neither of them looks at.
pub(crate) fn lint(options: Options, skipped: &mut Vec<String>) -> Result<(), String> {
    if has_component("fmt") {
        run(cargo().args(["fmt", "--all", "--check"]))?;
    } else {
        skipped.push("formatting (rustup component add rustfmt)".into());
    }
    if has_component("clippy") {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    } else {
        skipped.push("lints (rustup component add clippy)".into());
    }
    if options.no_skip && !skipped.is_empty() {
        return Err(format!("could not check {}", skipped.join("; ")));
    }
    check::check(&check::Asked::default())
}

/// Builds the documentation, without warnings.
pub(crate) fn doc() -> Result<(), String> {
    run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Makes a book of the pages in `docs`, in `target/book`.
pub(crate) fn book(mdbook: &Path) -> Result<(), String> {
    run(Command::new(mdbook).arg("build").current_dir(root()))
}
