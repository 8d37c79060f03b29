//! Jobs of threads over TCP whose connections a test can watch, redirect and cut.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ch3_shim::Config;
use ch3_shim::netset::NetSet;
use ch3_shim::{Answer, Asked, Bootstrap, BootstrapError, Builder, Device, Silence};
use netmod_core::card::BodyReader;
use netmod_core::{Card, CardWriter, PeerName};
use netmod_tcp::{TcpReport, TcpStats};

use super::pattern::{bytes, check, seed};
use crate::factory::{Capabilities, Job, NetmodFactory, Tcp};

/// Time that a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

type Detour = Box<dyn Fn(SocketAddr) -> SocketAddr + Send>;
/// A forger's change of a tcp section.
type Forgery = Box<dyn Fn(Vec<u8>) -> Vec<u8> + Send>;
/// A change of one rank's settings.
type Tuning = Box<dyn Fn(&mut Config) + Send>;

#[derive(Default)]
struct State {
    homes: BTreeMap<u32, SocketAddr>,
    names: BTreeMap<u32, PeerName>,
    detours: BTreeMap<u32, Detour>,
    forgeries: BTreeMap<u32, Forgery>,
    tunings: BTreeMap<u32, Tuning>,
}

/// Makes devices over TCP, and knows where each rank listens.
#[derive(Clone, Default)]
pub struct Tap(Arc<(Mutex<State>, Condvar)>);

impl Tap {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes another address for a rank: what `detour` makes of the real one.
    pub fn detour(&self, rank: u32, detour: impl Fn(SocketAddr) -> SocketAddr + Send + 'static) {
        self.lock().detours.insert(rank, Box::new(detour));
    }

    /// Publishes something else as the tcp section of a rank's card: what `forge` makes of the real
    /// one.
    pub fn forge(&self, rank: u32, forge: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static) {
        self.lock().forgeries.insert(rank, Box::new(forge));
    }

    /// Gives one rank other settings than the others.
    pub fn tune(&self, rank: u32, tuning: impl Fn(&mut Config) + Send + 'static) {
        self.lock().tunings.insert(rank, Box::new(tuning));
    }

    /// Returns the address where a rank listens; waits until it does.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    pub fn home(&self, rank: u32) -> SocketAddr {
        let state = self.lock();
        let missing = |s: &mut State| !s.homes.contains_key(&rank);
        let waited = self.0.1.wait_timeout_while(state, PATIENCE, missing);
        let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!late.timed_out(), "rank {rank} does not listen");
        state.homes[&rank]
    }

    /// Returns addresses and names of the ranks of a job of `ranks`; waits until all are known.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    pub fn homes(&self, ranks: u32) -> Vec<(SocketAddr, PeerName)> {
        let state = self.lock();
        let missing = |s: &mut State| s.homes.len() < ranks as usize;
        let waited = self.0.1.wait_timeout_while(state, PATIENCE, missing);
        let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!late.timed_out(), "of {ranks} ranks only {} listen", state.homes.len());
        state.homes.values().copied().zip(state.names.values().copied()).collect()
    }
}

/// A process manager that sees the cards on their way.
struct Tapped {
    boot: Box<dyn Bootstrap>,
    tap: Tap,
}

/// The address of the loopback interface in a card that has one.
pub fn home_in(card: &[u8]) -> Option<SocketAddr> {
    let card = Card::parse(card).ok()?;
    let mut body = BodyReader::new("tcp", card.section(netmod_tcp::NAME)?.body).allow_trailing();
    let (flags, port) = (body.u8("").ok()?, body.u16("").ok()?);
    (flags & 1 != 0).then_some(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// A card as given, but with another address of the loopback interface.
fn card_at(card: &[u8], at: SocketAddr) -> Vec<u8> {
    assert!(at.ip().is_loopback(), "a detour leads over {at}, where nobody would look for it");
    card_with(card, |mut body| {
        // The flags, and behind the port the interfaces, stay.
        body[1..3].copy_from_slice(&at.port().to_le_bytes());
        body
    })
}

/// A card as given, but with another tcp section.
fn card_with(card: &[u8], forge: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let card = Card::parse(card).expect("a card");
    assert!(card.section(netmod_tcp::NAME).is_some(), "a card with tcp");
    let mut out = CardWriter::new();
    for section in card.sections() {
        let body = section.body.to_vec();
        let body = if section.name == netmod_tcp::NAME { forge(body) } else { body };
        out.section(section.name, section.version, &body).expect("a card as large as that");
    }
    out.finish()
}

impl Bootstrap for Tapped {
    fn rank(&self) -> u32 {
        self.boot.rank()
    }
    fn size(&self) -> u32 {
        self.boot.size()
    }
    fn job_id(&self) -> String {
        self.boot.job_id()
    }
    fn local_size(&self) -> u32 {
        self.boot.local_size()
    }
    fn node(&self) -> Option<u32> {
        self.boot.node()
    }
    fn local_rank(&self) -> Option<u32> {
        self.boot.local_rank()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let Some(home) = home_in(value) else { return self.boot.put(key, value) };
        let rank = self.rank();
        let (detour, forgery) = {
            let mut state = self.tap.lock();
            state.homes.insert(rank, home);
            (state.detours.remove(&rank), state.forgeries.remove(&rank))
        };
        self.tap.0.1.notify_all();
        // It may wait for the address of another rank.
        let published = match (detour, forgery) {
            (Some(detour), _) => Some(card_at(value, detour(home))),
            (None, Some(forge)) => Some(card_with(value, forge)),
            (None, None) => None,
        };
        self.boot.put(key, published.as_deref().unwrap_or(value))
    }
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.boot.get(key)
    }
    fn ask_value(&mut self, key: &str) -> Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        self.boot.ask_value(key)
    }
    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        self.boot.ask_failed()
    }
    fn answer(&mut self) -> Result<Option<Answer>, Silence> {
        self.boot.answer()
    }
    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        self.boot.barrier_begin()
    }
    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        self.boot.barrier_poll()
    }
    fn fd(&self) -> Option<RawFd> {
        self.boot.fd()
    }
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        self.boot.finalize_poll()
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        self.boot.abort(code, message)
    }
}

impl NetmodFactory for Tap {
    fn name(&self) -> String {
        "tcp with a tap".into()
    }

    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }

    fn config(&self) -> Config {
        Tcp.config()
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(TapJob { tap: self.clone(), tcp: Tcp.job(ranks) })
    }
}

/// A job that a tap watches. Its bare netmods are not watched.
struct TapJob {
    tap: Tap,
    tcp: Arc<dyn Job>,
}

impl Job for TapJob {
    fn device(&self, boot: Box<dyn Bootstrap>, mut cfg: Config) -> ch3_shim::Result<Device> {
        let (tap, rank) = (&self.tap, boot.rank());
        if let Some(tuning) = tap.lock().tunings.get(&rank) {
            tuning(&mut cfg);
        }
        let builder = Builder::new(cfg, Box::new(Tapped { boot, tap: tap.clone() }));
        tap.lock().names.insert(rank, builder.name());
        builder.build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        self.tcp.netmod(rank)
    }
}

/// Sends messages of all sizes back and forth between two ranks, and checks them. Returns what the
/// netmod has seen.
///
/// # Errors
/// A message that failed.
///
/// # Panics
/// If a wrong byte arrives.
pub fn talk(dev: &mut Device, rounds: u64) -> ch3_shim::Result<TcpStats> {
    let world = dev.world();
    let (me, other) = (u64::from(dev.rank()), 1 - dev.rank() as i32);
    for round in 0..rounds {
        for (i, len) in [0, 8, 100, 3000, 20_000, 100_000, 1_000_000].into_iter().enumerate() {
            let name = |rank: u64| seed(&[round, i as u64, rank]);
            let mut got = vec![0; len];
            dev.sendrecv(&bytes(name(me), len), other, 1, &mut got, other, 1, world)?;
            check(name(1 - me), &got).expect("no wrong byte arrives");
        }
    }
    Ok(dev.netmod_report::<TcpReport>().expect("a device over tcp").stats)
}

/// A server of one port that tests make misbehave.
#[derive(Debug)]
pub struct Server {
    /// Address where it listens.
    pub addr: SocketAddr,
    listener: TcpListener,
}

impl Server {
    /// Listens on the loopback interface.
    ///
    /// # Panics
    /// If it cannot.
    pub fn new() -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        Server { addr: listener.local_addr().expect("its address"), listener }
    }

    /// Lets `serve` have each connection, in a thread of its own, as long as the process lives.
    ///
    /// # Panics
    /// If there is no thread for it.
    pub fn serve(self, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
        let serve = Arc::new(serve);
        let accept = move || {
            for stream in self.listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        };
        std::thread::Builder::new().name("server".into()).spawn(accept).expect("a thread for the server");
    }
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

/// Passes bytes on in both directions, keeps what the client said first, and may change bytes or
/// cut the connection.
#[derive(Clone)]
pub struct Proxy {
    /// Address where it listens.
    pub addr: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    left: Arc<AtomicUsize>,
    meddlers: Arc<dyn Fn() -> Meddler + Send + Sync>,
}

/// Returns what a proxy passes on in place of some bytes: those towards the listener behind it
/// (true), or away from it.
pub type Meddler = Arc<dyn Fn(bool, Vec<u8>) -> Vec<u8> + Send + Sync>;

/// Bits that proxies flip, counted over all connections of all proxies that share this.
#[derive(Clone, Debug, Default)]
pub struct Flips(Arc<[Mutex<Vec<u64>>; 2]>);

impl Flips {
    /// Flips a bit of those that are carried from now on: towards the listener behind the proxy, or
    /// away from it.
    pub fn flip(&self, towards: bool, bit: u64) {
        self.lock(towards).push(bit);
    }

    /// Number of bits that are still to be flipped.
    pub fn left(&self) -> usize {
        self.lock(false).len() + self.lock(true).len()
    }

    fn lock(&self, towards: bool) -> MutexGuard<'_, Vec<u64>> {
        self.0[usize::from(towards)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flips what is due of the next bytes in one direction.
    fn distort(&self, towards: bool, piece: &mut [u8]) {
        self.lock(towards).retain_mut(|bit| {
            match piece.get_mut(usize::try_from(*bit / 8).unwrap_or(usize::MAX)) {
                Some(byte) => {
                    *byte ^= 1 << (*bit % 8);
                    false
                }
                None => {
                    *bit -= 8 * piece.len() as u64;
                    true
                }
            }
        });
    }
}

impl Proxy {
    /// In front of `home`.
    pub fn new(home: SocketAddr) -> Proxy {
        Proxy::flipping(home, Flips::default())
    }

    /// In front of `home`, one that flips bits.
    pub fn flipping(home: SocketAddr, flips: Flips) -> Proxy {
        let flip = move |towards, mut piece: Vec<u8>| {
            flips.distort(towards, &mut piece);
            piece
        };
        Proxy::meddling(home, Arc::new(flip))
    }

    /// In front of `home`, one that changes what it passes on.
    pub fn meddling(home: SocketAddr, meddler: Meddler) -> Proxy {
        Proxy::with_meddlers(home, move || Arc::clone(&meddler))
    }

    /// In front of `home`, one that has a meddler made for each connection.
    pub fn with_meddlers(home: SocketAddr, make: impl Fn() -> Meddler + Send + Sync + 'static) -> Proxy {
        let server = Server::new();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let proxy = Proxy { addr: server.addr, heard: Arc::default(), left, meddlers: Arc::new(make) };
        let this = proxy.clone();
        server.serve(move |client| this.pass(client, home));
        proxy
    }

    /// Bytes from clients, up to some kilobytes.
    pub fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets a connection when so many more bytes have come from clients.
    pub fn cut_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    fn pass(&self, mut client: TcpStream, home: SocketAddr) {
        let Ok(mut server) = TcpStream::connect(home) else { return };
        let (Ok(mut from), Ok(mut to)) = (server.try_clone(), client.try_clone()) else { return };
        for stream in [&client, &server] {
            // The netmod's own connections do the same: small messages do not wait for company.
            let _ = stream.set_nodelay(true);
        }
        let meddler = (self.meddlers)();
        let back = Arc::clone(&meddler);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut piece) {
                if to.write_all(&back(false, piece[..n].to_vec())).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = client.read(&mut piece) {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.len() < 1 << 14 {
                heard.extend_from_slice(&piece[..n]);
            }
            drop(heard);
            let left = self.left.load(Ordering::SeqCst);
            if left <= n {
                self.left.store(usize::MAX, Ordering::SeqCst);
                // Both ends see the connection go down without a word.
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
                return;
            }
            if left != usize::MAX {
                self.left.fetch_sub(n, Ordering::SeqCst);
            }
            if server.write_all(&meddler(true, piece[..n].to_vec())).is_err() {
                return;
            }
        }
        let _ = server.shutdown(Shutdown::Write);
    }
}
