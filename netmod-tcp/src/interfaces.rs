//! This host's interfaces: what is published of them, how they are paired with a peer's, and when
//! they have changed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use crate::config::TcpConfig;
use netmod_core::{DeviceError, Time};
use netmod_matching::{Answer, Cut, Filter, Kind, Limits, Location, Query, Routes, Rules, Side, pair, quote};
use netmod_nics::{Found, Lookups, Watch};

use crate::NAME;
use crate::card::Published;
use crate::error::OpenError;
use crate::route::{Paired, Route, RouteError, Via, is_link_local};

/// Delay between a change and the next look at the interfaces: changes come in showers.
const SETTLING: std::time::Duration = std::time::Duration::from_millis(50);

/// Time that an interface which has come up must stay up before connections go back to it; doubled
/// each time that it goes down again within [`CALM`].
pub(crate) const HOLD: std::time::Duration = std::time::Duration::from_secs(1);
/// Most doublings.
const FLAPS: u8 = 6;
/// An interface that is up for so long does not flap any more.
const CALM: std::time::Duration = std::time::Duration::from_secs(120);

/// An interface that has come up.
#[derive(Clone, Copy, Debug)]
struct Risen {
    since: Time,
    /// Times that it came up shortly after it had come up.
    flaps: u8,
}

/// This host's interfaces.
#[derive(Debug)]
pub(crate) struct Interfaces {
    rules: Rules,
    /// Speeds that the user knows better, in Mb/s.
    speeds: Vec<(Filter, u32)>,
    /// The families of addresses at which this process listens: IPv4, IPv6.
    families: [bool; 2],
    published: Published,
    /// Socket of route lookups, made at the first lookup.
    lookups: Option<Lookups>,
    /// Tells of changes, from the first time on that interfaces were paired with those of another
    /// host.
    watch: Option<Watch>,
    has_remote_peers: bool,
    /// Time of the next look at the interfaces, or `NEVER`.
    pub(crate) look_at: Time,
    /// Interfaces that have come up since the beginning.
    risen: HashMap<u32, Risen>,
    /// The pairs with each peer's interfaces, since the last change. The flag: this process
    /// decides.
    paired: HashMap<(Published, bool), Result<Arc<Paired>, RouteError>>,
}

fn error(text: String) -> DeviceError {
    DeviceError::new(NAME, text)
}

/// Returns the loopback addresses of the families that are set.
fn loopback(on: [bool; 2]) -> impl Iterator<Item = IpAddr> {
    let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    both.into_iter().zip(on).filter(|(_, on)| *on).map(|(ip, _)| ip)
}

/// Returns the routes to a process that has published this, from within its host.
fn routes_within(published: &Published) -> Vec<Route> {
    let others = published.host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip));
    let all = loopback(published.loopback).chain(others.filter(|ip| !is_link_local(*ip)));
    all.map(|to| Route { to, via: None }).collect()
}

/// Parses speeds of interfaces, written as `eth0=25000,ens*=10000`.
fn speeds(text: &str) -> Result<Vec<(Filter, u32)>, OpenError> {
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    parts
        .map(|part| {
            let (name, speed) = part.split_once('=')?;
            let speed = speed.trim().parse().ok().filter(|s| *s > 0)?;
            Some((name.trim().parse().ok().filter(|_| !name.trim().is_empty())?, speed))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            OpenError::Setting(format!(
                "NETMOD_TCP_SPEED={text} does not say names and Mb/s, such as eth0=25000,ens*=10000"
            ))
        })
}

/// Returns the record of this host as the rules let it be published, and all addresses as readable
/// text.
fn survey(
    rules: &Rules,
    speeds: &[(Filter, u32)],
    families: [bool; 2],
) -> Result<(Published, Vec<String>), DeviceError> {
    let mut found = Found::here().map_err(|e| error(e.to_string()))?;
    for note in &found.notes {
        tracing::debug!(note, "interfaces");
    }
    let mut loopback = [false; 2];
    let mut all = Vec::new();
    for nic in &mut found.host.nics {
        if let Some((_, speed)) = speeds.iter().find(|(names, _)| names.passes(&nic.name, None)) {
            nic.speed = Some(*speed);
        }
        for a in &nic.addresses {
            all.push(format!("{} ({}{})", nic.name, a.ip, if nic.up { "" } else { ", down" }));
        }
        nic.addresses.retain(|a| families[usize::from(a.ip.is_ipv6())]);
        if nic.kind == Kind::Loopback && nic.up {
            for a in nic.addresses.iter().filter(|a| rules.filter.passes(&nic.name, Some(a.ip))) {
                loopback[usize::from(a.ip.is_ipv6())] |= a.ip.is_loopback();
            }
        }
    }
    let mut lookups = Lookups::here();
    found.host.ask(&mut lookups);
    for note in lookups.notes() {
        tracing::debug!(note, "route lookups");
    }
    let published = rules.publish(&found.host);
    for left_out in &published.omitted {
        tracing::debug!(?left_out, "interfaces that are not published");
    }
    let mut host = published.host;
    if host.cut != Cut::default() {
        let Cut { nics, addresses, routes } = host.cut;
        tracing::warn!(
            nics,
            addresses,
            routes,
            "this host has more interfaces, addresses or routes than its card has room for; NETMOD_TCP_INTERFACE chooses, \
             `netmod-perf pair` says which ones are left out"
        );
    }
    // Interfaces that nobody can use are left out: cards are many.
    host.nics.retain(|n| !n.addresses.is_empty() && n.kind != Kind::Loopback);
    Ok((Published { host, loopback }, all))
}

impl Interfaces {
    /// Looks at the interfaces.
    ///
    /// # Errors
    /// If they cannot be listed, or `NETMOD_TCP_INTERFACE` chooses none that is up.
    pub(crate) fn new(cfg: &TcpConfig) -> Result<Interfaces, OpenError> {
        let filter = cfg
            .interface
            .parse()
            .map_err(|e| OpenError::Setting(format!("NETMOD_TCP_INTERFACE={}: {e}", cfg.interface)))?;
        let rules = Rules { filter, ..Rules::of_stream() }
            .with_max_rails(cfg.rails as u32)
            .with_speed_ratio(cfg.rail_ratio as u32);
        let families = [true, true];
        let speeds = speeds(&cfg.speed)?;
        let (published, all) = survey(&rules, &speeds, families)?;
        let own = Interfaces {
            rules,
            speeds,
            families,
            published,
            lookups: None,
            watch: None,
            has_remote_peers: false,
            look_at: Time::NEVER,
            risen: HashMap::new(),
            paired: HashMap::new(),
        };
        if own.published.loopback == [false; 2] && !own.published.host.nics.iter().any(|n| n.up) {
            return Err(OpenError::Host(error(if cfg.interface.is_empty() {
                "no network interface is up, not even loopback".into()
            } else {
                format!(
                    "NETMOD_TCP_INTERFACE={} chooses no interface and no address that is up here; there are: {}",
                    cfg.interface,
                    all.join(", ")
                )
            })));
        }
        Ok(own)
    }

    /// Takes note that this process listens at IPv4 addresses only.
    pub(crate) fn without_ipv6(&mut self) -> Result<(), DeviceError> {
        self.families = [true, false];
        self.look_again().map(drop)
    }

    /// Returns the interfaces that the card names.
    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// Returns the addresses at which peers find this process, those of the loopback interface
    /// last.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let loopback = loopback(self.published.loopback);
        let nics = self.published.host.nics.iter();
        nics.flat_map(|n| n.addresses.iter().map(|a| a.ip)).chain(loopback)
    }

    /// Returns the only address at which this process is to listen, if there is only one.
    pub(crate) fn only_address(&self) -> Option<IpAddr> {
        if self.published.loopback != [false; 2] {
            return None;
        }
        let mut all = self.published.host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip));
        all.next().filter(|ip| all.next().is_none() && !is_link_local(*ip))
    }

    /// Looks at the interfaces again; whether anything that is published has changed.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn look_again(&mut self) -> Result<bool, DeviceError> {
        self.look_at = Time::NEVER;
        // Routes may have changed even if no interface has.
        self.paired.clear();
        let (published, _) = survey(&self.rules, &self.speeds, self.families)?;
        let changed = published != self.published;
        self.published = published;
        Ok(changed)
    }

    /// Lets go of what the system holds for this, until it is wanted again.
    pub(crate) fn let_go(&mut self) {
        self.lookups = None;
        self.watch = None;
        self.look_at = Time::NEVER;
        self.paired.clear();
    }

    /// Begins to listen for changes. Returns the descriptor that reports them, if a new one was
    /// made.
    pub(crate) fn begin_to_watch(&mut self) -> Option<RawFd> {
        if self.watch.is_some() || !self.has_remote_peers {
            return None;
        }
        match Watch::here() {
            Ok(watch) => {
                let fd = watch.as_raw_fd();
                self.watch = Some(watch);
                Some(fd)
            }
            Err(e) => {
                tracing::debug!(%e, "nobody tells of interfaces that go down; connections by them are found dead later");
                None
            }
        }
    }

    /// Reads the reports of changes.
    pub(crate) fn heard(&mut self, now: Time) {
        match self.watch.as_mut().map(Watch::changed) {
            Some(Ok(true)) => self.look_at = self.look_at.min(now + SETTLING),
            Some(Ok(false)) | None => {}
            Some(Err(e)) => {
                tracing::warn!(%e, "changes of interfaces are not heard of any more");
                self.watch = None;
            }
        }
    }

    /// Returns true if an interface exists and is up.
    pub(crate) fn is_usable(&self, index: u32) -> bool {
        self.published.host.nics.iter().any(|n| n.index == index && n.up && n.carrier)
    }

    /// Returns the interfaces that are up.
    pub(crate) fn usable(&self) -> Vec<u32> {
        let nics = self.published.host.nics.iter();
        nics.filter(|n| n.up && n.carrier).map(|n| n.index).collect()
    }

    /// Takes note of the interfaces that have come up since these were; true if there are any.
    pub(crate) fn note_risen(&mut self, before: &[u32], now: Time) -> bool {
        let risen: Vec<u32> = self.usable().into_iter().filter(|n| !before.contains(n)).collect();
        for index in &risen {
            let flaps = match self.risen.get(index) {
                Some(last) if now.since(last.since) < CALM => (last.flaps + 1).min(FLAPS),
                _ => 0,
            };
            self.risen.insert(*index, Risen { since: now, flaps });
        }
        !risen.is_empty()
    }

    /// Returns the time from which on connections may go back to an interface.
    pub(crate) fn steady_at(&self, index: u32) -> Time {
        self.risen.get(&index).map_or(Time::ZERO, |r| r.since + HOLD * (1 << r.flaps))
    }

    /// Returns the name of an interface.
    pub(crate) fn name_of(&self, index: u32) -> Option<&str> {
        self.published.host.nics.iter().find(|n| n.index == index).map(|n| &*n.name)
    }

    /// Returns true if packets can go from an address of this host, by one of its interfaces, to an
    /// address of a peer; or if that cannot be known.
    pub(crate) fn has_route(&mut self, index: u32, from: IpAddr, to: IpAddr) -> bool {
        let lookups = self.lookups.get_or_insert_with(Lookups::here);
        lookups.ask(&[Query { index, from, to }]).first() != Some(&Answer::None)
    }

    /// Returns the name of another interface by which the system would send, left alone, from one
    /// address to another.
    pub(crate) fn would_leave_by(&mut self, index: u32, from: IpAddr, to: IpAddr) -> Option<String> {
        let lookups = self.lookups.get_or_insert_with(Lookups::here);
        let by = lookups.leaves_by(from, to).filter(|by| *by != index)?;
        Some(self.name_of(by).map_or_else(|| format!("interface {by}"), str::to_owned))
    }

    /// Returns true if the loopback addresses of a peer are those of this process.
    pub(crate) fn is_here(&self, location: &Location) -> bool {
        let here = &self.published.host.location;
        // Without /proc nobody knows the namespaces; one kernel is then one location.
        let unknown =
            here.netns == 0 && location.netns == 0 && here.boot == location.boot && here.boot != [0; 16];
        here.is_same(location) || unknown
    }

    /// Returns the routes to a peer that has published this. `decides`: this process
    /// has the lesser name.
    ///
    /// # Errors
    /// If there is no route.
    pub(crate) fn routes_to(&mut self, peer: &Published, decides: bool) -> Result<Arc<Paired>, RouteError> {
        let key = (peer.clone(), decides);
        if let Some(known) = self.paired.get(&key) {
            return known.clone();
        }
        let found =
            if self.is_here(&peer.host.location) { self.within(peer) } else { self.between(peer, decides) };
        self.paired.insert(key, found.clone());
        found
    }

    /// Returns the routes to a process in the same location: by loopback, or to whatever address it
    /// listens at. Each side must find the other so, or the two would not choose the same netmod.
    fn within(&self, peer: &Published) -> Result<Arc<Paired>, RouteError> {
        if routes_within(&self.published).is_empty() {
            return Err(RouteError::NotListening);
        }
        let list = routes_within(peer);
        if list.is_empty() {
            return Err(RouteError::PeerNotListening);
        }
        Ok(Arc::new(Paired { peer: peer.clone(), list, rails: 0, agreement: 0 }))
    }

    /// Returns the routes to a process on another host.
    fn between(&mut self, peer: &Published, decides: bool) -> Result<Arc<Paired>, RouteError> {
        let names: [&[u8]; 2] = if decides { [&[0], &[1]] } else { [&[1], &[0]] };
        let here = Side { name: names[0], host: &self.published.host };
        let there = Side { name: names[1], host: &peer.host };
        let beside = pair(&here, &there, &self.rules);
        // Slower pairs will do if all pairs within the limits fail.
        let alone = pair(&here, &there, &Rules { limits: Limits::default(), ..self.rules.clone() });
        if alone.pairs.is_empty() {
            let reasons: Vec<String> = alone
                .explain()
                .verdicts
                .iter()
                .map(|v| format!("{} with its {}: {}", v.own, v.peer, v.text))
                .collect();
            let reasons =
                if reasons.is_empty() { "one side has published none".into() } else { quote(&reasons) };
            return Err(RouteError::NoPair { reasons });
        }
        self.has_remote_peers = true;
        tracing::debug!("interfaces, and those of a peer:\n{beside}", beside = beside.explain());
        let best = beside.best_first();
        let mut list: Vec<Route> = Vec::with_capacity(alone.pairs.len());
        for p in best.iter().chain(&alone.best_first()) {
            let Some(nic) = self.published.host.nics.get(p.own) else { continue };
            let via = Via {
                mine: p.own_index,
                device: nic.name.as_str().into(),
                from: p.own_address,
                theirs: p.peer_index,
                weight: p.weight,
            };
            let route = Route { to: p.peer_address, via: Some(via) };
            if !list.contains(&route) {
                list.push(route);
            }
        }
        Ok(Arc::new(Paired { peer: peer.clone(), list, rails: best.len(), agreement: beside.agreement() }))
    }
}

#[cfg(test)]
mod tests {
    use netmod_matching::Host;

    use super::*;

    /// Two processes of one host reach each other, or do not, whichever of them asks.
    #[test]
    fn within_a_host_both_ends_see_the_same() {
        let reaches = |mine: [bool; 2], theirs: [bool; 2]| {
            let location = Location { boot: [7; 16], netns: 5 };
            let published = |loopback| Published { host: Host { location, ..Host::default() }, loopback };
            let mut own = Interfaces::new(&TcpConfig::default()).expect("interfaces");
            own.published = published(mine);
            own.routes_to(&published(theirs), true).is_ok()
        };
        let all = [[false, false], [false, true], [true, false], [true, true]];
        for mine in all {
            for theirs in all {
                let both = mine != [false; 2] && theirs != [false; 2];
                assert_eq!(reaches(mine, theirs), both, "{mine:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn an_interface_that_flaps_has_to_stay_up_for_longer() {
        let mut own = Interfaces::new(&TcpConfig::default()).expect("interfaces");
        let nic = netmod_matching::Nic { index: 7, up: true, carrier: true, ..Default::default() };
        own.published.host.nics = vec![nic];
        let at = |s: u64| Time::ZERO + std::time::Duration::from_secs(s);
        assert_eq!(own.steady_at(7), Time::ZERO, "it has been up all the time");
        assert!(!own.note_risen(&[7], at(10)));
        for (now, held) in
            [(10, 1), (12, 2), (20, 4), (30, 8), (40, 16), (50, 32), (60, 64), (70, 64), (400, 1)]
        {
            assert!(own.note_risen(&[], at(now)));
            assert_eq!(own.steady_at(7), at(now + held), "up at {now} s");
        }
    }

    #[test]
    fn speeds_are_names_and_numbers() {
        let known = speeds(" eth0=25000, ens*=10000,").expect("speeds");
        let of =
            |name: &str| known.iter().find(|(names, _)| names.passes(name, None)).map(|(_, speed)| *speed);
        assert_eq!((of("eth0"), of("ens3f1"), of("eth1")), (Some(25_000), Some(10_000), None));
        assert!(speeds("").expect("nothing").is_empty());
        for bad in ["eth0", "eth0=", "eth0=fast", "eth0=0", "=5", "eth0=-1"] {
            let text = speeds(bad).expect_err(bad).to_string();
            assert!(text.contains("NETMOD_TCP_SPEED") && text.contains(bad), "{text}");
        }
    }
}
