//! The user's choices: the interfaces and addresses to publish, and the limits of pairs.

use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU32;
use core::str::FromStr;

use crate::address::{in_subnet, width};
use crate::canonical::{Canonical, MAX_NAME, Omission, Omitted, is_name};
use crate::graph::Limits;
use crate::record::{Address, Host, Nic};

/// Address families that may be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Families {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// The transport of messages between two interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Transport {
    /// Packets that arrive whole or not at all: two interfaces whose MTUs are known and differ are
    /// no pair.
    #[default]
    Datagrams,
    /// A stream, cut to what either end takes: TCP negotiates a segment size for each connection.
    Stream,
}

/// The choices.
///
/// `filter` acts on a side's own record before the peer sees it. For the rest, the deciding side's
/// values apply.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rules {
    /// Interfaces and addresses that are published.
    pub filter: Filter,
    /// Address families that may be used.
    pub families: Families,
    /// Transport of the messages.
    pub transport: Transport,
    /// Limits of speed and number.
    pub limits: Limits,
}

/// The record that a host publishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// The record from which both sides compute; see [`Canonical::host`].
    pub host: Host,
    /// Everything that was left out, with the reasons.
    pub omitted: Vec<Omitted>,
}

impl Rules {
    /// Returns what a host publishes: the interfaces and addresses that pass the filter, in
    /// canonical form.
    pub fn publish(&self, host: &Host) -> Published {
        let mut omitted = Vec::new();
        let mut passed = Host { nics: Vec::new(), ..host.clone() };
        for nic in &host.nics {
            let omit = |address: Option<Address>| Omitted {
                nic: nic.name.clone(),
                address,
                why: Omission::Excluded,
            };
            let (kept, dropped): (Vec<Address>, Vec<Address>) =
                nic.addresses.iter().partition(|a| self.filter.passes(&nic.name, Some(a.ip)));
            if kept.is_empty() && (!dropped.is_empty() || !self.filter.passes(&nic.name, None)) {
                omitted.push(omit(None));
                continue;
            }
            omitted.extend(dropped.into_iter().map(|a| omit(Some(a))));
            passed.nics.push(Nic { name: nic.name.clone(), addresses: kept, ..*nic });
        }
        let canonical = Canonical::new(&passed);
        omitted.extend(canonical.omitted);
        omitted.sort();
        Published { host: canonical.host, omitted }
    }

    /// Returns the rules for TCP.
    pub fn of_stream() -> Rules {
        Rules { transport: Transport::Stream, ..Rules::default() }
    }

    /// Sets the most pairs; 0 for as many as possible.
    pub fn with_max_rails(mut self, rails: u32) -> Rules {
        self.limits.max_rails = NonZeroU32::new(rails);
        self
    }

    /// Sets the speed ratio: pairs known to be slower than the fastest divided by this are left
    /// out; 0 for none.
    pub fn with_speed_ratio(mut self, ratio: u32) -> Rules {
        self.limits.speed_ratio = NonZeroU32::new(ratio);
        self
    }
}

/// A choice of interfaces and addresses, written as `eth*,!docker0,10.0.0.0/8,!192.168.0.0/16`.
///
/// A part is a pattern of names, a subnet or an address. In a pattern, `*` stands for any
/// characters and `?` for one. An address of an interface passes if it or the name matches a part
/// without `!` (or there is no such part), and neither matches a part with `!`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Filter {
    include: Vec<Part>,
    exclude: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Part {
    Name(String),
    Subnet(IpAddr, u8),
}

impl Part {
    fn matches(&self, name: &str, ip: Option<IpAddr>) -> bool {
        match self {
            Part::Name(pattern) => glob(pattern.as_bytes(), name.as_bytes()),
            Part::Subnet(net, prefix) => ip.is_some_and(|ip| in_subnet(ip, *net, *prefix)),
        }
    }
}

impl Filter {
    /// Returns true if this address of an interface of this name passes; without an address, the
    /// name alone decides.
    pub fn passes(&self, name: &str, ip: Option<IpAddr>) -> bool {
        let any = |parts: &[Part]| parts.iter().any(|p| p.matches(name, ip));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Returns true if all of `text` matches the pattern, where `*` stands for any characters and `?`
/// for one.
///
/// Only the last `*` is ever tried again, so the work is bounded by the product of the lengths.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// A choice of interfaces that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError {
    part: String,
    why: PartError,
}

/// The error in one part of a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PartError {
    Empty,
    /// The text before the slash is no address.
    NoAddress(String),
    /// The prefix length is not 0 to this.
    Prefix(u8),
    TooLong,
    Characters,
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartError::Empty => f.write_str("is empty"),
            PartError::NoAddress(net) => {
                write!(f, "has no IP address before the slash, but `{}`", net.escape_debug())
            }
            PartError::Prefix(most) => write!(f, "has a prefix length that is none of 0 to {most}"),
            PartError::TooLong => {
                write!(f, "is longer than the name of any interface, {MAX_NAME} bytes")
            }
            PartError::Characters => f.write_str("has characters that no interface's name has"),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "choice of interfaces: `{}` {}; write names, patterns and subnets such as eth*,!docker0,10.0.0.0/8,!192.168.0.0/16",
            self.part.escape_debug(),
            self.why
        )
    }
}

impl core::error::Error for FilterError {}

impl FromStr for Filter {
    type Err = FilterError;

    /// Parses a choice; an empty text chooses everything.
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let mut filter = Filter::default();
        if text.trim().is_empty() {
            return Ok(filter);
        }
        for whole in text.split(',').map(str::trim) {
            let (list, part) = match whole.strip_prefix('!') {
                Some(rest) => (&mut filter.exclude, rest.trim_start()),
                None => (&mut filter.include, whole),
            };
            list.push(parse_part(part).map_err(|why| FilterError { part: whole.into(), why })?);
        }
        Ok(filter)
    }
}

fn parse_part(part: &str) -> Result<Part, PartError> {
    if part.is_empty() {
        return Err(PartError::Empty);
    }
    if let Some((net, prefix)) = part.split_once('/') {
        let ip: IpAddr = net.parse().map_err(|_| PartError::NoAddress(net.to_owned()))?;
        let bits = prefix
            .parse::<u8>()
            .ok()
            .filter(|bits| *bits <= width(ip))
            .ok_or(PartError::Prefix(width(ip)))?;
        return Ok(Part::Subnet(ip, bits));
    }
    if let Ok(ip) = part.parse::<IpAddr>() {
        return Ok(Part::Subnet(ip, width(ip)));
    }
    let bare: String = part.chars().filter(|c| *c != '*').collect();
    if bare.len() > MAX_NAME {
        return Err(PartError::TooLong);
    }
    if bare.starts_with('!') || !(bare.is_empty() || is_name(&bare)) {
        return Err(PartError::Characters);
    }
    Ok(Part::Name(part.to_owned()))
}

#[cfg(test)]
mod tests;
