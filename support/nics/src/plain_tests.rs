//! Texts of `/proc` and trees like `/sys/class/net`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::kinds::kinds;

#[test]
fn lines_of_if_inet6() {
    let text = "fe80000000000000000000fffe000001 04 40 20 80     eth0\n\
                fd000000000000000000000000000002 4b0 40 00 88 e1\n\
                short 04 40 20 80 eth0\n\
                fd000000000000000000000000000003 04 81 00 80 eth0\n\
                fd000000000000000000000000000003 00 40 00 80 eth0\n\
                fd000000000000000000000000000003 04 40 00\n\n";
    let found = if_inet6(text);
    let [(first, a), (second, b)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&**a, first.index, first.address.prefix, first.duplicate), ("eth0", 4, 64, false));
    assert_eq!(first.address.ip.to_string(), "fe80::ff:fe00:1");
    assert_eq!((&**b, second.index, second.address.prefix, second.duplicate), ("e1", 1200, 64, true));
}

#[test]
fn names_of_proc_net_dev() {
    let text =
        "Inter-|   Receive      |  Transmit\n face |bytes    packets\n    lo:  10 0\n  eth0: 1 2\nnothing\n";
    assert_eq!(names(text), ["lo", "eth0"]);
    assert_eq!(names(""), [""; 0]);
}

#[test]
fn prefixes_of_netmasks() {
    for bits in 0..=32u8 {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        assert_eq!(prefix(mask), Some(bits));
    }
    assert_eq!(prefix(0xff00_ff00), None);
    assert_eq!(prefix(1), None);
}

/// A folder that is removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let path = std::env::temp_dir().join(format!("netmod-nics-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn add(&self, link: &mut Link) {
        add_sysfs(&self.0, link);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {e}", self.0.display());
        }
    }
}

#[test]
fn kinds_by_sysfs() {
    use netmod_matching::Kind;
    let tree = Tree::new("kinds");
    type Files = [(&'static str, &'static str)];
    let host: [(&str, &Files, Kind); 8] = [
        ("lo", &[("iflink", "2")], Kind::Loopback),
        ("eth0", &[("device/vendor", "1"), ("uevent", "DEVTYPE=wlan\n")], Kind::Port),
        ("br0", &[("bridge/bridge_id", ""), ("uevent", "DEVTYPE=bridge\nINTERFACE=br0\n")], Kind::BridgeOut),
        ("docker0", &[("bridge/bridge_id", "")], Kind::BridgeIn),
        ("veth0", &[("iflink", "77")], Kind::Port),
        ("tun0", &[("tun_flags", "0x1"), ("type", "65534")], Kind::Tunnel),
        ("br0.5", &[("uevent", "INTERFACE=br0.5\nDEVTYPE=vlan\n"), ("iflink", "4")], Kind::Vlan),
        ("bond0", &[("bonding/mode", "")], Kind::Bond),
    ];
    let mut links = Vec::new();
    for (i, (name, files, _)) in host.iter().enumerate() {
        let index = i as u32 + 2;
        tree.file(&format!("{name}/ifindex"), &format!("{index}\n"));
        for (file, text) in *files {
            tree.file(&format!("{name}/{file}"), text);
        }
        let flags = if *name == "lo" { libc::IFF_LOOPBACK as u32 } else { 0 };
        links.push(Link { index, name: (*name).to_owned(), flags, ..Link::default() });
    }
    // Without a type, on no bus; and on a bus that shows no device.
    for (index, name, bus) in [(20, "dummy0", "devices/virtual/net"), (21, "vif0", "devices/vif-0/net")] {
        tree.file(&format!("{bus}/{name}/ifindex"), &index.to_string());
        tree.file(&format!("{bus}/{name}/type"), "1");
        symlink(tree.0.join(bus).join(name), tree.0.join(name)).unwrap();
        let mut link = Link { index, name: name.to_owned(), ..Link::default() };
        tree.add(&mut link);
        let kind = if name == "dummy0" { Kind::Dummy } else { Kind::Physical };
        assert_eq!(kinds(&[link], &mut Vec::new()), [kind], "{name}");
    }
    tree.file("eth0/master/ifindex", "4\n");
    tree.file("veth0/master/ifindex", "5\n");
    for link in &mut links {
        tree.add(link);
    }
    let found = kinds(&links, &mut Vec::new());
    for ((name, _, kind), found) in host.iter().zip(found) {
        assert_eq!(found, *kind, "{name}");
    }
}

#[test]
fn another_namespaces_interface_is_not_taken_for_ours() {
    let tree = Tree::new("namespace");
    tree.file("eth0/ifindex", "2\n");
    tree.file("eth0/bridge/bridge_id", "");
    let mut link = Link { index: 3, name: "eth0".to_owned(), ..Link::default() };
    let before = link.clone();
    tree.add(&mut link);
    assert_eq!(link, before);
    for name in ["..", ".", "eth0/../eth0", "none"] {
        let mut odd = Link { index: 2, name: name.to_owned(), ..Link::default() };
        tree.add(&mut odd);
        assert_eq!(odd.kind, None, "{name}");
    }
    link.index = 2;
    tree.add(&mut link);
    assert_eq!(link.kind.as_deref(), Some("bridge"));
}
