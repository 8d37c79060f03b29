//! Chooses the ports of the devices, and a GID for each, with reasons.

use std::net::IpAddr;

use crate::config::VerbsConfig;
use hca::{GidEntry, GidKind, Hca, LinkLayer, PortAttr, PortState};
use netmod_matching::glob;

use crate::pair::ip_of;

/// The reason why a port is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The user excludes it.
    #[error("shut out by !{pattern} in NETMOD_VERBS_DEVICE")]
    Excluded {
        /// The pattern.
        pattern: String,
    },
    /// The user names other ports.
    #[error("not among those of NETMOD_VERBS_DEVICE")]
    NotIncluded,
    /// Better ports are enough.
    #[error("NETMOD_VERBS_PORTS={most} are used already")]
    Enough {
        /// Maximum number of ports.
        most: usize,
    },
    /// The device refuses a query.
    #[error(transparent)]
    Device(#[from] hca::Error),
    /// It passes no packets.
    #[error("the port is not active ({0:?}); is there a cable, and a subnet manager?")]
    Inactive(PortState),
    /// The user's setting is invalid.
    #[error("NETMOD_VERBS_GID={asked} is neither an index of the table nor v1 or v2")]
    Setting {
        /// The setting.
        asked: String,
    },
    /// The user asks for an entry that is not there.
    #[error("its table has no GID at index {index} (NETMOD_VERBS_GID); {}", table(.gids))]
    NoIndex {
        /// Index in the table.
        index: u8,
        /// The table.
        gids: Vec<GidEntry>,
    },
    /// The user asks for a version of RoCE that is not there.
    #[error("no GID of the version that NETMOD_VERBS_GID={asked} asks for; {}", table(.gids))]
    NoVersion {
        /// The setting.
        asked: String,
        /// The table.
        gids: Vec<GidEntry>,
    },
    /// The interface has no address that packets can come from.
    #[error("no GID of RoCE; has the interface an address?")]
    NoRoce,
    /// The table has no GID of InfiniBand.
    #[error("no GID")]
    NoGid,
}

/// A port, and the decision about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChoice {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1 on.
    pub port: u8,
    /// The port's attributes, if they could be queried.
    pub attr: Option<PortAttr>,
    /// The GID used, with the reason for it; or the reason why the port is not used.
    pub gid: Result<(GidEntry, &'static str), Unusable>,
}

impl PortChoice {
    /// Returns device and port as settings name them.
    pub fn name(&self) -> String {
        format!("{}:{}", self.device, self.port)
    }
}

/// The user's selection of devices: `mlx5_*,!mlx5_3:2`.
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

    /// Returns the position of the pattern that includes a port, or the reason for its exclusion.
    fn position(&self, device: &str, port: u8) -> Result<usize, Unusable> {
        let with_port = format!("{device}:{port}");
        let by = |pattern: &str| {
            glob(pattern.as_bytes(), device.as_bytes()) || glob(pattern.as_bytes(), with_port.as_bytes())
        };
        if let Some(pattern) = self.exclude.iter().find(|p| by(p)) {
            return Err(Unusable::Excluded { pattern: pattern.clone() });
        }
        match self.include.iter().position(|p| by(p)) {
            Some(at) => Ok(at),
            None if self.include.is_empty() => Ok(0),
            None => Err(Unusable::NotIncluded),
        }
    }
}

/// Examines all ports of a device.
pub(crate) fn examine<H: Hca>(hca: &H, cfg: &VerbsConfig) -> Vec<PortChoice> {
    let wanted = Wanted::parse(&cfg.device);
    (1..=hca.device().ports)
        .map(|port| {
            let attr = hca.port(port);
            let gid = wanted
                .position(hca.name(), port)
                .and_then(|_| Ok(attr.clone()?))
                .and_then(|attr| usable(&attr).map(|()| attr))
                .and_then(|attr| Ok((attr, hca.gids(port)?)))
                .and_then(|(attr, gids)| gid(&attr, &gids, &cfg.gid));
            PortChoice { device: hca.name().to_owned(), port, attr: attr.ok(), gid }
        })
        .collect()
}

/// Returns the positions of the usable ports, best first: in the user's order, or else by speed.
fn by_preference(all: &[PortChoice], cfg: &VerbsConfig) -> Vec<usize> {
    let wanted = Wanted::parse(&cfg.device);
    let mut good: Vec<usize> = (0..all.len()).filter(|i| all[*i].gid.is_ok()).collect();
    good.sort_by_cached_key(|i| {
        let j = &all[*i];
        let position = wanted.position(&j.device, j.port).unwrap_or(usize::MAX);
        let speed = j.attr.map_or(0, |a| a.speed);
        (position, core::cmp::Reverse(speed), j.name())
    });
    good
}

/// Keeps as many usable ports as `NETMOD_VERBS_PORTS` allows; the others get a reason.
pub(crate) fn settle(all: &mut [PortChoice], cfg: &VerbsConfig) {
    let most = cfg.ports;
    for i in by_preference(all, cfg).into_iter().skip(most) {
        all[i].gid = Err(Unusable::Enough { most });
    }
}

/// Returns the used ports, best first.
pub fn chosen(all: &[PortChoice], cfg: &VerbsConfig) -> Vec<PortChoice> {
    by_preference(all, cfg).into_iter().map(|i| all[i].clone()).collect()
}

fn usable(attr: &PortAttr) -> Result<(), Unusable> {
    match attr.state {
        PortState::Active | PortState::ActiveDefer => Ok(()),
        state => Err(Unusable::Inactive(state)),
    }
}

/// Chooses the source GID of a port's packets.
fn gid(attr: &PortAttr, gids: &[GidEntry], asked: &str) -> Result<(GidEntry, &'static str), Unusable> {
    if let Ok(index) = asked.parse::<u8>() {
        let found = gids.iter().find(|g| g.index == index);
        return found
            .map(|g| (*g, "NETMOD_VERBS_GID"))
            .ok_or_else(|| Unusable::NoIndex { index, gids: gids.to_vec() });
    }
    let version = match asked {
        "" => None,
        "v1" => Some(GidKind::RoceV1),
        "v2" => Some(GidKind::RoceV2),
        other => return Err(Unusable::Setting { asked: other.to_owned() }),
    };
    let ethernet = attr.link_layer == LinkLayer::Ethernet;
    let fits = |g: &&GidEntry| {
        if ethernet { version.is_none_or(|v| v == g.kind) } else { g.kind == GidKind::Ib }
    };
    // The first of several equally good ones.
    let best = gids.iter().filter(fits).min_by_key(|g| (core::cmp::Reverse(rank(g).0), g.index));
    best.map(|g| (*g, rank(g).1)).ok_or_else(|| match version {
        Some(_) if ethernet => Unusable::NoVersion { asked: asked.to_owned(), gids: gids.to_vec() },
        None if ethernet => Unusable::NoRoce,
        _ => Unusable::NoGid,
    })
}

/// Formats a table of GIDs for an error text.
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
        let none = index("9").unwrap_err().to_string();
        assert!(none.contains("index 9") && none.contains("3 (::ffff:10.0.0.1, v2), 4 ("), "{none}");
        assert!(index("v3").unwrap_err().to_string().contains("nor v1 or v2"));
        let v1 = &table()[..1];
        assert!(gid(&eth, v1, "v2").unwrap_err().to_string().contains("NETMOD_VERBS_GID=v2"));
        assert!(gid(&eth, &[], "").unwrap_err().to_string().contains("address"));
        let ib = [entry(0, GidKind::Ib, "fe80::7")];
        assert_eq!(gid(&attr(LinkLayer::InfiniBand), &ib, "v2").unwrap().0.index, 0);
    }

    #[test]
    fn ports_without_a_link_are_of_no_use() {
        let down = PortAttr { state: PortState::Down, ..attr(LinkLayer::InfiniBand) };
        assert!(usable(&down).unwrap_err().to_string().contains("cable"));
    }

    #[test]
    fn lists_of_devices() {
        let w = Wanted::parse(" mlx5_1:2, mlx5_*, !mlx5_3 ,!mlx5_4:1");
        assert_eq!(w.position("mlx5_1", 2), Ok(0));
        assert_eq!(w.position("mlx5_1", 1), Ok(1));
        assert!(w.position("mlx5_3", 1).unwrap_err().to_string().contains("!mlx5_3"));
        assert!(w.position("mlx5_4", 1).is_err() && w.position("mlx5_4", 2).is_ok());
        assert!(w.position("rxe0", 1).unwrap_err().to_string().contains("NETMOD_VERBS_DEVICE"));
        assert_eq!(Wanted::parse("").position("rxe0", 1), Ok(0));
    }

    #[test]
    fn ports_come_in_the_users_order_and_then_by_speed() {
        let choices = |device: &str, port, speed| PortChoice {
            device: device.into(),
            port,
            attr: Some(PortAttr { speed, ..attr(LinkLayer::InfiniBand) }),
            gid: Ok((entry(0, GidKind::Ib, "fe80::1"), "")),
        };
        let mut all =
            vec![choices("a", 1, 10), choices("a", 2, 40), choices("b", 1, 40), choices("c", 1, 99)];
        all[3].gid = Err(Unusable::NoGid);
        let names = |device: &str, ports| {
            let cfg = VerbsConfig { device: device.into(), ports, ..VerbsConfig::default() };
            let mut all = all.clone();
            settle(&mut all, &cfg);
            let used = chosen(&all, &cfg).iter().map(PortChoice::name).collect::<Vec<_>>();
            let refused = all
                .iter()
                .filter(|j| j.gid.as_ref().is_err_and(|why| *why == Unusable::Enough { most: ports }));
            assert_eq!(used.len() + refused.count(), 3, "each port that is left out says why");
            used
        };
        assert_eq!(names("", 9), ["a:2", "b:1", "a:1"]);
        assert_eq!(names("b,a", 2), ["b:1", "a:2"]);
    }
}
