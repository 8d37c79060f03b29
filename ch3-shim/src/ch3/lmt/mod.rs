//! Large messages: transfers, which carry out what the machines of `netmod_lmt` ask for.
//!
//! State: `transfer` (a transfer with its machine, windows, request and peer), `windows` (Put and
//! Get), `rings` (Cooperative), `choosing` and `part` (the choice of a mode), `unmet` (reports
//! where `NETMOD_LMT` is not honoured), `announced` (what RTS offers).
//!
//! Behaviour, in the order of a transfer: `start` (RTS, and the receiver's choice), `answers`
//! (packets of the other side), `cookies` (their arrival and sending), `actions` (what a machine
//! asks for), `exposing` and `moving` (Put and Get), `copy` (Cooperative), `rest` (checkpoints).

mod actions;
mod announced;
mod answers;
mod choosing;
mod cookies;
mod copy;
mod exposing;
mod moving;
mod part;
mod rest;
mod rings;
mod start;
mod transfer;
mod unmet;
mod windows;

use netmod_core::{ReqId, VcId};
use netmod_lmt::Mode;
use netmod_lmt::choice::Policy;

use crate::Config;
use crate::clock::Clock;
use crate::pkt::Packet;
use crate::report::LargeStatus;
pub(crate) use announced::{Announced, Kept};
use choosing::Choosing;
pub(super) use moving::{deregister, unpack};
use rings::Rings;
use transfer::Transfers;

/// Large messages that were received, by `netmod_lmt::Mode`. Always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeStats {
    /// Messages of each mode.
    pub messages: [u64; 4],
    /// Their bytes.
    pub bytes: [u64; 4],
}

impl LargeStats {
    fn count(&mut self, mode: Mode, bytes: u64) {
        self.messages[mode as usize] += 1;
        self.bytes[mode as usize] += bytes;
    }
}

/// The large messages of a device.
#[derive(Debug)]
pub(crate) struct Lmt {
    choosing: Choosing,
    rings: Rings,
    transfers: Transfers,
    /// Packets whose cookies are arriving, by the cookie's request.
    arriving: Vec<(ReqId, Packet)>,
    /// Counts of those that were received.
    pub(crate) received: LargeStats,
}

impl Lmt {
    /// Makes the state for a configuration. `near`: a netmod shares memory with peers; `crowded`:
    /// the node has more ranks than cores. Peers of a simulation are no processes, and share no
    /// memory.
    pub(crate) fn new(cfg: &Config, near: bool, crowded: bool, clock: Clock) -> Lmt {
        let policy = Policy::of_name(cfg.lmt).unwrap_or(Policy::Only(Mode::Null));
        let rings = match policy {
            Policy::Auto => near,
            Policy::Only(mode) => mode == Mode::Coop,
        };
        let rings = Rings::new(rings && matches!(clock, Clock::Machine(_)));
        let choosing = Choosing::new(cfg, policy, rings.domain.is_some(), crowded, clock);
        Lmt {
            choosing,
            rings,
            transfers: Transfers::new(),
            arriving: Vec::new(),
            received: LargeStats::default(),
        }
    }

    /// Returns true if a send can still be taken back, as far as this side knows.
    pub(crate) fn is_offered(&self, req: ReqId) -> bool {
        self.transfers.is_offered(req)
    }

    /// Returns true if more than NETMOD_EAGER_MAX may go eagerly within the node.
    pub(crate) fn leaves_eager_open(&self) -> bool {
        self.choosing.eager_open
    }

    /// Returns the times of a VC's messages, for lengths at which both strategies were tried.
    pub(crate) fn report(&self, vc: VcId) -> Vec<LargeStatus> {
        self.choosing.report(vc)
    }

    /// Ends the time of a transfer that has one; it counts if the message is `whole`.
    fn end_timing(&mut self, req: ReqId, whole: bool) {
        if let Some(t) = self.transfers.get_mut(req) {
            self.choosing.end_timing(t, whole);
        }
    }

    /// Ends a transfer.
    fn end(&mut self, req: ReqId, whole: bool) {
        self.end_timing(req, whole);
        self.transfers.end(req);
    }
}
