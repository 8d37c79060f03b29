//! Programs that cargo installs: they are built once, into the target folder.

use std::path::PathBuf;

use crate::command::{cargo, root, run};
use crate::options::Options;

/// A program of crates.io.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Arguments that leave out what is not used here.
    pub(crate) less: &'static [&'static str],
    /// The tests that cannot run without it.
    pub(crate) without: &'static str,
}

impl Tool {
    /// Returns the program's path; cargo builds it if it is missing.
    ///
    /// # Errors
    /// If there is none, as what is not tested.
    pub(crate) fn get(&self, options: Options) -> Result<PathBuf, String> {
        let Tool { name, version, less, without } = self;
        let folder = root().join("target/tools").join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if !program.is_file() {
            if options.no_install {
                return Err(format!("{without} (cargo install {name} --version {version})"));
            }
            let mut build = cargo();
            // Without optimizations it is there in a third of the time.
            build.args(["install", name, "--version", version, "--locked", "--debug", "--quiet"]).args(*less);
            // The project's own profile says nothing about it.
            build.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
            run(build.arg("--root").arg(&folder)).map_err(|why| format!("{without} ({why})"))?;
        }
        Ok(program)
    }
}
