//! VCs that are made and not used for a while: they cost little, and their first use finds all that
//! it needs.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use ch3_shim::Config;
use ch3_shim::{Bootstrap, BootstrapError, Builder, Device};

/// More than any netmod keeps at hand.
const MANY: u32 = 300;

#[derive(Debug, Default)]
struct Published {
    values: HashMap<String, Vec<u8>>,
    /// Number of calls of each function.
    asked: HashMap<String, u32>,
}

/// A process manager in memory. Only ranks 0 and 1 exist; the cards of all others are rank 1's.
#[derive(Clone, Debug)]
struct Place {
    rank: u32,
    size: u32,
    job: &'static str,
    published: Arc<Mutex<Published>>,
}

impl Bootstrap for Place {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job_id(&self) -> String {
        format!("{} of {}", self.job, std::process::id())
    }

    fn local_size(&self) -> u32 {
        2
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.published.lock().expect("no panic").values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let mut p = self.published.lock().expect("no panic");
        *p.asked.entry(key.to_owned()).or_default() += 1;
        let stand_in = || key.rsplit_once('-').map(|(name, _)| format!("{name}-1"));
        Ok(p.values.get(key).or_else(|| p.values.get(&stand_in()?)).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(true)
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("abort with code {code}: {message}")
    }
}

/// Ranks 0 and 1 talk, after both have made VCs to all. How often the card of rank 1 was asked for.
fn talk(job: &'static str, size: u32) -> u32 {
    let published = Arc::<Mutex<Published>>::default();
    let device = |rank| -> Device {
        let place = Place { rank, size, job, published: published.clone() };
        let mut cfg = Config::default();
        cfg.set("NETMOD", "tcp").expect("a netmod");
        Builder::new(cfg, Box::new(place)).build().expect("a device")
    };
    // Rank 0 publishes what all need.
    let (mut zero, mut one) = (device(0), device(1));
    for rank in 1..size {
        zero.set_eager_max(rank, 1000).expect("a VC");
    }
    one.set_eager_max(0, 1000).expect("a VC");
    let peer = std::thread::spawn(move || {
        let world = one.world();
        let mut word = [0; 8];
        one.recv(&mut word, 0, 7, world).expect("the connection finds the VC");
        one.send(&word, 0, 7, world).expect("its way back");
        assert_eq!(one.report().iter().map(|v| v.stats.connects).sum::<u32>(), 1);
        one.finalize().expect("finalize");
    });
    let (world, mut word) = (zero.world(), [1; 8]);
    zero.send(&[5; 8], 1, 7, world).expect("the peer's address is found");
    zero.recv(&mut word, 1, 7, world).expect("the answer");
    assert_eq!(word, [5; 8]);
    let report = zero.report();
    assert_eq!(report.len() as u32, size - 1);
    for way in report {
        assert_eq!(way.stats.connects, u32::from(way.rank == 1), "rank {}", way.rank);
        assert_eq!(way.netmod.contains("no connection"), way.rank != 1, "{}", way.netmod);
    }
    zero.finalize().expect("VCs that were never used need no peers");
    peer.join().expect("rank 1");
    let asked = &published.lock().expect("no panic").asked;
    asked.get("netmod-card-1").copied().unwrap_or(0)
}

#[test]
fn the_card_of_a_vc_that_is_used_soon_is_asked_for_once() {
    assert_eq!(talk("a small job", 3), 1);
}

#[test]
fn the_card_of_a_vc_that_others_were_made_after_is_asked_for_again() {
    assert_eq!(talk("a large job", MANY), 2);
}
