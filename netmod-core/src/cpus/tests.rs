//! The share of a process: from files of a simulated machine, in cards, and shared with others.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder that stands for `/`, removed when dropped.
struct Root(PathBuf);

impl Root {
    fn new() -> Root {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("netmod-cpus-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let root = Root(std::env::temp_dir().join(name));
        fs::create_dir_all(&root.0).unwrap();
        root
    }

    /// Returns a machine of eight processors of which the process may use some.
    fn allowing(list: &str) -> Root {
        let root = Root::new();
        root.file(
            STATUS,
            &format!("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n"),
        );
        root.file(ONLINE, "0-7\n");
        root
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn share(&self) -> CpuShare {
        CpuShare::below(&self.0).unwrap()
    }

    fn cgroup(&self, path: &str) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(self.0.join(path)).unwrap().ino()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse(list).unwrap()
}

fn confined(list: &str, quotas: &[(u64, u32)]) -> CpuShare {
    let quotas = quotas.iter().map(|&(cgroup, millicores)| CpuQuota { cgroup, millicores }).collect();
    CpuShare { cpus: set(list), quotas, whole: false }
}

#[test]
fn sets_are_parsed_and_compared() {
    assert_eq!(set("0-3,8,10-11").len(), 7);
    assert_eq!(set("0-7"), CpuSet::first(8));
    assert!(set("64").overlaps(&set("0,64-65")) && !set("64").overlaps(&set("0-63,65")));
    assert!(!set("0").overlaps(&CpuSet::default()));
    assert_eq!(set("0-9,200").intersection(&set("3-100")), set("3-9"));
    assert!(set("5").intersection(&set("6")).is_empty());
    for bad in ["", "3-1", "a", "0-", "8192", "0-4294967295", ",", "-1"] {
        assert_eq!(CpuSet::parse(bad), None, "{bad}");
    }
}

#[test]
fn this_process_has_a_share() {
    let share = CpuShare::of_this_process().unwrap();
    assert!(!share.cpus.is_empty());
    let allowed = std::thread::available_parallelism().unwrap().get();
    assert!(share.cpus.len() >= allowed, "{share:?}, and {allowed} may be used");
}

/// The affinity names processors that the machine does not have.
#[test]
fn only_processors_that_are_online_count() {
    let root = Root::allowing("0-127");
    assert_eq!(root.share(), CpuShare { cpus: set("0-7"), quotas: vec![], whole: true });
    assert_eq!(Root::allowing("2-3").share(), confined("2-3", &[]));
}

#[test]
fn what_is_not_there_is_an_error() {
    let root = Root::new();
    assert!(matches!(CpuShare::below(&root.0), Err(CpusError::Read { .. })));
    root.file(STATUS, "Name:\tx\n");
    assert!(matches!(CpuShare::below(&root.0), Err(CpusError::Content { .. })));
    root.file(STATUS, "Cpus_allowed_list:\t3-1\n");
    let e = CpuShare::below(&root.0).unwrap_err().to_string();
    assert!(e.contains("Cpus_allowed_list") && e.contains(STATUS), "{e}");
}

/// The quota of every cgroup up the tree counts, but not that of a sibling.
#[test]
fn quotas_of_version_2() {
    let root = Root::allowing("0-7");
    root.file("proc/self/cgroup", "0::/job/step/task\n");
    root.file("proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    root.file("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    root.file("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    root.file("sys/fs/cgroup/job/step/task/cpu.max", "50000 100000\n");
    root.file("sys/fs/cgroup/job/other/cpu.max", "10000 100000\n");
    let [job, task] = ["sys/fs/cgroup/job", "sys/fs/cgroup/job/step/task"].map(|d| root.cgroup(d));
    assert_eq!(root.share(), confined("0-7", &[(task, 500), (job, 2000)]));
}

#[test]
fn quotas_of_version_1() {
    let root = Root::allowing("0-7");
    root.file("proc/self/cgroup", "3:cpuset:/a\n2:cpu,cpuacct:/job\n0::/elsewhere\n");
    root.file(
        "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
         34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    root.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    root.file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    root.file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
    root.file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    root.file("sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1\n");
    assert_eq!(root.share(), confined("0-7", &[(root.cgroup("sys/fs/cgroup/cpu/job"), 1500)]));
}

/// A container sees its own cgroup as the mount's top, or, with a cgroup namespace, as the root.
#[test]
fn quotas_within_a_container() {
    for (own, top) in [("/docker/a/inner", "/docker/a"), ("/inner", "/")] {
        let root = Root::allowing("0-7");
        root.file("proc/self/cgroup", &format!("0::{own}\n"));
        root.file("proc/self/mountinfo", &format!("41 31 0:38 {top} /cg\\040roup ro - cgroup2 cgroup2 rw\n"));
        root.file("cg roup/cpu.max", "100000 100000\n");
        root.file("cg roup/inner/cpu.max", "max 100000\n");
        assert_eq!(root.share(), confined("0-7", &[(root.cgroup("cg roup"), 1000)]), "{own} {top}");
    }
}

/// Malformed quotas are ignored, and so are cgroups outside of the mount.
#[test]
fn nonsense_is_no_quota() {
    for (own, max) in [
        ("0::/a", "many 100000"),
        ("0::/a", "100000"),
        ("0::/a", "1000 0"),
        ("0::/a", ""),
        ("0::/../a", "1000 100000"),
        ("0::/other", "1000 100000"),
        ("", "1000 100000"),
    ] {
        let root = Root::allowing("0-7");
        root.file("proc/self/cgroup", own);
        root.file("proc/self/mountinfo", "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n");
        root.file("cg/a/cpu.max", max);
        assert_eq!(root.share().quotas, [], "{own} {max}");
    }
}

#[test]
fn more_levels_than_are_published() {
    let root = Root::allowing("0-7");
    let path = "/d".repeat(MAX_QUOTAS + 2);
    root.file("proc/self/cgroup", &format!("0::{path}"));
    root.file("proc/self/mountinfo", "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n");
    for dir in Path::new(&path).ancestors() {
        root.file(&format!("cg{}/cpu.max", dir.display()), "100000 100000");
    }
    let share = root.share();
    assert_eq!(share.quotas.len(), MAX_QUOTAS);
    assert_eq!(share.quotas[0].cgroup, root.cgroup(&format!("cg{path}")));
}

/// Ranks confined together share; ranks bound to processors of their own do not.
#[test]
fn overlapping_sets_are_shared() {
    let crowded = |own: &CpuShare, others: &[Option<CpuShare>]| own.pollers(others, 1).are_crowded(0);
    let on = |list| confined(list, &[]);
    for (own, others, expected) in [
        ("0", vec![], false),
        ("0", vec!["0"], true),
        ("0", vec!["1"], false),
        ("0", vec!["1", "2", "3"], false),
        ("0-1", vec!["0-1"], false),
        ("0-1", vec!["0-1", "0-1"], true),
        ("0-1", vec!["2-3", "2-3", "2-3"], false),
        ("0-1", vec!["1-2", "2-3"], false),
        ("70", vec!["6", "64-71"], true),
    ] {
        let others: Vec<_> = others.into_iter().map(|o| Some(on(o))).collect();
        assert_eq!(crowded(&on(own), &others), expected, "{own} {others:?}");
    }
    // A process without information may use this one's processors.
    assert!(crowded(&on("0"), &[None]) && !crowded(&on("0-1"), &[None]));
}

/// Only processes of the same cgroup share its quota, at each level.
#[test]
fn a_quota_is_shared_by_its_cgroup() {
    let crowded = |own: &CpuShare, others: &[&CpuShare]| {
        let others: Vec<_> = others.iter().map(|o| Some((*o).clone())).collect();
        own.pollers(&others, 1).are_crowded(0)
    };
    let job = |task, millis| confined("0-7", &[(task, 1000), (1, millis)]);
    assert!(!crowded(&job(10, 3000), &[&job(11, 3000), &job(12, 3000)]));
    assert!(crowded(&job(10, 2999), &[&job(11, 2999), &job(12, 2999)]));
    assert!(crowded(&job(10, 3000), &[&job(10, 3000)]));
    // A quota below one processor is too little for any polling process.
    assert!(crowded(&confined("0-7", &[(1, 500)]), &[]));
    assert!(!crowded(&confined("0-7", &[(1, 1000)]), &[&confined("0-7", &[(2, 1000)])]));
    // Engines count like processes, with their library's threads.
    assert!(confined("0-1", &[]).pollers(&[], 3).are_crowded(0));
    assert!(confined("0", &[]).pollers(&[], 1).are_crowded(1));
}

#[test]
fn the_section_is_read_as_written() {
    for share in [
        confined("0", &[]),
        confined("0-3,8191", &[(u64::MAX, 1), (7, u32::MAX)]),
        confined("128-191", &[(1, 1); MAX_QUOTAS]),
        CpuShare { cpus: CpuSet::default(), quotas: vec![], whole: false },
    ] {
        let mut card = CardWriter::new();
        share.emit(&mut card).unwrap();
        let card = Card::parse(&card.finish()).unwrap();
        assert_eq!(CpuShare::of(&card).unwrap(), Some(share.clone()));
        let body = card.section(CPUS_SECTION).unwrap().body;
        for cut in 0..body.len() {
            let section = Section { name: CPUS_SECTION, version: VERSION, body: &body[..cut] };
            assert!(CpuShare::parse(section).is_err(), "{share:?} cut to {cut}");
        }
        let longer = [body, &[0]].concat();
        let section = |version| Section { name: CPUS_SECTION, version, body: &longer };
        assert!(matches!(CpuShare::parse(section(VERSION)), Err(CardError::Trailing { left: 1, .. })));
        assert_eq!(CpuShare::parse(section(VERSION + 1)).unwrap(), share);
    }
    let empty = Card::parse(&CardWriter::new().finish()).unwrap();
    assert_eq!(CpuShare::of(&empty).unwrap(), None);
    let many = confined("0", &[(1, 1); MAX_QUOTAS + 1]);
    assert!(matches!(many.emit(&mut CardWriter::new()), Err(CardError::Malformed { .. })));
}

#[test]
fn bodies_out_of_bounds_are_refused() {
    for body in [&[128, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0, 255], &[0, 0, 9]] {
        let section = Section { name: CPUS_SECTION, version: VERSION, body };
        assert!(matches!(CpuShare::parse(section), Err(CardError::Malformed { .. })), "{body:?}");
    }
}

proptest::proptest! {
    /// Any section body is read within bounds, or refused with an error.
    #[test]
    fn any_body(version in 0u16..4, body: Vec<u8>) {
        if let Ok(share) = CpuShare::parse(Section { name: CPUS_SECTION, version, body: &body }) {
            proptest::prop_assert!(share.cpus.len() <= MAX_CPUS && share.quotas.len() <= MAX_QUOTAS);
            let mut card = CardWriter::new();
            share.emit(&mut card).unwrap();
            let again = CpuShare::of(&Card::parse(&card.finish()).unwrap()).unwrap();
            proptest::prop_assert_eq!(again, Some(share));
        }
    }
}
