//! A world of netmods over the fake provider.

use netmod_core::{PeerName, Time};
use netmod_fake_fabric::{Control, Node, Progress, Settings, ToTheDead, World, library_path};
use netmod_harness::schedules::{Run, Seen};
use netmod_ofi::OfiConfig;
use netmod_ofi::{Ofi, OfiNetmod, Setup};

use crate::setting::Setting;

struct Fake {
    world: World,
    settings: Settings,
    cfg: OfiConfig,
}

impl netmod_harness::schedules::World for Fake {
    type Device = Ofi;
    const EARLY_HURTS: bool = false;

    fn netmod(&mut self, _rank: usize, me: PeerName, ranks: u32) -> OfiNetmod {
        OfiNetmod::new(&Setup::new(&self.cfg), me, ranks)
    }

    fn kill(&mut self, rank: usize) {
        self.world.kill(Node::Number(rank));
    }

    /// Events happen when the provider is called.
    fn advance(&mut self, _now: Time) {}

    fn gives_back_alone(&self) -> bool {
        self.settings.progress == Progress::Auto
    }

    fn violations(&self, early: usize) -> Vec<String> {
        let mut all = self.world.violations();
        let before = all.len();
        all.retain(|v| !v.starts_with("remote memory: "));
        // If memory is revoked early, the peer's operation finds nothing. The smallest provider
        // splits a transfer in two.
        if before - all.len() > early.saturating_mul(2) {
            return self.world.violations();
        }
        all
    }

    fn close(self) -> Option<String> {
        let mut leaks = self.world.close();
        if self.settings.to_the_dead == ToTheDead::Again {
            // Messages to processes that have died, or closed their endpoint first, never complete.
            leaks.abandoned = 0;
        }
        (!leaks.is_none()).then(|| format!("{leaks:?}"))
    }
}

/// Runs a schedule.
pub fn run(control: &Control, setting: &Setting) -> Seen {
    let world = World::new(control, setting.world.clone());
    let mut cfg = setting.cfg.clone();
    cfg.library = library_path().to_string_lossy().into_owned();
    cfg.provider = "fake".into();
    cfg.domain = world.name().into();
    let settings = setting.world.clone();
    let seed = settings.seed;
    Run::of(Fake { world, settings, cfg }, setting.plan, seed)
}
