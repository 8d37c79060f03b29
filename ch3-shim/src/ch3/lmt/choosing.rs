//! The inputs of the choice of a mode on a VC: what this side can do, its data, and the cost of
//! copies.

use netmod_core::slab::VcKind;
use netmod_core::{Module, ReqId, SideTable, VcId};

use crate::Config;
use netmod_lmt::autotune::{Autotuner, Strategy};
use netmod_lmt::choice::{self, Policy, Side};
use netmod_lmt::probe;
use netmod_lmt::rates::{Measured, Rates};
use netmod_lmt::{Mode, Modes};

use super::part::Part;
use super::transfer::{Machine, Transfer};
use super::unmet::Unmet;
use crate::ch3::{Ch3, DevIo};
use crate::clock::Clock;
use crate::report::LargeStatus;

/// The state of the choice.
#[derive(Debug)]
pub(super) struct Choosing {
    pub(super) policy: Policy,
    pub(super) unmet: Unmet,
    /// Least length that is worth a mode other than Null, in bytes.
    min: u64,
    /// The node has more ranks than cores.
    crowded: bool,
    /// More than NETMOD_EAGER_MAX may go eagerly within the node.
    pub(super) eager_open: bool,
    /// Measured cost of copies.
    rates: Measured,
    /// Times of earlier messages, by VC.
    autotuners: SideTable<Box<Autotuner>, VcKind>,
    clock: Clock,
}

impl Choosing {
    /// Makes the state for a configuration. `rings`: the Cooperative mode is available.
    pub(super) fn new(cfg: &Config, policy: Policy, rings: bool, crowded: bool, clock: Clock) -> Choosing {
        // A user's NETMOD_EAGER_MAX holds.
        let eager_open = cfg.leaves_eager_open() && policy == Policy::Auto && rings && !crowded;
        Choosing {
            policy,
            unmet: Unmet::default(),
            min: cfg.lmt_min as u64,
            crowded,
            eager_open,
            rates: Measured::default(),
            autotuners: SideTable::new(),
            clock,
        }
    }

    /// Chooses between ring and kernel by the times of earlier messages; `model` is what the rates
    /// say.
    pub(super) fn tried_mode(&mut self, vc: VcId, model: Mode, bytes: u64) -> Mode {
        let Some(strategy) = Strategy::of(model) else { return model };
        if self.autotuners.get(vc).is_none() {
            self.autotuners.set(vc, Box::default());
        }
        match self.autotuners.get_mut(vc).map(|tuner| tuner.choose(bytes, strategy)) {
            Some(Strategy::Ring) => Mode::Coop,
            Some(Strategy::Kernel) => Mode::Get,
            None => model,
        }
    }

    /// Begins to take the time of a message.
    pub(super) fn begin_timing(&mut self, vc: VcId, strategy: Option<Strategy>) {
        if let Some(strategy) = strategy
            && let Some(tuner) = self.autotuners.get_mut(vc)
        {
            tuner.begin(strategy, self.clock.now().0);
        }
    }

    /// Ends the time of a transfer that has one; it counts if the message is `whole`.
    pub(super) fn end_timing(&mut self, t: &mut Transfer, whole: bool) {
        let (Some(strategy), Machine::Recv(m)) = (t.timed.take(), &t.machine) else { return };
        let moved = whole.then(|| m.total());
        if let Some(tuner) = self.autotuners.get_mut(t.vc) {
            tuner.end(strategy, moved, self.clock.now().0);
        }
    }

    /// Forgets the times of a VC.
    pub(super) fn drop_vc(&mut self, vc: VcId) {
        self.autotuners.remove(vc);
        self.unmet.clear(vc);
    }

    /// Returns the times of a VC's messages, for lengths at which both strategies were tried.
    pub(super) fn report(&self, vc: VcId) -> Vec<LargeStatus> {
        let status = |(len, ring, kernel)| LargeStatus { len: len as u64, ring, kernel };
        self.autotuners.get(vc).map_or_else(Vec::new, |tuner| tuner.rates().map(status).collect())
    }
}

impl Ch3 {
    /// Returns the modes in which this side can take part on a VC, as far as the policy allows
    /// them.
    ///
    /// Unless the policy asks for them, rings are for peers with whom the netmod itself shares
    /// memory: a user who chose a network for peers of this node gets the network.
    pub(super) fn lmt_modes(&mut self, io: &mut DevIo<'_>, vc: VcId, part: Part) -> Modes {
        let policy = self.lmt.choosing.policy;
        let mut modes = Modes::NULL;
        if self.lmt.rings.may_offer(vc) && (policy != Policy::Auto || io.netmod.is_near(io.core, vc)) {
            modes = modes.with(Mode::Coop);
        }
        let asked = matches!(policy, Policy::Auto | Policy::Only(Mode::Put | Mode::Get));
        if asked
            && let Some(rma) = io.netmod.rma(io.core, vc)
            && let Ok(rma) = rma.usable(io.core, vc)
        {
            let (puts, gets) = match part {
                Part::Sender(bytes) if policy == Policy::Auto && bytes < rma.worth as u64 => (false, false),
                part => [Mode::Put, Mode::Get].map(|mode| part.ability(&rma, mode).is_now()).into(),
            };
            modes = if puts { modes.with(Mode::Put) } else { modes };
            modes = if gets { modes.with(Mode::Get) } else { modes };
        }
        modes
    }

    /// Returns this side's inputs for the message of a request, of `bytes`.
    pub(super) fn lmt_side_of(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        modes: Modes,
        bytes: u64,
    ) -> Side {
        let contiguous = io.core.req(req).is_some_and(|r| r.seg.as_contig().is_some());
        self.lmt_side(io, vc, contiguous, modes, bytes)
    }

    fn lmt_side(&mut self, io: &mut DevIo<'_>, vc: VcId, contiguous: bool, modes: Modes, bytes: u64) -> Side {
        let Choosing { policy, min, crowded, .. } = self.lmt.choosing;
        let (mut rates, mut joint) = (Rates::ASSUMED, false);
        if choice::asks_for_rates(modes, policy) && bytes >= min {
            rates = self.lmt.choosing.rates.at(bytes, measure);
            let usable = io.netmod.rma(io.core, vc).map(|rma| rma.usable(io.core, vc));
            joint = usable.is_some_and(|rma| rma.is_ok_and(|rma| rma.joint as u64 <= bytes));
        }
        Side { modes, policy, min, contiguous, crowded, joint, rates }
    }

    /// Returns true if a message above the VC's eager limit goes eagerly: where the netmod's memory
    /// has room for it, and a get is hardly faster. A ring is not: its use must be agreed on first.
    #[cold]
    pub(in crate::ch3) fn is_eager(&mut self, io: &mut DevIo<'_>, vc: VcId, len: usize) -> bool {
        let Some(v) = io.core.vc(vc) else { return false };
        let (room, is_known) = (v.room().min(self.budget.terms.eager_max()), v.stats.connects > 0);
        if len > room || !self.vcs.get(vc).is_some_and(|s| s.eager_open) {
            return false;
        }
        let modes = self.lmt_modes(io, vc, Part::Sender(len as u64));
        let side = self.lmt_side(io, vc, true, modes, len as u64);
        let got = choice::may_be_got(side, len as u64);
        if is_known && let Some(s) = self.vcs.get_mut(vc) {
            // The same holds for later messages, now that the room is known.
            s.eager_open = false;
            if !got {
                s.eager_max = s.eager_max.max(room as u32);
            }
        }
        !got
    }
}

/// Measures the cost of copies of `len` bytes.
fn measure(len: usize) -> Rates {
    let rates = probe::rates(len).unwrap_or(Rates::ASSUMED);
    tracing::debug!(
        len,
        rates.cached,
        rates.copied,
        rates.kernel,
        "MB/s of copies, for the choice of large messages' modes"
    );
    rates
}
