//! Programs of crates.io: they are fetched or built once, into the target folder.

use std::path::PathBuf;

use crate::command::{cargo, root, run};
use crate::options::Options;
use crate::wheel::Wheel;

/// A program of crates.io.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Arguments that leave out what is not used here.
    pub(crate) less: &'static [&'static str],
    /// The same version as somebody has built it, if there is one to trust.
    pub(crate) wheel: Option<Wheel>,
    /// The tests that cannot run without it.
    pub(crate) without: &'static str,
}

impl Tool {
    /// Returns the program's path. If it is missing it is fetched, or cargo builds it.
    ///
    /// # Errors
    /// If there is none, as what is not tested.
    pub(crate) fn get(&self, options: Options) -> Result<PathBuf, String> {
        let Tool { name, version, less, wheel, without } = self;
        let folder = root().join("target/tools").join(format!("{name}-{version}"));
        if let Some(wheel) = wheel {
            match wheel.get(options, &folder) {
                Ok(()) => return Ok(folder.join(name)),
                Err(why) => eprintln!("xtask: {why}"),
            }
        }
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
