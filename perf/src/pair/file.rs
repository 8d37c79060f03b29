//! Records of interfaces as text: a side of a scenario, and the file that `--export` writes and
//! `--peer` reads.

use std::net::IpAddr;

use netmod_matching::table::{Hop, Route, Table};
use netmod_matching::{Address, Answer, Cut, Host, Kind, Location, Nic, Reach, Rules};
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Result};

/// One side: a host and its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideFile {
    /// The host: 32 hexadecimal digits of the boot id, a colon and the number of the network
    /// namespace; or any short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    /// Published interfaces and addresses, in the syntax of `NETMOD_TCP_INTERFACE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) interfaces: String,
    /// True if the routing tables were read.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) asked: bool,
    /// Numbers of interfaces, addresses and routes that did not fit into the published record.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) cut: [u16; 3],
    #[serde(default)]
    pub(crate) nics: Vec<NicFile>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NicFile {
    pub(crate) name: String,
    /// The kernel's interface index; by default counted from 1 in the order of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    #[serde(default, with = "kind_name")]
    pub(crate) kind: Kind,
    /// Addresses with prefix length, such as `10.1.0.1/24`.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Speed in Mb/s, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) speed: Option<u32>,
    #[serde(default = "usual_mtu")]
    pub(crate) mtu: u32,
    #[serde(default = "yes")]
    pub(crate) up: bool,
    #[serde(default = "yes")]
    pub(crate) carrier: bool,
    /// Routes beside those to the interface's own networks, in the syntax of `ip route`:
    /// `10.9.0.0/16 via 10.1.0.254`, `100.64.0.0/10`, `default via 10.2.0.254 from 10.2.0.1`,
    /// `unreachable 10.3.0.0/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<String>,
    /// Alternative to routes: answers of a real host's routing tables, as source, destination and
    /// answer, such as `10.1.0.1 10.9.0.0/16 gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reach: Option<Vec<String>>,
}

fn is_none(cut: &[u16; 3]) -> bool {
    *cut == [0; 3]
}

fn yes() -> bool {
    true
}

fn is_yes(b: &bool) -> bool {
    *b
}

fn usual_mtu() -> u32 {
    1500
}

/// Kinds and their names in files.
const KINDS: [(Kind, &str); 12] = [
    (Kind::Physical, "physical"),
    (Kind::Vlan, "vlan"),
    (Kind::Bond, "bond"),
    (Kind::Macvlan, "macvlan"),
    (Kind::Veth, "veth"),
    (Kind::BridgeOut, "bridge-out"),
    (Kind::BridgeIn, "bridge-in"),
    (Kind::Port, "port"),
    (Kind::Tunnel, "tunnel"),
    (Kind::Dummy, "dummy"),
    (Kind::PointToPoint, "point-to-point"),
    (Kind::Loopback, "loopback"),
];

/// The kind of an interface by its name.
mod kind_name {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{KINDS, Kind};

    pub(super) fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
        match KINDS.iter().find(|(k, _)| k == kind) {
            Some((_, name)) => to.serialize_str(name),
            None => Err(S::Error::custom(format!("no name for an interface of kind {kind:?}"))),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Kind, D::Error> {
        let name = String::deserialize(from)?;
        match KINDS.iter().find(|(_, n)| *n == name) {
            Some((kind, _)) => Ok(*kind),
            None => Err(D::Error::custom(format!(
                "an interface of the unknown kind `{}`; kinds are {}",
                name.escape_debug(),
                KINDS.map(|(_, name)| name).join(", ")
            ))),
        }
    }
}

impl SideFile {
    /// Converts a record to text form.
    pub(crate) fn of(host: &Host) -> SideFile {
        let nic = |nic: &Nic| NicFile {
            name: nic.name.clone(),
            index: Some(nic.index),
            kind: nic.kind,
            addresses: nic.addresses.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect(),
            speed: nic.speed,
            mtu: nic.mtu,
            up: nic.up,
            carrier: nic.carrier,
            routes: Vec::new(),
            reach: host.reach.as_ref().map(|all| {
                let own = all.iter().filter(|r| r.index == nic.index);
                own.filter(|r| nic.addresses.iter().any(|a| a.ip == r.from)).map(reach_text).collect()
            }),
        };
        let boot: String = host.location.boot.iter().map(|b| format!("{b:02x}")).collect();
        SideFile {
            location: Some(format!("{boot}:{}", host.location.netns)),
            interfaces: String::new(),
            asked: host.reach.is_some(),
            cut: [host.cut.nics, host.cut.addresses, host.cut.routes],
            nics: host.nics.iter().map(nic).collect(),
        }
    }

    /// Converts to a record. `name` is the side's name, and stands for its location if none is
    /// given.
    ///
    /// # Errors
    /// The invalid value.
    pub(crate) fn host(&self, name: &str) -> Result<Host> {
        let nic = |(at, nic): (usize, &NicFile)| -> Result<Nic> {
            let wrong = |why: String| Failure::new(format!("{name}: {}: {why}", nic.name.escape_debug()));
            Ok(Nic {
                name: nic.name.clone(),
                index: nic.index.unwrap_or(at as u32 + 1),
                kind: nic.kind,
                addresses: nic.addresses.iter().map(|a| address(a).map_err(wrong)).collect::<Result<_>>()?,
                speed: nic.speed,
                mtu: nic.mtu,
                up: nic.up,
                carrier: nic.carrier,
            })
        };
        let location = location(self.location.as_deref().unwrap_or(name))
            .map_err(|why| Failure::new(format!("{name}: location: {why}")))?;
        let nics: Vec<Nic> = self.nics.iter().enumerate().map(nic).collect::<Result<_>>()?;
        let [cut_nics, addresses, routes] = self.cut;
        let cut = Cut { nics: cut_nics, addresses, routes };
        Ok(Host { location, nics, cut, reach: None })
    }

    /// Converts to a record with the answers of this side's routing tables.
    ///
    /// # Errors
    /// The invalid value.
    pub(crate) fn asked(&self, name: &str) -> Result<Host> {
        let mut host = self.host(name)?;
        if !self.asked {
            return Ok(host);
        }
        if self.nics.iter().all(|n| n.reach.is_none()) {
            host.ask(&mut self.table(name, &host)?);
            return Ok(host);
        }
        let mut all = Vec::new();
        for (file, nic) in self.nics.iter().zip(&host.nics) {
            for text in file.reach.iter().flatten() {
                all.push(reach(nic.index, text).ok_or_else(|| {
                    Failure::new(format!(
                        "{name}: {}: reach: `{}` is not of the form `10.1.0.1 10.9.0.0/16 gateway`",
                        nic.name.escape_debug(),
                        text.escape_debug()
                    ))
                })?);
            }
        }
        host.reach = Some(all);
        Ok(host)
    }

    /// Converts to the record that the host publishes.
    ///
    /// # Errors
    /// The invalid value.
    pub(crate) fn published(&self, name: &str) -> Result<Host> {
        Ok(Rules::default().publish(&self.asked(name)?).host)
    }

    /// Returns the routing table of this side, whose record is `host`.
    ///
    /// # Errors
    /// The invalid route.
    pub(crate) fn table(&self, name: &str, host: &Host) -> Result<Table> {
        let mut table = Table::connected(host);
        for (file, nic) in self.nics.iter().zip(&host.nics) {
            for text in &file.routes {
                let route = route(nic.index, text).map_err(|why| {
                    Failure::new(format!(
                        "{name}: {}: route `{}`: {why}",
                        nic.name.escape_debug(),
                        text.escape_debug()
                    ))
                })?;
                table.add(route);
            }
        }
        Ok(table)
    }
}

/// Answers of routing tables and their names.
const ANSWERS: [(Answer, &str); 5] = [
    (Answer::None, "none"),
    (Answer::Unknown, "unknown"),
    (Answer::Default, "default"),
    (Answer::Gateway, "gateway"),
    (Answer::OnLink, "on-link"),
];

fn reach_text(r: &Reach) -> String {
    let answer = ANSWERS.iter().find(|(a, _)| *a == r.answer).map_or("unknown", |(_, name)| name);
    format!("{} {}/{} {answer}", r.from, r.net, r.prefix)
}

fn reach(index: u32, text: &str) -> Option<Reach> {
    let mut words = text.split_whitespace();
    let from = words.next()?.parse().ok()?;
    let to = address(words.next()?).ok()?;
    let name = words.next()?;
    let (answer, _) = *ANSWERS.iter().find(|(_, n)| *n == name)?;
    words.next().is_none().then_some(Reach { index, from, net: to.ip, prefix: to.prefix, answer })
}

/// Parses an address with prefix length. Does not check its validity, which the pairing does.
fn address(text: &str) -> std::result::Result<Address, String> {
    let parsed = text.split_once('/').and_then(|(ip, prefix)| Some((ip.parse().ok()?, prefix.parse().ok()?)));
    match parsed {
        Some((ip, prefix)) => Ok(Address { ip, prefix }),
        None => {
            Err(format!("`{}` is not an address; write it as 10.1.0.1/24 or fd00::1/64", text.escape_debug()))
        }
    }
}

fn location(text: &str) -> std::result::Result<Location, String> {
    if let Some((boot, netns)) = text.split_once(':')
        && boot.len() == 32
        && let (Ok(boot), Ok(netns)) = (u128::from_str_radix(boot, 16), netns.parse())
    {
        return Ok(Location { boot: boot.to_be_bytes(), netns });
    }
    let mut boot = [0; 16];
    match boot.get_mut(..text.len()) {
        Some(start) if !text.is_empty() => start.copy_from_slice(text.as_bytes()),
        _ => {
            return Err(
                "write a name of 1 to 16 bytes, or the boot id and the number of the namespace".into()
            );
        }
    }
    Ok(Location { boot, netns: 1 })
}

fn route(index: u32, text: &str) -> std::result::Result<Route, String> {
    let mut words = text.split_whitespace().peekable();
    let mut hop = Hop::OnLink;
    if let Some("unreachable" | "prohibit" | "blackhole") = words.peek().copied() {
        words.next();
        hop = Hop::Refuse;
    }
    let net = words.next().ok_or("no destination")?;
    let ip = |what: &str, text: Option<&str>| {
        text.and_then(|t| t.parse::<IpAddr>().ok()).ok_or_else(|| format!("no address after `{what}`"))
    };
    let (mut gateway, mut from) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "via" if hop == Hop::OnLink => gateway = Some(ip(word, words.next())?),
            "from" => from = Some(ip(word, words.next())?),
            other => {
                return Err(format!("`{}` is neither `via GATEWAY` nor `from SOURCE`", other.escape_debug()));
            }
        }
    }
    if gateway.is_some() {
        hop = Hop::Gateway;
    }
    let to = match net {
        "default" => match gateway.or(from) {
            Some(IpAddr::V6(_)) => Address { ip: IpAddr::from([0u16; 8]), prefix: 0 },
            _ => Address { ip: IpAddr::from([0u8; 4]), prefix: 0 },
        },
        net => address(net)?,
    };
    Ok(Route { index, net: to.ip, prefix: to.prefix, hop, from })
}
