//! The netmod's section of the business card: what peers learn of this process's domains.
//!
//! # Format
//! Numbers are little-endian. Texts and addresses have a two-byte length in front. [`VERSION`] is
//! the section's version.
//!
//! | bytes | |
//! |---|---|
//! | 2 | version of the frames, [`PROTOCOL`] |
//! | 4 | libfabric's version |
//! | text | provider |
//! | 4, 4, 4 | its version; protocol of its endpoints and that protocol's version |
//! | 4, 4 | maximum frame length in bytes; window in units |
//! | 8, 8 | device of `/dev/shm`, PID namespace |
//! | bytes | end of the process's life line, in the format of its owner |
//! | bytes | record of the interfaces ([`netmod_matching::wire`]), indexed by domain number |
//! | 1 | number of domains, then for each: |
//! | text, text | names of domain and fabric |
//! | 1 | flags, see below |
//! | 4 | address format |
//! | bytes | address |
//! | 2, 1 | number of receive contexts at the address, and the index of this engine's |
//! | 4, 4 | Mb/s and MTU in bytes, 0 if unknown |
//!
//! Flags: 1 regions have virtual addresses; 2 peers can read and write memory; 4 the domain reaches
//! its host only; 8 it can send to every receive context of an endpoint.

mod location;
mod pair;
#[cfg(test)]
mod pair_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use libfabric_sys::consts::{FI_LOCAL_COMM, FI_REMOTE_COMM};
use netmod_core::card::{BodyReader, BodyWriter, CardError, CardWriter, Section};
use netmod_matching::{Address, Host, Nic, Rules, wire};

use crate::NAME;
use crate::address::ip;
use crate::fi::info::{Facts, MAX_ADDRESS};

pub use location::ProcessLocation;
pub use pair::pair;

/// Version of the section.
pub const VERSION: u16 = 2;
/// Version of the frames. Peers of another version are rejected.
pub const PROTOCOL: u16 = 4;
/// Maximum number of domains in a card.
pub const MAX_DOMAINS: usize = 16;
/// Maximum length of a provider's, fabric's or domain's name, in bytes.
pub const MAX_TEXT: usize = 255;

const VIRT_ADDR: u8 = 1;
const RMA: u8 = 2;
const LOCAL: u8 = 4;
const NAMES: u8 = 8;

/// A process's section of the card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfiCard {
    /// Version of its frames.
    pub protocol: u16,
    /// libfabric's version, in the form of `FI_VERSION`.
    pub library: u32,
    /// The provider of all its domains.
    pub provider: String,
    /// The provider's version.
    pub provider_version: u32,
    /// Protocol of the endpoints, and its version.
    pub endpoint: (u32, u32),
    /// Maximum length of a received frame, in bytes.
    pub frame: u32,
    /// Window for frames from a peer, in units.
    pub window: u32,
    /// Location of the process.
    pub location: ProcessLocation,
    /// End of the process's life line.
    pub lifeline: Box<[u8]>,
    /// The interfaces of the domains that have an IP address. [`Nic::index`] is the position in
    /// `domains`.
    record: Host,
    /// The domains, at least one.
    pub domains: Vec<CardDomain>,
}

/// The card of this process.
pub type OwnCard = OfiCard;
/// The card of a peer.
pub type PeerCard = OfiCard;

/// An opened domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardDomain {
    /// The domain's name.
    pub name: String,
    /// The fabric's name.
    pub fabric: String,
    /// True if regions are named by virtual addresses, false if by offsets.
    pub virt_addr: bool,
    /// True if peers can read and write registered memory.
    pub rma: bool,
    /// True if the domain reaches only processes of its host.
    pub local: bool,
    /// True if it can send to every receive context of an endpoint, false if only to the first.
    pub names_contexts: bool,
    /// Address format, `FI_SOCKADDR_IN` and so on.
    pub format: u32,
    /// Address of the endpoint, at most [`MAX_ADDRESS`] bytes.
    pub address: Box<[u8]>,
    /// Number of the endpoint's receive contexts; 1 for a plain endpoint.
    pub contexts: u16,
    /// Index of this engine's receive context.
    pub context: u8,
    /// Speed in Mb/s, if known.
    pub speed: Option<u32>,
    /// MTU in bytes, if known.
    pub mtu: Option<u32>,
}

impl CardDomain {
    /// Describes an opened offer, whose endpoint has this address. `(context, contexts)` are the
    /// index and number of its receive contexts.
    pub fn new(facts: &Facts, address: &[u8], (context, contexts): (u8, u16)) -> CardDomain {
        let nic = facts.nic.as_ref();
        CardDomain {
            name: short(&facts.domain),
            fabric: short(&facts.fabric),
            virt_addr: facts.mr().virt_addr,
            rma: facts.has_rma(),
            local: facts.caps & (FI_LOCAL_COMM | FI_REMOTE_COMM) == FI_LOCAL_COMM,
            format: facts.format,
            address: address.into(),
            names_contexts: facts.contexts() > 1,
            contexts: contexts.max(1),
            context,
            speed: nic.and_then(|n| n.speed),
            mtu: nic.and_then(|n| n.mtu),
        }
    }
}

/// Truncates a name to the maximum length.
fn short(name: &str) -> String {
    let mut end = name.len().min(MAX_TEXT);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Limits of the frames that this process receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum length of a frame, in bytes.
    pub frame: u32,
    /// Window of a peer, in units.
    pub window: u32,
}

impl OfiCard {
    /// Makes this process's card. All domains are of the provider that `facts` describes, on a host
    /// with these interfaces.
    pub fn new(
        library: u32,
        facts: &Facts,
        limits: FrameLimits,
        host: &Host,
        lifeline: &[u8],
        domains: Vec<CardDomain>,
    ) -> OwnCard {
        OfiCard {
            protocol: PROTOCOL,
            library,
            provider: short(&facts.provider),
            provider_version: facts.provider_version,
            endpoint: (facts.protocol, facts.protocol_version),
            frame: limits.frame,
            window: limits.window,
            location: ProcessLocation::of_this_process(host.location),
            lifeline: lifeline.into(),
            record: record(host, &domains),
            domains,
        }
    }

    /// Adds the section to a card.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn write(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card.section(NAME, VERSION, &self.body())
    }

    /// Returns the section's body.
    fn body(&self) -> Vec<u8> {
        let mut w = BodyWriter::new();
        w.u16(self.protocol).u32(self.library).str(&self.provider).u32(self.provider_version);
        w.u32(self.endpoint.0).u32(self.endpoint.1).u32(self.frame).u32(self.window);
        w.u64(self.location.memory).u64(self.location.processes).bytes(&self.lifeline);
        w.bytes(&wire::encode(&self.record)).u8(self.domains.len() as u8);
        for d in &self.domains {
            let flag = |on: bool, bit: u8| if on { bit } else { 0 };
            w.str(&d.name).str(&d.fabric);
            let names = flag(d.names_contexts, NAMES);
            w.u8(flag(d.virt_addr, VIRT_ADDR) | flag(d.rma, RMA) | flag(d.local, LOCAL) | names);
            w.u32(d.format).bytes(&d.address).u16(d.contexts).u8(d.context);
            w.u32(d.speed.unwrap_or(0)).u32(d.mtu.unwrap_or(0));
        }
        w.as_bytes().to_vec()
    }

    /// Parses a peer's section.
    ///
    /// # Errors
    /// Rejects everything that [`OfiCard::write`] cannot have written.
    pub fn parse(section: Section<'_>) -> Result<PeerCard, CardError> {
        let malformed = |what, expected| CardError::Malformed { what, expected };
        let mut r = BodyReader::new("the section ofi", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let text = |r: &mut BodyReader<'_>, what: &'static str| -> Result<String, CardError> {
            let text = r.str(what)?;
            let good = text.len() <= MAX_TEXT && !text.contains(char::is_control);
            good.then(|| text.to_owned())
                .ok_or(malformed(what, "it must be at most 255 bytes without control characters"))
        };
        let protocol = r.u16("the version of its frames")?;
        let library = r.u32("libfabric's version")?;
        let provider = text(&mut r, "its provider's name")?;
        let provider_version = r.u32("its provider's version")?;
        let endpoint = (r.u32("its endpoints' protocol")?, r.u32("its endpoints' protocol")?);
        let frame = r.u32("its largest frame")?;
        if frame < MIN_FRAME {
            return Err(malformed("its largest frame", "it must be at least 256 bytes"));
        }
        let window = r.u32("its window")?;
        if window == 0 {
            return Err(malformed("its window", "it must not be zero"));
        }
        let (memory, processes) = (r.u64("its shared memory")?, r.u64("its process namespace")?);
        let lifeline = r.bytes("its life line")?.into();
        let record = wire::parse(r.bytes("the record of its interfaces")?)
            .map_err(|_| malformed("the record of its interfaces", "it must be in canonical form"))?;
        let location = ProcessLocation { network: record.location, memory, processes };
        let count = usize::from(r.u8("its number of domains")?);
        if !(1..=MAX_DOMAINS).contains(&count) {
            return Err(malformed("its number of domains", "it must be from 1 to 16"));
        }
        let mut domains = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, fabric) = (text(&mut r, "a domain's name")?, text(&mut r, "a fabric's name")?);
            let flags = r.u8("a domain's flags")?;
            if flags & !(VIRT_ADDR | RMA | LOCAL | NAMES) != 0 {
                return Err(malformed("a domain's flags", "only the lowest four may be set"));
            }
            let format = r.u32("an address format")?;
            let address = r.bytes("a domain's address")?;
            if address.is_empty() || address.len() > MAX_ADDRESS {
                return Err(malformed("a domain's address", "it must have 1 to 1024 bytes"));
            }
            let contexts = r.u16("a domain's contexts")?;
            if contexts == 0 {
                return Err(malformed("a domain's contexts", "there must be at least one"));
            }
            let context = r.u8("a domain's context")?;
            if u16::from(context) >= contexts {
                return Err(malformed("a domain's context", "there are fewer"));
            }
            let known = |n: u32| Some(n).filter(|n| *n > 0);
            let (speed, mtu) = (known(r.u32("a domain's speed")?), known(r.u32("a domain's MTU")?));
            domains.push(CardDomain {
                name,
                fabric,
                virt_addr: flags & VIRT_ADDR != 0,
                rma: flags & RMA != 0,
                local: flags & LOCAL != 0,
                names_contexts: flags & NAMES != 0,
                format,
                address: address.into(),
                contexts,
                context,
                speed,
                mtu,
            });
        }
        r.finish()?;
        let mut seen = [false; MAX_DOMAINS];
        for nic in &record.nics {
            let at = usize::try_from(nic.index).ok().filter(|at| *at < count);
            if at.is_none_or(|at| core::mem::replace(&mut seen[at], true)) {
                return Err(malformed(
                    "the record of its interfaces",
                    "each must be that of a different domain",
                ));
            }
        }
        Ok(OfiCard {
            protocol,
            library,
            provider,
            provider_version,
            endpoint,
            frame,
            window,
            location,
            lifeline,
            record,
            domains,
        })
    }
}

/// Minimum useful frame length, in bytes.
pub(crate) const MIN_FRAME: u32 = 256;

/// Makes the record of the interfaces of the domains with IP addresses, as both sides pair them.
fn record(host: &Host, domains: &[CardDomain]) -> Host {
    let nics = domains.iter().enumerate().filter_map(|(at, d)| {
        let ip = ip(d.format, &d.address).filter(|ip| !ip.is_loopback())?;
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        let found = host.nics.iter().find_map(|n| n.addresses.iter().find(|a| a.ip == ip).map(|a| (n, *a)));
        let index = u32::try_from(at).ok()?;
        Some(match found {
            Some((nic, address)) => {
                Nic { index, addresses: vec![address], speed: d.speed.or(nic.speed), ..nic.clone() }
            }
            // The system does not know the address: it gets an entry of its own, without routes.
            None => Nic {
                name: format!("domain{at}"),
                index,
                addresses: vec![Address { ip, prefix: prefix(&d.fabric).unwrap_or(whole).min(whole) }],
                speed: d.speed,
                mtu: d.mtu.unwrap_or(0),
                up: true,
                carrier: true,
                ..Nic::default()
            },
        })
    });
    Rules::default().publish(&Host { location: host.location, nics: nics.collect(), ..Host::default() }).host
}

/// Returns the prefix length in a fabric's name such as `192.0.2.0/24`.
fn prefix(fabric: &str) -> Option<u8> {
    fabric.rsplit_once('/').and_then(|(_, n)| n.parse().ok())
}
