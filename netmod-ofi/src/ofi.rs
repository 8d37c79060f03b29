//! Opens the netmod's domains, and reports what was opened.

use std::path::Path;

use crate::config::OfiConfig;
use libfabric_sys::Library;
use netmod_core::{Card, CardError, CardWriter, PeerName, Pollers};
use netmod_framed::conn::LocalTerms;
use netmod_framed::device::{Device, Opened, Route, Settings, Words};
use netmod_framed::life::Life;
use netmod_framed::wire::UNIT;

use crate::NAME;
use crate::card::{CardDomain, FrameLimits, OwnCard, PeerCard, pair};
use crate::choose::{contexts, has_thread, survey};
use crate::error::{FabricError, OpenError, RouteError};
use crate::fi::info::Offer;
use crate::fi::port::{Options, Port, Share};
use crate::leftovers::{self, Mark};

/// Parameters for opening the netmod.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The user's configuration.
    pub config: OfiConfig,
    /// Processes that share the node's cores. By default this decides how a wait blocks.
    pub pollers: Pollers,
}

impl Setup {
    /// Makes the parameters for a process that knows nothing about its node.
    pub fn new(config: &OfiConfig) -> Setup {
        Setup { config: config.clone(), pollers: Pollers::UNKNOWN }
    }

    /// Returns true if waits shall use a descriptor, given the provider's number of threads. With a
    /// descriptor, providers do extra work per message, up to a third of a short message's time.
    /// Without one, a waiting process polls; that costs nothing where each process has a core of
    /// its own.
    fn wants_descriptor(&self, threads: usize) -> bool {
        match self.config.wait {
            "fd" => true,
            "none" => false,
            _ => self.pollers.are_crowded(threads),
        }
    }
}

/// The opened domains, in the order of the card and of the ports.
#[derive(Debug)]
pub struct Ofi {
    card: OwnCard,
    /// Maximum frame length in bytes, by port.
    frames: Vec<u32>,
    /// Description of each port's share of its endpoint.
    shares: Vec<String>,
    /// Warnings about domains that could not be opened.
    notes: Vec<String>,
    /// Marks of endpoints whose memory would be left over if this process were killed.
    marks: Vec<Mark>,
}

impl Device for Ofi {
    const NAME: &'static str = NAME;
    const WORDS: Words = Words {
        what: "libfabric",
        settings: "NETMOD_OFI",
        lost: "see its own log (FI_LOG_LEVEL=warn)",
        unsent: "does the provider reach that host? fi_pingpong shows it without this library",
        address: "NETMOD_OFI_PROVIDER chooses another provider",
        again: "FI_EAGAIN",
    };
    type Config = Setup;
    type Port = Port;
    type OpenError = OpenError;
    type RouteError = RouteError;

    fn settings(setup: &Setup) -> Settings {
        let cfg = &setup.config;
        Settings {
            frame: cfg.frame,
            window: cfg.window,
            register_max: cfg.register_max,
            connect_timeout: cfg.connect_timeout,
            dials: 4,
            hello_max: cfg.hello_max,
        }
    }

    /// Loads libfabric, selects domains, and opens them. Engines of the same process may share
    /// them.
    fn open(setup: &Setup, me: PeerName) -> Result<Opened<Ofi>, OpenError> {
        let cfg = &setup.config;
        let path = (!cfg.library.is_empty()).then(|| Path::new(&cfg.library));
        let library = Library::load(path)?;
        let (offers, host) = survey(&library, cfg).into_chosen()?;
        let (mut ports, mut domains, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shares, mut notes) = (Vec::new(), Vec::new());
        let threads = offers.iter().filter(|o| has_thread(&o.provider)).count();
        let descriptor = setup.wants_descriptor(threads);
        let options = Options { frame: cfg.frame, rx_memory: cfg.rx_memory, descriptor };
        let (mut first, mut marks) = (None, Vec::new());
        for offer in &offers {
            let opened = open_port(library, offer, cfg, options, me.rank).and_then(|(port, share)| {
                let address = port.endpoint().address()?;
                Ok((port, address, share))
            });
            match opened {
                Ok((port, address, share)) => {
                    match Mark::new(Path::new(leftovers::FOLDER), &address) {
                        Ok(mark) => marks.extend(mark),
                        Err(e) => notes.push(format!(
                            "{}: its shared memory stays in {} if this process is killed: {e}",
                            offer.provider,
                            leftovers::FOLDER
                        )),
                    }
                    domains.push(CardDomain::new(offer.facts(), &address, port.endpoint().context()));
                    shares.push(share);
                    frames.push(port.longest_frame() as u32);
                    ports.push(port);
                    first.get_or_insert(offer);
                }
                Err(why) => notes.push(format!("{} {}: {why}", offer.provider, offer.domain)),
            }
        }
        sweep(&marks);
        let Some(first) = first else { return Err(OpenError::NoDomain { reasons: notes }) };
        for note in &notes {
            tracing::warn!(note, "a domain of libfabric cannot be opened");
        }
        let blind = ports.iter().any(|p| p.endpoint().wait_fd().is_none());
        if blind && cfg.wait == "fd" {
            let why = "no descriptor to wait on: the provider has none that reports every event; waiting ranks poll";
            notes.push(why.into());
            tracing::warn!("{} has {why}", first.provider);
        } else if blind {
            notes.push("waiting ranks poll, without a descriptor (NETMOD_OFI_WAIT)".into());
        }
        let units = u32::try_from(cfg.window / UNIT).unwrap_or(u32::MAX);
        let longest = frames.iter().max().copied().unwrap_or_default();
        let limits = FrameLimits { frame: longest, window: units };
        let addresses: Vec<_> = host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip)).collect();
        let life = match Life::listen(&addresses, cfg.detect) {
            Ok(life) => Some(life),
            Err(e) => {
                notes.push(format!(
                    "peers will not notice when this process dies: no socket to listen on: {e}"
                ));
                tracing::warn!(%e, "peers will not notice when this process dies: no socket to listen on");
                None
            }
        };
        let lifeline = life.as_ref().map(Life::endpoints).unwrap_or_default();
        let card = OwnCard::new(library.version(), first.facts(), limits, &host, &lifeline, domains);
        Ok(Opened { device: Ofi { card, frames, shares, notes, marks }, ports, life })
    }

    fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        self.card.write(card)
    }

    fn route_to(&self, card: &Card) -> Result<Route, RouteError> {
        let section = card.section(NAME).ok_or(RouteError::NoSection)?;
        let theirs = PeerCard::parse(section)?;
        let (mine, yours) = pair(&self.card, &theirs)?;
        Ok(Route {
            port: mine as u8,
            peer_port: yours as u8,
            context: theirs.domains[yours].context,
            address: theirs.domains[yours].address.clone(),
            near: self.card.location.shares_network(&theirs.location),
            lifeline: theirs.lifeline,
        })
    }

    fn terms(&self, port: u8, peer_port: u8) -> Option<LocalTerms> {
        let domain = self.card.domains.get(usize::from(port))?;
        Some(LocalTerms {
            port,
            peer_port,
            window: u16::try_from(self.card.window).unwrap_or(u16::MAX),
            frame: *self.frames.get(usize::from(port))?,
            context: domain.context,
            endpoint: [].into(),
            address: domain.address.clone(),
        })
    }

    fn name_of(&self, port: usize) -> String {
        let domain = self.card.domains.get(port).map_or("?", |d| &*d.name);
        format!("{} {domain}", self.card.provider)
    }

    /// One thread per domain.
    fn threads(&self) -> usize {
        if has_thread(&self.card.provider) { self.card.domains.len() } else { 0 }
    }

    fn describe(&self) -> String {
        let open = self.shares.iter().enumerate().map(|(i, share)| format!("{}{share}", self.name_of(i)));
        let open: Vec<String> = open.collect();
        let notes =
            if self.notes.is_empty() { String::new() } else { format!("; {}", self.notes.join("; ")) };
        format!("{}{notes}", open.join(", "))
    }
}

/// Removes the memory of killed processes, if this process has memory of the same kind.
fn sweep(marks: &[Mark]) {
    let Some(mark) = marks.first() else { return };
    let files = mark.sweep(Path::new(leftovers::FOLDER));
    if files > 0 {
        tracing::info!(files, "shared memory of killed processes was removed from {}", leftovers::FOLDER);
    }
}

impl Drop for Ofi {
    fn drop(&mut self) {
        sweep(&self.marks);
    }
}

/// Opens an offer: a context of an endpoint shared by engines if that is requested and possible,
/// else a plain endpoint. Returns a description of the port's share of its endpoint, if the user
/// has asked for contexts.
fn open_port(
    library: Library,
    offer: &Offer,
    cfg: &OfiConfig,
    options: Options,
    process: u32,
) -> Result<(Port, String), FabricError> {
    let open = |contexts| Port::of(library, offer, options, Share { contexts, process });
    let shared = match contexts(cfg, offer.facts()) {
        Ok(contexts) => open(contexts).map_err(|why| Some(format!("a scalable one cannot be opened: {why}"))),
        Err(why) => Err(why),
    };
    match shared {
        Ok(port) => {
            let (context, contexts) = port.endpoint().context();
            Ok((port, format!(" (context {context} of {contexts})")))
        }
        Err(why) => Ok((open(1)?, why.map_or_else(String::new, |why| format!(" (a plain endpoint: {why})")))),
    }
}
