//! A case that hangs until it is told to go on, to be looked at meanwhile.

use std::path::Path;
use std::time::Duration;

use ch3_shim::Device;

use super::basic::place;
use super::{Args, End, Result};

/// The environment variable with the file whose existence ends the hang.
pub const GO: &str = "NETMOD_TEST_GO";

/// Rank 0 is outside the library. The last rank has a rendezvous send to it that nobody matches;
/// all others wait for a message from it with tag 5.
pub(super) fn hang(dev: &mut Device, _: &Args) -> Result<End> {
    let file = std::env::var_os(GO).ok_or("NETMOD_TEST_GO does not name a file")?;
    let (me, n) = place(dev);
    let world = dev.world();
    let large = 1 << 20;
    // Connections are made while both sides are in the library.
    let mut greeting = [0];
    for peer in if me > 0 { 0..1 } else { 1..n } {
        dev.sendrecv(&[1], peer, 1, &mut greeting, peer, 1, world)?;
    }
    if me > 0 {
        let send = (me == n - 1).then(|| dev.isend(vec![me as u8; large], 0, 6, world)).transpose()?;
        if let Some(send) = send {
            dev.wait(send)?;
        }
        dev.recv(&mut [0; 16], 0, 5, world)?;
        return Ok(End::Finalize);
    }
    while !Path::new(&file).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut got = vec![0; large];
    dev.recv(&mut got, n - 1, 6, world)?;
    for to in 1..n {
        dev.send(&[1; 16], to, 5, world)?;
    }
    Ok(End::Finalize)
}
