//! What the choice of a mode goes by on a VC: what this side can take part in, its data, and what copies cost here.

use netmod_core::{Module, ReqId, VcId};
use netmod_lmt::autotune::Strategy;
use netmod_lmt::choice::{self, Policy, Side};
use netmod_lmt::probe;
use netmod_lmt::rates::Rates;
use netmod_lmt::{Mode, Modes};

use super::{Lmt, Machine};
use crate::ch3::{Ch3, DevIo};
use crate::report::LargeStatus;

/// The part that this side has in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It sends so many bytes.
    Sender(u64),
    Receiver,
}

impl Ch3 {
    /// The modes in which this side can take part on a VC, as far as its wish asks for them.
    ///
    /// Unless they are asked for, rings are for peers with whom the netmod itself shares memory: who chose a network
    /// for peers of this node gets the network.
    pub(super) fn lmt_modes(&mut self, io: &mut DevIo<'_>, vc: VcId, part: Part) -> Modes {
        let mut modes = Modes::NULL;
        let rings = self.lmt.domain.is_some()
            && !self.lmt.resting
            && !self.lmt.lanes.get(vc).is_some_and(|l| l.barred);
        if rings && (self.lmt.policy != Policy::Auto || io.netmod.is_near(io.core, vc)) {
            modes = modes.with(Mode::Coop);
        }
        let asked = matches!(self.lmt.policy, Policy::Auto | Policy::Only(Mode::Put | Mode::Get));
        if asked
            && let Some(rma) = io.netmod.rma(io.core, vc)
            && let Ok(rma) = rma.usable(io.core, vc)
        {
            let (puts, gets) = match part {
                Part::Sender(bytes) if self.lmt.policy == Policy::Auto && bytes < rma.worth as u64 => {
                    (false, false)
                }
                part => [Mode::Put, Mode::Get].map(|mode| part.ability(&rma, mode).is_now()).into(),
            };
            modes = if puts { modes.with(Mode::Put) } else { modes };
            modes = if gets { modes.with(Mode::Get) } else { modes };
        }
        modes
    }

    /// What this side decides by about the message of a request, of `bytes`.
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
        let (policy, min, crowded) = (self.lmt.policy, self.lmt.min, self.lmt.crowded);
        let (mut rates, mut joint) = (Rates::ASSUMED, false);
        if choice::asks_for_rates(modes, policy) && bytes >= min {
            rates = self.lmt.rates.at(bytes, measure);
            let usable = io.netmod.rma(io.core, vc).map(|rma| rma.usable(io.core, vc));
            joint = usable.is_some_and(|rma| rma.is_ok_and(|rma| rma.joint as u64 <= bytes));
        }
        Side { modes, policy, min, contiguous, crowded, joint, rates }
    }

    /// Whether a message that is longer than what always goes eagerly on a VC does so all the same, because a get would not be faster.
    #[cold]
    pub(in crate::ch3) fn is_eager(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        len: usize,
        contiguous: bool,
    ) -> bool {
        let most = self.budget.most_eager(self.budget.terms);
        if len > most || !self.vcs.get(vc).is_some_and(|s| s.eager_open) {
            return false;
        }
        let bytes = len as u64;
        let modes = self.lmt_modes(io, vc, Part::Sender(bytes));
        let side = self.lmt_side(io, vc, contiguous, modes, bytes);
        let got = choice::is_got(side, bytes);
        if contiguous
            && !got
            && let Some(s) = self.vcs.get_mut(vc)
        {
            // It will not be for others either.
            (s.eager_max, s.eager_open) = (most as u32, false);
        }
        !got
    }
}

impl Ch3 {
    /// The mode of a message that could go through a ring or be got, by what those before it have taken; the other argument is the model's.
    pub(super) fn tried_mode(&mut self, vc: VcId, model: Mode, bytes: u64) -> Mode {
        let Some(strategy) = Strategy::of(model) else { return model };
        if self.lmt.autotuners.get(vc).is_none() {
            self.lmt.autotuners.set(vc, Box::default());
        }
        match self.lmt.autotuners.get_mut(vc).map(|tuner| tuner.choose(bytes, strategy)) {
            Some(Strategy::Ring) => Mode::Coop,
            Some(Strategy::Kernel) => Mode::Get,
            None => model,
        }
    }

    /// The data of a message begins to move.
    pub(super) fn lmt_timed(&mut self, vc: VcId, strategy: Option<Strategy>) {
        if let Some(strategy) = strategy
            && let Some(tuner) = self.lmt.autotuners.get_mut(vc)
        {
            tuner.begin(strategy, self.lmt.clock.now().0);
        }
    }

    /// A message has come by the way that is timed, or does not any more.
    pub(super) fn lmt_took(&mut self, req: ReqId, whole: bool) {
        let Some(t) = self.lmt.transfers.get_mut(req) else { return };
        let (Some(strategy), Machine::Recv(m)) = (t.timed.take(), &t.machine) else { return };
        let moved = whole.then(|| m.total());
        if let Some(tuner) = self.lmt.autotuners.get_mut(t.vc) {
            tuner.end(strategy, moved, self.lmt.clock.now().0);
        }
    }
}

impl Lmt {
    /// What messages of a VC's peer have taken, of lengths of which both ways were tried.
    pub(crate) fn report(&self, vc: VcId) -> Vec<LargeStatus> {
        let status = |(len, ring, kernel)| LargeStatus { len: len as u64, ring, kernel };
        self.autotuners.get(vc).map_or_else(Vec::new, |tuner| tuner.rates().map(status).collect())
    }
}

/// What copies of `len` bytes cost here.
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
