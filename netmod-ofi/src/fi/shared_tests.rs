use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use libfabric_sys::Library;
use libfabric_sys::consts::{
    FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_MULTI_RECV,
    FI_NAMED_RX_CTX, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
};
use netmod_core::RmaBuf;
use netmod_fake_fabric::{Control, Settings, World};

use parking_lot::Mutex;

use crate::error::{FabricError, Refused};
use crate::fi::info::{MrMode, Offer, Request, getinfo};
use netmod_framed::device::{Done, Lent, Port as _};
use netmod_framed::wire::FRAME_HEADER;

use crate::fi::port::{Options, Port, Share};
use crate::fi::region::{self, Registration};

const OPTIONS: Options = Options { frame: 1024, rx_memory: Some(64 << 10), descriptor: true };

/// Lends memory to a registration.
#[allow(unsafe_code)]
fn rma_buf(mem: &mut [u8]) -> RmaBuf {
    // SAFETY: the tests keep the memory until they have closed the registration, and access it only
    // when no transfer is under way.
    unsafe { RmaBuf::new(mem.as_mut_ptr(), mem.len()) }
}

fn many(contexts: usize) -> Settings {
    Settings::default().max_ep_tx_ctx(contexts).max_ep_rx_ctx(contexts)
}

/// A simulated provider with an offer for threads that share a domain.
struct Fixture {
    library: Library,
    world: World,
    offer: Offer,
}

impl Fixture {
    fn new(settings: Settings) -> Fixture {
        Fixture::asked(settings, FI_THREAD_COMPLETION)
    }

    fn asked(settings: Settings, threading: i32) -> Fixture {
        let (library, control) = Control::load(&netmod_fake_fabric::library_path());
        let mut caps = FI_MSG | FI_MULTI_RECV | FI_RMA;
        if settings.max_ep_rx_ctx > 1 {
            caps |= FI_NAMED_RX_CTX;
        }
        let world = World::new(&control, settings);
        let request = Request { caps, mode: 0, mr_mode: MrMode::HONOURED, threading, provider: Some("fake") };
        let offers = getinfo(&library, &request).expect("the world's offer");
        let offer = offers.into_iter().find(|o| o.domain == world.name()).expect("the world's offer");
        Fixture { library, world, offer }
    }

    fn port(&self, contexts: usize, process: u32) -> Result<Port, FabricError> {
        Port::of(self.library, &self.offer, OPTIONS, Share { contexts, process })
    }

    /// Returns the number of open endpoints.
    fn open_nodes(&self) -> usize {
        self.world.nodes().iter().filter(|n| !n.closed).count()
    }

    /// Checks that no rule of a strict provider was broken, and that nothing is left.
    fn end(self) {
        assert_eq!(self.world.violations(), [""; 0]);
        drop(self.offer);
        let leaks = self.world.close();
        assert!(leaks.is_none(), "{leaks:?}");
    }
}

/// Returns the address and context of a port.
fn at(port: &Port) -> (Vec<u8>, u8) {
    (port.endpoint().address().expect("an address"), port.endpoint().context().0)
}

fn context(port: &Port) -> (u8, u16) {
    port.endpoint().context()
}

fn know(port: &Port, other: &(Vec<u8>, u8)) -> u64 {
    port.endpoint().insert(&other.0, other.1).expect("an address of the provider")
}

/// Returns and releases the frames that have arrived.
fn frames(port: &mut Port) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for i in 0..port.poll(32) {
        if let Some(Done::Frame { buffer, at, len }) = port.completion(i) {
            let mut bytes = Vec::new();
            port.frame(buffer, at, len).append_to(&mut bytes);
            found.push(bytes);
            port.release(buffer);
        }
    }
    assert!(port.next_other().is_none());
    found
}

fn frame(text: &str) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_HEADER];
    bytes.extend(text.as_bytes());
    bytes
}

#[test]
fn engines_share_an_endpoint_as_long_as_it_has_contexts() {
    let fixture = Fixture::new(many(4));
    let all: Vec<Port> = (0..7).map(|_| fixture.port(3, 0).expect("a context")).collect();
    let contexts: Vec<_> = all.iter().map(context).collect();
    assert_eq!(contexts, [(0, 3), (1, 3), (2, 3), (0, 3), (1, 3), (2, 3), (0, 3)]);
    let addresses: Vec<_> = all.iter().map(|p| at(p).0).collect();
    for (i, address) in addresses.iter().enumerate() {
        assert_eq!(*address, addresses[i / 3 * 3], "{i}");
    }
    assert_eq!(fixture.open_nodes(), 3);
    // Other parameters, another process, or a plain endpoint: each gets a domain of its own.
    let others = [fixture.port(4, 0), fixture.port(3, 1), fixture.port(1, 0), fixture.port(1, 0)];
    let others = others.map(|e| e.expect("an endpoint"));
    assert_eq!(others.each_ref().map(context), [(0, 4), (0, 3), (0, 1), (0, 1)]);
    assert_eq!(fixture.open_nodes(), 7);
    drop((all, others));
    assert_eq!(fixture.open_nodes(), 0);
    fixture.end();
}

/// The permutations of three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn engines_end_in_any_order() {
    for order in ORDERS {
        // One of them, or none, must close operations in flight.
        for shut in [None, Some(0), Some(1), Some(2)] {
            let fixture = Fixture::new(many(3));
            let mut all = [0; 3].map(|_| Some(fixture.port(3, 0).expect("a context")));
            for (n, i) in order.into_iter().enumerate() {
                assert_eq!(fixture.open_nodes(), 1);
                let mut port = all[i].take().expect("each once");
                if shut == Some(n) {
                    port.shut();
                    port.shut();
                    assert!(matches!(port.inject(&frame("x"), 0), Err(Refused::Failed(_))));
                }
                drop(port);
            }
            assert_eq!(fixture.open_nodes(), 0);
            fixture.end();
        }
    }
}

/// The context of an engine that has left is not reused, and does not block other engines.
#[test]
fn contexts_are_given_out_once() {
    let fixture = Fixture::new(many(2));
    let first = fixture.port(2, 0).expect("a context");
    assert_eq!(context(&fixture.port(2, 0).expect("a context")), (1, 2));
    for _ in 0..20 {
        assert_eq!(context(&fixture.port(2, 0).expect("a context")), (0, 2));
        // It belonged to another endpoint, which has no user any more.
        assert_eq!(fixture.open_nodes(), 1);
    }
    drop(first);
    fixture.end();
}

#[test]
fn what_cannot_be_opened_leaves_nothing() {
    let fixture = Fixture::new(many(3));
    let why = fixture.port(4, 0).expect_err("the provider has three");
    assert!(why.to_string().contains("fi_"), "{why}");
    assert_eq!(fixture.open_nodes(), 0);
    assert!(!fixture.world.violations().is_empty(), "the provider was asked");
    assert!(fixture.world.close().is_none());

    // The second port has a context, but no key for registering memory.
    for mode in [FI_MR_LOCAL, FI_MR_LOCAL | FI_MR_ENDPOINT, FI_MR_LOCAL | FI_MR_PROV_KEY] {
        let fixture = Fixture::new(many(3).mr_mode(mode).mr_count(3));
        let first = fixture.port(3, 0).expect("two registrations");
        for _ in 0..2 {
            assert!(fixture.port(3, 0).expect_err("no room for two more").to_string().contains("fi_mr_reg"));
        }
        drop(first);
        fixture.end();
    }
}

/// Every port reaches every other one: contexts of the same endpoint, of another endpoint, and
/// plain endpoints.
#[test]
fn frames_come_to_the_context_that_they_are_for() {
    for (threading, addresses) in
        [(FI_THREAD_COMPLETION, 1), (FI_THREAD_COMPLETION, 2), (FI_THREAD_DOMAIN, 1)]
    {
        let fixture = Fixture::asked(many(4).av_types(addresses).delivery_delay(3), threading);
        let mut ports: Vec<Port> = [(3, 0), (3, 0), (3, 0), (4, 1), (4, 1), (1, 0), (1, 1)]
            .into_iter()
            .map(|(contexts, process)| fixture.port(contexts, process).expect("a port"))
            .collect();
        assert_eq!(fixture.open_nodes(), 4);
        let fixtures: Vec<_> = ports.iter().map(at).collect();
        for (i, from) in ports.iter_mut().enumerate() {
            for (j, to) in fixtures.iter().enumerate() {
                let to = know(from, to);
                from.inject(&frame(&format!("{i} to {j}")), to).expect("room");
            }
        }
        let mut found = vec![Vec::new(); ports.len()];
        for _ in 0..50 {
            ports.iter_mut().zip(&mut found).for_each(|(port, found)| found.extend(frames(port)));
        }
        for (j, found) in found.iter_mut().enumerate() {
            found.sort();
            let wanted: Vec<_> = (0..fixtures.len()).map(|i| frame(&format!("{i} to {j}"))).collect();
            assert_eq!(*found, wanted);
        }
        drop(ports);
        fixture.end();
    }
}

/// Without named contexts only the first one is reached; addressing another one fails with an
/// error.
#[test]
fn a_context_without_a_name_is_refused() {
    let fixture = Fixture::new(Settings::default());
    let (a, b) = (fixture.port(1, 0).expect("a port"), fixture.port(1, 1).expect("a port"));
    let (address, _) = at(&b);
    assert!(a.endpoint().insert(&address, 0).is_ok());
    let why = a.endpoint().insert(&address, 1).expect_err("a context");
    assert_eq!(why, FabricError::ContextUnnamed { context: 1 });
    assert!(why.to_string().contains("FI_NAMED_RX_CTX"), "{why}");
    drop((a, b));
    fixture.end();
}

/// An address used by several engines stays in the vector until the last one removes it.
#[test]
fn addresses_stay_as_long_as_somebody_needs_them() {
    for kinds in [1, 2] {
        let fixture = Fixture::new(many(2).av_types(kinds));
        let [mut a, mut b] = [0; 2].map(|_| fixture.port(2, 0).expect("a context"));
        let mut peers = [0; 2].map(|_| fixture.port(2, 1).expect("a context"));
        let fixtures = peers.each_ref().map(at);
        // All four engines share one address in one vector.
        let of_a = fixtures.each_ref().map(|p| know(&a, p));
        let of_b = fixtures.each_ref().map(|p| know(&b, p));
        assert_eq!(of_a, of_b);
        assert_ne!(of_a[0], of_a[1]);
        a.endpoint().remove(of_a[0]).expect("known");
        a.inject(&frame("a"), of_a[1]).expect("room");
        a.endpoint().remove(of_a[1]).expect("known");
        b.endpoint().remove(of_b[1]).expect("known");
        b.inject(&frame("b"), of_b[0]).expect("room");
        b.endpoint().remove(of_b[0]).expect("known");
        assert_eq!(b.endpoint().remove(of_b[0]), Err(FabricError::AddressUnknown));
        let found: Vec<_> =
            peers.iter_mut().map(|p| (0..9).flat_map(|_| frames(p)).collect::<Vec<_>>()).collect();
        assert_eq!(found, [vec![frame("b")], vec![frame("a")]]);
        // It was removed from the vector, too: its number is invalid.
        let refused = b.inject(&frame("c"), of_b[0]);
        assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
        assert_eq!(fixture.world.violations().len(), 1);
        drop((a, b, peers));
        assert!(fixture.world.close().is_none());
    }
}

fn take_key(port: &Port, key: u64) -> u64 {
    port.endpoint().take_key(key..=255).expect("a free key")
}

/// Memory registered through one context is readable and writable through all, with every mode of
/// registration.
#[test]
fn transfers_through_contexts() {
    let bits = [FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_ENDPOINT];
    for set in 0..1 << bits.len() {
        let mode =
            bits.iter().enumerate().filter(|(i, _)| set >> i & 1 != 0).fold(0, |mode, (_, bit)| mode | bit);
        let fixture = Fixture::new(many(2).mr_mode(mode).mr_key_size(1));
        let mut owners = [0; 2].map(|_| fixture.port(2, 0).expect("a context"));
        let mut peers = [0; 2].map(|_| fixture.port(2, 1).expect("a context"));
        let mut there = [[1u8; 64], [2; 64]];
        let mut here = [[10u8; 64], [20; 64]];
        let rights = FI_REMOTE_READ | FI_REMOTE_WRITE;
        let mut remote: Vec<Registration> = (owners.iter().zip(&mut there))
            .map(|(o, m)| {
                region::register(o.endpoint(), &rma_buf(m), rights, take_key(o, 9)).expect("a registration")
            })
            .collect();
        assert_ne!(remote[0].key, remote[1].key, "{mode:#x}");
        let mut local: Vec<Registration> = (peers.iter().zip(&mut here))
            .map(|(o, m)| {
                region::register(o.endpoint(), &rma_buf(m), region::LOCAL, take_key(o, 9))
                    .expect("a registration")
            })
            .collect();
        for (i, peer) in peers.iter_mut().enumerate() {
            let wanted = mode & FI_MR_LOCAL != 0;
            let mem = rma_buf(&mut here[i]);
            let lent = |at: usize| Lent {
                mem: mem.part(at, 32).expect("a part"),
                registration: wanted.then_some(&local[i]),
            };
            // Each writes the first half of the other's memory, and reads the second half of its
            // own counterpart's.
            let [to, from] = [1 - i, i].map(|n| know(peer, &at(&owners[n])));
            let (write, read) = (&remote[1 - i], &remote[i]);
            peer.write(lent(0), to, write.base, write.key, 1).expect("room");
            peer.read(lent(32), from, read.base + 32, read.key, 2).expect("room");
            while peer.transfers_under_way() > 0 {
                owners.iter_mut().for_each(|o| drop(frames(o)));
                for n in 0..peer.poll(32) {
                    let done = peer.completion(n);
                    assert!(matches!(done, Some(Done::Transfer { .. })), "{mode:#x}: {done:?}");
                }
                assert!(peer.next_other().is_none(), "{mode:#x}");
            }
        }
        let halves = |m: &[u8; 64]| (m[..32].to_vec(), m[32..].to_vec());
        assert_eq!(
            [&there[0], &there[1]].map(halves),
            [20, 10].map(|b| (vec![b; 32], vec![b / 10 % 2 + 1; 32]))
        );
        assert_eq!(
            [&here[0], &here[1]].map(halves),
            [(vec![10; 32], vec![1; 32]), (vec![20; 32], vec![2; 32])]
        );
        for (all, ports) in [(&mut remote, &owners), (&mut local, &peers)] {
            all.iter_mut().zip(ports).for_each(|(r, p)| r.close(p.endpoint()).expect("closed"));
        }
        drop((owners, peers));
        fixture.end();
    }
}

/// A key is free again when its registration is closed or has failed.
#[test]
fn keys_come_back() {
    let fixture = Fixture::new(many(2).mr_key_size(1).mr_count(3));
    let [a, b] = [0; 2].map(|_| fixture.port(2, 0).expect("a context"));
    let mut memory = [0u8; 16];
    let mem = rma_buf(&mut memory);
    let mut kept: Vec<Registration> = (0..3)
        .map(|i| {
            let key = take_key(&a, 1);
            assert_eq!(key, i + 1);
            region::register(a.endpoint(), &mem, FI_REMOTE_READ, key).expect("a registration")
        })
        .collect();
    for _ in 0..3 {
        assert_eq!(take_key(&b, 1), 4);
        assert!(region::register(b.endpoint(), &mem, FI_REMOTE_READ, 4).is_err());
    }
    kept[1].close(a.endpoint()).expect("closed");
    kept[1].close(a.endpoint()).expect("nothing to do");
    assert_eq!((take_key(&b, 1), take_key(&a, 1)), (2, 4));
    let mut again = region::register(b.endpoint(), &mem, FI_REMOTE_READ, 2).expect("a registration");
    again.close(b.endpoint()).expect("closed");
    kept.iter_mut().for_each(|r| r.close(a.endpoint()).expect("closed"));
    drop((a, b));
    fixture.end();
}

/// Ends the process if the returned value is not dropped in time: deadlocked threads cannot be
/// ended.
#[must_use]
fn watchdog(test: &'static str) -> mpsc::Sender<()> {
    const LIMIT: Duration = Duration::from_secs(120);
    let (alive, gone) = mpsc::channel();
    thread::spawn(move || {
        if gone.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs after {LIMIT:?}; with it end all tests of its process");
            std::process::exit(101);
        }
    });
    alive
}

/// Engines in separate threads open, send, register, remove and close concurrently.
#[test]
fn threads_share_an_endpoint() {
    const ENGINES: usize = 3;
    const ROUNDS: usize = 60;
    let _alive = watchdog("threads_share_an_endpoint");
    let fixture = Fixture::new(
        many(ENGINES).mr_mode(FI_MR_LOCAL | FI_MR_ENDPOINT).again(netmod_fake_fabric::Again::all(0.05)),
    );
    let barrier = Barrier::new(2 * ENGINES);
    let addresses = Mutex::new(Vec::new());
    thread::scope(|s| {
        for engine in 0..2 * ENGINES {
            let (library, barrier, addresses) = (fixture.library, &barrier, &addresses);
            let offer = fixture.offer.duplicate().expect("memory");
            s.spawn(move || {
                let share = Share { contexts: ENGINES, process: (engine / ENGINES) as u32 };
                let mut port = Port::of(library, &offer, OPTIONS, share).expect("a context");
                addresses.lock().push(at(&port));
                barrier.wait();
                let all = addresses.lock().clone();
                let me = frame(&engine.to_string());
                let mut memory = [0u8; 64];
                let mem = rma_buf(&mut memory);
                let mut found = 0;
                for _ in 0..ROUNDS {
                    for to in &all {
                        let known = know(&port, to);
                        loop {
                            match port.inject(&me, known) {
                                Ok(()) => break,
                                Err(Refused::Again) => found += frames(&mut port).len(),
                                Err(Refused::Failed(why)) => panic!("{why}"),
                            }
                        }
                        port.endpoint().remove(known).expect("known");
                    }
                    let key = take_key(&port, 3);
                    let mut r =
                        region::register(port.endpoint(), &mem, FI_REMOTE_READ, key).expect("a registration");
                    found += frames(&mut port).len();
                    r.close(port.endpoint()).expect("closed");
                }
                while found < ROUNDS * all.len() {
                    found += frames(&mut port).len();
                }
                barrier.wait();
                assert_eq!(found, ROUNDS * all.len());
            });
        }
    });
    assert_eq!(fixture.open_nodes(), 0);
    assert_eq!(fixture.world.nodes().len(), 2);
    fixture.end();
}
