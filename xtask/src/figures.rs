//! Figures of netmod-perf: running it, reading what it prints, medians.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output;

/// Results by test and size.
pub(crate) type Figures = BTreeMap<(String, usize), f64>;

/// Returns the folder of what cargo builds: this program is in its folder `debug`.
///
/// # Errors
/// If this program lies elsewhere.
pub(crate) fn build_folder() -> Result<PathBuf, String> {
    let me = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let found = me.ancestors().find(|a| a.ends_with("debug") || a.ends_with("release"));
    found
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("{} is not where cargo builds", me.display()))
}

/// Runs tests of netmod-perf, each with its list of message sizes.
///
/// # Errors
/// If it fails, or prints something else than results.
pub(crate) fn measure(perf: &Path, netmod: &str, tests: &[(&str, &str)]) -> Result<Figures, String> {
    let mut all = Figures::new();
    for (test, bytes) in tests {
        let args = [test, "--netmod", netmod, "--bytes", bytes, "--rounds", "5", "--json"];
        for line in output(Command::new(perf).args(args))?.lines() {
            let (key, value) = our_line(test, "bytes", line).ok_or_else(|| strange("netmod-perf", line))?;
            all.insert(key, value);
        }
    }
    Ok(all)
}

/// Runs netmod-perf's barrier with so many ranks.
///
/// # Errors
/// Those of [`measure`].
pub(crate) fn measure_barrier(perf: &Path, netmod: &str, ranks: &str) -> Result<Figures, String> {
    let args = ["barrier", "--netmod", netmod, "--ranks", ranks, "--json"];
    let text = output(Command::new(perf).args(args))?;
    text.lines()
        .map(|line| our_line("barrier", "ranks", line).ok_or_else(|| strange("netmod-perf", line)))
        .collect()
}

/// An error for a line of output that is not a result.
pub(crate) fn strange(who: &str, line: &str) -> String {
    format!("{who} says {line:?}, which is not a result")
}

/// The fields `size` (a name) and `value` of an object without objects in it.
fn our_line(test: &str, size: &str, line: &str) -> Option<((String, usize), f64)> {
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}']).next()
    };
    Some(((test.to_owned(), field(size)?.parse().ok()?), field("value")?.parse().ok()?))
}

/// Returns the upper median; NaN of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the unit of a test's figures.
pub(crate) fn unit(test: &str) -> &'static str {
    match test {
        "lat" | "barrier" => "us",
        "bw" => "MB/s",
        _ => "msg/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_understood() {
        let line = "{\"test\":\"bw\",\"bytes\":65536,\"value\":123.5,\"unit\":\"MB/s\"}";
        assert_eq!(our_line("bw", "bytes", line), Some((("bw".into(), 65536), 123.5)));
        assert_eq!(our_line("bw", "ranks", line), None);
        assert_eq!(our_line("bw", "bytes", "warning: slow"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
