//! The section of the business card: which segment the process is in, and where.

use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::{Card, CardError, CardWriter};

use crate::NAME;

const VERSION: u16 = 1;
/// Longest reason in bytes.
const MAX_REASON: usize = 400;

/// The reason why a card does not tell where its process is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LocationError {
    /// The peer does not use this netmod.
    #[error("its card has no section of netmod shm")]
    NoSection,
    /// The section is invalid.
    #[error(transparent)]
    Card(#[from] CardError),
}

/// The content of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// The process has a slot in a segment.
    Slot { nonce: [u8; 16], slot: u32, token: [u8; 16] },
    /// It has none, and why.
    Nowhere(String),
}

impl Location {
    pub(crate) fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        let mut body = BodyWriter::new();
        match self {
            Location::Slot { nonce, slot, token } => body.u8(1).raw(nonce).u32(*slot).raw(token),
            Location::Nowhere(why) => {
                let end = (0..=why.len().min(MAX_REASON)).rev().find(|i| why.is_char_boundary(*i));
                body.u8(0).str(&why[..end.unwrap_or(0)])
            }
        };
        card.section(NAME, VERSION, body.as_bytes())
    }

    /// Reads the section of a card.
    ///
    /// # Errors
    /// If there is none, or it is invalid.
    pub(crate) fn of(card: &Card) -> Result<Location, LocationError> {
        let section = card.section(NAME).ok_or(LocationError::NoSection)?;
        let mut r = BodyReader::new("section `shm`", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let mut read = || {
            let place = match r.u8("whether there is a slot")? {
                0 => Location::Nowhere(r.str("why there is no slot")?.to_owned()),
                1 => Location::Slot {
                    nonce: r.array("the segment's nonce")?,
                    slot: r.u32("the slot")?,
                    token: r.array("the slot's token")?,
                },
                _ => {
                    let expected = "it must be 0 or 1";
                    return Err(CardError::Malformed { what: "whether there is a slot", expected });
                }
            };
            Ok(place)
        };
        let place = read()?;
        r.finish()?;
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(place: &Location) -> Card {
        let mut w = CardWriter::new();
        place.emit(&mut w).unwrap();
        Card::parse(&w.finish()).unwrap()
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for place in [
            Location::Slot { nonce: [1; 16], slot: 7, token: [2; 16] },
            Location::Nowhere("no room".into()),
            Location::Nowhere(String::new()),
        ] {
            assert_eq!(Location::of(&card(&place)), Ok(place));
        }
        let long = Location::of(&card(&Location::Nowhere("ä".repeat(1000)))).unwrap();
        assert_eq!(long, Location::Nowhere("ä".repeat(MAX_REASON / 2)));
    }

    #[test]
    fn sections_that_are_cut_or_odd_are_errors() {
        let whole = card(&Location::Slot { nonce: [1; 16], slot: 7, token: [2; 16] });
        let body = whole.section(NAME).unwrap().body.to_vec();
        let read = |body: &[u8]| {
            let mut w = CardWriter::new();
            w.section(NAME, VERSION, body).unwrap();
            Location::of(&Card::parse(&w.finish()).unwrap())
        };
        assert!(read(&body).is_ok());
        for n in 0..body.len() {
            assert!(read(&body[..n]).is_err(), "{n} bytes");
        }
        assert!(read(&[&body[..], &[0]].concat()).is_err());
        assert!(read(&[&[2], &body[1..]].concat()).is_err());
        let empty = Card::parse(&CardWriter::new().finish()).unwrap();
        assert_eq!(Location::of(&empty), Err(LocationError::NoSection));
    }
}
