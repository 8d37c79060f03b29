//! Making a device: configuration, process manager, netmods, card, job key.

use crate::Config;
use forks::Origin as Process;
use netmod_core::card::NodeSection;
use netmod_core::config::{Origin, Settings};
use netmod_core::{
    CardWriter, Core, DeviceError, Diagnose, Engine, GroupId, Module, Netmod, PeerName, Pollers, SideTable,
};

use super::dropped::Dropped;
use super::launcher::Asking;
use super::leave::Departure;
use super::register::{NetmodSetup, Registered};
use super::serve::{Served, Server};
use super::shared_boot::Party;
use super::sharing::Sharing;
use super::wait::Waiting;
use super::watch::Watching;
use super::{Cores, Ticks, Vci};
use crate::bootstrap::{Bootstrap, process_manager};
use crate::ch3::{
    Budget, Ch3, Closing, Contexts, DeviceStats, Failures, Group, Groups, JobName, Lmt, Lookups, OneSided,
    Ports, Queues, Requests, Routes, Terms, card_key,
};
use crate::clock::{Clock, VirtualClock};
use crate::error::{Error, Result};
use crate::incident::Incidents;
use crate::netset::{AnyNetmod, Missing, NetSet};
use crate::progress::Guarded;
use crate::tell::warn;
use crate::wrapped::wrap;

/// Name under which rank 0 publishes the job key.
const KEY: &str = "netmod-job-key";
const KEY_LEN: usize = 32;
/// The netmods that NETMOD may name.
const BUILT_IN: &[&str] = &[
    #[cfg(feature = "shm")]
    netmod_shm::NAME,
    #[cfg(feature = "tcp")]
    netmod_tcp::NAME,
    #[cfg(feature = "ofi")]
    netmod_ofi::NAME,
    #[cfg(feature = "verbs")]
    netmod_verbs::NAME,
];
/// Bytes of unused unexpected-message buffers that are kept.
const POOL_BYTES: usize = 4 << 20;
/// Requests that exist without allocating.
const REQUESTS: usize = 64;

/// A device in the making.
pub struct Builder {
    cfg: Config,
    boot: Box<dyn Bootstrap>,
    extra: Vec<Box<dyn Netmod>>,
    /// Netmods that NETMOD may name beside the built-in ones.
    registered: Vec<Registered>,
    clock: Option<VirtualClock>,
    /// Engines of the process of which this is to be one.
    engines: u8,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("cfg", &self.cfg)
            .field("rank", &self.boot.rank())
            .finish_non_exhaustive()
    }
}

/// The group's id: a hash (FNV-1a, twice) of the job's name. It need not be secret; the key is.
fn group_id(job: &str) -> GroupId {
    let fnv =
        |seed: u64| job.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&fnv(0xcbf2_9ce4_8422_2325).to_le_bytes());
    id[8..].copy_from_slice(&fnv(0x6c62_272e_07bb_0142).to_le_bytes());
    GroupId(id)
}

/// A netmod that was opened, or why not.
type Opening = std::result::Result<AnyNetmod, Missing>;

/// Begins a card, which says on which node this process is.
pub(super) fn card_of_node() -> Result<CardWriter> {
    let mut card = CardWriter::new();
    match NodeSection::of_this_process() {
        Ok(node) => node.emit(&mut card).map_err(|e| Error::Config(e.to_string()))?,
        Err(e) => tracing::warn!(%e, "the business card does not say which node this is"),
    }
    Ok(card)
}

/// Adds the netmod's section to the card. A netmod whose section does not fit reaches nobody.
fn publish(netmod: AnyNetmod, card: &mut CardWriter) -> Opening {
    match netmod.business_card(card) {
        Ok(()) => Ok(netmod),
        Err(e) => Err(Missing { name: netmod.name().into(), why: format!("business card: {e}") }),
    }
}

/// The name of a netmod that cannot be used, and why.
fn why_missing(opened: &Opening) -> Option<(&str, &str)> {
    match opened {
        Err(missing) => Some((&missing.name, &missing.why)),
        Ok(netmod) => Some((netmod.name(), netmod.failure()?)),
    }
}

impl Builder {
    /// From the environment: `NETMOD_*` variables and the launcher's.
    ///
    /// # Errors
    /// A variable with a bad value; a launcher that cannot be spoken to.
    pub fn from_env() -> Result<Builder> {
        let cfg = Config::from_env().map_err(|e| Error::Config(e.to_string()))?;
        let pm = process_manager(&cfg).map_err(|e| Error::Launcher(e.to_string()))?;
        Ok(Builder::new(cfg, Box::new(pm)))
    }

    /// From a given configuration and process manager.
    pub fn new(cfg: Config, boot: Box<dyn Bootstrap>) -> Builder {
        Builder { cfg, boot, extra: Vec::new(), registered: Vec::new(), clock: None, engines: 1 }
    }

    /// The configuration, to be changed.
    pub fn config(&mut self) -> &mut Config {
        &mut self.cfg
    }

    /// The number of this process's program in its job, if the process manager counts programs.
    pub fn appnum(&self) -> Option<i32> {
        self.boot.appnum()
    }

    /// Returns the most processes that the launcher expects, if it tells and limits them.
    ///
    /// # Errors
    /// What the process manager says.
    pub fn universe_size(&mut self) -> Result<Option<u32>> {
        self.boot.universe_size().map_err(|e| Error::Launcher(e.to_string()))
    }

    /// Returns true if other processes have asked for this job ([`Vci::spawn`]).
    pub fn is_spawned(&self) -> bool {
        self.boot.is_spawned()
    }

    /// Returns the port at which those who have asked for this job await it.
    ///
    /// # Errors
    /// What the process manager says.
    pub fn parent_port(&mut self) -> Result<Option<String>> {
        Ok(self.boot.parent_port()?)
    }

    /// Names the launcher and its protocol, for people.
    pub fn launcher(&self) -> &'static str {
        self.boot.launcher()
    }

    /// The name that this process will have, which a netmod of the caller's own may need.
    pub fn name(&self) -> PeerName {
        PeerName { group: group_id(&self.boot.job_id()), rank: self.boot.rank() }
    }

    /// Adds a netmod of the caller's own; it is preferred to the built-in ones.
    #[must_use]
    pub fn netmod(mut self, netmod: Box<dyn Netmod>) -> Builder {
        self.extra.push(netmod);
        self
    }

    /// Makes a netmod known by its name, so that `NETMOD` may name it.
    ///
    /// Where `NETMOD` is not set it is preferred to the built-in netmods. Each engine of the
    /// process opens its own. What `open` returns takes part in everything: cards, the choice of
    /// netmods at both ends, the job key, fault injection and capture, status reports.
    ///
    /// # Errors
    /// Fails if the name is taken, or is not of lower-case letters and digits.
    pub fn register<F>(mut self, name: &'static str, open: F) -> Result<Builder>
    where
        F: Fn(&NetmodSetup) -> std::result::Result<Box<dyn Netmod>, DeviceError> + Send + Sync + 'static,
    {
        self.check_name(name)?;
        self.registered.push(Registered::plain(name, open));
        Ok(self)
    }

    /// Makes a netmod with settings known, as [`Builder::register`] does.
    ///
    /// Its table ([`netmod_core::settings!`]) takes part in the configuration: values come from the
    /// environment or [`Builder::config`], and misspelt names are warned about.
    ///
    /// # Errors
    /// Fails as [`Builder::register`] does, if a variable does not begin with `NETMOD_<NAME>_` or
    /// is declared twice, or if the environment has a value that is not accepted.
    pub fn register_with<S, F>(mut self, name: &'static str, open: F) -> Result<Builder>
    where
        S: Settings,
        F: Fn(&NetmodSetup, &S) -> std::result::Result<Box<dyn Netmod>, DeviceError> + Send + Sync + 'static,
    {
        self.check_name(name)?;
        let registered =
            Registered::with(name, &mut self.cfg, open).map_err(|e| Error::Config(e.to_string()))?;
        self.registered.push(registered);
        Ok(self)
    }

    /// Checks the name of a netmod that is to be registered.
    fn check_name(&self, name: &str) -> Result<()> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let why = if name.is_empty() || !name.bytes().all(fits) {
            "a netmod's name is lower-case letters and digits"
        } else if BUILT_IN.contains(&name) || self.registered.iter().any(|r| r.name == name) {
            "there is one of that name"
        } else {
            return Ok(());
        };
        Err(Error::Config(format!("cannot register a netmod as {name:?}: {why}")))
    }

    /// Sets how many engines a device of level [`Multiple`](super::Multiple) has; all processes
    /// must have the same number. The default is `NETMOD_ENGINES`.
    ///
    /// # Errors
    /// A number that is not accepted.
    pub fn engines(mut self, n: usize) -> Result<Builder> {
        self.cfg.set("NETMOD_ENGINES", &n.to_string()).map_err(|e| Error::Config(e.to_string()))?;
        Ok(self)
    }

    /// Takes the builder apart into those of the engines of one process, which share its process
    /// manager.
    pub(super) fn split(self) -> Result<Vec<Builder>> {
        let n = self.cfg.engines;
        let engines = u8::try_from(n).unwrap_or(u8::MAX);
        if engines > 1 && !self.extra.is_empty() {
            return Err(Error::Config("a netmod of the caller's own serves one engine only".into()));
        }
        let mut cfg = self.cfg;
        // The engines share the bounds of the process's memory.
        cfg.unexpected_max /= n;
        let mut extra = self.extra;
        let party = Party::of(self.boot, engines);
        let builder = |boot| {
            let builder = Builder {
                cfg: cfg.clone(),
                boot: Box::new(boot),
                extra: std::mem::take(&mut extra),
                registered: self.registered.clone(),
                clock: self.clock.clone(),
                engines,
            };
            // The first engine warns.
            cfg.drop_unknown();
            builder
        };
        Ok(party.into_iter().map(builder).collect())
    }

    /// Gives the device a simulation's clock instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: VirtualClock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// Warns of variables that mean nothing to anybody.
    fn tell_warnings(&self) {
        for w in self.cfg.warnings() {
            // Once for the job.
            if self.boot.rank() > 0 {
                tracing::debug!("{w}");
            } else {
                warn(&w);
            }
        }
    }

    /// Makes the configuration fit what rank 0 has said.
    fn agree(&mut self, terms: Terms, size: u32) {
        if terms != Terms::of(&self.cfg, size) {
            tracing::warn!(
                ?terms,
                "NETMOD_EAGER_WINDOW, NETMOD_RTS_MAX or NETMOD_UNEXPECTED_MAX differ from rank 0's, which hold"
            );
        }
        if self.cfg.eager_max > terms.eager_max() {
            tracing::info!(
                asked = self.cfg.eager_max,
                in_force = terms.eager_max(),
                "NETMOD_EAGER_MAX is more than half of a peer's window (NETMOD_EAGER_WINDOW, and the peer's \
                 share of NETMOD_UNEXPECTED_MAX)"
            );
            self.cfg.eager_max = terms.eager_max();
        }
    }

    /// Joins the job with one engine.
    pub(super) fn build_vci(self) -> Result<Vci> {
        let mut opened = self.open()?;
        opened.boot().barrier_begin()?;
        opened.join()
    }

    /// Opens the netmods and publishes the card. A barrier must follow.
    pub(super) fn open(mut self) -> Result<Opened> {
        // The signal by which Hydra tells of a death would be the next one. Who cannot prepare for
        // that can still do all else.
        if let Err(e) = self.boot.survive_failures() {
            warn(&format_args!("the death of another rank may end this one, too: {e}"));
        }
        let (rank, size) = (self.boot.rank(), self.boot.size());
        let me = self.name();
        if rank == 0 {
            let mut key = [0; KEY_LEN];
            getrandom::fill(&mut key)
                .map_err(|e| Error::Launcher(format!("no random numbers for the job key: {e}")))?;
            // All processes must know what each grants the others: what rank 0 says.
            let terms = Terms::of(&self.cfg, size).to_bytes();
            let engines = [self.engines];
            self.boot.put(KEY, &[&key[..], &terms[..], &engines[..]].concat())?;
        }
        let sharing = Sharing::of_this_process(self.boot.local_size(), self.engines);
        let pollers = sharing.at_first();
        self.tell_warnings();
        if self.cfg.origin("NETMOD") == Some(Origin::Default) && self.cfg.netmods == Config::default().netmods
        {
            let registered = self.registered.iter().map(|r| r.name.to_owned());
            self.cfg.netmods = registered.chain(self.cfg.netmods.drain(..)).collect();
        }
        let mut mods: Vec<Opening> = self.extra.drain(..).map(|n| Ok(AnyNetmod::Other(n))).collect();
        for name in &self.cfg.netmods {
            mods.extend(self.built_in(name, me, size, pollers)?);
        }
        if mods.is_empty() {
            return Err(Error::Config("NETMOD allows no netmod; try NETMOD=tcp".into()));
        }
        let mut card = card_of_node()?;
        sharing.emit(&mut card)?;
        let mut opened = Vec::with_capacity(mods.len());
        for netmod in mods {
            opened.push(match netmod {
                Ok(netmod) => publish(wrap(netmod, &self.cfg, me)?, &mut card),
                missing => missing,
            });
        }
        self.tell_missing(&opened, size)?;
        let netmod = NetSet::with_missing(opened);
        netmod.offer().emit(&mut card).map_err(|e| Error::Config(format!("business card: {e}")))?;
        let card = card.finish();
        self.boot.put(&card_key(rank, 0), &card)?;
        Ok(Opened { builder: self, netmod, sharing, card })
    }

    /// Opens the netmod of a name, or says why it cannot start. None if the default names it and it
    /// was left out of this build.
    ///
    /// # Errors
    /// A name or setting that means nothing.
    fn built_in(&self, name: &str, me: PeerName, size: u32, pollers: Pollers) -> Result<Option<Opening>> {
        if let Some(registered) = self.registered.iter().find(|r| r.name == name) {
            let opened = registered.open(me, self.boot.as_ref(), pollers, &self.cfg);
            let missing = |e: DeviceError| Missing { name: name.into(), why: e.text().into() };
            return Ok(Some(opened.map(AnyNetmod::Other).map_err(missing)));
        }
        let netmod = match name {
            #[cfg(feature = "shm")]
            netmod_shm::NAME => {
                let (local, node) = (self.boot.local_size(), self.boot.node());
                let shm = netmod_shm::ShmNetmod::new(&self.cfg.shm, me, size, local, node, pollers);
                AnyNetmod::Shm(Box::new(shm.with_ckpt_timeout(self.cfg.ckpt_timeout)))
            }
            #[cfg(feature = "tcp")]
            netmod_tcp::NAME => match netmod_tcp::TcpNetmod::new(self.cfg.tcp.clone(), me, size) {
                Ok(tcp) => AnyNetmod::Tcp(Box::new(tcp.with_ckpt_timeout(self.cfg.ckpt_timeout))),
                Err(netmod_tcp::OpenError::Setting(text)) => return Err(Error::Config(text)),
                Err(netmod_tcp::OpenError::Host(e)) => {
                    return Ok(Some(Err(Missing { name: name.into(), why: e.text().into() })));
                }
            },
            #[cfg(feature = "ofi")]
            netmod_ofi::NAME => {
                let setup = netmod_ofi::Setup { config: self.cfg.ofi.clone(), pollers };
                AnyNetmod::Ofi(Box::new(netmod_ofi::OfiNetmod::new(&setup, me, size)))
            }
            #[cfg(feature = "verbs")]
            netmod_verbs::NAME => {
                let setup = netmod_verbs::Setup::here(&self.cfg.verbs);
                AnyNetmod::Verbs(Box::new(netmod_verbs::IbvNetmod::new(&setup, me, size)))
            }
            _ if self.cfg.origin("NETMOD") == Some(Origin::Default) => return Ok(None),
            unknown => {
                let registered = self.registered.iter().map(|r| r.name);
                let known: Vec<&str> = BUILT_IN.iter().copied().chain(registered).collect();
                return Err(Error::Config(format!(
                    "NETMOD names \"{unknown}\", which this build does not have; it has: {}",
                    known.join(", ")
                )));
            }
        };
        Ok(Some(Ok(netmod)))
    }

    /// Warns of netmods that could not start: the others may reach all peers that there are. One
    /// rank of each node says so.
    ///
    /// # Errors
    /// If there are peers and no netmod at all could start.
    fn tell_missing(&self, opened: &[Opening], size: u32) -> Result<()> {
        let missing: Vec<(&str, &str)> = opened.iter().filter_map(why_missing).collect();
        if size > 1 && missing.len() == opened.len() {
            let text = match &missing[..] {
                [(name, why)] => format!("NETMOD allows {name} only, which cannot be used: {why}"),
                all => {
                    let reasons: Vec<String> =
                        all.iter().map(|(name, why)| format!("{name}: {why}")).collect();
                    format!("NETMOD allows no netmod that can be used ({})", reasons.join("; "))
                }
            };
            return Err(Error::Config(text));
        }
        if self.boot.local_rank().unwrap_or(self.boot.rank()) > 0 {
            missing.iter().for_each(|(name, why)| tracing::info!(name, why, "netmod cannot be used"));
            return Ok(());
        }
        for (name, why) in missing {
            match name {
                #[cfg(feature = "shm")]
                netmod_shm::NAME => {
                    warn(&format_args!("the ranks of this node share no memory, which is slower: {why}"));
                }
                _ => warn(&format_args!("netmod {name} cannot be used: {why}")),
            }
        }
        Ok(())
    }

    /// Returns true if no thread is to send what calls leave staged: it is switched off, or time is
    /// a simulation's, which does so by itself.
    pub(super) fn is_without_helper(&self) -> bool {
        self.cfg.progress == "off" || self.clock.is_some()
    }

    /// The netmods are open, and the barrier has been entered: waits for all processes.
    fn join(mut self, mut netmod: NetSet, sharing: &Sharing, card: Vec<u8>) -> Result<Vci> {
        let (rank, size) = (self.boot.rank(), self.boot.size());
        let me = self.name();
        while !self.boot.barrier_poll()? {
            let fds: Vec<_> = self.boot.fd().into_iter().collect();
            let nap = std::time::Duration::from_millis(if fds.is_empty() { 1 } else { 1000 });
            crate::sys::wait_readable(&fds, nap).map_err(|e| Error::Launcher(format!("poll: {e}")))?;
        }
        let threads = netmod.threads();
        let pollers = sharing.as_cards_say(self.boot.as_mut(), threads)?;
        let cores = Cores { pollers, threads };
        let crowded = cores.are_crowded();
        let key = self.boot.get(KEY)?;
        let Some(key) = key else {
            return Err(Error::Launcher(format!(
                "rank 0 has published no job key ({KEY}), without which no job starts; did it die, or is it another program?"
            )));
        };
        let (key, terms, engines) = job_key(&key).ok_or_else(|| {
            Error::Launcher(format!(
                "rank 0 has published a job key ({KEY}) that this version does not understand; do all processes run \
                 the same program?"
            ))
        })?;
        if engines != self.engines {
            return Err(Error::Config(format!(
                "rank 0 has {engines} engines and this process {}: all need the same thread level and NETMOD_ENGINES",
                self.engines
            )));
        }
        self.agree(terms, size);
        netmod.join_job(key, pollers)?;
        let mut groups = Groups::new(Group::world(me.group, rank, size));
        groups.world.job = Some(JobName::new(me.group, size, key));
        let near = netmod.shares_memory();
        let tick_mask = if self.clock.is_some() { 0 } else { 63 };
        let alone = self.is_without_helper();
        let clock = self.clock.take().map_or_else(Clock::machine, Clock::Virtual);
        let clock_now = clock.now();
        let server = Server::new(&self.cfg, me);
        Ok(Vci {
            engine: Guarded::new(Engine::new(netmod, Core::new(REQUESTS)), alone),
            dropped: std::sync::Arc::new(Dropped::new()),
            origin: Process::here(),
            ch3: Ch3 {
                boot: self.boot,
                groups,
                ports: Ports::new(),
                queues: Queues::new(),
                reqs: Requests::new(POOL_BYTES, clock_now),
                vcs: SideTable::new(),
                routes: Routes::default(),
                lmt: Lmt::new(&self.cfg, near, crowded, clock.clone()),
                onesided: OneSided::default(),
                budget: Budget::new(&self.cfg, terms),
                closing: Closing::default(),
                failures: Failures::default(),
                contexts: Contexts::default(),
                lookups: Lookups::new(card.into()),
                stats: DeviceStats::default(),
                incidents: Incidents::default(),
            },
            ticks: Ticks { clock, polls: 0, mask: tick_mask },
            now: clock_now,
            cores,
            waiting: Waiting::new(self.cfg.spin, crowded, clock_now),
            departure: Departure::default(),
            asking: Asking::new(),
            watching: Watching::new(),
            served: Served { server, made: clock_now, blocked: false },
            cfg: self.cfg,
        })
    }
}

/// Parses the entry that rank 0 has published: the key, what the processes grant each other, and
/// its number of engines.
fn job_key(bytes: &[u8]) -> Option<([u8; KEY_LEN], Terms, u8)> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (engines, terms) = rest.split_last()?;
    Some((*key, Terms::from_bytes(terms.try_into().ok()?)?, *engines))
}

/// A device whose netmods are open, before the barrier that publishes its card.
pub(super) struct Opened {
    builder: Builder,
    netmod: NetSet,
    sharing: Sharing,
    card: Vec<u8>,
}

impl Opened {
    /// The process manager, whose barrier the caller enters.
    pub(super) fn boot(&mut self) -> &mut dyn Bootstrap {
        self.builder.boot.as_mut()
    }

    /// Waits until the barrier has ended, then joins the job.
    pub(super) fn join(self) -> Result<Vci> {
        self.builder.join(self.netmod, &self.sharing, self.card)
    }
}
