//! External ping-pong programs beside the latency over libfabric and verbs: libfabric's
//! `fi_pingpong` and rdma-core's `ibv_rc_pingpong`.
//!
//! They run right after the test rather than alternating with the device, since they need the cores
//! for themselves.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys;

/// Program for libfabric.
pub(crate) const FI: &str = "fi_pingpong";
/// Program for verbs.
pub(crate) const IBV: &str = "ibv_rc_pingpong";
/// Time limit; providers with a thread of their own are slow on few cores.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time limit for the server to start listening.
const LISTENS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
/// Column of `fi_pingpong`'s table with the latency in microseconds.
const COLUMN: &str = "usec/xfer";
/// Text after the microseconds of a round trip in the output of `ibv_rc_pingpong`.
const ITERATION: &str = "usec/iter";

/// A child process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Measures half a round trip over a provider of libfabric, in microseconds.
///
/// # Errors
/// The cause, as text.
pub(crate) fn over_provider(provider: &str, bytes: usize, iters: usize) -> Result<f64, String> {
    let all = ["-p", provider, "-e", "rdm", "-I", &iters.to_string(), "-S", &bytes.to_string()];
    let text = both(FI, &all, "-B", "-P")?;
    latency(&text).ok_or_else(|| format!("its output has no {COLUMN}: {text:?}"))
}

/// Measures half a round trip over a port of verbs, with the GID at this index, in microseconds.
///
/// # Errors
/// The cause, as text.
pub(crate) fn over_verbs(
    (device, port): (&str, u8),
    gid: u8,
    bytes: usize,
    iters: usize,
) -> Result<f64, String> {
    let [port, gid, bytes, iters] = [port.to_string(), gid.to_string(), bytes.to_string(), iters.to_string()];
    let all = ["-d", device, "-i", &port, "-g", &gid, "-s", &bytes, "-n", &iters];
    let text = both(IBV, &all, "-p", "-p")?;
    round_trip(&text).map(|us| us / 2.0).ok_or_else(|| format!("its output has no {ITERATION}: {text:?}"))
}

/// Runs a program as server and client on the first two cores, and returns the client's output.
/// `listens` and `calls` are the options for the server's port.
fn both(program: &str, all: &[&str], listens: &str, calls: &str) -> Result<String, String> {
    let cores = sys::allowed_cores().unwrap_or_default();
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
    let port = port.map_err(|e| format!("no port is free: {e}"))?.port().to_string();
    let start = |core: usize, last: &[&str]| {
        let mut command = Command::new(program);
        command.args(all).args(last).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
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
        started.map(Running).map_err(|e| format!("it cannot be started: {e}"))
    };
    let begin = Instant::now();
    let mut server = start(0, &[listens, &port])?;
    loop {
        let mut client = start(1, &[calls, &port, "127.0.0.1"])?;
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
                return Ok(text);
            }
            // The server may not listen yet.
            Some(_) if begin.elapsed() < LISTENS && matches!(server.0.try_wait(), Ok(None)) => {
                std::thread::sleep(PAUSE);
            }
            Some(status) => return Err(format!("its client ended with {status}")),
        }
    }
}

/// Returns the last round trip time in the output of `ibv_rc_pingpong`.
fn round_trip(text: &str) -> Option<f64> {
    let line = text.lines().rfind(|line| line.contains(ITERATION))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == ITERATION)?;
    words.get(at.checked_sub(1)?)?.parse().ok().filter(|v: &f64| *v > 0.0)
}

/// Returns the latency in `fi_pingpong`'s table, from the last line.
fn latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    let header = lines.find(|words| words.contains(&COLUMN))?;
    // Counted from the end: the heading `total time` has two words for one column.
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

    #[test]
    fn the_round_trip_is_found_in_the_last_line() {
        let text = "  local address:  LID 0x0000, QPN 0x000011, PSN 0x1b2e1c, GID ::ffff:10.0.0.1\n\
                    16000 bytes in 0.13 seconds = 0.98 Mbit/sec\n1000 iters in 0.13 seconds = 130.56 usec/iter\n";
        assert_eq!(round_trip(text), Some(130.56));
        for bad in ["", "usec/iter", "x usec/iter", "0.00 usec/iter"] {
            assert_eq!(round_trip(bad), None, "{bad}");
        }
    }
}
