//! Cores that this process shares with others of its node.

use netmod_core::{Card, CardWriter, CpuShare, Pollers};

use crate::bootstrap::Bootstrap;
use crate::ch3::card_key;
use crate::error::{Error, Result};

/// The cores that this process may use, and the other processes of the node.
pub(super) struct Sharing {
    own: CpuShare,
    engines: usize,
    /// Ranks of the job on this node, without this one.
    others: usize,
}

impl Sharing {
    /// Describes this process; `local` ranks of the job are on its node.
    pub(super) fn of_this_process(local: u32, engines: u8) -> Sharing {
        let own = CpuShare::of_this_process().unwrap_or_else(|e| {
            tracing::warn!(%e, "this process takes all cores for its own");
            CpuShare::assumed()
        });
        Sharing { own, engines: engines.into(), others: local.saturating_sub(1) as usize }
    }

    /// Publishes what this process may use.
    pub(super) fn emit(&self, card: &mut CardWriter) -> Result<()> {
        self.own.emit(card).map_err(|e| Error::Config(format!("business card: {e}")))
    }

    /// Assumes that every rank of the node can use this process's cores.
    fn with_all(&self) -> Pollers {
        self.own.pollers(&vec![None; self.others], self.engines)
    }

    /// Returns true if the other ranks' cards are needed: they may have been confined together with
    /// this process, or each to cores of its own.
    fn is_open(&self, threads: usize) -> bool {
        !self.own.whole && self.others > 0 && self.with_all().are_crowded(threads)
    }

    /// Estimates the pollers before there are cards. A process that is confined is taken for one
    /// that a launcher has bound to cores of its own.
    pub(super) fn at_first(&self) -> Pollers {
        if self.own.whole { self.with_all() } else { self.own.pollers(&[], self.engines) }
    }

    /// Returns the pollers that share this process's cores, by the cards, which are published.
    /// `threads`: [`Module::threads`](netmod_core::Module::threads).
    ///
    /// # Errors
    /// If the process manager does not give a card.
    pub(super) fn as_cards_say(&self, boot: &mut dyn Bootstrap, threads: usize) -> Result<Pollers> {
        if !self.is_open(threads) {
            return Ok(self.with_all());
        }
        let Some(ranks) = local_ranks(boot) else { return Ok(self.with_all()) };
        let mut others = Vec::new();
        for rank in ranks {
            let card = boot.get(&card_key(rank, 0))?;
            // A card that is missing or broken is an error for whoever needs that peer.
            let card = card.and_then(|bytes| Card::parse(&bytes).ok());
            others.push(card.and_then(|card| CpuShare::of(&card).ok().flatten()));
            let known = self.own.pollers(&others, self.engines);
            if known.are_crowded(threads) {
                return Ok(known);
            }
        }
        Ok(self.own.pollers(&others, self.engines))
    }
}

/// The other ranks of this process's node. None if the process manager does not tell which these
/// are.
fn local_ranks(boot: &dyn Bootstrap) -> Option<Vec<u32>> {
    let (me, size) = (boot.rank(), boot.size());
    let others = (0..size).filter(|rank| *rank != me);
    match boot.node_of(me) {
        Some(node) => Some(others.filter(|rank| boot.node_of(*rank) == Some(node)).collect()),
        None if boot.local_size() == size => Some(others.collect()),
        None => None,
    }
}

/// Explains what a wait does after empty polls, and why, for status reports.
pub(super) fn explain(pollers: Pollers, threads: usize) -> String {
    let Pollers { processes, engines, millicores } = pollers;
    let cores = format!("{}.{:03}", millicores / 1000, millicores % 1000);
    let cores = cores.trim_end_matches('0').trim_end_matches('.');
    let each = match (engines, threads) {
        (1, 0) => String::new(),
        _ => format!(" ({engines} engines and {threads} threads of libraries in each)"),
    };
    let who = if processes == 1 { "process" } else { "processes" };
    let verdict = if pollers.are_crowded(threads) { "too few" } else { "enough" };
    format!("{processes} {who}{each} on {cores} cores, which is {verdict} for all to spin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_explained() {
        let pollers = |processes, engines, millicores| Pollers { processes, engines, millicores };
        assert_eq!(
            explain(pollers(2, 1, 1000), 0),
            "2 processes on 1 cores, which is too few for all to spin"
        );
        assert_eq!(
            explain(pollers(1, 2, 10_500), 1),
            "1 process (2 engines and 1 threads of libraries in each) on 10.5 cores, which is enough for all to spin"
        );
    }
}
