//! Programs and libraries for the processor: the C library that they need.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output;

/// Returns true if a file is a program or a library.
pub(super) fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF"
}

/// A version of the GNU C library.
pub(super) type Glibc = (u32, u32);

/// Returns the oldest GNU C library that some files can be loaded with.
///
/// # Errors
/// If a file cannot be read, or if none needs a version.
pub(super) fn oldest_glibc(files: &[PathBuf]) -> Result<Glibc, String> {
    let mut newest = None;
    for file in files {
        let text = output(Command::new("objdump").arg("-T").arg(file))?;
        newest = newest.max(newest_version(&text));
    }
    newest.ok_or_else(|| "no file names a version of the GNU C library: built for another one?".to_owned())
}

/// Returns the newest version that a table of symbols names.
fn newest_version(table: &str) -> Option<Glibc> {
    let numbers = table.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest[..end].split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    numbers.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let table = "\
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.9) a
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) b
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) c
0000000000000000      DF *UND*  0000000000000000 (GLIBC_PRIVATE) d
";
        assert_eq!(newest_version(table), Some((2, 34)));
        assert_eq!(newest_version("0000000000000000      DF *UND*  0000000000000000  d"), None);
    }

    #[test]
    fn this_program_needs_a_version() {
        let own = std::env::current_exe().expect("a program");
        assert!(is_elf(&own));
        assert!(oldest_glibc(&[own]).expect("a version") >= (2, 2));
    }
}
