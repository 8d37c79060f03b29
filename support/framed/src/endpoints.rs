//! This side's endpoints, where a device connects endpoints one by one (queue pairs).
//!
//! A VC has at most one endpoint of each kind: one that its own dial offers, one promised to a dial
//! of the peer, one in use. The first two last until a connection is made, or the VC fails or is
//! removed: a repeated dial offers the same endpoint.

use netmod_core::VcId;

use crate::book::Dest;
use crate::conn::{LocalTerms, Offer, To};
use crate::device::{NewEndpoint, Port};
use crate::error::PortError;
use crate::wire::Slot;

/// An endpoint that the device has made.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    port: usize,
    number: u64,
    says: Box<[u8]>,
    /// The peer's name for the connection, if that is known.
    theirs: Option<Slot>,
}

/// A VC's endpoints.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    dialled: Option<Endpoint>,
    promised: Option<Endpoint>,
    used: Option<Endpoint>,
}

/// Endpoints that no VC needs any more. Their last frames may still wait for the device.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Vec<Dest>);

impl Leaving {
    fn add(&mut self, endpoint: Option<Endpoint>) {
        self.0.extend(endpoint.map(|endpoint| Dest { port: endpoint.port, addr: endpoint.number }));
    }

    /// Returns true if an endpoint waits to be closed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes endpoints for which nothing is left to be sent. `waits` is true of those for which a
    /// frame has yet to be sent.
    pub(crate) fn settle<P: Port>(&mut self, ports: &mut [P], waits: impl Fn(Dest) -> bool) {
        self.0.retain(|endpoint| {
            let keep = waits(*endpoint);
            if !keep && let Some(port) = ports.get_mut(endpoint.port) {
                port.close_endpoint(endpoint.addr);
            }
            keep
        });
    }
}

impl Endpoints {
    /// Closes all.
    pub(crate) fn close(&mut self, leaving: &mut Leaving) {
        for endpoint in [self.dialled.take(), self.promised.take(), self.used.take()] {
            leaving.add(endpoint);
        }
    }

    /// Returns the destination of a withdrawal, for the peer that this side has promised an
    /// endpoint, by its name for the connection.
    pub(crate) fn promised_to(&self, slot: Slot) -> Option<Dest> {
        let endpoint = self.promised.as_ref().filter(|endpoint| endpoint.theirs == Some(slot))?;
        Some(Dest { port: endpoint.port, addr: endpoint.number })
    }

    /// Closes the endpoint in use. One promised to the next connection stays.
    pub(crate) fn close_used(&mut self, leaving: &mut Leaving) {
        leaving.add(self.used.take());
    }

    /// Closes the endpoints of a VC that has failed. One promised to a dial since then stays.
    pub(crate) fn fail(&mut self, leaving: &mut Leaving) {
        self.close_used(leaving);
        leaving.add(self.dialled.take());
    }

    /// Adds the endpoint that dials offer to this side's terms. `address` is that of the peer's
    /// endpoint.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn offer<P: Port>(
        &mut self,
        vc: VcId,
        ports: &mut [P],
        leaving: &mut Leaving,
        address: &[u8],
        terms: &mut LocalTerms,
    ) -> Result<(), PortError<P::Error>> {
        let port = usize::from(terms.port);
        if self.dialled.as_ref().is_some_and(|endpoint| endpoint.port != port) {
            leaving.add(self.dialled.take());
        }
        if self.dialled.is_none() {
            self.dialled = make(ports, port, vc, address, None)?;
        }
        if let Some(endpoint) = &self.dialled {
            terms.endpoint.clone_from(&endpoint.says);
        }
        Ok(())
    }

    /// Makes an endpoint for a dial of the peer, connects it, and adds it to this side's terms.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn promise<P: Port>(
        &mut self,
        vc: VcId,
        ports: &mut [P],
        leaving: &mut Leaving,
        offer: &Offer<'_>,
        terms: &mut LocalTerms,
    ) -> Result<(), PortError<P::Error>> {
        leaving.add(self.promised.take());
        let port = usize::from(terms.port);
        let theirs = offer.terms;
        let Some(mut endpoint) = make(ports, port, vc, &theirs.address, Some(&theirs.endpoint))? else {
            return Ok(());
        };
        endpoint.theirs = Some(offer.terms.slot);
        let connected = ports[port].connect_endpoint(endpoint.number, &offer.terms.endpoint);
        terms.endpoint.clone_from(&endpoint.says);
        let kept = self.promised.insert(endpoint);
        if connected.is_err() {
            let number = kept.number;
            self.promised = None;
            ports[port].close_endpoint(number);
        }
        Ok(connected?)
    }

    /// Returns the destination of a new connection's frames if it has an endpoint of its own.
    /// `theirs` are the peer's bytes for its endpoint.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn opened<P: Port>(
        &mut self,
        ports: &mut [P],
        leaving: &mut Leaving,
        to: To,
        theirs: &[u8],
    ) -> Result<Option<Dest>, PortError<P::Error>> {
        let (mut used, other) = match to {
            To::Vc(_) => (self.dialled.take(), self.promised.take()),
            To::Inbound(_) => (self.promised.take(), self.dialled.take()),
        };
        leaving.add(other);
        leaving.add(core::mem::replace(&mut self.used, used.take()));
        let Some(endpoint) = &self.used else { return Ok(None) };
        if matches!(to, To::Vc(_)) {
            ports[endpoint.port].connect_endpoint(endpoint.number, theirs)?;
        }
        Ok(Some(Dest { port: endpoint.port, addr: endpoint.number }))
    }
}

fn make<P: Port>(
    ports: &mut [P],
    port: usize,
    vc: VcId,
    address: &[u8],
    offered: Option<&[u8]>,
) -> Result<Option<Endpoint>, PortError<P::Error>> {
    let of = ports.get_mut(port).ok_or(PortError::Missing)?;
    Ok(of.open_endpoint(vc, address, offered)?.map(|NewEndpoint { number, says }| Endpoint {
        port,
        number,
        says,
        theirs: None,
    }))
}
