//! Opens the netmod's ports, and reports what was opened.

use core::fmt;
use core::marker::PhantomData;

use crate::config::VerbsConfig;
use hca::{GidEntry, Hca};
use hca_ibv::DevicesError;
use netmod_core::{Card, CardError, CardWriter, PeerName};
use netmod_framed::conn::LocalTerms;
use netmod_framed::device::{Device, Opened, Route, Settings, Words};
use netmod_framed::life::Life;
use netmod_framed::wire::UNIT;
use netmod_matching::Host;
use netmod_nics::Found;

use crate::NAME;
use crate::card::{CardPort, PROTOCOL, VerbsCard};
use crate::choose::{PortChoice, chosen, examine, settle};
use crate::error::{OpenError, RouteError};
use crate::pair::{ip_of, pair};
use crate::port::{Options, Port};

/// A source of devices.
pub trait Source<H>: fmt::Debug {
    /// Returns the names of this host's devices.
    ///
    /// # Errors
    /// If they cannot be listed, with what to install.
    fn names(&self) -> Result<Vec<String>, DevicesError>;

    /// Opens a device.
    ///
    /// # Errors
    /// The cause.
    fn open(&self, name: &str) -> Result<H, DevicesError>;
}

/// Parameters for opening the netmod.
#[derive(Debug)]
pub struct Setup<H> {
    /// The user's configuration.
    pub cfg: VerbsConfig,
    /// The source of devices.
    pub source: Box<dyn Source<H>>,
}

/// The opened ports, in the order of the card and of the netmod.
#[derive(Debug)]
pub struct Verbs<H> {
    card: VerbsCard,
    /// Reason for each port's GID, and its use of XRC.
    why: Vec<String>,
    /// Warnings about unused ports.
    notes: Vec<String>,
    _hca: PhantomData<fn() -> H>,
}

/// Examines all ports of all devices.
///
/// # Errors
/// If there are none.
pub fn survey<H: Hca>(setup: &Setup<H>) -> Result<(Vec<PortChoice>, Vec<String>), OpenError> {
    let names = setup.source.names()?;
    if names.is_empty() {
        return Err(OpenError::NoDevice);
    }
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for name in names {
        match setup.source.open(&name) {
            Ok(hca) => all.extend(examine(&hca, &setup.cfg)),
            Err(why) => notes.push(format!("{name}: {why}")),
        }
    }
    settle(&mut all, &setup.cfg);
    Ok((all, notes))
}

impl<H: Hca> Device for Verbs<H> {
    const NAME: &'static str = NAME;
    const WHOLE_BUFFERS: bool = true;
    const LOSES_HANDSHAKES: bool = true;
    const WORDS: Words = Words {
        what: "verbs",
        settings: "NETMOD_VERBS",
        lost: "has its host, or the fabric between, failed?",
        unsent: "does its port answer? `ibv_rc_pingpong` shows that without this library",
        address: "this is a defect of this library",
        again: "a queue is full",
    };
    type Config = Setup<H>;
    type Port = Port<H>;
    type OpenError = OpenError;
    type RouteError = RouteError;

    fn settings(setup: &Setup<H>) -> Settings {
        let cfg = &setup.cfg;
        Settings {
            frame: cfg.frame,
            window: cfg.window,
            register_max: cfg.register_max,
            connect_timeout: cfg.connect_timeout,
            // Datagrams are lost if a peer's queue is full.
            dials: 30,
            hello_max: cfg.hello_max,
        }
    }

    fn open(setup: &Setup<H>, me: PeerName) -> Result<Opened<Verbs<H>>, OpenError> {
        let (all, mut notes) = survey(setup)?;
        notes.extend(all.iter().filter_map(|j| Some(format!("{}: {}", j.name(), j.gid.as_ref().err()?))));
        let host = Found::here().map(|f| f.host).unwrap_or_else(|e| {
            tracing::warn!(%e, "this host's interfaces cannot be listed; subnets of RoCE are not known");
            Host::default()
        });
        let cfg = &setup.cfg;
        let (mut ports, mut cards, mut why) = (Vec::new(), Vec::new(), Vec::new());
        for j in chosen(&all, cfg) {
            let Ok((gid, because)) = j.gid.clone() else { continue };
            let options = Options {
                port: j.port,
                gid_index: gid.index,
                pkey_index: 0,
                frame: cfg.frame,
                rx_memory: cfg.rx_memory,
                xrc: cfg.xrc.then_some(me),
            };
            let opened = setup.source.open(&j.device).map_err(|e| e.to_string());
            let opened = opened.and_then(|hca| Port::open(hca, options).map_err(|e| e.to_string()));
            match opened {
                Ok(port) => {
                    cards.push(card_port(&j, &gid, &host, port.address()));
                    why.push(match port.xrc() {
                        Ok(false) => because.into(),
                        Ok(true) => format!("{because}; XRC"),
                        Err(not) => {
                            tracing::info!(port = j.name(), not, "no XRC: reliable connections are used");
                            format!("{because}; no XRC: {not}")
                        }
                    });
                    ports.push(port);
                }
                Err(e) => notes.push(format!("{}: {e}", j.name())),
            }
        }
        if ports.is_empty() {
            return Err(OpenError::NoPort { reasons: notes });
        }
        for note in &notes {
            tracing::info!(note, "a port of verbs is not used");
        }
        let addresses: Vec<_> = host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip)).collect();
        let life = Life::listen(&addresses, cfg.detect)
            .inspect_err(|e| {
                tracing::warn!(%e, "peers will not notice when this process dies: no socket to listen on");
            })
            .ok();
        let card = VerbsCard {
            protocol: PROTOCOL,
            frame: cfg.frame as u32,
            window: u32::try_from(cfg.window / UNIT).unwrap_or(u32::MAX),
            here: host.location,
            lifeline: life.as_ref().map(Life::endpoints).unwrap_or_default().into(),
            ports: cards,
        };
        Ok(Opened { device: Verbs { card, why, notes, _hca: PhantomData }, ports, life })
    }

    fn emit(&self, card: &mut CardWriter) -> Result<(), CardError> {
        self.card.write(card)
    }

    fn route_to(&self, card: &Card) -> Result<Route, RouteError> {
        let section = card.section(NAME).ok_or(RouteError::NoSection)?;
        let theirs = VerbsCard::parse(section)?;
        let (mine, yours) = pair(&self.card, &theirs)?;
        Ok(Route {
            port: mine as u8,
            peer_port: yours as u8,
            context: 0,
            address: theirs.ports[yours].address.clone(),
            near: self.card.here.is_same(&theirs.here),
            lifeline: theirs.lifeline,
        })
    }

    fn terms(&self, port: u8, peer_port: u8) -> Option<LocalTerms> {
        let of = self.card.ports.get(usize::from(port))?;
        Some(LocalTerms {
            port,
            peer_port,
            window: u16::try_from(self.card.window).unwrap_or(u16::MAX),
            frame: self.card.frame,
            context: 0,
            endpoint: [].into(),
            address: of.address.clone(),
        })
    }

    fn name_of(&self, port: usize) -> String {
        self.card.ports.get(port).map_or_else(|| "?".into(), |p| p.name.clone())
    }

    fn describe(&self) -> String {
        let open = self.card.ports.iter().zip(&self.why).map(|(p, why)| format!("{} ({why})", p.name));
        let open: Vec<String> = open.collect();
        let notes =
            if self.notes.is_empty() { String::new() } else { format!("; {}", self.notes.join("; ")) };
        format!("{}{notes}", open.join(", "))
    }
}

fn card_port(j: &PortChoice, gid: &GidEntry, host: &Host, address: Box<[u8]>) -> CardPort {
    let ip = ip_of(gid.gid);
    let of = host.nics.iter().flat_map(|n| &n.addresses).find(|a| a.ip == ip);
    CardPort {
        name: j.name(),
        kind: gid.kind,
        prefix: of.map(|a| a.prefix),
        speed: j.attr.map(|a| a.speed).filter(|s| *s > 0),
        mtu: j.attr.map_or(0, |a| a.active_mtu.bytes()),
        address,
    }
}
