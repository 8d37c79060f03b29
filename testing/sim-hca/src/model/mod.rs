//! A fabric without handles: its whole state, passed by `&mut`.

pub(crate) mod cq;
pub(crate) mod create;
pub(crate) mod datagram;
pub(crate) mod device;
pub(crate) mod life;
pub(crate) mod modify;
pub(crate) mod path;
pub(crate) mod post;
pub(crate) mod qp;
mod refusal;
pub(crate) mod region;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod srq;
pub(crate) mod wire;
pub(crate) mod xrc;

use std::collections::BTreeMap;

use hca::{Errno, errno};
use netmod_core::Time;
use netmod_harness::Rng;

use crate::counts::Stats;
use crate::settings::Settings;

/// Makes the fabric's random numbers differ from those of a test with the same seed.
const CHANCE: u64 = 0x6a09_e667_f3bc_c908;

/// Identifier of an object of a fabric. Identifiers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u32);

/// State of a fabric.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) devices: Vec<device::Device>,
    pub(crate) contexts: Vec<device::Context>,
    pub(crate) channels: BTreeMap<Id, cq::Channel>,
    pub(crate) cqs: BTreeMap<Id, cq::Cq>,
    pub(crate) regions: BTreeMap<Id, region::Region>,
    pub(crate) srqs: BTreeMap<Id, srq::Srq>,
    pub(crate) qps: BTreeMap<Id, qp::Qp>,
    pub(crate) routes: BTreeMap<Id, datagram::AddressHandle>,
    pub(crate) domains: BTreeMap<Id, xrc::Domain>,
    pub(crate) xrcds: BTreeMap<Id, xrc::Xrcd>,
    pub(crate) wire: wire::Wire,
    pub(crate) stats: Stats,
    /// Number of calls until one is refused.
    refuse_in: Option<u64>,
    pub(crate) refused: Option<&'static str>,
    last_id: u32,
    violations: Vec<String>,
}

impl State {
    pub(crate) fn new(settings: Settings) -> State {
        State {
            rng: Rng::new(settings.seed ^ CHANCE),
            settings,
            now: Time::ZERO,
            devices: Vec::new(),
            contexts: Vec::new(),
            channels: BTreeMap::new(),
            cqs: BTreeMap::new(),
            regions: BTreeMap::new(),
            srqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            routes: BTreeMap::new(),
            domains: BTreeMap::new(),
            xrcds: BTreeMap::new(),
            wire: wire::Wire::default(),
            stats: Stats::default(),
            refuse_in: None,
            refused: None,
            last_id: 0,
            violations: Vec::new(),
        }
    }

    pub(crate) fn new_id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    /// Records a call that hardware would punish, up to a maximum number.
    pub(crate) fn violation(&mut self, text: String) {
        const MOST: usize = 10_000;
        if self.violations.len() < MOST {
            self.violations.push(text);
        }
    }

    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Refuses one of the next calls that make or change an object.
    pub(crate) fn refuse(&mut self, nth: u64) {
        (self.refuse_in, self.refused) = (Some(nth), None);
    }

    /// Counts a call that makes or changes an object, and refuses it if requested.
    pub(crate) fn call(&mut self, what: &'static str) -> Result<(), Errno> {
        match &mut self.refuse_in {
            None => Ok(()),
            Some(left) if *left > 1 => {
                *left -= 1;
                Ok(())
            }
            Some(_) => {
                (self.refuse_in, self.refused) = (None, Some(what));
                Err(errno::ENOMEM)
            }
        }
    }

    /// Returns true if a process lives and its device works.
    pub(crate) fn usable(&self, context: usize) -> Result<(), Errno> {
        let context = &self.contexts[context];
        match (context.open, self.devices[context.device].failed) {
            (false, _) => Err(errno::ENODEV),
            (true, true) => Err(errno::EIO),
            (true, false) => Ok(()),
        }
    }
}
