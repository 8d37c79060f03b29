//! Cases about waiting: what it costs while nothing comes.

use std::time::Duration;

use ch3_shim::Device;

use super::basic::place;
use super::{Args, End, Result, sys};

/// Of a processor's time, in percent, that a rank may use while it waits.
const BUSY_PERCENT: u128 = 1;

/// All ranks but 0 wait for a message while rank 0 sleeps.
pub(super) fn idle(dev: &mut Device, args: &Args) -> Result<End> {
    let nap = Duration::from_millis(args.get(0, 3000));
    let ((me, n), world) = (place(dev), dev.world());
    // Connections are up, and what they have to say has been said.
    dev.barrier(world)?;
    dev.barrier(world)?;
    if me == 0 {
        std::thread::sleep(nap);
        for rank in 1..n {
            dev.send(&[1], rank, 0, world)?;
        }
        return Ok(End::Finalize);
    }
    let before = sys::cpu_time()?;
    dev.recv(&mut [0], 0, 0, world)?;
    let used = sys::cpu_time()?.saturating_sub(before);
    if used.as_nanos() * 100 > nap.as_nanos() * BUSY_PERCENT {
        return Err(format!("waiting for {nap:?} took {used:?} of a processor").into());
    }
    Ok(End::Finalize)
}
