//! Messages and transfers of an endpoint that is driven directly, whatever it is of: libfabric ([`super::RawFabric`]) or verbs ([`super::RawVerbs`]).
//!
//! The endpoint is apart from the device's. Receives are posted before messages are sent, as many as a window has or the endpoint
//! takes, and the end of a window is acknowledged, as the test of the device does it.

use std::time::{Duration, Instant};

use super::{ACK, Direct};
use crate::error::{During, Result};

/// Bytes that each buffer has at least.
const LEAST: usize = 4096;
/// Bytes in which a process says where its buffers are.
const PLACES: usize = 32;
/// Without any completion for so long the other process is given up.
const LOST: Duration = Duration::from_secs(120);

/// Where a peer finds a buffer: address or offset, and key.
pub(crate) type Remote = (u64, u64);

/// An endpoint with two buffers, what is sent and what is received into, that can do what is measured. Operations say false if they do not go now; errors are
/// those of the library.
pub(crate) trait Endpoint {
    /// For people: "libfabric".
    const LIBRARY: &'static str;
    /// Why there are no one-sided transfers, if there are none.
    fn lacks_rma(&self) -> Option<String>;
    /// Operations of each kind that can be under way.
    fn depth(&self) -> usize;
    /// Receives that have completed, of all time.
    fn received(&self) -> u64;
    /// Whether nothing is under way that uses memory.
    fn is_sent(&self) -> bool;
    /// Both buffers, when nothing is under way.
    fn buffers(&mut self) -> std::result::Result<(&mut [u8], &mut [u8]), String>;
    /// Makes buffers of so many bytes in the place of the old ones.
    fn reserve(&mut self, bytes: usize) -> std::result::Result<(), String>;
    /// Where a peer finds them.
    fn exposed(&mut self) -> Option<[Remote; 2]>;
    /// Posts a receive of up to so many bytes.
    fn post(&mut self, len: usize) -> std::result::Result<(), String>;
    /// Sends so many bytes.
    fn send(&mut self, len: usize) -> std::result::Result<bool, String>;
    /// Reads so many bytes of the peer's memory.
    fn read(&mut self, len: usize, from: Remote) -> std::result::Result<bool, String>;
    /// Writes so many bytes into the peer's memory.
    fn write(&mut self, len: usize, to: Remote) -> std::result::Result<bool, String>;
    /// Makes progress; whether something has completed.
    fn poll(&mut self) -> std::result::Result<bool, String>;
    /// Lets others have the processor after many polls in vain.
    fn rest(&self) {
        std::thread::yield_now();
    }
}

/// An endpoint of ranks 0 and 1 each.
#[derive(Debug)]
pub(crate) struct Raw<E> {
    endpoint: E,
    lead: bool,
    spins: u32,
    /// Bytes that the buffers have.
    reserved: usize,
    /// The peer's buffers: what it sends, and what it receives into.
    remote: Option<[Remote; 2]>,
}

impl<E: Endpoint> Raw<E> {
    /// Of an endpoint that knows its peer. `lead`: this is the one that starts; `spins`: looks in vain after which the processor is offered to others.
    pub(crate) fn new(endpoint: E, lead: bool, spins: u32) -> Raw<E> {
        Raw { endpoint, lead, spins, reserved: 0, remote: None }
    }

    /// What it drives.
    pub(crate) fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Does something until a condition holds.
    #[inline]
    fn until(&mut self, done: impl Fn(&E) -> bool) -> std::result::Result<(), String> {
        let (mut vain, mut since) = (0u32, None);
        while !done(&self.endpoint) {
            if self.endpoint.poll()? {
                (vain, since) = (0, None);
                continue;
            }
            vain += 1;
            if vain.is_multiple_of(self.spins) {
                self.endpoint.rest();
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
        mut op: impl FnMut(&mut E) -> std::result::Result<bool, String>,
    ) -> std::result::Result<(), String> {
        let mut since = None;
        while !op(&mut self.endpoint)? {
            if self.endpoint.poll()? {
                since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() > LOST {
                return Err(format!("the library has refused an operation for {} s", LOST.as_secs()));
            }
        }
        Ok(())
    }

    /// Buffers of at least so many bytes, which the peer knows; what is sent ends with this process's mark.
    fn prepare(&mut self, bytes: usize) -> std::result::Result<(), String> {
        if bytes > self.reserved || self.reserved == 0 {
            let len = bytes.max(LEAST).next_power_of_two();
            self.endpoint.reserve(len)?;
            self.reserved = len;
            let mut places = [0; PLACES];
            if let Some(all) = self.endpoint.exposed() {
                let words = all.iter().flat_map(|(addr, key)| [*addr, *key]);
                for (at, word) in places.chunks_exact_mut(8).zip(words) {
                    at.copy_from_slice(&word.to_le_bytes());
                }
            }
            self.endpoint.buffers()?.0[..PLACES].copy_from_slice(&places);
            let before = self.endpoint.received();
            self.endpoint.post(PLACES)?;
            self.go(|f| f.send(PLACES))?;
            self.until(|f| f.received() > before && f.is_sent())?;
            let mut words = [0; 4];
            for (word, at) in words.iter_mut().zip(self.endpoint.buffers()?.1.chunks_exact(8)) {
                *word = at.try_into().map_or(0, u64::from_le_bytes);
            }
            let [a, b, c, d] = words;
            self.remote = Some([(a, b), (c, d)]);
        }
        let mark = mark(self.lead);
        let (send, recv) = self.endpoint.buffers()?;
        (send[bytes - 1], recv[bytes - 1]) = (mark, 0);
        Ok(())
    }

    /// What has arrived must be what the peer has sent.
    fn check(&mut self, bytes: usize) -> std::result::Result<(), String> {
        let expected = mark(!self.lead);
        match self.endpoint.buffers()?.1[bytes - 1] {
            b if b == expected => Ok(()),
            b => Err(format!("wrong data: the last of {bytes} bytes is {b} instead of {expected}")),
        }
    }

    /// `iters` round trips.
    pub(crate) fn ping_pong(&mut self, bytes: usize, iters: usize) -> Result<()> {
        let mut all = || {
            self.prepare(bytes)?;
            let before = self.endpoint.received();
            self.endpoint.post(bytes)?;
            for i in 1..=iters as u64 {
                if self.lead {
                    self.go(|f| f.send(bytes))?;
                }
                self.until(|f| f.received() == before + i)?;
                if i < iters as u64 {
                    self.endpoint.post(bytes)?;
                }
                if !self.lead {
                    self.go(|f| f.send(bytes))?;
                }
            }
            self.until(E::is_sent)?;
            self.check(bytes)
        };
        all().during(format!("play ping-pong over {}", E::LIBRARY))
    }

    /// `count` messages one way, with an acknowledgement after each window.
    pub(crate) fn messages(&mut self, bytes: usize, window: usize, count: usize) -> Result<()> {
        let window = window.min(self.endpoint.depth());
        let mut all = || {
            self.prepare(bytes)?;
            let mut received = self.endpoint.received();
            let mut left = count;
            if !self.lead {
                self.posts(bytes, window.min(left))?;
            }
            while left > 0 {
                let n = window.min(left);
                left -= n;
                if self.lead {
                    self.endpoint.post(ACK)?;
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
                    self.go(|f| f.send(ACK))?;
                }
            }
            self.until(E::is_sent)
        };
        all().during(format!("send messages over {}", E::LIBRARY))
    }

    fn posts(&mut self, bytes: usize, n: usize) -> std::result::Result<(), String> {
        (0..n).try_for_each(|_| self.endpoint.post(bytes))
    }

    /// `count` messages each way at once.
    pub(crate) fn both_ways(&mut self, bytes: usize, window: usize, count: usize) -> Result<()> {
        let window = window.min(self.endpoint.depth());
        let mut all = || {
            self.prepare(bytes)?;
            let mut received = self.endpoint.received();
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
                self.until(E::is_sent)?;
            }
            self.check(bytes)
        };
        all().during(format!("send messages both ways over {}", E::LIBRARY))
    }

    /// `count` transfers from rank 0 to rank 1, as messages go: rank 0 writes, or rank 1 reads. The other one makes progress meanwhile.
    pub(crate) fn one_sided(&mut self, direct: Direct, bytes: usize, count: usize) -> Result<()> {
        let mut all = || {
            self.prepare(bytes)?;
            if let Some(why) = self.endpoint.lacks_rma() {
                return Err(why);
            }
            let Some([sends, receives]) = self.remote else { return Err("the peer has no memory".into()) };
            // The peer's memory is ready when it says so, and is let go when this side says so. That everything is there the peer says, too: what
            // is written may have left this process and still be on its way.
            let acts = self.lead == (direct == Direct::Write);
            let before = self.endpoint.received();
            if !acts {
                self.endpoint.post(ACK)?;
                self.go(|f| f.send(ACK))?;
                self.until(|f| f.received() > before && f.is_sent())?;
                if direct == Direct::Write {
                    self.check(bytes)?;
                }
                self.go(|f| f.send(ACK))?;
                return self.until(E::is_sent);
            }
            self.endpoint.post(ACK)?;
            self.until(|f| f.received() > before)?;
            for _ in 0..count {
                self.go(|f| match direct {
                    Direct::Write => f.write(bytes, receives),
                    _ => f.read(bytes, sends),
                })?;
            }
            self.until(E::is_sent)?;
            if direct == Direct::Read {
                self.check(bytes)?;
            }
            self.endpoint.post(ACK)?;
            self.go(|f| f.send(ACK))?;
            self.until(|f| f.received() > before + 1 && f.is_sent())
        };
        all().during(format!("read or write over {}", E::LIBRARY))
    }
}

/// What a process's messages end with.
fn mark(lead: bool) -> u8 {
    if lead { 0xa5 } else { 0x5a }
}
