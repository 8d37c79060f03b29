//! Diagnostics on stderr, for programs that do not know Rust's.

use std::io::{self, Write};
use std::sync::Arc;

use ch3_shim::{Builder, Device};
use netmod_core::config::Origin;
use tracing_subscriber::EnvFilter;

use crate::error::{Class, MpiError, Result};

/// Name of the setting.
const SETTING: &str = "NETMOD_LOG";

/// Stderr, with a text before each event.
struct Prefixed(Arc<str>);

impl Write for Prefixed {
    /// Writes an event at once, so that those of several processes do not mix.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = [self.0.as_bytes(), event].concat();
        io::stderr().write_all(&line).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints diagnostics with the rank, as `NETMOD_LOG` selects them.
///
/// Does nothing if it is not set, or if the program has a log.
///
/// # Errors
/// A selection that is none.
pub(crate) fn begin(builder: &mut Builder) -> Result<()> {
    let rank = builder.name().rank;
    let config = builder.config();
    if config.origin(SETTING) == Some(Origin::Default) || tracing::dispatcher::has_been_set() {
        return Ok(());
    }
    let filter = EnvFilter::try_new(&config.log).map_err(|e| {
        let text =
            format!("{SETTING}={}: {e}; a filter is, for example, info or netmod_tcp=debug", config.log);
        MpiError::new(Class::OTHER, text)
    })?;
    let prefix: Arc<str> = format!("netmod-mpi: rank {rank}: ").into();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || Prefixed(Arc::clone(&prefix)))
        .finish();
    let twice = |e| MpiError::new(Class::OTHER, format!("cannot start logging: {e}"));
    tracing::subscriber::set_global_default(subscriber).map_err(twice)
}

/// Says what this process runs on: the library, its place in the job, netmods and launcher.
pub(crate) fn tell_start(dev: &Device, launcher: &str) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let file = dl::file_at(begin as fn(&mut Builder) -> Result<()> as usize);
    let file = file.map(|file| file.to_string_lossy().into_owned());
    tracing::info!(
        "netmod-mpi {} in {}: rank {} of {}; netmods: {}; launcher: {launcher}",
        env!("CARGO_PKG_VERSION"),
        // Its name is that of the ABI.
        file.as_deref().unwrap_or("a file that /proc does not tell"),
        dev.rank(),
        dev.size(),
        dev.netmods().join(", "),
    );
}
