//! One netmod of any kind: built in, registered, or within a wrapper.

use netmod_core::{
    Checkpoint, Core, Diagnose, DynamicProcesses, Header, Module, Netmod, ReqId, SendBuf, VcError, VcId,
    VcLife, forward,
};

macro_rules! each {
    ($any:expr, $n:ident => $body:expr) => {
        match $any {
            #[cfg(feature = "shm")]
            AnyNetmod::Shm($n) => $body,
            #[cfg(feature = "tcp")]
            AnyNetmod::Tcp($n) => $body,
            #[cfg(feature = "ofi")]
            AnyNetmod::Ofi($n) => $body,
            #[cfg(feature = "verbs")]
            AnyNetmod::Verbs($n) => $body,
            AnyNetmod::Other($n) => $body,
            AnyNetmod::Wrapped($n) => $body,
        }
    };
}
pub(crate) use each;

/// One netmod. Built-in ones are dispatched without a virtual call.
pub enum AnyNetmod {
    /// Shared memory.
    #[cfg(feature = "shm")]
    Shm(Box<netmod_shm::ShmNetmod>),
    /// TCP.
    #[cfg(feature = "tcp")]
    Tcp(Box<netmod_tcp::TcpNetmod>),
    /// libfabric.
    #[cfg(feature = "ofi")]
    Ofi(Box<netmod_ofi::OfiNetmod>),
    /// InfiniBand verbs.
    #[cfg(feature = "verbs")]
    Verbs(Box<netmod_verbs::IbvNetmod>),
    /// Somebody else's.
    Other(Box<dyn Netmod>),
    /// One of them within a wrapper: see [`AnyNetmod::base`].
    Wrapped(Box<dyn Wrapper>),
}

impl std::fmt::Debug for AnyNetmod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(each!(self, n => n.name()))
    }
}

impl AnyNetmod {
    /// [`Netmod::i_start_contig_msg`] of any of them, out of the way of the fastest.
    #[inline(never)]
    pub(crate) fn start(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        each!(self, n => n.i_start_contig_msg(core, vc, hdr, data))
    }
}

/// A netmod around another.
pub trait Wrapper: Netmod {
    /// Returns the wrapped netmod.
    fn inner(&self) -> &AnyNetmod;
    /// Returns the wrapped netmod.
    fn inner_mut(&mut self) -> &mut AnyNetmod;
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

    /// Returns the netmod itself for a change, which the wrappers do not see.
    pub fn base_mut(&mut self) -> &mut AnyNetmod {
        match self {
            AnyNetmod::Wrapped(w) => w.inner_mut().base_mut(),
            base => base,
        }
    }
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
