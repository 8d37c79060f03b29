//! `fi_pingpong`, libfabric's own ping-pong, beside the latency over one of its providers: what somebody else's program says.
//!
//! It is not measured in turn with the device, since it wants the cores for itself, but right after it.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys;

const PROGRAM: &str = "fi_pingpong";
/// How long it may take; providers with a thread of their own are slow on few cores.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long its server may take to listen.
const LISTENS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
/// Column of its table that has the latency: microseconds.
const COLUMN: &str = "usec/xfer";

/// A process that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is just as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether it is installed.
pub(crate) fn is_installed() -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(PROGRAM).is_file()))
}

/// Half a round trip of so many bytes over a provider, in microseconds, on the first two cores.
///
/// # Errors
/// Why there is no result, in words.
pub(crate) fn half_round_trip(provider: &str, bytes: usize, iters: usize) -> Result<f64, String> {
    let cores = sys::allowed_cores().unwrap_or_default();
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
    let port = port.map_err(|e| format!("no port is free: {e}"))?.port().to_string();
    let start = |core: usize, last: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["-p", provider, "-e", "rdm", "-I", &iters.to_string(), "-S", &bytes.to_string()]);
        command.args(last).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A process inherits the cores of the thread that starts it.
        let started = std::thread::scope(|s| {
            let pinned = || {
                if let Some(core) = cores.get(core).filter(|_| cores.len() > 1) {
                    let _ = sys::pin(*core);
                }
                command.spawn()
            };
            s.spawn(pinned).join()
        });
        let started = started.map_err(|_| "the thread that starts it has panicked".to_owned())?;
        started.map(Running).map_err(|e| format!("it does not start: {e}"))
    };
    let begin = Instant::now();
    let mut server = start(0, &["-B", &port])?;
    let text = loop {
        let mut client = start(1, &["-P", &port, "127.0.0.1"])?;
        let ended = loop {
            if let Some(status) = client.0.try_wait().map_err(|e| e.to_string())? {
                break Some(status);
            }
            if begin.elapsed() > PATIENCE {
                break None;
            }
            std::thread::sleep(PAUSE);
        };
        match ended {
            None => return Err(format!("no result within {} s", PATIENCE.as_secs())),
            Some(status) if status.success() => {
                let mut text = String::new();
                let out = client.0.stdout.as_mut().ok_or("it has no output")?;
                out.read_to_string(&mut text).map_err(|e| e.to_string())?;
                break text;
            }
            // The server may not listen yet.
            Some(_) if begin.elapsed() < LISTENS && matches!(server.0.try_wait(), Ok(None)) => {
                std::thread::sleep(PAUSE);
            }
            Some(status) => return Err(format!("its client ended with {status}")),
        }
    };
    latency(&text).ok_or_else(|| format!("its output has no {COLUMN}: {text:?}"))
}

/// The latency in its table: the last line, under the heading.
fn latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    let header = lines.find(|words| words.contains(&COLUMN))?;
    // `total time` would be two words, but each heading is one column.
    let from_the_end = header.iter().rev().position(|w| *w == COLUMN)?;
    let values = lines.rfind(|words| words.len() > from_the_end)?;
    values.get(values.len() - 1 - from_the_end)?.parse().ok().filter(|v: &f64| *v > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_found_in_the_table() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    8       1k      =1k      15k         4.98s      0.00    2489.08       0.00\n";
        assert_eq!(latency(text), Some(2489.08));
        assert_eq!(latency("usec/xfer Mxfers/sec\n3.9 0.1\n4.1 0.1\n\n"), Some(4.1));
        for bad in ["", "usec/xfer\n", "usec/xfer\nx\n", "usec/xfer\n0\n", "8 1k 3.0\n"] {
            assert_eq!(latency(bad), None, "{bad}");
        }
    }
}
