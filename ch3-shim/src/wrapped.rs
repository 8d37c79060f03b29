//! Netmods within wrappers: fault injection and capture, as the configuration asks for.

use crate::Config;
use netmod_core::{
    Checkpoint, Diagnose, DynamicProcesses, Header, Module, Netmod, PeerName, VcLife, forward,
};
use netmod_wrap::{Capture, CaptureFile, FaultPlan, Faulty};

use crate::error::{Error, Result};
use crate::netset::{AnyNetmod, each};
use crate::pkt::Packet;

/// A netmod around another.
pub trait Wrapper: Netmod {
    /// What it wraps.
    fn inner(&self) -> &AnyNetmod;
    /// What it wraps.
    fn inner_mut(&mut self) -> &mut AnyNetmod;
}

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

impl AnyNetmod {
    /// The netmod itself, without its wrappers: whoever needs to know which one it is asks here.
    pub fn base(&self) -> &AnyNetmod {
        let mut at = self;
        while let AnyNetmod::Wrapped(w) = at {
            at = w.inner();
        }
        at
    }

    /// As [`AnyNetmod::base`]. What is done to it the wrappers do not see.
    pub fn base_mut(&mut self) -> &mut AnyNetmod {
        match self {
            AnyNetmod::Wrapped(w) => w.inner_mut().base_mut(),
            base => base,
        }
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

/// Finds what is wrapped, for [`netmod_core::forward`].
macro_rules! any {
    ($netmod:expr, [$($vc:ident),*], $n:ident => $body:expr) => {
        each!($netmod, $n => $body)
    };
}

impl VcLife for AnyNetmod {
    forward!(any: vc_init, set_card, refuse_peer, vc_destroy, vc_terminate, vc_abort, watch_peer, vc_revive);
}

impl DynamicProcesses for AnyNetmod {
    forward!(any: connect_to_root, open_port, close_port, join_group, leave_group);
}

impl Checkpoint for AnyNetmod {
    forward!(any: can_ckpt, ckpt_shutdown, ckpt_restart, ckpt_peer);
}

// SAFETY: each call goes to one netmod, which keeps the contract.
#[allow(unsafe_code)]
unsafe impl Netmod for AnyNetmod {
    forward!(any: i_send_contig, i_start_contig_msg, send_noncontig, cancel_send, control_frame, flush, poll, release, wait_fd, arm, deadline);
}

impl Module for AnyNetmod {
    forward!(any: name, threads, shares_memory, join_job, business_card, reachable, rma, finalize);
}

impl Diagnose for AnyNetmod {
    forward!(any: failure, opened, describe, report, break_connection);
}
