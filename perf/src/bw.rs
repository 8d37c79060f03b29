//! `bw` and `bibw`: windows of large messages, in one direction and in both at once.

use crate::error::{During, Result};
use crate::floor::{ACK, Bare, Cache, Direct, Medium, Waiting};
use crate::measure::{ACKS, Floor, Pair, Test, Variant};
use crate::sys::Traffic;

/// Sends a window of messages, then waits for a short acknowledgement, repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    /// Messages in flight.
    pub(crate) window: usize,
    /// True for both directions at once.
    pub(crate) both: bool,
    /// Transfer method of the libfabric or verbs floor.
    pub(crate) direct: Direct,
}

/// Receives (rank 0) or sends (rank 1) the acknowledgement of a window.
#[inline]
pub(crate) fn acknowledge(pair: &mut Pair<'_>) -> Result<()> {
    if pair.lead {
        pair.dev.recv(&mut [0; ACK], pair.peer, ACKS, pair.comm)?;
    } else {
        pair.dev.send(&[1; ACK], pair.peer, ACKS, pair.comm)?;
    }
    Ok(())
}

impl Test for Bandwidth {
    fn name(&self) -> &'static str {
        if self.both { "bibw" } else { "bw" }
    }

    fn unit(&self) -> &'static str {
        "MB/s"
    }

    fn floors(&self, medium: Medium, _bytes: usize) -> &'static [Floor] {
        match (medium, self.both) {
            (Medium::Network, true) => const { &[Floor::new("raw socket both ways, spinning")] },
            (Medium::Network, false) => {
                const { &[Floor::new("raw stream, spinning"), Floor::new("raw stream, blocking")] }
            }
            (Medium::Fabric, true) => const { &[Floor::new("libfabric both ways, called directly")] },
            (Medium::Fabric, false) => match self.direct {
                Direct::Messages => const { &[Floor::new("libfabric's messages, called directly")] },
                Direct::Read => const { &[Floor::new("fi_read, called directly")] },
                Direct::Write => const { &[Floor::new("fi_write, called directly")] },
            },
            (Medium::Verbs, true) => const { &[Floor::new("verbs both ways, called directly")] },
            (Medium::Verbs, false) => match self.direct {
                Direct::Messages => const { &[Floor::new("verbs' messages, called directly")] },
                Direct::Read => const { &[Floor::new("RDMA read, called directly")] },
                Direct::Write => const { &[Floor::new("RDMA write, called directly")] },
            },
            (Medium::Memory, true) => const { &[Floor::new("hot memcpy on both cores")] },
            (Medium::Memory, false) => {
                const { &[Floor::new("hot memcpy on one core"), Floor::beside(Cache::Cold)] }
            }
        }
    }

    fn window(&self) -> Option<usize> {
        Some(self.window)
    }

    fn phase(&self) -> f64 {
        0.03
    }

    fn run(
        &self,
        pair: &mut Pair<'_>,
        traffic: &mut Traffic,
        variant: Variant,
        bytes: usize,
        iters: usize,
    ) -> Result<()> {
        if let Variant::Floor(k) = variant {
            let (send, recv) = traffic.buffers().during("use the buffers")?;
            let send = &send[..bytes];
            let count = self.window * iters;
            return match (&mut pair.bare, self.both, k) {
                (Bare::Socket(s), true, _) => s.both_ways(send, &mut recv[..bytes], count),
                (Bare::Socket(s), false, 0) => s.stream(Waiting::Spinning, send, recv, count),
                (Bare::Socket(s), false, _) => s.stream(Waiting::Blocking, send, recv, count),
                (Bare::Fabric(f), true, _) => f.both_ways(bytes, self.window, count),
                (Bare::Fabric(f), false, _) => match self.direct {
                    Direct::Messages => f.messages(bytes, self.window, count),
                    one_sided => f.one_sided(one_sided, bytes, count),
                },
                (Bare::Verbs(v), true, _) => v.both_ways(bytes, self.window, count),
                (Bare::Verbs(v), false, _) => match self.direct {
                    Direct::Messages => v.messages(bytes, self.window, count),
                    one_sided => v.one_sided(one_sided, bytes, count),
                },
                (Bare::Memory(m), true, _) => m.memcpy_both(send, recv, count),
                (Bare::Memory(m), false, 0) => m.memcpy(Cache::Hot, send, recv, count),
                (Bare::Memory(m), false, _) => m.memcpy(Cache::Cold, send, recv, count),
            };
        }
        let to = pair.to();
        let (sends, recvs) = match (self.both, pair.lead) {
            (true, _) => (self.window, self.window),
            (false, true) => (self.window, 0),
            (false, false) => (0, self.window),
        };
        for _ in 0..iters {
            traffic.window(pair.dev, to, bytes, sends, recvs)?;
            acknowledge(pair)?;
        }
        Ok(())
    }

    fn value(&self, seconds: f64, bytes: usize, iters: usize) -> f64 {
        let directions = if self.both { 2.0 } else { 1.0 };
        directions * (bytes * self.window * iters) as f64 / seconds / 1e6
    }
}
