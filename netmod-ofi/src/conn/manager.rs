//! All connections of a process.

use std::collections::HashMap;

use netmod_core::{PeerName, Time, VcError, VcId};
use netmod_hello::{Identity, Purpose};

use super::{Env, LocalTerms, Params};
use crate::wire::{Kind, Slot};

/// The connections of a process, one for each VC. See the module for the protocol.
#[derive(Debug)]
pub struct Manager {
    params: Params,
    id: Identity,
    by_peer: HashMap<PeerName, VcId>,
    slots: Vec<(u32, VcId)>,
}

impl Manager {
    /// No connections. `id` says by which names and keys peers know this process.
    pub fn new(id: Identity, params: Params) -> Manager {
        Manager { params, id, by_peer: HashMap::new(), slots: Vec::new() }
    }

    /// By which names and keys peers know this process.
    pub fn identity(&self) -> &Identity {
        &self.id
    }

    /// The same, to give it the job's key, groups and ports.
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.id
    }

    /// What governs the connections.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// `vc_init`: the VC of a peer. `purpose` is what its dials are for. If the peer has dialled and waits, it is answered.
    pub fn add(&mut self, vc: VcId, peer: PeerName, purpose: Purpose, env: &mut Env<'_>) {
        let _ = (purpose, env);
        self.by_peer.insert(peer, vc);
    }

    /// `vc_destroy`: ends what there is, without a report.
    pub fn remove(&mut self, vc: VcId, env: &mut Env<'_>) {
        let _ = env;
        self.by_peer.retain(|_, v| *v != vc);
    }

    /// `vc_revive`: a VC that has failed is as after [`Manager::add`].
    pub fn revive(&mut self, vc: VcId) {
        let _ = vc;
    }

    /// `refuse_peer`: the peer that waits gets no VC.
    pub fn refuse(&mut self, peer: &PeerName, env: &mut Env<'_>) {
        let _ = (peer, env);
    }

    /// From now on every peer that dials is told that this process has finalized.
    pub fn shut(&mut self, env: &mut Env<'_>) {
        let _ = env;
    }

    /// Something is to be sent: dials, unless a connection is made or under way. `terms` are for this and later dials.
    pub fn connect(&mut self, vc: VcId, terms: LocalTerms, env: &mut Env<'_>) {
        let _ = (vc, terms, env);
    }

    /// The present dial could not be sent, or its sending has failed; `why` is for people. Another follows.
    pub fn dial_failed(&mut self, vc: VcId, why: &str, env: &mut Env<'_>) {
        let _ = (vc, why, env);
    }

    /// `vc_terminate`, when everything that was to be sent has been, and has completed.
    pub fn terminate(&mut self, vc: VcId, env: &mut Env<'_>) {
        let _ = (vc, env);
    }

    /// The VC has failed, says the driver: RESET to the peer, and [`super::Action::Down`].
    pub fn abort(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        let _ = (vc, error, env);
    }

    /// The answer to [`super::Action::PeerLeft`]: `None` if the VC was idle, and goes on to be; or the error by which it goes down.
    pub fn settle(&mut self, vc: VcId, error: Option<VcError>, env: &mut Env<'_>) {
        let _ = (vc, error, env);
    }

    /// The VC whose open connection this process calls `slot`; `None` if the frame is of none that is open.
    #[inline]
    pub fn lookup(&self, slot: Slot) -> Option<VcId> {
        match self.slots.get(slot.number as usize) {
            Some(&(token, vc)) if token == slot.token && token != 0 => Some(vc),
            _ => None,
        }
    }

    /// A DIAL or ANSWER has come, to this process's endpoint `port`, with `slot` in its header.
    pub fn on_shake(&mut self, kind: Kind, slot: Slot, port: u8, bytes: &[u8], env: &mut Env<'_>) {
        let _ = (kind, slot, port, bytes, env);
    }

    /// A FIN has come, and all DATA that was sent before it.
    pub fn on_fin(&mut self, vc: VcId, env: &mut Env<'_>) {
        let _ = (vc, env);
    }

    /// A FIN_ACK has come.
    pub fn on_fin_ack(&mut self, vc: VcId, env: &mut Env<'_>) {
        let _ = (vc, env);
    }

    /// A RESET has come.
    pub fn on_reset(&mut self, vc: VcId, env: &mut Env<'_>) {
        let _ = (vc, env);
    }

    /// To be called at [`Manager::deadline`].
    pub fn timer(&mut self, env: &mut Env<'_>) {
        let _ = env;
    }

    /// When [`Manager::timer`] is due.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Whether no connection is open or under way, and nobody is owed an answer: the endpoints may be closed.
    pub fn is_quiet(&self) -> bool {
        self.slots.is_empty()
    }
}
