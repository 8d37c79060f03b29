//! Cases in which a rank runs out of descriptors.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use ch3_shim::{Device, Error};
use netmod_core::VcErrorKind;
use netmod_tcp::TcpReport;

use super::basic::place;
use super::pattern::{bytes, check};
use super::{Args, End, Result, sys};

/// A limit that is out of nobody's reach.
const PLENTY: u64 = 256;

/// Lowers the limit so that not one more descriptor can be had.
fn use_up_descriptors() -> Result<()> {
    let lowest_free = File::open("/dev/null")?.as_raw_fd();
    sys::limit_descriptors(u64::try_from(lowest_free)?)?;
    match File::open("/dev/null") {
        Ok(_) => Err("there is still a descriptor".into()),
        Err(_) => Ok(()),
    }
}

/// A message each way.
fn greet(dev: &mut Device, peer: i32, tag: i32) -> Result<()> {
    let (me, world) = (dev.rank() as u64, dev.world());
    let mut got = vec![0; 3000];
    dev.sendrecv(&bytes(me, 3000), peer, tag, &mut got, peer, tag, world)?;
    check(peer as u64, &got)
}

/// Rank 0 knows rank 1 and has no descriptor for rank 2; rank 3 it dials later, when there are
/// descriptors again.
pub(super) fn dial(dev: &mut Device, _args: &Args) -> Result<End> {
    let (me, n) = place(dev);
    if n != 4 {
        return Err("this case is for 4 ranks".into());
    }
    let world = dev.world();
    match me {
        0 => {
            // Only rank 1 dials: of crossing dials the loser's would give its descriptor back
            // later.
            dev.recv(&mut [], 1, 9, world)?;
            use_up_descriptors()?;
            match dev.send(&bytes(0, 100), 2, 0, world) {
                Err(Error::Peer(e)) if e.kind() == VcErrorKind::Resource => {
                    let (text, limit) = (e.to_string(), "ulimit -n");
                    if !text.contains(limit) || !text.contains("rank 2") {
                        return Err(format!("the error names neither the limit nor the peer: {text}").into());
                    }
                    println!("rank 0: {text}");
                    dev.ack_failures();
                }
                other => return Err(format!("a dial without a descriptor: {other:?}").into()),
            }
            greet(dev, 1, 1)?;
            sys::limit_descriptors(PLENTY)?;
            dev.send(&[], 3, 2, world)?;
            greet(dev, 3, 2)?;
        }
        1 => {
            dev.send(&[], 0, 9, world)?;
            greet(dev, 0, 1)?;
        }
        3 => {
            dev.recv(&mut [], 0, 2, world)?;
            greet(dev, 0, 2)?;
        }
        _ => {}
    }
    Ok(End::Finalize)
}

/// Rank 1 knows rank 2, and cannot accept rank 0 before it has a descriptor again.
pub(super) fn accept(dev: &mut Device, _args: &Args) -> Result<End> {
    let (me, n) = place(dev);
    if n != 3 {
        return Err("this case is for 3 ranks".into());
    }
    let world = dev.world();
    match me {
        0 => {
            // Rank 2 says when rank 1 has none.
            dev.recv(&mut [], 2, 0, world)?;
            greet(dev, 1, 5)?;
        }
        1 => {
            greet(dev, 2, 0)?;
            use_up_descriptors()?;
            greet(dev, 2, 1)?;
            // The connection of rank 0 arrives, and the one with rank 2 goes on.
            let refused = |d: &Device| d.netmod_report::<TcpReport>().map_or(0, |r| r.stats.no_descriptor);
            while refused(dev) == 0 {
                dev.send(&[1], 2, 2, world)?;
                dev.recv(&mut [0], 2, 2, world)?;
            }
            dev.send(&[0], 2, 2, world)?;
            greet(dev, 2, 3)?;
            sys::limit_descriptors(PLENTY)?;
            greet(dev, 0, 5)?;
            println!("rank 1: {} times without a descriptor", refused(dev));
        }
        _ => {
            greet(dev, 1, 0)?;
            greet(dev, 1, 1)?;
            dev.send(&[], 0, 0, world)?;
            loop {
                let mut go_on = [0];
                dev.recv(&mut go_on, 1, 2, world)?;
                if go_on == [0] {
                    break;
                }
                dev.send(&[1], 1, 2, world)?;
            }
            greet(dev, 1, 3)?;
        }
    }
    Ok(End::Finalize)
}
