//! Messages and transfers of an endpoint that is driven directly: libfabric's
//! ([`super::RawFabric`]) or verbs' ([`super::RawVerbs`]).
//!
//! The endpoint is independent of the device. Receives are posted before messages are sent, as many
//! as a window needs or the endpoint takes. The end of a window is acknowledged, as in the test of
//! the device.

use std::time::{Duration, Instant};

use super::{ACK, Direct};
use crate::error::{During, Result};

/// Minimum length of each buffer, in bytes.
const LEAST: usize = 4096;
/// Length of the message that describes a process's buffers, in bytes.
const REMOTE_LEN: usize = 32;
/// Time without any completion after which the other process is presumed dead.
const LOST: Duration = Duration::from_secs(120);

/// A buffer as its peer addresses it: address or offset, and key.
pub(crate) type Remote = (u64, u64);

/// An endpoint with a send buffer and a receive buffer. Operations return false if they cannot
/// start now; errors are the library's.
pub(crate) trait Endpoint {
    /// Human-readable name of the library: "libfabric".
    const LIBRARY: &'static str;
    /// Returns the reason if there are no one-sided transfers.
    fn lacks_rma(&self) -> Option<String>;
    /// Returns the number of operations of each kind that can be in flight.
    fn depth(&self) -> usize;
    /// Returns the total number of completed receives.
    fn received(&self) -> u64;
    /// Returns true if no outgoing operation uses the buffers.
    fn is_sent(&self) -> bool;
    /// Returns both buffers. Fails while an operation is in flight.
    fn buffers(&mut self) -> std::result::Result<(&mut [u8], &mut [u8]), String>;
    /// Replaces the buffers by new ones of this length.
    fn reserve(&mut self, bytes: usize) -> std::result::Result<(), String>;
    /// Returns the buffers as the peer addresses them.
    fn exposed(&mut self) -> Option<[Remote; 2]>;
    /// Posts a receive of up to `len` bytes.
    fn post(&mut self, len: usize) -> std::result::Result<(), String>;
    /// Sends `len` bytes.
    fn send(&mut self, len: usize) -> std::result::Result<bool, String>;
    /// Reads `len` bytes of the peer's memory.
    fn read(&mut self, len: usize, from: Remote) -> std::result::Result<bool, String>;
    /// Writes `len` bytes into the peer's memory.
    fn write(&mut self, len: usize, to: Remote) -> std::result::Result<bool, String>;
    /// Makes progress. Returns true if anything has completed.
    fn poll(&mut self) -> std::result::Result<bool, String>;
    /// Gives up the processor after many empty polls.
    fn rest(&self) {
        std::thread::yield_now();
    }
}

/// The endpoint of rank 0 or 1, connected with the other one's.
#[derive(Debug)]
pub(crate) struct Raw<E> {
    endpoint: E,
    lead: bool,
    spins: u32,
    /// Length of the buffers in bytes.
    reserved: usize,
    /// The peer's send buffer and receive buffer.
    remote: Option<[Remote; 2]>,
}

impl<E: Endpoint> Raw<E> {
    /// Wraps an endpoint that is connected. `lead`: this side starts. `spins`: number of empty
    /// polls before the processor is offered to others.
    pub(crate) fn new(endpoint: E, lead: bool, spins: u32) -> Raw<E> {
        Raw { endpoint, lead, spins, reserved: 0, remote: None }
    }

    /// Returns the endpoint.
    pub(crate) fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Polls until a condition holds.
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

    /// Starts an operation, polling until it can start.
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

    /// Makes buffers of at least `bytes` and exchanges their addresses. The sent data ends with
    /// this process's mark.
    fn prepare(&mut self, bytes: usize) -> std::result::Result<(), String> {
        if bytes > self.reserved || self.reserved == 0 {
            let len = bytes.max(LEAST).next_power_of_two();
            self.endpoint.reserve(len)?;
            self.reserved = len;
            let mut remote = [0; REMOTE_LEN];
            if let Some(all) = self.endpoint.exposed() {
                let words = all.iter().flat_map(|(addr, key)| [*addr, *key]);
                for (at, word) in remote.chunks_exact_mut(8).zip(words) {
                    at.copy_from_slice(&word.to_le_bytes());
                }
            }
            self.endpoint.buffers()?.0[..REMOTE_LEN].copy_from_slice(&remote);
            let before = self.endpoint.received();
            self.endpoint.post(REMOTE_LEN)?;
            self.go(|f| f.send(REMOTE_LEN))?;
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

    /// Checks that the received data is the peer's.
    fn check(&mut self, bytes: usize) -> std::result::Result<(), String> {
        let expected = mark(!self.lead);
        match self.endpoint.buffers()?.1[bytes - 1] {
            b if b == expected => Ok(()),
            b => Err(format!("wrong data: the last of {bytes} bytes is {b} instead of {expected}")),
        }
    }

    /// Does `iters` round trips.
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

    /// Sends `count` messages in one direction, with an acknowledgement after each window.
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

    /// Sends `count` messages in both directions at once.
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

    /// Moves data `count` times from rank 0 to rank 1: rank 0 writes, or rank 1 reads. The other
    /// rank makes progress meanwhile.
    pub(crate) fn one_sided(&mut self, direct: Direct, bytes: usize, count: usize) -> Result<()> {
        let mut all = || {
            self.prepare(bytes)?;
            if let Some(why) = self.endpoint.lacks_rma() {
                return Err(why);
            }
            let Some([sends, receives]) = self.remote else { return Err("the peer has no memory".into()) };
            // The passive side announces that its memory is ready; the active side releases it. The
            // passive side also confirms completion: written data may have left this process and
            // still be in transit.
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

/// Returns the last byte of a process's messages.
fn mark(lead: bool) -> u8 {
    if lead { 0xa5 } else { 0x5a }
}
