//! `rate`: rate of small messages between one pair of ranks, counted like osu_mbw_mr.

use crate::bw::acknowledge;
use crate::error::{During, Result};
use crate::floor::{Bare, CELL, Medium};
use crate::measure::{Floor, Pair, Test, Variant};
use crate::sys::Traffic;

/// Sends a window of small messages, waits for all of them and for a short acknowledgement,
/// repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Messages in flight.
    pub(crate) window: usize,
}

impl Test for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn unit(&self) -> &'static str {
        "msg/s"
    }

    fn floors(&self, medium: Medium, bytes: usize) -> &'static [Floor] {
        match medium {
            Medium::Network => const { &[Floor::new("raw socket, one system call a message")] },
            Medium::Fabric => const { &[Floor::new("libfabric, called directly")] },
            Medium::Verbs => const { &[Floor::new("verbs, called directly")] },
            Medium::Memory if bytes <= CELL => {
                const { &[Floor::new("a cache line a message, through a ring in shared memory")] }
            }
            Medium::Memory => const { &[Floor::new("copied into shared memory and out of it")] },
        }
    }

    fn window(&self) -> Option<usize> {
        Some(self.window)
    }

    fn phase(&self) -> f64 {
        0.005
    }

    fn floor_iters(&self, medium: Medium, iters: usize) -> usize {
        match medium {
            Medium::Network => iters / 10,
            Medium::Memory | Medium::Fabric | Medium::Verbs => iters,
        }
    }

    fn run(
        &self,
        pair: &mut Pair<'_>,
        traffic: &mut Traffic,
        variant: Variant,
        bytes: usize,
        iters: usize,
    ) -> Result<()> {
        if variant != Variant::Ours {
            let (send, recv) = traffic.buffers().during("use the buffers")?;
            return match &mut pair.bare {
                Bare::Socket(socket) => socket.messages(&send[..bytes], recv, self.window, iters),
                Bare::Memory(memory) => memory.messages(&send[..bytes], recv, self.window, iters),
                Bare::Fabric(fabric) => fabric.messages(bytes, self.window, self.window * iters),
                Bare::Verbs(verbs) => verbs.messages(bytes, self.window, self.window * iters),
            };
        }
        let to = pair.to();
        let (sends, recvs) = if pair.lead { (self.window, 0) } else { (0, self.window) };
        for _ in 0..iters {
            traffic.window(pair.dev, to, bytes, sends, recvs)?;
            acknowledge(pair)?;
        }
        Ok(())
    }

    fn value(&self, seconds: f64, _bytes: usize, iters: usize) -> f64 {
        (self.window * iters) as f64 / seconds
    }
}
