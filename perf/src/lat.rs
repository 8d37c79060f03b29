//! `lat`: half the round trip of a blocking ping-pong, one message at a time.

use crate::error::{During, Result};
use crate::floor::{Bare, CELL, Cache, Medium};
use crate::measure::{Floor, Pair, Test, Variant};
use crate::sys::Traffic;

/// The ping-pong test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency;

impl Test for Latency {
    fn name(&self) -> &'static str {
        "lat"
    }

    fn unit(&self) -> &'static str {
        "us"
    }

    fn floors(&self, medium: Medium, bytes: usize) -> &'static [Floor] {
        match medium {
            Medium::Network => const { &[Floor::new("raw spinning socket")] },
            Medium::Fabric => const { &[Floor::new("libfabric, called directly")] },
            Medium::Verbs => const { &[Floor::new("verbs, called directly")] },
            Medium::Memory if bytes <= CELL => const { &[Floor::new("a cache line from core to core")] },
            Medium::Memory => {
                const {
                    &[
                        Floor::new("copied into shared memory and out of it"),
                        Floor::beside(Cache::Hot),
                        Floor::beside(Cache::Cold),
                    ]
                }
            }
        }
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn phase(&self) -> f64 {
        0.004
    }

    fn run(
        &self,
        pair: &mut Pair<'_>,
        traffic: &mut Traffic,
        variant: Variant,
        bytes: usize,
        iters: usize,
    ) -> Result<()> {
        let (send, recv) = traffic.buffers().during("use the buffers")?;
        let (send, recv) = (&send[..bytes], &mut recv[..bytes]);
        if let Variant::Floor(k) = variant {
            return match (&mut pair.bare, k) {
                (Bare::Socket(socket), _) => socket.ping_pong(send, recv, iters),
                (Bare::Memory(memory), 0) => memory.ping_pong(send, recv, iters),
                (Bare::Fabric(fabric), _) => fabric.ping_pong(bytes, iters),
                (Bare::Verbs(verbs), _) => verbs.ping_pong(bytes, iters),
                // The number of copies is that of messages, both directions counted.
                (Bare::Memory(memory), 1) => memory.memcpy(Cache::Hot, send, recv, 2 * iters),
                (Bare::Memory(memory), _) => memory.memcpy(Cache::Cold, send, recv, 2 * iters),
            };
        }
        let to = pair.to();
        for _ in 0..iters {
            if pair.lead {
                pair.dev.send(send, to.peer, to.tag, to.comm)?;
                pair.dev.recv(recv, to.peer, to.tag, to.comm)?;
            } else {
                pair.dev.recv(recv, to.peer, to.tag, to.comm)?;
                pair.dev.send(send, to.peer, to.tag, to.comm)?;
            }
        }
        Ok(())
    }

    fn value(&self, seconds: f64, _bytes: usize, iters: usize) -> f64 {
        seconds * 1e6 / (2 * iters) as f64
    }
}
