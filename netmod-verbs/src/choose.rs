//! Which ports of which devices are used, and which GID of each, with reasons.

use std::net::IpAddr;

use hca::{GidEntry, GidKind, Hca, LinkLayer, PortAttr, PortState};
use netmod_core::config::VerbsConfig;
use netmod_matching::glob;

use crate::pair::ip_of;

/// A port, and whether it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The device.
    pub device: String,
    /// The port, from 1 on.
    pub port: u8,
    /// What it says of itself, if it says anything.
    pub attr: Option<PortAttr>,
    /// Its GID, and why that one; or why the port is not used.
    pub gid: Result<(GidEntry, &'static str), String>,
}

impl Judged {
    /// Device and port, as in settings.
    pub fn name(&self) -> String {
        format!("{}:{}", self.device, self.port)
    }
}

/// The user's choice of devices: `mlx5_*,!mlx5_3:2`.
#[derive(Clone, Debug, Default)]
struct Wanted {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Wanted {
    fn parse(text: &str) -> Wanted {
        let mut this = Wanted::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match part.strip_prefix('!') {
                Some(name) => this.exclude.push(name.trim().to_owned()),
                None => this.include.push(part.to_owned()),
            }
        }
        this
    }

    /// The place of the pattern by which a port is included; why it is not.
    fn place(&self, device: &str, port: u8) -> Result<usize, String> {
        let with_port = format!("{device}:{port}");
        let by = |pattern: &str| {
            glob(pattern.as_bytes(), device.as_bytes()) || glob(pattern.as_bytes(), with_port.as_bytes())
        };
        if let Some(pattern) = self.exclude.iter().find(|p| by(p)) {
            return Err(format!("shut out by !{pattern} in NETMOD_VERBS_DEVICE"));
        }
        match self.include.iter().position(|p| by(p)) {
            Some(at) => Ok(at),
            None if self.include.is_empty() => Ok(0),
            None => Err("not among those of NETMOD_VERBS_DEVICE".into()),
        }
    }
}

/// Looks at all ports of a device.
pub(crate) fn judge<H: Hca>(hca: &H, cfg: &VerbsConfig) -> Vec<Judged> {
    let wanted = Wanted::parse(&cfg.device);
    (1..=hca.device().ports)
        .map(|port| {
            let attr = hca.port(port);
            let gid = wanted
                .place(hca.name(), port)
                .and_then(|_| attr.clone().map_err(|e| e.to_string()))
                .and_then(|attr| usable(&attr).map(|()| attr))
                .and_then(|attr| Ok((attr, hca.gids(port).map_err(|e| e.to_string())?)))
                .and_then(|(attr, gids)| gid(&attr, &gids, &cfg.gid));
            Judged { device: hca.name().to_owned(), port, attr: attr.ok(), gid }
        })
        .collect()
}

/// Positions of the ports that can be used, the best first: in the order in which the user has named them, else by speed.
fn by_preference(all: &[Judged], cfg: &VerbsConfig) -> Vec<usize> {
    let wanted = Wanted::parse(&cfg.device);
    let mut good: Vec<usize> = (0..all.len()).filter(|i| all[*i].gid.is_ok()).collect();
    good.sort_by_cached_key(|i| {
        let j = &all[*i];
        let place = wanted.place(&j.device, j.port).unwrap_or(usize::MAX);
        let speed = j.attr.map_or(0, |a| a.speed);
        (place, core::cmp::Reverse(speed), j.name())
    });
    good
}

/// Of the ports that can be used, leaves as many as `NETMOD_VERBS_PORTS` allows; the others say that.
pub(crate) fn settle(all: &mut [Judged], cfg: &VerbsConfig) {
    let most = cfg.ports;
    for i in by_preference(all, cfg).into_iter().skip(most) {
        all[i].gid = Err(format!("NETMOD_VERBS_PORTS={most} are used already"));
    }
}

/// The ports that are used, the best first.
pub fn chosen(all: &[Judged], cfg: &VerbsConfig) -> Vec<Judged> {
    by_preference(all, cfg).into_iter().map(|i| all[i].clone()).collect()
}

fn usable(attr: &PortAttr) -> Result<(), String> {
    match attr.state {
        PortState::Active | PortState::ActiveDefer => Ok(()),
        state => Err(format!("the port is not active ({state:?}); is there a cable, and a subnet manager?")),
    }
}

/// The GID that packets come from.
fn gid(attr: &PortAttr, gids: &[GidEntry], asked: &str) -> Result<(GidEntry, &'static str), String> {
    if let Ok(index) = asked.parse::<u8>() {
        let found = gids.iter().find(|g| g.index == index);
        return found.map(|g| (*g, "NETMOD_VERBS_GID")).ok_or_else(|| {
            format!("its table has no GID at place {index} (NETMOD_VERBS_GID); {}", table(gids))
        });
    }
    let version = match asked {
        "" => None,
        "v1" => Some(GidKind::RoceV1),
        "v2" => Some(GidKind::RoceV2),
        other => {
            return Err(format!("NETMOD_VERBS_GID={other} is no place in a table, and neither v1 nor v2"));
        }
    };
    let ethernet = attr.link_layer == LinkLayer::Ethernet;
    let fits = |g: &&GidEntry| {
        if ethernet { version.is_none_or(|v| v == g.kind) } else { g.kind == GidKind::Ib }
    };
    // Of several that are equally good the first one.
    let best = gids.iter().filter(fits).min_by_key(|g| (core::cmp::Reverse(rank(g).0), g.index));
    best.map(|g| (*g, rank(g).1)).ok_or_else(|| {
        let none = if ethernet { "no GID of RoCE; has the interface an address?" } else { "no GID" };
        match version {
            Some(_) if ethernet => {
                format!("no GID of the version that NETMOD_VERBS_GID={asked} asks for; {}", table(gids))
            }
            _ => none.into(),
        }
    })
}

/// What there is.
fn table(gids: &[GidEntry]) -> String {
    let kind = |g: &GidEntry| match g.kind {
        GidKind::Ib => "",
        GidKind::RoceV1 => ", v1",
        GidKind::RoceV2 => ", v2",
    };
    match gids {
        [] => "it is empty; has the interface an address?".into(),
        _ => {
            let all: Vec<String> =
                gids.iter().map(|g| format!("{} ({}{})", g.index, g.gid, kind(g))).collect();
            format!("there are {}", all.join(", "))
        }
    }
}

fn rank(g: &GidEntry) -> (u8, &'static str) {
    let local = match ip_of(g.gid) {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    match (g.kind, ip_of(g.gid).is_ipv4(), local) {
        (GidKind::Ib, ..) => (6, "its port's GID"),
        (GidKind::RoceV2, true, false) => (5, "RoCE v2 over IPv4"),
        (GidKind::RoceV2, false, false) => (4, "RoCE v2 over IPv6"),
        (GidKind::RoceV2, _, true) => (3, "RoCE v2, within its link"),
        (GidKind::RoceV1, _, false) => (2, "RoCE v1, within its link"),
        (GidKind::RoceV1, _, true) => (1, "RoCE v1 with a link-local address, within its link"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca::{Gid, Mtu};

    fn attr(link_layer: LinkLayer) -> PortAttr {
        PortAttr {
            state: PortState::Active,
            max_mtu: Mtu::B4096,
            active_mtu: Mtu::B4096,
            lid: 1,
            link_layer,
            gid_table_len: 8,
            pkey_table_len: 1,
            max_msg_size: 1 << 30,
            speed: 100_000,
        }
    }

    fn entry(index: u8, kind: GidKind, ip: &str) -> GidEntry {
        let gid = match ip.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        GidEntry { gid: Gid(gid), index, kind, ifindex: 2 }
    }

    fn table() -> Vec<GidEntry> {
        vec![
            entry(0, GidKind::RoceV1, "fe80::1"),
            entry(1, GidKind::RoceV2, "fe80::1"),
            entry(2, GidKind::RoceV1, "10.0.0.1"),
            entry(3, GidKind::RoceV2, "10.0.0.1"),
            entry(4, GidKind::RoceV2, "10.0.1.1"),
            entry(5, GidKind::RoceV2, "2001:db8::1"),
        ]
    }

    #[test]
    fn the_gid_that_reaches_farthest_is_taken() {
        let eth = attr(LinkLayer::Ethernet);
        let mut left = table();
        let mut order = Vec::new();
        while let Ok((g, _)) = gid(&eth, &left, "") {
            order.push(g.index);
            left.retain(|e| e.index != g.index);
        }
        assert_eq!(order, [3, 4, 5, 1, 2, 0]);
    }

    #[test]
    fn the_user_can_ask_for_another_one() {
        let eth = attr(LinkLayer::Ethernet);
        let index = |asked| gid(&eth, &table(), asked).map(|(g, _)| g.index);
        assert_eq!((index("2"), index("v1"), index("v2")), (Ok(2), Ok(2), Ok(3)));
        let none = index("9").unwrap_err();
        assert!(none.contains("place 9") && none.contains("3 (::ffff:10.0.0.1, v2), 4 ("), "{none}");
        assert!(index("v3").unwrap_err().contains("neither v1 nor v2"));
        let v1 = &table()[..1];
        assert!(gid(&eth, v1, "v2").unwrap_err().contains("NETMOD_VERBS_GID=v2"));
        assert!(gid(&eth, &[], "").unwrap_err().contains("address"));
        let ib = [entry(0, GidKind::Ib, "fe80::7")];
        assert_eq!(gid(&attr(LinkLayer::InfiniBand), &ib, "v2").unwrap().0.index, 0);
    }

    #[test]
    fn ports_without_a_link_are_of_no_use() {
        let down = PortAttr { state: PortState::Down, ..attr(LinkLayer::InfiniBand) };
        assert!(usable(&down).unwrap_err().contains("cable"));
    }

    #[test]
    fn lists_of_devices() {
        let w = Wanted::parse(" mlx5_1:2, mlx5_*, !mlx5_3 ,!mlx5_4:1");
        assert_eq!(w.place("mlx5_1", 2), Ok(0));
        assert_eq!(w.place("mlx5_1", 1), Ok(1));
        assert!(w.place("mlx5_3", 1).unwrap_err().contains("!mlx5_3"));
        assert!(w.place("mlx5_4", 1).is_err() && w.place("mlx5_4", 2).is_ok());
        assert!(w.place("rxe0", 1).unwrap_err().contains("NETMOD_VERBS_DEVICE"));
        assert_eq!(Wanted::parse("").place("rxe0", 1), Ok(0));
    }

    #[test]
    fn ports_come_in_the_users_order_and_then_by_speed() {
        let judged = |device: &str, port, speed| Judged {
            device: device.into(),
            port,
            attr: Some(PortAttr { speed, ..attr(LinkLayer::InfiniBand) }),
            gid: Ok((entry(0, GidKind::Ib, "fe80::1"), "")),
        };
        let mut all = vec![judged("a", 1, 10), judged("a", 2, 40), judged("b", 1, 40), judged("c", 1, 99)];
        all[3].gid = Err("no".into());
        let names = |device: &str, ports| {
            let cfg = VerbsConfig { device: device.into(), ports, ..VerbsConfig::default() };
            let mut all = all.clone();
            settle(&mut all, &cfg);
            let used = chosen(&all, &cfg).iter().map(Judged::name).collect::<Vec<_>>();
            let refused =
                all.iter().filter(|j| j.gid.as_ref().is_err_and(|why| why.contains("NETMOD_VERBS_PORTS=")));
            assert_eq!(used.len() + refused.count(), 3, "each port that is left out says why");
            used
        };
        assert_eq!(names("", 9), ["a:2", "b:1", "a:1"]);
        assert_eq!(names("b,a", 2), ["b:1", "a:2"]);
    }
}
