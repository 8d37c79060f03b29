//! Reports where `NETMOD_LMT` is not honoured: once in the log, and in the status report.

use std::borrow::Cow;
use std::sync::Arc;

use netmod_core::slab::VcKind;
use netmod_core::{Ability, Module, ReqId, SideTable, VcId};
use netmod_lmt::choice::Policy;
use netmod_lmt::{Mode, Modes};

use super::Lmt;
use super::part::Part;
use super::transfer::Transfer;
use crate::ch3::{Ch3, DevIo};
use crate::tell::warn;

/// Most reasons that are logged; further ones are in the status report alone.
const LOGGED: usize = 8;

/// The reasons why the mode of `NETMOD_LMT` is not taken.
#[derive(Debug, Default)]
pub(super) struct Unmet {
    /// Reasons that were logged.
    logged: Vec<Arc<str>>,
    /// The reason of each VC that has one.
    vcs: SideTable<Arc<str>, VcKind>,
}

/// The reason why a side cannot take part in a mode, if there is one.
#[derive(Debug)]
enum Lack {
    /// It can take part.
    Nothing,
    /// It may be able to later.
    Yet,
    /// It cannot, for this reason.
    Always(Cow<'static, str>),
}

impl Ch3 {
    fn lmt_lack(&mut self, io: &mut DevIo<'_>, vc: VcId, part: Part, mode: Mode) -> Lack {
        match mode {
            Mode::Null => Lack::Nothing,
            Mode::Coop if self.lmt.rings.domain.is_none() => {
                Lack::Always("this process has no shared memory".into())
            }
            Mode::Coop if self.lmt.rings.is_barred(vc) => {
                Lack::Always("memory of the peer's could not be mapped".into())
            }
            Mode::Coop => Lack::Nothing,
            Mode::Put | Mode::Get => {
                let Some(rma) = io.netmod.rma(io.core, vc) else {
                    return Lack::Always("it has no one-sided transfers".into());
                };
                match rma.usable(io.core, vc).map(|rma| part.ability(&rma, mode)) {
                    Ok(Ability::Yes) => Lack::Nothing,
                    Ok(Ability::Soon) => Lack::Yet,
                    Ok(Ability::Never) => Lack::Always(format!("it has no {mode}").into()),
                    Err(why) => Lack::Always(why),
                }
            }
        }
    }

    /// Notes that a side has chosen `modes` for a message of `bytes`.
    pub(super) fn lmt_chosen(&mut self, io: &mut DevIo<'_>, vc: VcId, part: Part, modes: Modes, bytes: u64) {
        let Policy::Only(asked) = self.lmt.choosing.policy else { return };
        if bytes > 0 && !modes.has(asked) {
            self.lmt_without(io, vc, part);
        } else if bytes > 0 && part == Part::Receiver {
            self.lmt_met(vc);
        }
    }

    /// Notes the receiver's answer to an offer for a message of `bytes`.
    pub(super) fn lmt_answered(&mut self, io: &DevIo<'_>, vc: VcId, offered: Modes, mode: Mode, bytes: u64) {
        match self.lmt.choosing.policy {
            Policy::Only(asked) if asked == mode => self.lmt_met(vc),
            Policy::Only(asked) if bytes > 0 && offered.has(asked) => {
                let why = "the receiver has chosen the null mode (has it another NETMOD_LMT?)";
                self.lmt_unmet(io, vc, why, false);
            }
            _ => {}
        }
    }

    /// Notes that the receiver takes the null mode for a message of `bytes`, though both sides had
    /// `modes`.
    pub(super) fn lmt_fell_back(&mut self, io: &DevIo<'_>, vc: VcId, modes: Modes, bytes: u64) {
        if bytes > 0
            && matches!(self.lmt.choosing.policy, Policy::Only(asked) if asked != Mode::Null && modes.has(asked))
        {
            let why = "a transfer could not begin (nothing could be registered, no ring was left, or the system forbids it)";
            self.lmt_unmet(io, vc, why, true);
        }
    }

    /// Notes that a transfer was reported as done. The sender of a get hears nothing else.
    pub(super) fn lmt_moved(&mut self, req: ReqId, vc: VcId) {
        if self.lmt.transfers.get(req).is_some_and(Transfer::is_send) {
            self.lmt_met(vc);
        }
    }

    /// Notes that a peer that does not share this process's memory has offered `modes`.
    pub(super) fn lmt_elsewhere(&mut self, io: &DevIo<'_>, vc: VcId, modes: Modes) {
        let asked = self.lmt.choosing.policy == Policy::Only(Mode::Coop) && modes.has(Mode::Coop);
        if asked && self.lmt.rings.domain.is_some() {
            let why = "the peer does not share this process's memory (is it on another node?)";
            self.lmt_unmet(io, vc, why, true);
        }
    }

    /// Notes that a message goes without the mode of `NETMOD_LMT`.
    #[cold]
    fn lmt_without(&mut self, io: &mut DevIo<'_>, vc: VcId, part: Part) {
        let Policy::Only(mode) = self.lmt.choosing.policy else { return };
        match (self.lmt_lack(io, vc, part, mode), part) {
            (Lack::Always(why), _) => self.lmt_unmet(io, vc, &why, true),
            (Lack::Nothing, Part::Receiver) => {
                let why = "the sender has not offered it (has it another NETMOD_LMT?)";
                self.lmt_unmet(io, vc, why, false);
            }
            (Lack::Nothing | Lack::Yet, _) => {}
        }
    }

    /// Keeps the reason why a VC does not get the mode of `NETMOD_LMT`, and logs a new one. The
    /// peer warns itself of what is its doing (not `own`).
    #[cold]
    pub(super) fn lmt_unmet(&mut self, io: &DevIo<'_>, vc: VcId, why: &str, own: bool) {
        let Policy::Only(mode) = self.lmt.choosing.policy else { return };
        // A checkpoint disturbs it for a while only.
        if self.lmt.choosing.unmet.vcs.get(vc).is_some()
            || mode == Mode::Coop && self.lmt.rings.is_disturbed(vc)
        {
            return;
        }
        let netmod = io.netmod.name_of(io.core.vc(vc).map_or(0, |v| v.netmod));
        let text: Arc<str> = format!(
            "NETMOD_LMT={mode} is not honoured over {netmod}: {why}; large messages go in the null mode there; set \
             NETMOD_LMT=auto, or choose another netmod by NETMOD"
        )
        .into();
        let Unmet { logged, vcs } = &mut self.lmt.choosing.unmet;
        match logged.iter().find(|known| **known == text) {
            Some(known) => vcs.set(vc, Arc::clone(known)),
            None => {
                if logged.len() < LOGGED {
                    logged.push(Arc::clone(&text));
                    // One rank of each node warns.
                    if own && self.boot.local_rank().unwrap_or(self.boot.rank()) == 0 {
                        warn(&text);
                    } else {
                        tracing::info!("{text}");
                    }
                }
                vcs.set(vc, text);
            }
        }
    }

    /// Notes that a message of a VC goes in the mode of `NETMOD_LMT`.
    pub(super) fn lmt_met(&mut self, vc: VcId) {
        self.lmt.choosing.unmet.clear(vc);
    }
}

impl Unmet {
    /// Forgets the reason of a VC.
    pub(super) fn clear(&mut self, vc: VcId) {
        self.vcs.clear(vc);
    }
}

impl Lmt {
    /// Returns the reason why large messages of a VC do not go as `NETMOD_LMT` says.
    pub(crate) fn unmet(&self, vc: VcId) -> Option<String> {
        self.choosing.unmet.vcs.get(vc).map(ToString::to_string)
    }
}
