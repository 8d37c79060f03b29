//! Files that are mapped into this process.

use std::path::PathBuf;

/// Returns the file that is mapped at an address, such as the library that has a function.
///
/// `None` if the system does not tell.
pub fn file_at(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    file_with(&maps, address).map(PathBuf::from)
}

/// Returns the file that is mapped at an address, by a list as `/proc/self/maps`.
fn file_with(maps: &str, address: usize) -> Option<&str> {
    let holds = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = range.and_then(|(start, end)| Some(number(start)?..number(end)?));
        range.is_some_and(|range| range.contains(&address))
    };
    let line = maps.lines().find(holds)?;
    // Behind addresses, access, offset, device and inode.
    line.find('/').map(|at| &line[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f00-7f80 r--p 00000000 08:01 22                         /opt/a b/lib/libmpi.so.12
7f80-7f90 r-xp 00080000 08:01 22                         /opt/a b/lib/libmpi.so.12
7fc0-7fd0 rw-p 00000000 00:00 0
";

    #[test]
    fn the_file_of_an_address_is_found() {
        assert_eq!(file_with(MAPS, 0x7f80), Some("/opt/a b/lib/libmpi.so.12"));
        for none in [0, 0x7eff, 0x7f90, 0x7fc0] {
            assert_eq!(file_with(MAPS, none), None, "{none:x}");
        }
        assert_eq!(file_with("nonsense\n-\n\n", 0), None);
        assert_eq!(file_at(the_file_of_an_address_is_found as fn() as usize), std::env::current_exe().ok());
    }
}
