//! Address vectors.

use std::collections::BTreeMap;

use super::{Id, State};
use crate::errno::{FI_EINVAL, FI_ENOSYS};
use crate::settings::AddressFormat;
use libfabric_sys::consts::{FI_AV_MAP, FI_AV_TABLE};

/// An address vector.
#[derive(Debug)]
pub(crate) struct Vector {
    table: bool,
    pub(crate) rx_ctx_bits: u32,
    entries: BTreeMap<u64, Vec<u8>>,
}

/// Destination of a message: the endpoint with the address, if it exists, and its receive context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) port: Option<usize>,
    pub(crate) rx: usize,
}

impl State {
    /// Opens a vector. `kind`: `FI_AV_MAP`, `FI_AV_TABLE`, or 0 for the provider's choice.
    pub(crate) fn open_vector(&mut self, domain: Id, kind: i32, rx_ctx_bits: i32) -> Result<(Id, i32), i32> {
        let kind = self.av_kind(kind).ok_or(FI_ENOSYS)?;
        let bits = u32::try_from(rx_ctx_bits).ok().filter(|bits| *bits <= 16).ok_or(FI_EINVAL)?;
        let vector = Vector { table: kind == FI_AV_TABLE, rx_ctx_bits: bits, entries: BTreeMap::new() };
        Ok((self.add_vector(domain, vector), kind))
    }

    /// Returns the type of vector for a requested one.
    pub(crate) fn av_kind(&self, wanted: i32) -> Option<i32> {
        let kinds = [(FI_AV_MAP, 1), (FI_AV_TABLE, 2)];
        let offered =
            kinds.iter().filter(|(_, bit)| self.settings.av_types & bit != 0).map(|(kind, _)| *kind);
        offered.into_iter().find(|kind| wanted == 0 || *kind == wanted)
    }

    /// Returns true if an address has this provider's format.
    pub(crate) fn is_address(&self, address: &[u8]) -> bool {
        match self.settings.address {
            AddressFormat::Inet => {
                address.len() == 16 && address[..2] == (libc::AF_INET as u16).to_ne_bytes()
            }
            AddressFormat::Text(_) => {
                address.len() <= 300 && address.starts_with(b"fake://") && address.ends_with(&[0])
            }
        }
    }

    /// Inserts an address; `None` if it is invalid. Its endpoint need not exist until data is sent.
    pub(crate) fn insert_address(&mut self, vector: Id, address: &[u8]) -> Option<u64> {
        if !self.is_address(address) {
            self.violation(format!("fi_av_insert: {address:?} is no address of this provider"));
            return None;
        }
        let noise = self.rng.word();
        let vector = self.vectors.get_mut(&vector)?;
        let number = if vector.table {
            (0..).find(|number| !vector.entries.contains_key(number))?
        } else {
            // Opaque, with the bits of receive contexts clear.
            let mask = u64::MAX >> vector.rx_ctx_bits >> 1;
            let mut number = noise & mask;
            while vector.entries.contains_key(&number) {
                number = number.wrapping_add(0x1001) & mask;
            }
            number
        };
        vector.entries.insert(number, address.to_vec());
        Some(number)
    }

    pub(crate) fn remove_address(&mut self, vector: Id, number: u64) -> Result<(), i32> {
        let found = self.vectors.get_mut(&vector).and_then(|vector| vector.entries.remove(&number));
        if found.is_none() {
            self.violation(format!("fi_av_remove: {number:#x} is not in the address vector"));
            return Err(FI_EINVAL);
        }
        Ok(())
    }

    /// Returns the destination of an operation that names a peer.
    pub(crate) fn destination(&mut self, from: usize, peer: u64, call: &str) -> Result<Destination, i32> {
        let vector = self.ports[from].vector.and_then(|id| self.vectors.get(&id));
        let found = vector.and_then(|vector| {
            let bits = vector.rx_ctx_bits;
            let (rx, number) =
                if bits == 0 { (0, peer) } else { (peer >> (64 - bits), peer & (u64::MAX >> bits)) };
            vector.entries.get(&number).map(|address| (address.clone(), rx as usize))
        });
        let Some((address, rx)) = found else {
            self.violation(format!("{call}: {peer:#x} is not in the address vector"));
            return Err(FI_EINVAL);
        };
        let port = self.addresses.get(&address).copied();
        if rx != 0 && !self.settings.named_rx_ctx {
            self.violation(format!("{call}: receive contexts have no addresses here, and {rx} was named"));
            return Err(FI_EINVAL);
        }
        if let Some(port) = port {
            let there = self.ports[port].rx.len();
            if rx >= there {
                self.violation(format!("{call}: the peer has {there} receive contexts, and {rx} was named"));
                return Err(FI_EINVAL);
            }
        }
        Ok(Destination { port, rx })
    }
}
