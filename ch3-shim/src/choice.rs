//! The choice of a VC's netmod: a pure function of the two cards, so that both ends come to the
//! same.
//!
//! A card says in its section `device` which netmods the process has, in its order of preference,
//! and which of them could not start. The order of the process with the lesser name counts. The
//! first netmod in it that both ends have, and that reaches, gets the VC. Whether a netmod reaches
//! is the netmod's to say; where the two ends see that differently, each may connect by another
//! one, which the handshake finds out (`Refusal::OtherNetmod`).

use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::{Card, CardError, CardWriter, PeerName, VcError};

use crate::pkt;

/// Name of the section.
const SECTION: &str = "device";
const VERSION: u16 = 1;
/// Longest reason in a card, in bytes.
const MAX_REASON: usize = 300;
/// Most netmods of a process.
pub(crate) const MAX_NETMODS: usize = 255;

/// A netmod of a process, as its card has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub name: String,
    /// Reason for which it could not start.
    pub failure: Option<String>,
}

/// A process's netmods, as its card lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Version of the packets that it sends and understands.
    pub packets: u16,
    /// Its netmods, the preferred one first.
    pub netmods: Vec<Offered>,
}

impl Offer {
    /// The offer of a process that runs this library.
    pub(crate) fn new(netmods: Vec<Offered>) -> Offer {
        Offer { packets: pkt::VERSION, netmods }
    }

    /// Writes the section.
    ///
    /// # Errors
    /// If it does not fit.
    pub(crate) fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        let mut body = BodyWriter::new();
        body.u16(self.packets).u8(self.netmods.len().min(MAX_NETMODS) as u8);
        for netmod in self.netmods.iter().take(MAX_NETMODS) {
            body.str(&netmod.name);
            match &netmod.failure {
                None => body.u8(0),
                Some(why) => body.u8(1).str(&why[..why.floor_char_boundary(MAX_REASON)]),
            };
        }
        card.section(SECTION, VERSION, body.as_bytes())
    }

    /// Reads the section of a card.
    ///
    /// # Errors
    /// Fails if there is none, or if it is malformed.
    pub(crate) fn of(card: &Card) -> Result<Offer, NoChoice> {
        let section = card.section(SECTION).ok_or(NoChoice::NoSection)?;
        let mut r = BodyReader::new("section `device`", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let mut read = || {
            let packets = r.u16("the version of packets")?;
            let count = r.u8("the number of netmods")?;
            let mut netmods = Vec::with_capacity(count.into());
            for _ in 0..count {
                let name = r.str("a netmod's name")?.to_owned();
                let failure = match r.u8("whether a netmod could start")? {
                    0 => None,
                    1 => Some(r.str("why a netmod could not start")?.to_owned()),
                    _ => {
                        let expected = "it must be 0 or 1";
                        return Err(CardError::Malformed { what: "whether a netmod could start", expected });
                    }
                };
                netmods.push(Offered { name, failure });
            }
            Ok(Offer { packets, netmods })
        };
        let offer = read()?;
        r.finish()?;
        Ok(offer)
    }

    /// The names in order of preference, as `NETMOD` has them.
    pub(crate) fn order(&self) -> String {
        if self.netmods.is_empty() {
            return "empty".into();
        }
        self.netmods.iter().map(|n| n.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Returns the netmods that could not start, with the reasons; empty if all could.
    pub(crate) fn failures(&self) -> String {
        let failed = self.netmods.iter().filter_map(|n| Some(format!("{}: {}", n.name, n.failure.as_ref()?)));
        failed.collect::<Vec<_>>().join("; ")
    }

    /// Returns the reason for which a netmod cannot be used at the end with this offer, which is
    /// `here` or `there`; `None` if it can.
    fn lacks(&self, name: &str, end: &str) -> Option<String> {
        match self.netmods.iter().find(|n| n.name == name) {
            None => Some(format!("not in NETMOD {end}")),
            Some(Offered { failure: Some(why), .. }) => Some(format!("could not start {end}: {why}")),
            Some(_) => None,
        }
    }
}

/// The netmod that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub netmod: String,
    /// Reasons for it and against those before it: one human-readable line.
    pub why: String,
}

/// The reason for which no netmod is chosen. One line of text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoChoice {
    /// The card has no section of the device.
    #[error("its card does not say which netmods it has; does it run another version of this library?")]
    NoSection,
    /// The section is malformed.
    #[error(transparent)]
    Section(#[from] CardError),
    /// The two processes speak different versions.
    #[error(
        "its packets are of version {there}, those of this process of version {here}; start all processes with the \
         same version of this library"
    )]
    Version {
        /// Version of the peer's packets.
        there: u16,
        /// Version of this process's packets.
        here: u16,
    },
    /// No netmod that both have reaches.
    #[error(
        "no netmod reaches it ({reasons}); NETMOD is {here} here and {there} there: is there one that both can use?"
    )]
    NoneReaches {
        /// Reason against each netmod.
        reasons: String,
        /// Netmods of this process, in order.
        here: String,
        /// Netmods of the peer, in order.
        there: String,
    },
}

/// Chooses the netmod of a VC between two processes. The result is the same at both ends if
/// `reaches` is.
///
/// # Errors
/// Fails if the two understand no common version of packets, or have no netmod in common that
/// reaches.
pub(crate) fn choose(
    (me, own): (PeerName, &Offer),
    (peer, theirs): (PeerName, &Offer),
    mut reaches: impl FnMut(&str) -> Result<(), VcError>,
) -> Result<Choice, NoChoice> {
    if own.packets != theirs.packets {
        return Err(NoChoice::Version { there: theirs.packets, here: own.packets });
    }
    let (order, others) = if me < peer { (own, theirs) } else { (theirs, own) };
    let lacks = |name: &str| own.lacks(name, "here").or_else(|| theirs.lacks(name, "there"));
    let mut reasons = String::new();
    for Offered { name, .. } in &order.netmods {
        match lacks(name).or_else(|| Some(reaches(name).err()?.to_string())) {
            None => {
                let same = own.netmods.iter().map(|n| &n.name).eq(theirs.netmods.iter().map(|n| &n.name));
                let whose = match (same, me < peer) {
                    (true, _) => String::new(),
                    (false, true) => format!(" by NETMOD here, which goes before its {}", theirs.order()),
                    (false, false) => {
                        format!(" by its NETMOD {}, which goes before that here", theirs.order())
                    }
                };
                return Ok(Choice { netmod: name.clone(), why: format!("{reasons}{name}: chosen{whose}") });
            }
            Some(why) => reasons.push_str(&format!("{name}: {why}; ")),
        }
    }
    for Offered { name, .. } in
        others.netmods.iter().filter(|n| order.netmods.iter().all(|o| o.name != n.name))
    {
        reasons.push_str(&format!("{name}: {}; ", lacks(name).unwrap_or_default()));
    }
    Err(NoChoice::NoneReaches {
        reasons: reasons.trim_end_matches("; ").to_owned(),
        here: own.order(),
        there: theirs.order(),
    })
}

#[cfg(test)]
mod tests;
