//! Random schedules of netmods over simulated devices: two to four processes in one thread, simulated time, and all that devices and a network
//! may lack, delay or lose; over reliable connections, and over XRC with several processes on a node. `NETMOD_TEST_SEEDS` says how many seeds are run, or which (`5000..10000`), `NETMOD_TEST_SEED` which one alone.

#[path = "world/only.rs"]
mod only;

use std::time::Duration;

use hca::{LinkLayer, Mtu};
use netmod_core::config::VerbsConfig;
use netmod_core::{Config, PeerName, Time};
use netmod_harness::schedules::data::seeded;
use netmod_harness::schedules::{Plan, Run, Seen, World, asked, each};
use netmod_sim_hca::{DeviceId, DeviceSettings, Fabric, Faults, Leaks, Settings, SimHca, TgtLife};
use netmod_verbs::{Setup, Verbs, VerbsNetmod};
use only::{Only, Opened};

/// Seeds without a wish: the first so many, and some that have found something.
const SEEDS: u64 = 300;
const FOUND: [u64; 2] = [29_777, 49_477];
const FOUND_OVER_XRC: [u64; 2] = [46_522, 54_562];

#[derive(Clone, Debug)]
struct Setting {
    fabric: Settings,
    device: DeviceSettings,
    cfg: VerbsConfig,
    plan: Plan,
    /// On which node each rank is.
    nodes: Vec<usize>,
    /// Which ranks want XRC.
    wants: Vec<bool>,
    /// A node whose device has none.
    without: Option<usize>,
}

/// What a seed makes of it.
fn of_seed(seed: u64) -> Setting {
    let mut rng = seeded(seed ^ 0x5EED);
    let mut cfg = Config::default().verbs;
    cfg.frame = rng.pick(&[1 << 10, 1500, 4 << 10, 8 << 10]);
    cfg.window = rng.pick(&[4 << 10, 8 << 10, 20_000, 64 << 10, 256 << 10]);
    cfg.rx_memory = rng.pick(&[64 << 10, 64 << 10, 256 << 10]);
    cfg.register_max = rng.pick(&[0, 0, 0, 16 << 10]);
    cfg.connect_timeout = Duration::from_secs(20);
    cfg.detect = Duration::from_secs(1);
    let kills = rng.one_in(8);
    let plan = Plan {
        ranks: 2 + rng.below(3) as usize,
        steps: 40 + rng.below(300) as usize,
        longest: rng.pick(&[200, 3000, 20_000]),
        terminates: rng.one_in(3),
        aborts: rng.one_in(4),
        kills,
        fails: false,
        transfers: !rng.one_in(4),
        early: rng.one_in(3),
    };
    let fabric = Settings {
        seed,
        delay_min: Duration::ZERO,
        delay_max: Duration::from_micros(rng.pick(&[0, 2, 50, 1000])),
        faults: Faults {
            loss: rng.pick(&[0.0, 0.0, 0.001, 0.02]),
            rnr: rng.pick(&[0.0, 0.0, 0.05]),
            ..Faults::default()
        },
        ..Settings::default()
    };
    let mut device = DeviceSettings::new("sim0");
    device.mtu = rng.pick(&[Mtu::B1024, Mtu::B4096]);
    device.max_inline = rng.pick(&[0, 60, 220]);
    device.link_layer = rng.pick(&[LinkLayer::InfiniBand, LinkLayer::Ethernet]);
    device.max_msg_size = rng.pick(&[16 << 10, 20_000, 1 << 30]);
    device.attr.max_qp_wr = rng.pick(&[4, 16, 256]);
    device.attr.max_srq_wr = rng.pick(&[8, 32_767]);
    (device.attr.max_qp_rd_atom, device.attr.max_qp_init_rd_atom) = rng.pick(&[(1, 1), (16, 16)]);
    device.srq_limit_at_once = rng.one_in(2);
    let (nodes, wants) = (vec![0; plan.ranks], vec![false; plan.ranks]);
    Setting { fabric, device, cfg, plan, nodes, wants, without: None }
}

/// The same over XRC.
fn of_seed_with_xrc(seed: u64) -> Setting {
    let mut s = of_seed(seed);
    let mut rng = seeded(seed ^ 0x3C3C);
    s.fabric.tgt_life = rng.pick(&[TgtLife::Handles, TgtLife::Domain]);
    s.plan.ranks = 2 + rng.below(4) as usize;
    let nodes = 1 + rng.below(3);
    s.nodes = (0..s.plan.ranks).map(|_| rng.below(nodes) as usize).collect();
    s.wants = (0..s.plan.ranks).map(|_| !rng.one_in(8)).collect();
    s.without = rng.one_in(8).then(|| rng.below(nodes) as usize);
    // A refusal that is lost leaves the sender without any answer, and takes all ends of its lane along.
    let refuses = s.plan.kills || s.plan.early || s.plan.aborts;
    if refuses {
        s.fabric.faults.loss = 0.0;
    }
    s
}

struct Sim {
    fabric: Fabric,
    devices: Vec<DeviceId>,
    setting: Setting,
    /// What each process has opened.
    opened: Vec<Opened>,
}

impl World for Sim {
    type Device = Verbs<SimHca>;
    const EARLY_HURTS: bool = true;

    fn netmod(&mut self, rank: usize, me: PeerName, ranks: u32) -> VerbsNetmod<SimHca> {
        let opened = Opened::default();
        self.opened.push(opened.clone());
        let device = self.devices[self.setting.nodes[rank]];
        let source = Only { fabric: self.fabric.clone(), device, opened };
        let cfg = VerbsConfig { xrc: self.setting.wants[rank], ..self.setting.cfg.clone() };
        VerbsNetmod::new(&Setup { cfg, source: Box::new(source) }, me, ranks)
    }

    fn kill(&mut self, rank: usize) {
        for context in self.opened[rank].lock().expect("nobody panics with it").drain(..) {
            self.fabric.kill(context);
        }
    }

    fn advance(&mut self, now: Time) {
        self.fabric.advance(now);
    }

    /// A device is not through with memory before it has its answer, or the connection is given up.
    fn gives_back_alone(&self) -> bool {
        false
    }

    fn violations(&self, _early: usize) -> Vec<String> {
        self.fabric.violations()
    }

    fn close(self) -> Option<String> {
        let leaks = self.fabric.leaks();
        (leaks != Leaks::default()).then(|| format!("{leaks:?}"))
    }
}

fn run(setting: &Setting) -> Seen {
    let fabric = Fabric::new(setting.fabric.clone());
    let nodes = setting.nodes.iter().max().map_or(1, |most| most + 1);
    let devices = (0..nodes)
        .map(|node| {
            let xrc = setting.without != Some(node);
            fabric.device(DeviceSettings { xrc, ..setting.device.clone() })
        })
        .collect();
    let world = Sim { fabric, devices, setting: setting.clone(), opened: Vec::new() };
    Run::of(world, setting.plan, setting.fabric.seed)
}

/// Whatever the devices are like and whatever goes wrong: bytes are right and in order, nothing comes twice, every request ends, no rule
/// is broken, nothing is left.
#[test]
fn random_schedules() {
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..SEEDS).chain(FOUND).collect());
    let all = each(&seeds, of_seed, run);
    // The schedules are of no use if what they are for does not happen.
    if seeds.len() as u64 >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}

/// The same where processes of a node share receiving queue pairs: a death hurts nobody else, and whoever has no XRC is talked to without.
#[test]
fn random_schedules_over_xrc() {
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..SEEDS).chain(FOUND_OVER_XRC).collect());
    let all = each(&seeds, of_seed_with_xrc, run);
    if seeds.len() as u64 >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}
