//! Unauthenticated peers at the listeners of a running job: whatever they send, the job's messages
//! are whole, no VC goes down, each of them is counted, and nothing of them stays open.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::Device;
use netmod_connection::{Initiator, InitiatorParams, NONCE_LEN, Purpose, Terms, Versions};
use netmod_core::{GroupId, PeerName};
use netmod_tcp::TcpReport;
use netmod_tcp::{JobKey, TcpStats};
use netmod_tests::board::{doing, run_job_with};
use netmod_tests::jobs::pattern::{Random, bytes, check, fill, seed};
use netmod_tests::jobs::tap::{PATIENCE, Proxy, Tap};

const RANKS: u32 = 3;

/// The tests count descriptors of the whole process: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the descriptors of this process").count()
}

/// Traffic of all pairs until rank 0 sees the flag; connections are closed and made again all the
/// time. The rounds, and the counts at the end.
fn traffic(dev: &mut Device, stop: &AtomicBool) -> (u64, TcpStats) {
    let world = dev.world();
    let (me, n) = (dev.rank() as i32, dev.size() as i32);
    let mut round = 0u64;
    loop {
        round += 1;
        doing(format!("round {round}"));
        for i in 1..n {
            let (to, from) = ((me + i) % n, (me + n - i) % n);
            let len = [12, 900, 30_000, 300_000][(round % 4) as usize];
            let mut got = vec![0; len];
            let data = bytes(seed(&[round, me as u64, to as u64]), len);
            let status = dev.sendrecv(&data, to, 1, &mut got, from, 1, world).expect("the job's own traffic");
            assert_eq!(status.len, len);
            check(seed(&[round, from as u64, me as u64]), &got).expect("the job's own bytes");
        }
        if round.is_multiple_of(8) {
            for step in 0..n {
                let partner = (step + n - me) % n;
                if partner != me {
                    dev.disconnect(partner as u32).expect("an orderly disconnect");
                }
            }
        }
        // Rank 0 decides, so that all make the same number of rounds.
        let mut over = [u8::from(stop.load(Ordering::SeqCst))];
        if me == 0 {
            for to in 1..n {
                dev.send(&over, to, 2, world).expect("the job's own traffic");
            }
        } else {
            dev.recv(&mut over, 0, 2, world).expect("the job's own traffic");
        }
        if over == [1] {
            return (round, dev.netmod_report::<TcpReport>().expect("a device over tcp").stats);
        }
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("the listener is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Says something, and waits until the listener closes the connection.
fn say(to: SocketAddr, what: &[u8]) {
    let mut stream = connect(to);
    // The listener may have had enough before all of it is written.
    let _ = stream.write_all(what);
    until_closed(&mut stream);
}

/// Reads until the other end closes. All that it may say before is a REJECT or a CHALLENGE.
fn until_closed(stream: &mut TcpStream) -> usize {
    let (mut piece, mut total) = ([0; 512], 0);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return total,
            Ok(n) => total += n,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("the listener keeps an unauthenticated peer for more than {PATIENCE:?}");
            }
            // A reset closes it too.
            Err(_) => return total,
        }
    }
}

/// A HELLO with these names, whoever says it.
fn hello(me: PeerName, peer: PeerName, versions: Versions) -> Vec<u8> {
    let params = InitiatorParams {
        me,
        peer,
        purpose: Purpose::Vc,
        versions,
        caps: 0,
        incarnation: 1,
        dial: 1,
        session: 0,
        position: 0,
        // No pairs of interfaces.
        terms: Terms::from([0; 80]),
        key: JobKey([0x5c; 32]),
    };
    let mut nonce = [0; NONCE_LEN];
    fill(seed(&[u64::from(me.rank), u64::from(peer.rank)]), &mut nonce);
    Initiator::new(params, nonce).1.as_bytes().to_vec()
}

/// A PROOF by somebody who has not got the key.
fn forged_proof() -> Vec<u8> {
    let mut frame = vec![0x93, b'N', b'M', b'T', 3, 0, 32, 0];
    frame.extend(bytes(1, 32));
    frame
}

/// Attacks a rank's listener in all ways. Returns the number of connections, each of them of an
/// unauthenticated peer.
fn attack(at: SocketAddr, target: PeerName, recorded: &[u8], dice: &mut Random) -> u64 {
    let other = PeerName { rank: (target.rank + 1) % RANKS, ..target };
    let ours = Versions::OURS;
    let good = hello(other, target, ours);
    let mut said: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        // A TLS 1.2 ClientHello as far as a server would look.
        [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &bytes(2, 500)].concat(),
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        // The right names and no key.
        [&good[..], &forged_proof()].concat(),
        // Another job, ranks that do not exist or live elsewhere, itself, other versions.
        hello(
            PeerName { group: GroupId([3; 16]), rank: 0 },
            PeerName { group: GroupId([3; 16]), rank: 1 },
            ours,
        ),
        [hello(PeerName { group: GroupId([3; 16]), rank: 0 }, target, ours), forged_proof()].concat(),
        hello(PeerName { rank: 1 << 20, ..target }, target, ours),
        hello(other, PeerName { rank: target.rank + 7, ..target }, ours),
        hello(target, target, ours),
        hello(other, target, Versions { min: 700, max: 800 }),
        // Bytes of a real peer, replayed.
        recorded.to_vec(),
        recorded[..recorded.len() / 2].to_vec(),
    ];
    let mut bad_length = good.clone();
    bad_length[6] = 0xff;
    bad_length[7] = 0xff;
    said.push(bad_length);
    for _ in 0..24 {
        said.push(bytes(dice.below(1 << 30) as u64, 1 + dice.below(5000)));
        // Almost a hello.
        let mut bent = good.clone();
        let (i, bit) = (dice.below(bent.len()), dice.below(8));
        bent[i] ^= 1 << bit;
        bent.extend(forged_proof());
        said.push(bent);
    }
    for what in &said {
        say(at, what);
    }
    let mut made = said.len() as u64;
    for _ in 0..32 {
        drop(connect(at));
        made += 1;
    }
    // Slow ones and silent ones, all at once; they are cut off when their time is up.
    let mut slow: Vec<TcpStream> = (0..8).map(|_| connect(at)).collect();
    let idle: Vec<TcpStream> = (0..40).map(|_| connect(at)).collect();
    made += (slow.len() + idle.len()) as u64;
    for byte in &good[..24] {
        for stream in &mut slow {
            let _ = stream.write_all(&[*byte]);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    for mut stream in slow.into_iter().chain(idle) {
        until_closed(&mut stream);
    }
    made
}

/// Waits until as few descriptors are open as there were.
fn settle(before: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors() > before {
        assert!(Instant::now() < end, "{} descriptors are open, {before} were before", descriptors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn set(cfg: &mut Config, name: &str, value: &str) {
    cfg.set(name, value).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_job_under_attack() {
    let _alone = alone();
    let tap = Tap::default();
    let proxy = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&proxy);
    // Records the bytes of rank 1's peers.
    tap.detour(1, move |home| {
        let proxy = Proxy::new(home);
        let addr = proxy.addr;
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(proxy);
        addr
    });
    let stop = Arc::new(AtomicBool::new(false));
    let (homes, done) = (tap.clone(), Arc::clone(&stop));
    let attackers = std::thread::spawn(move || {
        let _stop = StopAtEnd(done);
        let homes = homes.homes(RANKS);
        let end = Instant::now() + PATIENCE;
        let recorded = loop {
            let heard = proxy.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Proxy::heard);
            match heard {
                Some(heard) if heard.len() > 1000 => break heard,
                _ => assert!(Instant::now() < end, "nobody has dialled rank 1"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(recorded[..4], [0x93, b'N', b'M', b'T'], "not the beginning of a hello");
        let before = descriptors();
        let each: Vec<_> = (0..)
            .zip(&homes)
            .map(|(i, (home, name))| {
                let (home, name, recorded) = (*home, *name, recorded.clone());
                std::thread::spawn(move || {
                    let mut dice = Random::new(i);
                    (0..2).map(|_| attack(home, name, &recorded, &mut dice)).sum::<u64>()
                })
            })
            .collect();
        let made: Vec<u64> = each.into_iter().map(|t| t.join().expect("an attacker")).collect();
        // The job itself closes connections and makes them again: at some moment it has as many as
        // before.
        settle(before);
        made
    });
    let tune = |cfg: &mut Config| set(cfg, "NETMOD_TCP_HELLO_TIMEOUT", "1s");
    let flag = Arc::clone(&stop);
    let ranks = run_job_with(&tap, RANKS, tune, move |dev| {
        let done = traffic(dev, &flag);
        for way in dev.report() {
            assert!(!way.netmod.contains("down"), "rank {}: {}", way.rank, way.netmod);
            assert_eq!(way.stats.faults, 0, "rank {}", way.rank);
        }
        done
    });
    let made = attackers.join().expect("the attackers found what they expected");
    for (rank, ((rounds, stats), made)) in ranks.iter().zip(&made).enumerate() {
        println!("rank {rank}: {rounds} rounds, {made} attacks, {stats:?}");
        assert_eq!(
            stats.unauthenticated, *made,
            "rank {rank} has not counted each connection once: {stats:?}"
        );
        assert!(stats.silent >= 2 * 48, "rank {rank}: {stats:?}");
        assert!(*rounds > 16, "the job hardly ran");
    }
}

/// Ends the job when the attackers end, whatever way.
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Several hundred silent connections fill the table of unauthenticated peers, and new ones come
/// all the time: a peer gets in all the same, again and again.
#[test]
fn a_peer_gets_in_while_the_table_is_full() {
    let _alone = alone();
    let tap = Tap::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (homes, done) = (tap.clone(), Arc::clone(&stop));
    let before = descriptors();
    let crowd = std::thread::spawn(move || {
        let _stop = StopAtEnd(done);
        let homes = homes.homes(RANKS);
        let mut idle = std::collections::VecDeque::new();
        let end = Instant::now() + Duration::from_secs(3);
        let mut made = 0;
        while Instant::now() < end {
            for (home, _) in &homes {
                idle.push_back(connect(*home));
                made += 1;
            }
            if idle.len() > 400 {
                std::thread::sleep(Duration::from_millis(3));
                idle.pop_front();
            }
        }
        made
    });
    let flag = Arc::clone(&stop);
    let tune = |cfg: &mut Config| set(cfg, "NETMOD_TCP_HELLO_MAX", "16");
    let ranks = run_job_with(&tap, RANKS, tune, move |dev| traffic(dev, &flag));
    let made: u64 = crowd.join().expect("the crowd");
    assert!(made > 600, "only {made} connections were made");
    let counted: u64 = ranks.iter().map(|(_, stats)| stats.unauthenticated).sum();
    println!("{made} connections, {counted} counted, {} rounds", ranks[0].0);
    assert!(ranks[0].0 > 16, "the job hardly ran");
    // A connection that was never accepted is not counted; a peer that was pushed out of the table,
    // and dialled again, is.
    let dialled: u64 = ranks.iter().map(|(_, stats)| stats.dialled).sum();
    let possible = made / 2..=made + dialled;
    assert!(possible.contains(&counted), "{made} connections were made, {counted} were counted");
    settle(before);
}
