//! Resources that a process holds, counted twice: growth was left behind.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::sys::allocated;

/// Counts of each kind.
type Kinds = BTreeMap<String, u64>;

/// Resources of a process. Descriptors, threads, mappings and files are kept by name, since numbers
/// alone do not say who has left them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    descriptors: Kinds,
    threads: Kinds,
    /// Files in `/dev/shm` that carry the number of this process in their names.
    shared: Kinds,
    /// Bytes that are mapped, of memory without a file and of each file.
    mapped: Kinds,
    /// Bytes that `malloc` has given out to anybody, libraries included, and that were not freed.
    allocated: u64,
    /// Bytes in memory.
    resident: u64,
}

/// Allowed growth in bytes. Descriptors, threads and files must not grow.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Allowed growth of allocated memory.
    pub allocated: u64,
    /// Allowed growth of mapped memory, and of memory in use.
    pub mapped: u64,
}

/// Resources that were left behind, as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Left(String);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Left {}

/// `socket:[123]` is a socket, whatever its number.
fn kind(of: &str) -> String {
    of.split_once(":[").map_or(of, |(kind, _)| kind).to_owned()
}

fn count(all: impl IntoIterator<Item = String>) -> Kinds {
    let mut kinds = Kinds::new();
    for one in all {
        *kinds.entry(one).or_default() += 1;
    }
    kinds
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

fn text(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Returns true if a file's name contains this number.
fn carries(name: &str, number: u32) -> bool {
    name.split(|c: char| !c.is_ascii_digit()).any(|part| part.parse() == Ok(number))
}

/// Bytes by what is mapped, of the lines of `/proc/self/maps`.
fn mapped(maps: &str) -> Kinds {
    let mut kinds = Kinds::new();
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next().and_then(|r| r.split_once('-'));
        let ends = range.map(|(a, b)| (u64::from_str_radix(a, 16), u64::from_str_radix(b, 16)));
        let Some((Ok(from), Ok(to))) = ends else { panic!("not a mapping: {line}") };
        let what = fields.nth(4).filter(|f| f.starts_with('/')).unwrap_or("memory without a file");
        *kinds.entry(what.to_owned()).or_default() += to - from;
    }
    kinds
}

impl Census {
    /// Counts the resources that this process holds now.
    ///
    /// # Panics
    /// If `/proc` cannot be read.
    pub fn take() -> Census {
        let links = names("/proc/self/fd").into_iter();
        // The descriptor by which the folder is read is closed again at this point.
        let links = links.filter_map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).ok());
        let threads = names("/proc/self/task").into_iter();
        let thread = |t: String| fs::read_to_string(format!("/proc/self/task/{t}/comm")).ok();
        let resident = text("/proc/self/statm");
        let resident = resident.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).expect("pages");
        Census {
            descriptors: count(links.map(|l| kind(&l.to_string_lossy()))),
            threads: count(threads.filter_map(thread).map(|name| name.trim().to_owned())),
            shared: count(names("/dev/shm").into_iter().filter(|n| carries(n, std::process::id()))),
            mapped: mapped(&text("/proc/self/maps")),
            allocated: allocated(),
            resident: resident * 4096,
        }
    }

    /// Returns the growth since `before` beyond what is allowed.
    ///
    /// # Errors
    /// What that is.
    pub fn since(&self, before: &Census, allowed: Allowance) -> Result<(), Left> {
        let mut left = Vec::new();
        let mut compare = |what: &str, now: &Kinds, then: &Kinds, allowed: u64| {
            for (kind, n) in now {
                let more = n.saturating_sub(then.get(kind).copied().unwrap_or(0));
                if more > allowed {
                    left.push(format!("{more} {what} {kind}"));
                }
            }
        };
        compare("descriptors of", &self.descriptors, &before.descriptors, 0);
        compare("threads called", &self.threads, &before.threads, 0);
        compare("files in /dev/shm called", &self.shared, &before.shared, 0);
        compare("bytes mapped of", &self.mapped, &before.mapped, allowed.mapped);
        let more = self.allocated.saturating_sub(before.allocated);
        if more > allowed.allocated {
            left.push(format!("{more} bytes allocated"));
        }
        let more = self.resident.saturating_sub(before.resident);
        if more > allowed.mapped {
            left.push(format!("{more} bytes in memory"));
        }
        if left.is_empty() { Ok(()) } else { Err(Left(left.join(", "))) }
    }

    /// Returns [`Census::since`] of the resources held now; waits a while for threads that are
    /// about to end.
    ///
    /// # Errors
    /// As there.
    pub fn settled_since(before: &Census, allowed: Allowance) -> Result<Census, Left> {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Census::take();
            match now.since(before, allowed) {
                Ok(()) => return Ok(now),
                Err(left) if Instant::now() >= end => return Err(left),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |kinds: &Kinds| kinds.values().sum::<u64>();
        write!(
            f,
            "{} descriptors, {} threads, {} files in /dev/shm, {} KiB mapped, {} KiB allocated, {} KiB in memory",
            sum(&self.descriptors),
            sum(&self.threads),
            sum(&self.shared),
            sum(&self.mapped) / 1024,
            self.allocated / 1024,
            self.resident / 1024
        )
    }
}
