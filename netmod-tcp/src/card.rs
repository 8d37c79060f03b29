//! The section of the business card: where a process listens, and the record of its interfaces.

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
    let [v4, v6] = own.loopback.map(u8::from);
    let record = wire::encode(&own.host);
    let mut body = BodyWriter::new();
    body.u8(v4 | v6 << 1).u16(port).bytes(&record);
    card.section(SECTION, SECTION_VERSION, body.as_bytes())
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
