//! Quotas of processor time of this process's cgroups, versions 1 and 2 (`cgroups(7)`).
//!
//! A process is in one cgroup of each mounted hierarchy, and the quota of every cgroup above
//! applies to it, too. In a container the hierarchy begins at some cgroup, and those above it are
//! invisible.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::{CpuQuota, MAX_QUOTAS};

const OWN: &str = "proc/self/cgroup";
const MOUNTS: &str = "proc/self/mountinfo";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A mounted hierarchy that may limit processor time.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// Path of the cgroup at the mount point, from the root of the hierarchy.
    top: PathBuf,
    point: PathBuf,
}

/// Returns the quotas of this process, the innermost cgroup's first. `root` stands for `/`.
///
/// A kernel without cgroups has none. Undocumented content counts as no quota, with a trace event.
pub(super) fn quotas(root: &Path) -> Vec<CpuQuota> {
    let read = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (own, mounts) = (read(OWN), read(MOUNTS));
    let mounts: Vec<Mount> = mounts.lines().filter_map(parse_mount).collect();
    let mut found = Vec::new();
    for (version, path) in own.lines().filter_map(parse_own) {
        let Some(mount) = mounts.iter().find(|m| m.version == version && path.starts_with(&m.top)) else {
            tracing::debug!(?version, path = %path.display(), "the cgroup is not within a mounted hierarchy");
            continue;
        };
        let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
        let inner = point.join(path.strip_prefix(&mount.top).unwrap_or(Path::new("")));
        let levels = inner.ancestors().take_while(|dir| dir.starts_with(&point));
        found.extend(levels.filter_map(|dir| quota_of(dir, version)));
    }
    if found.len() > MAX_QUOTAS {
        tracing::warn!(
            levels = found.len(),
            "more cgroups with quotas than are published; the outermost are left out"
        );
        found.truncate(MAX_QUOTAS);
    }
    found
}

/// Parses a line of `/proc/self/cgroup` on processor time: `5:cpu,cpuacct:/a/b` or `0::/a/b`.
fn parse_own(line: &str) -> Option<(Version, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let version = match (id, controllers) {
        ("0", "") => Version::V2,
        _ if controllers.split(',').any(|c| c == "cpu") => Version::V1,
        _ => return None,
    };
    // A process outside of its cgroup namespace has a path with `..`: its cgroup is not within any
    // mount.
    let path = PathBuf::from(path);
    let plain =
        path.has_root() && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    plain.then_some((version, path))
}

/// Parses a line of `/proc/self/mountinfo` on processor time (`proc_pid_mountinfo(5)`).
fn parse_mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(3);
    let (top, point) = (unescape(head.next()?)?, unescape(head.next()?)?);
    let mut tail = tail.split(' ');
    let (kind, _device, options) = (tail.next()?, tail.next()?, tail.next()?);
    let version = match kind {
        "cgroup2" => Version::V2,
        "cgroup" if options.split(',').any(|o| o == "cpu") => Version::V1,
        _ => return None,
    };
    Some(Mount { version, top: top.into(), point: point.into() })
}

/// Decodes the escapes of mountinfo: a backslash and three octal digits.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\' {
            let (digits, after) = after.split_at_checked(3)?;
            let digits = std::str::from_utf8(digits).ok()?;
            out.push(u8::from_str_radix(digits, 8).ok()?);
            rest = after;
        } else {
            out.push(byte);
            rest = after;
        }
    }
    String::from_utf8(out).ok()
}

/// Returns the quota of a cgroup; `None` if it has none.
fn quota_of(dir: &Path, version: Version) -> Option<CpuQuota> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let (quota, period) = match version {
        // The outermost cgroup has no such file.
        Version::V2 => {
            let text = read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Version::V1 => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    let (quota, period) = (quota.trim(), period.trim());
    if quota == "max" || quota == "-1" {
        return None;
    }
    let millicores = millicores(quota, period);
    let cgroup = fs::metadata(dir).ok().map(|m| m.ino());
    if millicores.is_none() || cgroup.is_none() {
        tracing::debug!(dir = %dir.display(), quota, period, "a quota of processor time that makes no sense");
    }
    Some(CpuQuota { cgroup: cgroup?, millicores: millicores? })
}

/// Returns the thousandths of a processor, at least 1, from microseconds per period.
fn millicores(quota: &str, period: &str) -> Option<u32> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    let millis = quota.checked_mul(1000)?.checked_div(period)?;
    Some(u32::try_from(millis).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cgroup_are_parsed() {
        let v = |line| parse_own(line).map(|(v, p)| (v, p.display().to_string()));
        assert_eq!(v("0::/user.slice/a:b"), Some((Version::V2, "/user.slice/a:b".into())));
        assert_eq!(v("5:cpu,cpuacct:/x"), Some((Version::V1, "/x".into())));
        assert_eq!(v("4:cpuacct,cpu:/"), Some((Version::V1, "/".into())));
        for other in ["3:cpuset:/x", "3:cpuacct:/x", "9:name=systemd:/", "0::/../../x", "0::", "", "1:cpu"] {
            assert_eq!(v(other), None, "{other}");
        }
    }

    #[test]
    fn lines_of_mountinfo_are_parsed() {
        let two =
            "41 31 0:38 / /sys/fs/cgroup\\040x rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate";
        let mount = parse_mount(two).unwrap();
        assert_eq!((mount.version, mount.point), (Version::V2, "/sys/fs/cgroup x".into()));
        let one = "32 31 0:29 /docker/a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        let mount = parse_mount(one).unwrap();
        assert_eq!((mount.version, mount.top), (Version::V1, "/docker/a".into()));
        for other in [
            "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset",
            "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct",
            "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
            "31 23 0:28 / /sys/fs/cgroup rw,relatime",
            "41 31 0:38 / /a\\04 rw - cgroup2 cgroup2 rw",
            "41 31 0:38 / /a\\999 rw - cgroup2 cgroup2 rw",
            "41 31 - cgroup2 cgroup2 rw",
            "",
        ] {
            assert_eq!(parse_mount(other), None, "{other}");
        }
    }

    #[test]
    fn quotas_are_parts_of_a_period() {
        for (quota, period, expected) in [
            ("150000", "100000", Some(1500)),
            ("1", "1000000", Some(1)),
            ("18446744073709551", "1", Some(u32::MAX)),
            ("18446744073709552", "1", None),
            ("1000", "0", None),
            ("-2", "100000", None),
            ("", "", None),
        ] {
            assert_eq!(millicores(quota, period), expected, "{quota} {period}");
        }
    }
}
