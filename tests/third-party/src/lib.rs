//! A netmod of somebody else's: what it takes to add one without touching the device.
//!
//! It puts a netmod in memory behind a name, a card section and a setting of its own, and lets
//! nothing through before it has the job key. [`register`] is all that a program calls.

use std::sync::{Arc, Mutex, PoisonError};

use ch3_shim::Builder;
use netmod_core::config::Kind;
use netmod_core::{
    Card, CardError, CardWriter, Checkpoint, Core, DeviceError, Diagnose, DynamicProcesses, Events, Module,
    Netmod, PeerName, PollOrder, Pollers, Report, Time, VcError, VcLife, forward, settings,
};
use netmod_tests::loopback::{Fabric, LoopbackNetmod, Options};

/// Its name, as in `NETMOD=third`.
pub const NAME: &str = "third";

settings! {
    /// Settings of the netmod `third`.
    ThirdConfig: "A third party's netmod" {
        label: String = "plain".to_owned(), "NETMOD_THIRD_LABEL", Kind::Text { max: 64 },
            "label by which a status report tells the netmod from others";
    }
    check: |_| Ok(())
}

/// Parameters of a rank when it joins the job: the job key, and who shares its cores.
pub type Joined = ([u8; 32], Pollers);

/// State that the ranks of a job in one process share.
#[derive(Clone)]
pub struct Room {
    fabric: Arc<Fabric>,
    joined: Arc<Mutex<Vec<Joined>>>,
    shares_memory: bool,
    broken: Option<&'static str>,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl Room {
    /// The room of a job of so many ranks, with at most `capacity` bytes in flight from one to
    /// another.
    pub fn new(ranks: u32, capacity: usize) -> Room {
        let options = Options { capacity, ..Options::default() };
        Room {
            fabric: Fabric::new(ranks, options),
            joined: Arc::default(),
            shares_memory: false,
            broken: None,
        }
    }

    /// The room whose netmods say that they share memory with their peers.
    #[must_use]
    pub fn with_memory(self) -> Room {
        Room { shares_memory: true, ..self }
    }

    /// The room whose netmods open nothing, for this reason.
    #[must_use]
    pub fn broken(self, why: &'static str) -> Room {
        Room { broken: Some(why), ..self }
    }

    /// Parameters of each rank.
    pub fn joined(&self) -> Vec<Joined> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what is under way, for a test that hangs.
    pub fn describe(&self) -> String {
        self.fabric.describe()
    }
}

/// Registers the netmod with a device's builder.
///
/// # Errors
/// Fails if the name is taken, or if the environment has a label that is not accepted.
pub fn register(builder: Builder, room: &Room) -> ch3_shim::Result<Builder> {
    let room = room.clone();
    builder.register_with(NAME, move |setup, cfg: &ThirdConfig| {
        Ok(Box::new(Third { label: cfg.label.clone(), ..Third::new(&room, setup.me) }))
    })
}

/// The netmod's figures, a type that the device does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThirdReport {
    /// Value of its setting.
    pub label: String,
}

/// The netmod of one rank.
#[derive(Debug)]
pub struct Third {
    inner: LoopbackNetmod,
    room: Room,
    has_key: bool,
    label: String,
}

impl Third {
    /// The netmod of a rank, without settings.
    pub fn new(room: &Room, me: PeerName) -> Third {
        Third {
            inner: LoopbackNetmod::new(Arc::clone(&room.fabric), me),
            room: room.clone(),
            has_key: false,
            label: ThirdConfig::default().label,
        }
    }
}

/// Finds what is wrapped, for [`netmod_core::forward`].
macro_rules! inner {
    ($wrapper:expr, [$($vc:ident),*], $n:ident => $body:expr) => {{
        let Self { inner: $n, .. } = $wrapper;
        $body
    }};
}

impl Module for Third {
    forward!(inner: threads, rma, finalize);

    fn name(&self) -> &'static str {
        NAME
    }

    fn shares_memory(&self) -> bool {
        self.room.shares_memory
    }

    fn join_job(&mut self, job_key: [u8; 32], pollers: Pollers) -> Result<(), DeviceError> {
        self.has_key = true;
        self.room.joined.lock().unwrap_or_else(PoisonError::into_inner).push((job_key, pollers));
        self.inner.join_job(job_key, pollers)
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card.section(NAME, 1, &[])?;
        self.inner.business_card(card)
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        let none = || VcError::of_card("its card has no section of netmod third");
        card.section(NAME).ok_or_else(none)?;
        self.inner.reachable(card)
    }
}

impl VcLife for Third {
    forward!(inner: vc_init, set_card, refuse_peer, vc_destroy, vc_terminate, vc_abort, watch_peer, vc_revive);
}

impl DynamicProcesses for Third {
    forward!(inner: connect_to_root, open_port, close_port, join_group, leave_group);
}

impl Checkpoint for Third {
    forward!(inner: can_ckpt, ckpt_shutdown, ckpt_restart, ckpt_peer);
}

impl Diagnose for Third {
    forward!(inner: describe, break_connection);

    fn report(&self) -> Option<Report> {
        Some(Box::new(ThirdReport { label: self.label.clone() }))
    }

    fn failure(&self) -> Option<&str> {
        self.room.broken
    }

    fn opened(&self) -> String {
        format!("{}: {}", self.label, self.inner.opened())
    }
}

// SAFETY: each call goes to the loopback netmod, which keeps the contract.
#[allow(unsafe_code)]
unsafe impl Netmod for Third {
    forward!(inner: i_send_contig, i_start_contig_msg, send_noncontig, cancel_send, control_frame);
    forward!(inner: flush, release, wait_fd, arm, deadline);

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        if !self.has_key {
            return Err(DeviceError::new(NAME, "has no job key"));
        }
        self.inner.poll(core, order, now, events)
    }
}
