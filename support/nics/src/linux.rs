//! The kernel that this process runs on.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use netmod_matching::{Address, Location};

use crate::kernel::Kernel;
use crate::links::Link;
use crate::plain::{self, Plain, PlainAddress};
use crate::sys::{Control, Socket};

/// Linux, in the network namespace of the calling thread.
#[derive(Debug)]
pub struct Linux {
    begun: Instant,
}

impl Linux {
    /// Creates the handle; no system call is made yet.
    #[expect(clippy::new_without_default, reason = "there is no value that a default would mean")]
    pub fn new() -> Linux {
        Linux { begun: Instant::now() }
    }
}

impl Kernel for Linux {
    type Channel = Socket;

    fn netlink(&self) -> io::Result<Socket> {
        Socket::asking()
    }

    fn speed(&self, name: &str) -> io::Result<Option<u32>> {
        Control::new()?.speed(name)
    }

    fn location(&self, notes: &mut Vec<String>) -> Location {
        let boot = boot_id().unwrap_or_else(|e| {
            notes.push(format!(
                "/proc/sys/kernel/random/boot_id: {e}; processes of this host are not recognised"
            ));
            [0; 16]
        });
        let netns = fs::metadata("/proc/thread-self/ns/net").or_else(|_| fs::metadata("/proc/self/ns/net"));
        let netns = netns.map(|m| m.ino()).unwrap_or_else(|e| {
            notes.push(format!("/proc/self/ns/net: {e}; processes of this namespace are not recognised"));
            0
        });
        Location { boot, netns }
    }

    fn plain(&self) -> io::Result<Plain> {
        plain(&Control::new()?)
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

fn boot_id() -> io::Result<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    number.map(u128::to_be_bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a UUID"))
}

fn plain(control: &Control) -> io::Result<Plain> {
    let mut found = Plain::default();
    let v4 = control.addresses()?;
    // Files of /proc may be hidden; then only IPv4 addresses name their interfaces.
    let v6 = plain::if_inet6(&fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default());
    let listed = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let mut names = plain::names(&listed);
    // A further address may have a label, "eth0:1".
    let base = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    names.extend(v4.iter().map(|a| base(&a.name)));
    names.extend(v6.iter().map(|(_, name)| name.clone()));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    for name in names {
        // An interface that has gone meanwhile is skipped.
        let (Ok(index), Ok(flags)) = (control.index(&name), control.flags(&name)) else { continue };
        let mut flags = u32::from(flags);
        if flags & libc::IFF_RUNNING as u32 != 0 {
            flags |= libc::IFF_LOWER_UP as u32;
        }
        let mtu = control.mtu(&name).unwrap_or(0);
        for a in v4.iter().filter(|a| base(&a.name) == name) {
            let prefix = plain::prefix(a.mask).unwrap_or(32);
            let address = Address { ip: a.ip.into(), prefix };
            found.addresses.push(PlainAddress { index, address, duplicate: false });
        }
        let mut link = Link { index, name, flags, mtu, ..Link::default() };
        plain::add_sysfs(Path::new("/sys/class/net"), &mut link);
        found.links.push(link);
    }
    found.addresses.extend(v6.into_iter().map(|(address, _)| address));
    Ok(found)
}
