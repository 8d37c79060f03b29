//! The floor beside the netmod `ofi`: the same provider of libfabric, driven directly.
//!
//! The endpoint is apart from the device's. Receives are posted before messages are sent, as many as a window has or the provider
//! takes, and the end of a window is acknowledged, as the test of the device does it.

use std::path::Path;
use std::time::{Duration, Instant};

use ch3_shim::{Comm, Device};
use libfabric_sys::Library;
use netmod_ofi::address::show;
use netmod_ofi::choose::survey;

use super::{ACK, Direct, TAG, spins};
use crate::error::{During, Failure, Result};
use crate::sys::{Fabric, Remote};

/// Longest address, with its length in front.
const GREETING: usize = 1026;
/// Bytes that each buffer has at least.
const LEAST: usize = 4096;
/// Bytes in which a process says where its buffers are.
const PLACES: usize = 32;
/// Without any completion for so long the other process is given up.
const LOST: Duration = Duration::from_secs(120);

/// An endpoint of ranks 0 and 1 each.
#[derive(Debug)]
pub(crate) struct RawFabric {
    fabric: Fabric,
    lead: bool,
    spins: u32,
    /// Bytes that the buffers have.
    reserved: usize,
    /// The peer's buffers: what it sends, and what it receives into.
    remote: Option<[Remote; 2]>,
}

impl RawFabric {
    /// Ranks 0 and 1 both call this. Returns which domain it is, too. `crowded`: ranks share cores.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(RawFabric, String)> {
        let cfg = &dev.config().ofi;
        let path = (!cfg.library.is_empty()).then(|| Path::new(&cfg.library));
        let library = Library::load(path).during("load libfabric for the floor")?;
        let chosen = survey(&library, cfg).into_chosen().during("choose a provider for the floor")?.0;
        let offer = chosen.into_iter().next().ok_or_else(|| Failure::new("no provider was chosen"))?;
        let at = show(offer.format, &offer.address);
        let title = format!("{} on {} ({at})", offer.provider, offer.domain);
        let mut fabric = Fabric::open(library, offer).during(format!("open {title} for the floor"))?;

        let mine = fabric.address().during("find the address of the floor's endpoint")?;
        let mut greeting = [0; GREETING];
        let len = mine.len().min(GREETING - 2);
        greeting[..2].copy_from_slice(&(len as u16).to_le_bytes());
        greeting[2..2 + len].copy_from_slice(&mine[..len]);
        let mut answer = [0; GREETING];
        let lead = dev.rank() == 0;
        if lead {
            dev.send(&greeting, 1, TAG, comm)?;
            dev.recv(&mut answer, 1, TAG, comm)?;
        } else {
            dev.recv(&mut answer, 0, TAG, comm)?;
            dev.send(&greeting, 0, TAG, comm)?;
        }
        let len = usize::from(u16::from_le_bytes([answer[0], answer[1]])).min(GREETING - 2);
        fabric.set_peer(&answer[2..2 + len]).during("make the peer's address known to libfabric")?;
        Ok((RawFabric { fabric, lead, spins: spins(crowded), reserved: 0, remote: None }, title))
    }

    /// The provider's name.
    pub(crate) fn provider(&self) -> &str {
        &self.fabric.offer().provider
    }

    /// Does something until a condition holds.
    #[inline]
    fn until(&mut self, done: impl Fn(&Fabric) -> bool) -> std::result::Result<(), String> {
        let (mut vain, mut since) = (0u32, None);
        while !done(&self.fabric) {
            if self.fabric.poll()? {
                (vain, since) = (0, None);
                continue;
            }
            vain += 1;
            if vain.is_multiple_of(self.spins) {
                std::thread::yield_now();
                if since.get_or_insert_with(Instant::now).elapsed() > LOST {
                    return Err(format!("nothing has completed for {} s", LOST.as_secs()));
                }
            }
        }
        Ok(())
    }

    /// Starts an operation as soon as it goes.
    #[inline]
    fn go(
        &mut self,
        mut op: impl FnMut(&mut Fabric) -> std::result::Result<bool, String>,
    ) -> std::result::Result<(), String> {
        let mut since = None;
        while !op(&mut self.fabric)? {
            if self.fabric.poll()? {
                since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() > LOST {
                return Err(format!("the provider has refused an operation for {} s", LOST.as_secs()));
            }
        }
        Ok(())
    }

    /// Buffers of at least so many bytes, which the peer knows; what is sent ends with this process's mark.
    fn prepare(&mut self, bytes: usize) -> std::result::Result<(), String> {
        if bytes > self.reserved || self.reserved == 0 {
            let len = bytes.max(LEAST).next_power_of_two();
            self.fabric.reserve(len)?;
            self.reserved = len;
            let mut places = [0; PLACES];
            if let Some(all) = self.fabric.exposed() {
                let words = all.iter().flat_map(|(addr, key)| [*addr, *key]);
                for (at, word) in places.chunks_exact_mut(8).zip(words) {
                    at.copy_from_slice(&word.to_le_bytes());
                }
            }
            self.fabric.buffers()?.0[..PLACES].copy_from_slice(&places);
            let before = self.fabric.received();
            self.fabric.post(PLACES)?;
            self.go(|f| f.send(PLACES))?;
            self.until(|f| f.received() > before && f.is_sent())?;
            let mut words = [0; 4];
            for (word, at) in words.iter_mut().zip(self.fabric.buffers()?.1.chunks_exact(8)) {
                *word = at.try_into().map_or(0, u64::from_le_bytes);
            }
            let [a, b, c, d] = words;
            self.remote = self.fabric.offer().has_rma().then_some([(a, b), (c, d)]);
        }
        let mark = mark(self.lead);
        let (send, recv) = self.fabric.buffers()?;
        (send[bytes - 1], recv[bytes - 1]) = (mark, 0);
        Ok(())
    }

    /// What has arrived must be what the peer has sent.
    fn check(&mut self, bytes: usize) -> std::result::Result<(), String> {
        let expected = mark(!self.lead);
        match self.fabric.buffers()?.1[bytes - 1] {
            b if b == expected => Ok(()),
            b => Err(format!("wrong data: the last of {bytes} bytes is {b} instead of {expected}")),
        }
    }

    /// `iters` round trips.
    pub(crate) fn ping_pong(&mut self, bytes: usize, iters: usize) -> Result<()> {
        let mut all = || {
            self.prepare(bytes)?;
            let before = self.fabric.received();
            self.fabric.post(bytes)?;
            for i in 1..=iters as u64 {
                if self.lead {
                    self.go(|f| f.send(bytes))?;
                }
                self.until(|f| f.received() == before + i)?;
                if i < iters as u64 {
                    self.fabric.post(bytes)?;
                }
                if !self.lead {
                    self.go(|f| f.send(bytes))?;
                }
            }
            self.until(Fabric::is_sent)?;
            self.check(bytes)
        };
        all().during("play ping-pong over libfabric")
    }

    /// `count` messages one way, with an acknowledgement after each window.
    pub(crate) fn messages(&mut self, bytes: usize, window: usize, count: usize) -> Result<()> {
        let window = window.min(self.fabric.depth());
        let mut all = || {
            self.prepare(bytes)?;
            let mut received = self.fabric.received();
            let mut left = count;
            if !self.lead {
                self.posts(bytes, window.min(left))?;
            }
            while left > 0 {
                let n = window.min(left);
                left -= n;
                if self.lead {
                    self.fabric.post(ACK)?;
                    received += 1;
                    for _ in 0..n {
                        self.go(|f| f.send(bytes))?;
                    }
                    self.until(|f| f.received() == received && f.is_sent())?;
                } else {
                    received += n as u64;
                    self.until(|f| f.received() == received)?;
                    if left == 0 {
                        self.check(bytes)?;
                    }
                    self.posts(bytes, window.min(left))?;
                    self.go(|f| f.send(ACK.min(LEAST)))?;
                }
            }
            self.until(Fabric::is_sent)
        };
        all().during("send messages over libfabric")
    }

    fn posts(&mut self, bytes: usize, n: usize) -> std::result::Result<(), String> {
        (0..n).try_for_each(|_| self.fabric.post(bytes))
    }

    /// `count` messages each way at once.
    pub(crate) fn both_ways(&mut self, bytes: usize, window: usize, count: usize) -> Result<()> {
        let window = window.min(self.fabric.depth());
        let mut all = || {
            self.prepare(bytes)?;
            let mut received = self.fabric.received();
            let mut left = count;
            self.posts(bytes, window.min(left))?;
            while left > 0 {
                let n = window.min(left);
                left -= n;
                received += n as u64;
                for _ in 0..n {
                    self.go(|f| f.send(bytes))?;
                }
                self.until(|f| f.received() == received)?;
                self.posts(bytes, window.min(left))?;
                self.until(Fabric::is_sent)?;
            }
            self.check(bytes)
        };
        all().during("send messages both ways over libfabric")
    }

    /// `count` transfers by rank 0, which reads or writes; rank 1 makes progress meanwhile.
    pub(crate) fn one_sided(&mut self, direct: Direct, bytes: usize, count: usize) -> Result<()> {
        let mut all = || {
            self.prepare(bytes)?;
            let Some([sends, receives]) = self.remote else {
                return Err(format!("provider {} has no one-sided transfers", self.fabric.offer().provider));
            };
            let before = self.fabric.received();
            // The peer's memory is ready when it says so, and is let go when this side says so.
            self.fabric.post(ACK)?;
            if !self.lead {
                self.go(|f| f.send(ACK))?;
                self.until(|f| f.received() > before && f.is_sent())?;
                if direct == Direct::Write {
                    self.check(bytes)?;
                }
                return Ok(());
            }
            self.until(|f| f.received() > before)?;
            for _ in 0..count {
                self.go(|f| match direct {
                    Direct::Write => f.write(bytes, receives),
                    _ => f.read(bytes, sends),
                })?;
            }
            self.until(Fabric::is_sent)?;
            if direct == Direct::Read {
                self.check(bytes)?;
            }
            self.go(|f| f.send(ACK))?;
            self.until(Fabric::is_sent)
        };
        all().during("read or write over libfabric")
    }
}

/// What a process's messages end with.
fn mark(lead: bool) -> u8 {
    if lead { 0xa5 } else { 0x5a }
}
