//! `lat`: half of the round trip of a message that is sent back and forth, blocking, one at a time.

use crate::error::{During, Result};
use crate::measure::{Pair, Test, Way};
use crate::sys::Traffic;

/// The ping-pong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency;

impl Test for Latency {
    fn name(&self) -> &'static str {
        "lat"
    }

    fn unit(&self) -> &'static str {
        "us"
    }

    fn floors(&self) -> &'static [&'static str] {
        &["raw spinning socket"]
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn phase(&self) -> f64 {
        0.004
    }

    fn less_is_better(&self) -> bool {
        true
    }

    fn run(
        &self,
        pair: &mut Pair<'_>,
        traffic: &mut Traffic,
        way: Way,
        bytes: usize,
        iters: usize,
    ) -> Result<()> {
        let (send, recv) = traffic.buffers().during("use the buffers")?;
        let (send, recv) = (&send[..bytes], &mut recv[..bytes]);
        if way != Way::Ours {
            return pair.raw.ping_pong(send, recv, iters);
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
