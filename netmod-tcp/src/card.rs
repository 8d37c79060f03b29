//! The section of the business card: where a process listens, and the record of its interfaces.

use std::net::IpAddr;

use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::{Card, CardError, CardWriter};
use netmod_matching::{Host, wire};

/// Name of the card's section.
pub(crate) const SECTION: &str = "tcp";
const SECTION_VERSION: u16 = 5;

/// The part of a card that is common to the processes of a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Published {
    /// Its interfaces.
    pub(crate) host: Host,
    /// Loopback addresses at which it listens: of IPv4, of IPv6.
    pub(crate) loopback: [bool; 2],
}

/// Writes the section: flags u8 (loopback addresses at which this process listens: 1 of IPv4, 2 of
/// IPv6), port u16, length u16 and the record of the interfaces ([`netmod_matching::wire`]).
pub(crate) fn emit(own: &Published, port: u16, card: &mut CardWriter) -> Result<(), CardError> {
    let mut body = BodyWriter::new();
    write(own, port, &mut body);
    card.section(SECTION, SECTION_VERSION, body.as_bytes())
}

fn write(own: &Published, port: u16, body: &mut BodyWriter) {
    let [v4, v6] = own.loopback.map(u8::from);
    body.u8(v4 | v6 << 1).u16(port).bytes(&wire::encode(&own.host));
}

/// Returns the body of a card's section with at most so many addresses, those of IPv4 first, and
/// without what only chooses between them; with the version. `None` if the card has no such
/// section.
///
/// Names of ports have little room. Whoever connects by one needs an address that it reaches.
pub fn short_section(card: &Card, addresses: usize) -> Option<(u16, Vec<u8>)> {
    let (mut published, port) = parse(card).ok()?;
    let host = &mut published.host;
    let links = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let mut left = addresses;
    for is_v4 in [true, false] {
        for nic in host.nics.iter_mut().filter(|nic| nic.up) {
            nic.addresses.retain(|a| {
                a.ip.is_ipv4() != is_v4 || !links(a.ip) && left.checked_sub(1).map(|n| left = n).is_some()
            });
        }
    }
    host.nics.retain(|nic| nic.up && !nic.addresses.is_empty());
    host.nics.iter_mut().enumerate().for_each(|(i, nic)| nic.name = i.to_string());
    host.reach = None;
    host.cut = Default::default();
    let mut body = BodyWriter::new();
    write(&published, port, &mut body);
    Some((SECTION_VERSION, body.as_bytes().to_vec()))
}

/// A card that does not say how its process is reached by TCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SectionError {
    #[error("the peer does not offer tcp")]
    Missing,
    #[error(
        "its card's tcp section is of version {0}, not {SECTION_VERSION}; do both sides run the same version?"
    )]
    Version(u16),
    #[error(transparent)]
    Body(#[from] CardError),
    #[error(transparent)]
    Record(#[from] wire::WireError),
}

/// Returns the interfaces and the port that a card names.
///
/// # Errors
/// If there is no section of tcp, or it is broken.
pub(crate) fn parse(card: &Card) -> Result<(Published, u16), SectionError> {
    let section = card.section(SECTION).ok_or(SectionError::Missing)?;
    if section.version != SECTION_VERSION {
        return Err(SectionError::Version(section.version));
    }
    let mut body = BodyReader::new("the tcp section", section.body).allow_trailing();
    let flags = body.u8("flags")?;
    let port = body.u16("port")?;
    let host = wire::parse(body.bytes("record of the interfaces")?)?;
    Ok((Published { host, loopback: [flags & 1 != 0, flags & 2 != 0] }, port))
}
