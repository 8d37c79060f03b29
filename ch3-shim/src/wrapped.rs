//! Netmods within wrappers: fault injection and capture, as the configuration asks for.

use netmod_core::{Header, Module, PeerName};
use netmod_wrap::{Capture, CaptureFile, FaultPlan, Faulty};

use crate::any_netmod::{AnyNetmod, Wrapper};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::pkt::Packet;

impl Wrapper for Faulty<AnyNetmod> {
    fn inner(&self) -> &AnyNetmod {
        Faulty::inner(self)
    }
    fn inner_mut(&mut self) -> &mut AnyNetmod {
        Faulty::inner_mut(self)
    }
}

impl Wrapper for Capture<AnyNetmod> {
    fn inner(&self) -> &AnyNetmod {
        Capture::inner(self)
    }
    fn inner_mut(&mut self) -> &mut AnyNetmod {
        Capture::inner_mut(self)
    }
}

/// Puts the wrappers around a netmod that the configuration asks for.
///
/// # Errors
/// A setting that cannot be used.
pub(crate) fn wrap(netmod: AnyNetmod, cfg: &Config, me: PeerName) -> Result<AnyNetmod> {
    let mut netmod = netmod;
    if !cfg.faults.is_empty() {
        let plan: FaultPlan = cfg.faults.parse().map_err(|e| Error::Config(format!("NETMOD_FAULTS: {e}")))?;
        if plan.concerns(me.rank) {
            netmod = AnyNetmod::Wrapped(Box::new(Faulty::new(netmod, plan, me)));
        }
    }
    if !cfg.capture.is_empty() {
        // Outermost: what the device sends and gets to see, faults included.
        let stem = format!("{}-{:?}-{}-{}", cfg.capture, me.group, me.rank, netmod.name());
        let file = CaptureFile::create(&stem, me, cfg.capture_snap);
        let payload_len = |h: &Header| Packet::parse(h).ok().map(|p| p.payload_len());
        netmod = AnyNetmod::Wrapped(Box::new(Capture::new(netmod, file, payload_len)));
    }
    Ok(netmod)
}
