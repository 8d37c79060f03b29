//! The conformance suite over verbs, on simulated devices: plain ones, poor ones, and a network
//! that delays and refuses; over reliable connections, and over XRC with several processes on a
//! node. What hardware would have punished, and what is left open at the end, is a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::netset::{AnyNetmod, NetSet};
use ch3_shim::{ANY_TAG, Bootstrap, Builder, Device, Error};
use hca::{LinkLayer, Mtu};
use netmod_core::{Diagnose, Module, Netmod, PeerName, Pollers, Time};
use netmod_sim_hca::{DeviceId, DeviceSettings, Fabric, Faults, Leaks, Settings};
use netmod_sim_verbs::{Only, Opened};
use netmod_tests::board::{run_devices, run_job_with};
use netmod_tests::conformance::closing;
use netmod_tests::factory::{Capabilities, Job, Lmt, NetmodFactory, bare_name};
use netmod_tests::jobs::sys::thread_cpu_time;

/// Devices on a simulated fabric.
#[derive(Clone, Debug)]
struct Sim {
    fabric: Settings,
    device: DeviceSettings,
    /// Bytes of receive buffers.
    rx_memory: usize,
    /// Time of silence after which a peer is asked for a sign of life.
    detect: Duration,
    /// Over how many nodes the ranks are dealt out, if they are to use XRC.
    nodes: Option<u32>,
}

/// The fabric of a job, whose time goes with the machine's.
struct SimJob {
    sim: Sim,
    ranks: u32,
    fabric: Fabric,
    devices: Vec<DeviceId>,
    /// Devices that each thread, which stands for a process, has opened.
    opened: Opened,
    over: Arc<AtomicBool>,
    clock: Option<JoinHandle<()>>,
}

impl Drop for SimJob {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.clock.take().map(JoinHandle::join) {
            eprintln!("the fabric's clock has failed");
        }
        if !std::thread::panicking() {
            let violations = self.fabric.violations();
            assert!(violations.is_empty(), "{violations:#?}");
            assert_eq!(self.fabric.leaks(), Leaks::default());
        }
    }
}

impl SimJob {
    fn verbs(&self, me: PeerName, size: u32, key: [u8; 32]) -> Box<dyn Netmod> {
        let sim = &self.sim;
        let mut cfg = sim.config().verbs;
        (cfg.rx_memory, cfg.detect) = (sim.rx_memory, sim.detect);
        cfg.xrc = sim.nodes.is_some();
        let device = self.devices[me.rank as usize % self.devices.len()];
        let source = Only { fabric: self.fabric.clone(), device, opened: self.opened.clone() };
        let mut netmod = netmod_sim_verbs::netmod(cfg, source, me, size);
        assert_eq!(netmod.failure(), None, "a netmod of verbs");
        assert_eq!(netmod.opened().ends_with("; XRC)"), sim.nodes.is_some(), "{}", netmod.opened());
        netmod.join_job(key, Pollers::UNKNOWN).expect("a job key is taken");
        netmod_sim_verbs::boxed(netmod)
    }
}

impl Job for SimJob {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        let size = boot.size();
        let builder = Builder::new(cfg, boot);
        let netmod = self.verbs(builder.name(), size, [9; 32]);
        builder.netmod(netmod).build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        NetSet::new(vec![AnyNetmod::Other(self.verbs(bare_name(rank), self.ranks, [9; 32]))])
    }
}

impl Sim {
    /// A job, whose fabric is of use to the caller.
    fn start(&self, ranks: u32) -> SimJob {
        let fabric = Fabric::new(self.fabric.clone());
        let nodes = self.nodes.unwrap_or(1);
        let devices = (0..nodes).map(|_| fabric.device(self.device.clone())).collect();
        let over = Arc::new(AtomicBool::new(false));
        let (all, until, since) = (fabric.clone(), over.clone(), Instant::now());
        let clock = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                all.advance(Time::ZERO + since.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (sim, opened) = (self.clone(), Opened::default());
        SimJob { sim, ranks, fabric, devices, opened, over, clock: Some(clock) }
    }
}

impl NetmodFactory for Sim {
    fn name(&self) -> String {
        "verbs, simulated".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 4 << 20, many: 500 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods.clear();
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(self.start(ranks))
    }
}

/// A network without delay, and devices with all that there is.
fn plain() -> Sim {
    let fabric = Settings { delay_min: Duration::ZERO, delay_max: Duration::ZERO, ..Settings::default() };
    Sim {
        fabric,
        device: DeviceSettings::new("sim0"),
        rx_memory: 1 << 20,
        detect: Config::default().verbs.detect,
        nodes: None,
    }
}

/// Queues are short, packets and messages are short, nothing can be sent inline, and there are few
/// receives.
fn poor() -> Sim {
    let mut sim = plain();
    sim.rx_memory = 64 << 10;
    let device = &mut sim.device;
    (device.mtu, device.max_inline, device.max_msg_size, device.link_layer) =
        (Mtu::B1024, 0, 100_000, LinkLayer::Ethernet);
    (device.attr.max_qp_wr, device.attr.max_qp_rd_atom, device.attr.max_qp_init_rd_atom) = (64, 1, 1);
    sim
}

/// Packets are late or lost, and receives are missed.
fn rough() -> Sim {
    let mut sim = plain();
    (sim.fabric.delay_min, sim.fabric.delay_max) = (Duration::ZERO, Duration::from_micros(200));
    sim.fabric.faults = Faults { loss: 0.001, rnr: 0.01, ..Faults::default() };
    sim
}

/// The same over XRC.
fn shared(nodes: u32, sim: Sim) -> Sim {
    Sim { nodes: Some(nodes), ..sim }
}

fn lmt(inner: Sim, mode: &'static str) -> Lmt<Sim> {
    Lmt { inner, mode }
}

/// Jobs whose devices are on one fabric.
#[derive(Clone)]
struct Beside(Arc<SimJob>);

impl NetmodFactory for Beside {
    fn name(&self) -> String {
        self.0.sim.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.sim.capabilities()
    }

    fn config(&self) -> Config {
        self.0.sim.config()
    }

    fn job(&self, _ranks: u32) -> Arc<dyn Job> {
        Arc::clone(&self.0) as Arc<dyn Job>
    }
}

/// Kills what the calling thread has opened: its device says nothing any more, as when the process
/// has died.
fn die(job: &SimJob, dev: Device) {
    let opened = job.opened.lock().expect("no panic").clone();
    let me = std::thread::current().id();
    opened.iter().filter(|(thread, _)| *thread == me).for_each(|(_, context)| job.fabric.kill(*context));
    drop(dev);
}

/// A job is met, and its processes die before their first message: whoever waits for one is told,
/// root or not, by a receive and by a probe.
#[test]
fn a_job_that_dies_before_its_first_message_is_noticed() {
    const LONG: Duration = Duration::from_secs(60);
    for sim in [plain(), shared(2, plain())] {
        let world = Arc::new(Sim { detect: Duration::from_millis(500), ..sim }.start(2));
        let beside = Beside(Arc::clone(&world));
        let (tell, port) = sync_channel(1);
        let (tell, port) = (Mutex::new(tell), Mutex::new(port));
        // Nobody dies before all have met.
        let met = Arc::new(Barrier::new(4));
        let (guests, all) = (beside.clone(), met.clone());
        let guests = std::thread::spawn(move || {
            run_devices(
                &guests,
                2,
                |_| {},
                move |mut dev| {
                    let comm = dev.world();
                    let port =
                        (dev.rank() == 0).then(|| port.lock().expect("no panic").recv().expect("a port"));
                    let _inter = dev.connect(port.as_ref(), comm, 0, LONG).expect("connect");
                    all.wait();
                    die(&world, dev);
                },
            )
        });
        run_devices(
            &beside,
            2,
            |_| {},
            move |mut dev| {
                let (me, comm) = (dev.rank() as i32, dev.world());
                let port = (me == 0).then(|| dev.open_port().expect("a port"));
                if let Some(port) = &port {
                    tell.lock().expect("no panic").send(port.clone()).expect("the guests listen");
                }
                let inter = dev.accept(port.as_ref(), comm, 0, LONG).expect("accept").comm();
                met.wait();
                let end = Instant::now() + LONG;
                let lost = dev.recv(&mut [0; 8], me, 1, inter).map(drop);
                assert!(matches!(&lost, Err(Error::Peer(_))), "rank {me}: a receive: {lost:?}");
                let lost = dev.probe(1 - me, ANY_TAG, inter).map(drop);
                assert!(matches!(&lost, Err(Error::Peer(_))), "rank {me}: a probe: {lost:?}");
                assert!(Instant::now() < end, "it took long");
            },
        );
        guests.join().expect("the guests have met their hosts");
    }
}

#[test]
fn an_init_fails() {
    closing::an_init_fails(&plain());
    closing::an_init_fails(&shared(2, plain()));
}

/// A rank that waits sleeps until the device has something for it.
#[test]
fn an_idle_rank_sleeps() {
    const WAIT: Duration = Duration::from_millis(2000);
    let used = run_job_with(
        &plain(),
        2,
        |_| {},
        |dev| {
            let world = dev.world();
            dev.barrier(world).expect("barrier");
            if dev.rank() == 0 {
                std::thread::sleep(WAIT);
                dev.send(&[1], 1, 0, world).expect("send");
                return Duration::ZERO;
            }
            let before = thread_cpu_time().expect("the time used");
            dev.recv(&mut [0], 0, 0, world).expect("recv");
            thread_cpu_time().expect("the time used") - before
        },
    );
    assert!(used[1] < WAIT / 100, "{:?} of {WAIT:?}", used[1]);
}

netmod_tests::conformance!(plain_null, lmt(plain(), "null"));
netmod_tests::conformance!(plain_get, lmt(plain(), "get"));
netmod_tests::conformance!(poor_put, lmt(poor(), "put"));
netmod_tests::conformance!(rough_auto, rough());
netmod_tests::conformance!(xrc_null, lmt(shared(1, plain()), "null"));
netmod_tests::conformance!(xrc_get, lmt(shared(2, plain()), "get"));
netmod_tests::conformance!(xrc_put, lmt(shared(2, poor()), "put"));
netmod_tests::conformance!(xrc_auto, shared(2, plain()));
