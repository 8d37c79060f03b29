//! Pairs of interfaces in use: which one a connection goes by, and what is said of that to its other side.

use netmod_core::VcId;

use crate::conn::ConnId;
use crate::hello::{Pairs, RejectReason};
use crate::judge::{Verdict, judge};
use crate::netmod::TcpNetmod;

impl TcpNetmod {
    /// Whether an incoming connection goes by a right pair of interfaces. If not: why, and which ones would be right.
    pub(crate) fn judge_incoming(&mut self, vc: VcId, id: ConnId) -> Result<(), (RejectReason, Pairs)> {
        let (Some(v), Some(c)) = (self.vcs.get(vc), self.conns.get_mut(id)) else { return Ok(()) };
        let Some(proposed) = c.proposed.as_deref() else { return Ok(()) };
        let decides = self.id.name_towards(&v.peer.group) < v.peer;
        let decision = v.ways.as_ref().filter(|_| decides).map(|w| Pairs::new(w.agreement, w.pairs()));
        match judge(proposed, |_| true, decision.filter(|d| !d.as_slice().is_empty()).as_ref()) {
            Verdict::Take(agreed) => {
                c.pair = agreed.as_slice().first().copied().unwrap_or_default();
                c.proposed = Some(Box::new(agreed));
                Ok(())
            }
            Verdict::Refuse(why, better) => {
                tracing::info!(peer = v.peer.rank, %why, ?better, "refused a connection between these interfaces");
                Err((why, better))
            }
        }
    }

    /// The peer refuses the pair of a dial, and says which ones it would take.
    pub(crate) fn other_pair(&mut self, vc: VcId, why: RejectReason, better: &Pairs) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        tracing::info!(peer = v.peer.rank, %why, ?better, "another pair of interfaces");
        if !better.as_slice().is_empty() {
            // The next dial goes by the first of them.
            v.agree(better);
            v.dials = 0;
        }
    }
}
