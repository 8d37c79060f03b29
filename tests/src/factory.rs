//! The suite's needs of a netmod: making jobs over it, and its abilities.
//!
//! [`NetmodFactory`] and [`Job`] are traits without generics, so that the cases of the suite are
//! compiled once, in this crate, and not again in each test program for each factory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ch3_shim::Config;
use ch3_shim::netset::{AnyNetmod, NetSet};
use ch3_shim::pkt::Packet;
use ch3_shim::{Bootstrap, Builder, Device};
use netmod_core::{Diagnose, GroupId, Header, Module, Netmod, PeerName, Pollers};
use netmod_ofi::{OfiConfig, OfiNetmod, Setup};
use netmod_shm::ShmNetmod;
use netmod_tcp::{TcpConfig, TcpNetmod};
use netmod_wrap::{Capture, CaptureFile, FaultPlan, Faulty};

use crate::jobs::launch::skip;
use crate::loopback::{Fabric, LoopbackNetmod, Options};

/// Abilities of a netmod, or of the way it is set up.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Longest message that goes through in a second or so.
    pub max_bytes: usize,
    /// Messages of a case that sends many.
    pub many: usize,
}

/// Makes jobs over one netmod.
pub trait NetmodFactory: Send + Sync {
    /// For messages.
    fn name(&self) -> String;

    /// Returns true if this machine can run it; if not, a line says why `test` is skipped.
    fn is_available(&self, _test: &str) -> bool {
        true
    }

    /// Returns its abilities.
    fn capabilities(&self) -> Capabilities;

    /// The configuration of the devices, before a case changes it.
    fn config(&self) -> Config;

    /// The only mode in which large messages may move, if it demands one.
    fn large_mode(&self) -> Option<&'static str> {
        None
    }

    /// A job of so many ranks.
    fn job(&self, ranks: u32) -> Arc<dyn Job>;
}

/// State that the ranks of a job share, from which each makes its device.
pub trait Job: Send + Sync {
    /// The device of one rank.
    ///
    /// # Errors
    /// What the device says.
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device>;

    /// The bare netmod of one rank, for tests below the device.
    fn netmod(&self, rank: u32) -> NetSet;

    /// Returns the watchdog's words for a job that hangs.
    fn describe(&self) -> String {
        String::new()
    }
}

/// The group that bare netmods are of.
pub const BARE_GROUP: GroupId = GroupId([7; 16]);

/// The name of a rank of bare netmods.
pub fn bare_name(rank: u32) -> PeerName {
    PeerName { group: BARE_GROUP, rank }
}

/// The job key of bare netmods.
const BARE_KEY: [u8; 32] = [9; 32];

/// A job over a built-in netmod whose ranks share nothing but their configuration.
pub struct BuiltIn {
    bare: Box<dyn Fn(u32) -> AnyNetmod + Send + Sync>,
}

impl BuiltIn {
    /// A job whose bare netmods are made by `bare`, from the rank.
    pub fn job(bare: impl Fn(u32) -> AnyNetmod + Send + Sync + 'static) -> Arc<dyn Job> {
        Arc::new(BuiltIn { bare: Box::new(bare) })
    }

    /// A job over TCP, with these settings of bare netmods.
    pub fn tcp(cfg: TcpConfig, ranks: u32) -> Arc<dyn Job> {
        BuiltIn::job(move |rank| {
            let tcp = TcpNetmod::new(cfg.clone(), bare_name(rank), ranks).expect("a TCP netmod");
            AnyNetmod::Tcp(Box::new(tcp))
        })
    }

    /// A job over libfabric, with these settings of bare netmods.
    pub fn ofi(cfg: OfiConfig, ranks: u32) -> Arc<dyn Job> {
        BuiltIn::job(move |rank| {
            let ofi = OfiNetmod::new(&Setup::new(&cfg), bare_name(rank), ranks);
            assert_eq!(ofi.failure(), None, "a libfabric netmod");
            AnyNetmod::Ofi(Box::new(ofi))
        })
    }
}

impl Job for BuiltIn {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        Builder::new(cfg, boot).build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        let mut netmod = (self.bare)(rank);
        netmod.join_job(BARE_KEY, Pollers::UNKNOWN).expect("a job key is taken");
        NetSet::new(vec![netmod])
    }
}

/// Devices over TCP on the loopback interface.
#[derive(Clone, Debug, Default)]
pub struct Tcp;

impl NetmodFactory for Tcp {
    fn name(&self) -> String {
        "tcp".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 64 << 20, many: 2000 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec!["tcp".into()];
        cfg.tcp.interface = "127.0.0.1".into();
        // The default between hosts. Jobs of processes use the default within a host: off.
        cfg.tcp.resume_local = true;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        BuiltIn::tcp(self.config().tcp, ranks)
    }
}

/// Devices over TCP on the loopback interface, with so many rails each way for large messages.
#[derive(Clone, Debug)]
pub struct Rails(pub usize);

impl NetmodFactory for Rails {
    fn name(&self) -> String {
        format!("tcp with {} rails", self.0)
    }

    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }

    fn config(&self) -> Config {
        let mut cfg = Tcp.config();
        cfg.tcp.rails_loopback = self.0;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        BuiltIn::tcp(self.config().tcp, ranks)
    }
}

/// Devices over a provider of libfabric.
#[derive(Clone, Debug)]
pub struct Ofi {
    /// Value of `NETMOD_OFI_PROVIDER`.
    pub provider: &'static str,
    /// Value of `NETMOD_OFI_LIBRARY`.
    pub library: &'static str,
    /// See [`Capabilities::max_bytes`].
    pub max_bytes: usize,
    /// See [`Capabilities::many`].
    pub many: usize,
}

impl NetmodFactory for Ofi {
    fn name(&self) -> String {
        format!("ofi {}", self.provider)
    }

    /// libfabric 1.17's `shm` keeps pointers to endpoints of its own process that have been closed;
    /// processes do not meet that, ranks that are threads do when one of them dies.
    fn is_available(&self, test: &str) -> bool {
        if self.provider == "shm" && ["a_peer_dies", "a_flooded_peer_dies"].contains(&test) {
            println!("{} {test}: not with ranks that are threads; see the tests of jobs", self.name());
            return false;
        }
        static FOUND: Mutex<Vec<(String, Option<String>)>> = Mutex::new(Vec::new());
        let cfg = self.config().ofi;
        let key = format!("{} {}", cfg.library, cfg.provider);
        let mut found = FOUND.lock().expect("no test panics here");
        let why = match found.iter().find(|(k, _)| *k == key) {
            Some((_, why)) => why.clone(),
            None => {
                let why = OfiNetmod::new(&Setup::new(&cfg), bare_name(0), 1).failure().map(str::to_owned);
                found.push((key, why.clone()));
                why
            }
        };
        if let Some(why) = &why {
            skip(&format!("SKIPPED: {} {test}: {why} (apt-get install libfabric1)", self.name()));
        }
        why.is_none()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: self.max_bytes, many: self.many }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec!["ofi".into()];
        cfg.ofi.provider = self.provider.into();
        cfg.ofi.library = self.library.into();
        // A host has addresses that are of no use within it.
        cfg.ofi.domains = 1;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        BuiltIn::ofi(self.config().ofi, ranks)
    }
}

/// Devices over shared memory.
#[derive(Clone, Debug, Default)]
pub struct Shm;

/// State that the ranks of a job over shared memory share: a folder of their own, which goes with
/// the job.
#[derive(Debug)]
struct ShmJob {
    folder: PathBuf,
    /// Bare netmods, which must all be made before the first one is used.
    bare: Mutex<Vec<Option<ShmNetmod>>>,
    ranks: u32,
}

impl Drop for ShmJob {
    fn drop(&mut self) {
        // The tests check themselves for files that are left.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl ShmJob {
    fn new(ranks: u32) -> ShmJob {
        static JOBS: AtomicU32 = AtomicU32::new(0);
        let n = JOBS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("/dev/shm/test-netmod-{}-{n}", std::process::id()).into();
        std::fs::create_dir(&folder).expect("a folder in /dev/shm");
        ShmJob { folder, bare: Mutex::default(), ranks }
    }

    fn bare(&self, rank: u32) -> ShmNetmod {
        let mut cfg = Shm.config().shm;
        cfg.dir = self.folder.to_string_lossy().into_owned();
        ShmNetmod::new(&cfg, bare_name(rank), self.ranks, self.ranks, None, Pollers::UNKNOWN)
    }
}

impl Job for ShmJob {
    fn device(&self, boot: Box<dyn Bootstrap>, mut cfg: Config) -> ch3_shim::Result<Device> {
        cfg.shm.dir = self.folder.to_string_lossy().into_owned();
        Builder::new(cfg, boot).build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        let mut bare = self.bare.lock().expect("no rank has panicked");
        if bare.is_empty() {
            *bare = (0..self.ranks).map(|r| Some(self.bare(r))).collect();
        }
        let mut shm = bare[rank as usize].take().expect("a rank that has no netmod yet");
        shm.join_job(BARE_KEY, Pollers::UNKNOWN).expect("a job key is taken");
        NetSet::new(vec![AnyNetmod::Shm(Box::new(shm))])
    }
}

impl NetmodFactory for Shm {
    fn name(&self) -> String {
        "shm".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 64 << 20, many: 2000 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec!["shm".into()];
        // Independent of the number of cores.
        cfg.shm.joint = "on";
        // Said, so that messages beyond it are not eager where a ring has room.
        cfg.set("NETMOD_EAGER_MAX", "128K").expect("a setting");
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(ShmJob::new(ranks))
    }
}

/// Devices over shared memory within pairs of ranks, and over TCP between these: as on nodes with
/// two ranks each, or in containers of one machine that have a `/dev/shm` each.
#[derive(Clone, Debug, Default)]
pub struct Islands;

impl NetmodFactory for Islands {
    fn name(&self) -> String {
        "shm and tcp".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 16 << 20, many: 1000 }
    }

    fn config(&self) -> Config {
        let mut cfg = Tcp.config();
        cfg.netmods = vec!["shm".into(), "tcp".into()];
        cfg.set("NETMOD_EAGER_MAX", "128K").expect("a setting");
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        let job = ShmJob::new(ranks);
        for island in 0..ranks.div_ceil(2) {
            std::fs::create_dir(job.folder.join(island.to_string())).expect("a folder in the job's");
        }
        Arc::new(IslandsJob(job))
    }
}

/// A job over shared memory with a folder within its own for each pair of ranks.
struct IslandsJob(ShmJob);

impl Job for IslandsJob {
    fn device(&self, boot: Box<dyn Bootstrap>, mut cfg: Config) -> ch3_shim::Result<Device> {
        let island = (boot.rank() / 2).to_string();
        cfg.shm.dir = self.0.folder.join(island).to_string_lossy().into_owned();
        Builder::new(cfg, boot).build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        self.0.netmod(rank)
    }
}

/// Devices over the netmod in memory.
#[derive(Clone, Debug)]
pub struct Loopback {
    /// Way of delivery.
    pub options: Options,
    /// See [`Capabilities::max_bytes`].
    pub max_bytes: usize,
    /// Longest eager message.
    pub eager_max: usize,
}

impl NetmodFactory for Loopback {
    fn name(&self) -> String {
        format!("loopback, {:?}", self.options)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: self.max_bytes, many: 1000 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods.clear();
        cfg.eager_max = self.eager_max;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        let make = |fabric: &Arc<Fabric>, me| -> Box<dyn Netmod> {
            Box::new(LoopbackNetmod::new(Arc::clone(fabric), me))
        };
        Arc::new(MemoryJob { fabric: Fabric::new(ranks, self.options.clone()), make })
    }
}

/// A job over a fabric in memory.
struct MemoryJob {
    fabric: Arc<Fabric>,
    make: fn(&Arc<Fabric>, PeerName) -> Box<dyn Netmod>,
}

impl Job for MemoryJob {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        let builder = Builder::new(cfg, boot);
        let netmod = (self.make)(&self.fabric, builder.name());
        builder.netmod(netmod).build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        NetSet::new(vec![AnyNetmod::Other((self.make)(&self.fabric, bare_name(rank)))])
    }

    fn describe(&self) -> String {
        self.fabric.describe()
    }
}

/// Another factory's devices, with faults injected.
#[derive(Clone, Debug)]
pub struct Faults<F> {
    /// Factory of the wrapped netmod.
    pub inner: F,
    /// Faults to inject.
    pub plan: FaultPlan,
    /// See [`Capabilities::max_bytes`].
    pub max_bytes: usize,
}

impl<F: NetmodFactory> NetmodFactory for Faults<F> {
    fn name(&self) -> String {
        format!("{} with faults {}", self.inner.name(), self.plan)
    }

    fn is_available(&self, test: &str) -> bool {
        self.inner.is_available(test)
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { max_bytes: inner.max_bytes.min(self.max_bytes), many: inner.many.min(300) }
    }

    fn config(&self) -> Config {
        let mut cfg = self.inner.config();
        cfg.faults = self.plan.to_string();
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(FaultyJob { inner: self.inner.job(ranks), plan: self.plan.clone() })
    }
}

/// Another factory's job, whose bare netmods have faults. Those of devices are in the
/// configuration.
struct FaultyJob {
    inner: Arc<dyn Job>,
    plan: FaultPlan,
}

impl Job for FaultyJob {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        self.inner.device(boot, cfg)
    }

    fn netmod(&self, rank: u32) -> NetSet {
        let wrap = |n| AnyNetmod::Wrapped(Box::new(Faulty::new(n, self.plan.clone(), bare_name(rank))));
        NetSet::new(self.inner.netmod(rank).into_netmods().into_iter().map(wrap).collect())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// Devices over the netmod in memory, with a capture that goes nowhere.
#[derive(Clone, Debug)]
pub struct Captured(pub Loopback);

impl Captured {
    fn capture(fabric: &Arc<Fabric>, me: PeerName) -> Box<dyn Netmod> {
        let inner = LoopbackNetmod::new(Arc::clone(fabric), me);
        let mut now = 0;
        let clock = move || {
            now += 1;
            now
        };
        let file = CaptureFile::new(Box::new(std::io::sink()), "nowhere".into(), Box::new(clock), me, 100);
        let payload_len = |h: &Header| Packet::parse(h).ok().map(|p| p.payload_len());
        Box::new(Capture::new(inner, file, payload_len))
    }
}

impl NetmodFactory for Captured {
    fn name(&self) -> String {
        format!("captured {}", self.0.name())
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn config(&self) -> Config {
        self.0.config()
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(MemoryJob { fabric: Fabric::new(ranks, self.0.options.clone()), make: Captured::capture })
    }
}

/// Another factory's devices, with hardly any room for messages without a receive.
#[derive(Clone, Debug)]
pub struct Tight<F> {
    /// Factory of the netmod with tight limits.
    pub inner: F,
    /// `NETMOD_EAGER_WINDOW`.
    pub window: usize,
    /// `NETMOD_RTS_MAX`.
    pub slots: usize,
}

impl<F: NetmodFactory> NetmodFactory for Tight<F> {
    fn name(&self) -> String {
        format!("{} with a window of {} bytes and {} slots", self.inner.name(), self.window, self.slots)
    }

    fn is_available(&self, test: &str) -> bool {
        self.inner.is_available(test)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn config(&self) -> Config {
        let mut cfg = self.inner.config();
        cfg.eager_window = self.window;
        cfg.rts_max = self.slots;
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        self.inner.job(ranks)
    }
}

/// Another factory's devices, with a mode for large messages: those of more than 24 KiB.
#[derive(Clone, Debug)]
pub struct Lmt<F> {
    /// Factory of the netmod that carries the packets.
    pub inner: F,
    /// `NETMOD_LMT`.
    pub mode: &'static str,
}

impl<F: NetmodFactory> NetmodFactory for Lmt<F> {
    fn name(&self) -> String {
        format!("{} with large messages by {}", self.inner.name(), self.mode)
    }

    fn is_available(&self, test: &str) -> bool {
        self.inner.is_available(test)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn config(&self) -> Config {
        let mut cfg = self.inner.config();
        cfg.lmt = self.mode;
        cfg.lmt_min = 1;
        cfg.eager_max = 24 << 10;
        cfg
    }

    fn large_mode(&self) -> Option<&'static str> {
        Some(self.mode).filter(|mode| *mode != "auto")
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        self.inner.job(ranks)
    }
}
