//! Room on the disk, checked before a long job starts.

use std::path::Path;
use std::process::Command;

use crate::command::{output, root};

/// KiB of the target folder after all tests.
const NEEDED: u64 = 8 << 20;
/// KiB for what tests and a rebuild write beside what the folder keeps.
const SPARE: u64 = 2 << 20;

/// Checks that the disk has room for a build of everything.
///
/// # Errors
/// If it has not; with how much is needed, and how to free it.
pub(crate) fn check() -> Result<(), String> {
    let target = root().join("target");
    std::fs::create_dir_all(&target).map_err(|e| format!("cannot make {}: {e}", target.display()))?;
    let used = first_number(&output(Command::new("du").arg("-sk").arg(&target))?)?;
    let shown = output(Command::new("df").arg("-Pk").arg(&target))?;
    judge(&target, used, available(&shown)?)
}

/// Compares what is there with what is needed, all in KiB.
fn judge(target: &Path, used: u64, free: u64) -> Result<(), String> {
    let needed = NEEDED.saturating_sub(used).max(SPARE);
    if free >= needed {
        return Ok(());
    }
    let gib = |kib: u64| format!("{:.1} GiB", kib as f64 / f64::from(1 << 20));
    Err(format!(
        "the tests need {} on the disk of {}, and {} are free; `cargo clean` frees the {} of that folder",
        gib(needed),
        target.display(),
        gib(free),
        gib(used)
    ))
}

/// Reads the available KiB in what `df -Pk` prints (POSIX: the fourth column).
fn available(shown: &str) -> Result<u64, String> {
    let column = shown.lines().nth(1).and_then(|line| line.split_whitespace().nth(3));
    first_number(column.unwrap_or_default())
}

fn first_number(shown: &str) -> Result<u64, String> {
    let word = shown.split_whitespace().next().unwrap_or_default();
    word.parse().map_err(|_| format!("du or df prints {shown:?}, which does not begin with a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_says_how_much_is_missing() {
        let judge = |used, free| judge(Path::new("/t"), used, free);
        assert_eq!(judge(0, NEEDED), Ok(()));
        assert_eq!(judge(NEEDED, SPARE), Ok(()));
        let why = judge(1 << 20, 5 << 20).expect_err("too little");
        assert!(why.contains("need 7.0 GiB") && why.contains("5.0 GiB are free"), "{why}");
        assert!(why.contains("`cargo clean` frees the 1.0 GiB"), "{why}");
        assert!(judge(2 * NEEDED, SPARE - 1).is_err());
    }

    #[test]
    fn the_disk_of_the_target_folder_is_found() {
        let shown = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9 3 6 34% /\n";
        assert_eq!(available(shown), Ok(6));
        assert!(available("df: no such folder").is_err());
    }
}
